/// The patience of a client.
///
/// The wait before try n is random between half of `firstWait * 2^(n-2)` and the whole of it, and at most `longestWait`: 0.05 to
/// 0.1 s, 0.1 to 0.2 s … 2.5 to 5 s. A `Retry-After` of the agent counts as the least, and up to a fifth of it is added, so
/// that many apps do not return at the same moment.
public struct RetryPolicy: Sendable, Equatable {
    public var firstWait: Duration
    public var longestWait: Duration
    /// The time in which a missing socket may appear before the first connection of a client. A wrong path is reported after that
    /// time. Once the client was connected, the agent must be restarting, and the whole deadline counts.
    public var absentPatience: Duration

    public init(
        firstWait: Duration = .milliseconds(100), longestWait: Duration = .seconds(5), absentPatience: Duration = .seconds(2)
    ) {
        self.firstWait = firstWait
        self.longestWait = longestWait
        self.absentPatience = absentPatience
    }

    /// The wait before the next try.
    ///
    /// - Parameters:
    ///   - tries: Tries that failed so far, at least 1.
    ///   - draw: A random number from 0 to 1.
    package func wait(tries: Int, draw: Double, retryAfter: Duration? = nil) -> Duration {
        // The exponent is limited because a feed may fail a million times.
        let longest = min(longestWait, firstWait * (1 << min(max(0, tries - 1), 20)))
        let wait = longest * (0.5 + 0.5 * draw)
        return retryAfter.map { max(wait, $0 * (1 + 0.2 * draw)) } ?? wait
    }

    /// A try that failed, with what the decision about the next one needs.
    package struct Failure: Sendable {
        package var error: EdgeSyncError
        package var tries: Int
        /// Bytes of the request may have reached the agent.
        package var wasSent: Bool
        /// The agent applies the request at most once, however often it comes.
        package var isRepeatable: Bool
        /// The client had a connection before.
        package var wasConnected: Bool
        package var elapsed: Duration
        /// Time until the deadline; `nil` if there is none.
        package var left: Duration?

        package init(
            error: EdgeSyncError, tries: Int, wasSent: Bool, isRepeatable: Bool, wasConnected: Bool, elapsed: Duration,
            left: Duration?
        ) {
            self.error = error
            self.tries = tries
            self.wasSent = wasSent
            self.isRepeatable = isRepeatable
            self.wasConnected = wasConnected
            self.elapsed = elapsed
            self.left = left
        }
    }

    /// The error that tells why there is no answer. A deadline that passes within a later try does not; the try before knows it.
    package static func cause(of error: EdgeSyncError, wasSent: Bool, after last: EdgeSyncError?) -> EdgeSyncError {
        guard error.kind == .deadlinePassed, let last else { return error }
        // The pause took longer than it should have.
        guard wasSent else { return last }
        var error = error
        error.detail += "; the try before it failed: \(last.detail)"
        return error
    }

    /// The wait before the next try; `nil` if the caller must get the error.
    package func decide(_ failure: Failure, draw: Double) -> Duration? {
        guard failure.error.isTransient else { return nil }
        if failure.wasSent, !failure.isRepeatable, failure.error.leavesOutcomeOpen { return nil }
        if failure.error.code == .noSocket, !failure.wasConnected, failure.elapsed >= absentPatience { return nil }
        let wait = wait(tries: failure.tries, draw: draw, retryAfter: failure.error.retryAfter)
        // A wait that ends behind the deadline is of no use: the caller gets the cause now.
        if let left = failure.left, wait >= left { return nil }
        return wait
    }
}

/// Time and randomness, which the tests hand in.
package struct Environment: Sendable {
    /// Time of a clock that never jumps.
    package var now: @Sendable () -> Duration
    /// Waits. It throws when the task is cancelled.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// A random number from 0 to 1.
    package var draw: @Sendable () -> Double
    /// A new idempotency key that no other call has.
    package var newKey: @Sendable () -> String

    package init(
        now: @escaping @Sendable () -> Duration, sleep: @escaping @Sendable (Duration) async throws -> Void,
        draw: @escaping @Sendable () -> Double, newKey: @escaping @Sendable () -> String
    ) {
        self.now = now
        self.sleep = sleep
        self.draw = draw
        self.newKey = newKey
    }

    package static let system = Environment(
        now: { .monotonicNow() }, sleep: { try await Task.sleep(for: $0) }, draw: { Double.random(in: 0..<1) },
        newKey: {
            let digits = [UInt64.random(in: 0 ... .max), .random(in: 0 ... .max)].map { number in
                let text = String(number, radix: 16)
                return String(repeating: "0", count: 16 - text.utf8.count) + text
            }
            return "edgesync-" + digits.joined()
        })
}
