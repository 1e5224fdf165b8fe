/// Bytes that may move before the ledger is stored the next time; they are on flash before they move.
///
/// Requests are counted when they end, and stored with the cycle. A power cut in between would leave the ledger, and with it the budget,
/// below the bytes that the link has carried. So the database always holds more than has moved since the last store: the largest size of
/// the running requests, and room for further ones, so that few of them need a commit of their own. The next start counts the rest of it:
/// all of it after a power cut; after a crash of the agent alone, no more than the interface has carried beyond the counted bytes
/// (``Stored/used(boot:now:)``).
///
///     stored 20 KB, room 32 KB:   a request of up to 4 KB goes at once         (counted 0 + running 4 of 32)
///                                 a batch of 40 KB waits for a commit first    (counted 4 + running 40: 76 are booked)
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

    /// The form in the database.
    package struct Stored: Hashable, Sendable {
        package var link: String
        package var isRoaming: Bool
        package var bytes: Bytes
        /// The boot of the machine in which it was stored.
        package var boot: String
        /// Bytes that the interface had carried by its own counters and that were all counted when this was stored. Bytes that a running
        /// request had moved by then are beyond it. `nil`: not known.
        package var carried: Bytes?

        package init(link: String, isRoaming: Bool, bytes: Bytes, boot: String, carried: Bytes?) {
            self.link = link
            self.isRoaming = isRoaming
            self.bytes = bytes
            self.boot = boot
            self.carried = carried
        }

        /// The bytes that the next start counts.
        ///
        /// - Parameter now: The interface's counters; `nil`: not known.
        package func used(boot: String, now: Bytes?) -> Bytes {
            // The counters begin again with the machine, and with an interface that was removed and added again.
            guard boot == self.boot, let carried, let now, carried.isWithin(now) else { return bytes }
            let since = now - carried
            return Bytes(up: min(bytes.up, since.up), down: min(bytes.down, since.down))
        }
    }

    private var link = ""
    private var isRoaming = false
    private var booked = Bytes()
    private var underWay = Bytes()
    /// Bytes that were counted since it was stored.
    private var counted = Bytes()
    /// Bytes of ended requests that are not counted yet.
    private var uncounted = Bytes()
    /// Bytes that the interface had carried when nothing was open, plus the bytes counted since. Frames of the link are not counted, so
    /// this can only be too low, until nothing is open again.
    private var explained: Bytes?
    /// Requests that a kill cut off before this run began.
    package private(set) var cutOff: CutOff?

    package struct CutOff: Hashable, Sendable {
        package let link: String
        package let isRoaming: Bool
        /// Bytes that may still move.
        fileprivate var left: Bytes
        /// The counters of the interface at the last look, and the bytes counted since.
        fileprivate var explained: Bytes
        fileprivate let ends: Instant

        /// The kernel gives up what a killed program has handed to it after about this time without an answer.
        fileprivate static let time: Duration = .seconds(60)
    }

    package init() {}

    // MARK: After a kill

    /// Takes over from a run that was killed.
    ///
    /// The kernel goes on sending what that run had handed to it, which is up to some hundred KB for each connection on a slow link. So the
    /// bytes that follow are counted as well (``late(at:carried:)``).
    ///
    /// - Parameter carried: The counters of the interface.
    /// - Returns: The bytes that may have moved by now.
    package mutating func resume(_ stored: Stored, boot: String, at now: Instant, carried: (String) -> Bytes?) -> Bytes {
        let counters = carried(stored.link)
        let used = stored.used(boot: boot, now: counters)
        let left = stored.bytes - used
        cutOff = counters.flatMap { counters in
            left == Bytes()
                ? nil
                : CutOff(
                    link: stored.link, isRoaming: stored.isRoaming, left: left, explained: counters, ends: now.advanced(by: CutOff.time))
        }
        return used
    }

    /// Returns the bytes that ``cutOff`` has moved since the last call: those that its interface has carried and this run has not. While
    /// requests of this run move they cannot be told from its own, and the next call returns them. Frames of the link are among them, about
    /// a hundredth of what this run has moved.
    package mutating func late(at now: Instant, carried: (String) -> Bytes?) -> Bytes {
        guard isSettled, var requests = cutOff, let counters = carried(requests.link), requests.explained.isWithin(counters) else {
            return Bytes()
        }
        let since = counters - requests.explained
        let moved = Bytes(up: min(requests.left.up, since.up), down: min(requests.left.down, since.down))
        (requests.left, requests.explained) = (requests.left - moved, counters)
        cutOff = now >= requests.ends || requests.left == Bytes() ? nil : requests
        return moved
    }

    // MARK: Requests

    /// Begins a request that moves at most this many bytes.
    ///
    /// - Parameter carried: The counters of the interface.
    /// - Returns: `true` when a store must come first (``stored(room:boot:carried:)``).
    package mutating func begin(_ bytes: Bytes, over link: String, isRoaming: Bool, carried: (String) -> Bytes?) -> Bool {
        let isOther = link != self.link || isRoaming != self.isRoaming
        if isOther { (self.link, self.isRoaming, booked, counted) = (link, isRoaming, Bytes(), Bytes()) }
        if isOther || isSettled { explained = carried(link) }
        underWay = underWay + bytes
        return !(counted + uncounted + underWay).isWithin(booked)
    }

    /// Ends a request.
    ///
    /// - Parameters:
    ///   - bytes: The value that was passed to ``begin(_:over:isRoaming:carried:)``.
    ///   - moved: The bytes that it moved, which will be counted next.
    package mutating func end(_ bytes: Bytes, moved: Bytes) {
        underWay = underWay - bytes
        uncounted = uncounted + moved
    }

    /// Records that its bytes were counted and are not stored yet.
    package mutating func count(_ bytes: Bytes, over link: String) {
        uncounted = uncounted - bytes
        // At a start the link is not known yet, so the bytes may be of any.
        if let requests = cutOff { cutOff?.explained = requests.explained + bytes }
        guard link == self.link else { return }
        counted = counted + bytes
        explained = explained.map { $0 + bytes }
    }

    /// `true` when nothing moves, and all moved bytes are counted.
    private var isSettled: Bool { underWay == Bytes() && uncounted == Bytes() }

    /// Records that all counted bytes are about to be stored, together with this value. ``failed(_:over:)`` returns the bytes that could
    /// not be stored.
    ///
    /// - Parameters:
    ///   - room: Bytes for further requests, in each direction; 0 at the end of the run.
    ///   - carried: The counters of the interface.
    package mutating func stored(room: Int64, boot: String, carried: (String) -> Bytes?) -> Stored? {
        counted = Bytes()
        let open = underWay + uncounted
        let most = Bytes(up: max(0, room).saturatingMultiply(2), down: max(0, room).saturatingMultiply(2)) + open
        // The booked bytes stay in use, as long as they are not much more than needed.
        if !open.isWithin(booked) || !booked.isWithin(most) || room <= 0 { booked = open + Bytes(up: room, down: room) }
        guard booked != Bytes() else { return nil }
        let now = carried(link)
        if isSettled { explained = now }
        let base = now.flatMap { now in explained.map { Bytes(up: min($0.up, now.up), down: min($0.down, now.down)) } ?? now }
        // The kernel may still be sending for a run before this one when this one is killed, too.
        let late = cutOff?.link == link ? cutOff?.left ?? Bytes() : Bytes()
        return Stored(link: link, isRoaming: isRoaming, bytes: booked + late, boot: boot, carried: base)
    }

    /// Records that bytes which were passed to ``count(_:over:)`` could not be stored.
    package mutating func failed(_ bytes: Bytes, over link: String) {
        if link == self.link { counted = counted + bytes }
    }

    /// Room besides the running requests, bytes: a hundredth of a day's budget, at least one small exchange and at most a page.
    package static func room(for budget: LinkBudget?) -> Int64 {
        guard let budget, let least = [budget.dayBytes, budget.monthBytes.map { $0 / 30 }].compactMap({ $0 }).min() else { return 1 << 20 }
        return min(max(Int64(least) / 100, 1 << 10), 32 << 10)
    }
}
