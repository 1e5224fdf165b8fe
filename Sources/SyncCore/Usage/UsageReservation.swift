/// What may move before the ledger is stored the next time, on flash before it moves.
///
/// Requests are counted when they end, and stored with the cycle. A power cut in between would leave the ledger, and with it the budget,
/// below what the link has carried. So the database always holds more than has moved since it was stored last: what is under way at its
/// most, and room for requests to come, so that few of them need a commit of their own. The next start counts what was left of it: all of
/// it after a power cut; after the death of the agent alone no more than what the interface has carried beyond what was counted
/// (``Stored/used(boot:now:)``).
///
///     stored 20 KB, room 32 KB:   a request of up to 4 KB goes at once         (counted 0 + under way 4 of 32)
///                                 a batch of 40 KB waits for a commit first    (counted 4 + under way 40: 76 are booked)
package struct UsageReservation: Hashable, Sendable {
    package struct Bytes: Hashable, Sendable {
        package var up: Int64
        package var down: Int64

        package init(up: Int64 = 0, down: Int64 = 0) {
            (self.up, self.down) = (max(0, up), max(0, down))
        }

        package static func + (left: Bytes, right: Bytes) -> Bytes {
            Bytes(up: left.up.saturatingAdd(right.up), down: left.down.saturatingAdd(right.down))
        }

        package static func - (left: Bytes, right: Bytes) -> Bytes {
            Bytes(up: left.up.saturatingAdd(-right.up), down: left.down.saturatingAdd(-right.down))
        }

        func isWithin(_ other: Bytes) -> Bool { up <= other.up && down <= other.down }
    }

    /// As it is in the database.
    package struct Stored: Hashable, Sendable {
        package var link: String
        package var isRoaming: Bool
        package var bytes: Bytes
        /// Of the machine when it was stored.
        package var boot: String
        /// What the interface had carried, by its own counters, of which all was counted when this was stored: what a request under way
        /// had moved by then is beyond it. `nil`: not known.
        package var carried: Bytes?

        package init(link: String, isRoaming: Bool, bytes: Bytes, boot: String, carried: Bytes?) {
            self.link = link
            self.isRoaming = isRoaming
            self.bytes = bytes
            self.boot = boot
            self.carried = carried
        }

        /// What the next start counts of it.
        ///
        /// - Parameter now: The interface's counters; `nil`: not known.
        package func used(boot: String, now: Bytes?) -> Bytes {
            // The counters begin anew with the machine, and with an interface that went away and came back.
            guard boot == self.boot, let carried, let now, carried.isWithin(now) else { return bytes }
            let since = now - carried
            return Bytes(up: min(bytes.up, since.up), down: min(bytes.down, since.down))
        }
    }

    private var link = ""
    private var isRoaming = false
    private var booked = Bytes()
    private var underWay = Bytes()
    /// Since it was stored.
    private var counted = Bytes()
    /// Moved by requests that have ended, and not counted yet.
    private var uncounted = Bytes()
    /// What the interface had carried when nothing was open, and what was counted since. Frames of the link are not counted, so this
    /// can only lag behind, until nothing is open again.
    private var explained: Bytes?

    package init() {}

    /// A request is about to go that moves at most so much.
    ///
    /// - Parameter carried: The counters of the interface.
    /// - Returns: Whether something must be stored first (``stored(room:boot:carried:)``).
    package mutating func begin(_ bytes: Bytes, over link: String, isRoaming: Bool, carried: (String) -> Bytes?) -> Bool {
        let isOther = link != self.link || isRoaming != self.isRoaming
        if isOther { (self.link, self.isRoaming, booked, counted) = (link, isRoaming, Bytes(), Bytes()) }
        if isOther || isSettled { explained = carried(link) }
        underWay = underWay + bytes
        return !(counted + uncounted + underWay).isWithin(booked)
    }

    /// A request has ended.
    ///
    /// - Parameters:
    ///   - bytes: As ``begin(_:over:isRoaming:carried:)`` was told.
    ///   - moved: What it moved, which is counted in a moment.
    package mutating func end(_ bytes: Bytes, moved: Bytes) {
        underWay = underWay - bytes
        uncounted = uncounted + moved
    }

    /// It was counted, and is not stored yet.
    package mutating func count(_ bytes: Bytes, over link: String) {
        uncounted = uncounted - bytes
        guard link == self.link else { return }
        counted = counted + bytes
        explained = explained.map { $0 + bytes }
    }

    /// Nothing moves, and all that moved is counted.
    private var isSettled: Bool { underWay == Bytes() && uncounted == Bytes() }

    /// All that was counted is about to be stored, and this with it. ``failed(_:over:)`` says of what that it could not be stored.
    ///
    /// - Parameters:
    ///   - room: For requests to come, in each direction; 0 at the end of the run.
    ///   - carried: The counters of the interface.
    package mutating func stored(room: Int64, boot: String, carried: (String) -> Bytes?) -> Stored? {
        counted = Bytes()
        let open = underWay + uncounted
        let most = Bytes(up: max(0, room).saturatingMultiply(2), down: max(0, room).saturatingMultiply(2)) + open
        // What is booked serves on, as long as it is not much more than is needed.
        if !open.isWithin(booked) || !booked.isWithin(most) || room <= 0 { booked = open + Bytes(up: room, down: room) }
        guard booked != Bytes() else { return nil }
        let now = carried(link)
        if isSettled { explained = now }
        let base = now.flatMap { now in explained.map { Bytes(up: min($0.up, now.up), down: min($0.down, now.down)) } ?? now }
        return Stored(link: link, isRoaming: isRoaming, bytes: booked, boot: boot, carried: base)
    }

    /// What ``count(_:over:)`` was told of could not be stored.
    package mutating func failed(_ bytes: Bytes, over link: String) {
        if link == self.link { counted = counted + bytes }
    }

    /// Beside the requests under way: a hundredth of what a day's budget has, as little as one small exchange and as much as a page.
    package static func room(for budget: LinkBudget?) -> Int64 {
        guard let budget, let least = [budget.dayBytes, budget.monthBytes.map { $0 / 30 }].compactMap({ $0 }).min() else { return 1 << 20 }
        return min(max(Int64(least) / 100, 1 << 10), 32 << 10)
    }
}
