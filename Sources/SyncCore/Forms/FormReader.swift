/// Reads a form, and refuses everything that its author cannot have meant: unknown keys and types, identifiers that are there twice,
/// conditions that look at nothing, at themselves, or that can never hold.
struct FormReader {
    /// The parts of a form.
    struct Parts {
        var title: String?
        var sections: [FormSection]
        var questions: [FormQuestion]
        var order: [Int]
        var schema: JSONSchema?
        var complete: JSONSchema?
    }

    /// A condition as it was written, and its place. It is read when all questions are known.
    struct Written {
        var json: JSON
        var place: String
    }

    private(set) var sections: [FormSection] = []
    private(set) var questions: [FormQuestion] = []
    /// The place of each question and section in the form.
    private(set) var places: [String] = []
    private(set) var sectionPlaces: [String] = []
    private var conditions: [Written?] = []
    private var sectionConditions: [Written?] = []
    /// The questions by identifier, for the form and for each group.
    private var scopes: [Int?: [JSONString: Int]] = [nil: [:]]
    private var choices = 0
    private var patternSize = 0

    mutating func read(_ json: JSON) throws(Problem) -> Parts {
        let form = try Self.object(json, at: "", keys: ["title", "description", "sections", "schema", "complete", "meta"])
        let title = try Self.text(form["title"], at: "/title")
        let own = try (Self.schema(form["schema"], at: "/schema"), Self.schema(form["complete"], at: "/complete"))
        if let list = form["sections"] {
            guard let list = list.array else { throw Self.problem("/sections", "must be a list of sections, found \(list.kind)") }
            guard list.count <= Form.sectionsMax else { throw Self.problem("/sections", "has more than \(Form.sectionsMax) sections") }
            for (index, json) in list.enumerated() { try readSection(json, at: "/sections/\(index)") }
        } else if own.0 == nil, own.1 == nil {
            throw Self.problem("", "has no sections; write sections with fields, or a JSON Schema in schema or complete")
        }
        var reader = FormConditionReader(questions: questions, scopes: scopes)
        for index in sections.indices {
            guard let written = sectionConditions[index] else { continue }
            sections[index].condition = try reader.condition(written.json, at: written.place, in: nil)
        }
        for index in questions.indices {
            guard let written = conditions[index] else { continue }
            questions[index].condition = try reader.condition(written.json, at: written.place, in: questions[index].group)
        }
        let problem = { [places, sectionPlaces] (node: Int, text: String) in
            let place = node < places.count ? places[node] : sectionPlaces[node - places.count]
            return Self.problem(place + "/visible_when", text)
        }
        let order = try FormOrder.order(questions, sections, problem: problem)
        try FormSatisfiability.check(questions, sections, problem: problem)
        for number in order { if let group = questions[number].group { questions[group].innerOrder.append(number) } }
        return Parts(
            title: title, sections: sections, questions: questions, order: order.filter { questions[$0].group == nil }, schema: own.0,
            complete: own.1)
    }

    static func problem(_ pointer: String, _ detail: String) -> Problem {
        Problem(
            "validation", status: 422, detail: "the form\(pointer.isEmpty ? "" : " at \(pointer)"): \(detail)",
            errors: [.init(pointer, detail)])
    }

    // MARK: Sections and questions

    private mutating func readSection(_ json: JSON, at place: String) throws(Problem) {
        let section = try Self.object(json, at: place, keys: ["id", "title", "hint", "meta", "fields", "visible_when"])
        let id = try Self.identifier(section["id"], at: place)
        if sections.contains(where: { $0.id == id }) { throw Self.problem(place + "/id", "\(id.text) is the id of an earlier section") }
        let title = try Self.text(section["title"], at: place + "/title")
        sections.append(FormSection(id: id, title: title))
        sectionPlaces.append(place)
        sectionConditions.append(section["visible_when"].map { Written(json: $0, place: place + "/visible_when") })
        _ = try readFields(section["fields"], at: place, in: nil, depth: 0)
    }

    private mutating func readFields(_ json: JSON?, at place: String, in group: Int?, depth: Int) throws(Problem) -> [Int] {
        guard let json else { throw Self.problem(place, "has no fields") }
        guard let list = json.array else { throw Self.problem(place + "/fields", "must be a list of questions, found \(json.kind)") }
        var numbers: [Int] = []
        for (index, json) in list.enumerated() {
            numbers.append(try readQuestion(json, at: "\(place)/fields/\(index)", in: group, depth: depth))
        }
        return numbers
    }

