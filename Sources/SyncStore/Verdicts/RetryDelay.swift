import SyncCore

/// The delay of a mutation that the hub sent back alone (PROTOCOL G2, on its record only).
///
/// After 1, 2, 3 … answers the limit is 1, 2, 4 … 60 s. The delay is drawn evenly between 0 and the limit, at the top between 30 and 60 s,
/// and is never less than 0.25 s. A delay that the hub asked for is the minimum, with up to a fifth (30 s) on top.
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
