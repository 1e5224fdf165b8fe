package import SyncCore

// Assigns the stamps of mutations (PROTOCOL A11, D5).
//
// With an anchor, or a wall clock that is known to be right, the stamp is the present time, marked `synced`. Without one, the stamp only
// continues the last one by its counter and is marked `unsynced`: it loses every `lww` contest, and a wall clock in 2106 does not drag our
// own clock along for ever. An unsynced mutation that has not been sent is stamped again when it is sent, if an anchor of its boot is known
// by then: boot time tells exactly when it was made (`retro`).

extension Store {
    /// Stores an anchor of the time with its boot. A restart of the process uses it again, and mutations that an earlier boot left unsent
    /// can still be dated. An anchor that leads to an implausible present time is not kept.
    package func learn(_ anchor: ClockAnchor, at now: Moment) throws(StoreError) {
        guard anchor.wall(at: now.instant).isPlausible else { return }
        try transact(at: now) { () throws(StoreError) in
            let boot = try currentBoot()
            try database.run("UPDATE boot SET anchor_ms = ? WHERE bid = ?", .int(anchor.difference), .int(boot))
            ages.learn(anchor.wall(at: now.instant), at: now)
            try MetaTable(database).set("age", ages.text)
            return ()
        }
        self.anchor = anchor
    }

    /// Loads the anchor that an earlier process of this boot stored, unless it leads to an implausible present time.
    func loadAnchor(at now: Moment) throws(StoreError) {
        let known = try database.number(
            "SELECT anchor_ms FROM boot WHERE name = ? AND anchor_ms IS NOT NULL", .text(options.bootID))
        anchor = known.map { ClockAnchor(difference: $0, error: .zero) }.flatMap { $0.wall(at: now.instant).isPlausible ? $0 : nil }
    }

    /// The time of the open transaction, if any clock can be trusted with it.
    private var trustedWall: Timestamp? {
        let time = anchor?.wall(at: now.instant) ?? (clockTrust == .unsynced ? nil : now.wall)
        return time.flatMap { $0.isPlausible ? $0 : nil }
    }

    func stamp(_ payload: inout Payload) {
        if let time = trustedWall {
            payload.hlc = clock.tick(now: time).description
            payload.clock = .synced
        } else {
            payload.hlc = clock.tick().description
            payload.clock = .unsynced
        }
    }

    /// Takes a stamp of the hub into account, so that ours are later than all we have seen. Without a clock of our own nobody
    /// could say whether it lies too far ahead.
    func observe(_ stamp: String?) {
        guard let time = stamp.flatMap({ HybridTime($0) }), let wall = trustedWall else { return }
        clock.observe(time, now: wall)
    }

    /// Dates what goes out for the first time and was stamped without a clock, or by one that was wrong.
    func restamp(_ rows: inout [ClaimRow]) throws(StoreError) {
        for index in rows.indices where !rows[index].outbox.isSent { try dateAnew(&rows[index].payload) }
    }

    /// Dates what was stamped without a clock, or too far ahead by a wrong one, if by now it is known when its boot was.
    ///
    /// - Precondition: It was never sent.
    func dateAnew(_ payload: inout Payload) throws(StoreError) {
        guard payload.clock == .unsynced || isAhead(payload.hlc), let anchor = try anchor(ofBoot: payload.bid) else { return }
        let made = anchor.wall(at: Instant(nanoseconds: payload.bootMS.saturatingMultiply(1_000_000)))
        guard made.isPlausible else { return }
        let time = HybridTime(milliseconds: UInt64(clamping: made.milliseconds), counter: 0, node: clock.last.node)
        // An anchor of an earlier boot may itself be from a wrong clock.
        if let wall = trustedWall, HybridClock.isAhead(time, of: wall) { return }
        if payload.clock == .unsynced {
            payload.dateParts { part in
                let made = anchor.wall(at: Instant(nanoseconds: Int64(clamping: part.milliseconds).saturatingMultiply(1_000_000)))
                return HybridTime(milliseconds: UInt64(clamping: made.milliseconds), counter: 0, node: clock.last.node)
            }
        } else {
            // When in its boot a part was made is not known any more: none is later than the whole.
            payload.dateParts { $0 > time ? nil : $0 }
        }
        payload.hlc = time.description
        payload.clock = .retro
        payload.createdMS = made.milliseconds.asStored
        try rewrite(payload)
        // What is stamped next is later than this.
        if let wall = trustedWall { clock.observe(time, now: wall) }
    }

    /// What an edit leaves of the mutation that it goes into keeps this stamp.
    ///
    /// - Returns: `nil` where the two cannot tell their times in one mutation: the clock of one was trusted and that of the other was
    ///   not, or they are of two boots without a clock.
    func stampOfParts(_ older: Payload, in newer: Payload) -> HybridTime? {
        guard older.clock == .unsynced else {
            return newer.clock == .unsynced || isAhead(older.hlc) ? nil : HybridTime(older.hlc)
        }
        guard newer.clock == .unsynced, older.bid == newer.bid else { return nil }
        return HybridTime(milliseconds: UInt64(clamping: older.bootMS), counter: 0, node: clock.last.node)
    }

    private func isAhead(_ stamp: String) -> Bool {
        guard let wall = trustedWall, let time = HybridTime(stamp) else { return false }
        return HybridClock.isAhead(time, of: wall)
    }

    private func anchor(ofBoot bid: Int64) throws(StoreError) -> ClockAnchor? {
        try database.number("SELECT anchor_ms FROM boot WHERE bid = ? AND anchor_ms IS NOT NULL", .int(bid))
            .map { ClockAnchor(difference: $0, error: .zero) }
    }
}
