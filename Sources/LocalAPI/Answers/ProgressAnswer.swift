package import SyncCore

/// The answer to `GET /v1/records/{entity}/{id}/progress`: how far a record is by its form.
package struct ProgressAnswer: Hashable, Sendable {
    package struct Section: Hashable, Sendable {
        package var id: String
        package var title: String?
        package var applies: Bool
        package var count: FormCount
        /// The percentage that the agent counted.
        package var percent: Int
    }

    package var record: String
    /// The form and its version; `nil`: the record names none.
    package var form: String?
    /// `judged`, `absent` (not on this device), `unusable`, or `none`.
    package var state: String
    package var reason: String?
    package var title: String?
    /// The record says that it is complete.
    package var saysComplete: Bool
    package var isComplete: Bool
    package var count: FormCount
    package var percent: Int
    package var sections: [Section]
    package var holes: [Problem.Pointer]
    package var faults: [Problem.Pointer]

    package static func answer(_ progress: RecordProgress) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("entity", progress.record.entity.text)
                writer.member("id", progress.record.id.text)
                writer.member("says_complete", progress.saysComplete)
                switch progress.found {
                case .unnamed: writer.member("form", ["state": "none"] as JSON)
                case .unjudged(let name, let unjudged, let reason):
                    writer.member("form", form(name, unjudged.rawValue, reason))
                case .judged(let name, let counted):
                    writer.member("form", form(name, "judged", nil))
                    for member in counted.json.members {
                        writer.name(member.name)
                        writer.value(member.value)
                    }
                }
            }
        }
    }

    private static func form(_ name: FormSettings.Name, _ state: String, _ reason: String?) -> JSON {
        var object: JSONObject = ["id": .string(name.id)]
        if let version = name.version { object["version"] = .string(version) }
        object["state"] = .string(state)
        if let reason { object["reason"] = .string(reason) }
        return .object(object)
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let entity = reader.text("entity"), let id = reader.text("id") else { return nil }
        record = entity + "/" + id
        let form = reader.inside("form")
        state = form.text("state") ?? "none"
        reason = form.text("reason")
        self.form = form.text("id").map { id in FormSettings.Name(id: id, version: form.text("version")).text }
        title = reader.text("title")
        saysComplete = reader.bool("says_complete") ?? false
        isComplete = reader.bool("complete") ?? false
        count = FormCount(reader)
        percent = Int(clamping: reader.int("percent") ?? 0)
        sections = reader.list("sections").map { json in
            let section = AnswerReader(json)
            return Section(
                id: section.text("id") ?? "", title: section.text("title"), applies: section.bool("applies") ?? true,
                count: FormCount(section), percent: Int(clamping: section.int("percent") ?? 0))
        }
        holes = reader.pointers("holes")
        faults = reader.pointers("faults")
    }
}

extension FormCount {
    fileprivate init(_ reader: AnswerReader) {
        func number(_ name: String) -> Int { Int(clamping: reader.int(name) ?? 0) }
        self.init(
            questions: number("questions"), answered: number("answered"), required: number("required"), missing: number("missing"))
    }
}
