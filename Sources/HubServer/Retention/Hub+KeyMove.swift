import SyncCore

// Keys move from the table of an earlier schema slice by slice, while hubs go on working (``KeyTables/move``).
extension Hub {
    /// Largest number of pages that one slice looks through. Most of them are empty when an earlier run has been here.
    private static let keyPagesMax: Int64 = 1_000

    var keyTasks: [HousekeepingRun.Task] { store.database.spelling.keys.move == nil ? [] : [.earlierKeys(from: 0)] }

    /// Moves the keys on the next pages of the earlier table, in one transaction without the lock of the hub; behind the last page it
    /// removes the table, if it is empty.
    ///
    /// A hub that is killed has moved whole slices, and the next run begins at the first page. Two hubs that move at once leave each other
    /// the keys that they have locked.
    func moveKeys(from page: Int64, _ run: HousekeepingRun) throws(HubError) -> HousekeepingRun.Slice {
        guard let move = store.database.spelling.keys.move else { return HousekeepingRun.Slice() }
        let (slice, isThrough): (HousekeepingRun.Slice, Bool)
        do throws(HubError) {
            (slice, isThrough) = try transact(.removing, isReported: { false }) { () throws(DatabaseError) in
                try store.moveKeys(move, from: page, pages: Hub.keyPagesMax, limit: run.keysMax)
            }
        } catch {
            if isDown {
                report?(error)
                throw error
            }
            // Another hub may have removed the table since this one looked for it.
            if try transact(.reading, { () throws(DatabaseError) in try store.database.number(move.pages) < 0 }) {
                return HousekeepingRun.Slice()
            }
            report?(error)
            throw error
        }
        guard isThrough else { return slice }
        do throws(HubError) {
            try transact(.writingIfFree, isReported: { false }) { () throws(DatabaseError) in try store.removeEarlierKeys(move) }
        } catch {
            // A hub or a backup reads the table at this moment: the next run removes it.
        }
        return slice
    }
}

extension HubStore {
    /// - Returns: `isThrough`: the walk has passed the last page.
    fileprivate func moveKeys(
        _ move: KeyMove, from page: Int64, pages: Int64, limit: Int
    ) throws(DatabaseError) -> (slice: HousekeepingRun.Slice, isThrough: Bool) {
        let end = try database.number(move.pages)
        guard end >= 0 else { return (HousekeepingRun.Slice(), false) }
        guard page < end else { return (HousekeepingRun.Slice(), true) }
        let (first, behind, most): (DatabaseValue, DatabaseValue, DatabaseValue) = (.int(page), .int(page + pages), .int(Int64(limit)))
        try database.run(move.numbering, first, behind, most)
        let moved = try database.first(move.slice, first, behind, most) { (count: $0.int(0), last: $0.int(1)) }
        let count = moved?.count ?? 0
        // The last page may have more.
        let next = count < limit ? page + pages : moved?.last ?? page
        return (HousekeepingRun.Slice(removed: Int(count), next: .earlierKeys(from: next)), false)
    }

    /// Time for which the removal of the table waits for those that read it.
    private static let removalLockMilliseconds = 50

    /// To be called with the lock of the hub: the number of the transaction makes decisions compare what they have read.
    fileprivate func removeEarlierKeys(_ move: KeyMove) throws(DatabaseError) {
        guard try database.number(move.pages) >= 0 else { return }
        try database.run("SET LOCAL statement_timeout = \(TransactionPurpose.busyMilliseconds)")
        guard try database.number(move.hasRows) == 0 else { return }
        // Every look-up for a key waits behind this one's wait for the last readers. The setting is unknown to some servers.
        let limit = HubStore.removalLockMilliseconds
        _ = try database.text("SELECT set_config(name, '\(limit)', true) FROM pg_settings WHERE name = 'lock_timeout'")
        for statement in move.removal { try database.execute(statement) }
        try database.waitForWrites()
    }
}
