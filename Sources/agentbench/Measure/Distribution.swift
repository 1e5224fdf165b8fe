/// Measured times in nanoseconds, exact: every value is kept, without buckets.
struct Times {
    let sorted: [UInt64]

    init(_ values: [UInt64]) {
        sorted = values.sorted()
    }

    var count: Int { sorted.count }
    var max: Double { Double(sorted.last ?? 0) }

    /// The smallest value that is not exceeded by at least that share of the values (nearest rank). 0 when there are none.
    ///
    /// - Parameter share: 0 to 1.
    func quantile(_ share: Double) -> Double {
        guard !sorted.isEmpty else { return 0 }
        let rank = (share * Double(sorted.count)).rounded(.up)
        return Double(sorted[Swift.min(Swift.max(Int(rank) - 1, 0), sorted.count - 1)])
    }
}

/// The times of one operation over all rounds, for the table of latencies.
struct Distribution {
    let title: String
    private var values: [UInt64] = []

    init(_ title: String) {
        self.title = title
    }

    mutating func add(_ times: Times) {
        values += times.sorted
    }

    var times: Times { Times(values) }
}

/// The middle value; for an even count the mean of the two middle ones. 0 when there are none.
func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    guard let last = sorted.last else { return 0 }
    let middle = sorted.count / 2
    if sorted.count == 1 { return last }
    return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
}
