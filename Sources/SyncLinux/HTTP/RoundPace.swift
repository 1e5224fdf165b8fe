import SyncCore

/// Slows a loop down whose rounds bring nothing.
///
/// libcurl 7.88 asks to be woken as soon as its socket takes bytes, also while it must not send any: a peer that speaks HTTP/2
/// and grants no window (RFC 9113, 5.2), because its own upstream is slow or on purpose, makes every wait end at once. The same
/// happens with a peer that floods the connection with frames that carry nothing. Without this the loop then takes a whole
/// processor, on a battery, until a deadline passes.
struct RoundPace {
    struct Mark: Equatable {
        var transfers: Int
        /// The number of the transfer that was begun last.
        var newest: UInt64?
        /// When a byte of a request or an answer moved last.
        var moved: Instant?
    }

    /// More than any handshake needs.
    static let freeRounds = 64
    /// A hundred rounds a second take less than a hundredth of a processor.
    static let pauseMilliseconds: Int32 = 10

    private var last: Mark?
    private var empty = 0

    /// - Returns: How long to pause before the next wait, milliseconds.
    mutating func pause(after mark: Mark, hasCommands: Bool) -> Int32 {
        empty = mark == last && !hasCommands && mark.transfers > 0 ? empty + 1 : 0
        last = mark
        return empty > Self.freeRounds ? Self.pauseMilliseconds : 0
    }
}
