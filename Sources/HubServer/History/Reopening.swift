import SyncCore

/// The schedule of attempts to reach a database server: at once, then after 0.25 s, 0.5 s, 1 s, 2 s, 4 s, and every 5 s. Between two
/// attempts requests are refused without waiting.
struct Reopening {
    private var failures = 0
    private var next: Timestamp?

    private static let first: Duration = .milliseconds(250)
    private static let longest: Duration = .seconds(5)

    func isDue(at now: Timestamp) -> Bool {
        guard let next else { return true }
        // A clock that was set back must not delay the attempt.
        return now >= next || next > now.advanced(by: Reopening.longest)
    }

    mutating func failed(at now: Timestamp) {
        next = now.advanced(by: min(Reopening.first * (1 << min(failures, 5)), Reopening.longest))
        failures += 1
    }
}
