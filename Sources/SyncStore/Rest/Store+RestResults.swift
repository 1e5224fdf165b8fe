package import SyncCore
import SyncSQLite

extension Store {
    /// Records the results of mutations at an existing backend. Invariant: state, base, view, counters and journal change together, with
    /// the backend's ids and versions and the stored requests.
    ///
    /// - Parameter next: Claims the following batch in the same transaction.
    package func applyRest(
        _ results: [RestResult], next: BatchLimits?, at now: Moment
    ) throws(StoreError) -> (summary: ResultsSummary, next: Batch?) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            var pass = ResultsPass()
            for result in results { try apply(result, &pass) }
            return try finish(&pass, next: next, at: now)
        }
    }

    private func apply(_ result: RestResult, _ pass: inout ResultsPass) throws(StoreError) {
        guard let row = try begin(result.key, &pass) else { return }
        let entity = names.entity(row.eid)
        let rules = rules[entity] ?? EntityRules()
        switch result.verdict {
        case .accepted(let remote):
            let other = try otherRecord(named: remote.id, than: row)
            if let other, try !isTwin(other, remote.id, ofCreation: row) { return try hold(row, Self.taken(remote.id, by: other), &pass) }
            try forgetAttempt(row.seq)
            var shown: JSONObject?
            if let other { shown = try join(other, to: row, &pass.records) }
            if shown == nil { shown = try remote.document.map { document throws(StoreError) in try fromBackend(document, rules) } }
            let version = nextVersion(after: row.rid.flatMap { pass.records[$0]?.row.baseVersion } ?? 0)
            try keepName(of: row, remote)
            try accept(
                row, version: version, serverID: remote.id?.idText, record: shown.map { HubRecord(version: version, data: $0) }, &pass)
        case .moved(let remote): try takeBack(row, remote, rules, &pass)
        case .rejected(let problem):
            try forgetAttempt(row.seq)
            try reject(row, problem, current: nil, &pass)
        case .retry(let problem, let after):
            // A mutation that only waits for another one was not tried, so its stored requests stay.
            if !["dependency-missing", "blocked-by-earlier"].contains(problem.code) { try dropAttempt(row.seq, isOther: false) }
            try sendBack(row, problem, after: after, &pass)
        case .notSent: try unsend(row, &pass)
        case .unsure(let problem, let after, let counts): try postponeUncertain(row, problem, after: after, counts: counts, &pass)
        case .held(let problem): try hold(row, problem, &pass)
        }
    }

    private func hold(_ found: OutboxRow, _ problem: Problem, _ pass: inout ResultsPass) throws(StoreError) {
        var row = found
        row.problem = problem.stored
        pass.summary.retried += 1
        try move(row, to: .held)
        if let rid = row.rid { pass.returned[rid] = min(pass.returned[rid] ?? .max, row.seq) }
    }

    /// The problem with an id that belongs to another existing record. Accepting it would make the other record disappear from the mirror,
    /// although the backend reported the new one as created.
    private static func taken(_ serverID: JSON?, by other: MirrorRow) -> Problem {
        let id = Printable.text(serverID?.idText ?? "", max: 80)
        return Problem(
            Problem.otherRecord, status: 409,
            detail: "the backend answered with the id \(id), which belongs to the record \(other.id)")
    }

    private func keepName(of row: OutboxRow, _ remote: RestRemote) throws(StoreError) {
        guard row.rid != nil else { return }
        let id = try recordID(of: row).text
        if let serverID = remote.id {
            try name(id, row.eid, serverID, etag: remote.etag)
        } else if let known = try backendName(of: id, row.eid) {
            try name(id, row.eid, known.id, etag: remote.etag)
        }
    }

    /// Returns a mutation that the backend did not apply because it has another version of the record. It counts as never sent: it is
    /// rebased onto the backend's record like any other news (PROTOCOL C7), and the rest of it goes with a new key.
    private func takeBack(
        _ found: OutboxRow, _ remote: RestRemote?, _ rules: EntityRules, _ pass: inout ResultsPass
    ) throws(StoreError) {
        try dropAttempt(found.seq, isOther: true)
        pass.summary.retried += 1
        var row = found
        row.retries += 1
        row.attempts += 1
        row.isSent = false
        guard let rid = row.rid, var touched = pass.records[rid] else { return try move(row, to: .pending) }
        // The first retries are immediate, because in any delay the record may change again.
        if row.retries > 3 { row.nextAge = age + RetryDelay.after(row.retries - 3, asked: nil, using: &random).milliseconds }
        if row.attempts >= Int64(Limits.attempts) { row.nextAge = age + Self.parkedFor.milliseconds }
        row.problem = Problem("version-mismatch", status: 412, detail: "the backend has another version of the record by now").stored
        try move(row, to: row.attempts >= Int64(Limits.attempts) ? .failed : .pending)
        pass.returned[rid] = min(pass.returned[rid] ?? .max, row.seq)
        let version = touched.row.baseVersion
        guard let remote else {
            return try applyRemote(RemoteSide(deletedIn: nextVersion(after: version)), of: rid, &pass.records)
        }
        try keepName(of: row, remote)
        guard let document = remote.document else { return }
        let current = try fromBackend(document, rules)
        let known = touched.row.base.flatMap { StoredJSON.read($0)?.object }
        if known == current, version > 0 {
            touched.needsFold = true
            pass.records[rid] = touched
            return
        }
        try applyRemote(RemoteSide(HubRecord(version: nextVersion(after: version), data: current)), of: rid, &pass.records)
    }

    /// Returns a mutation that never left. Earlier requests for it, if any, had a definite answer.
    private func unsend(_ found: OutboxRow, _ pass: inout ResultsPass) throws(StoreError) {
        var row = found
        let hasOther = try database.number("SELECT generation FROM attempt WHERE seq = ?", .int(row.seq)) ?? 0 > 0
        if row.retries == 0, !hasOther { row.isSent = false }
        try dropAttempt(row.seq, isOther: false)
        if let rid = row.rid { pass.returned[rid] = min(pass.returned[rid] ?? .max, row.seq) }
        let isTied = try isTied(row.seq)
        row.isReady = row.rid == nil && row.group == nil && !isTied
        try move(row, to: .pending)
    }

    /// Postpones a mutation with an unknown outcome. It waits frozen, together with the request that may have arrived.
    private func postponeUncertain(
        _ found: OutboxRow, _ problem: Problem, after: Duration?, counts: Bool, _ pass: inout ResultsPass
    ) throws(StoreError) {
        var row = found
        row.problem = problem.stored
        row.retries += 1
        if counts { row.attempts += 1 }
        pass.summary.retried += 1
        if let rid = row.rid { pass.returned[rid] = min(pass.returned[rid] ?? .max, row.seq) }
        let isParked = row.attempts >= Int64(Limits.attempts)
        let delay = isParked ? Self.parkedFor : RetryDelay.after(row.retries, asked: after, using: &random)
        row.nextAge = age + delay.milliseconds
        try move(row, to: isParked ? .failed : .pending)
    }
}
