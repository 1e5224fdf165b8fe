import LocalAPI
package import SyncCore
package import SyncStore

extension AgentConfiguration {
    /// The part of the configuration that the engine uses.
    package func engineSettings(device: DeviceID, spread: Duration) -> SyncEngine.Settings {
        var settings = SyncEngine.Settings()
        settings.spread = spread
        settings.timer.debounce = sync.debounce
        // A longer debounce keeps the same ratio to its ceiling, so that consecutive changes are still sent together.
        settings.timer.debounceMax = max(sync.debounce * 5, .seconds(1))
        settings.timer.bulkDelay = min(sync.pullInterval, .seconds(60))
        settings.timer.phase = CycleTimer.phase(of: device)
        settings.policy = policySettings
        settings.backoff = Backoff(cap: sync.maxBackoff)
        settings.agent = AgentVersion.current
        settings.platform = AgentVersion.platform
        settings.criticalEntities = Set(rules.entities.filter { $0.value.priority == .critical }.keys)
        settings.waitsForNews = sync.waitForNews == .auto
        settings.isRest = rest != nil && adapter == .rest
        settings.server = serverName
        settings.pullsAll = restMapping == nil && rules.entities.isEmpty && !rules.isStrict
        settings.entities = rules.entities.filter { $0.value.kind != .event }.keys.sorted()
        return settings
    }

    /// A name of the server. Failures under another address, authority or client certificate do not apply to it.
    private var serverName: String {
        let address = restMapping?.baseURL ?? hub.url.text
        return [address, hub.caFile ?? "", hub.clientCertificateFile ?? "", hub.pin?.description ?? "", proxy?.url.text ?? ""].joined(
            separator: " "
        )
        .trimmingSpaces
    }

    /// The mapping of an existing backend; `nil`: the server is a hub.
    package var restMapping: RestMapping? { adapter == .rest ? rest : nil }

    var restSettings: RestClient.Settings? {
        restMapping.map { mapping in
            RestClient.Settings(
                mapping: mapping, tls: tlsIdentity, proxy: proxy, userAgent: "agentd/\(AgentVersion.current)")
        }
    }

    /// Trusted issuers of the server, and our own certificate.
    var tlsIdentity: TLSIdentity {
        TLSIdentity(
            caFile: hub.caFile, clientCertificateFile: hub.clientCertificateFile, clientKeyFile: hub.clientKeyFile, publicKeyPin: hub.pin)
    }

    /// The proxy for all requests to a server, except those that stay on this machine.
    var proxy: HTTPProxy? {
        hub.proxy.map { HTTPProxy(url: $0, credentialsFile: hub.proxyCredentialsFile, exceptions: hub.noProxy) }
    }

    /// The host of the connection: the proxy, if one carries the request, or the server.
    var nextHop: ServiceURL { proxyOfHub?.url ?? hub.url }

    /// The proxy for requests to the hub; `nil`: none.
    var proxyOfHub: HTTPProxy? { proxy.flatMap { $0.carries(hub.url.host) ? $0 : nil } }

    package func hubSettings(device: DeviceID) -> HubClient.Settings {
        HubClient.Settings(
            baseURL: hub.url.text, device: device,
            tls: tlsIdentity, proxy: proxy,
            compressOver: sync.compressOverBytes, userAgent: "agentd/\(AgentVersion.current)")
    }
}

package enum AgentVersion {
    package static let current = ProductVersion.text

    #if arch(x86_64)
        package static let platform = "linux/amd64"
    #elseif arch(arm64)
        package static let platform = "linux/arm64"
    #else
        package static let platform = "linux"
    #endif
}

extension AgentConfiguration {
    package var storeCapacity: StoreCapacity {
        var capacity = StoreCapacity()
        capacity.mutations = store.maxMutations
        capacity.bytes = Int64(store.maxSizeBytes)
        capacity.minFree = Int64(store.minFreeBytes)
        return capacity
    }
}
