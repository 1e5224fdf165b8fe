import SyncCore

/// The times at which one hub of several is stopped, drawn from a seed.
struct StopPlan: Equatable {
    struct Stop: Equatable {
        /// Undisturbed time before it, nanoseconds.
        var after: UInt64
        /// Index of the hub.
        var hub: Int
    }

    let stops: [Stop]

    /// The undisturbed time is 1 to 3 s: long enough that everything which waited is through.
    init(count: Int, hubs: Int, seed: UInt64) {
        var random = SeededRandom(seed: seed)
        stops = (0..<count).map { _ in
            let after = 1_000_000_000 + UInt64(random.fraction() * 2e9)
            return Stop(after: after, hub: Int(random.fraction() * Double(hubs)))
        }
    }
}

/// Answers to pushes as moments on a line.
enum FleetMoments {
    /// The longest time between two answers that follow each other, both ends of the range included; nanoseconds.
    ///
    /// - Parameter answers: Moments in any order; those outside of the range do not count.
    static func longestSilence(_ answers: [UInt64], in range: Range<UInt64>) -> UInt64 {
        var longest: UInt64 = 0
        var last = range.lowerBound
        for moment in answers.filter(range.contains).sorted() + [range.upperBound] {
            longest = max(longest, moment - last)
            last = moment
        }
        return longest
    }

    /// Mutations a second that were answered in the range.
    static func rate(_ answers: [FleetClient.PushAnswer], in range: Range<UInt64>) -> Double {
        guard !range.isEmpty else { return 0 }
        let applied = answers.reduce(0) { $0 + (range.contains($1.at) ? $1.applied : 0) }
        return Double(applied) * 1e9 / Double(range.upperBound - range.lowerBound)
    }
}

extension FleetMoments {
    /// Mutations a second that were answered in these ranges together.
    static func rate(_ answers: [FleetClient.PushAnswer], in ranges: [Range<UInt64>]) -> Double {
        let length = ranges.reduce(0) { $0 + Double($1.upperBound - $1.lowerBound) }
        let applied = ranges.reduce(0) { $0 + rate(answers, in: $1) * Double($1.upperBound - $1.lowerBound) }
        return length > 0 ? applied / length : 0
    }

    /// Mutations a second of two runs together.
    static func mean(_ first: FleetClient.Outcome, _ second: FleetClient.Outcome) -> Double {
        Double(first.applied + second.applied) * 1e9 / Double(max(first.nanoseconds + second.nanoseconds, 1))
    }
}
