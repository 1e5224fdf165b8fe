// Checks of the way to the hub, and of its cost.
extension Doctor {
    /// Time before the end of a certificate or token from which on it is reported.
    package static let endsSoon: Duration = .seconds(21 * 86_400)
    static let endsVerySoon: Duration = .seconds(5 * 86_400)

    /// - Parameter fix: The action that renews it.
    private static func end(_ what: String, _ end: Timestamp, _ now: Timestamp, fix: String) -> DoctorVerdict {
        let left = now.duration(to: end)
        if left <= .zero { return .bad("\(what) ended \(DurationText.rough(.zero - left)) ago (\(end))", fix: fix) }
        if left < endsVerySoon { return .bad("\(what) ends in \(DurationText.rough(left)) (\(end))", fix: fix) }
        if left < endsSoon { return .warn("\(what) ends in \(DurationText.rough(left)) (\(end))", fix: fix) }
        return .ok("\(what) is good for \(DurationText.rough(left))")
    }

    static let networkChecks: [DoctorCheck] = [
        DoctorCheck("link", why: "without a link with an address and a route nothing can be sent") { facts in
            guard let links = facts.links else { return .unknown(noAgent) }
            if let uplink = links.uplink { return .ok("the sync goes over \(uplink)") }
            let names = links.all.filter { $0.kind != .loopback }.map(\.name)
            let found =
                names.isEmpty
                ? "there is no network interface"
                : "none of \(names.joined(separator: ", ")) has carrier, an address and a route to the hub"
            return .bad(found, fix: "ip -brief address; ip route; agentctl links")
        },
        DoctorCheck("dns", why: "the hub is found by its name") { facts in
            guard let hub = facts.hub else { return .unknown(noAgent) }
            if hub.isAddress {
                return .ok("\(hub.place.proxy == nil ? "hub.url" : "hub.proxy") is an address; there is no name to look up")
            }
            let server = hub.place.proxyHost == nil ? "hub" : "proxy"
            if let fault = hub.fault, fault.code == .unresolved { return .bad(fault.detail, fix: fault.command(at: hub.place)) }
            switch hub.isResolved {
            case true?: return .ok("the \(server)'s name has an address")
            case false?: return .bad("the \(server)'s name has no address now", fix: HubFault(.unresolved, "").command(at: hub.place))
            case nil: return .unknown("not asked for yet")
            }
        },
        DoctorCheck("proxy", why: "where one is set, every request to the hub goes through it") { facts in
            guard let hub = facts.hub else { return .unknown(noAgent) }
            guard let proxy = hub.place.proxy else { return .ok("none: the hub is asked directly, whatever the environment says") }
            if let fault = hub.fault, fault.isProxyAsking, facts.system?.proxyCredentials?.fault == nil {
                return .bad(fault.detail, fix: fault.command(at: hub.place))
            }
            guard let credentials = facts.system?.proxyCredentials else { return .ok("\(proxy), without credentials") }
            let file = credentials.path ?? "hub.proxy_credentials_file"
            if let fault = credentials.fault {
                return .bad(fault, fix: hub.place.proxyCredentialsCommand)
            }
            return .ok("\(proxy), with the credentials of \(file)")
        },
        DoctorCheck("tls", why: "a hub that cannot prove who it is gets neither data nor token") { facts in
            guard let hub = facts.hub else { return .unknown(noAgent) }
            guard hub.usesTLS else { return .ok("not used: the hub is on this machine") }
            if let fault = hub.fault, fault.code.isTLS { return .bad(fault.detail, fix: fault.command(at: hub.place)) }
            return hub.syncVersion == nil ? .unknown("no handshake yet") : .ok("the hub's certificate was trusted when it last answered")
        },
        DoctorCheck("tls_expiry", why: "when the hub's certificate ends, the whole fleet stops at the same moment") { facts in
            guard let hub = facts.hub else { return .unknown(noAgent) }
            guard hub.usesTLS else { return .ok("not used: the hub is on this machine") }
            guard let ends = hub.certificateEndsAt else { return .unknown("no handshake yet") }
            return end("the hub's certificate", ends, facts.now, fix: "ask the hub's operator to renew it; with hub.pin, keep the key")
        },
        DoctorCheck("client_certificate", why: "this device shows it to the hub") { facts in
            guard let system = facts.system else { return .unknown("not looked at") }
            guard let certificate = system.clientCertificate else { return .ok("not used") }
            let fix = "put a new certificate and key into the place of hub.client_cert_file and hub.client_key_file"
            if let fault = certificate.fault ?? system.clientKey?.fault { return .bad(fault, fix: fix) }
            guard let ends = certificate.endsAt else { return .unknown("\(certificate.path) does not say when it ends") }
            return end("the client certificate", ends, facts.now, fix: fix)
        },
        DoctorCheck("authorities", why: "the hub's certificate is accepted only if one of these authorities signed it") { facts in
            guard let system = facts.system else { return .unknown("not looked at") }
            guard let file = system.authorities else { return .ok("those of the system") }
            let fix = "put the authorities' present certificates into \(file.path)"
            if let fault = file.fault { return .bad(fault, fix: fix) }
            guard let ends = file.endsAt else { return .unknown("\(file.path) does not say when it ends") }
            return end("the first of hub.ca_file", ends, facts.now, fix: fix)
        },
        DoctorCheck("hub", why: "nothing that waits here is at the hub before it answers") { facts in
            guard let hub = facts.hub else { return .unknown(noAgent) }
            // The text is the same as in status and `why`, because all of them show one verdict.
            let cause = (hub.fault?.detail ?? hub.cause).map { ": \($0)" } ?? ""
            func fix(_ usual: HubFault.Code) -> String { (hub.fault ?? HubFault(usual, "")).command(at: hub.place) }
            switch hub.reachability {
            case .online:
                return hub.fault == nil ? .ok("it answers") : .warn("it answers, and the last attempt failed\(cause)", fix: fix(.failed))
            case .connecting: return .unknown("being tried\(cause)")
            case .offline: return .bad("offline\(cause)", fix: "ip -brief address; ip route; agentctl links")
            case .captive: return .bad("the network answers in the hub's place\(cause)", fix: fix(.portal))
            case .degraded: return .bad("there is a link, but the hub does not answer\(cause)", fix: fix(.timedOut))
            case .auth:
                let isOwn = hub.fault?.code == .credentials || hub.fault?.code == .clientCertificate
                return .bad((isOwn ? "it was not asked" : "it refuses this device") + cause, fix: fix(.refused))
            }
        },
        DoctorCheck("hub_version", why: "hub and agent must speak a version of the protocol that both know") { facts in
            if facts.configuration?.weaknesses != nil { return .ok("an existing backend, as rest maps it") }
            guard let hub = facts.hub else { return .unknown(noAgent) }
            if !hub.foreignVersions.isEmpty {
                let theirs = hub.foreignVersions.map(String.init).joined(separator: ", ")
                return .bad(
                    "the hub speaks version \(theirs), this agent \(HubHeader.supportedVersions.map(String.init).joined(separator: ", "))",
                    fix: "update agentd, or the hub")
            }
            return hub.syncVersion.map { .ok("sync version \($0)") } ?? .unknown("it has not answered since the start")
        },
        DoctorCheck("token", why: "the hub admits no device without it, and a program that reads it can act as this device") { facts in
            if facts.configuration?.weaknesses != nil { return .ok("not used: rest.headers shows who this device is") }
            guard let system = facts.system else { return .unknown("not looked at") }
            if let fault = system.token.fault {
                return .bad(fault, fix: (facts.hub?.place ?? HubPlace()).tokenCommand)
            }
            if let hub = facts.hub, let fault = hub.fault, fault.code == .refused || fault.code == .blocked {
                return .bad("the hub refuses it: \(fault.detail)", fix: fault.command(at: hub.place))
            }
            guard let path = system.token.path else { return .ok("none: the client certificate is shown instead") }
            return .ok("\(path) is private to agentd")
        },
        DoctorCheck("token_expiry", why: "a token that ends before it was refreshed locks the device out") { facts in
            guard let hub = facts.hub else { return .unknown(noAgent) }
            guard let ends = hub.tokenEndsAt else { return .ok("the hub names no end of it") }
            if let refreshAt = hub.tokenRefreshAt, refreshAt > facts.now {
                let life = DurationText.rough(facts.now.duration(to: ends))
                return .ok("the token is good for \(life), and is refreshed in \(DurationText.rough(facts.now.duration(to: refreshAt)))")
            }
            return end(
                "the token", ends, facts.now,
                fix: "agentctl sync --force: the hub is asked for the next one after that; else agenthub token add DEVICE at the hub")
        },
        DoctorCheck("scopes", why: "a hub with scopes gives a device only the records of its own scopes") { facts in
            if facts.configuration?.weaknesses != nil { return .ok("an existing backend decides itself what it lists") }
            guard let hub = facts.hub else { return .unknown(noAgent) }
            guard let share = hub.share else {
                return hub.syncVersion == nil
                    ? .unknown("it has not answered since the start") : .ok("the hub has no scopes, so each device gets all records")
            }
            guard share.isEmpty else { return .ok(share.words) }
            return .warn(
                "the hub has scopes, and this device has none: it gets no record that belongs to one",
                fix: "at the hub: agenthub grant \(hub.place.device) SCOPE=VALUE, such as site=north")
        },
        DoctorCheck("metered", why: "a link that costs money and is taken for free runs up a bill; the other way round, work waits") {
            facts in
            guard let links = facts.links else { return .unknown(noAgent) }
            guard let uplink = links.uplink, let link = links.all.first(where: { $0.name == uplink }) else {
                return .unknown("no uplink")
            }
            let text = "\(uplink) is \(link.cost.isMetered ? "metered" : "not metered")"
            // The kind of a cable is hardly ever wrong.
            let isSure = link.kind == .ethernet || link.kind == .loopback
            guard !isSure, link.cost.evidence == .kind || link.cost.evidence == .tunnel else {
                return .ok("\(text), by \(link.cost.evidence.rawValue)")
            }
            return .note(
                "\(text); that is a guess from what kind of link it is",
                fix: "say it: links: [{ match: \"\(uplink)\", metered: true }], or agentctl links hint \(uplink)")
        },
        DoctorCheck("rp_filter", why: "with strict reverse path filtering, answers over a second link are thrown away by the kernel") {
            facts in
            guard let system = facts.system, let links = facts.links else { return .unknown(noAgent) }
            let usable = links.all.filter { $0.isUsable && $0.kind != .loopback }.map(\.name)
            guard usable.count > 1 else { return .ok("one link is in use; it does not matter") }
            let strict = usable.filter { system.reversePathFilters[$0] == 1 }
            guard let first = strict.first else { return .ok("loose or off on \(usable.joined(separator: ", "))") }
            return .warn(
                "strict on \(strict.joined(separator: ", ")) with \(usable.count) links in use",
                fix: "sysctl -w net.ipv4.conf.\(first).rp_filter=2, and the same in /etc/sysctl.d")
        },
        DoctorCheck("power", why: "on a low battery the sync waits") { facts in
            guard let power = facts.power else { return .unknown(noAgent) }
            if let warning = power.state.warning {
                return .warn(warning, fix: "agentctl power; look at the gauge's driver: dmesg | grep -i power_supply")
            }
            let percent = power.state.percent.map { " at \($0) %" } ?? ""
            switch power.level {
            case .ample:
                return .ok(
                    power.state.source == .battery ? "on battery\(percent)" : "on mains\(percent.isEmpty ? "" : ", battery\(percent)")")
            case .saver: return .note("on battery\(percent): large files wait", fix: "charge it, or lower power.saver")
            case .low, .exhausted:
                return .warn("on battery\(percent): the sync waits", fix: "charge it; power.allow_critical lets critical work through")
            }
        },
        DoctorCheck("budget", why: "when the data budget is used up, work waits for its next period") { facts in
            guard let links = facts.links else { return .unknown(noAgent) }
            guard let tightest = links.budgets.max(by: { $0.percentUsed < $1.percentUsed }) else { return .ok("this link has none") }
            let again = tightest.resetsAt.map { ", begins again \($0)" } ?? ""
            let text = "\(tightest.percentUsed) % of \(SizeText.readable(Int64(tightest.limit))) used\(again)"
            let fix = "agentctl ledger shows what used it; raise links[].budget, or wait"
            switch tightest.level {
            case .open: return .ok(text)
            case .soft: return .note(text, fix: fix)
            case .reserve, .spent: return .warn(text, fix: fix)
            }
        },
    ]
}

