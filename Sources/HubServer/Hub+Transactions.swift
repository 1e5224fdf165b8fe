import SyncCore

// The lifecycle of one transaction: begin, end, failure, and reopening of the database.
extension Hub {
    /// Records the commit numbers and verdicts of a push; they count once the transaction is committed.
    func advance(to head: Int64, adding counted: HubCounters) throws(DatabaseError) {
        if !store.deferAdvance(to: head, adding: counted) { try writeAdvance(to: head, from: state.head, adding: counted) }
        if state.linked == state.head { state.linked = head }
        state.head = head
        state.counters.add(counted)
    }

    /// Writes the changes that the requests of a turn have made so far.
    func flush() throws(DatabaseError) {
        let before = store.group?.head ?? state.head
        guard let writes = try store.flush(), let head = writes.head else { return }
        try writeAdvance(to: head, from: before, adding: writes.counters)
    }

    private func writeAdvance(to head: Int64, from before: Int64, adding counted: HubCounters) throws(DatabaseError) {
        try store.advance(to: head, from: before, adding: counted)
        // The row was deleted while the hub runs: its content is still known here.
        if !store.database.isShared, try store.database.changes() == 0 {
            try store.create(state)
            try store.advance(to: head, from: state.head, adding: counted)
        }
    }

    /// Runs `body` in a transaction of its own.
    ///
    /// - Parameter isReported: Called after a failure; `true` when it is one of the database, so that it is reported.
    func transact<T>(
        _ purpose: TransactionPurpose = .writing, isReported: () -> Bool = { true }, _ body: () throws(DatabaseError) -> T
    ) throws(HubError) -> T {
        var tries = 0
        while true {
            let before = state
            tries += 1
            do throws(DatabaseError) {
                try begin(purpose)
                let result = try body()
                try commit()
                return result
            } catch {
                abandon(error, isReported: isReported())
                state = before
                guard error.kind == .contended, store.database.isShared, tries < Hub.triesMax, !isDown else { throw HubError(error) }
            }
        }
    }

    /// Begins a transaction. With a shared database it reads the changes of other hubs.
    func begin(_ purpose: TransactionPurpose) throws(DatabaseError) {
        if isDown {
            throw DatabaseError(store.database.isShared ? .lost : .io, doing: "use the database", detail: "it is not open")
        }
        try store.database.begin(purpose)
        guard store.database.isShared || mustReload else {
            // Restored when the transaction fails.
            if lineage.tag != state.opening { lineage = try store.lineage() }
            if purpose != .reading { try renewOldLinks() }
            return
        }
        guard let row = try store.hub() else {
            // The row was deleted. Created again, above every commit number in use, it begins a new history.
            try store.database.rollback()
            adopt(try Hub.load(store, &random))
            return try begin(purpose)
        }
        if lineage.tag != row.opening { lineage = try store.lineage() }
        // An older copy replaced the database while the hub runs, or a standby without the newest commits took over. The answers of those
        // commits are lost, and their numbers would be given out twice. A new history tells the devices.
        let wentBack = row.epoch == known.epoch && !lineage.includes(known, head: row.head)
        if wentBack, purpose == .reading || purpose == .removing {
            try store.database.rollback()
            return try begin(.writing)
        }
        state = row
        if wentBack { try renewEpoch(.witnessed) }
        try readEntities()
        try readScopes()
        try checkVersions()
        if settings.keepsTokens { try readTokens() }
        // Links are made under the lock of the hub, which a removal does not have.
        if purpose == .writing || purpose == .writingIfFree { try renewOldLinks() }
    }

    /// Uses the state that was read from a database that was just opened or repaired.
    func adopt(_ loaded: (row: HubStore.HubRow, lineage: HubLineage, notices: [HubNotice])) {
        (state, lineage) = (loaded.row, loaded.lineage)
        known = position
        for notice in loaded.notices { announce(notice) }
    }

    func commit() throws(DatabaseError) {
        try reachCommit()
        try store.database.commit()
        finishCommit()
    }

    func reachCommit() throws(DatabaseError) {
        #if ABLATIONS
            // The server must have executed everything before this point.
            if beforeCommit != nil { try store.database.waitForWrites() }
            if let beforeCommit, !beforeCommit() {
                throw DatabaseError(.other, doing: "commit", detail: "the process died, says the test")
            }
        #endif
    }

    /// Keeps the state of a committed transaction, and tells its notices.
    func finishCommit() {
        rememberPosition()
        endTokenChange(committed: true)
        endAdoption(committed: true)
        mustReload = false
        let told = notices
        notices = []
        for notice in told { announce(notice) }
    }

    /// Leaves a failed transaction. After a disk error the written state is unknown, so the connection, whose cache may be wrong, is given
    /// up as well.
    func abandon(_ error: DatabaseError, isReported: Bool = true) {
        if isReported { report?(HubError(error)) }
        store.closeGroup()
        endTokenChange(committed: false)
        endAdoption(committed: false)
        notices = []
        do throws(DatabaseError) {
            if !isDown, store.database.isInTransaction { try store.database.rollback() }
        } catch {
            isDown = true
        }
        if [.io, .corrupt, .lost].contains(error.kind) { isDown = true }
    }

    func reopen(at now: Timestamp) {
        if case .memory = place { return }
        // A file answers at once, so it is tried each time. A starting server must not be flooded with attempts, and an attempt to reach an
        // absent one delays every request that could have been refused.
        if case .shared = place, !reopening.isDue(at: now) { return }
        do throws(DatabaseError) {
            let fresh = HubStore(try place.database.open(), ablations: settings.ablations)
            // After a failed sync, data that is read back may be in the kernel's cache only, and later verdicts would come after it in the
            // log. In the database file, written and synced anew, it is safe.
            if fresh.database is SQLiteDatabase {
                guard try fresh.database.number("PRAGMA wal_checkpoint(TRUNCATE)") == 0 else {
                    throw DatabaseError(.busy, doing: "write the log into the database", detail: "another connection reads from it")
                }
            }
            let loaded = try Hub.load(fresh, &random)
            store = fresh
            // The remembered state is compared when the next transaction begins: this may be another copy of the database.
            for notice in loaded.notices { announce(notice) }
            lineage = loaded.lineage
            mustReload = true
            opened = nil
            isDown = false
            reopening = Reopening()
            connection += 1
            generation.advance()
        } catch {
            // Still down: the next request tries again.
            report?(HubError(error))
            reopening.failed(at: now)
            isDown = true
        }
    }

    func drawUploadID() -> String {
        var bytes: [UInt8] = []
        for _ in 0..<2 { withUnsafeBytes(of: random.next().bigEndian) { bytes.append(contentsOf: $0) } }
        return hexText(bytes)
    }

    /// Writes the log of the database back into its file. The next start then has less to do, and a copy of the one file is complete.
    /// Without it no data is lost.
    package func checkpoint() {
        (store.database as? SQLiteDatabase)?.checkpoint()
    }

    /// Replaces the content of a database in memory by a copy made earlier.
    func install(_ copy: [UInt8]) throws(DatabaseError) {
        let database = try copied()
        database.forgetStatements()
        try database.deserialize(copy)
        adopt(try Hub.load(store, &random))
        opened = nil
        try readEntities()
        try makeVersions()
        try makeScopes()
        try renewOldLinks()
    }

    /// A server's database is copied by its own tools.
    func copied() throws(DatabaseError) -> SQLiteDatabase {
        guard let database = store.database as? SQLiteDatabase else {
            throw DatabaseError(.other, doing: "copy the database", detail: "expected one that is this hub's own, not \(place.database)")
        }
        return database
    }
}
