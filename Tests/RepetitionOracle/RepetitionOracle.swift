/// Watches the requests that a fake server of the tests gets, and complains about a client that repeats itself without end.
///
/// Hostile servers were answered with a thousand requests a second for ever by programs whose tests all passed, because each
/// test looked at the result and none at the number of requests. So every fake server has one of these, also in the tests
/// that are about something else. The limits are far above what any test needs, and far below a loop without a wait.
package struct RepetitionOracle: Sendable {
    package struct Limits: Sendable {
        /// The stretch of time in which requests are counted, seconds.
        package var windowSeconds: Int64 = 10
        /// Requests in a window.
        package var requests = 3_000
        /// Requests in a window that are the same to the byte.
        package var same = 150

        package init() {}
    }

    package let limits: Limits
    /// The forbidden things that a client did; empty in every test that passes.
    package private(set) var complaints: [String] = []
    /// All requests so far.
    package private(set) var count = 0
    /// Bytes of all bodies so far.
    package private(set) var bytes: Int64 = 0
    private var window: Int64 = .min
    private var inWindow = 0
    private var same: [Int: Int] = [:]
    /// Counts of the window before, so that a burst across the edge of two windows is seen.
    private var inWindowBefore = 0
    private var sameBefore: [Int: Int] = [:]

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// - Parameters:
    ///   - words: Method and target.
    ///   - bodyBytes: Its length, where only that is known.
    ///   - seconds: By the clock of the test, real or simulated.
    package mutating func saw(_ words: String, body: [UInt8] = [], bodyBytes: Int? = nil, atSeconds seconds: Int64) {
        let half = max(1, limits.windowSeconds / 2)
        let now = seconds / half
        if now != window {
            let isNext = window != .min && now == window + 1
            (inWindowBefore, sameBefore) = isNext ? (inWindow, same) : (0, [:])
            (window, inWindow, same) = (now, 0, [:])
        }
        count += 1
        bytes += Int64(bodyBytes ?? body.count)
        inWindow += 1
        var hasher = Hasher()
        hasher.combine(words)
        hasher.combine(body)
        let digest = hasher.finalize()
        same[digest, default: 0] += 1
        let all = inWindow + inWindowBefore
        if all == limits.requests + 1 { complain("more than \(limits.requests) requests in \(limits.windowSeconds) s, the last: \(words)") }
        let alike = (same[digest] ?? 0) + (sameBefore[digest] ?? 0)
        if alike == limits.same + 1 { complain("more than \(limits.same) times the same request in \(limits.windowSeconds) s: \(words)") }
    }

    private mutating func complain(_ words: String) {
        if complaints.count < 16 { complaints.append(words) }
    }
}
