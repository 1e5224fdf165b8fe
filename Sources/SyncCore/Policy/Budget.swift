/// The state of a link's budget (PROTOCOL F). The stricter one of day and month counts.
package enum BudgetLevel: String, Hashable, Sendable, CaseIterable, Comparable {
    case open
    /// 80 % are used: the starvation rule is off, and pulls are half as frequent.
    case soft
    /// Everything is used except the tenth that is kept for critical work.
    case reserve
    case spent

    package static func < (left: BudgetLevel, right: BudgetLevel) -> Bool { left.rank < right.rank }

    private var rank: Int { BudgetLevel.allCases.firstIndex(of: self) ?? 0 }
}

/// A period's budget and its used part, up and down together.
///
///     limit 20,000,000: soft from 16,000,000, reserve from 18,000,000, spent from 20,000,000
///
/// No input can make it overflow or turn negative.
package struct Budget: Hashable, Sendable {
    /// Limit, bytes; 0 means that nothing may be sent.
    package let limit: Int
    package private(set) var used: Int
    /// Time at which the period ends and the count begins again.
    package var resetsAt: Timestamp?

    package init(limit: Int, used: Int = 0, resetsAt: Timestamp? = nil) {
        self.limit = max(0, limit)
        self.used = max(0, used)
        self.resetsAt = resetsAt
    }

    package var level: BudgetLevel {
        if used >= limit { return .spent }
        if used >= limit - limit / 10 { return .reserve }
        return used >= limit - limit / 5 ? .soft : .open
    }

    /// Bytes that may still be sent; critical work may use the reserve.
    package func left(forCritical isCritical: Bool) -> Int {
        max(0, (isCritical ? limit : limit - limit / 10) - max(0, used))
    }

    /// Largest size that the whole budget can hold, bytes. Larger work never fits, however often the count begins again.
    package func capacity(forCritical isCritical: Bool) -> Int { isCritical ? limit : limit - limit / 10 }

    /// The used share in whole percent, at most 100.
    package var percentUsed: Int {
        used >= limit ? 100 : Int((Double(max(0, used)) / Double(limit)) * 100)
    }

    package mutating func spend(_ bytes: Int) {
        used = used.saturatingAdd(max(0, bytes))
    }
}

extension Int {
    package func saturatingAdd(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other > 0 ? .max : .min) : sum
    }
}
