/// The `RateLimit` field (draft-ietf-httpapi-ratelimit-headers): the number of requests that are left, and the time until the next ones.
///
///     RateLimit: "default";r=12;t=30        r=0;t=30
package struct RateLimit: Hashable, Sendable {
    package var remaining: Int64
    /// Time until the quota is full again; at most an hour.
    package var reset: Duration

    init(remaining: Int64, reset: Duration) {
        self.remaining = remaining
        self.reset = reset
    }

    /// - Returns: `nil` unless both numbers are there. The policy with the fewest requests left counts.
    package init?(_ text: String) {
        guard text.utf8.count <= 1_024 else { return nil }
        let limits = text.split(separator: ",").compactMap { RateLimit(item: $0) }
        guard let hardest = limits.min(by: { ($0.remaining, $1.reset) < ($1.remaining, $0.reset) }) else { return nil }
        self = hardest
    }

    private init?(item: Substring) {
        var remaining: Int64?, reset: Int64?
        for part in item.split(separator: ";") {
            let sides = part.split(separator: "=", maxSplits: 1).map { $0.trimmingSpaces }
            guard sides.count == 2, let value = HubHeaders.number(sides[1]) else { continue }
            if sides[0] == "r" { remaining = value } else if sides[0] == "t" { reset = value }
        }
        guard let remaining, let reset else { return nil }
        self.init(remaining: remaining, reset: .seconds(min(reset, 3_600)))
    }

    /// Time to wait before the next request. When no request is left, it is the time to the reset; when few are left, they are spread over
    /// it.
    package var pause: Duration? {
        guard reset > .zero else { return nil }
        if remaining == 0 { return reset }
        return remaining <= Self.low ? reset / Int(remaining + 1) : nil
    }

    private static let low: Int64 = 5
}
