package import NIOCore

/// A limit on the rate of an action: a burst, and then a number per second.
package struct RateBudget: Sendable {
    private let size: Double
    private let perSecond: Double
    private var left: Double
    private var time: NIODeadline

    package init(size: Int, perSecond: Double, at now: NIODeadline) {
        self.size = Double(size)
        self.perSecond = perSecond
        left = Double(size)
        time = now
    }

    /// - Returns: `false` when the budget is used up.
    package mutating func spend(at now: NIODeadline) -> Bool {
        if now > time {
            left = min(size, left + Double((now - time).nanoseconds) / 1e9 * perSecond)
            time = now
        }
        guard left >= 1 else { return false }
        left -= 1
        return true
    }

    /// Gives one back that turned out not to count.
    package mutating func giveBack() {
        left = min(size, left + 1)
    }

    /// `true` when the budget is full, as before its first use.
    package func isWhole(at now: NIODeadline) -> Bool {
        var copy = self
        _ = copy.spend(at: now)
        return copy.left >= size - 1
    }
}
