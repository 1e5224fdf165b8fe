import SyncCore

// The buckets of an entity in which a device differs from the hub (PROTOCOL A8), and the detection of cloned devices.
extension Hub {
    func verify(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubResponse {
        let body = try bodies.body(of: request)
        let verify = try reading { () throws(Problem) in try VerifyMessages.readRequest(body) }
        switch try querying({ () throws(DatabaseError) in
            var feed = feed(for: caller)
            let answer = try feed.answer(verify)
            if case .failure(let problem) = answer { try collectKeeping(problem, caller.device, verify.entity) }
            return answer
        }) {
        case .success(let verdict): return HubResponse(json: VerifyMessages.response(verdict))
        case .failure(let problem): return HubResponse(problem)
        }
    }

    /// The number of databases that speak in turns under this device's name; `nil` when there is only one.
    ///
    /// A database that was restored or created anew takes a new id, and the old one falls silent except for a late request. Only databases
    /// that came back after another one had spoken, at least twice, and connected within a day, are in use side by side.
    func twins(of device: DeviceID, _ replica: ReplicaID, at now: Timestamp) throws(DatabaseError) -> Int64? {
        let count = try store.view(of: device, replica).returning(since: now.advanced(by: .zero - Hub.twinWindow))
        return count > 1 ? count : nil
    }

    static let twinWindow: Duration = .seconds(86_400)
}

extension Feed {
    mutating func answer(_ request: VerifyRequest) throws(DatabaseError) -> Result<VerifyResponse, Problem> {
        switch try position(StreamPosition(entity: request.entity, cursor: request.cursor)) {
        case .failure(let problem): return .failure(problem)
        case .success(let cursor):
            // The agent would list the buckets that differ, and keep what it does not find there.
            if let share = cursor.share, try isKept(share, upTo: cursor.seq, of: cursor.entity) { return .failure(Feed.agentTooOld) }
            // It would let go of records of a scope that its cursor names, and miss them if the scope comes back before its next pull.
            if letsGo, cursor.share?.isChanging == true { return .failure(Feed.scopeChanged) }
            var digest = EntityDigest()
            if let scopes = scopes(of: request.entity), !ablations.contains(.digestsOfAll) {
                try store.versions(request.entity, in: scopes.codes) { id, version in digest.add(id, version: version) }
            } else {
                try store.versions(request.entity) { id, version in digest.add(id, version: version) }
            }
            return .success(
                VerifyResponse(
                    differs: digest.differences(from: request.digest), startCursor: text(beginning(request.entity)), startVersion: head))
        }
    }
}

extension HubStore {
    /// Id and version of each live record.
    func versions(_ entity: EntityName, _ body: (RecordID, Int64) -> Void) throws(DatabaseError) {
        try database.stream("SELECT id, version FROM record WHERE entity = ? AND data IS NOT NULL", [.text(entity.text)]) { row in
            body(RecordID(trusted: row.text(0)), row.int(1))
            return true
        }
    }

    /// The number of live records, if it is not above a limit; otherwise one more than the limit.
    func total(_ entity: EntityName, upTo limit: Int64) throws(DatabaseError) -> Int64 {
        try database.first(
            "SELECT count(*) FROM (SELECT id FROM record WHERE entity = ? AND id > ? AND data IS NOT NULL ORDER BY id LIMIT ?) AS part",
            .text(entity.text), .text(""), .int(limit + 1)
        ) { $0.int(0) } ?? 0
    }

    /// The number of live records. Counting walks through the entity.
    func total(_ entity: EntityName) throws(DatabaseError) -> Int64 {
        try database.first("SELECT count(*) FROM record WHERE entity = ? AND data IS NOT NULL", .text(entity.text)) { $0.int(0) } ?? 0
    }
}
