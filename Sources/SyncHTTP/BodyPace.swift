package import NIOCore

/// The minimum speed of a body, as a credit of time: waiting for the sender uses it up, and received bytes restore it.
///
/// The credit begins with the whole grace and never grows beyond it, so that a fast beginning does not pay for a slow rest. With a grace of
/// 60 s and 256 bytes per second:
///
///     1 byte every 20 s        refused after 60 s
///     4 KiB at 256 B/s         complete after 16 s, and at most 76 s are given
///     4 MiB at 1,000 B/s       complete after 70 minutes (a line of 9.6 kbit/s), with most of the grace left all the time
///     30 s of silence on it    uses up half of the grace; 2 s at 1,000 B/s give 8 s of it back
///
/// Time in which the receiver does not read does not count: a slow disk is not the sender's fault.
package struct BodyPace: Sendable {
    /// Bytes per second.
    private let rate: Int64
    /// Nanoseconds.
    private let grace: Int64
    private var credit: Int64
    private var counted: Int64 = 0
    private var waitingSince: NIODeadline?

    package init(rate: Int, grace: Duration) {
        self.rate = Int64(max(1, rate))
        self.grace = TimeAmount(grace).nanoseconds
        credit = self.grace
    }

    /// Counts elapsed time and received bytes.
    ///
    /// - Parameters:
    ///   - count: Total number of received bytes of the body.
    ///   - isWaiting: The receiver waits for the sender from now on.
    /// - Returns: The time that the sender may still be silent; zero or less when it is too slow.
    package mutating func update(at now: NIODeadline, count: Int, isWaiting: Bool) -> TimeAmount {
        if let waitingSince { credit -= (now - waitingSince).nanoseconds }
        let isLate = credit <= 0
        let bytes = Int64(count) - counted
        counted = Int64(count)
        // A step brings one read, or the rest of a closed connection: far below 2^63 / 10^9 bytes.
        if !isLate { credit = min(grace, credit + min(bytes, 1 << 32) * 1_000_000_000 / rate) }
        waitingSince = isWaiting ? now : nil
        return .nanoseconds(credit)
    }
}
