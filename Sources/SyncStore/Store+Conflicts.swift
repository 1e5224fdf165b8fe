package import SyncCore

// What people decide about conflicts, and what becomes of conflicts by themselves.

/// How somebody wants a conflict to end.
package struct ConflictDecision: Hashable, Sendable {
    package enum Choice: Hashable, Sendable {
        case local, remote
        case value(JSON)
    }

    package enum Scope: Hashable, Sendable {
        case all(Choice)
        /// Every disputed field by itself.
        case fields([String: Choice])
    }

    package var scope: Scope
    package var comment: String?
    /// The hub's version that was looked at; another present one refuses the decision.
    package var expectedRemoteVersion: Int64?
    package var author: String?
    /// With the disputed change all of its atomic list is let go.
    package var letsGoOfList: Bool

    package init(
        _ scope: Scope, comment: String? = nil, expectedRemoteVersion: Int64? = nil, author: String? = nil,
        letsGoOfList: Bool = false
    ) {
        self.scope = scope
        self.letsGoOfList = letsGoOfList
        self.comment = comment
        self.expectedRemoteVersion = expectedRemoteVersion
        self.author = author
    }
}

/// What became of a decision.
package struct ResolvedConflict: Hashable, Sendable {
    /// `resolving` while the hub has not heard of it, otherwise `resolved`.
    package var state: String
    /// Carries the decision to the hub; `nil` when the hub has it already.
    package var mutation: MutationKey?
    /// Of the atomic list that the disputed mutation is in.
    package var list: AtomicListFate?
}

