/// Finds conditions that can never hold, together with those of the questions that they look at: `q1` cannot be `pass` and `fail` at once,
/// and a question that is only there when `q1` is `pass` has no answer when `q1` is `fail`.
///
/// It is a search for mistakes, not a proof: what it finds can indeed never hold, and it gives up where a search would take long.
struct FormSatisfiability {
    /// Largest number of questions whose own conditions are joined to one.
    private static let joinedMax = 64
    /// Largest number of parts that are looked at for one form.
    private static let partsMax = 1_000_000

    private let questions: [FormQuestion]
    private let sections: [FormSection]
    private var partsLeft = Self.partsMax
    /// The first contradiction that was found, in words.
    private var reason = ""

    /// - Parameter problem: Makes the error of a node and a text. Sections have the numbers after those of the questions.
    static func check(
        _ questions: [FormQuestion], _ sections: [FormSection], problem: (Int, String) -> Problem
    ) throws(Problem) {
        var search = FormSatisfiability(questions: questions, sections: sections)
        for (index, section) in sections.enumerated() {
            guard let condition = section.condition else { continue }
            if let reason = search.contradiction(in: [condition]) { throw problem(questions.count + index, reason) }
        }
        for (index, question) in questions.enumerated() where question.condition != nil {
            if let reason = search.contradiction(in: search.conditions(of: index)) { throw problem(index, reason) }
        }
    }

    private init(questions: [FormQuestion], sections: [FormSection]) {
        self.questions = questions
        self.sections = sections
    }

    private mutating func contradiction(in conditions: [FormCondition]) -> String? {
        reason = ""
        return canHold(conditions.map { Part(condition: $0) }, Facts()) ? nil : "can never hold: " + reason
    }

    /// The conditions under which a question is visible, without those of its group's section, which every question of the group shares.
    private func conditions(of number: Int) -> [FormCondition] {
        var found: [FormCondition] = []
        var next: Int? = number
        while let question = next {
            if let condition = questions[question].condition { found.append(condition) }
            next = questions[question].group
        }
        if let condition = sections[questions[number].section].condition { found.append(condition) }
        return found
    }

    private struct Part {
        var condition: FormCondition
        var isNegated = false
    }

    /// Known facts about the answers while all parts hold.
    private struct Facts {
        var answers: [Int: Fact] = [:]
        /// The questions whose conditions were joined.
        var joined = Set<Int>()
    }

    private struct Fact {
        var isAnswered = false
        var isUnanswered = false
        /// Lists of values of which each has at least one.
        var wanted: [[JSON]] = []
        var excluded = Set<JSON>()
        var range = FormRange()
    }

    private mutating func canHold(_ parts: [Part], _ known: Facts) -> Bool {
        var facts = known
        var open = parts
        var alternatives: [[Part]] = []
        while let part = open.popLast() {
            partsLeft -= 1
            guard partsLeft >= 0 else { return true }
            switch part.condition {
            case .not(let inner): open.append(Part(condition: inner, isNegated: !part.isNegated))
            case .all(let inner), .any(let inner):
                let inner = inner.map { Part(condition: $0, isNegated: part.isNegated) }
                if part.condition.isAny == part.isNegated { open += inner } else { alternatives.append(inner) }
            case .test(let number, let test):
                guard add(test, part.isNegated, number, &facts.answers[number, default: Fact()]) else { return false }
                guard facts.answers[number]?.isAnswered == true, facts.joined.count < Self.joinedMax,
                    facts.joined.insert(number).inserted
                else { continue }
                open += conditions(of: number).map { Part(condition: $0) }
            }
        }
        for list in alternatives {
            // Each alternative is tried with what is known, and not with every choice among the others.
            partsLeft -= facts.answers.count
            if !list.contains(where: { canHold([$0], facts) }) { return false }
        }
        return true
    }

    /// - Returns: `false` when it contradicts what is known.
    private mutating func add(_ test: FormTest, _ isNegated: Bool, _ number: Int, _ fact: inout Fact) -> Bool {
        switch (test, isNegated) {
        case (.isSet(let wanted), _): if wanted != isNegated { fact.isAnswered = true } else { fact.isUnanswered = true }
        case (.oneOf(let values), false):
            fact.isAnswered = true
            fact.wanted.append(values.list)
            partsLeft -= values.list.count
        case (.oneOf(let values), true):
            fact.excluded.formUnion(values.list)
            partsLeft -= values.list.count
        case (.range(let range), false):
            fact.isAnswered = true
            fact.range = fact.range.narrowed(by: range)
        // Outside of a range, or without an answer: it says nothing that could be used.
        case (.range, true): break
        }
        guard let contradiction = contradiction(in: &fact, questions[number].rule) else { return true }
        if reason.isEmpty { reason = "\(questions[number].id.text.prefix(60)) \(contradiction)" }
        return false
    }

    private mutating func contradiction(in fact: inout Fact, _ rule: AnswerRule) -> String? {
        if fact.isAnswered && fact.isUnanswered { return "cannot be answered and not answered at once" }
        guard fact.isAnswered else { return nil }
        var isWhole = false
        switch rule {
        case .choices:
            // Several choices may be taken at once.
            let isOver = fact.wanted.contains { $0.allSatisfy { fact.excluded.contains($0) } }
            return isOver ? "must and must not have the same choice" : nil
        // Two spellings of one time are no contradiction.
        case .time: return nil
        case .choice(let choices): fact.wanted = [common(fact.wanted + [choices.list])]
        case .checkbox: fact.wanted = [common(fact.wanted + [[true, false]])]
        case .number(_, let whole): isWhole = whole
        case .date: isWhole = true
        case .text, .files, .signature, .location, .group: break
        }
        if fact.range.isEmpty(isWhole: isWhole) { return "cannot be in ranges that have nothing in common" }
        guard !fact.wanted.isEmpty else { return nil }
        let values = common(fact.wanted)
        fact.wanted = [values]
        if values.isEmpty { return "cannot have two values at once" }
        partsLeft -= values.count
        let range = fact.range
        let isPossible = values.contains { value in
            !fact.excluded.contains(value) && (range.isOpen || rule.number(of: value).map { range.admits($0) } ?? false)
        }
        return isPossible ? nil : "has none of the values that other parts allow"
    }

    private mutating func common(_ lists: [[JSON]]) -> [JSON] {
        partsLeft -= lists.reduce(0) { $0 + $1.count }
        return lists.dropFirst().reduce(lists.first ?? []) { values, other in
            let others = AllowedValues(other)
            return values.filter { others.contains($0) }
        }
    }
}

extension FormCondition {
    fileprivate var isAny: Bool {
        if case .any = self { true } else { false }
    }
}