    private mutating func readQuestion(_ json: JSON, at place: String, in group: Int?, depth: Int) throws(Problem) -> Int {
        guard questions.count < Form.questionsMax else { throw Self.problem(place, "is beyond \(Form.questionsMax) questions of a form") }
        let (object, type) = try Self.question(json, at: place)
        let id = try Self.identifier(object["id"], at: place)
        if FormConditionReader.combinations.contains(where: { id.means($0) }) {
            throw Self.problem(place + "/id", "\(id.text) is a word of conditions; choose another id")
        }
        if scopes[group]?[id] != nil { throw Self.problem(place + "/id", "\(id.text) is the id of an earlier question") }
        let number = questions.count
        scopes[group, default: [:]][id] = number
        questions.append(
            FormQuestion(
                id: id, place: "/" + JSONPointer.escaped(id.text), label: try Self.text(object["label"], at: place + "/label"),
                section: sections.count - 1, group: group, rule: .checkbox,
                isRequired: try Self.flag(object["required"], at: place + "/required")))
        places.append(place)
        conditions.append(object["visible_when"].map { Written(json: $0, place: place + "/visible_when") })
        questions[number].rule = try rule(type, object, at: place)
        if type == .group {
            guard depth < Form.groupDepthMax else { throw Self.problem(place, "is nested in more than \(Form.groupDepthMax) groups") }
            scopes[number] = [:]
            questions[number].inner = try readFields(object["fields"], at: place, in: number, depth: depth + 1)
            if questions[number].inner.isEmpty {
                throw Self.problem(place + "/fields", "must have a question: a group repeats its questions")
            }
        }
        return number
    }

    /// The object of a question, with keys of its type only.
    private static func question(_ json: JSON, at place: String) throws(Problem) -> (JSONObject, FieldType) {
        let object = try Self.object(json, at: place, keys: FieldKey.names)
        guard let word = object["type"] else {
            throw problem(place, "has no type; expected one of \(FieldType.names.joined(separator: ", "))")
        }
        guard let name = word.text, let type = FieldType(rawValue: name) else {
            let near = word.text.flatMap { nearestName(to: $0, among: FieldType.names) }.map { "; did you mean \($0)?" } ?? ""
            throw problem(
                place + "/type",
                "\(word.shown) is no type of question, expected one of \(FieldType.names.joined(separator: ", "))" + near)
        }
        let known = FieldKey.ofAll + type.keys
        for member in object.members {
            guard let key = FieldKey(rawValue: member.name.text), !known.contains(key) else { continue }
            let users = FieldType.allCases.filter { $0.keys.contains(key) }.map(\.rawValue).joined(separator: ", ")
            throw problem("\(place)/\(key.rawValue)", "is no rule of the type \(name), only of \(users)")
        }
        return (object, type)
    }

    // MARK: Rules

    private mutating func rule(_ type: FieldType, _ object: JSONObject, at place: String) throws(Problem) -> AnswerRule {
        switch type {
        case .text:
            return .text(
                most: try Self.count(object["max_length"], at: place + "/max_length", 1...1_000_000), pattern: try pattern(object, place))
        case .number, .integer:
            return .number(try range(object, .number(FormRange(), isWhole: type == .integer), place), isWhole: type == .integer)
        case .rating:
            var range = try range(object, .number(FormRange(), isWhole: true), place)
            range.lower = range.lower ?? FormRange.End(number: ComparedNumber(JSONNumber(1 as Int64)), text: "1")
            range.upper = range.upper ?? FormRange.End(number: ComparedNumber(JSONNumber(5 as Int64)), text: "5")
            if range.isEmpty(isWhole: true) {
                throw Self.problem(place, "no rating is from \(range.lower?.text ?? "") to \(range.upper?.text ?? "")")
            }
            return .number(range, isWhole: true)
        case .date: return .date(try range(object, .date(FormRange()), place))
        case .time: return .time(try range(object, .time(FormRange()), place))
        case .checkbox: return .checkbox
        case .choice: return .choice(AllowedValues(try choices(object["choices"], place)))
        case .choices:
            let list = try choices(object["choices"], place)
            let (least, most) = try counts(object, place, upTo: list.count, "there are \(list.count) choices")
            return .choices(AllowedValues(list), least: least, most: most)
        case .photo, .file:
            let (least, most) = try counts(object, place, upTo: Form.filesMax, "a question has at most \(Form.filesMax) files")
            return .files(least: least, most: most)
        case .group:
            let (least, most) = try counts(object, place, upTo: Form.entriesMax, "a group has at most \(Form.entriesMax) entries")
            return .group(least: least, most: most)
        case .signature: return .signature
        case .location: return .location
        }
    }

    private mutating func pattern(_ object: JSONObject, _ place: String) throws(Problem) -> LinearPattern? {
        guard let json = object["pattern"] else { return nil }
        guard let source = json.text, let pattern = LinearPattern(source) else {
            throw Self.problem(
                place + "/pattern",
                "must be a regular expression of at most \(LinearPattern.lengthMax) characters without back references and look-around")
        }
        patternSize += pattern.size
        guard patternSize <= JSONSchema.patternsMax else {
            throw Self.problem(place + "/pattern", "the patterns of the form are too large together; their repetitions are written out")
        }
        return pattern
    }

