/// A form that a product owner wrote: sections of questions, with the rules of their answers (deploy/docs/forms.md). It was read once and
/// judges any number of records.
///
/// A form is judged directly, and not translated into `if`, `then` and `else` of a schema. One pass over its questions takes time linear in
/// the form. A hidden answer is left out in one place, also where other conditions look at it, which a schema can say only by repeating
/// every condition wherever its question is named. And a fault can name the question in the words of its author. Owners who need other
/// rules add JSON Schemas of their own in `schema` and `complete`.
package struct Form: Sendable {
    /// Largest number of questions, those in groups included, and of sections.
    package static let questionsMax = 2_000
    package static let sectionsMax = 200
    /// Largest number of choices of one question, and of all.
    package static let choicesMax = 1_000
    package static let choicesOfAllMax = 20_000
    /// Largest nesting of groups in groups.
    package static let groupDepthMax = 4
    /// Largest nesting of `all`, `any` and `not` in a condition.
    package static let conditionDepthMax = 8
    /// Largest number of tests, values and combinations in all conditions together.
    package static let conditionPartsMax = 20_000
    /// Largest number of files of one question, and of entries of one group.
    package static let filesMax = 100
    package static let entriesMax = 1_000
    /// Largest identifier of a question or section, bytes.
    package static let idBytesMax = 128
    /// Largest number of steps of one judgement: a question, a part of a condition, an element or a state of a pattern is a step. An audit
    /// of 100 answers takes some hundred.
    package static let stepsMax = JSONSchema.stepsMax

    /// The form as it was given.
    package let json: JSON
    package let title: String?
    let sections: [FormSection]
    /// All questions in the order of the form. The questions of a group come right after it.
    let questions: [FormQuestion]
    /// The questions outside of groups, in the order of the form.
    let listing: [Int]
    /// The same questions, each after those that its condition looks at.
    let order: [Int]
    /// The owner's own schema of every record, and of complete ones.
    let schema: JSONSchema?
    let complete: JSONSchema?

    /// - Throws: `validation` with a pointer into the form, and the reason.
    package init(_ json: JSON) throws(Problem) {
        var reader = FormReader()
        let parts = try reader.read(json)
        self.json = json
        title = parts.title
        sections = parts.sections
        questions = parts.questions
        listing = parts.questions.indices.filter { parts.questions[$0].group == nil }
        order = parts.order
        schema = parts.schema
        complete = parts.complete
    }

    /// Number of questions, those in groups included.
    package var questionCount: Int { questions.count }

    /// Judges all answers of a record at once. Its members that are no questions do not matter.
    package func judge(_ record: JSONObject) -> FormJudgement {
        var run = FormRun(self)
        return run.judge(record)
    }

    /// Answers of a wrong kind or outside of the rules, each place as a JSON pointer into the record. They matter in a draft, too.
    package func faults(in record: JSONObject) -> [Problem.Pointer] { judge(record).faults }

    /// The answers that are missing for a complete record: visible questions without an answer that they need, each place as a JSON pointer
    /// into the record.
    package func holes(in record: JSONObject) -> [Problem.Pointer] { judge(record).holes }

    /// The numbers of a record for people: in all and by section.
    package func progress(of record: JSONObject) -> FormProgress { FormProgress(self, judge(record)) }
}

extension Form: Hashable {
    // Everything else follows from the text.
    package static func == (left: Form, right: Form) -> Bool { left.json == right.json }
    package func hash(into hasher: inout Hasher) { hasher.combine(json) }
}

struct FormSection: Sendable {
    var id: JSONString
    var title: String?
    var condition: FormCondition?
}

struct FormQuestion: Sendable {
    var id: JSONString
    /// `/` and the identifier, as a piece of a pointer.
    var place: String
    var label: String?
    var section: Int
    /// The group that it is repeated in.
    var group: Int?
    var rule: AnswerRule
    var isRequired: Bool
    var condition: FormCondition?
    /// The questions of a group in the order of the form, and in the order of their conditions.
    var inner: [Int] = []
    var innerOrder: [Int] = []

    /// `true` when a complete record has an answer, as long as the question is visible.
    var isNeeded: Bool { isRequired || rule.least > 0 }
}

/// The judgement of a form about one record.
package struct FormJudgement: Hashable, Sendable {
    /// Largest numbers of places in the lists. The counts are complete.
    package static let faultsMax = SchemaJudgement.faultsMax
    package static let holesMax = 200

    /// Answers of a wrong kind or outside of the rules.
    package var faults: [Problem.Pointer] = []
    /// The holes: everything that a complete record lacks.
    package var holes: [Problem.Pointer] = []
    /// Numbers by section.
    package var sections: [FormCount] = []
    /// Holes that the owner's own schema of complete records finds.
    package var ownHoles = 0
    /// The result of each section's condition.
    package var applies: [Bool] = []
    /// The record was not judged to the end. It does not count as one that fits.
    package var isTooCostly = false
    /// Number of steps that it took.
    package var steps = 0

    package var isComplete: Bool { holes.isEmpty && !isTooCostly }
}

/// Numbers of questions. A question that a condition hides does not count; a question of a group counts once for each entry.
package struct FormCount: Hashable, Sendable {
    package var questions = 0
    package var answered = 0
    /// Questions that a complete record has to answer, and those of them without an answer that fits.
    package var required = 0
    package var missing = 0

    package init(questions: Int = 0, answered: Int = 0, required: Int = 0, missing: Int = 0) {
        (self.questions, self.answered, self.required, self.missing) = (questions, answered, required, missing)
    }

    package static func + (left: FormCount, right: FormCount) -> FormCount {
        FormCount(
            questions: left.questions + right.questions, answered: left.answered + right.answered,
            required: left.required + right.required, missing: left.missing + right.missing)
    }

    /// The part of the required questions that is answered, rounded down: 100 only when nothing is missing, and also when nothing is
    /// required.
    package var percent: Int { required == 0 ? 100 : (required - missing) * 100 / required }
}
