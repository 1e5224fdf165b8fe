package import SyncCore

/// The effect of undoing a mutation, real or planned.
package struct UndoReport: Hashable, Sendable {
    /// The new mutation; `nil` for a dry run.
    package var made: EnqueueAnswer?
    package var record: RecordName
    /// Fields that are undone; empty: the whole record.
    package var fields: [String]
    package var left: [Undo.Left]

    /// - Parameter enqueued: The new mutation; `nil` for a dry run.
    package static func answer(_ enqueued: Enqueued?, _ undo: Undo, of record: RecordName) -> LocalAnswer {
        LocalAnswer(enqueued == nil ? 200 : 201, headers: enqueued.map { ["Location": "/v1/mutations/" + $0.key.text] } ?? [:]) { writer in
            writer.object { writer in
                writer.member("entity", record.entity.text)
                writer.member("id", record.id.text)
                writer.member("fields", JSON.list(undo.fields))
                writer.member("left", JSON.array(undo.left.map(\.json)))
                writer.name("mutation")
                if let enqueued { EnqueueAnswer.write(enqueued, to: &writer) } else { writer.null() }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let entity = reader.text("entity").flatMap({ EntityName($0) }), let id = reader.text("id").flatMap({ RecordID($0) }) else {
            return nil
        }
        record = RecordName(entity, id)
        fields = reader.texts("fields")
        left = reader.list("left").compactMap { Undo.Left($0) }
        made = reader.object["mutation"].flatMap { EnqueueAnswer($0) }
    }

    package var lines: [String] {
        let what = fields.isEmpty ? "the record \(record)" : "\(fields.joined(separator: ", ")) of \(record)"
        var lines = [made.map { line($0, what) } ?? "It would take back \(what)."]
        lines += left.map { "\($0.field) stays: \($0.sentence)" }
        return lines
    }

    private func line(_ made: EnqueueAnswer, _ what: String) -> String {
        guard MutationState(name: made.state) == .rejected else { return "\(made.id) takes back \(what)." }
        return "\(made.id) was to take back \(what), and is rejected: agentctl rejected show \(made.id) lists the possible decisions."
    }
}

extension Undo.Left {
    init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let field = reader.text("field"), let reason = reader.text("reason").flatMap({ Undo.Reason(rawValue: $0) }) else {
            return nil
        }
        self.init(field: field, reason: reason)
    }

    package var json: JSON { ["field": .string(field), "reason": .string(reason.rawValue)] }

    /// The reason in words for a person, to follow the field's name.
    package var sentence: String {
        switch reason {
        case .changedSince: "it was changed since then."
        case .notKept: "the agent did not keep its earlier value. The setting undo: true of the entity keeps it from now on."
        case .oneWay: "its rule goes one way only, so that what was added stays."
        case .record: "the record was created again, or deleted, since then."
        }
    }
}