    private mutating func choices(_ json: JSON?, _ place: String) throws(Problem) -> [JSON] {
        guard let list = json?.array, !list.isEmpty else { throw Self.problem(place + "/choices", "must be a list of choices") }
        choices += list.count
        guard list.count <= Form.choicesMax, choices <= Form.choicesOfAllMax else {
            throw Self.problem(
                place + "/choices", "has more than \(Form.choicesMax) choices, or the form more than \(Form.choicesOfAllMax)")
        }
        var values: [JSON] = []
        var seen = Set<JSON>()
        for (index, json) in list.enumerated() {
            let here = "\(place)/choices/\(index)"
            var value = json
            if json.object != nil {
                let object = try Self.object(json, at: here, keys: ["value", "label", "hint", "meta"])
                value = object["value"] ?? .null
            }
            guard value.text?.isEmpty == false else { throw Self.problem(here, "must be a text, or an object with value and label") }
            guard seen.insert(value).inserted else { throw Self.problem(here, "\(value.shown) is an earlier choice") }
            values.append(value)
        }
        return values
    }

    private func range(_ object: JSONObject, _ rule: AnswerRule, _ place: String) throws(Problem) -> FormRange {
        func end(_ name: String) throws(Problem) -> FormRange.End? {
            guard let json = object[name] else { return nil }
            return try FormConditionReader.end(json, rule, at: "\(place)/\(name)", isIncluded: true)
        }
        let range = FormRange(lower: try end("min"), upper: try end("max"))
        if range.isEmpty(isWhole: false) { throw Self.problem(place + "/max", "is below min, so no answer could fit") }
        return range
    }

    private func counts(_ object: JSONObject, _ place: String, upTo limit: Int, _ reason: String) throws(Problem) -> (Int, Int) {
        let least = try Self.count(object["min"], at: place + "/min", 0...Int.max) ?? 0
        let most = try Self.count(object["max"], at: place + "/max", 1...Int.max) ?? limit
        if least > limit { throw Self.problem(place + "/min", "is \(least), and \(reason)") }
        if most > limit { throw Self.problem(place + "/max", "is \(most), and \(reason)") }
        if most < least { throw Self.problem(place + "/max", "is below min, so no answer could fit") }
        return (least, most)
    }
}

// MARK: - Values of keys

extension FormReader {
    /// - Parameter keys: The known members. Another one is refused with the nearest of them.
    static func object(_ json: JSON, at place: String, keys: [String]) throws(Problem) -> JSONObject {
        guard let object = json.object else { throw problem(place, "must be an object, found \(json.kind)") }
        for member in object.members where !keys.contains(where: { member.name.means($0) }) {
            let name = member.name.text
            let near =
                nearestName(to: name, among: keys).map { "; did you mean \($0)?" } ?? ", expected one of \(keys.joined(separator: ", "))"
            throw problem(place + "/" + JSONPointer.escaped(String(name.prefix(100))), "unknown key" + near)
        }
        return object
    }

    static func text(_ json: JSON?, at place: String) throws(Problem) -> String? {
        guard let json, !json.isNull else { return nil }
        guard let text = json.text else { throw problem(place, "must be a text, found \(json.kind)") }
        return text
    }

    static func identifier(_ json: JSON?, at place: String) throws(Problem) -> JSONString {
        guard case .string(let id)? = json, case let bytes = id.text.utf8.count, bytes > 0, bytes <= Form.idBytesMax else {
            throw problem(json == nil ? place : place + "/id", "needs an id, a text of 1 to \(Form.idBytesMax) bytes")
        }
        return id
    }

    static func flag(_ json: JSON?, at place: String) throws(Problem) -> Bool {
        guard let json else { return false }
        guard let flag = json.bool else { throw problem(place, "must be true or false, found \(json.kind)") }
        return flag
    }

    static func count(_ json: JSON?, at place: String, _ range: ClosedRange<Int>) throws(Problem) -> Int? {
        guard let json else { return nil }
        guard let number = json.int.map({ Int(clamping: $0) }), range.contains(number) else {
            throw problem(
                place, "must be a whole number from \(range.lowerBound)" + (range.upperBound == .max ? "" : " to \(range.upperBound)"))
        }
        return number
    }

    private static func schema(_ json: JSON?, at place: String) throws(Problem) -> JSONSchema? {
        guard let json else { return nil }
        do throws(Problem) {
            return try JSONSchema(json)
        } catch {
            let first = error.errors.first ?? Problem.Pointer("", error.detail)
            throw problem(place + first.pointer, first.detail)
        }
    }
}
