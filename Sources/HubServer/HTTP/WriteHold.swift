package import NIOCore

/// The state while another session blocks writes to the hub's database: a person's, a backup's, or that of a replica that hangs.
///
/// One attempt waits only a moment (``TransactionPurpose/busyMilliseconds``). Between two attempts there is a pause, in which reads are
/// answered at once. A write that has waited for ``max`` is refused with a time to retry, and so is each later one until an attempt
/// succeeds.
package struct WriteHold {
    /// Start of the first failed attempt.
    package let since: NIODeadline
    /// Time of the next attempt.
    package let next: NIODeadline
    /// The writes have waited long enough and are refused.
    package let isOver: Bool

    static let pause = TimeAmount.milliseconds(250)
    static let max = TimeAmount.seconds(5)

    /// - Parameter before: The result of the attempt before this one; `nil` when that one succeeded.
    package init(after before: WriteHold?, triedFrom start: NIODeadline, to end: NIODeadline) {
        since = before?.since ?? start
        next = end + WriteHold.pause
        isOver = end - since >= WriteHold.max
    }

    package func isDue(at now: NIODeadline) -> Bool { now >= next }
}
