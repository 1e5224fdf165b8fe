import SyncCore
import Testing

/// A mistake of an author is refused with its place and the reason, before a device has to live with it.
@Suite("Reading a form")
struct FormReaderTests {
    /// A form with one section of these questions.
    private static func form(_ fields: JSON...) -> JSON { ["sections": [["id": "s", "fields": .array(fields)]]] }

    private static func question(_ id: String, _ type: String, _ others: JSONObject = [:]) -> JSON {
        var object: JSONObject = ["id": .string(id), "type": .string(type)]
        for member in others.members { object[member.name.text] = member.value }
        return .object(object)
    }

    private static let door = question("door", "choice", ["choices": ["pass", "fail"]])

    struct Case: CustomTestStringConvertible, Sendable {
        var form: JSON
        var pointer: String
        var detail: String
        var testDescription: String { detail }

        init(_ form: JSON, _ pointer: String, _ detail: String) {
            (self.form, self.pointer, self.detail) = (form, pointer, detail)
        }
    }

    private static func visible(_ condition: JSON, _ others: JSON...) -> JSON {
        form(door, question("count", "integer", ["min": 0, "max": 10]), question("x", "text", ["visible_when": condition]))
    }

    @Test(
        "Mistakes in questions",
        arguments: [
            Case([], "", "must be an object, found an array"),
            Case([:], "", "has no sections; write sections with fields, or a JSON Schema in schema or complete"),
            Case(["sections": [["id": "s"]]], "/sections/0", "has no fields"),
            Case(["section": []], "/section", "unknown key; did you mean sections?"),
            Case(form(question("a", "txt")), "/sections/0/fields/0/type", "did you mean text?"),
            Case(form(question("a", "text", ["requird": true])), "/sections/0/fields/0/requird", "unknown key; did you mean required?"),
            Case(form(question("a", "text", ["min": 1])), "/sections/0/fields/0/min", "is no rule of the type text, only of number"),
            Case(form(door, door), "/sections/0/fields/1/id", "door is the id of an earlier question"),
            Case(form(question("all", "text")), "/sections/0/fields/0/id", "all is a word of conditions"),
            Case(form(question("", "text")), "/sections/0/fields/0/id", "needs an id"),
            Case(form(question("a", "choice")), "/sections/0/fields/0/choices", "must be a list of choices"),
            Case(
                form(question("a", "choice", ["choices": ["x", ["value": "x"]]])), "/sections/0/fields/0/choices/1",
                "\"x\" is an earlier choice"),
            Case(form(question("a", "number", ["min": 2, "max": 1])), "/sections/0/fields/0/max", "is below min"),
            Case(form(question("a", "date", ["min": "30.4.2026"])), "/sections/0/fields/0/min", "must be a date such as 2026-04-30"),
            Case(form(question("a", "text", ["pattern": "(?=x)"])), "/sections/0/fields/0/pattern", "must be a regular expression"),
            Case(
                form(question("a", "multi_choice", ["choices": ["x"], "min": 2])), "/sections/0/fields/0/min",
                "is 2, and there are 1 choices"),
            Case(form(question("a", "group", ["fields": []])), "/sections/0/fields/0/fields", "must have a question"),
            Case(["schema": ["typ": "object"]], "/schema/typ", "unknown keyword; did you mean type?"),
        ])
    func refusesQuestion(_ example: Case) { expectRefusal(example) }

