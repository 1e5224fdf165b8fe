import SyncCore

/// The one word about an agent, with its reasons: what `overall` says, and what `agentctl status` exits with.
package struct StatusJudgement: Hashable, Sendable {
    package enum Level: String, Sendable, CaseIterable, Comparable {
        /// Nothing to do, nothing held up.
        case ok
        /// Something is held up or was refused; the agent works on it or waits.
        case degraded
        /// It will not get better before a person acts.
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
    /// Codes, gravest first.
    package var reasons: [String]

    package init(level: Level, reasons: [String]) {
        self.level = level
        self.reasons = reasons
    }
}

extension StatusDocument {
    /// Derived from the rest of the document, so that it can never say something else than its parts.
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
        switch connectivity.state {
        case "online", "connecting": break
        case "auth", "incompatible", "misconfigured": attention.append(connectivity.state)
        // "degraded" is the level as well; as a reason it would say nothing.
        case Reachability.degraded.rawValue: degraded.append("hub_unreachable")
        default: degraded.append(connectivity.state)
        }
        if configuration.error != nil || ["last_good", "reverted"].contains(configuration.source) { attention.append("config") }
        attention += alarms.map(\.code).filter { !Alarm.healing.contains($0) }
        degraded += alarms.map(\.code).filter { Alarm.healing.contains($0) }
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
        // Waiting for the next try, and work that is kept back, follow from the reasons above; alone they are reasons.
        let isOnline = connectivity.state == Reachability.online.rawValue
        if isOnline, sync.attempt > 0 || sync.notBefore != nil { degraded.append("backoff") }
        if isOnline, sync.breaker == "open" { degraded.append("breaker") }
        if degraded.isEmpty, attention.isEmpty, !outbox.deferred.isEmpty { degraded.append("deferred") }
        let level: StatusJudgement.Level = attention.isEmpty ? (degraded.isEmpty ? .ok : .degraded) : .attention
        return StatusJudgement(level: level, reasons: attention + degraded)
    }
}
