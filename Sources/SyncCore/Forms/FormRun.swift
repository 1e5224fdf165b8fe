/// One pass over the questions of a form and the answers of a record.
///
/// It first finds which questions of a level are visible, each after those that its condition looks at, and then judges the answers in the
/// order of the form. The questions of a group are gone through for each entry, with the values of the levels around it still in place.
struct FormRun {
    private let form: Form
    /// A value that is null counts as blank, like one that is missing.
    private var values: [JSON?]
    private var isVisible: [Bool]
    /// The sections that apply or do not, as soon as that is known.
    private var applies: [Bool?]
    private var stepsLeft = Form.stepsMax
    private var result = FormJudgement()

    init(_ form: Form) {
        self.form = form
        values = Array(repeating: nil, count: form.questions.count)
        isVisible = Array(repeating: false, count: form.questions.count)
        applies = Array(repeating: nil, count: form.sections.count)
        result.sections = Array(repeating: FormCount(), count: form.sections.count)
    }

    mutating func judge(_ record: JSONObject) -> FormJudgement {
        level(record, form.order, form.listing, at: "")
        result.applies = form.sections.indices.map { sectionApplies($0) }
        if let schema = form.schema { result.faults += judge(record, by: schema) }
        if let complete = form.complete {
            let holes = judge(record, by: complete)
            result.ownHoles = holes.count
            result.holes += holes
        }
        if stepsLeft < 0 { result.isTooCostly = true }
        if result.isTooCostly {
            let fault = Problem.Pointer("", "cannot be judged by its form within \(Form.stepsMax) steps; make the answers shorter")
            result.faults.append(fault)
            result.holes.append(fault)
        }
        result.steps += Form.stepsMax - stepsLeft
        return result
    }

    private mutating func judge(_ record: JSONObject, by schema: JSONSchema) -> [Problem.Pointer] {
        let judgement = schema.judge(.object(record), nullIsMissing: true)
        result.steps += judgement.steps
        return judgement.faults.map { Problem.Pointer($0.pointer, $0.detail) }
    }

    // MARK: Conditions

    private mutating func level(_ object: JSONObject, _ order: [Int], _ listing: [Int], at place: String) {
        for number in order {
            let question = form.questions[number]
            stepsLeft -= 1
            guard stepsLeft >= 0 else { return }
            values[number] = object[question.id]
            let isInside = question.group != nil || sectionApplies(question.section)
            isVisible[number] = isInside && (question.condition.map { holds($0) } ?? true)
        }
        for number in listing where isVisible[number] {
            guard stepsLeft >= 0 else { return }
            judge(number, at: place + form.questions[number].place)
        }
    }

    private mutating func sectionApplies(_ section: Int) -> Bool {
        if let known = applies[section] { return known }
        let found = form.sections[section].condition.map { holds($0) } ?? true
        applies[section] = found
        return found
    }

    private mutating func holds(_ condition: FormCondition) -> Bool {
        stepsLeft -= 1
        switch condition {
        case .all(let parts): return parts.allSatisfy { holds($0) }
        case .any(let parts): return parts.contains { holds($0) }
        case .not(let part): return !holds(part)
        case .test(let number, let test):
            let answer = isVisible[number] ? values[number] : nil
            stepsLeft -= test.cost(for: answer)
            return test.holds(for: answer, form.questions[number].rule)
        }
    }

    // MARK: Answers

    private mutating func judge(_ number: Int, at place: String) {
        let question = form.questions[number]
        let isNeeded = question.isNeeded
        result.sections[question.section].questions += 1
        if isNeeded { result.sections[question.section].required += 1 }
        guard let value = values[number], !AnswerRule.isBlank(value) else {
            // Null, a text without content and an empty list are no answers.
            if isNeeded { miss(question, place, Self.required(question)) }
            return
        }
        if let fault = question.rule.fault(of: value, steps: &stepsLeft) {
            guard stepsLeft >= 0 else { return }
            if result.faults.count < FormJudgement.faultsMax { result.faults.append(Problem.Pointer(place + fault.place, fault.detail)) }
            if isNeeded { miss(question, place + fault.place, fault.detail) }
            return
        }
        if let lack = question.rule.lack(of: value) {
            miss(question, place, lack)
        } else {
            result.sections[question.section].answered += 1
        }
        if case .group = question.rule { judge(value.array ?? [], of: question, at: place) }
    }

    private mutating func judge(_ entries: [JSON], of group: FormQuestion, at place: String) {
        for (index, entry) in entries.enumerated() {
            guard stepsLeft >= 0 else { return }
            guard let object = entry.object else {
                if result.faults.count < FormJudgement.faultsMax {
                    result.faults.append(Problem.Pointer("\(place)/\(index)", "must be an object with answers, found \(entry.shown)"))
                }
                continue
            }
            level(object, group.innerOrder, group.inner, at: "\(place)/\(index)")
        }
    }

    private mutating func miss(_ question: FormQuestion, _ place: String, _ detail: String) {
        result.sections[question.section].missing += 1
        if result.holes.count < FormJudgement.holesMax { result.holes.append(Problem.Pointer(place, detail)) }
    }

    private static func required(_ question: FormQuestion) -> String {
        let label = question.label.map { " (\($0.unicodeScalars.count <= 60 ? $0 : String($0.unicodeScalars.prefix(60)) + "…"))" } ?? ""
        let least = question.rule.least
        guard least > 1 else { return "is required" + label }
        switch question.rule {
        case .choices: return "needs at least \(least) choices" + label
        case .files: return "needs at least \(least) files" + label
        case .group, .text, .number, .checkbox, .choice, .date, .time, .signature, .location:
            return "needs at least \(least) entries" + label
        }
    }
}
