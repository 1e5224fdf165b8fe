/// The condition of a question or section, with the questions that it looks at by their numbers.
indirect enum FormCondition: Sendable {
    case all([FormCondition])
    case any([FormCondition])
    case not(FormCondition)
    case test(Int, FormTest)

    /// The questions that it looks at.
    var questions: [Int] {
        switch self {
        case .all(let parts), .any(let parts): parts.flatMap(\.questions)
        case .not(let part): part.questions
        case .test(let question, _): [question]
        }
    }
}

enum FormTest: Sendable {
    /// There is an answer, or there is none.
    case isSet(Bool)
    /// The answer, or an element of it, is one of the values.
    case oneOf(AllowedValues)
    case range(FormRange)

    /// - Parameter answer: `nil` where there is none, and where its question is hidden: a hidden answer does not count.
    func holds(for answer: JSON?, _ rule: AnswerRule) -> Bool {
        guard let answer, !AnswerRule.isBlank(answer) else {
            if case .isSet(false) = self { return true }
            return false
        }
        switch self {
        case .isSet(let wanted): return wanted
        case .oneOf(let values):
            if case .choices = rule { return answer.array?.contains { values.contains($0) } ?? false }
            // A time has two spellings.
            if case .time = rule, let number = rule.number(of: answer) {
                return values.list.contains { rule.number(of: $0) == number }
            }
            return values.contains(answer)
        case .range(let range): return rule.number(of: answer).map { range.admits($0) } ?? false
        }
    }

    /// Number of steps that it takes.
    func cost(for answer: JSON?) -> Int { 1 + (answer?.array?.count ?? 0) }
}
