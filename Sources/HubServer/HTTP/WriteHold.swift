package import NIOCore

/// Another session keeps the hub's database from being written to: a person's, a backup's, or that of a replica that hangs.
///
/// One try waits for a moment only (``TransactionPurpose/busyMilliseconds``), and between two tries there is a pause, in which reads
/// are answered at once. Who has waited for ``max`` is told to come back, and so is everybody after that, until a try succeeds.
package struct WriteHold {
    /// When the first try that failed began.
    package let since: NIODeadline
    /// When to try again.
    package let next: NIODeadline
    /// The writes have waited long enough.
    package let isOver: Bool

    static let pause = TimeAmount.milliseconds(250)
    static let max = TimeAmount.seconds(5)

    /// - Parameter before: What the try before this one found; `nil` when that one succeeded.
    package init(after before: WriteHold?, triedFrom start: NIODeadline, to end: NIODeadline) {
        since = before?.since ?? start
        next = end + WriteHold.pause
        isOver = end - since >= WriteHold.max
    }

    package func isDue(at now: NIODeadline) -> Bool { now >= next }
}
