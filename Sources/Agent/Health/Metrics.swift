package import SyncCore

/// Numbers since the start, for the metrics page and the status.
package struct Metrics: Sendable {
    /// Refused requests of the local API, by code.
    package private(set) var refusals: [String: Int64] = [:]
    package private(set) var cycles = 0
    package private(set) var failedCycles = 0
    /// Cycles that ended because an answer was not the hub's or could not be understood.
    package private(set) var badReplies: Int64 = 0
    /// Cycles that the watchdog had to begin.
    package private(set) var stalls: Int64 = 0
    /// Bytes in the units of the ledger.
    package private(set) var bytes: [TrafficSeries: (up: Int64, down: Int64)] = [:]
    package private(set) var enqueueTimes = DurationHistogram()
    package private(set) var pullTimes = DurationHistogram()
    package private(set) var pushTimes = DurationHistogram()

    package init() {}

    package mutating func refused(_ code: String) {
        refusals[code, default: 0] += 1
    }

    package mutating func cycleEnded(_ outcome: CycleOutcome) {
        cycles += 1
        guard outcome.error != nil, outcome.interruption != .schemasChanged else { return }
        failedCycles += 1
        if outcome.errorKind == .nonsense || outcome.errorKind == .foreign { badReplies += 1 }
    }

    package mutating func stalled() {
        stalls += 1
    }

    package mutating func moved(_ traffic: Traffic, for purpose: UsagePurpose, over link: String) {
        let series = TrafficSeries(link: link, purpose: purpose)
        let before = bytes[series] ?? (0, 0)
        bytes[series] = (before.up + Int64(traffic.wireUp), before.down + Int64(traffic.wireDown))
    }

    package mutating func enqueued(in duration: Duration) {
        enqueueTimes.add(duration)
    }

    /// Counts the time of an answered request of the engine.
    package mutating func handle(_ answer: HubAnswer) {
        guard case .success = answer.result, case .sync(let kind, let took) = answer.question else { return }
        switch kind {
        case .pull, .snapshot: pullTimes.add(took)
        case .push, .settle: pushTimes.add(took)
        case .hello, .known, .verify: break
        }
    }
}

/// The labels of one row of `agentd_bytes_total`.
package struct TrafficSeries: Hashable, Comparable, Sendable {
    package var link: String
    package var purpose: UsagePurpose

    package init(link: String, purpose: UsagePurpose) {
        self.link = link
        self.purpose = purpose
    }

    package static func < (left: TrafficSeries, right: TrafficSeries) -> Bool {
        (left.link, left.purpose.rawValue) < (right.link, right.purpose.rawValue)
    }
}
