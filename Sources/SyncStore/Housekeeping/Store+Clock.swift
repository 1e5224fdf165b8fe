package import SyncCore
import SyncSQLite

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

    /// The time of the open transaction, if a clock can be trusted.
    var trustedWall: Timestamp? {
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

    /// Takes a stamp of the hub into account, so that our stamps are later than all that were seen. Without a trusted time it is impossible
    /// to tell whether the stamp lies too far ahead.
    func observe(_ stamp: String?) {
        guard let time = stamp.flatMap({ HybridTime($0) }), let wall = trustedWall else { return }
        clock.observe(time, now: wall)
    }

    /// Dates mutations that are sent for the first time and were stamped without a clock, or by a wrong one.
    func restamp(_ rows: inout [ClaimRow]) throws(StoreError) {
        for index in rows.indices where !rows[index].outbox.isSent { try dateAnew(&rows[index].payload) }
    }

    /// Dates a mutation that was stamped without a clock, or too far ahead by a wrong one, if the time of its boot is known by now.
    ///
    /// - Precondition: It was never sent.
    func dateAnew(_ payload: inout Payload) throws(StoreError) {
        guard let time = try date(&payload) else { return }
        try rewrite(payload)
        // The next stamp is later than this one.
        if let wall = trustedWall { clock.observe(time, now: wall) }
    }

    /// Dates a copy of such a mutation, which may have been sent.
    ///
    /// - Returns: `nil` where it stays as it is.
    func date(_ payload: inout Payload) throws(StoreError) -> HybridTime? {
        guard payload.clock == .unsynced || isAhead(payload.hlc), let anchor = try anchor(ofBoot: payload.bid) else { return nil }
        let made = anchor.wall(at: Instant(nanoseconds: payload.bootMS.saturatingMultiply(1_000_000)))
        guard made.isPlausible else { return nil }
        let time = HybridTime(milliseconds: UInt64(clamping: made.milliseconds), counter: 0, node: clock.last.node)
        // The anchor of an earlier boot may itself come from a wrong clock.
        if let wall = trustedWall, HybridClock.isAhead(time, of: wall) { return nil }
        if payload.clock == .unsynced {
            payload.dateParts { part in
                let made = anchor.wall(at: Instant(nanoseconds: Int64(clamping: part.milliseconds).saturatingMultiply(1_000_000)))
                return HybridTime(milliseconds: UInt64(clamping: made.milliseconds), counter: 0, node: clock.last.node)
            }
        } else {
            // The time of a part within its boot is not known any more; no part is later than the whole.
            payload.dateParts { $0 > time ? nil : $0 }
        }
        payload.hlc = time.description
        payload.clock = .retro
        payload.createdMS = made.milliseconds.asStored
        return time
    }

    /// The stamp that the rest of an older mutation keeps when an edit is merged into it.
    ///
    /// - Returns: `nil` where the two times cannot be expressed in one mutation: only one of the two clocks was trusted, or the mutations
    ///   were made in two boots without a clock.
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
