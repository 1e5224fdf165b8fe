import SyncCore

// Decisions without the lock of the hub, over a database that several hubs share.
//
// A group of pushes reads its rows over a snapshot, in one round trip, and decides. A second round trip locks the hub, compares what the
// decision rests on, writes, and commits. A hub that stops or is slow therefore holds nothing that others wait for: what the lock covers
// is at the server already when it is taken.
//
// **Why it is right.** All transactions that write take the lock, but for the removal of old events, on which no decision rests. Each of
// them has a number in `commit_log`. If that number is the one of the snapshot, nothing has changed, and the decision is the one that
// would have been made under the lock. Otherwise each row that it has read is compared (``WriteGroup/Facts``), and the state of the hub
// (``DecisionBasis``). The commit numbers that it has given out are then too low, all by the same difference: rows and answers get the
// final ones. No comparison of a decision has another result for that, because every number that a device or a row can name is at most
// the newest one of the snapshot; a device that names another one is decided with the lock.
//
// | what decisions read | compared by |
// |---|---|
// | history, openings, tokens, scopes, schemas, entity settings | ``DecisionBasis/identity`` |
// | records and keys, also those that are referred to, depended on or superseded | a fact for each row |
// | devices, their databases, forgotten deletions, refused creations | a fact for each row |
// | scopes that records grant | ``DecisionBasis/granted`` |
// | files and their links, and anything else | nothing else may have been written (``Decision/isExact``) |
// | counters, the text of an earlier rejection | nothing: they decide nothing |
// | returns of databases of a device that were not read | nothing: they decide whether it is told once more to take a new id |
extension Hub {
    /// Largest number of decisions without the lock about the same requests; then the lock comes first.
    static let decisionsMax = 2
    /// Largest number of times that requests are divided into halves after a decision about them that was overtaken: a group of 64 ends
    /// with eight of them behind the lock. If all of them change a record that others change as well, further divisions would only add to
    /// the lost decisions.
    static let splitsMax = 3

    /// Returns whether all reads and writes of the request are those of a decision.
    func mayDecide(_ request: HubRequest) -> Bool {
        #if ABLATIONS
            if locksFirst || settings.ablations.contains(.keysForgotten) { return false }
        #endif
        return store.database.isShared && Endpoint.find(request.path)?.writesInGroup == true
    }

    /// The requests of one decision: a group (``ReadPush``).
    func endOfDecision(from start: Int, in requests: inout [HubRequest]) -> Int {
        let limit = endOfGroup(from: start, in: &requests, most: ReadPush.decidedMax)
        return requests[start..<limit].firstIndex { !mayDecide($0) } ?? limit
    }

    /// The requests of one transaction with the lock. Reads among them belong to the same moment.
    func endOfLocked(from start: Int, in requests: [HubRequest]) -> Int {
        guard requests[start...].allSatisfy(\.writes) else { return requests.count }
        return requests[start...].firstIndex { mayDecide($0) } ?? requests.count
    }

    /// - Parameter writing: The way in which a transaction with the lock would begin.
    /// - Returns: No answers when a request carries evidence (``HubWitness``).
    func decide(
        _ requests: [HubRequest], _ writing: TransactionPurpose, _ isCommitting: inout Bool, at now: Timestamp
    ) throws(DatabaseError) -> [HubResponse] {
        try beginDecision(of: requests, at: now)
        var responses: [HubResponse] = []
        for request in requests { responses.append(try isolated(request, alone: requests.count == 1, at: now)) }
        if try givesUpForEvidence() { return [] }
        let decision = try endDecision(isBrief: writing == .writingIfFree)
        store.closeGroup()
        isCommitting = true
        try reachCommit()
        let difference = try store.database.commit(decision)
        state.head += difference
        finishCommit()
        return difference == 0 ? responses : responses.map { final($0, difference, above: decision.basis.head, at: now) }
    }

