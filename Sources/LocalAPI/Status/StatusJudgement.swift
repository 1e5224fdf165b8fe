import SyncCore

/// The overall level of an agent with its reasons: the value of `overall`, and the exit status of `agentctl status`.
package struct StatusJudgement: Hashable, Sendable {
    package enum Level: String, Sendable, CaseIterable, Comparable {
        /// No action is needed, and no work is held up.
        case ok
        /// Work is held up or was refused; the agent handles it or waits.
        case degraded
        /// It needs the action of a person.
        case attention

        package static func < (left: Level, right: Level) -> Bool {
            (allCases.firstIndex(of: left) ?? 0) < (allCases.firstIndex(of: right) ?? 0)
        }

        /// Exit status of `agentctl status`.
        package var exitStatus: Int32 {
            switch self {
            case .ok: 0
            case .degraded: 1
            case .attention: 3
            }
        }
    }

    package var level: Level
    /// Reason codes, the most severe first.
    package var reasons: [String]

    package init(level: Level, reasons: [String]) {
        self.level = level
        self.reasons = reasons
    }
}

extension StatusDocument {
    /// Derived from the rest of the document, so that it cannot contradict its parts.
    package var overall: StatusJudgement {
        var attention: [String] = []
        var degraded: [String] = []
        if !outbox.isBalanced { attention.append("counters") }
        if database.integrity != "ok" { attention.append("integrity") }
        if database.durability != "full" { attention.append("durability") }
        switch database.state {
        case .ok: break
        case .queueFull, .diskFull, .readOnly: attention.append(database.state.rawValue)
        }
        switch Reachability(rawValue: connectivity.state) {
        case .online, .connecting: break
        case .auth: attention.append(connectivity.state)
        // "degraded" is the name of the level as well; as a reason it would say nothing.
        case .degraded: degraded.append("hub_unreachable")
        // A newer agent may have further states.
        case .offline, .captive, nil: degraded.append(connectivity.state)
        }
        if configuration.error != nil || ["last_good", "reverted"].contains(configuration.source) { attention.append("config") }
        attention += alarms.filter { !$0.heals }.map(\.code)
        degraded += alarms.filter(\.heals).map(\.code)
        if outbox.count(.conflicted) > 0 { attention.append("conflicts") }
        if sync.clock?.state == "suspect" { attention.append("clock") }
        if outbox.count(.rejected) > 0 { degraded.append("rejected") }
        if outbox.sum([.failed, .held]) > 0 { degraded.append("parked") }
        if let blobs, blobs.missing > 0 { attention.append("blobs_missing") }
        if let blobs, blobs.failed > 0 { degraded.append("blobs_failed") }
        if database.recovery != nil { degraded.append("recovered") }
        if sync.pause != nil { degraded.append("paused") }
        if power?.isLow == true { degraded.append("low_battery") }
        let carrier = connectivity.links.first { $0.name == connectivity.uplink }
        if carrier?.budget.isUsedUp == true { degraded.append("budget") }
        // Waiting for the next attempt, and work that is held back, follow from the reasons above; alone they are reasons.
        let isOnline = connectivity.state == Reachability.online.rawValue
        if isOnline, sync.attempt > 0 || sync.notBefore != nil { degraded.append("backoff") }
        if isOnline, sync.breaker == "open" { degraded.append("breaker") }
        if degraded.isEmpty, attention.isEmpty, !outbox.deferred.isEmpty { degraded.append("deferred") }
        let level: StatusJudgement.Level = attention.isEmpty ? (degraded.isEmpty ? .ok : .degraded) : .attention
        return StatusJudgement(level: level, reasons: attention + degraded)
    }
}
