/// Allows `rate` requests per second on average, and twice as many at once after a quiet second.
package struct TokenBucket: Hashable, Sendable {
    package let rate: Int
    /// Fill level, billionths of a request, so that no fraction is lost.
    private var level: Int64
    private var filledAt: Instant

    package init(rate: Int, now: Instant) {
        self.rate = max(rate, 1)
        level = Int64(self.rate).saturatingMultiply(2_000_000_000)
        filledAt = now
    }

    /// - Returns: `nil` when the request may pass, otherwise the time after which the next one may.
    package mutating func take(now: Instant) -> Duration? {
        let full = Int64(rate).saturatingMultiply(2_000_000_000)
        let passed = max(0, filledAt.duration(to: now).nanoseconds)
        level = min(full, level.saturatingAdd(passed.saturatingMultiply(Int64(rate))))
        filledAt = max(filledAt, now)
        if level >= 1_000_000_000 {
            level -= 1_000_000_000
            return nil
        }
        return .nanoseconds((1_000_000_000 - level) / Int64(rate) + 1)
    }
}
