import SyncCore

/// Slows a loop down when its rounds do no work.
///
/// libcurl 7.88 asks to be woken as soon as its socket accepts bytes, even while it must not send any. An HTTP/2 peer that grants no window
/// (RFC 9113, 5.2), because its own upstream is slow or on purpose, therefore makes every wait end at once. The same happens with a peer
/// that floods the connection with empty frames. Without this pause the loop would use a whole processor, possibly on battery, until a
/// deadline passes.
struct RoundPace {
    struct Mark: Equatable {
        var transfers: Int
        /// Number of the transfer that was begun last.
        var newest: UInt64?
        /// Time at which a byte of a request or an answer moved last.
        var moved: Instant?
    }

    /// Number of empty rounds without a pause, more than any handshake needs.
    static let freeRounds = 64
    /// Length of a pause. A hundred rounds a second use less than a hundredth of a processor.
    static let pauseMilliseconds: Int32 = 10

    private var last: Mark?
    private var empty = 0

    /// - Returns: Pause before the next wait, milliseconds.
    mutating func pause(after mark: Mark, hasCommands: Bool) -> Int32 {
        empty = mark == last && !hasCommands && mark.transfers > 0 ? empty + 1 : 0
        last = mark
        return empty > Self.freeRounds ? Self.pauseMilliseconds : 0
    }
}
