package import SyncCore
import SyncSQLite

// Prepares the requests to an existing backend. A request that changes something is in the table `attempt` before it leaves. It is stored
// with the claim where it follows from local data, and by ``Store/keepAttempt(_:of:at:)`` where the record had to be read first. So after a
// crash it is known which requests may have arrived.
extension Store {
    /// Adds the data that the requests are made of.
    ///
    /// - Parameter isClaim: Nothing of the batch was sent yet; requests that can be made are made and stored.
    /// - Precondition: In a transaction.
    func prepareForBackend(_ batch: inout Batch, _ rows: [ClaimRow], isClaim: Bool) throws(StoreError) {
        guard let mapping = rest else { return }
        for index in batch.mutations.indices {
            let row = rows[index]
            var task = try task(row)
            if !isClaim { task.blocked = try blocker(of: row) }
            batch.mutations[index].rest = task
            guard isClaim, task.attempt == nil, !task.isLost else { continue }
            guard case .send(let attempt) = RestPlan.make(batch.mutations[index], task, mapping) else { continue }
            try keep(attempt, row.outbox.seq)
            task.attempt = attempt
            task.isFresh = true
            batch.mutations[index].rest = task
        }
    }

    private func task(_ row: ClaimRow) throws(StoreError) -> RestTask {
        let rules = rules[names.entity(row.payload.eid)] ?? EntityRules()
        let content = row.payload.content(under: rules) ?? MutationContent(row.payload.action)
        var task = RestTask(try toBackend(content, rules))
        if let rid = row.outbox.rid, let record = try MirrorRow.find(database, rid: rid), !record.isDamaged,
            let base = record.base.flatMap({ StoredJSON.read($0)?.object })
        {
            task.base = try toBackend(base, rules)
        }
        if let name = try backendName(of: row.payload.recordID.text, row.payload.eid) {
            task.serverID = name.id
            task.etag = name.etag
        }
        let found = try database.first(
            "SELECT generation, first_age, last_age, request FROM attempt WHERE seq = ?", .int(row.outbox.seq)
        ) { row throws(StoreError) in (generation: row.int(0), first: row.int(1), last: row.int(2), request: row.optionalText(3)) }
        guard let found else { return task }
        task.generation = found.generation
        task.sinceFirst = .milliseconds(max(0, age.saturatingSubtract(found.first)))
        task.sinceLast = .milliseconds(max(0, age.saturatingSubtract(found.last)))
        guard let request = found.request else { return task }
        task.attempt = RestAttempt(stored: request)
        task.isLost = task.attempt == nil
        // A request that the backend recognises when repeated is likely to be sent again.
        if let attempt = task.attempt, attempt.request.isRepeatable {
            try database.run("UPDATE attempt SET last_age = ? WHERE seq = ?", .int(age), .int(row.outbox.seq))
        }
        return task
    }

    /// The reason why a mutation must wait. After the database went back in time, all waiting mutations are in flight, whatever they wait
    /// for.
    private func blocker(of row: ClaimRow) throws(StoreError) -> Problem? {
        if try isTied(row.outbox.seq) {
            return Problem("dependency-missing", status: 409, detail: "a mutation that it depends on has not been accepted yet")
        }
        if let rid = row.outbox.rid, try lastBlocking(of: rid, before: row.outbox.seq) != nil {
            return Problem("blocked-by-earlier", status: 409, detail: "an earlier mutation of its record has not been accepted yet")
        }
        return nil
    }

    /// Stores a request that is about to leave.
    ///
    /// - Returns: `true` when it may leave: its mutation is still in flight.
    package func keepAttempt(_ attempt: RestAttempt, of key: MutationKey, at now: Moment) throws(StoreError) -> Bool {
        try transact(at: now) { () throws(StoreError) in
            guard let seq = try seq(of: key), try outboxRow(seq)?.state == .inFlight else { return false }
            try keep(attempt, seq)
            return true
        }
    }

    private func keep(_ attempt: RestAttempt, _ seq: Int64) throws(StoreError) {
        try database.run(
            """
            INSERT INTO attempt (seq, generation, first_age, last_age, request) VALUES (?, 0, ?, ?, ?)
            ON CONFLICT DO UPDATE SET first_age = excluded.first_age, last_age = excluded.last_age, request = excluded.request
            """, .int(seq), .int(age), .int(age), .text(attempt.stored))
    }

    /// Drops the request after a definite "no": the next one is new. With `isOther` it may have other content, so it gets another key.
    func dropAttempt(_ seq: Int64, isOther: Bool) throws(StoreError) {
        try database.run(
            "UPDATE attempt SET request = NULL, generation = generation + ? WHERE seq = ?", .bool(isOther), .int(seq))
    }

    func forgetAttempt(_ seq: Int64) throws(StoreError) {
        try database.run("DELETE FROM attempt WHERE seq = ?", .int(seq))
    }

    /// Marks that waiting mutations may have been sent in a time that this database has lost.
    func markLostAttempts() throws(StoreError) {
        guard rest != nil else { return }
        try database.run(
            """
            INSERT INTO attempt (seq, generation, first_age, last_age, request)
            SELECT seq, 0, ?, ?, '' FROM mutation WHERE state = 1 ON CONFLICT DO UPDATE SET request = coalesce(request, '')
            """, .int(age), .int(age))
    }

    /// Removes a bounded slice of rows that are not needed any more.
    func pruneRest() throws(StoreError) {
        try database.run(
            """
            DELETE FROM attempt WHERE seq IN (
                SELECT a.seq FROM attempt a LEFT JOIN mutation m ON m.seq = a.seq
                WHERE m.seq IS NULL OR m.state >= 6 OR m.state = 3 LIMIT ?)
            """, .int(Int64(Self.sliceRows)))
    }
}
