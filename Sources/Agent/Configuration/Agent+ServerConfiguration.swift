import LocalAPI
import Logging
import SyncCore
import SyncStore
import SyncYAML

// What the hub tells this agent to work by: fetched between two cycles when the hub says that there is another, checked as a
// whole with the files, kept beside the outbox, and in force until the hub says something else (PROTOCOL A12).
extension Agent {
    /// The hub names the version of its configuration with every answer.
    func noteOffer(_ result: Result<HTTPResponse, TransportError>) {
        guard case .success(let response) = result else { return }
        let facts = HubHeaders(reading: response.headers, now: environment.time.now().wall)
        guard facts.version != nil, let offered = facts.config else { return }
        observed.offeredConfig = offered
    }

    /// - Precondition: No cycle is under way.
    func fetchConfigIfOffered() {
        guard let offered = observed.offeredConfig, offered != server?.version, offered != observed.refusedConfig,
            !observed.fetchesConfig, !hasStopped,
            case .allow = engine.verdict(on: .critical, now: environment.time.now().wall)
        else { return }
        observed.fetchesConfig = true
        let (hub, replica, uplink, known) = (hub, engine.replica, around.connectivity.uplink, server?.version)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.config(known: known, replica: replica, over: uplink)
            await self?.fetched(result, over: uplink)
        }
    }

    private func fetched(_ result: Result<HTTPResponse, TransportError>, over uplink: Uplink?) {
        observed.fetchesConfig = false
        count(result.traffic, for: .hello, over: uplink)
        // Without an answer the next cycle asks again.
        guard case .success(let response) = result, response.status == 200,
            HubHeaders(reading: response.headers, now: environment.time.now().wall).version != nil
        else { return }
        accept(response.body)
    }

    /// Puts it into force, or keeps what is and says why.
    func accept(_ bytes: [UInt8]) {
        let offered = observed.offeredConfig
        do throws(ConfigurationErrors) {
            let server = try ServerConfiguration(bytes, release: AgentRelease(ProductVersion.text))
            guard server.version != self.server?.version else { return }
            noteAccepted(server, try layOverFiles(server))
        } catch {
            observed.refusedConfig = offered
            // Status shows it beside the one in force.
            configurationError = error.errors.first?.description
            let detail = error.errors.first?.description ?? "it cannot be read"
            raise("config_rejected", "the hub's configuration \(offered.map(String.init) ?? "") is not accepted, the old one stays in force: \(detail)")
        }
    }

    /// Reads it with the files as they are now, and works by it from here on.
    private func layOverFiles(_ server: ServerConfiguration) throws(ConfigurationErrors) -> ConfigurationChange {
        let new = try readFiles(under: server)
        let change = ConfigurationChange(from: loaded.configuration, to: new.configuration)
        self.server = server
        loaded = new
        loaded.configuration = change.inForce
        hub.useConfig(server.version)
        apply(change.inForce)
        considerTrial(isAsked: true)
        return change
    }

    private func noteAccepted(_ server: ServerConfiguration, _ change: ConfigurationChange) {
        observed.refusedConfig = nil
        configurationError = nil
        observed.attention["config_rejected"] = nil
        configurationVersion += 1
        log.notice(
            "configuration from the hub",
            metadata: ["version": "\(server.version)", "keys": "\(change.changed.joined(separator: ","))"])
        journal(.config, EventPayload.config(version: server.version, changed: change.changed))
        let text = server.text
        store.run { store, now throws(StoreError) in
            try store.keepServerConfiguration(text, at: now)
        } completion: { [self] result in
            guard case .failure(let error) = result else { return }
            assumeIsolated { $0.log.warning("the hub's configuration was not kept", metadata: ["error": "\(error)"]) }
        }
    }

    /// What an earlier run was told. It was checked then; where it no longer fits the files, they count alone until the hub
    /// is asked again.
    func restore(_ text: String?) {
        guard let text else { return }
        do throws(ConfigurationErrors) {
            let server = try ServerConfiguration(Array(text.utf8), release: AgentRelease(ProductVersion.text))
            _ = try layOverFiles(server)
        } catch {
            log.warning("the hub's configuration does not fit the files any more", metadata: ["error": "\(error)"])
        }
    }
}
