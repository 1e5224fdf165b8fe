import SyncCore

/// How long a mutation waits that the hub sent back alone (PROTOCOL G2, on its record only).
///
/// After 1, 2, 3 … answers at most 1, 2, 4 … 60 s: evenly drawn between nothing and that, at the top between 30 and 60 s,
/// never less than 0.25 s. A wait that the hub asked for is the least, with up to a fifth (30 s) on top.
enum RetryDelay {
    static func after(
        _ retries: Int64, asked: Duration?, using random: inout SeededRandom
    ) -> Duration {
        let ceiling: Duration = retries >= 7 ? .seconds(60) : .seconds(1 << max(0, retries - 1))
        let drawn =
            ceiling >= .seconds(60)
            ? random.duration(from: .seconds(30), to: ceiling)
            : max(.milliseconds(250), random.duration(from: .zero, to: ceiling))
        guard let asked else { return drawn }
        return max(drawn, asked) + random.duration(from: .zero, to: min(asked / 5, .seconds(30)))
    }
}
