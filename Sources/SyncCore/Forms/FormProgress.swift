/// The progress of a record by its form, for people: in all and by section.
package struct FormProgress: Hashable, Sendable {
    package struct Section: Hashable, Sendable {
        package var id: String
        package var title: String?
        /// `false` while its condition does not hold. It has no questions then.
        package var applies: Bool
        package var count: FormCount
    }

    package var title: String?
    package var total: FormCount
    package var sections: [Section]
    /// Missing answers, and answers that do not fit, each place as a JSON pointer into the record.
    package var holes: [Problem.Pointer]
    package var faults: [Problem.Pointer]
    /// `true` when nothing is missing. An answer to an optional question may still be of a wrong kind (``faults``).
    package var isComplete: Bool

    init(_ form: Form, _ judgement: FormJudgement) {
        title = form.title
        var total = judgement.sections.reduce(FormCount(), +)
        // Each hole that the owner's own schema finds counts as a question that is required and missing.
        total.required += judgement.ownHoles
        total.missing += judgement.ownHoles
        if judgement.isTooCostly {
            total.required += 1
            total.missing += 1
        }
        self.total = total
        sections = form.sections.indices.map { index in
            let section = form.sections[index]
            return Section(
                id: section.id.text, title: section.title, applies: judgement.applies[index], count: judgement.sections[index])
        }
        holes = judgement.holes
        faults = judgement.faults
        isComplete = judgement.isComplete
    }

    /// The members of the answer to `GET /v1/records/{entity}/{id}/progress`, without those of the record.
    package var json: JSONObject {
        var object = total.json
        if let title { object["title"] = .string(title) }
        object["complete"] = .bool(isComplete)
        object["sections"] = .array(
            sections.map { section in
                var object: JSONObject = ["id": .string(section.id)]
                if let title = section.title { object["title"] = .string(title) }
                object["applies"] = .bool(section.applies)
                for member in section.count.json.members { object[member.name.text] = member.value }
                return .object(object)
            })
        object["holes"] = .array(holes.map(\.asAnswer))
        object["faults"] = .array(faults.map(\.asAnswer))
        return object
    }
}

extension FormCount {
    package var json: JSONObject {
        [
            "questions": .int(questions), "answered": .int(answered), "required": .int(required), "missing": .int(missing),
            "percent": .int(percent),
        ]
    }
}

extension Problem.Pointer {
    var asAnswer: JSON { ["pointer": .string(pointer), "detail": .string(detail)] }
}
