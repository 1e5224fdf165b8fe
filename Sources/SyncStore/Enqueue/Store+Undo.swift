package import SyncCore
import SyncSQLite

/// The result of undoing a mutation.
package struct Undone: Sendable {
    /// The new mutation; `nil` for a trial.
    package var made: Enqueued?
    package var undo: Undo
    package var record: RecordName
}

// Undoes changes that the hub has accepted. A new change of the present record does the opposite (``SyncCore/Undo``). Former values of
// fields are kept for entities that ask for it.

extension Store {
    /// Stores the values that a mutation replaces, where its entity asks for that.
    ///
    /// - Parameter seq: Number of the mutation that goes to the hub.
    func keepEarlier(_ intent: EnqueueIntent, for seq: Int64, before document: String?) throws(StoreError) {
        guard intent.rules.keepsEarlierValues, !intent.isEvent, let content = intent.payload.content(under: intent.rules) else { return }
        // A document that cannot be read now was not seen by its author either.
        guard let before = StoredJSON.Document(document).known else { return }
        var values = EarlierValues(of: content, before: before)
        if var older = try earlierValues(of: seq) {
            older.join(content, before: before)
            values = older
        }
        try keep(values, for: seq)
    }

    /// Stores the document of a record that the hub has deleted while a mutation of it is under way. The hub decides about the mutation and
    /// may ask people, and a decision to keep the mutation brings the whole record back.
    func keepDeleted(_ document: JSONObject, for seq: Int64, _ content: MutationContent) throws(StoreError) {
        var values = try earlierValues(of: seq) ?? EarlierValues(of: content, before: nil)
        values.join(deleted: document)
        try keep(values, for: seq)
    }

    /// The document that ``keepDeleted(_:for:_:)`` has stored.
    func keptDeleted(for seq: Int64) throws(StoreError) -> JSONObject? {
        try earlierValues(of: seq)?.document
    }

    /// Forgets that document where no person will be asked any more, or the mutation itself carries it. A listing does not always tell a
    /// deleted record from one that has left the share, and the document of that one must not stay beside a refused change.
    func forgetDeleted(for seq: Int64) throws(StoreError) {
        guard var values = try earlierValues(of: seq), values.document != nil, try action(of: seq) != .delete else { return }
        values.forgetDocument()
        try keep(values, for: seq)
    }

    private func keep(_ values: EarlierValues, for seq: Int64) throws(StoreError) {
        try database.run(
            "INSERT INTO undo_value (seq, before) VALUES (?, ?) ON CONFLICT DO UPDATE SET before = excluded.before", .int(seq),
            .text(values.json.json))
    }

    private func earlierValues(of seq: Int64) throws(StoreError) -> EarlierValues? {
        let text = try database.first("SELECT before FROM undo_value WHERE seq = ?", .int(seq)) { row in row.optionalText(0) } ?? nil
        // Unreadable values count as none, and the answer says that none were kept.
        return text.flatMap { StoredJSON.read($0) }.flatMap { EarlierValues($0) }
    }

    /// Makes a mutation that undoes another one, as far as its effect is still there.
    ///
    /// - Parameter isTrial: Only computes the result; nothing is written.
    /// - Throws: `.refused` with `not-found`, `not-accepted`, `already-undone`, `nothing-to-undo`, or what an enqueue would refuse.
    package func undo(_ key: MutationKey, isTrial: Bool = false, by requester: Requester, at now: Moment) throws(StoreError) -> Undone {
        try convertBeforeChange(at: now)
        return try transact(at: now) { () throws(StoreError) in
            // A new event has no narrow row until it is absorbed.
            try prepareForChange()
            let row = try known(key)
            guard row.state == .done else {
                let isSent = try sentMember(with: row) != nil
                throw StoreProblem.notAccepted(key, row.state, isSent: isSent, carriedBy: try carrier(of: row))
            }
            guard let rid = row.rid else {
                throw StoreProblem.nothingToUndo(key, "is an event, and events are never taken back", [])
            }
            if let other = try undoing(row.seq) { throw StoreProblem.alreadyUndone(key, by: other.key, other.row) }
            let entity = names.entity(row.eid)
            let rules = rules[entity] ?? EntityRules()
            guard let payload = try payload(row.seq), let done = payload.content(under: rules) else {
                throw StoreProblem.nothingToUndo(key, "is no longer kept here", [])
            }
            let id = try recordID(of: row)
            let record = try MirrorRow.find(database, rid: rid)
            if record?.isNotKept == true { throw StoreProblem.notKept(RecordName(entity, id)) }
            let seen = record?.parsedDocument ?? .none
            guard seen.isReadable else { throw StoreProblem.damaged(RecordName(entity, id)) }
            let undo = Undo(done, earlier: try earlierValues(of: row.seq), now: seen.known, rules: rules)
            guard let content = undo.content else {
                throw StoreProblem.nothingToUndo(key, "did nothing that could be taken back", undo.left)
            }
            if isTrial { return Undone(made: nil, undo: undo, record: RecordName(entity, id)) }
            let action: NewMutation.Action =
                switch content.action {
                case .create: .create
                case .update: .update
                case .delete: .delete
                }
            var mutation = NewMutation(
                action, entity, id, data: content.data, unset: content.unset, operations: content.operations, coalesces: false)
            // It is made of documents in the present version, whatever the apps of this device write.
            mutation.schema = rules.version
            let made = try accept(mutation, by: requester)
            try database.run(
                "INSERT INTO undo_value (seq, undone_seq) VALUES (?, ?) ON CONFLICT DO UPDATE SET undone_seq = excluded.undone_seq",
                .int(row.seq), .int(made.seq))
            try audit("undo", key.text, uid: requester.uid, ["into": .string(made.key.text)])
            return Undone(made: made, undo: undo, record: RecordName(entity, id))
        }
    }

