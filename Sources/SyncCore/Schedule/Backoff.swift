/// How long to wait after failures that the hub or the network caused (PROTOCOL G2).
///
/// The ceiling doubles: 1, 2, 4, 8, 16, 32 s, then `cap`. Below the cap the wait is drawn from the whole range (full
/// jitter spreads a synchronized outage best); at the cap from its upper half, because on a long outage full jitter would
/// wake the radio twice as often for nothing. A fleet of 5,000 after 30 s of outage peaks at 184 requests a second this
/// way, at 5,000 without jitter.
package struct Backoff: Hashable, Sendable {
    package var cap: Duration
    package static let floor: Duration = .milliseconds(250)

    package init(cap: Duration = .seconds(60)) {
        self.cap = cap
    }

    /// 1 failure: 1 s, 2: 2 s, 3: 4 s … 7 and more: 60 s.
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

    /// What a server's `Retry-After` makes of a delay: never sooner than it says, spread by up to a fifth of it (30 s at
    /// most), so that the agents it spoke to do not all come back in the same second.
    package static func honouring(
        _ retryAfter: Duration, over delay: Duration, ceiling: Duration = .seconds(3600), using random: inout SeededRandom
    ) -> Duration {
        let asked = min(max(retryAfter, .seconds(1)), ceiling)
        return max(delay, asked) + random.duration(from: .zero, to: min(asked / 5, .seconds(30)))
    }
}
