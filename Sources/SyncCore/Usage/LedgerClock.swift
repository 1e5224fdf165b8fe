/// The day to which bytes are counted, whatever the wall clock does.
///
/// A gateway without a clock chip starts in 1970, or at the time when it was switched off, and jumps when it first learns the time. An
/// operator may set a clock to any value. If the day of a budget were simply that of the wall clock, each such jump would begin a new day,
/// and with it a new budget. So wall time is used only as far as boot time confirms it:
///
///     wall clock                       the ledger
///     trusted, keeps pace with boot    follows it; midnight begins a new day                      .began
///     steps while it was trusted       goes along; what was counted goes along, nothing is reset  .moved
///     not trusted                      goes on by boot time from where it last was; 24 h later    .began
///     trusted for the first time       goes there; of earlier days only what was counted while
///     since the start                  the clock was not trusted belongs to the new one           .arrived
package struct LedgerClock: Hashable, Sendable {
    package enum Change: Hashable, Sendable { case none, began, moved, arrived }

    package private(set) var day: UTCDay
    /// The ledger's time at an instant.
    private var base: Moment
    /// `base` is a wall time that was trusted in this boot.
    private var isAnchored = false
    /// The clock was trusted at the latest look.
    package private(set) var isTrusted = false

    /// - Parameter saved: The stored time of the ledger; `nil` in a new installation, which begins by the wall clock, trusted or not.
    init(saved: Timestamp?, at moment: Moment) {
        base = Moment(instant: moment.instant, wall: saved ?? moment.wall)
        day = UTCDay(base.wall)
    }

    /// The ledger's time.
    package func time(at moment: Moment) -> Timestamp {
        base.wall.advanced(by: max(.zero, base.instant.duration(to: moment.instant)))
    }

    package mutating func look(_ moment: Moment, isTrusted: Bool) -> Change {
        self.isTrusted = isTrusted
        guard isTrusted else { return follow(UTCDay(time(at: moment))) }
        let elapsed = max(.zero, base.instant.duration(to: moment.instant))
        if isAnchored, isInPace(moment.wall, elapsed) {
            // Within the tolerance it may show yesterday again; the day has begun all the same.
            return follow(UTCDay(moment.wall))
        }
        let isFirst = !isAnchored
        isAnchored = true
        base = moment
        let today = UTCDay(moment.wall)
        defer { day = today }
        if today == day { return .none }
        return today > day && isFirst ? .arrived : .moved
    }

    private mutating func follow(_ today: UTCDay) -> Change {
        guard today > day else { return .none }
        day = today
        return .began
    }

    /// A disciplined clock is at most 500 ppm off (adjtimex(2)); a minute covers the rest.
    private func isInPace(_ wall: Timestamp, _ elapsed: Duration) -> Bool {
        let tolerance = Duration.seconds(60) + elapsed / 1_000
        let off = base.wall.advanced(by: elapsed).duration(to: wall)
        return off <= tolerance && off >= .zero - tolerance
    }
}
