import LocalAPI
import Logging
import SyncCore
import SyncStore
import SyncYAML

// Settings that the hub sends to this agent (PROTOCOL A12). They are fetched between two cycles when the hub announces a new version,
// checked together with the files, stored beside the outbox, and in force until the hub sends others.
extension Agent {
    /// - Precondition: No cycle is running.
    func fetchConfigIfOffered() {
        let mayAsk = !hasStopped && engine.verdict(on: .critical, now: environment.time.now().wall) == .allow
        guard offers.fetch(mayAsk: mayAsk) else { return }
        let (hub, replica, uplink, known) = (hub, engine.replica, around.connectivity.uplink, offers.inForce?.version)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.config(known: known, replica: replica, over: uplink)
            await self?.fetched(result, over: uplink)
        }
    }

    private func fetched(_ result: Result<HTTPResponse, TransportError>, over uplink: Uplink?) {
        let answer = HubAnswer(.configuration, result, over: uplink, at: environment.time.now())
        let settings = offers.fetched(answer)
        observe(answer)
        if let settings { accept(settings) }
        endInterruptions()
    }

    /// Lets the next cycle serve the callers of those that waited for these settings. If the offer is still open, because the hub has
    /// sent nothing or another version than it offers, the callers get the result of their own cycle.
    private func endInterruptions() {
        let cycles = interruptedCycles
        interruptedCycles = []
        for outcome in cycles {
            guard !offers.isOpen, let request = outcome.request else {
                answerCycleWaiters(outcome)
                continue
            }
            cycleWaiters.goOn(after: outcome.session)
            handle(.requested(request))
        }
    }

    /// Puts it into force, or keeps the present one and reports the reason.
    func accept(_ bytes: [UInt8]) {
        do throws(ConfigurationErrors) {
            let server = try ServerConfiguration(bytes, release: AgentRelease(ProductVersion.text))
            guard server.version != offers.inForce?.version else { return }
            reportAccepted(server, try layOverFiles(server))
        } catch {
            offers.refuse()
            handle(.settings(engineSettings(loaded.configuration)))
            // Status shows it beside the one in force.
            configurationState.refused(error.errors.first?.description)
            let detail = error.errors.first?.description ?? "it cannot be read"
            raise(
                .configRejected,
                "the hub's configuration \(offers.offered.map(String.init) ?? "") is not accepted, the old one stays in force: \(detail)")
        }
    }

    /// Reads it together with the present files, and puts it into force.
    private func layOverFiles(_ server: ServerConfiguration) throws(ConfigurationErrors) -> ConfigurationChange {
        let new = try readFiles(under: server)
        let change = ConfigurationChange(from: loaded.configuration, to: new.configuration)
        offers.use(server)
        loaded = new
        loaded.configuration = change.inForce
        hub.useConfig(server.version)
        apply(change.inForce)
        considerTrial(isAsked: true)
        return change
    }

    private func reportAccepted(_ server: ServerConfiguration, _ change: ConfigurationChange) {
        offers.accepted()
        configurationState.acceptedOffer()
        alarms.end(.configRejected)
        log.notice(
            "configuration from the hub",
            metadata: ["version": "\(server.version)", "keys": "\(change.changed.joined(separator: ","))"])
        journal(.config, EventPayload.config(version: server.version, changed: change.changed))
        let text = server.text
        fromStore { store, now throws(StoreError) in
            try store.keepServerConfiguration(text, at: now)
        } then: { agent, result in
            guard case .failure(let error) = result else { return }
            agent.log.warning("the hub's configuration was not stored", metadata: ["error": "\(error)"])
        }
    }

    /// Restores the settings that an earlier run received. They were checked then; if they no longer fit the files, only the files count
    /// until the hub is asked again.
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
