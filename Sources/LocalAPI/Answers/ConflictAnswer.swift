package import SyncCore

/// A conflict in lists and in `GET /v1/conflicts/{id}`: base, local and remote value of each field, with author and time.
package struct ConflictItem: Hashable, Sendable {
    package struct Side: Hashable, Sendable {
        /// `nil`: this side does not have the field.
        package var value: JSON?
        package var isDeleted = false
        package var author: String?
        package var device: String?
        package var at: Timestamp?
        package var version: Int64?

        package init(
            _ value: JSON?, isDeleted: Bool = false, author: String? = nil, device: String? = nil, at: Timestamp? = nil,
            version: Int64? = nil
        ) {
            self.value = value
            self.isDeleted = isDeleted
            self.author = author
            self.device = device
            self.at = at
            self.version = version
        }

        init(_ reader: AnswerReader) {
            self.init(
                reader.object["value"], isDeleted: reader.bool("deleted") ?? false, author: reader.text("author"),
                device: reader.text("device"), at: reader.time("at"), version: reader.int("version"))
        }

        func write(to writer: inout JSONWriter) {
            writer.object { writer in
                if let value { writer.member("value", value) }
                if isDeleted { writer.member("deleted", true) }
                writer.member("author", author)
                writer.member("device", device)
                writer.member("at", at?.description)
                writer.member("version", version)
            }
        }
    }

    package struct Field: Hashable, Sendable {
        package var name: String
        package var base: JSON?
        package var local: Side
        package var remote: Side

        package init(_ name: String, base: JSON?, local: Side, remote: Side) {
            self.name = name
            self.base = base
            self.local = local
            self.remote = remote
        }
    }

    package var id: ConflictID
    package var record: RecordName
    package var mutation: String?
    package var kind: String
    package var state: String
    package var openedAt: Timestamp?
    /// Value to send as `expect_remote_version`.
    package var remoteVersion: Int64
    package var fields: [Field]
    /// The mutation that carries the decision.
    package var into: String?
    /// Events of the conflict, oldest first; only for a single conflict, not in lists.
    package var history: [JSON]?

    package init(
        id: ConflictID, record: RecordName, mutation: String?, kind: String, state: String, openedAt: Timestamp?,
        remoteVersion: Int64, fields: [Field], into: String? = nil, history: [JSON]? = nil
    ) {
        self.id = id
        self.record = record
        self.mutation = mutation
        self.kind = kind
        self.state = state
        self.openedAt = openedAt
        self.remoteVersion = remoteVersion
        self.fields = fields
        self.into = into
        self.history = history
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let id = reader.text("id").flatMap({ ConflictID($0) }),
            let entity = reader.text("entity").flatMap({ EntityName($0) }),
            let recordID = reader.text("record_id").flatMap({ RecordID($0) })
        else { return nil }
        self.init(
            id: id, record: RecordName(entity, recordID), mutation: reader.text("mutation"),
            kind: reader.text("kind") ?? "field", state: reader.text("state") ?? "unknown", openedAt: reader.time("opened_at"),
            remoteVersion: reader.int("remote_version") ?? 0,
            fields: reader.list("fields").map { json in
                let field = AnswerReader(json)
                return Field(
                    field.text("field") ?? "?", base: field.object["base"], local: Side(field.inside("local")),
                    remote: Side(field.inside("remote")))
            }, into: reader.text("into"), history: reader.has("history") ? reader.list("history") : nil)
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", id.description)
            writer.member("entity", record.entity.text)
            writer.member("record_id", record.id.text)
            writer.member("mutation", mutation)
            writer.member("kind", kind)
            writer.member("state", state)
            writer.time("opened_at", openedAt)
            writer.member("remote_version", remoteVersion)
            writer.elements("fields", fields) { writer, field in
                writer.object { writer in
                    writer.member("field", field.name)
                    if let base = field.base { writer.member("base", base) }
                    writer.name("local")
                    field.local.write(to: &writer)
                    writer.name("remote")
                    field.remote.write(to: &writer)
                }
            }
            writer.member("into", into)
            if let history { writer.member("history", JSON.array(history)) }
        }
    }

    package var answer: LocalAnswer { LocalAnswer(200) { write(to: &$0) } }

    package static func list(_ items: [ConflictItem], next: ConflictID?) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", items) { writer, item in item.write(to: &writer) }
                writer.name("next")
                if let next { writer.string("\(next.number)") } else { writer.null() }
            }
        }
    }
}

package struct ConflictListPage: Hashable, Sendable {
    package var items: [ConflictItem]
    package var next: String?

    package init?(_ json: JSON) {
        guard let list = json.object?["items"]?.array else { return nil }
        items = list.compactMap { ConflictItem($0) }
        next = json.object?["next"]?.text
    }
}

/// The answer to `POST /v1/conflicts/{id}/resolve`.
package struct ResolveAnswer: Hashable, Sendable {
    package var state: String
    /// The mutation that carries the decision to the hub; `nil` when the hub has it already.
    package var mutation: String?
    /// Fate of the atomic list of the disputed change; `nil` when it is in none.
    package var list: List?

    package struct List: Hashable, Sendable {
        /// Number of changes that continue in one commit; `wait` and `letGo` count those that wait and those that were given up.
        package var goOn: Int
        package var wait: Int
        package var letGo: Int
        /// Conflicts of the list that are still to be decided.
        package var waitsFor: [String]

        package init(goOn: Int, wait: Int, letGo: Int, waitsFor: [String]) {
            self.goOn = goOn
            self.wait = wait
            self.letGo = letGo
            self.waitsFor = waitsFor
        }

        init?(_ json: JSON?) {
            guard let object = json?.object else { return nil }
            func count(_ name: String) -> Int { Int(clamping: object[name]?.int ?? 0) }
            self.init(
                goOn: count("go_on"), wait: count("wait"), letGo: count("let_go"),
                waitsFor: (object["waits_for"]?.array ?? []).compactMap(\.text))
        }

        /// A text for people, such as `its atomic list: 2 changes go on together, 1 change was let go`.
        package var sentence: String {
            var parts: [String] = []
            if goOn > 0 { parts.append(PlainText.count(goOn, "change goes on", "changes go on together")) }
            if wait > 0 {
                let verb = waitsFor.count == 1 ? "is" : "are"
                let reason =
                    waitsFor.isEmpty
                    ? "until the others of the list may go" : "until \(waitsFor.joined(separator: ", ")) \(verb) decided"
                parts.append(PlainText.count(wait, "change waits ", "changes wait ") + reason)
            }
            if letGo > 0 { parts.append(PlainText.count(letGo, "change was dropped", "changes were dropped")) }
            return "its atomic list: " + (parts.isEmpty ? "nothing is left to do" : parts.joined(separator: ", "))
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let state = reader.text("state") else { return nil }
        self.state = state
        mutation = reader.text("mutation")
        list = List(json.object?["list"])
    }

    package static func answer(state: String, mutation: MutationKey?, list: List? = nil) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("state", state)
                writer.name("mutation")
                if let mutation { writer.string(mutation.text) } else { writer.null() }
                guard let list else { return }
                writer.name("list")
                writer.object { writer in
                    writer.member("go_on", Int64(list.goOn))
                    writer.member("wait", Int64(list.wait))
                    writer.member("let_go", Int64(list.letGo))
                    writer.member("waits_for", JSON.list(list.waitsFor))
                }
            }
        }
    }
}
