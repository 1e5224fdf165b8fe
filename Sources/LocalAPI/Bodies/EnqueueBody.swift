package import SyncCore

/// The body of `POST /v1/mutations`: one mutation, or a list that is accepted as a whole or not at all.
package enum EnqueueBody: Hashable, Sendable {
    case one(NewMutation)
    /// A list of 1 to ``SyncCore/Limits/atomicMutations``.
    case atomic([NewMutation])

    package static func read(_ bytes: [UInt8]) throws(Problem) -> EnqueueBody {
        let json = try BodyText.json(bytes)
        guard let object = json.object else { throw MutationBody.notAnObject(json, at: "") }
        guard object["mutations"] != nil || object["atomic"] != nil else {
            return .one(try MutationBody.read(json, size: bytes.count))
        }
        var reader = BodyReader(object)
        let isAtomic = reader.bool("atomic")
        let list = reader.value("mutations")
        if isAtomic != true {
            reader.faults.refused("/atomic", "must be true: send independent mutations to /v1/mutations/bulk")
        }
        if list?.array == nil { reader.faults.wrong("/mutations", "an array of mutations", list) }
        let elements = list?.array ?? []
        if list?.array != nil, !(1...Limits.atomicMutations).contains(elements.count) {
            reader.faults.refused("/mutations", "must have 1 to \(Limits.atomicMutations) elements")
        }
        try reader.finish()
        var mutations: [NewMutation] = []
        for (index, element) in elements.enumerated() {
            mutations.append(try MutationBody.read(element, at: "/mutations/\(index)", size: element.bytes.count))
        }
        return .atomic(mutations)
    }

    /// The app's key for this request, from the header `Idempotency-Key`.
    ///
    /// - Throws: 400 `malformed` for a key that is empty, longer than 255 bytes, or not visible ASCII.
    ///
    /// - Parameter condition: The header `If-Match`; with another value it is another request.
    package static func appKey(header: String?, body: [UInt8], condition: String? = nil) throws(Problem) -> AppKey? {
        guard let header else { return nil }
        guard isKey(header) else {
            throw LocalProblem.malformed.problem("the Idempotency-Key must be 1 to 255 characters of visible ASCII")
        }
        let condition = condition.map { Array("\nIf-Match: \($0)".utf8) } ?? []
        return AppKey(key: header, fingerprint: fingerprint(body + condition))
    }

    /// Adds the condition of the header `If-Match` to the one mutation of a body; it has the meaning of the member `if_match`.
    ///
    /// - Throws: 400 `malformed` for a field without an etag, for a list, or together with the member.
    package func matching(header: String?) throws(Problem) -> EnqueueBody {
        guard let header else { return self }
        guard let tags = EntityTags(header) else { throw LocalProblem.malformed.problem("If-Match " + EntityTags.rule) }
        guard case .one(var mutation) = self else {
            throw LocalProblem.malformed.problem("If-Match is for one mutation: in a list each member has its own if_match")
        }
        guard mutation.ifMatch == nil else {
            throw LocalProblem.malformed.problem("the condition came twice, as If-Match and as if_match: send one of them")
        }
        guard mutation.action != .create else {
            throw LocalProblem.malformed.problem("If-Match is not possible with a create: there is no record to match yet")
        }
        mutation.ifMatch = tags
        return .one(mutation)
    }

    static func isKey(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    static func fingerprint(_ bytes: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(bytes).prefix(16))
    }
}

/// One line of `POST /v1/mutations/bulk`: a mutation with up to two further members.
///
/// An empty line is ignored and gets no answer. A client sends one as a keep-alive while it has no data.
package struct BulkLine: Hashable, Sendable {
    /// The sender's own name for the line, returned in its answer; a string or a number, at most 256 bytes.
    package var ref: JSON?
    /// The app's key for this line, with the meaning of the header `Idempotency-Key` for a single mutation: an interrupted import can be
    /// sent again from its start, and no line is accepted twice.
    package var appKey: AppKey?
    /// The mutation, or the fault of the line. A fault does not end the stream; it is the answer to this line.
    package var mutation: Result<NewMutation, Problem>

    /// - Parameter bytes: The line without its line feed.
    package static func read(_ bytes: [UInt8]) -> BulkLine {
        guard bytes.count <= Limits.lineBytes else { return BulkLine(mutation: .failure(tooLong)) }
        do throws(Problem) {
            let json = try BodyText.json(bytes)
            guard let object = json.object else { throw MutationBody.notAnObject(json, at: "") }
            return read(object, bytes)
        } catch {
            return BulkLine(mutation: .failure(error))
        }
    }

    /// The line as the client sends it, with its line feed.
    package static func bytes(_ mutation: NewMutation, ref: JSON? = nil, key: String? = nil) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("ref", ref)
            writer.member("idempotency_key", key)
            MutationBody.write(mutation, to: &writer)
        }
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    /// The answer to a line that was cut off because it passed ``SyncCore/Limits/lineBytes``.
    package static var tooLong: Problem {
        LocalProblem.tooLarge.problem("the line is longer than \(Limits.lineBytes) bytes")
    }

    private static func read(_ object: JSONObject, _ bytes: [UInt8]) -> BulkLine {
        var draft = MutationDraft(pointer: "")
        var line = BulkLine(mutation: .failure(tooLong))
        for member in object.members where !draft.read(member) {
            switch member.name.text {
            case "ref":
                line.ref = ref(member.value)
                if line.ref == nil {
                    draft.faults.malformed("/ref", "must be a string or a number of at most 256 bytes")
                }
            case "idempotency_key":
                if let key = member.value.text, EnqueueBody.isKey(key) {
                    line.appKey = AppKey(key: key, fingerprint: EnqueueBody.fingerprint(bytes))
                } else {
                    draft.faults.malformed("/idempotency_key", "must be 1 to 255 characters of visible ASCII")
                }
            default:
                draft.faults.unknown(
                    member.name.text, in: "", known: MutationBody.memberNames + ["ref", "idempotency_key"])
            }
        }
        do throws(Problem) {
            line.mutation = .success(try draft.finish(size: bytes.count))
        } catch {
            line.mutation = .failure(error)
        }
        return line
    }

    private static func ref(_ value: JSON) -> JSON? {
        switch value {
        case .string(let text): text.source.utf8.count <= 256 ? value : nil
        case .number(let number): number.source.utf8.count <= 256 ? value : nil
        default: nil
        }
    }
}

extension BulkLine {
    /// Makes a line that cannot even be read.
    package init(refusing problem: Problem) {
        self.init(mutation: .failure(problem))
    }
}
