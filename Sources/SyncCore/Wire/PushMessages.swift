/// `POST /v1/sync/push`, both directions (PROTOCOL A4). The same code writes and reads it on both sides.
package enum PushMessages {
    /// The body of a push. The payload parts are inserted as the store holds them.
    package static func request(_ batch: Batch, config: Int64?) -> [UInt8] {
        var writer = JSONWriter(capacity: 256 + batch.mutations.reduce(0) { $0 + 320 + ($1.data?.utf8.count ?? 0) })
        writer.object { writer in
            writer.member("acked_seq", batch.ackedSeq)
            writer.member("max_sent_seq", batch.maxSentSeq)
            writer.member("config", config)
            writer.name("mutations")
            writer.array { writer in
                for mutation in batch.mutations { write(mutation, to: &writer) }
            }
        }
        return writer.bytes
    }

    private static func write(_ mutation: OutgoingMutation, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("seq", mutation.seq)
            writer.member("idempotency_key", mutation.key.text)
            writer.member("entity", mutation.record.entity.text)
            writer.member("record_id", mutation.record.id.text)
            writer.member("action", mutation.action.rawValue)
            writer.raw("data", mutation.data)
            writer.raw("unset", mutation.unset)
            writer.raw("ops", mutation.operations)
            writer.raw("base", mutation.base)
            writer.member("first_digest", mutation.firstDigest)
            writer.member("base_version", mutation.baseVersion)
            writer.member("hlc", mutation.hlc)
            writer.raw("field_hlc", mutation.fieldHLC)
            writer.member("client_updated_at", mutation.clientUpdatedAt.description)
            writer.member("author", mutation.author)
            writer.raw("depends_on", mutation.dependsOn)
            if !mutation.supersedes.isEmpty { writer.member("supersedes", JSON.list(mutation.supersedes.map(\.text))) }
            writer.member("group", mutation.group?.text)
            writer.member("priority", mutation.priority == .normal ? nil : mutation.priority.name)
            writer.member("clock", mutation.clock == .synced ? nil : mutation.clock.rawValue)
        }
    }

    /// The answer to a push. `results` has the length and order of the request's mutations.
    package static func response(head: Int64, results: [PushResult]) -> [UInt8] {
        var writer = JSONWriter(capacity: 64 + results.count * 160)
        writer.object { writer in
            writer.member("head", head)
            writer.name("results")
            writer.array { writer in
                for result in results { result.write(to: &writer) }
            }
        }
        return writer.bytes
    }

    /// Reads an answer strictly: any invalid part refuses the whole answer, and nothing is applied.
    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> PushResponse {
        let object = try ReplyReader.object(body)
        guard let head = object["head"]?.int, head >= 0 else { throw ReplyError("/head", "a whole number of at least 0") }
        guard let results = object["results"]?.array else { throw ReplyError("/results", "an array") }
        var parsed: [PushResult] = []
        var seen: Set<MutationKey> = []
        for (index, json) in results.enumerated() {
            let result = try PushResult.read(json, at: "/results/\(index)")
            guard seen.insert(result.key).inserted else {
                throw ReplyError("/results/\(index)/idempotency_key", "each key once")
            }
            parsed.append(result)
        }
        return PushResponse(head: head, results: parsed)
    }
}

extension JSONWriter {
    /// A member whose value is JSON text already.
    package mutating func raw(_ name: StaticString, _ json: String?) {
        guard let json else { return }
        self.name(name)
        raw(json)
    }
}

package struct PushResponse: Hashable, Sendable {
    /// The hub's newest commit number.
    package var head: Int64
    package var results: [PushResult]

    package init(head: Int64, results: [PushResult]) {
        self.head = head
        self.results = results
    }
}

/// The hub's verdict on one mutation.
package struct PushResult: Hashable, Sendable {
    package var key: MutationKey
    package var verdict: Verdict
    package var notes: Notes

    package init(key: MutationKey, verdict: Verdict, notes: Notes = Notes()) {
        self.key = key
        self.verdict = verdict
        self.notes = notes
    }

    /// The hub's additions to a verdict.
    package struct Notes: Hashable, Sendable {
        /// The stamp was too far ahead of the hub's clock and was replaced by the hub's own time.
        package var isClockClamped = false
        /// With an `accepted`, by name as in the change: the values that `max` or `min` has kept, because the change does not exceed them.
        package var kept: JSONObject = [:]
        /// With a `duplicate`: the reason of the first rejection, as long as the hub remembers it.
        package var problem: Problem?
        /// The versions of the hub's schemas, where the record is shown in an older one. Not in the body.
        package var newerSchemas: SchemaNumbers?
        /// With an `accepted`: the record has left the share of the device with this change, and the device does not know its document.
        package var hasLeft = false
        /// With a `duplicate`: the fields of the first answer, which was a conflict.
        package var fields: [String] = []
    }

    package enum Verdict: Hashable, Sendable {
        /// Applied and committed. `record` is set when the agent cannot compute the result alone.
        case accepted(version: Int64, serverID: String?, record: HubRecord?, merged: [String])
        /// The key was known: nothing was applied. Only `current` may be installed, never the data of the original answer.
        case duplicate(original: Original, current: HubState)
        /// Nothing was applied: a person must decide these fields (`$delete` stands for the deletion itself).
        case conflict(fields: [String], current: HubState)
        /// Nothing was applied, and never will be.
        case rejected(Problem, current: HubState?)
        /// Nothing was applied; a retry may succeed. Any unknown status word counts as this.
        case retry(Problem?, after: Duration?)
    }

    package enum Original: String, Hashable, Sendable { case accepted, rejected, conflict }

    /// The verdict has a document of the hub.
    package var showsRecord: Bool {
        switch verdict {
        case .accepted(_, _, let record, _): record != nil
        case .duplicate(_, .record), .conflict(_, .record), .rejected(_, .record?): true
        case .duplicate, .conflict, .rejected, .retry: false
        }
    }
}

/// A record as the hub sends it: always the complete document.
package struct HubRecord: Hashable, Sendable {
    /// Rises with each change of the record. It compares only with another version of the same record, not with a head.
    package var version: Int64
    package var data: JSONObject
    package var hlc: String?
    /// Stamps of the fields that differ from `hlc`.
    package var fieldHLC: JSONObject?
    /// The authors of the fields that people decide about, where they differ from the last author of the record; in a conflict, the authors
    /// of all its fields: `{"finding":{"device":"gw-3","author":"tom"}}`.
    package var fieldOrigins: JSONObject?

    package init(
        version: Int64, data: JSONObject, hlc: String? = nil, fieldHLC: JSONObject? = nil, fieldOrigins: JSONObject? = nil
    ) {
        self.fieldOrigins = fieldOrigins
        self.version = version
        self.data = data
        self.hlc = hlc
        self.fieldHLC = fieldHLC
    }
}

package enum HubState: Hashable, Sendable {
    case record(HubRecord)
    case deleted(version: Int64)
    case absent
}

/// An invalid answer of the hub. None of it is used.
package struct ReplyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// JSON pointer into the answer (RFC 6901).
    package var pointer: String
    package var expected: String

    package init(_ pointer: String, _ expected: String) {
        self.pointer = pointer
        self.expected = expected
    }

    package var description: String { "\(pointer.isEmpty ? "body" : pointer): expected \(expected)" }
}
