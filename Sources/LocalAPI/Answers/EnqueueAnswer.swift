package import SyncCore

/// The answer to an enqueue. It leaves only when its durability is reached, and says so when that is less than flash.
package struct EnqueueAnswer: Hashable, Sendable {
    package var id: MutationKey
    package var seq: Int64
    package var state: String
    package var record: RecordName?
    /// `relaxed`: on flash within a second. `nil`: on flash already.
    package var durability: EntityRules.Durability?
    /// Violations of the schema of an entity with `validate: warn`; the mutation was accepted all the same.
    package var warnings: [Problem.Pointer]
    /// Why no form judged the change, although its record names one: the hub judges it.
    package var form: FormVerdict.Unjudged?
    /// Values that stay because the mutation's `max` or `min` does not beat them, by the name that the mutation uses.
    package var kept: JSONObject

    /// Answer with 201 and `Location`, or 200 for a repeated key.
    package static func answer(_ enqueued: Enqueued) -> LocalAnswer {
        LocalAnswer(enqueued.isRepeat ? 200 : 201, headers: location(enqueued.key)) { write(enqueued, to: &$0) }
    }

    /// Answer for `?wait=acked`: 201 when `state` is final, otherwise 202 because the time ran out first. `enqueued.state` is the present
    /// state of the mutation.
    package static func waited(_ enqueued: Enqueued) -> LocalAnswer {
        let isFinal = enqueued.state.isTerminal || MutationListQuery.needingAttention.contains(enqueued.state)
        return LocalAnswer(isFinal ? 201 : 202, headers: location(enqueued.key)) { write(enqueued, to: &$0) }
    }

    /// Answer for an atomic list: 201 `{"results":[…]}`, or 200 for a repeat.
    package static func answer(atomic list: [Enqueued]) -> LocalAnswer {
        LocalAnswer(list.allSatisfy(\.isRepeat) ? 200 : 201) { writer in
            writer.object { writer in writer.elements("results", list) { write($1, to: &$0) } }
        }
    }

    package static func write(_ enqueued: Enqueued, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", enqueued.key.text)
            writer.member("seq", enqueued.seq)
            writer.member("state", enqueued.state.name)
            writer.member("into", enqueued.into?.text)
            if enqueued.durability == .relaxed { writer.member("durability", enqueued.durability.rawValue) }
            if !enqueued.warnings.isEmpty {
                writer.elements("warnings", enqueued.warnings) { writer, warning in
                    writer.object { writer in
                        writer.member("pointer", warning.pointer)
                        writer.member("detail", warning.detail)
                    }
                }
            }
            writer.member("form", enqueued.form?.rawValue)
            if !enqueued.kept.isEmpty { writer.member("kept", JSON.object(enqueued.kept)) }
            writer.members("record") { writer in
                writer.member("entity", enqueued.recordName.entity.text)
                writer.member("id", enqueued.recordName.id.text)
                guard let record = enqueued.record else { return }
                writer.member("sync_status", record.status.name)
                writer.member("version", record.version)
                writer.member("etag", record.etag)
                writer.stored("data", record.view)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let id = reader.text("id").flatMap({ MutationKey($0) }) else { return nil }
        self.id = id
        seq = reader.int("seq") ?? 0
        state = reader.text("state") ?? "unknown"
        let name = reader.inside("record")
        if let entity = name.text("entity").flatMap({ EntityName($0) }),
            let id = name.text("id").flatMap({ RecordID($0) })
        {
            record = RecordName(entity, id)
        }
        warnings = reader.pointers("warnings")
        form = reader.text("form").flatMap { FormVerdict.Unjudged(rawValue: $0) }
        kept = reader.object["kept"]?.object ?? [:]
        durability = reader.text("durability").flatMap { EntityRules.Durability(rawValue: $0) }
    }

    private static func location(_ key: MutationKey) -> HTTPHeaders {
        // An identifier has no character that must be escaped in a path.
        ["Location": "/v1/mutations/" + key.text]
    }
}

/// One line of the answer to a bulk enqueue, in the order of the sent lines.
package enum BulkAnswer: Hashable, Sendable {
    /// `line` counts from 1; it is in the answer when the line had no `ref`. `kept` is as in ``EnqueueAnswer``.
    case accepted(line: Int64, ref: JSON?, id: MutationKey, state: String, isRepeat: Bool, kept: JSONObject = [:])
    case refused(line: Int64, ref: JSON?, Problem)
    /// The last line of a whole answer. Without it the stream was cut, and a line without an answer may be stored or not.
    case summary(accepted: Int64, failed: Int64)

    /// Writes the line with its line feed.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            switch self {
            case .accepted(let line, let ref, let id, let state, let isRepeat, let kept):
                if let ref { writer.member("ref", ref) } else { writer.member("line", line) }
                writer.member("id", id.text)
                writer.member("state", state)
                if isRepeat { writer.member("repeat", true) }
                if !kept.isEmpty { writer.member("kept", JSON.object(kept)) }
            case .refused(let line, let ref, let problem):
                if let ref { writer.member("ref", ref) } else { writer.member("line", line) }
                writer.member("error", problem.json(prefix: Problem.localPrefix))
            case .summary(let accepted, let failed):
                writer.members("summary") { writer in
                    writer.member("accepted", accepted)
                    writer.member("failed", failed)
                }
            }
        }
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter(capacity: 96)
        write(to: &writer)
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    /// - Parameter position: The position of this answer in the stream, from 1; used when the line number is missing.
    package init?(_ json: JSON, position: Int64) {
        let reader = AnswerReader(json)
        let line = reader.int("line") ?? position
        let ref = reader.object["ref"]
        if reader.has("summary") {
            let summary = reader.inside("summary")
            guard let accepted = summary.int("accepted"), let failed = summary.int("failed") else { return nil }
            self = .summary(accepted: accepted, failed: failed)
        } else if let error = reader.object["error"] {
            self = .refused(line: line, ref: ref, Problem(error))
        } else if let id = reader.text("id").flatMap({ MutationKey($0) }) {
            self = .accepted(
                line: line, ref: ref, id: id, state: reader.text("state") ?? "unknown",
                isRepeat: reader.bool("repeat") ?? false, kept: reader.object["kept"]?.object ?? [:])
        } else {
            return nil
        }
    }
}
