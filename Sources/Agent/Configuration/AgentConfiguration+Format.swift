import SyncCore
package import SyncYAML

// Every key of `agentd.yaml`: its name, its place in the value, its range. Reading, listing, comparing and writing back use these tables.
// `etc/agentd.yaml` explains each key, and a test compares the two.

extension AgentConfiguration {
    package static var knownKeys: [KnownKey] {
        format(accounts: Accounts(ownUser: 0, user: { _ in nil }, group: { _ in nil })).keys
    }

    static func format(accounts: Accounts) -> Format<AgentConfiguration> {
        .mapping(
            AgentConfiguration(hub: .notGiven, accounts: accounts),
            [
                .key("hub", \.hub, Hub.format, isRequired: true),
                .key("adapter", \.adapter, .word),
                .optional("rest", \.rest, RestMapping.format),
                .key("socket", \.socket, Socket.format(accounts)),
                .key("access", \.access, AccessRules.format(accounts)),
                .key("store", \.store, Store.format),
                .key("entities", \.rules.entities, EntitySettings.entities),
                .key("strict_entities", \.rules.isStrict, .boolean),
                .key("sync", \.sync, Sync.format),
                .key("probe", \.probe, Probe.format),
                .key("links", \.links, LinkRule.listFormat),
                .key("power", \.power, Power.format),
                .key("metered", \.metered, Metered.format),
                .key("blobs", \.blobs, Blobs.format),
                .key("log", \.log, Log.format),
                .key("locked", \.locked, .list(.lockableKey, upTo: 100)),
            ],
            check: { configuration, root, reading in
                EntitySettings.checkReferences(configuration.rules, root, &reading)
                RestMapping.checkEntities(configuration, root, &reading)
                configuration.access.checkEntities(configuration.rules, root, &reading)
            })
    }
}

extension Format where Value == String {
    /// A key, or all keys below it.
    fileprivate static var lockableKey: Format {
        .text(
            expected: "a key that a hub may say, such as sync.pull_interval; they begin with "
                + ServerConfiguration.keys.sorted().joined(separator: ", "),
            parse: { text in
                let first = text.split(separator: ".", omittingEmptySubsequences: false).first.map(String.init)
                return first.map { ServerConfiguration.keys.contains($0) } ?? false ? text : nil
            }, write: { .string($0) })
    }
}

extension AgentConfiguration.Hub {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(url: .notGiven),
            [
                .key("url", \.url, .serviceURL(plain: .loopbackOnly), isRequired: true),
                .optional("device", \.device, .identifier()),
                .optional("token_file", \.tokenFile, .path(hidesValue: true)),
                .optional("ca_file", \.caFile, .path()),
                .optional("client_cert_file", \.clientCertificateFile, .path()),
                .optional("client_key_file", \.clientKeyFile, .path(hidesValue: true)),
                .optional("pin", \.pin, .publicKeyPins),
                .optional("proxy", \.proxy, .proxyURL),
                .optional("proxy_credentials_file", \.proxyCredentialsFile, .path(hidesValue: true)),
                .key("no_proxy", \.noProxy, .list(.proxyException, upTo: 100)),
            ],
            check: { hub, node, reading in
                let ofProxy = [("proxy_credentials_file", hub.proxyCredentialsFile != nil), ("no_proxy", !hub.noProxy.isEmpty)]
                for (key, isGiven) in ofProxy where isGiven && hub.proxy == nil {
                    reading.report(node.deepest([key]).position, below: key, problem: "is alone", expected: "proxy beside it")
                }
                let pair = [("client_cert_file", hub.clientCertificateFile), ("client_key_file", hub.clientKeyFile)]
                guard let given = pair.first(where: { $0.1 != nil }), let missing = pair.first(where: { $0.1 == nil })
                else { return }
                let place = node.deepest([given.0]).position
                reading.report(place, below: given.0, problem: "is alone", expected: "\(missing.0) beside it")
            })
    }
}

extension AgentConfiguration.Socket {
    fileprivate static func format(_ accounts: Accounts) -> Format<Self> {
        .mapping(
            Self(group: accounts.named(group: Self.defaultGroup)),
            [
                // unix(7): `sun_path` has 108 bytes, one of them for the final NUL.
                .key("path", \.path, .path(upTo: 107)),
                .optional("group", \.group, .group(accounts)),
                .key("mode", \.mode, .socketMode),
            ])
    }
}

