/// Measured times in nanoseconds, exact: every value is kept, without buckets.
package struct Times {
    package let sorted: [UInt64]

    package init(_ values: [UInt64]) {
        sorted = values.sorted()
    }

    package var count: Int { sorted.count }
    package var max: Double { Double(sorted.last ?? 0) }

    /// The smallest value that is not exceeded by at least that share of the values (nearest rank). 0 when there are none.
    ///
    /// - Parameter share: 0 to 1.
    package func quantile(_ share: Double) -> Double {
        guard !sorted.isEmpty else { return 0 }
        let rank = (share * Double(sorted.count)).rounded(.up)
        return Double(sorted[Swift.min(Swift.max(Int(rank) - 1, 0), sorted.count - 1)])
    }
}

/// The times of one operation over all rounds, for the table of latencies.
package struct Distribution {
    package let title: String
    private var values: [UInt64] = []

    package init(_ title: String) {
        self.title = title
    }

    package mutating func add(_ times: Times) {
        values += times.sorted
    }

    package var times: Times { Times(values) }
}

/// The middle value; for an even count the mean of the two middle ones. 0 when there are none.
package func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    guard let last = sorted.last else { return 0 }
    let middle = sorted.count / 2
    if sorted.count == 1 { return last }
    return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
}
