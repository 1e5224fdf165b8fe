/// Reads the conditions of a form: `{"q1": "fail"}`, `{"q1": ["pass", "fail"]}`, `{"q3": {"min": 2}}`, `{"all": […]}`, `{"any": […]}`,
/// `{"not": {…}}`. Several members must all hold.
struct FormConditionReader {
    /// The words that combine conditions. No question may have one of them as its id.
    static let combinations = ["all", "any", "not"]

    private let questions: [FormQuestion]
    private let scopes: [Int?: [JSONString: Int]]
    /// Tests, values and combinations so far.
    private var parts = 0

    init(questions: [FormQuestion], scopes: [Int?: [JSONString: Int]]) {
        self.questions = questions
        self.scopes = scopes
    }

    /// - Parameter group: The group of the question that has the condition.
    mutating func condition(_ json: JSON, at place: String, in group: Int?) throws(Problem) -> FormCondition {
        try condition(json, at: place, in: group, depth: 0)
    }

    private mutating func condition(_ json: JSON, at place: String, in group: Int?, depth: Int) throws(Problem) -> FormCondition {
        guard depth <= Form.conditionDepthMax else {
            throw FormReader.problem(place, "is nested more than \(Form.conditionDepthMax) deep")
        }
        guard let members = json.object?.members, !members.isEmpty else {
            throw FormReader.problem(place, #"must be a condition such as {"q1": "fail"}, found \#(json.shown)"#)
        }
        var found: [FormCondition] = []
        for member in members {
            try count(1, at: place)
            let here = place + "/" + JSONPointer.escaped(member.name.text)
            if member.name.means("not") {
                found.append(.not(try condition(member.value, at: here, in: group, depth: depth + 1)))
            } else if member.name.means("all") {
                found.append(.all(try list(member.value, at: here, in: group, depth: depth + 1)))
            } else if member.name.means("any") {
                found.append(.any(try list(member.value, at: here, in: group, depth: depth + 1)))
            } else {
                let number = try question(member.name, at: here, in: group)
                found += try tests(member.value, of: number, at: here).map { .test(number, $0) }
            }
        }
        return found.count == 1 ? found[0] : .all(found)
    }

    private mutating func list(_ json: JSON, at place: String, in group: Int?, depth: Int) throws(Problem) -> [FormCondition] {
        guard let list = json.array, !list.isEmpty else { throw FormReader.problem(place, "must be a list of conditions") }
        var found: [FormCondition] = []
        for (index, json) in list.enumerated() { found.append(try condition(json, at: "\(place)/\(index)", in: group, depth: depth)) }
        return found
    }

    /// The question of a name: first in the entry of the group, then in the groups and the form around it.
    private func question(_ name: JSONString, at place: String, in group: Int?) throws(Problem) -> Int {
        var scope = group
        var known: [String] = []
        while true {
            if let number = scopes[scope]?[name] { return number }
            known += scopes[scope]?.keys.map(\.text) ?? []
            guard let inner = scope else { break }
            scope = questions[inner].group
        }
        let text = String(name.text.prefix(100))
        if let number = questions.firstIndex(where: { $0.id == name }), let group = questions[number].group {
            throw FormReader.problem(
                place,
                "\(text) is repeated in the group \(questions[group].id.text.prefix(60)); only questions of that group can look at it")
        }
        let near = nearestName(to: name.text, among: known.sorted(by: precedesInBytes)).map { "; did you mean \($0)?" } ?? ""
        throw FormReader.problem(place, "there is no question \(text)" + near)
    }

    private mutating func count(_ parts: Int, at place: String) throws(Problem) {
        self.parts += parts
        guard self.parts <= Form.conditionPartsMax else {
            throw FormReader.problem(place, "the conditions of the form have more than \(Form.conditionPartsMax) tests and values")
        }
    }

    // MARK: Tests

    private static let words = ["equals", "in", "set", "min", "max", "above", "below"]

    /// The tests of one question's answer. All of them must hold.
    private mutating func tests(_ json: JSON, of number: Int, at place: String) throws(Problem) -> [FormTest] {
        let rule = questions[number].rule
        switch json {
        case .array(let values): return [.oneOf(try allowed(values, rule, at: place))]
        case .null: throw FormReader.problem(place, #"must be a value; for "not answered" write {"set": false}"#)
        case .bool, .number, .string: return [.oneOf(try allowed([json], rule, at: place, isList: false))]
        case .object: break
        }
        let object = try FormReader.object(json, at: place, keys: Self.words)
        var tests: [FormTest] = []
        var range = FormRange()
        for member in object.members {
            let word = member.name.text
            let here = place + "/" + word
            try count(1, at: here)
            switch word {
            case "equals": tests.append(.oneOf(try allowed([member.value], rule, at: here, isList: false)))
            case "in":
                guard let values = member.value.array else { throw FormReader.problem(here, "must be a list of values") }
                tests.append(.oneOf(try allowed(values, rule, at: here)))
            case "set":
                guard let wanted = member.value.bool else {
                    throw FormReader.problem(here, "must be true or false, found \(member.value.kind)")
                }
                tests.append(.isSet(wanted))
            default:
                let end = try Self.end(member.value, rule, at: here, isIncluded: word == "min" || word == "max")
                let isLower = word == "min" || word == "above"
                range = range.narrowed(by: isLower ? FormRange(lower: end) : FormRange(upper: end))
            }
        }
        if tests.isEmpty, range.isOpen { throw FormReader.problem(place, "must have one of \(Self.words.joined(separator: ", "))") }
        guard !range.isOpen else { return tests }
        let (isWhole, possible) = rule.order
        if range.narrowed(by: possible).isEmpty(isWhole: isWhole) {
            throw FormReader.problem(place, "can never hold: no answer that the question allows is in this range")
        }
        return tests + [.range(range)]
    }

    private mutating func allowed(_ values: [JSON], _ rule: AnswerRule, at place: String, isList: Bool = true) throws(Problem)
        -> AllowedValues
    {
        guard !values.isEmpty else { throw FormReader.problem(place, "can never hold: the list has no values") }
        try count(values.count, at: place)
        for (index, value) in values.enumerated() {
            guard let reason = rule.impossibility(of: value) else { continue }
            throw FormReader.problem(isList ? "\(place)/\(index)" : place, reason)
        }
        return AllowedValues(values)
    }

    /// One end of a range, for an answer of that kind.
    static func end(_ json: JSON, _ rule: AnswerRule, at place: String, isIncluded: Bool) throws(Problem) -> FormRange.End {
        switch rule {
        case .number, .date, .time: break
        case .text, .checkbox, .choice, .choices, .files, .signature, .location, .group:
            throw FormReader.problem(place, "compares numbers, dates and times, and the answer is \(rule.expectation)")
        }
        guard let number = rule.number(of: json) else {
            throw FormReader.problem(place, "must be \(rule.endExpectation), found \(json.shown)")
        }
        return FormRange.End(number: ComparedNumber(number), text: json.text ?? number.source, isIncluded: isIncluded)
    }
}

extension AnswerRule {
    /// The expected kind of an end of a range. The ends for whole numbers may be any numbers.
    fileprivate var endExpectation: String {
        if case .number = self { "a number" } else { expectation }
    }

    /// The answers that are possible, for types that are compared.
    fileprivate var order: (isWhole: Bool, FormRange) {
        switch self {
        case .number(let range, let isWhole): (isWhole, range)
        case .date(let range), .time(let range): (true, range)
        case .text, .checkbox, .choice, .choices, .files, .signature, .location, .group: (false, FormRange())
        }
    }

    /// The reason why no answer can ever be this value; `nil`: it can.
    fileprivate func impossibility(of value: JSON) -> String? {
        switch self {
        case .choice(let choices), .choices(let choices, _, _):
            if choices.contains(value) { return nil }
            let near =
                value.text.flatMap { nearestName(to: $0, among: choices.list.compactMap(\.text)) }.map { "; did you mean \($0)?" } ?? ""
            return "can never hold: \(value.shown) is not among the choices" + near
        case .files, .signature, .location, .group:
            return #"compares values, and the answer is \#(expectation); write {"set": true} or {"set": false}"#
        case .text, .number, .checkbox, .date, .time:
            if case .text = self, value.text?.isEmpty == true {
                return #"can never hold: an empty text is no answer; write {"set": false}"#
            }
            var steps = Form.stepsMax
            return fault(of: value, steps: &steps).map { "can never hold: an answer \($0.detail)" }
        }
    }
}
