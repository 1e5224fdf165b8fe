package import SyncCore

/// The body of `POST /v1/conflicts/{id}/resolve`: one side for all disputed fields, or a choice for each field.
///
///     {"choice":"local","comment":"checked on site","expect_remote_version":90207}
///     {"fields":{"value":"local","notes":{"value":"both of it"}}}
///     {"choice":"remote","whole":true}
package struct ResolveBody: Hashable, Sendable {
    package enum Choice: Hashable, Sendable {
        case local, remote
        /// A new value in place of both sides.
        case value(JSON)
    }

    package enum Scope: Hashable, Sendable {
        case all(Choice)
        case fields([String: Choice])
    }

    private enum Word: String, CaseIterable { case local, remote }

    package var scope: Scope
    package var comment: String?
    package var author: String?
    /// The version of the hub's side that the person saw; a newer one refuses the decision.
    package var expectedRemoteVersion: Int64?

    /// Discards the whole atomic list of the disputed change.
    package var letsGoOfList: Bool

    static let commentBytesMax = 512

    package init(
        _ scope: Scope, comment: String? = nil, author: String? = nil, expectedRemoteVersion: Int64? = nil, letsGoOfList: Bool = false
    ) {
        self.scope = scope
        self.letsGoOfList = letsGoOfList
        self.comment = comment
        self.author = author
        self.expectedRemoteVersion = expectedRemoteVersion
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> ResolveBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let choice = reader.word("choice", Word.self)
        let fields = reader.value("fields")
        var scope = Scope.fields([:])
        switch (choice, fields) {
        case (let word?, nil): scope = .all(word == .local ? .local : .remote)
        case (nil, let fields?): scope = .fields(readFields(fields, &reader))
        case (_?, _?): reader.faults.refused("/choice", "goes without fields, and fields without it")
        case (nil, nil):
            if reader.object["choice"] == nil { reader.faults.missing("/choice", "local or remote, or fields with a choice for each") }
        }
        let body = ResolveBody(
            scope, comment: reader.text("comment", bytesMax: commentBytesMax),
            author: reader.text("author", bytesMax: Limits.authorBytes),
            expectedRemoteVersion: reader.integer("expect_remote_version", in: 0...(1 << 53)),
            letsGoOfList: reader.bool("whole") ?? false)
        if body.letsGoOfList, body.scope != .all(.remote) {
            reader.faults.refused("/whole", "drops the whole atomic list, so it is possible with choice remote alone")
        }
        try reader.finish()
        return body
    }

    private static func readFields(_ json: JSON, _ reader: inout BodyReader) -> [String: Choice] {
        guard let object = json.object else {
            reader.faults.wrong("/fields", "an object", json)
            return [:]
        }
        if object.isEmpty { reader.faults.refused("/fields", "must name the fields that are decided") }
        var choices: [String: Choice] = [:]
        for member in object.members {
            let name = member.name.text
            let pointer = "/fields/" + BodyFaults.escaped(name)
            if let word = member.value.text {
                guard let word = Word(rawValue: word) else {
                    reader.faults.refused(pointer, "must be local, remote or {\"value\": …}")
                    continue
                }
                choices[name] = word == .local ? .local : .remote
            } else if let inner = member.value.object, inner.count == 1, let value = inner["value"] {
                choices[name] = .value(value)
            } else {
                reader.faults.malformed(pointer, "must be local, remote or {\"value\": …}")
            }
        }
        return choices
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            switch scope {
            case .all(let choice): writer.member("choice", ResolveBody.json(choice))
            case .fields(let fields):
                var object: JSONObject = [:]
                for (name, choice) in fields.sorted(by: { $0.key < $1.key }) { object[name] = ResolveBody.json(choice) }
                writer.member("fields", JSON.object(object))
            }
            writer.member("comment", comment)
            writer.member("author", author)
            writer.member("expect_remote_version", expectedRemoteVersion)
            if letsGoOfList { writer.member("whole", true) }
        }
        return writer.bytes
    }

    private static func json(_ choice: Choice) -> JSON {
        switch choice {
        case .local: "local"
        case .remote: "remote"
        case .value(let value): .object(["value": value])
        }
    }
}
