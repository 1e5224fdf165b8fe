import LocalAPI
import Logging
import NIOCore
import SyncCore
import SyncHTTP

// Connection settings are on trial until the hub has answered over them (``ConfigurationTrial``).
extension Agent {
    /// Checks whether the settings that were just put into force are proven.
    ///
    /// - Parameter isAsked: A reload requested it; at a start, no person may be there to see what happens.
    func considerTrial(isAsked: Bool) {
        guard let keeper = environment.trials else { return }
        if !observed.hasReadTrial {
            observed.hasReadTrial = true
            observed.trial = ConfigurationTrial(record: keeper.record())
        }
        let way = loaded.configuration.wayToHub
        observed.way = way
        let choice = observed.trial.consider(way, isAsked: isAsked)
        observed.trialKeys = []
        switch choice {
        case .settled:
            observed.revertedKeys = []
            alarms.end("config_reverted")
        case .onTrial:
            observed.revertedKeys = []
            alarms.end("config_reverted")
            guard let proven = keeper.proven() else { break }
            observed.trialKeys = Self.changedKeys(from: proven, to: loaded.configuration)
            log.notice("the way to the hub is on trial", metadata: ["keys": "\(observed.trialKeys.joined(separator: ","))"])
            journal(.config, EventPayload.trial("trying", observed.trialKeys))
        case .useProven: putBack(why: "they did not reach the hub before")
        }
        keeper.keepRecord(observed.trial.record)
        if observed.trial.isOnTrial { lookAtTrial() }
    }

    private static func changedKeys(from proven: AgentConfiguration, to new: AgentConfiguration) -> [String] {
        ConfigurationChange(from: new.taking(theWayOf: proven), to: new).changed
    }

    // MARK: The running trial

    private static let lookInterval: Duration = .seconds(20)

    /// Sends the hub the smallest authenticated request, and counts the time.
    func lookAtTrial() {
        observed.trialWake?.cancel()
        observed.trialWake = nil
        guard observed.trial.isOnTrial, !hasStopped else { return }
        let now = environment.time.now()
        let (counts, tries) = trialTerms(now)
        if case .revert = observed.trial.tick(counts: counts, now: now.instant, window: environment.trialWindow) {
            let window = environment.trialWindow
            putBack(why: "the hub was not reached with them within \(window.components.seconds / 60) min")
            environment.trials?.keepRecord(observed.trial.record)
            return
        }
        environment.trials?.keepRecord(observed.trial.record)
        if tries, !observed.asksInTrial { askInTrial() }
        observed.trialWake = schedule(after: min(Self.lookInterval, environment.trialWindow)) { $0.lookAtTrial() }
    }

    /// Returns whether the time counts, and whether the hub may be asked. Time counts if the new rules themselves forbid traffic (a
    /// budget), because they would forbid it for ever.
    private func trialTerms(_ now: Moment) -> (counts: Bool, tries: Bool) {
        guard around.connectivity.uplink != nil || environment.links == nil || around.connectivity.links.contains(where: \.isUsable) else {
            return (false, false)
        }
        switch engine.verdict(on: .critical, now: now.wall) {
        case .allow: return (true, true)
        case .defer(let wait):
            switch wait.reason {
            case .paused, .lowBattery, .batterySaver, .captive: return (false, false)
            case .budget, .roaming, .metered, .window: return (true, false)
            case .offline, .degraded, .auth, .backoff, .breaker, .order, .dependency, .conflict, .blobWait: return (true, true)
            }
        }
    }

    private func askInTrial() {
        observed.asksInTrial = true
        let way = observed.way
        let (hub, replica, uplink, known) = (hub, engine.replica, around.connectivity.uplink, server?.version)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.config(known: known, replica: replica, over: uplink)
            await self?.answeredInTrial(result, way, over: uplink)
        }
    }

    private func answeredInTrial(_ result: Result<HTTPResponse, TransportError>, _ way: ConfigurationTrial.Name?, over uplink: Uplink?) {
        observed.asksInTrial = false
        observe(HubAnswer(.trial, result, over: uplink, way, at: environment.time.now()))
    }

    /// Records an answer, which proves the settings that it came over, if those are still in force: the hub names its history only to
    /// devices that it knows.
    func noteWay(_ answer: HubAnswer) {
        guard case .success(let response) = answer.result, (200...299).contains(response.status) || response.status == 304,
            answer.headers?.epoch != nil
        else { return }
        noteReached(answer.way)
    }

    /// Records that the server was reached over these settings.
    func noteReached(_ way: ConfigurationTrial.Name?) {
        guard let keeper = environment.trials, observed.trial.trying != nil, way == observed.way, observed.trial.reached() else {
            return
        }
        observed.trialWake?.cancel()
        observed.trialWake = nil
        // First the configuration, then the record that it is proven: a crash between them repeats the trial.
        keeper.keepProven(loaded.configuration)
        keeper.keepRecord(observed.trial.record)
        guard !observed.trialKeys.isEmpty else { return }
        log.notice("the way to the hub is proven", metadata: ["keys": "\(observed.trialKeys.joined(separator: ","))"])
        journal(.config, EventPayload.trial("proven", observed.trialKeys))
        observed.trialKeys = []
    }

    // MARK: The end without an answer

    private func putBack(why: String) {
        guard let proven = environment.trials?.proven() else { return }
        let keys = Self.changedKeys(from: proven, to: loaded.configuration)
        observed.trialKeys = []
        observed.revertedKeys = keys
        loaded.configuration = loaded.configuration.taking(theWayOf: proven)
        configurationVersion += 1
        observed.way = loaded.configuration.wayToHub
        apply(loaded.configuration)
        raise(
            "config_reverted",
            "\(keys.joined(separator: ", ")) of the files are not in force: \(why); the last ones that did are. "
                + "Mend them, then: agentctl config reload")
        journal(.config, EventPayload.trial("reverted", keys))
    }

    /// One sentence for the status; `nil` when there is nothing to report.
    var trialSentence: String? {
        if !observed.revertedKeys.isEmpty { return alarms["config_reverted"] }
        guard observed.trial.isOnTrial else { return nil }
        let left = max(.zero, environment.trialWindow - observed.trial.spent)
        let keys = observed.trialKeys.isEmpty ? "the way to the hub" : observed.trialKeys.joined(separator: ", ")
        return "\(keys) on trial: taken back if the hub is not reached within \((left.components.seconds + 59) / 60) min"
    }
}
