import SyncCore
import SyncSQLite

/// Handles an app's own idempotency key: the same request twice counts once, also when the first answer was lost.
extension Store {
    static let appKeysKeptFor: Duration = .seconds(30 * 86_400)

    /// - Returns: `nil` when the key is new.
    /// - Throws: `.refused` with `idempotency-mismatch` when it came with another body.
    func firstAnswer(to key: AppKey, of requester: Requester) throws(StoreError) -> [Enqueued]? {
        guard let aid = names.apps[requester.app] else { return nil }
        let stored = try database.first(
            "SELECT fingerprint, answer FROM app_key WHERE aid = ? AND key = ? AND age >= ?", .int(aid), .text(key.key),
            .int(age - Self.appKeysKeptFor.milliseconds)
        ) { row throws(StoreError) in (row.blob(0), row.text(1)) }
        guard let stored else { return nil }
        guard stored.0 == key.fingerprint else { throw StoreProblem.idempotencyMismatch(key.key) }
        var answers: [Enqueued] = []
        for item in StoredJSON.read(stored.1)?.array ?? [] {
            if let answer = try repeated(item) { answers.append(answer) }
        }
        return answers
    }

    func keep(_ answers: [Enqueued], for key: AppKey, of requester: Requester) throws(StoreError) {
        let aid = try names.app(requester.app, in: database)
        let items = answers.map { answer -> JSON in
            var item: JSONObject = [
                "seq": .int(answer.seq), "key": .string(answer.key.text), "entity": .string(answer.recordName.entity.text),
                "id": .string(answer.recordName.id.text), "durability": .string(answer.durability.rawValue),
            ]
            if !answer.kept.isEmpty { item["kept"] = .object(answer.kept) }
            return .object(item)
        }
        // A row that still exists under this key is older than 30 days.
        try database.run(
            """
            INSERT INTO app_key (aid, key, age, fingerprint, answer) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET age = excluded.age, fingerprint = excluded.fingerprint, answer = excluded.answer
            """, .int(aid), .text(key.key), .int(age), .blob(key.fingerprint), .text(JSON.array(items).json))
    }

    /// The first answer, with the mutation's present state.
    private func repeated(_ item: JSON) throws(StoreError) -> Enqueued? {
        guard let object = item.object, let seq = object["seq"]?.int, let key = object["key"]?.text,
            let entity = object["entity"]?.text, let id = object["id"]?.text
        else { return nil }
        let name = RecordName(EntityName(trusted: entity), RecordID(trusted: id))
        // A missing narrow row at the end belongs to a new event. One that is missing earlier was settled and pruned, and only `done` is
        // pruned while an app key may still refer to it.
        let row = try outboxRow(seq)
        var state = row?.state ?? (seq > ledger[.absorbedSeq] ? .pending : .done)
        var into: MutationKey?
        if let older = row?.into, state == .coalesced || state == .cancelled {
            into = try self.key(ofSeq: older).map { MutationKey(trusted: $0) }
            // A mutation that was merged into an older one has the state of that one.
            if state == .coalesced { state = try outboxRow(older)?.state ?? .done }
        }
        let isEvent = rules[name.entity]?.kind == .event
        var answer = Enqueued(
            key: MutationKey(trusted: key), seq: seq, state: state, record: isEvent ? nil : try reads.record(name),
            recordName: name, isRepeat: true,
            durability: object["durability"]?.text.flatMap { EntityRules.Durability(rawValue: $0) } ?? .flash)
        answer.kept = object["kept"]?.object ?? [:]
        answer.into = into
        return answer
    }
}
