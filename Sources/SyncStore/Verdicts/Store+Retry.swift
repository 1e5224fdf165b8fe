package import SyncCore
import SyncSQLite

// Retries parked and refused mutations (PROTOCOL B2, C5).
//
// A refused mutation is replaced by a new one with a new key and the old content except for the fix. It was made on the record as it was at
// that time, and neither its author nor the person who fixes it has seen what others wrote since. So it is based on the old version, and
// the hub finds what both sides changed, as if it had arrived late.

extension Store {
    /// Retries a mutation. A `failed` one is sent unchanged, with its key and payload; its outcome may be unknown. A `rejected`, `held` or
    /// `expired` one is replaced by a new mutation with a new key. That keeps the deadline of the old one if it is still ahead, and has
    /// none otherwise.
    ///
    /// - Parameters:
    ///   - fix: Members that replace those of the old data, and everything else that it did with these fields.
    ///   - without: Fields for which nothing of the old mutation is repeated.
    ///   - cascades: Also retries the mutations that were rejected only because of this one, and so on: for a member of an atomic list, all
    ///     other members.
    /// - Throws: `.refused` with `not-found`, `already-sent`, also for a list with a member in dispute, `validation` for one member of a
    ///   list alone, or any refusal of an enqueue. Nothing is changed then.
    package func retry(
        _ key: MutationKey, fix: JSONObject? = nil, without: [String] = [], cascades: Bool = false, by requester: Requester, at now: Moment
    ) throws(StoreError) -> Enqueued {
        let correction = fix == nil && without.isEmpty ? nil : Correction(data: fix, without: without)
        try convertBeforeChange(at: now)
        return try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let row = try known(key)
            switch row.state {
            case .failed where correction == nil:
                let answer = try rearm(row, key)
                try audit("retry", key.text, uid: requester.uid, ["into": .string(answer.key.text)])
                return answer
            case .rejected, .held, .expired: break
            case .pending, .inFlight, .conflicted, .failed, .done, .resolved, .discarded, .coalesced, .cancelled, .superseded:
                throw StoreProblem.alreadySent(key, row.state)
            }
            let list = try refusedList(of: row)
            guard cascades || list.count == 1 else {
                throw StoreProblem.validation(
                    "/cascade",
                    "it is one of \(list.count) mutations of an atomic list, which was refused as a whole; cascade retries all of them")
            }
            let lists = cascades ? try [list] + dependants(of: list) : [list]
            for list in lists { try refuseIfDisputed(list) }
            try markReplaced(lists.flatMap { $0 })
            var answers: [Replaced] = []
            for list in lists { answers += try replace(list, correcting: row.seq, by: correction, requester) }
            guard var answer = answers.first(where: { $0.old == key })?.new else {
                throw StoreProblem.notFound("mutation \(key)", list: "agentctl mutations list")
            }
            // A list that depends on a change that is still refused falls again now, and the answer says so.
            try endTies()
            try renew(&answer)
            // The retry of a refused decision carries that decision from now on.
            try closeAnswered()
            return answer
        }
    }

    // MARK: - Parked

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

    // MARK: - Refused

    /// The difference of a retry from the refused mutation.
    struct Correction {
        var data: JSONObject?
        var without: [String]
    }

    private struct Replaced {
        let old: MutationKey
        let new: Enqueued
    }

    /// The mutation, with the other members of its atomic list that wait for a person.
    private func refusedList(of row: OutboxRow) throws(StoreError) -> [OutboxRow] {
        guard let group = row.group else { return [row] }
        return try inListOrder(groupMembers(group).filter { [.rejected, .held, .expired].contains($0.state) })
    }

    /// - Throws: `.refused` with `already-sent` while a member of the atomic list is in dispute: the new list would go without it.
    private func refuseIfDisputed(_ list: [OutboxRow]) throws(StoreError) {
        guard let group = list.first?.group else { return }
        for member in try groupMembers(group) where member.state == .conflicted {
            guard let conflict = try openConflict(ofSeq: member.seq) else { continue }
            throw StoreProblem.listDisputed(try key(ofSeq: member.seq) ?? "", conflict.name)
        }
    }

    /// Marks the old mutations as replaced, all at once: as long as a refused one is open, its records are searched for waiting mutations.
    private func markReplaced(_ rows: [OutboxRow]) throws(StoreError) {
        var records: [Int64: Bool] = [:]
        for row in rows {
            try finalize(row, as: .resolved, keptFor: try keptFor(row))
            // A refused mutation is not part of the view.
            if let rid = row.rid { records[rid, default: false] = records[rid, default: false] || row.state != .rejected }
        }
        for (rid, foldAgain) in records.sorted(by: { $0.key < $1.key }) { try restatus(rid, foldAgain: foldAgain) }
    }

    /// Makes one new mutation for each of these, and one new list for several of them. The old ones are settled.
    private func replace(
        _ rows: [OutboxRow], correcting seq: Int64, by correction: Correction?, _ requester: Requester
    ) throws(StoreError) -> [Replaced] {
        var group: EnqueueGroup?
        if rows.count > 1 {
            let first = ledger[.nextSeq]
            group = EnqueueGroup(
                seqs: first...(first + Int64(rows.count) - 1), priority: rows.map(\.priority).min() ?? .normal)
        }
        let payloads = try rows.map { row throws(StoreError) in try payload(row.seq) }
        var replaced: [Replaced] = []
        for (row, payload) in zip(rows, payloads) {
            var old = payload?.key
            if old == nil { old = try key(ofSeq: row.seq) }
            guard let old else { continue }
            let successor = try successor(of: row, payload, row.seq == seq ? correction : nil)
            try refuseIfFilesAreGone(successor.mutation)
            // With an empty text it replaces no key: the hub would refuse that again.
            let isAnew = isDecidedElsewhere(row)
            let answer = try accept(
                successor.mutation, by: requester, in: group, supersedes: isAnew ? "" : old, restingOn: successor.version,
                deadline: row.ttlAge.flatMap { $0 > age ? $0 : nil })
            if isAnew { try handOver(from: row.seq, to: answer.seq) }
            try moveLinks(of: answer.recordName, from: row.seq, to: answer.seq, in: successor.mutation)
            if group != nil, group?.id == nil { group?.id = answer.key.text }
            try database.run("UPDATE mutation SET into_seq = ? WHERE seq = ?", .int(answer.seq), .int(row.seq))
            try audit("retry", old, uid: requester.uid, ["into": .string(answer.key.text)])
            replaced.append(Replaced(old: MutationKey(trusted: old), new: answer))
        }
        if let group {
            try meetChildren(ofGroup: group.seqs)
            try refreshReadiness(ofGroup: group.seqs)
        }
        for group in Set(rows.compactMap(\.group)) { try refreshReadiness(ofGroup: group) }
        return replaced
    }

    /// The mutations that were rejected because they were to come after these, recursively, in the order in which they are to be retried.
    /// Members of one atomic list are together.
    private func dependants(of first: [OutboxRow]) throws(StoreError) -> [[OutboxRow]] {
        // Grouped by the mutation that each of them was rejected with.
        var fallen: [String: [OutboxRow]] = [:]
        try database.each("SELECT * FROM mutation WHERE state = 3 ORDER BY seq") { row throws(StoreError) in
            let row = OutboxRow(row)
            guard let problem = Problem.read(stored: row.problem),
                problem.code == Self.parentRejected || problem.code == Self.parentExpired, let parent = problem.members["parent"]?.text
            else { return }
            fallen[parent, default: []].append(row)
        }
        guard !fallen.isEmpty else { return [] }
        // A dependant may be older than its parent: the next one is the oldest whose parent is retried.
        var rows: [Int64: OutboxRow] = [:]
        var due = MinHeap<Int64>()
        var taken: Set<Int64> = []
        var lists: [[OutboxRow]] = []
        func collectDependants(of list: [OutboxRow]) throws(StoreError) {
            for member in list {
                taken.insert(member.seq)
                guard let key = try key(ofSeq: member.seq) else { continue }
                for row in fallen.removeValue(forKey: key) ?? [] {
                    rows[row.seq] = row
                    due.insert(row.seq)
                }
            }
        }
        try collectDependants(of: first)
        while let seq = due.popMin() {
            // It may have been added already, with another member of its atomic list.
            guard let row = rows[seq], !taken.contains(seq) else { continue }
            let list = try refusedList(of: row)
            lists.append(list)
            try collectDependants(of: list)
        }
        return lists
    }

    /// - Returns: The new mutation, and the version of the record that its author had seen; `nil` for a create.
    func successor(
        of row: OutboxRow, _ payload: Payload?, _ correction: Correction?
    ) throws(StoreError) -> (mutation: NewMutation, version: Int64?) {
        guard payload != nil || correction?.data != nil else {
            throw StoreProblem.validation("/data", "the stored data is damaged, so all of it must be given again")
        }
        let entity = names.entity(row.eid)
        let rules = rules[entity] ?? EntityRules()
        let action = try action(of: row.seq) ?? .update
        let id = try recordID(of: row)
        let unsent = try unsentContent(of: row, rules)
        var content = unsent ?? payload?.content(under: rules) ?? MutationContent(action)
        let record = try row.rid.flatMap { rid throws(StoreError) in try MirrorRow.find(database, rid: rid) }
        if let record, record.isRevoked, record.document == nil, content.action != .create {
            throw StoreProblem.notInShare(RecordName(entity, id))
        }
        if let payload { content = try withoutWhatIsDone(content, of: payload, Problem.read(stored: row.problem), rules) }
        // An earlier form of it has made the record already.
        if content.action == .create, isDecidedElsewhere(row), record?.document != nil { content.action = .update }
        if let correction, content.action != .delete {
            let seen = record?.parsedDocument ?? .none
            guard seen.isReadable else { throw StoreProblem.damaged(RecordName(entity, id)) }
            content = Self.corrected(content, by: correction, seen: seen.known ?? [:], rules)
        }
        var mutation = NewMutation(
            content.action == .create ? .create : content.action == .update ? .update : .delete, entity, id, data: content.data,
            unset: content.unset, operations: content.operations, priority: row.priority,
            dependsOn: try liveDependencies(of: payload), coalesces: payload?.coalesces ?? true, author: payload?.author,
            blobs: payload?.namedFiles ?? [])
        mutation.base = content.base
        let version = payload.flatMap { $0.baseVersion > 0 || $0.action != .create ? $0.baseVersion : nil }
        return (mutation, content.action == .create ? nil : version)
    }

    /// The content with the correction. Nothing of the old content is left for the fields that the correction names.
    private static func corrected(
        _ content: MutationContent, by correction: Correction, seen: JSONObject, _ rules: EntityRules
    ) -> MutationContent {
        var result = content
        let data = correction.data ?? [:]
        for field in data.names + correction.without {
            result.data[field] = nil
            result.unset.removeAll { $0 == field }
            result.operations.removeAll { $0.top == field }
            if content.action == .update { result.base[field] = nil }
        }
        var change = MutationContent(content.action, data: data)
        change.base = WireForm.bases(change, seen: seen, rules: rules)
        change = WireForm.of(change, seen: seen, rules: rules)
        for member in change.data.members { result.data[member.name.text] = member.value }
        for member in change.base.members { result.base[member.name.text] = member.value }
        result.operations += change.operations
        return result
    }

    /// The dependencies of a mutation without those that were given up.
    func liveDependencies(of payload: Payload?) throws(StoreError) -> [MutationKey] {
        guard let text = payload?.depends else { return [] }
        var keys: [MutationKey] = []
        for key in try presentDependencies(text).compactMap({ MutationKey($0) }) {
            guard let seq = try seq(of: key) else { continue }
            let state = try outboxRow(seq)?.state
            if state != .cancelled, state != .discarded, state != .expired { keys.append(key) }
        }
        return keys
    }

    // MARK: - Cause of a refusal

    /// Names the refused mutation that caused this refusal, and that a person has to fix first. The hub names no key, and a person who
    /// retries one of them usually wants to retry the other with it.
    func namingParent(_ problem: Problem, of row: OutboxRow) throws(StoreError) -> Problem {
        guard problem.code == Self.parentRejected, problem.members["parent"] == nil, let parent = try refusedParent(of: row) else {
            return problem
        }
        var named = problem
        named.members["parent"] = .string(parent)
        return named
    }

    /// The key of the refused mutation that was to make the record of this one, if the hub does not have the record.
    func refusedCreate(before row: OutboxRow) throws(StoreError) -> String? {
        guard let rid = row.rid, let payload = try payload(row.seq), payload.action != .create, payload.baseVersion <= 0 else { return nil }
        // Only the newest create before it counts: refused ones before that have been replaced.
        return try database.first(
            """
            SELECT p.key, m.state FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.seq < ? AND p.action = ? ORDER BY m.seq DESC LIMIT 1
            """, .int(rid), .int(row.seq), .int(Int64(MutationAction.create.number))
        ) { row throws(StoreError) -> String? in
            MutationState(rawValue: Int(clamping: row.int(1))) == .rejected ? row.text(0) : nil
        } ?? nil
    }

    private func refusedParent(of row: OutboxRow) throws(StoreError) -> String? {
        if let own = try refusedCreate(before: row) { return own }
        guard let payload = try payload(row.seq) else { return nil }
        for key in try presentDependencies(payload.depends ?? "[]") {
            guard let seq = try seq(of: MutationKey(trusted: key)) else { continue }
            if try outboxRow(seq)?.state == .rejected { return key }
        }
        let rules = rules[names.entity(row.eid)] ?? EntityRules()
        // Only used for the name of a parent in the problem's text: a damaged payload names none.
        let data = payload.data.flatMap { StoredJSON.read($0)?.object } ?? [:]
        for (field, entity) in rules.refs.sorted(by: { $0.key < $1.key }) {
            guard let id = data[field]?.text, let eid = names.entities[entity] else { continue }
            let refused = try database.first(
                """
                SELECT p.key FROM record r JOIN mutation m ON m.rid = r.rid JOIN payload p ON p.seq = m.seq
                WHERE r.eid = ? AND r.id = ? AND m.state = 3 AND p.action = ? ORDER BY m.seq DESC LIMIT 1
                """, .int(eid), .text(id), .int(Int64(MutationAction.create.number))
            ) { row throws(StoreError) in row.text(0) }
            if let refused { return refused }
        }
        return nil
    }
}
