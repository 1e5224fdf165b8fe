import SyncCore
import Testing

/// A form can come from a server, and a record from any app. Neither may hold up the agent: what is too large is refused, and what cannot
/// be judged within the limits never counts as right.
@Suite("Hostile forms")
struct HostileFormTests {
    private static func list(_ count: Int, _ make: (Int) -> JSON) -> JSON { .array((0..<count).map(make)) }
    private static func form(_ fields: JSON) -> JSON { ["sections": [["id": "s", "fields": fields]]] }

    private static func groups(_ depth: Int) -> JSON {
        let inner: JSON = depth == 0 ? ["id": "x", "type": "text"] : groups(depth - 1)
        return ["id": "g", "type": "group", "fields": [inner]]
    }

    private static func nested(_ depth: Int) -> JSON { depth == 0 ? ["x": "a"] : ["not": nested(depth - 1)] }

    struct Case: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var form: JSON
        var detail: String
    }

    @Test(
        "A form that is too large is refused",
        arguments: [
            Case(
                testDescription: "many questions", form: form(list(2_001) { ["id": .string("q\($0)"), "type": "text"] }),
                detail: "is beyond 2000 questions of a form"),
            Case(
                testDescription: "many sections", form: ["sections": list(201) { ["id": .int($0), "fields": []] }],
                detail: "more than 200 sections"),
            Case(testDescription: "groups in groups", form: form([groups(20)]), detail: "is nested in more than 4 groups"),
            Case(
                testDescription: "deep condition",
                form: form([["id": "x", "type": "text"], ["id": "y", "type": "text", "visible_when": nested(1_000)]]),
                detail: "is nested more than 8 deep"),
            Case(
                testDescription: "many parts of conditions",
                form: form(
                    .array(
                        [["id": "x", "type": "text"]]
                            + (0..<100).map {
                                ["id": .string("q\($0)"), "type": "text", "visible_when": ["x": list(1_000) { .string("v\($0)") }]]
                            })),
                detail: "the conditions of the form have more than 20000 tests and values"),
            Case(
                testDescription: "many choices", form: form([["id": "x", "type": "choice", "choices": list(1_001) { .string("c\($0)") }]]),
                detail: "has more than 1000 choices"),
            Case(
                testDescription: "large patterns",
                form: form(list(200) { ["id": .string("q\($0)"), "type": "text", "pattern": .string("[a-c]{1,900}\($0)")] }),
                detail: "the patterns of the form are too large together"),
            Case(
                testDescription: "a circle through all questions",
                form: form(
                    list(2_000) {
                        [
                            "id": .string("q\($0)"), "type": "text",
                            "visible_when": .object(JSONObject(dictionaryLiteral: ("q\(($0 + 1) % 2_000)", ["set": true]))),
                        ]
                    }), detail: "makes a circle"),
        ])
    func tooLarge(_ example: Case) {
        do throws(Problem) {
            _ = try Form(example.form)
            Issue.record("was accepted")
        } catch {
            #expect(error.detail.contains(example.detail), "\(error.detail)")
            #expect(error.detail.utf8.count < 2_000)
        }
    }

    @Test("A chain of conditions through all questions is judged in a few steps")
    func chain() throws {
        let form = try Form(
            Self.form(
                Self.list(2_000) { index in
                    var field: JSONObject = ["id": .string("q\(index)"), "type": "text", "required": true]
                    if index < 1_999 { field["visible_when"] = .object(JSONObject(dictionaryLiteral: ("q\(index + 1)", "yes"))) }
                    return .object(field)
                }))
        var record = JSONObject()
        for index in 0..<2_000 { record["q\(index)"] = "yes" }
        let judged = form.judge(record)
        #expect(judged.holes.isEmpty && judged.steps < 20_000)
        record["q1999"] = "no"
        #expect(form.progress(of: record).total == FormCount(questions: 1, answered: 1, required: 1, missing: 0))
    }

    @Test("Conditions that are long to search for contradictions are read all the same")
    func search() throws {
        // 20 alternatives in each of 8 levels, all of which contradict each other.
        let condition = (0..<7).reduce(["n": ["min": 1]] as JSON) { inner, level in
            ["any": Self.list(12) { ["all": [["n": ["min": .int($0)]], inner, ["m": .int(level)]]] }]
        }
        let fields: JSON = [
            ["id": "n", "type": "integer"], ["id": "m", "type": "integer"], ["id": "q", "type": "text", "visible_when": condition],
        ]
        // Too many parts, or judged as far as it goes: both take a moment only.
        _ = try? Form(Self.form(fields))
        let flat: JSON = .object([
            "all": Self.list(90) { number in ["any": Self.list(90) { ["n": .int($0 == 89 ? number : 1_000 + number * 90 + $0)] }] }
        ])
        _ = try Form(
            Self.form([
                ["id": "n", "type": "integer"], ["id": "m", "type": "integer"], ["id": "q", "type": "text", "visible_when": flat],
            ]))
    }

    @Test("Entries of groups in groups that cost too much are refused")
    func entries() throws {
        let inner: JSON = ["id": "g", "type": "group", "fields": Self.list(1_900) { ["id": .string("q\($0)"), "type": "text"] }]
        let form = try Form(Self.form([["id": "g", "type": "group", "fields": [inner]]]))
        let empty: JSON = ["g": Self.list(100) { _ in [:] }]
        let judged = form.judge(["g": Self.list(1_000) { _ in empty }])
        #expect(judged.isTooCostly && !judged.isComplete)
        #expect(judged.faults.last?.detail.hasPrefix("cannot be judged by its form within") == true)
        #expect(judged.steps < Form.stepsMax + 1_000)
    }

    @Test("A pattern with many states over a long text is refused")
    func pattern() throws {
        let form = try Form(Self.form([["id": "q", "type": "text", "pattern": "([ab]{1,60}[ab]{1,60}){1,8}c"]]))
        let judged = form.judge(["q": .string(String(repeating: "a", count: 200_000))])
        #expect(judged.isTooCostly && judged.faults.count == 1)
    }
}