    private func beginDecision(of requests: [HubRequest], at now: Timestamp) throws(DatabaseError) {
        if isDown { throw DatabaseError(.lost, doing: "use the database", detail: "it is not open") }
        try store.database.begin(.deciding)
        guard let (row, seen) = try store.hub(with: wanted(by: requests, at: now)) else {
            throw store.lockNeeded("the hub's row is missing")
        }
        if lineage.tag != row.opening { lineage = try store.lineage() }
        guard row.epoch != known.epoch || lineage.includes(known, head: row.head) else { throw store.lockNeeded("the database went back") }
        guard let opened, lineage.entries.contains(where: { $0.tag == opened }) else { throw store.lockNeeded("this hub opens") }
        guard row.linked >= row.head else { throw store.lockNeeded("links of files are missing") }
        state = row
        try readEntities()
        try readScopes()
        try checkVersions()
        if settings.keepsTokens { try readTokens() }
        store.coverReads()
        store.openGroup(head: row.head, deciding: row.basis)
        store.group?.readAhead(seen)
    }

    private func endDecision(isBrief: Bool) throws(DatabaseError) -> Decision {
        guard let group = store.group, let basis = group.basis else {
            throw DatabaseError(.other, doing: "commit a decision", detail: "there is none")
        }
        var decision = Decision(basis: basis)
        decision.isExact = store.hasUncoveredReads
        decision.readsGrants = group.facts?.readsGrants ?? false
        decision.isBrief = isBrief
        let writes = try store.flush()
        decision.facts = group.facts?.all(for: writes) ?? []
        guard let writes else { return decision }
        decision.changesGrants = !writes.grants.isEmpty
        decision.count = (writes.head ?? basis.head) - basis.head
        decision.counters = writes.counters
        return decision
    }

    /// The answer with the commit numbers that were given out.
    private func final(_ response: HubResponse, _ difference: Int64, above head: Int64, at now: Timestamp) -> HubResponse {
        guard let told = response.preliminary else { return response }
        var response = response
        let newest = told.head + difference
        switch told.content {
        case .push(let results):
            response.body = PushMessages.response(head: newest, results: results.map { $0.renumbered(above: head, by: difference) })
        case .hello(var hello):
            hello.head = newest
            response.body = HelloMessages.response(hello)
        case .problem: break
        }
        response.headers[HubHeader.head] = String(newest)
        if let caller = told.caller { response.headers[HubHeader.receipt] = receipt(for: caller, seq: told.seq, head: newest) }
        return response
    }
}

/// The parts of an answer that have commit numbers.
struct Preliminary: Sendable {
    enum Content: Sendable {
        case push([PushResult])
        case hello(HelloResponse)
        /// Only the headers have some.
        case problem
    }

    var content: Content
    /// The newest commit number of the answer.
    var head: Int64
    /// Gets a receipt with this `seq`; `nil`: there is none.
    var caller: HubGate.Caller?
    var seq: Int64 = 0

    init(_ content: Content, head: Int64) {
        self.content = content
        self.head = head
    }
}

extension PushResult {
    /// The result with other commit numbers in the place of those above a number.
    func renumbered(above head: Int64, by difference: Int64) -> PushResult {
        func number(_ version: Int64) -> Int64 { version > head ? version + difference : version }
        func record(_ record: HubRecord) -> HubRecord {
            var record = record
            record.version = number(record.version)
            return record
        }
        func state(_ state: HubState) -> HubState {
            switch state {
            case .record(let shown): .record(record(shown))
            case .deleted(let version): .deleted(version: number(version))
            case .absent: .absent
            }
        }
        var result = self
        switch verdict {
        case .accepted(let version, let id, let shown, let merged):
            result.verdict = .accepted(version: number(version), serverID: id, record: shown.map(record), merged: merged)
        case .duplicate(let original, let current): result.verdict = .duplicate(original: original, current: state(current))
        case .conflict(let fields, let current): result.verdict = .conflict(fields: fields, current: state(current))
        case .rejected(let problem, let current): result.verdict = .rejected(problem, current: current.map(state))
        case .retry: break
        }
        return result
    }
}