extension AgentConfiguration.Store {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                .key("path", \.path, .path()),
                .key("max_size", \.maxSizeBytes, .size(8_000_000...64_000_000_000)),
                .key("min_free", \.minFreeBytes, .size(1_000_000...64_000_000_000)),
                .key("ballast", \.ballastBytes, .size(0...256_000_000)),
                .key("max_mutations", \.maxMutations, .integer(100...10_000_000)),
            ],
            check: { store, node, reading in
                if store.ballastBytes >= store.maxSizeBytes {
                    let place = node.deepest(["ballast"]).position
                    reading.report(place, below: "ballast", problem: "is not less than max_size")
                }
            })
    }
}

extension AgentConfiguration.Sync {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                .key("pull_interval", \.pullInterval, .duration(.seconds(1)...(.days(7)))),
                .key("metered_pull_interval", \.meteredPullInterval, .duration(.seconds(60)...(.days(7)))),
                .key("debounce", \.debounce, .duration(.zero...(.seconds(60)))),
                .key("max_backoff", \.maxBackoff, .duration(.seconds(1)...(.seconds(3_600)))),
                // A listing may be postponed by 30 days at most; tombstones at the hub are kept for 90.
                .key("full_sync", \.fullSync, .duration(.seconds(3_600)...(.days(30)))),
                .key("compress_over", \.compressOverBytes, .size(0...Limits.batchBytesMax)),
                .key("windows", \.windows, .list(.timeWindow, upTo: 50)),
                .key("windows_hold", \.windowsHold, .word),
                .key("wait_for_news", \.waitForNews, .word),
            ])
    }
}

extension AgentConfiguration.Probe {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                // It carries no credentials and no data, and a captive portal is detected best over plain HTTP.
                .key("url", \.url, .serviceURLOrEmpty(plain: .anywhere)),
                .key("interval", \.interval, .duration(.seconds(10)...(.days(1)))),
                .key("timeout", \.timeout, .duration(.milliseconds(500)...(.seconds(60)))),
            ],
            check: { probe, node, reading in
                if probe.timeout > probe.interval {
                    let place = node.deepest(["timeout"]).position
                    reading.report(place, below: "timeout", problem: "is longer than interval")
                }
            })
    }
}

extension AgentConfiguration.Power {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                .key("low", \.lowPercent, .share(0...90)),
                .key("saver", \.saverPercent, .share(0...95)),
                .key("margin", \.marginPercent, .share(1...20)),
                .key("allow_critical", \.allowsCritical, .boolean),
                .key("sysfs_root", \.sysfsRoot, .path()),
            ],
            check: { power, node, reading in
                func report(_ key: String, _ problem: String) {
                    reading.report(node.deepest([key]).position, below: key, problem: problem)
                }
                let (low, saver, margin) = (power.lowPercent, power.saverPercent, power.marginPercent)
                if low > 0, saver > 0, low + margin > saver {
                    let key = ["low", "saver", "margin"].first { node[$0] != nil } ?? "low"
                    report(
                        key, "leaves no room: low \(low)% and margin \(margin)% together are more than saver \(saver)%")
                }
                if saver + margin > 100 {
                    report("margin", "leaves no room: saver \(saver)% and margin \(margin)% are more than 100%")
                }
            })
    }
}

extension AgentConfiguration.Metered {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                .key("max_age", \.maxAge, .duration(.seconds(60)...(.days(30)))),
                .key("files_max_age", \.filesMaxAge, .duration(.seconds(60)...(.days(90)))),
            ])
    }
}

extension AgentConfiguration.Blobs {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                .key("large", \.largeBytes, .size(0...1_000_000_000)),
                .key("concurrent", \.concurrent, .integer(1...8)),
                .key("attempts", \.attempts, .integer(1...100)),
                // The hub accepts 2 GiB.
                .key("max_size", \.maxSizeBytes, .size(1_000...(2 << 30))),
                .key("fetch_max_size", \.fetchMaxSizeBytes, .size(1_000...(2 << 30))),
                .key("upload_url", \.uploadURL, .serviceURLOrEmpty(plain: .loopbackOnly)),
                .key("verify", \.verify, .word),
                .key("gate", \.gate, .word),
                .key("quota", \.quotaBytes, .size(1_000_000...1_000_000_000_000)),
                .key("keep", \.keptFor, .duration(.seconds(60)...(.days(400)))),
                .key("import_dirs", \.importDirectories, .list(.path(), upTo: 16)),
            ])
    }
}

extension AgentConfiguration.Log {
    fileprivate static var format: Format<Self> {
        .mapping(Self(), [.key("level", \.level, .word), .key("format", \.format, .word)])
    }
}
