import LocalAPI
package import SyncCore
package import SyncStore

extension AgentConfiguration {
    /// What of the configuration the engine decides by.
    package func engineSettings(device: DeviceID, spread: Duration) -> SyncEngine.Settings {
        var settings = SyncEngine.Settings()
        settings.spread = spread
        settings.timer.debounce = sync.debounce
        // Whoever waits longer between two changes still wants them sent together; the ceiling keeps the ratio.
        settings.timer.debounceMax = max(sync.debounce * 5, .seconds(1))
        settings.timer.bulkDelay = min(sync.pullInterval, .seconds(60))
        settings.timer.phase = CycleTimer.phase(of: device)
        settings.policy = policySettings
        settings.backoff = Backoff(cap: sync.maxBackoff)
        settings.agent = AgentVersion.current
        settings.platform = AgentVersion.platform
        settings.criticalEntities = Set(rules.entities.filter { $0.value.priority == .critical }.keys)
        settings.isRest = rest != nil && adapter == .rest
        settings.server = serverName
        settings.pullsAll = restMapping == nil && rules.entities.isEmpty && !rules.isStrict
        settings.entities = rules.entities.filter { $0.value.kind != .event }.keys.sorted()
        return settings
    }

    /// Another address, authority or client certificate means that old failures say nothing about what comes now.
    private var serverName: String {
        let address = restMapping?.baseURL ?? hub.url.text
        return [address, hub.caFile ?? "", hub.clientCertificateFile ?? "", hub.pin?.description ?? "", proxy?.url.text ?? ""].joined(separator: " ")
            .trimmingSpaces
    }

    /// `nil`: the server is a hub.
    package var restMapping: RestMapping? { adapter == .rest ? rest : nil }

    var restSettings: RestClient.Settings? {
        restMapping.map { mapping in
            RestClient.Settings(
                mapping: mapping, tls: tlsIdentity, proxy: proxy, userAgent: "agentd/\(AgentVersion.current)")
        }
    }

    /// Whom to trust as the server, and what to show it.
    var tlsIdentity: TLSIdentity {
        TLSIdentity(
            caFile: hub.caFile, clientCertificateFile: hub.clientCertificateFile, clientKeyFile: hub.clientKeyFile, publicKeyPin: hub.pin)
    }

    /// What every request to a server goes through, but for those that stay in this machine.
    var proxy: HTTPProxy? {
        hub.proxy.map { HTTPProxy(url: $0, credentialsFile: hub.proxyCredentialsFile, exceptions: hub.noProxy) }
    }

    /// The machine that a connection to the server is made to: the proxy, where one carries it.
    var nextHop: ServiceURL { proxyOfHub?.url ?? hub.url }

    /// What carries the requests to the hub; `nil`: nothing does.
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
