package import SyncCore

/// The body of `POST /v1/conflicts/{id}/resolve`: one side for all disputed fields, or a choice for each field.
///
///     {"choice":"local","comment":"checked on site","expect_remote_version":90207}
///     {"fields":{"value":"local","notes":{"value":"both of it"}}}
///     {"choice":"remote","whole":true}
package enum ResolveBody {
    private enum Word: String, CaseIterable { case local, remote }

    static let commentBytesMax = 512

    package static func read(_ bytes: [UInt8]) throws(Problem) -> ConflictDecision {
        var reader = BodyReader(try BodyText.object(bytes))
        let choice = reader.word("choice", Word.self)
        let fields = reader.value("fields")
        var scope = ConflictDecision.Scope.fields([:])
        switch (choice, fields) {
        case (let word?, nil): scope = .all(word == .local ? .local : .remote)
        case (nil, let fields?): scope = .fields(readFields(fields, &reader))
        case (_?, _?): reader.faults.refused("/choice", "goes without fields, and fields without it")
        case (nil, nil):
            if reader.object["choice"] == nil { reader.faults.missing("/choice", "local or remote, or fields with a choice for each") }
        }
        let decision = ConflictDecision(
            scope, comment: reader.text("comment", bytesMax: commentBytesMax),
            author: reader.text("author", bytesMax: Limits.authorBytes),
            expectedRemoteVersion: reader.integer("expect_remote_version", in: 0...(1 << 53)),
            letsGoOfList: reader.bool("whole") ?? false)
        if decision.letsGoOfList, decision.scope != .all(.remote) {
            reader.faults.refused("/whole", "drops the whole atomic list, so it is possible with choice remote alone")
        }
        try reader.finish()
        return decision
    }

    private static func readFields(_ json: JSON, _ reader: inout BodyReader) -> [String: ConflictDecision.Choice] {
        guard let object = json.object else {
            reader.faults.wrong("/fields", "an object", json)
            return [:]
        }
        if object.isEmpty { reader.faults.refused("/fields", "must name the fields that are decided") }
        var choices: [String: ConflictDecision.Choice] = [:]
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

    package static func bytes(_ decision: ConflictDecision) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            switch decision.scope {
            case .all(let choice): writer.member("choice", json(choice))
            case .fields(let fields):
                var object: JSONObject = [:]
                for (name, choice) in fields.sorted(by: { $0.key < $1.key }) { object[name] = json(choice) }
                writer.member("fields", JSON.object(object))
            }
            writer.member("comment", decision.comment)
            writer.member("author", decision.author)
            writer.member("expect_remote_version", decision.expectedRemoteVersion)
            if decision.letsGoOfList { writer.member("whole", true) }
        }
        return writer.bytes
    }

    private static func json(_ choice: ConflictDecision.Choice) -> JSON {
        switch choice {
        case .local: "local"
        case .remote: "remote"
        case .value(let value): .object(["value": value])
        }
    }
}
