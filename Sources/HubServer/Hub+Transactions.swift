import SyncCore

// One transaction at a time: how it begins, ends and fails, and how the database is opened anew.
extension Hub {
    /// Takes the commit numbers and verdicts of a push into account; they count once the transaction is through.
    func advance(to head: Int64, adding counted: HubCounters) throws(DatabaseError) {
        if !store.noteAdvance(to: head, adding: counted) { try writeAdvance(to: head, adding: counted) }
        state.head = head
        state.counters.add(counted)
    }

    /// Writes what the requests of a turn have changed so far.
    func flush() throws(DatabaseError) {
        guard let writes = try store.flush(), let head = writes.head else { return }
        try writeAdvance(to: head, adding: writes.counters)
    }

    private func writeAdvance(to head: Int64, adding counted: HubCounters) throws(DatabaseError) {
        try store.advance(to: head, adding: counted)
        // A row that somebody has deleted while we run: what it said is known here.
        if !store.database.isShared, try store.database.changes() == 0 {
            try store.create(state)
            try store.advance(to: head, adding: counted)
        }
    }

    /// Runs `body` in a transaction of its own.
    func transact<T>(_ purpose: TransactionPurpose = .writing, _ body: () throws(DatabaseError) -> T) throws(HubError) -> T {
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
                abandon(error)
                state = before
                guard error.kind == .contended, store.database.isShared, tries < Hub.triesMax, !isDown else { throw HubError(error) }
            }
        }
    }

    /// Begins a transaction. Of a shared database, what others wrote meanwhile is read.
    func begin(_ purpose: TransactionPurpose) throws(DatabaseError) {
        if isDown {
            throw DatabaseError(store.database.isShared ? .lost : .io, doing: "use the database", detail: "it is not open")
        }
        try store.database.begin(purpose)
        guard store.database.isShared || mustReload else {
            // Goes back with a transaction that failed.
            if lineage.tag != state.opening { lineage = try store.lineage() }
            return
        }
        guard let row = try store.hub() else {
            // Somebody has deleted it. Made anew, above every commit number that is in use, it begins a new history.
            try store.database.rollback()
            take(try Hub.load(store, &random))
            return try begin(purpose)
        }
        if lineage.tag != row.opening { lineage = try store.lineage() }
        // An older copy was put in the database's place while we ran, or a standby took over that had not got everything: what
        // was answered is gone, and its commit numbers would be given out twice. A new history tells the devices.
        let known = HubPosition(epoch: state.epoch, opening: state.opening, head: state.head)
        let wentBack = row.epoch == state.epoch && !lineage.includes(known, head: row.head)
        if wentBack, purpose == .reading {
            try store.database.rollback()
            return try begin(.writing)
        }
        state = row
        if wentBack { try renewEpoch(.witnessed) }
        if settings.keepsTokens { try readTokens() }
    }

    /// What was read of a database that was just opened, or mended.
    func take(_ loaded: (row: HubStore.HubRow, lineage: HubLineage, notices: [HubNotice])) {
        (state, lineage) = (loaded.row, loaded.lineage)
        for notice in loaded.notices { announce(notice) }
    }

    func commit() throws(DatabaseError) {
        #if ABLATIONS
            // The server shall have done all that comes before.
            if beforeCommit != nil { try store.database.settle() }
            if let beforeCommit, !beforeCommit() {
                throw DatabaseError(.other, doing: "commit", detail: "the process died, says the test")
            }
        #endif
        try store.database.commit()
        settleShelf(committed: true)
        mustReload = false
        let told = notices
        notices = []
        for notice in told { announce(notice) }
    }

    /// Leaves a transaction that failed. After an error of the disk nobody knows what was written, so the connection, whose
    /// cache may be wrong, is given up as well.
    func abandon(_ error: DatabaseError, isReported: Bool = true) {
        if isReported { report?(HubError(error)) }
        store.closeGroup()
        settleShelf(committed: false)
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
        // A file answers at once, and there is nobody to spare; a server that is starting must not be hammered, and an attempt
        // to reach one that is not there holds everybody up who could have been told so.
        if case .shared = place, !reopening.isDue(at: now) { return }
        do throws(DatabaseError) {
            let fresh = HubStore(try place.database.open(), ablations: settings.ablations)
            // After a failed sync, what is read back may be in the kernel's cache only, and later verdicts would stand behind it
            // in the log. From the database file, written and synced anew, it cannot vanish.
            if fresh.database is SQLiteDatabase {
                guard try fresh.database.number("PRAGMA wal_checkpoint(TRUNCATE)") == 0 else {
                    throw DatabaseError(.busy, doing: "write the log into the database", detail: "somebody reads from it")
                }
            }
            let loaded = try Hub.load(fresh, &random)
            store = fresh
            // What we remember is compared when the next transaction begins: it may be another copy of the database by now.
            for notice in loaded.notices { announce(notice) }
            lineage = loaded.lineage
            mustReload = true
            opened = nil
            isDown = false
            reopening = Reopening()
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
        return hex(bytes)
    }

    /// Writes the log of the database back into its file: less to do for the next start, and a copy of the one file is whole
    /// then. Nothing is lost without it.
    package func checkpoint() {
        (store.database as? SQLiteDatabase)?.checkpoint()
    }

    /// Replaces what a database in memory holds by a copy made earlier.
    func install(_ copy: [UInt8]) throws(DatabaseError) {
        let database = try copied()
        database.forgetStatements()
        try database.deserialize(copy)
        take(try Hub.load(store, &random))
        opened = nil
    }

    /// A server's database is copied by its own tools.
    func copied() throws(DatabaseError) -> SQLiteDatabase {
        guard let database = store.database as? SQLiteDatabase else {
            throw DatabaseError(.other, doing: "copy the database", detail: "expected one that is this hub's own, not \(place.database)")
        }
        return database
    }
}