// Checks of the work.
extension Doctor {
    static let workChecks: [DoctorCheck] = [
        DoctorCheck("counters", why: "accepted must be open plus final at every moment, or something was lost") { facts in
            guard let work = facts.work else { return .unknown(noAgent) }
            return work.isBalanced
                ? .ok("they add up")
                : .bad(
                    "the counters do not add up",
                    fix: "agentctl diagnose, and send the file to the address on the page Security of the manual")
        },
        DoctorCheck("queue", why: "at store.max_mutations new work is refused") { facts in
            guard let work = facts.work else { return .unknown("not looked at") }
            let used = DoctorWords.percent(work.open, of: work.limit)
            let text = "\(work.open) of \(work.limit) open"
            let fix = "agentctl status says what holds it back; or raise store.max_mutations"
            if used >= 100 { return .bad(text, fix: fix) }
            return used >= 80 ? .warn(text, fix: fix) : .ok(text)
        },
        DoctorCheck("backlog", why: "what waits here exists nowhere else") { facts in
            guard let work = facts.work else { return .unknown("not looked at") }
            guard let oldest = work.oldest else { return .ok("nothing waits") }
            let text = "the oldest has waited for \(DurationText.rough(oldest))"
            let fix = "agentctl mutations list --limit 1, then: agentctl why ID"
            if oldest > .seconds(7 * 86_400) { return .bad(text, fix: fix) }
            return oldest > .seconds(86_400) ? .warn(text, fix: fix) : .ok(text)
        },
        DoctorCheck("last_sync", why: "a device that says nothing for long looks like one that is gone") { facts in
            guard let work = facts.work else { return .unknown(noAgent) }
            let since = work.lastSuccess ?? work.since
            let age = since.duration(to: facts.now)
            let limit = max(.seconds(86_400), work.pullInterval * 3)
            let text = work.lastSuccess == nil ? "never yet" : "\(DurationText.rough(age)) ago"
            var error = ""
            if work.failures > 0, let lastError = work.lastError {
                let when = work.lastErrorAt.map { " \(DurationText.rough($0.duration(to: facts.now))) ago" } ?? ""
                error = "; \(work.failures) failed in a row, the last one\(when): \(lastError)"
            }
            if age > limit { return .warn(text + error, fix: "agentctl sync --wait names the obstacle") }
            return .ok(text + error)
        },
        DoctorCheck("pause", why: "while the sync is paused nothing leaves this machine") { facts in
            guard let work = facts.work else { return .unknown(noAgent) }
            guard let pause = work.pause, pause.until.map({ $0 > facts.now }) ?? true else { return .ok("not paused") }
            let until = pause.until.map { "until \($0)" } ?? "until it is resumed"
            return .warn("paused \(until)" + (pause.reason.isEmpty ? "" : ": \(pause.reason)"), fix: "agentctl resume")
        },
        DoctorCheck("decisions", why: "a record with a refused or disputed change differs from the hub until a person decides") { facts in
            guard let work = facts.work else { return .unknown("not looked at") }
            let found = [(work.conflicted, "in conflict"), (work.rejected, "rejected"), (work.parked, "set aside")].filter { $0.0 > 0 }
            guard !found.isEmpty else { return .ok("nothing waits for a person") }
            let text = found.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
            let isRefused = work.rejected > 0 || work.parked > 0
            let commands = [(work.conflicted > 0, "agentctl conflicts list"), (isRefused, "agentctl rejected list")]
            return .warn(text, fix: commands.filter(\.0).map(\.1).joined(separator: "; "))
        },
    ]
}
