import SyncCore

// The keys `form` and `complete` of an entity: by which form its records are judged, and when they may lack nothing (PROTOCOL A12).
extension EntitySettings {
    private struct FormDraft: Sendable {
        var entity: EntityName?
        var ref: String?
        var version: String?
        var path = FormSettings.standardPath
        var answers: FormSettings.Answers?
    }

    private struct AnswersDraft: Sendable {
        var entity: EntityName?
        var ref: String?
        var question: String?
        var value = FormSettings.Answers.standardValue
    }

    static var form: Format<FormSettings> {
        let draft = Format<FormDraft>.mapping(
            FormDraft(),
            [
                .optional("entity", \.entity, .identifier()), .optional("ref", \.ref, member), .optional("version", \.version, member),
                .key("path", \.path, member), .optional("answers", \.answers, answers),
            ])
        return Format(
            expected: draft.expected, keys: draft.keys,
            read: { node, reading in
                guard let value = draft.read(node, &reading) else { return nil }
                guard let entity = value.entity else {
                    reading.report(node.position, below: "entity", problem: "is missing", expected: "the entity of the forms")
                    return nil
                }
                guard let ref = value.ref else {
                    reading.report(node.position, below: "ref", problem: "is missing", expected: "the field that holds the id of the form")
                    return nil
                }
                return FormSettings(entity: entity, ref: ref, version: value.version, path: value.path, answers: value.answers)
            },
            write: { value in
                // A key that is not set is left out: an agent would refuse null.
                var object: JSONObject = ["entity": .string(value.entity.text), "ref": .string(value.ref)]
                if let version = value.version { object["version"] = .string(version) }
                object["path"] = .string(value.path)
                if let found = value.answers { object["answers"] = answers.write(found) }
                return .object(object)
            })
    }

    private static var answers: Format<FormSettings.Answers> {
        let draft = Format<AnswersDraft>.mapping(
            AnswersDraft(),
            [
                .optional("entity", \.entity, .identifier()), .optional("ref", \.ref, member), .optional("question", \.question, member),
                .key("value", \.value, member),
            ])
        return draft.mapped(
            { value, node, reading in
                guard let entity = value.entity, let ref = value.ref, let question = value.question else {
                    let missing = value.entity == nil ? "entity" : value.ref == nil ? "ref" : "question"
                    reading.report(node.position, below: missing, problem: "is missing", expected: "entity, ref and question")
                    return nil
                }
                return FormSettings.Answers(entity: entity, ref: ref, question: question, value: value.value)
            }, back: { AnswersDraft(entity: $0.entity, ref: $0.ref, question: $0.question, value: $0.value) })
    }

    static var complete: Format<CompleteRule> {
        .mapping(
            CompleteRule(),
            [.key("when", \.when, .dictionary(of: .list(value, upTo: 64), names: member, text: { $0 }, upTo: 16), isRequired: true)],
            check: { rule, node, reading in
                // Without a value no record would ever be complete, and without a field every draft would be.
                if rule.when.isEmpty {
                    reading.inside(key: "when") { $0.refuse(node.deepest(["when"]), expected: "at least one field with its values") }
                }
                for field in rule.when.keys.sorted(by: precedesInBytes) where rule.when[field]?.isEmpty == true {
                    reading.inside(key: "when") { reading in
                        reading.inside(key: field) { $0.refuse(node.deepest(["when", field]), expected: "at least one value") }
                    }
                }
            })
    }

    /// Refuses keys that would have no effect.
    static func checkForm(_ rules: EntityRules, _ node: YAMLNode, _ reading: inout Reading) {
        func refuse(_ key: String, _ expected: String) {
            reading.inside(key: key) { $0.refuse(node.deepest([key]), expected: expected) }
        }
        if rules.form != nil, rules.kind == .reference {
            refuse("form", "it only for a record or an event: reference data is not filled in here")
        }
        if rules.complete != nil, rules.form == nil { refuse("complete", "it only beside form, which says what a complete record has") }
        if let form = rules.form, sameBytes(form.ref, form.version) { refuse("form", "different fields for ref and version") }
    }

    /// Checks the entities that hold the forms. `root` is the mapping that has the key `entities`.
    static func checkForms(_ book: RuleBook, _ root: YAMLNode, _ reading: inout Reading) {
        for (name, rules) in book.entities.sorted(by: { $0.key < $1.key }) {
            if let answers = rules.form?.answers { checkAnswers(answers, of: name, book, root, &reading) }
            guard let forms = rules.form?.entity else { continue }
            let reference = Reference(from: name, at: ["form", "entity"], to: forms)
            guard forms != name else {
                reference.report("refers to itself", expected: "another entity, whose records are the forms", root, &reading)
                continue
            }
            if checkReference(reference, book, root, &reading)?.keep != nil {
                reference.report(
                    "refers to \(forms), whose documents a device may drop (keep)", expected: "an entity whose forms stay on the device",
                    root, &reading)
            }
        }
    }

    /// The answers of a record are looked for when it is completed, so they must be found quickly.
    private static func checkAnswers(
        _ answers: FormSettings.Answers, of name: EntityName, _ book: RuleBook, _ root: YAMLNode, _ reading: inout Reading
    ) {
        let found = book[answers.entity]
        let column = FieldPath([answers.ref]).map { RecordIndex.Column.field($0) }
        guard found?.kind != .record || found?.indexes.contains(where: { $0.columns.first == column }) != true else { return }
        reading.report(
            root.deepest(["entities", name.text, "form", "answers", "entity"]).position,
            below: "entities." + keyText(name.text) + ".form.answers.entity",
            problem: "\(answers.entity) is no record with an index by \(answers.ref)",
            expected: "an entity of records with the key index: [\(answers.ref)]")
    }

    private static var member: Format<String> {
        .text(expected: "a field name", parse: { $0.isEmpty ? nil : $0 }, write: { .string($0) })
    }

    private static var value: Format<String> {
        .text(expected: "a text, a number, true or false", parse: { $0.isEmpty ? nil : $0 }, write: { .string($0) })
    }
}
