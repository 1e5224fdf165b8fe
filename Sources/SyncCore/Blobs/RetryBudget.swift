/// Limits repeated pieces to a fifth of the sent ones plus ten a minute (PROTOCOL G3): a server in trouble must not get more requests
/// because it is in trouble.
package struct RetryBudget: Hashable, Sendable {
    /// Fill level, thousandths of a repeat.
    private var level: Int64 = 10_000
    private var filledAt: Instant?

    package static let full: Int64 = 10_000
    private static let perRequest: Int64 = 200
    private static let milliPerSecond: Int64 = 167

    package init() {}

    package mutating func sent() { level = min(Self.full, level + Self.perRequest) }

    /// - Returns: `nil` when a repeat may go, otherwise the time until then.
    package mutating func take(now: Instant) -> Duration? {
        let passed = max(0, (filledAt ?? now).duration(to: now).milliseconds)
        filledAt = now
        level = min(Self.full, level.saturatingAdd(min(passed, 3_600_000).saturatingMultiply(Self.milliPerSecond) / 1_000))
        guard level < 1_000 else {
            level -= 1_000
            return nil
        }
        return .milliseconds((1_000 - level) * 1_000 / Self.milliPerSecond + 1)
    }
}
