package import SyncCore

/// Reads one mutation as an app sends it: its form, names and ranges, and every rule that needs no look at the store. The rules of the
/// entity are checked later.
///
/// Unknown members are refused, because a typo must not be ignored; inside `data` everything is kept as it was sent.
package enum MutationBody {
    /// - Parameter size: Size as sent, bytes, for limits and quotas.
    /// - Throws: 400 `malformed` or `unknown-member`, 413 `too-large`, 422 `validation`, with pointers below `pointer`.
    package static func read(_ json: JSON, at pointer: String = "", size: Int) throws(Problem) -> NewMutation {
        guard let object = json.object else { throw notAnObject(json, at: pointer) }
        var draft = MutationDraft(pointer: pointer)
        for member in object.members where !draft.read(member) {
            draft.faults.unknown(member.name.text, in: pointer, known: memberNames)
        }
        return try draft.finish(size: size)
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> NewMutation {
        try read(try BodyText.json(bytes), size: bytes.count)
    }

    /// The bytes that the client sends; they read back as the same mutation.
    package static func bytes(_ mutation: NewMutation) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { write(mutation, to: &$0) }
        return writer.bytes
    }

    static func write(_ mutation: NewMutation, to writer: inout JSONWriter) {
        writer.member("entity", mutation.entity.text)
        writer.member("record_id", mutation.recordID?.text)
        writer.member("action", mutation.action.rawValue)
        if !mutation.data.isEmpty || mutation.action == .update { writer.member("data", .object(mutation.data)) }
        if !mutation.unset.isEmpty { writer.member("unset", JSON.list(mutation.unset)) }
        if !mutation.operations.isEmpty {
            writer.elements("ops", mutation.operations) { writer, operation in
                writer.object { writer in
                    writer.member("field", operation.field)
                    writer.member("op", operation.kind.rawValue)
                    writer.member("value", operation.value)
                }
            }
        }
        writer.member("priority", mutation.priority?.name)
        writer.member("expect_version", mutation.expectedVersion)
        writer.member("if_match", mutation.ifMatch?.text)
        if !mutation.dependsOn.isEmpty { writer.member("depends_on", JSON.list(mutation.dependsOn.map(\.text))) }
        if !mutation.coalesces { writer.member("coalesce", false) }
        writer.member("ttl", mutation.ttl?.components.seconds)
        writer.member("author", mutation.author)
        writer.member("durability", mutation.durability?.rawValue)
        writer.member("schema", mutation.schema.map { Int64($0) })
        if !mutation.blobs.isEmpty { writer.member("blobs", .array(mutation.blobs)) }
    }

    static let memberNames = [
        "entity", "record_id", "action", "data", "unset", "ops", "priority", "expect_version", "if_match", "depends_on", "coalesce",
        "ttl", "author", "durability", "blobs", "schema",
    ]

    static func notAnObject(_ json: JSON, at pointer: String) -> Problem {
        var faults = BodyFaults()
        faults.wrong(pointer, "an object", json)
        do throws(Problem) {
            try faults.check()
        } catch {
            return error
        }
        preconditionFailure("a fault was added above")
    }

    /// Longest time to live, seconds: ten years, longer than the life of any queue, and far from an overflow of milliseconds.
    static let ttlMax: Int64 = 315_360_000
    static let dependenciesMax = 50
    static let blobsMax = 64
    static let operationsMax = 256
    static let fieldBytesMax = Limits.nameBytes
    static let authorBytesMax = 256
}