extension Store {
    /// Decides a conflict. Invariant: the disputed mutation ends, a new one with a new key carries what is left of it and
    /// the decision, and the audit trail says who decided what: all or nothing.
    ///
    /// - Throws: `.refused` with `not-found`, `already-resolved`, `version-mismatch` (the hub's side is newer than the one
    ///   that was looked at; the problem carries both sides), or `validation`.
    package func resolve(
        _ cid: Int64, _ decision: ConflictDecision, by requester: Requester, at now: Moment
    ) throws(StoreError) -> ResolvedConflict {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let conflict = try conflict(cid) else { throw Refusal.notFound("conflict c-\(cid)", list: "agentctl conflicts list") }
            guard conflict.state.isOpen, let row = try outboxRow(conflict.seq) else {
                throw Refusal.alreadyResolved(conflict.name, "\(conflict.state)")
            }
            if let expected = decision.expectedRemoteVersion, expected != conflict.remoteVersion {
                throw Refusal.remoteMoved(conflict, expected: expected)
            }
            let choices = try choices(decision.scope, conflict)
            if decision.letsGoOfList { try letGo(ofListWith: row, conflict, decision, uid: requester.uid) }
            var ending = ResolvedConflict(state: "resolved")
            if !decision.letsGoOfList { ending = try end(conflict, row, choices, "resolved", by: requester, decision) }
            ending.list = try row.group.map { group throws(StoreError) in try listFate(group) }
            var entry: JSONObject = ["conflict": .string(conflict.name), "mutation": ending.mutation.map { .string($0.text) } ?? .null]
            entry["choice"] = .object(choices.json)
            if decision.letsGoOfList { entry["whole"] = true }
            if let comment = decision.comment { entry["comment"] = .string(comment) }
            try audit("resolve", "\(names.entity(conflict.eid))/\(try recordID(of: row))", uid: requester.uid, entry)
            return ending
        }
    }

    private struct Choices {
        /// About the deletion, where the conflict is about one.
        var record: ConflictDecision.Choice?
        var fields: [String: ConflictDecision.Choice] = [:]

        var json: JSONObject {
            func word(_ choice: ConflictDecision.Choice) -> JSON {
                switch choice {
                case .local: "local"
                case .remote: "remote"
                case .value(let value): .object(["value": value])
                }
            }
            if let record { return ["record": word(record)] }
            var object: JSONObject = [:]
            for (field, choice) in fields.sorted(by: { $0.key < $1.key }) { object[field] = word(choice) }
            return object
        }
    }

    private func choices(_ scope: ConflictDecision.Scope, _ conflict: ConflictRow) throws(StoreError) -> Choices {
        switch (scope, conflict.kind) {
        case (.all(.value), _): throw Refusal.validation("/choice", "a value needs the field that it is for, in fields")
        case (.all(let choice), .field):
            return Choices(fields: Dictionary(conflict.fields.map { ($0, choice) }, uniquingKeysWith: { first, _ in first }))
        case (.all(let choice), _): return Choices(record: choice)
        case (.fields, .deleteUpdate), (.fields, .updateDelete):
            throw Refusal.validation("/fields", "one side deleted the record, so it is decided as a whole: choice local or remote")
        case (.fields(let given), .field):
            let disputed = Set(conflict.fields)
            for name in given.keys.sorted() where !disputed.contains(name) {
                throw Refusal.validation("/fields/\(name)", "\(name) is not disputed, only \(conflict.fieldWords)")
            }
            for name in conflict.fields where given[name] == nil {
                throw Refusal.validation("/fields/\(name)", "\(name) is disputed too and needs a decision")
            }
            return Choices(fields: given)
        }
    }

    // MARK: - Ending a conflict

    /// - Parameter event: How it ends, for the history: `resolved`, `moot`.
    private func end(
        _ conflict: ConflictRow, _ row: OutboxRow, _ choices: Choices, _ event: String, by requester: Requester,
        _ decision: ConflictDecision? = nil
    ) throws(StoreError) -> ResolvedConflict {
        let payload = try payload(row.seq)
        let rules = rules[names.entity(row.eid)] ?? EntityRules()
        guard let record = try MirrorRow.find(database, rid: conflict.rid) else { throw Refusal.notFound("record of \(conflict.name)") }
        let (seen, hubs) = (record.parsedDocument, record.parsedBase)
        guard seen.isReadable, hubs.isReadable, !conflict.isDamaged else {
            damagedRecords.insert(record.rid)
            throw Refusal.damaged(RecordName(names.entity(conflict.eid), RecordID(trusted: record.id)))
        }
        let (view, base) = (seen.known, hubs.known)
        let later = try openMutations(of: conflict.rid, after: row.seq)
        var content = decided(conflict, choices, payload?.content(under: rules), view, base, rules)
        let carried = event == "resolved" ? try giveWay(later, to: conflict, choices, base, rules) : []
        let left = try openMutations(of: conflict.rid, after: row.seq)
        content = content.flatMap { withoutWhatFollows($0, left, view, rules) }
        // A later mutation of this device has deleted the record, and the hub has taken that: there is nothing to change.
        if record.base == nil, content?.action == .update { content = nil }
        if conflict.kind == .updateDelete, !carried.isEmpty, let whole = content {
            // What was sent already goes by itself, so it is no part of what is carried.
            let document = Fold.view(base: nil, mutations: [whole] + carried.map(\.content)) ?? [:]
            content = MutationContent(.create, data: document, base: whole.base)
        }
        // A deletion that comes later may still be refused: then what it had made pointless is not gone without a word.
        let isGivenUp = event == "resolved" || left.contains { $0.payload?.action == .delete }
        let ending: MutationState = content != nil ? .resolved : isGivenUp ? .discarded : .superseded
        try settle(row, as: ending, keptFor: try keptFor(row))
        if let group = row.group { try refreshReadiness(ofGroup: group) }
        try restatus(conflict.rid, foldAgain: true)
        var key: MutationKey?
        var into: Int64?
        if let content {
            let action: NewMutation.Action =
                content.action == .create ? .upsert : content.action == .delete ? .delete : .update
            let name = try recordID(of: row)
            let list = try openList(of: row)
            var mutation = NewMutation(
                action, names.entity(row.eid), name, data: content.data, unset: content.unset, operations: content.operations,
                priority: row.priority, dependsOn: try liveDependencies(of: payload), author: decision?.author ?? payload?.author)
            mutation.base = content.base
            // Members of an object count each by its own time, and the decision is about the deletion alone.
            if conflict.kind == .updateDelete, carried.isEmpty, let hlc = payload.flatMap({ HybridTime($0.hlc) }) {
                for field in content.data.names where rules.strategy == .fields && rules.strategy(of: field) == .merge {
                    mutation.stamps[JSONString(field)] = content.stamps[JSONString(field)] ?? hlc
                }
            }
            // What goes on by itself goes on with its deadline; what a person has decided has none.
            let answer = try accept(
                mutation, by: requester, in: list, supersedes: payload?.key ?? "",
                deadline: event == "resolved" ? nil : payload?.ttlAge)
            if let list { try join(list, seq: answer.seq) }
            try database.run("UPDATE mutation SET into_seq = ? WHERE seq = ?", .int(answer.seq), .int(row.seq))
            for (seq, _) in carried {
                try handOver(from: seq, to: answer.seq)
                // A receipt, which stays as long as what answers for it.
                try database.run(
                    "UPDATE mutation SET into_seq = ?, prune_age = ? WHERE seq = ?", .int(answer.seq), .int(Int64.max), .int(seq))
            }
            (key, into) = (answer.key, answer.seq)
        }
        var ended = conflict
        ended.into = into
        ended.state = event == "moot" ? .moot : into == nil ? .resolved : .resolving
        ended.closedAge = ended.state == .resolving ? nil : age
        var members: JSONObject = ["uid": .int(Int64(requester.uid))]
        if event == "resolved" { members["choice"] = .object(choices.json) }
        if let author = decision?.author { members["author"] = .string(author) }
        if let comment = decision?.comment { members["comment"] = .string(comment) }
        ended.note(event, at: now.wall, members)
        try ended.update(in: database)
        tell(ended)
        return ResolvedConflict(state: "\(ended.state)", mutation: key)
    }

    /// What is still to be sent of the disputed mutation, with the decision.
    ///
    /// - Parameter content: `nil` when its row is damaged: then the stored sides are all there is.
    private func decided(
        _ conflict: ConflictRow, _ choices: Choices, _ content: MutationContent?, _ view: JSONObject?, _ base: JSONObject?,
        _ rules: EntityRules
    ) -> MutationContent? {
        switch conflict.kind {
        case .deleteUpdate: return choices.record == .local ? MutationContent(.delete) : nil
        case .updateDelete:
            if choices.record != .local { return nil }
            if let content { return content }
            var data: JSONObject = [:]
            for side in conflict.sides { data[side.field] = side.local.value }
            return MutationContent(.create, data: data)
        case .field:
            var result = content ?? MutationContent(.update)
            result.removeFields(Set(choices.fields.keys.map { JSONString($0) }))
            let locals = Dictionary(
                conflict.sides.map { (JSONString($0.field), $0.local.value) }, uniquingKeysWith: { first, _ in first })
            let own = content.flatMap { Fold.apply($0, to: base) }
            for (field, choice) in choices.fields.sorted(by: { $0.key < $1.key }) {
                switch choice {
                case .remote: break
                case .value(let value): result.data[field] = value
                case .local:
                    let mine = view == nil ? locals[JSONString(field)] ?? Optional.none : view?[field]
                    guard let mine else { result.unset.append(field); continue }
                    // Where the rule has a form that commutes with what others add meanwhile, in that. What other mutations of this
                    // device add is theirs to bring.
                    if let forms = Self.additions(rules, field, base, to: own?[field] ?? mine) {
                        result.operations += forms
                    } else {
                        result.data[field] = mine
                    }
                }
            }
            return result.isEmpty ? nil : result
        }
    }

    /// What makes `mine` of what the hub has and commutes with what others do; `nil` where there is no such thing.
    private static func additions(
        _ rules: EntityRules, _ field: String, _ base: JSONObject?, to mine: JSON
    ) -> [FieldOperation]? {
        base.flatMap { WireForm.operations(rules, field, from: $0[field], to: mine) }
    }

    private typealias Carried = (seq: Int64, content: MutationContent)

    /// A decision is the last word on a field: what was to be done with it later, and was never sent, gives way to it; where
    /// this device's side was chosen and adds up, it goes on and adds its part. What was to be done with a record that was
    /// deleted there goes along when it is brought back, and is over when it is not.
    ///
    /// - Returns: Mutations that the new one carries as a whole.
    private func giveWay(
        _ later: [OpenMutation], to conflict: ConflictRow, _ choices: Choices, _ base: JSONObject?, _ rules: EntityRules
    ) throws(StoreError) -> [Carried] {
        var decided: Set<JSONString> = []
        for (field, choice) in choices.fields {
            let mine = choice == .local ? conflict.sides.first { $0.field == field }?.local.value : nil
            if let mine, Self.additions(rules, field, base, to: mine) != nil { continue }
            decided.insert(JSONString(field))
        }
        var carried: [Carried] = []
        for open in later where open.row.state == .pending && !open.row.isSent {
            guard let payload = open.payload, let content = payload.content(under: rules) else { continue }
            if content.action == .delete || content.action == .create { break }
            if conflict.kind == .updateDelete {
                // What is deleted later is not brought back.
                let isCarried = choices.record == .local && !later.contains { $0.payload?.action == .delete }
                try settle(open.row, as: isCarried ? .coalesced : .discarded, keptFor: try keptFor(open.row))
                if let group = open.row.group { try refreshReadiness(ofGroup: group) }
                if isCarried { carried.append((open.row.seq, content)) }
                continue
            }
            var rest = content
            rest.removeFields(decided)
            guard rest != content else { continue }
            try audit(
                "gave-way", "\(names.entity(payload.eid))/\(payload.recordID)", uid: UInt32(clamping: payload.uid),
                ["mutation": .string(payload.key), "conflict": .string(conflict.name), "data": .object(content.data)])
            if rest.isEmpty {
                try settle(open.row, as: .superseded, keptFor: try keptFor(open.row))
                if let group = open.row.group { try refreshReadiness(ofGroup: group) }
            } else {
                try rewrite(payload, rest, restingOn: payload.baseVersion)
            }
        }
        return carried
    }

    /// The new mutation comes after those that were made later than the disputed one. What they say about other fields
    /// must still be the last word.
    private func withoutWhatFollows(
        _ content: MutationContent, _ later: [OpenMutation], _ view: JSONObject?, _ rules: EntityRules
    ) -> MutationContent? {
        var result = content
        for open in later {
            guard let after = open.payload?.content(under: rules) else { continue }
            // Deleted later: whatever was to be done before has no meaning any more. Made anew later: it is not to be deleted.
            if after.action == .delete || (after.action == .create && content.action == .delete) { return nil }
            let isMadeAnew = content.action == .create && after.action == .create
            let added = isMadeAnew ? after.data.names.filter { rules.strategy == .fields && rules.strategy(of: $0).addsUp } : []
            if content.action == .update || after.action == .create {
                let base = result.base
                result.removeFields(Set((after.data.names + after.unset).filter { !added.contains($0) }.map { JSONString($0) }))
                // What a creation has seen and does not name it takes away: that would be what was made anew.
                if content.action == .update { result.base = base }
            }
            // Made anew later, with a value that adds up: what comes back adds to that, it does not go over it.
            if isMadeAnew {
                for field in Set(after.operations.map(\.field) + added) {
                    guard let value = result.data[field] else { continue }
                    // Of what was there before the deletion, others may have brought it back already.
                    let added = result.base[field].flatMap { WireForm.operations(rules, field, from: $0, to: value) }
                    result.data[field] = nil
                    result.base[field] = nil
                    result.operations += added ?? WireForm.additions(rules, field, value)
                }
            }
            if content.action == .update, !after.operations.isEmpty {
                let touched = Set(after.operations.map(\.elementName))
                result.operations.removeAll { $0.kind.isOfSet && touched.contains($0.elementName) }
            }
            for operation in after.operations where content.action == .update {
                // Where the rule adds changes up, ours goes as one; as a value it has to contain what was added since.
                let addsUp = rules.strategy == .fields && rules.strategy(of: operation.field).addsUp
                let containsIt = !addsUp || !operation.path.isEmpty
                if containsIt, result.data[operation.top] != nil { result.data[operation.top] = view?[operation.top] }
            }
        }
        return result.isEmpty && result.action == .update ? nil : result
    }

    // MARK: - By themselves

    /// Closes a conflict in which nothing is left to decide. What else its mutation asked for goes on under a new key.
    func close(_ moot: TouchedRecords.Moot) throws(StoreError) {
        guard let conflict = try conflict(moot.cid), conflict.state.isOpen, let row = try outboxRow(conflict.seq) else { return }
        let own = Requester(app: AppName(trusted: "agent"), uid: 0)
        var choices = Choices()
        if conflict.kind != .field { choices.record = moot.isEmpty ? .remote : .local }
        // What is to be told of others that have ended so far stays outside: it is told whether this goes on or not.
        let ends = transaction?.tieEnds ?? []
        transaction?.tieEnds = []
        do throws(StoreError) {
            try transact(at: now) { () throws(StoreError) in _ = try end(conflict, row, choices, "moot", by: own) }
        } catch {
            // What cannot go on by itself stays with the person.
            guard error.problem != nil else { throw error }
        }
        transaction?.tieEnds = ends
    }

    /// Somebody gave the mutation up.
    func closeConflict(ofSeq seq: Int64, _ event: String, uid: UInt32) throws(StoreError) {
        guard var conflict = try openConflict(ofSeq: seq) else { return }
        conflict.state = .resolved
        conflict.closedAge = age
        conflict.note(event, at: now.wall, ["uid": .int(Int64(uid))])
        try conflict.update(in: database)
        tell(conflict)
    }

    /// Conflicts whose decision has arrived at the hub, or has met its own fate there.
    func closeAnswered() throws(StoreError) {
        let answered = try database.all(
            """
            SELECT * FROM conflict c INDEXED BY conflict_resolving WHERE c.state = 2 AND c.into_seq > 0 AND NOT EXISTS (
                SELECT 1 FROM mutation m WHERE m.seq = c.into_seq AND m.state < 6 AND m.state <> 2)
            """
        ) { row throws(StoreError) in ConflictRow(row) }
        for found in answered {
            var conflict = found
            conflict.state = .resolved
            conflict.closedAge = age
            conflict.note("arrived", at: now.wall)
            try conflict.update(in: database)
            tell(conflict)
        }
    }

    /// The local side is what apps see, also after later changes of the same field.
    func refreshLocalSides(of rid: Int64, _ document: String?) throws(StoreError) {
        let open = try database.all(
            "SELECT * FROM conflict WHERE rid = ? AND state < 2", .int(rid)
        ) { row throws(StoreError) in ConflictRow(row) }
        // Nothing is shown of a damaged view; the record is fetched again, and this is done once more then.
        guard let view = StoredJSON.Document(document).known else { return }
        let disputes = open.filter { $0.kind != .deleteUpdate && !$0.isDamaged }
        let moved = disputes.flatMap(\.sides).filter { $0.local.value != view[$0.field] }
        let newest = try newestChanges(of: rid, fields: Set(moved.map { JSONString($0.field) }))
        for var conflict in disputes {
            var isChanged = false
            for index in conflict.sides.indices where conflict.sides[index].local.value != view[conflict.sides[index].field] {
                let field = conflict.sides[index].field
                conflict.sides[index].local.value = view[field]
                if let payload = newest[JSONString(field)] {
                    conflict.sides[index].local.author = payload.author
                    conflict.sides[index].local.at = Timestamp(milliseconds: payload.createdMS)
                }
                isChanged = true
            }
            if isChanged { try conflict.update(in: database) }
        }
    }

    /// By field, the newest mutation of the fold that changes it. Looked for from the newest on, and no further than needed: it is
    /// mostly that one.
    private func newestChanges(of rid: Int64, fields: Set<JSONString>) throws(StoreError) -> [JSONString: Payload] {
        var newest: [JSONString: Payload] = [:]
        if fields.isEmpty { return newest }
        try database.each(
            """
            SELECT p.* FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 AND m.state <> 3 ORDER BY m.seq DESC
            """, .int(rid), while: { newest.count < fields.count }
        ) { row throws(StoreError) in
            guard Payload.isSound(row, at: 0), case let payload = Payload(row, at: 0) else { return }
            for field in payload.content(under: nil)?.fields ?? [] {
                let name = JSONString(field)
                if fields.contains(name), newest[name] == nil { newest[name] = payload }
            }
        }
        return newest
    }

    // MARK: - Rows and events

    func conflict(_ cid: Int64) throws(StoreError) -> ConflictRow? {
        try database.first("SELECT * FROM conflict WHERE cid = ?", .int(cid)) { row throws(StoreError) in
            ConflictRow(row)
        }
    }

    func openConflict(ofSeq seq: Int64) throws(StoreError) -> ConflictRow? {
        try database.first("SELECT * FROM conflict WHERE seq = ? AND state < 2", .int(seq)) {
            row throws(StoreError) in ConflictRow(row)
        }
    }

    func tell(_ conflict: ConflictRow) {
        let name = names.entity(conflict.eid)
        let id = (try? MirrorRow.find(database, rid: conflict.rid))?.id ?? "?"  // for people only; a read that fails shows again
        let event: JSONObject = [
            "id": .string(conflict.name), "entity": .string(name.text), "record_id": .string(id),
            "state": .string("\(conflict.state)"), "fields": JSON.list(conflict.fields),
        ]
        journal.addNote(type: "conflict", json: JSON.object(event).json)
    }
}
