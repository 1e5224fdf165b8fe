package import SyncCore

/// One transaction of the store, with the state that a rollback must restore.
struct Transaction {
    let now: Moment
    let saved: Saved
    /// Measured once, see `usedBytes()`.
    var usedBytes: Int64?
    /// `true` when more than new events was written.
    var hasChanges = false
    /// The reason why it can no longer be committed: an operation without a savepoint failed in the middle.
    var spoiled: StoreError?
    /// Mutations that others may have waited for and whose state has changed; handled at the end (`Store+TieEnds.swift`).
    var tieEnds: [TieEnd] = []
    /// Number of ties that ended since the transaction began. Ties beyond a slice are left for the next transactions.
    var freed = 0

    /// A class, so that reading a transaction does not count a reference to everything in here.
    final class Saved {
        let ledger: Ledger
        let names: Names
        let clock: HybridClock
        let boot: Int64?
        let replica: ReplicaID
        let ages: AgeClock
        let journal: JournalStage
        let opening: StoreOpening
        let sweep: HousekeepingSweep
        let indexes: RecordIndexes
        let isFalling: Bool

        init(_ store: Store) {
            ledger = store.ledger
            names = store.names
            clock = store.clock
            boot = store.boot
            replica = store.replica
            ages = store.ages
            journal = store.journal
            opening = store.opening
            sweep = store.sweep
            indexes = store.indexes
            isFalling = store.isFalling
        }
    }
}

extension Store {
    /// Joins the following operations into one transaction, until ``commit()``. Each of them still succeeds or fails alone.
    package func begin(at now: Moment) throws(StoreError) {
        precondition(transaction == nil, "transactions do not nest")
        try database.run("BEGIN IMMEDIATE")
        transaction = Transaction(now: now, saved: Transaction.Saved(self))
    }

    /// - Throws: `.unknownOutcome` when the medium failed; anything else means that nothing was committed.
    package func commit() throws(StoreError) {
        guard let open = transaction else { preconditionFailure("no transaction to commit") }
        do throws(StoreError) {
            if let spoiled = open.spoiled { throw spoiled }
            try flush(at: open.now)
            try gate?(.before)
        } catch {
            rollback()
            throw error
        }
        do throws(StoreError) {
            try database.run("COMMIT")
        } catch {
            rollback()
            // A full disk shows while the pages are written, before the commit. Any other failure may have come after it.
            if error.code == .diskFull { throw error }
            throw StoreError(.unknownOutcome, doing: "commit", detail: error.description, result: error.result)
        }
        transaction = nil
        journal = JournalStage()
        try gate?(.after)
    }

    package func rollback() {
        guard let open = transaction else { return }
        // SQLite rolls back by itself after some errors; then this fails, as it should.
        if database.isInTransaction { try? database.execute("ROLLBACK") }
        restore(open.saved)
        transaction = nil
    }

    /// Runs one operation as a transaction of its own, or as a part of the open one.
    ///
    /// - Parameter refusesFirst: The operation throws `.refused` only before its first write, so it needs no savepoint.
    func transact<Value>(
        at now: Moment, refusesFirst: Bool = false, _ body: () throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        if transaction != nil { return try join(refusesFirst: refusesFirst, body) }
        try begin(at: now)
        let value: Value
        do throws(StoreError) {
            value = try body()
            try endTies()
        } catch {
            rollback()
            throw error
        }
        try commit()
        return value
    }

    private func join<Value>(refusesFirst: Bool, _ body: () throws(StoreError) -> Value) throws(StoreError) -> Value {
        if let spoiled = transaction?.spoiled { throw spoiled }
        if refusesFirst {
            do throws(StoreError) {
                let value = try body()
                try endTies()
                return value
            } catch {
                if error.problem == nil { transaction?.spoiled = error }
                throw error
            }
        }
        let before = Transaction.Saved(self)
        try database.run("SAVEPOINT operation")
        do throws(StoreError) {
            let value = try body()
            try endTies()
            try database.run("RELEASE operation")
            return value
        } catch {
            do throws(StoreError) {
                try database.run("ROLLBACK TO operation")
                try database.run("RELEASE operation")
            } catch let second {
                // After an error of the medium, SQLite has rolled back by itself, and there is no savepoint to return to.
                transaction?.spoiled = error.code == .ioError || error.code == .diskFull ? error : second
            }
            restore(before)
            transaction?.tieEnds = []
            throw error
        }
    }

    /// Counts answers to `relaxed` work that was lost afterwards; the count is written with the next commit.
    ///
    /// - Precondition: Between transactions, so that a rollback does not forget it.
    func countLost(_ relaxed: Int) {
        precondition(transaction == nil, "a loss is counted between transactions")
        ledger[.relaxedLost] += Int64(relaxed)
    }

    /// The time of the open transaction: all of its operations happen at one moment.
    var now: Moment {
        guard let now = transaction?.now else { preconditionFailure("no transaction") }
        return now
    }

    var age: Int64 { ages.age(at: now) }

    /// Writes the numbers and the journal, if more than new events was written.
    private func flush(at now: Moment) throws(StoreError) {
        if ledger.unabsorbed >= Store.unabsorbedMax { try absorb() }
        guard transaction?.hasChanges == true || !journal.isEmpty else { return }
        try absorb()
        ledger[.clock] = clock.packed
        ledger[.nextEvent] = try journal.save(to: database, firstID: ledger[.nextEvent], age: age, at: now.wall)
        try ledger.save(to: database)
    }

    private func restore(_ saved: Transaction.Saved) {
        ledger = saved.ledger
        names = saved.names
        clock = saved.clock
        boot = saved.boot
        replica = saved.replica
        ages = saved.ages
        journal = saved.journal
        opening = saved.opening
        sweep = saved.sweep
        indexes = saved.indexes
        isFalling = saved.isFalling
    }
}
