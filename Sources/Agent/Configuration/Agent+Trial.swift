import LocalAPI
import Logging
import SyncCore
import SyncHTTP

// Connection settings are on trial until the hub has answered over them (``ConfigurationTrial``).
extension Agent {
    /// Checks whether the settings that were just put into force are proven.
    ///
    /// - Parameter isAsked: A reload requested it; at a start, no person may be there to see what happens.
    func considerTrial(isAsked: Bool) {
        guard let keeper = environment.trials else { return }
        if !trials.isRestored { trials.restore(keeper.record()) }
        feed(trial: .configured(loaded.configuration.wayToHub, isAsked: isAsked))
    }

    /// - Note: Without a place for their state there are no trials.
    func feed(trial event: ConfigurationTrials.Event) {
        guard let keeper = environment.trials else { return }
        for effect in trials.handle(event, at: environment.time.now().instant) { perform(effect, keeper) }
    }

    private func perform(_ effect: ConfigurationTrials.Effect, _ keeper: TrialKeeper) {
        switch effect {
        case .keepRecord: keeper.keepRecord(trials.record)
        case .keepProven: keeper.keepProven(loaded.configuration)
        case .endAlarm: alarms.end(.configReverted)
        case .compare: beginTrial(keeper)
        case .putBack(let failure): putBack(keeper, why: trials.words(for: failure))
        case .announceProven(let keys):
            log.notice("the hub was reached with the new settings, which stay", metadata: ["keys": "\(keys.joined(separator: ","))"])
            journal(.config, EventPayload.trial("proven", keys))
        case .ask: askInTrial()
        case .lookNow: lookAtTrial()
        case .lookLater:
            let interval = min(ConfigurationTrials.lookInterval, environment.trialWindow)
            trials.wake = schedule(after: interval) { $0.lookAtTrial() }
        case .stopLooking: stopLookingAtTrial()
        }
    }

    private func beginTrial(_ keeper: TrialKeeper) {
        guard let proven = keeper.proven() else { return }
        let keys = Self.changedKeys(from: proven, to: loaded.configuration)
        trials.began(keys)
        log.notice("new settings are on trial until the hub is reached with them", metadata: ["keys": "\(keys.joined(separator: ","))"])
        journal(.config, EventPayload.trial("trying", keys))
    }

    private static func changedKeys(from proven: AgentConfiguration, to new: AgentConfiguration) -> [String] {
        ConfigurationChange(from: new.taking(theWayOf: proven), to: new).changed
    }

    private func putBack(_ keeper: TrialKeeper, why: String) {
        guard let proven = keeper.proven() else { return }
        let keys = Self.changedKeys(from: proven, to: loaded.configuration)
        loaded.configuration = loaded.configuration.taking(theWayOf: proven)
        configurationState.changed()
        trials.putBack(keys, to: loaded.configuration.wayToHub)
        apply(loaded.configuration)
        raise(
            .configReverted,
            "\(keys.joined(separator: ", ")) of the files are not in force: \(why); the last ones that did are. "
                + "Correct them, then: agentctl config reload")
        journal(.config, EventPayload.trial("reverted", keys))
    }

    /// One sentence for the status; `nil` when there is nothing to report.
    var trialSentence: String? {
        trials.reverted.isEmpty ? trials.sentence : alarms[.configReverted]
    }

    // MARK: The running trial

    /// Sends the hub the smallest authenticated request, and counts the time.
    func lookAtTrial() {
        stopLookingAtTrial()
        guard trials.isOnTrial, !hasStopped else { return }
        let (counts, mayAsk) = trialTerms(environment.time.now())
        feed(trial: .look(counts: counts, mayAsk: mayAsk))
    }

    private func stopLookingAtTrial() {
        trials.wake?.cancel()
        trials.wake = nil
    }

    /// Returns whether the time counts, and whether the hub may be asked. Time counts if the new rules themselves forbid traffic (a
    /// budget), because they would forbid it for ever.
    private func trialTerms(_ now: Moment) -> (counts: Bool, mayAsk: Bool) {
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
        let (hub, replica, uplink) = (hub, engine.replica, around.connectivity.uplink)
        let (way, known) = (trials.way, offers.inForce?.version)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.config(known: known, replica: replica, over: uplink)
            await self?.answeredInTrial(result, way, over: uplink)
        }
    }

    private func answeredInTrial(_ result: Result<HTTPResponse, TransportError>, _ way: ConfigurationTrial.Name?, over uplink: Uplink?) {
        feed(trial: .asked)
        observe(HubAnswer(.trial, result, over: uplink, way, at: environment.time.now()))
    }
}