    @Test(
        "Mistakes in conditions",
        arguments: [
            Case(visible(["dor": "fail"]), "/sections/0/fields/2/visible_when/dor", "there is no question dor; did you mean door?"),
            Case(
                visible(["door": "fial"]), "/sections/0/fields/2/visible_when/door", "\"fial\" is not among the choices; did you mean fail?"
            ),
            Case(visible(["door": ["pass", "no"]]), "/sections/0/fields/2/visible_when/door/1", "\"no\" is not among the choices"),
            Case(visible(["door": ["min": 2]]), "/sections/0/fields/2/visible_when/door/min", "compares numbers, dates and times"),
            Case(
                visible(["count": ["above": 10]]), "/sections/0/fields/2/visible_when/count", "can never hold: no answer"),
            Case(visible(["count": ["above": 3, "below": 4]]), "/sections/0/fields/2/visible_when/count", "can never hold"),
            Case(
                visible(["count": 11]), "/sections/0/fields/2/visible_when/count", "an answer must be at most 10, found 11"),
            Case(
                visible(["x": ["set": true]]), "/sections/0/fields/2/visible_when", "makes a circle, so it could never be decided: x -> x"),
            Case(visible(["door": nil]), "/sections/0/fields/2/visible_when/door", "must be a value; for \"not answered\""),
            Case(visible([:]), "/sections/0/fields/2/visible_when", "must be a condition such as"),
            Case(
                visible(["all": [["door": "pass"], ["door": "fail"]]]), "/sections/0/fields/2/visible_when",
                "door cannot have two values at once"),
            Case(
                visible(["door": ["set": true], "not": ["any": [["door": "pass"], ["door": "fail"]]]]), "/sections/0/fields/2/visible_when",
                "door has none of the values that other parts allow"),
            Case(
                visible(["all": [["count": ["min": 4]], ["count": ["max": 3]]]]), "/sections/0/fields/2/visible_when",
                "count cannot be in ranges that have nothing in common"),
            Case(
                visible(["door": "pass", "any": [["door": "fail"], ["door": ["set": false]]]]), "/sections/0/fields/2/visible_when",
                "can never hold: door"),
        ])
    func refusesCondition(_ example: Case) { expectRefusal(example) }

    @Test
    func conditionOnQuestionThatIsNeverThereThen() {
        let json = Self.form(
            Self.door, Self.question("why", "text", ["visible_when": ["door": "fail"]]),
            Self.question("x", "text", ["visible_when": ["why": ["set": true], "door": "pass"]]))
        expectRefusal(Case(json, "/sections/0/fields/2/visible_when", "door cannot have two values at once"))
    }

    @Test
    func conditionOfSectionCountsForItsQuestions() {
        let json: JSON = [
            "sections": [
                ["id": "a", "fields": [Self.door]],
                [
                    "id": "b", "visible_when": ["door": "fail"],
                    "fields": [Self.question("x", "text", ["visible_when": ["door": "pass"]])],
                ],
            ]
        ]
        expectRefusal(Case(json, "/sections/1/fields/0/visible_when", "door cannot have two values at once"))
    }

    @Test
    func sectionThatDependsOnItsOwnQuestion() {
        let json: JSON = ["sections": [["id": "a", "visible_when": ["door": "fail"], "fields": [Self.door]]]]
        expectRefusal(Case(json, "/sections/0/visible_when", "makes a circle, so it could never be decided: door -> section a -> door"))
    }

    @Test
    func questionOutsideOfGroupCannotLookIntoIt() {
        let json = Self.form(
            Self.question("doors", "group", ["fields": [Self.door]]), Self.question("x", "text", ["visible_when": ["door": "fail"]]))
        expectRefusal(Case(json, "/sections/0/fields/1/visible_when/door", "door is repeated in the group doors"))
    }

    @Test(
        "Conditions that can hold",
        arguments: [
            ["door": "fail"], ["door": ["pass", "fail"]], ["door": ["equals": "pass"]], ["door": ["in": ["pass"]]], ["count": ["min": 10]],
            ["count": ["above": 3, "below": 5]], ["not": ["door": "fail"]], ["any": [["door": "pass"], ["door": "fail"]]],
            ["not": ["all": [["door": "pass"], ["count": 1]]]], ["door": ["set": false], "count": 3],
            ["not": ["any": [["door": "pass"], ["door": "fail"]]]],
        ] as [JSON])
    func acceptsCondition(_ condition: JSON) throws {
        _ = try Form(Self.visible(condition))
    }

    private func expectRefusal(_ example: Case) {
        do throws(Problem) {
            _ = try Form(example.form)
            Issue.record("was accepted: \(example.form.json)")
        } catch {
            #expect(error.errors.first?.pointer == example.pointer)
            #expect(error.errors.first?.detail.contains(example.detail) == true, "\(error.detail)")
        }
    }
}
