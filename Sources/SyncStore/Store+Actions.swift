package import SyncCore

// What people and apps do to single mutations.

extension Store {
    /// Takes back what was never sent: with it the whole atomic list, and what was to be done with a record that it was to
    /// create. Invariant: nothing is taken back that the hub may have.
    ///
    /// - Throws: `.refused` with `not-found` or `already-sent`.
    package func cancel(_ key: MutationKey, at now: Moment) throws(StoreError) -> MutationState {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let row = try known(key)
            if row.state == .cancelled { return .cancelled }
            guard row.state == .pending, !row.isSent else { throw Refusal.alreadySent(key, row.state) }
            try withdraw(row, as: .cancelled)
            return .cancelled
        }
    }

    /// Tries again. A `failed` mutation goes as it is, key and payload; its outcome may be unknown. A `rejected` or `held`
    /// one is answered for by a new mutation with a new key.
    ///
    /// - Parameters:
    ///   - fix: Members that replace those of the old data.
    ///   - cascades: Also what was refused only because this one was, and so on.
    /// - Throws: `.refused` with `not-found`, `already-sent`, or what an enqueue would refuse; then nothing of it is done.
    package func retry(
        _ key: MutationKey, fix: JSONObject? = nil, cascades: Bool = false, by requester: Requester, at now: Moment
    ) throws(StoreError) -> Enqueued {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let row = try known(key)
            let answer: Enqueued
            switch row.state {
            case .failed where fix == nil: answer = try rearm(row, key)
            case .rejected, .held: answer = try replace(row, key, fix, requester)
            default: throw Refusal.alreadySent(key, row.state)
            }
            try audit("retry", key.text, uid: requester.uid, ["into": .string(answer.key.text)])
            if cascades { try retryDependants(of: key, requester) }
            return answer
        }
    }

    /// Gives up a rejected, failed, held or conflicted mutation. Invariant: it leaves the view, and what waited behind it
    /// may go.
    ///
    /// - Throws: `.refused` with `not-found` or `already-sent`.
    package func discard(_ key: MutationKey, reason: String, uid: UInt32, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let row = try known(key)
            switch row.state {
            case .rejected, .failed, .held, .conflicted: try settle(row, as: .discarded, keptFor: try keptFor(row))
            default: throw Refusal.alreadySent(key, row.state)
            }
            try closeConflict(ofSeq: row.seq, "discarded", uid: uid)
            if let rid = row.rid { try restatus(rid, foldAgain: true) }
            if let group = row.group { try refreshReadiness(ofGroup: group) }
            try audit("discard", key.text, uid: uid, ["reason": .string(reason)])
        }
    }

    /// Adds an event of another part of the agent to the journal.
    package func note(type: String, json: String, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            journal.addNote(type: type, json: json)
        }
    }

    /// Writes down who decided what.
    package func audit(
        _ verb: String, _ target: String, uid: UInt32, _ json: JSONObject, at now: Moment
    ) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try audit(verb, target, uid: uid, json) }
    }

    /// Again, in their order, what was refused because it was to come after `key`.
    private func retryDependants(of key: MutationKey, _ requester: Requester) throws(StoreError) {
        var retried: Set<String> = [key.text]
        let refused = try database.all("SELECT * FROM mutation WHERE state = 3 ORDER BY seq") { row throws(StoreError) in
            OutboxRow(row)
        }
        // A dependant may be older than its parent: until a pass finds no more.
        var rest = refused
        while let index = rest.firstIndex(where: { row in
            let problem = Problem.read(stored: row.problem)
            return problem?.code == "parent-rejected" && (problem?.members["parent"]?.text.map(retried.contains) ?? false)
        }) {
            let row = rest.remove(at: index)
            guard let key = try payload(row.seq)?.key else { continue }
            let answer = try replace(row, MutationKey(trusted: key), nil, requester)
            try audit("retry", key, uid: requester.uid, ["into": .string(answer.key.text)])
            retried.insert(key)
        }
    }

    func audit(_ verb: String, _ target: String, uid: UInt32, _ json: JSONObject) throws(StoreError) {
        try database.run(
            "INSERT INTO audit (age, at_ms, uid, verb, target, json) VALUES (?, ?, ?, ?, ?, ?)", .int(age),
            .int(now.wall.milliseconds), .int(Int64(uid)), .text(verb), .text(target), .text(json.json))
    }

    func known(_ key: MutationKey) throws(StoreError) -> OutboxRow {
        guard let seq = try seq(of: key), let row = try outboxRow(seq) else {
            throw Refusal.notFound("mutation \(key)")
        }
        return row
    }

    // MARK: - Taking back

    /// - Precondition: The mutation is pending and was never sent.
    func withdraw(_ row: OutboxRow, as state: MutationState) throws(StoreError) {
        var records = TouchedRecords()
        var work = [row]
        while let next = work.popLast() {
            for member in try next.group.map(groupMembers) ?? [next] where member.state == .pending {
                guard try outboxRow(member.seq)?.state == .pending else { continue }
                try settle(member, as: state, keptFor: try keptFor(member))
                guard let rid = member.rid else { continue }
                try touch(rid, &records)
                records[rid]?.needsFold = true
                work += try followers(of: member, in: records)
            }
        }
        try finish(records)
    }

    /// What waits to be done with a record that now will not be created, up to its next creation.
    func followers(of row: OutboxRow, in records: TouchedRecords) throws(StoreError) -> [OutboxRow] {
        guard let rid = row.rid, try action(of: row.seq) == .create, records[rid]?.row.base == nil else { return [] }
        var followers: [OutboxRow] = []
        let waiting = try database.all(
            "SELECT * FROM mutation WHERE rid = ? AND seq > ? AND state < 6 AND state = 0 ORDER BY seq", .int(rid),
            .int(row.seq)
        ) { row throws(StoreError) in OutboxRow(row) }
        for follower in waiting {
            if try action(of: follower.seq) == .create { break }
            followers.append(follower)
        }
        return followers
    }

    func action(of seq: Int64) throws(StoreError) -> MutationAction? {
        try database.number("SELECT action FROM payload WHERE seq = ?", .int(seq)).map { MutationAction(number: $0) }
    }

    /// How long the row of a mutation stays that ends in any other state than `done`.
    ///
    /// As long as its app may repeat the request, the answer must be told from the row; only `done` goes without saying.
    func keptFor(_ row: OutboxRow) throws(StoreError) -> Duration {
        let kept = rules[names.entity(row.eid)]?.retention ?? Self.retention
        let hasKey = try database.number("SELECT app_key IS NOT NULL FROM payload WHERE seq = ?", .int(row.seq)) == 1
        return hasKey ? max(kept, Self.appKeysKeptFor) : kept
    }

    // MARK: - Trying again

    private func rearm(_ row: OutboxRow, _ key: MutationKey) throws(StoreError) -> Enqueued {
        var row = row
        row.attempts = 0
        row.retries = 0
        row.nextAge = nil
        let isTied = try isTied(row.seq)
        row.isReady = row.rid == nil && row.group == nil && !isTied
        try move(row, to: .pending)
        try level(row)
        if let group = row.group { try refreshReadiness(ofGroup: group) }
        let name = RecordName(names.entity(row.eid), try recordID(of: row))
        return Enqueued(
            key: key, seq: row.seq, state: .pending, record: row.rid == nil ? nil : try reads.record(name), recordName: name,
            isRepeat: false, durability: .flash)
    }

    private func replace(
        _ row: OutboxRow, _ key: MutationKey, _ fix: JSONObject?, _ requester: Requester
    ) throws(StoreError) -> Enqueued {
        let payload = try payload(row.seq)
        guard payload != nil || fix != nil else {
            throw Refusal.validation("/data", "the stored data is damaged, so the whole of it has to be given again")
        }
        let action = try action(of: row.seq) ?? .update
        let content = payload?.content(under: rules[names.entity(row.eid)]) ?? MutationContent(action)
        var mutation = NewMutation(
            content.action == .create ? .create : content.action == .update ? .update : .delete, names.entity(row.eid),
            try recordID(of: row), data: content.data, unset: content.unset, operations: content.operations,
            priority: row.priority, dependsOn: try liveDependencies(of: payload), coalesces: payload?.coalesces ?? true,
            author: payload?.author, blobs: payload?.blobs.flatMap { StoredJSON.read($0)?.array } ?? [])
        mutation.base = content.base
        for member in fix?.members ?? [] { mutation.data[member.name.text] = member.value }
        try settle(row, as: .resolved, keptFor: try keptFor(row))
        if let rid = row.rid { try restatus(rid, foldAgain: true) }
        let answer = try accept(mutation, by: requester, supersedes: key.text)
        try database.run("UPDATE mutation SET into_seq = ? WHERE seq = ?", .int(answer.seq), .int(row.seq))
        if let group = row.group { try refreshReadiness(ofGroup: group) }
        return answer
    }

    /// What somebody has given up is not waited for any more.
    private func liveDependencies(of payload: Payload?) throws(StoreError) -> [MutationKey] {
        guard let text = payload?.depends else { return [] }
        var keys: [MutationKey] = []
        for key in try presentDependencies(text).compactMap({ MutationKey($0) }) {
            guard let seq = try seq(of: key) else { continue }
            let state = try outboxRow(seq)?.state
            if state != .cancelled, state != .discarded, state != .expired { keys.append(key) }
        }
        return keys
    }

    /// From the mirror where there is one: it does not depend on a row that may be damaged.
    func recordID(of row: OutboxRow) throws(StoreError) -> RecordID {
        if let rid = row.rid,
            let id = try database.first(
                "SELECT id FROM record WHERE rid = ?", .int(rid), read: { row throws(StoreError) in row.text(0) })
        {
            return RecordID(trusted: id)
        }
        let id = try database.first("SELECT coalesce(id, key) FROM payload WHERE seq = ?", .int(row.seq)) {
            row throws(StoreError) in row.text(0)
        }
        return RecordID(trusted: id ?? "?")
    }
}
