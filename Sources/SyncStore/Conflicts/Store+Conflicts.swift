package import SyncCore
import SyncSQLite

// Decisions of people about conflicts, and conflicts that end without one.

/// The result of a decision.
package struct ResolvedConflict: Hashable, Sendable {
    /// `resolving` until the hub has accepted the decision, then `resolved`.
    package var state: String
    /// The mutation that carries the decision to the hub; `nil` when the hub has it already.
    package var mutation: MutationKey?
    /// The fate of the atomic list that the disputed mutation belongs to.
    package var list: AtomicListFate?
}

extension Store {
    /// Decides a conflict. Invariant, all or nothing: the disputed mutation ends, a new one with a new key carries its rest and the
    /// decision, and the audit trail records the decision and its author.
    ///
    /// - Throws: `.refused` with `not-found`, `already-resolved`, `version-mismatch` (the hub's side is newer than the one that the person
    ///   saw; the problem carries both sides), or `validation`.
    package func resolve(
        _ cid: Int64, _ decision: ConflictDecision, by requester: Requester, at now: Moment
    ) throws(StoreError) -> ResolvedConflict {
        try convertBeforeChange(at: now)
        return try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let conflict = try conflict(cid) else {
                throw StoreProblem.notFound("conflict c-\(cid)", list: "agentctl conflicts list")
            }
            guard conflict.state.isOpen, let row = try outboxRow(conflict.seq) else {
                throw StoreProblem.alreadyResolved(conflict.name, conflict.state.name)
            }
            if let expected = decision.expectedRemoteVersion, expected != conflict.remoteVersion {
                throw StoreProblem.remoteMoved(conflict, expected: expected)
            }
            let choices = try choices(decision.scope, conflict)
            if decision.letsGoOfList { try giveUpList(of: row, conflict, decision, uid: requester.uid) }
            var ending = ResolvedConflict(state: "resolved")
            if !decision.letsGoOfList { ending = try end(conflict, row, choices, "resolved", by: requester, decision) }
            // A decision may depend on a refused change. Then it falls now with its list, and the answer says so.
            try endTies()
            try closeAnswered()
            var list = row.group
            // A decision may have joined the list of a later change.
            if list == nil, let key = ending.mutation, let seq = try seq(of: key) { list = try outboxRow(seq)?.group }
            ending.list = try list.map { list throws(StoreError) in try listFate(list) }
            var entry: JSONObject = ["conflict": .string(conflict.name), "mutation": .optional(ending.mutation?.text)]
            entry["choice"] = .object(choices.json)
            if decision.letsGoOfList { entry["whole"] = true }
            if let comment = decision.comment { entry["comment"] = .string(comment) }
            try audit("resolve", "\(names.entity(conflict.eid))/\(try recordID(of: row))", uid: requester.uid, entry)
            return ending
        }
    }

    private struct Choices {
        /// The choice about a deletion, for a conflict about one.
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
        case (.all(.value), _): throw StoreProblem.validation("/choice", "a value needs the field that it is for, in fields")
        case (.all(let choice), .field):
            return Choices(fields: Dictionary(conflict.fields.map { ($0, choice) }, uniquingKeysWith: { first, _ in first }))
        case (.all(let choice), _): return Choices(record: choice)
        case (.fields, .deleteUpdate), (.fields, .updateDelete):
            throw StoreProblem.validation("/fields", "one side deleted the record, so it is decided as a whole: choice local or remote")
        case (.fields(let given), .field):
            let disputed = Set(conflict.fields)
            for name in given.keys.sorted() where !disputed.contains(name) {
                throw StoreProblem.validation("/fields/\(name)", "\(name) is not disputed, only \(conflict.fieldWords)")
            }
            for name in conflict.fields where given[name] == nil {
                throw StoreProblem.validation("/fields/\(name)", "\(name) is disputed too and needs a decision")
            }
            return Choices(fields: given)
        }
    }

    // MARK: - Ending a conflict

    /// - Parameter event: The end of the conflict, for the history: `resolved` or `moot`.
    private func end(
        _ conflict: ConflictRow, _ row: OutboxRow, _ choices: Choices, _ event: String, by requester: Requester,
        _ decision: ConflictDecision? = nil
    ) throws(StoreError) -> ResolvedConflict {
        let payload = try payload(row.seq)
        let rules = rules[names.entity(row.eid)] ?? EntityRules()
        guard let record = try MirrorRow.find(database, rid: conflict.rid) else {
            throw StoreProblem.notFound("record of \(conflict.name)")
        }
        let (seen, hubs) = (record.parsedDocument, record.parsedBase)
        guard seen.isReadable, hubs.isReadable, !conflict.isDamaged else {
            damagedRecords.insert(record.rid)
            throw StoreProblem.damaged(RecordName(names.entity(conflict.eid), RecordID(trusted: record.id)))
        }
        let (view, base) = (seen.known, hubs.known)
        let later = try openMutations(of: conflict.rid, after: row.seq)
        var content = decided(conflict, choices, payload?.content(under: rules), view, base, rules)
        var comeback = Comeback()
        if event == "resolved" {
            if conflict.kind == .updateDelete {
                // A record that is deleted later is not brought back.
                let isBack = choices.record == .local && !later.contains { $0.payload?.action == .delete }
                comeback = try endLater(later, than: row, isBack: isBack, rules)
            } else {
                try giveWay(later, to: conflict, choices, base, rules)
            }
        }
        let carried = comeback.carried
        let open = try openMutations(of: conflict.rid, after: row.seq)
        var left: [OpenMutation] = []
        for change in open where try !bringsBack(change, before: row.seq) { left.append(change) }
        content = content.flatMap { withoutWhatFollows($0, left, view, rules) }
        // A later mutation of this device has deleted the record, and the hub has accepted that: nothing is left to change. Where another
        // device has deleted it, an earlier change that may bring it back is still in dispute, and this one waits behind that. Where the
        // row of the record was lost, only the hub knows what there is to change.
        if record.base == nil, !record.isOfUnknownHistory, content?.action == .update, left.count == open.count, try !isMade(before: row) {
            content = nil
        }
        if conflict.kind == .updateDelete, !carried.isEmpty, let whole = content {
            // Content that was already sent goes by itself and is not carried.
            let document = Fold.view(base: nil, mutations: [whole] + carried.map(\.content)) ?? [:]
            content = MutationContent(.create, data: document, base: whole.base)
        }
        // A later deletion may still be refused. A change that it made pointless is therefore recorded as discarded.
        let isGivenUp = event == "resolved" || left.contains { $0.payload?.action == .delete }
        let ending: MutationState = content != nil ? .resolved : isGivenUp ? .discarded : .superseded
        try finalize(row, as: ending, keptFor: try keptFor(row))
        if let group = row.group { try refreshReadiness(ofGroup: group) }
        try restatus(conflict.rid, foldAgain: true)
        var key: MutationKey?
        var into: Int64?
        if let content {
            let action: NewMutation.Action =
                content.action == .create ? .upsert : content.action == .delete ? .delete : .update
            let name = try recordID(of: row)
            var list = try openList(of: row)
            if list == nil { list = try openList(of: carried) }
            var mutation = NewMutation(
                action, names.entity(row.eid), name, data: content.data, unset: content.unset, operations: content.operations,
                author: decision?.author ?? payload?.author)
            mutation.base = content.base
            try inherit(from: row, payload, carried, by: &mutation)
            try keepTimes(of: [payload].compactMap { $0 } + carried.map(\.payload), in: &mutation, rules) { field in
                if event != "resolved" { return true }
                // A decision about a deletion is about the record as a whole. Members of an object count by their own times.
                return conflict.kind == .updateDelete ? rules.mergesMembers(of: field) : choices.fields[field] == nil
            }
            // A mutation that continues without a decision keeps its deadline; one that a person has decided has none.
            let answer = try accept(
                mutation, by: requester, in: list, supersedes: payload?.key ?? "",
                deadline: event == "resolved" ? nil : payload?.ttlAge)
            try database.run("UPDATE mutation SET into_seq = ? WHERE seq = ?", .int(answer.seq), .int(row.seq))
            let record = RecordName(names.entity(row.eid), name)
            try moveLinks(of: record, from: row.seq, to: answer.seq, in: mutation)
            for seq in carried.map(\.row.seq) {
                try handOver(from: seq, to: answer.seq)
                try moveLinks(of: record, from: seq, to: answer.seq, in: mutation)
                // A receipt, kept as long as the mutation that replaces it.
                try database.run(
                    "UPDATE mutation SET into_seq = ?, prune_age = ? WHERE seq = ?", .int(answer.seq), .int(Int64.max), .int(seq))
            }
            for (open, list) in comeback.madeAgain { try makeAgain(open, in: list, behind: answer.key, by: requester) }
            // If the decision falls with its list now, those behind it fall as well.
            if let list { try join(list, seq: answer.seq) }
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
        ended.addEvent(event, at: now.wall, members)
        try ended.update(in: database)
        addToJournal(ended)
        return ResolvedConflict(state: ended.state.name, mutation: key)
    }

    /// The content that is still to be sent of the disputed mutation, including the decision.
    ///
    /// - Parameter content: `nil` when its row is damaged: then only the stored sides are known.
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
                    // Sent in a form that commutes with additions of others, where the rule has one. Additions of this device's other
                    // mutations are sent by those mutations.
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

    /// Operations that turn the hub's value into `mine` and commute with changes of others; `nil` where there are none.
    private static func additions(
        _ rules: EntityRules, _ field: String, _ base: JSONObject?, to mine: JSON
    ) -> [FieldOperation]? {
        base.flatMap { WireForm.operations(rules, field, from: $0[field], to: mine) }
    }

    /// Ends later mutations that a decision makes obsolete. A decision is the last word on a field, so later changes of the field that were
    /// never sent give way to it. They stay if this device's side was chosen and its rule adds up.
    private func giveWay(
        _ later: [OpenMutation], to conflict: ConflictRow, _ choices: Choices, _ base: JSONObject?, _ rules: EntityRules
    ) throws(StoreError) {
        var decided: Set<JSONString> = []
        for (field, choice) in choices.fields {
            let mine = choice == .local ? conflict.sides.first { $0.field == field }?.local.value : nil
            if let mine, Self.additions(rules, field, base, to: mine) != nil { continue }
            decided.insert(JSONString(field))
        }
        for open in later where open.row.state == .pending && !open.row.isSent {
            guard let payload = open.payload, let content = payload.content(under: rules) else { continue }
            if content.action == .delete || content.action == .create { break }
            var rest = content
            rest.removeFields(decided)
            guard rest != content else { continue }
            try audit(
                "gave-way", "\(names.entity(payload.eid))/\(payload.recordID)", uid: UInt32(clamping: payload.uid),
                ["mutation": .string(payload.key), "conflict": .string(conflict.name), "data": .object(content.data)])
            if rest.isEmpty {
                try finalize(open.row, as: .superseded, keptFor: try keptFor(open.row))
                if let group = open.row.group { try refreshReadiness(ofGroup: group) }
            } else {
                try rewrite(payload, rest, restingOn: payload.baseVersion)
            }
        }
    }

    /// Removes from the content the fields that later mutations change. The new mutation is sent after them, and their values must still be
    /// the last word.
    private func withoutWhatFollows(
        _ content: MutationContent, _ later: [OpenMutation], _ view: JSONObject?, _ rules: EntityRules
    ) -> MutationContent? {
        var result = content
        for open in later {
            guard let after = open.payload?.content(under: rules) else { continue }
            // After a later deletion, earlier changes have no effect. A record that was created again later must not be deleted.
            if after.action == .delete || (after.action == .create && content.action == .delete) { return nil }
            let isMadeAnew = content.action == .create && after.action == .create
            let added = isMadeAnew ? after.data.names.filter { rules.strategy == .fields && rules.strategy(of: $0).addsUp } : []
            if content.action == .update || after.action == .create {
                let base = result.base
                result.removeFields(Set((after.data.names + after.unset).filter { !added.contains($0) }.map { JSONString($0) }))
                // A create removes the fields that its base has and that it does not name; that would hit the record that was made anew.
                if content.action == .update { result.base = base }
            }
            // The record was created again later with a value that adds up: the restored value is added to it and does not overwrite it.
            if isMadeAnew {
                for field in Set(after.operations.map(\.field) + added) {
                    guard let value = result.data[field] else { continue }
                    // Others may have restored the value from before the deletion already.
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
                // A field whose rule adds up is sent as an addition. A plain value must contain what was added since.
                let addsUp = rules.strategy == .fields && rules.strategy(of: operation.field).addsUp
                let containsIt = !addsUp || !operation.path.isEmpty
                if containsIt, result.data[operation.top] != nil { result.data[operation.top] = view?[operation.top] }
            }
        }
        return result.isEmpty && result.action == .update ? nil : result
    }

    // MARK: - Conflicts that end by themselves

    /// Closes a conflict in which nothing is left to decide. The rest of its mutation continues under a new key.
    func close(_ moot: TouchedRecords.Moot) throws(StoreError) {
        guard let conflict = try conflict(moot.cid), conflict.state.isOpen, let row = try outboxRow(conflict.seq) else { return }
        let own = Requester(app: AppName(trusted: "agent"), uid: 0)
        var choices = Choices()
        if conflict.kind != .field { choices.record = moot.isEmpty ? .remote : .local }
        // Ties that ended so far are reported outside of this attempt, whether it succeeds or not.
        let ends = transaction?.tieEnds ?? []
        transaction?.tieEnds = []
        do throws(StoreError) {
            try transact(at: now) { () throws(StoreError) in _ = try end(conflict, row, choices, "moot", by: own) }
        } catch {
            // A mutation that cannot continue without a decision stays with the person.
            guard error.problem != nil else { throw error }
        }
        transaction?.tieEnds = ends
    }

    /// Closes the conflict of a mutation that was given up.
    func closeConflict(ofSeq seq: Int64, _ event: String, uid: UInt32? = nil) throws(StoreError) {
        guard var conflict = try openConflict(ofSeq: seq) else { return }
        conflict.state = .resolved
        conflict.closedAge = age
        conflict.addEvent(event, at: now.wall, uid.map { ["uid": .int(Int64($0))] } ?? [:])
        try conflict.update(in: database)
        addToJournal(conflict)
    }

    /// Closes conflicts whose decision the hub has accepted, or whose decision has ended in another way. The history says which. A decision
    /// that was retried goes on under the key of the retry, and one that another decision carries under the key of that.
    func closeAnswered() throws(StoreError) {
        let answered = try database.all(
            """
            SELECT * FROM conflict c INDEXED BY conflict_resolving WHERE c.state = 2 AND c.into_seq > 0 AND NOT EXISTS (
                SELECT 1 FROM mutation m WHERE m.seq = c.into_seq AND m.state < 6 AND m.state <> 2)
            """
        ) { row throws(StoreError) in ConflictRow(row) }
        for found in answered {
            var conflict = found
            var end: OutboxRow?
            if let into = found.into { end = try outboxRow(into) }
            while let row = end, let next = row.replacement { end = try outboxRow(next) }
            if let end, !end.state.isTerminal, end.state != .conflicted {
                conflict.into = end.seq
                try conflict.update(in: database)
                continue
            }
            conflict.state = .resolved
            conflict.closedAge = age
            conflict.addEvent(Self.closing(end?.state), at: now.wall)
            try conflict.update(in: database)
            addToJournal(conflict)
        }
    }

    /// The end of a decision, for the history of its conflict.
    ///
    /// - Parameter state: `nil` when its row was pruned.
    private static func closing(_ state: MutationState?) -> String {
        guard let state else { return arrived }
        switch state {
        case .cancelled, .discarded, .expired, .superseded: return state.name
        case .pending, .inFlight, .conflicted, .rejected, .failed, .held, .done, .resolved, .coalesced: return arrived
        }
    }

    private static let arrived = "arrived"

    /// Updates the local side of open conflicts: it shows the value that apps see, also after later changes of the same field.
    func refreshLocalSides(of rid: Int64, _ document: String?) throws(StoreError) {
        let open = try database.all(
            "SELECT * FROM conflict WHERE rid = ? AND state < 2", .int(rid)
        ) { row throws(StoreError) in ConflictRow(row) }
        // Nothing of a damaged view is shown. The record is fetched again, and this runs once more then.
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

    /// The newest mutation of the fold that changes each field. The search runs from the newest on and no further than needed: most often
    /// it is the first one.
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

    /// Shows the present state of a conflict to the readers of the journal.
    func addToJournal(_ conflict: ConflictRow) {
        let name = names.entity(conflict.eid)
        let id = (try? MirrorRow.find(database, rid: conflict.rid))?.id ?? "?"  // for people only; a read that fails shows again
        let event: JSONObject = [
            "id": .string(conflict.name), "entity": .string(name.text), "record_id": .string(id),
            "state": .string(conflict.state.name), "fields": JSON.list(conflict.fields),
        ]
        journal.addNote(type: "conflict", json: JSON.object(event).json)
    }
}