    /// The mutation that carries to the hub what this one asked for, because that was merged into it or retried with it.
    private func carrier(of row: OutboxRow) throws(StoreError) -> StoreProblem.Carrier? {
        var last = row
        var name: String?
        while let seq = last.replacement, let next = try outboxRow(seq), let key = try key(ofSeq: seq) { (last, name) = (next, key) }
        guard let name else { return nil }
        return StoreProblem.Carrier(key: name, state: last.state, isSent: try sentMember(with: last) != nil)
    }

    /// The mutation that undoes this one; `nil` if there is none, or it never took effect.
    private func undoing(_ seq: Int64) throws(StoreError) -> (key: String, row: OutboxRow)? {
        let found = try database.number("SELECT undone_seq FROM undo_value WHERE seq = ? AND undone_seq IS NOT NULL", .int(seq))
        guard let other = found, let row = try outboxRow(other) else { return nil }
        // It never took effect.
        switch row.state {
        case .rejected, .cancelled, .discarded, .expired, .resolved: return nil
        case .pending, .inFlight, .conflicted, .failed, .held, .done, .coalesced, .superseded:
            return try key(ofSeq: other).map { ($0, row) }
        }
    }
}

extension StoreProblem {
    /// A mutation that carries to the hub what another one asked for.
    struct Carrier {
        var key: String
        var state: MutationState
        /// The hub may have it, or a part of its atomic list.
        var isSent: Bool
    }

    /// - Parameter isSent: See ``Carrier/isSent``.
    static func notAccepted(_ key: MutationKey, _ state: MutationState, isSent: Bool, carriedBy other: Carrier?) -> StoreError {
        var members: JSONObject = ["state": .string(state.name)]
        let detail: String
        if let other {
            members["into"] = .string(other.key)
            let (past, what) =
                state == .coalesced ? ("went into \(other.key) before it was sent", "both") : ("was replaced by \(other.key)", "it")
            detail = "the mutation \(key) \(past)" + takingBack(other, what)
        } else if state == .pending, !isSent {
            detail =
                "the hub does not have the mutation \(key) yet: to take it back before it is sent, "
                + "run agentctl mutations cancel \(key)"
        } else if state == .pending || state == .inFlight {
            detail = "the mutation \(key) is on its way" + takingBack(Carrier(key: key.text, state: state, isSent: true), "it")
        } else {
            detail = "the mutation \(key) is \(state.name), so it changed nothing at the hub that could be taken back"
        }
        return .refused(Problem("not-accepted", status: 409, detail: detail, members: members))
    }

    /// The rest of a sentence about a mutation: how to take it back in its present state.
    private static func takingBack(_ carrier: Carrier, _ what: String) -> String {
        let key = carrier.key
        return switch carrier.state {
        case .done: ": agentctl undo \(key) takes \(what) back"
        case .pending where !carrier.isSent: ", which the hub does not have yet: agentctl mutations cancel \(key) takes \(what) back"
        case .pending, .inFlight: ", and the hub has not accepted it yet: agentctl undo \(key) takes \(what) back when it has"
        case .conflicted, .rejected, .failed, .held, .resolved, .discarded, .coalesced, .cancelled, .superseded, .expired:
            ", which is \(carrier.state.name), so it changed nothing at the hub that could be taken back"
        }
    }

    /// - Parameter row: The mutation that takes this one back.
    static func alreadyUndone(_ key: MutationKey, by other: String, _ row: OutboxRow) -> StoreError {
        .refused(
            Problem(
                "already-undone", status: 409, detail: "the mutation \(other) takes back the mutation \(key) already",
                members: ["by": .string(other), "state": .string(row.state.name)]))
    }

    static func nothingToUndo(_ key: MutationKey, _ why: String, _ left: [Undo.Left]) -> StoreError {
        .refused(
            Problem(
                "nothing-to-undo", status: 409, detail: "the mutation \(key) \(why)",
                members: ["left": .array(left.map { ["field": .string($0.field), "reason": .string($0.reason.rawValue)] })]))
    }
}
