import SyncCore
import Testing

@Suite("Judging a record by its form")
struct FormJudgementTests {
    private static let audit: JSON = [
        "title": "Fire doors",
        "sections": [
            [
                "id": "doors", "title": "Doors",
                "fields": [
                    ["id": "q1", "label": "Does the door close?", "type": "choice", "choices": ["pass", "fail"], "required": true],
                    [
                        "id": "q2", "label": "What is wrong?", "type": "text", "max_length": 5, "required": true,
                        "visible_when": ["q1": "fail"],
                    ],
                    ["id": "p2", "type": "photo", "min": 2, "visible_when": ["q1": ["fail"]]],
                ],
            ],
            [
                "id": "rooms", "visible_when": ["not": ["q1": "fail"]],
                "fields": [
                    ["id": "grade", "type": "rating"],
                    [
                        "id": "room", "type": "group", "min": 1,
                        "fields": [
                            ["id": "name", "type": "text", "required": true],
                            ["id": "lamps", "type": "integer", "min": 0, "required": true],
                            ["id": "note", "type": "text", "required": true, "visible_when": ["lamps": ["above": 9], "q1": "pass"]],
                        ],
                    ],
                ],
            ],
        ],
    ]

    private static let file: JSON = .object(
        ["$blob": .string("sha256:" + String(repeating: "a", count: 64)), "size": 3, "type": "image/jpeg", "state": "pending"])

    private static func texts(_ pointers: [Problem.Pointer]) -> [String] { pointers.map { $0.pointer + " " + $0.detail } }

    @Test
    func draftHasHolesAndNoFaults() throws {
        let form = try Form(Self.audit)
        #expect(form.faults(in: ["form_id": "fire"]).isEmpty)
        #expect(Self.texts(form.holes(in: [:])) == ["/q1 is required (Does the door close?)", "/room is required"])
    }

    @Test
    func failedDoorAsksForReasonAndPhotos() throws {
        let form = try Form(Self.audit)
        #expect(
            Self.texts(form.holes(in: ["q1": "fail", "p2": Self.file])) == [
                "/q2 is required (What is wrong?)", "/p2 needs at least 2 files, found 1",
            ])
        #expect(form.holes(in: ["q1": "fail", "q2": "hinge", "p2": [Self.file, Self.file]]).isEmpty)
    }

    @Test
    func hiddenAnswersDoNotCount() throws {
        let form = try Form(Self.audit)
        let record: JSONObject = ["q1": "fail", "q2": "hinge", "p2": [Self.file, Self.file], "grade": "wrong", "room": 7]
        #expect(form.judge(record).faults.isEmpty)
        #expect(form.progress(of: record).total.percent == 100)
        // q1 itself is hidden nowhere, so the section comes back with it.
        #expect(Self.texts(form.faults(in: ["q1": "pass", "grade": "wrong"])) == ["/grade must be a whole number, found \"wrong\""])
    }

    @Test
    func questionsOfGroupAreJudgedForEachEntry() throws {
        let form = try Form(Self.audit)
        let record: JSONObject = [
            "q1": "pass", "room": [["name": "A", "lamps": 9], ["name": "B", "lamps": 10], ["lamps": -1], 5],
        ]
        #expect(
            Self.texts(form.faults(in: record)) == [
                "/room/2/lamps must be at least 0, found -1", "/room/3 must be an object with answers, found 5",
            ])
        #expect(
            Self.texts(form.holes(in: record)) == [
                "/room/1/note is required", "/room/2/name is required", "/room/2/lamps must be at least 0, found -1",
            ])
        // q1; grade and room; two questions of each entry, three of the second one.
        #expect(form.progress(of: record).total == FormCount(questions: 10, answered: 6, required: 9, missing: 3))
    }

    @Test
    func progressBySection() throws {
        let progress = try Form(Self.audit).progress(of: ["q1": "fail", "q2": "hinge"])
        #expect(progress.total == FormCount(questions: 3, answered: 2, required: 3, missing: 1))
        #expect(progress.total.percent == 66)
        #expect(progress.sections.map(\.applies) == [true, false])
        #expect(progress.sections[1].count.percent == 100)
        #expect(!progress.isComplete)
        #expect(
            progress.json.json.hasPrefix(
                #"{"questions":3,"answered":2,"required":3,"missing":1,"percent":66,"title":"Fire doors","complete":false,"#))
    }

    struct Kind: CustomTestStringConvertible, Sendable {
        var question: JSONObject
        var good: [JSON]
        var bad: [JSON]
        var testDescription: String { JSON.object(question).json }
    }

    private static func number(_ text: String) -> JSON { (try? JSONReader.read(text)) ?? .null }  // literals of this file

    @Test(
        "Kinds of answers",
        arguments: [
            Kind(
                question: ["type": "text", "max_length": 2], good: ["", "a", "éé", "e\u{301}"],
                bad: ["abc", "\u{1F469}\u{200D}\u{1F469}", 1, [:]]),
            Kind(question: ["type": "text", "pattern": "^[0-9]+$"], good: ["12"], bad: ["1a"]),
            Kind(
                question: ["type": "number", "min": number("0.1"), "max": number("9007199254740993")],
                good: [number("0.10"), number("9007199254740993"), number("1e2")],
                bad: [number("0.0999999999999999999"), number("9007199254740994"), "1"]),
            Kind(question: ["type": "integer"], good: [number("1.0"), number("-12345678901234567890123")], bad: [number("1.5"), true]),
            Kind(question: ["type": "checkbox"], good: [true, false], bad: ["true", 1]),
            Kind(
                question: ["type": "choice", "choices": ["a", ["value": "b", "label": "B"]]], good: ["a", "b"],
                bad: ["c", ["a"], ["value": "b"]]),
            Kind(
                question: ["type": "multi_choice", "choices": ["a", "b", "c"], "max": 2], good: [["a"], ["b", "c"]],
                bad: [["a", "b", "c"], ["a", "a"], ["d"], "a"]),
            Kind(
                question: ["type": "date", "min": "2026-01-01"], good: ["2026-01-01", "2028-02-29"],
                bad: ["2025-12-31", "2027-02-29", "1.1.2026", 20260101]),
            Kind(
                question: ["type": "time", "max": "18:00"], good: ["00:00", "17:59:59", "18:00:00"],
                bad: ["18:00:01", "24:00", "7:00", "12:00Z", "12:00:60"]),
            Kind(question: ["type": "rating"], good: [1, 5], bad: [0, 6, "3"]),
            Kind(question: ["type": "photo", "max": 1], good: [file, [file]], bad: ["x", [:], [file, file], [["$blob": "sha256:1"]]]),
            Kind(question: ["type": "signature"], good: [file], bad: [[file], "Ines"]),
            Kind(
                question: ["type": "location"], good: [["lat": number("47.5"), "lon": -180, "accuracy": 3]],
                bad: [["lat": 91, "lon": 0], ["lat": 1], [1, 2], ["lat": "1", "lon": 1]]),
            Kind(
                question: ["type": "group", "max": 1, "fields": [["id": "x", "type": "text"]]], good: [[], [[:]], [["x": "y"]]],
                bad: [[[:], [:]], [:], [["x": 1]]]),
        ])
    func kindOfAnswer(_ kind: Kind) throws {
        var question = kind.question
        question["id"] = "q"
        let form = try Form(["sections": [["id": "s", "fields": [.object(question)]]]])
        for value in kind.good { #expect(form.faults(in: ["q": value]).isEmpty, "\(value.json)") }
        for value in kind.bad { #expect(form.faults(in: ["q": value]).count == 1, "\(value.json)") }
        #expect(form.faults(in: ["q": nil]).isEmpty)
    }

    struct Condition: CustomTestStringConvertible, Sendable {
        var condition: JSON
        var holds: [JSONObject]
        var fails: [JSONObject]
        var testDescription: String { condition.json }
    }

    @Test(
        "Conditions",
        arguments: [
            Condition(condition: ["c": "a"], holds: [["c": "a"]], fails: [["c": "b"], [:], ["c": nil]]),
            Condition(condition: ["c": ["a", "b"]], holds: [["c": "b"]], fails: [[:]]),
            Condition(condition: ["m": "a"], holds: [["m": ["b", "a"]]], fails: [["m": ["b"]], ["m": []], ["m": "a"]]),
            Condition(condition: ["n": number("1.50")], holds: [["n": number("1.5")]], fails: [["n": 1]]),
            Condition(
                condition: ["n": ["above": 1, "max": 2]], holds: [["n": number("1.01")], ["n": 2]], fails: [["n": 1], ["n": "2"], [:]]),
            Condition(condition: ["d": ["below": "2026-05-01"]], holds: [["d": "2026-04-30"]], fails: [["d": "2026-05-01"], ["d": "x"]]),
            Condition(condition: ["t": "14:05"], holds: [["t": "14:05:00"]], fails: [["t": "14:05:01"]]),
            Condition(condition: ["x": ["set": true]], holds: [["x": "y"]], fails: [[:], ["x": ""], ["x": nil]]),
            Condition(condition: ["f": ["set": false]], holds: [[:], ["f": []]], fails: [["f": file]]),
            Condition(condition: ["not": ["c": "a"]], holds: [[:], ["c": "b"]], fails: [["c": "a"]]),
            Condition(condition: ["c": "a", "n": 1], holds: [["c": "a", "n": 1]], fails: [["c": "a"]]),
            Condition(condition: ["any": [["c": "a"], ["n": 1]]], holds: [["n": 1]], fails: [["n": 2]]),
            Condition(condition: ["all": [["c": "a"], ["not": ["n": 1]]]], holds: [["c": "a"]], fails: [["c": "a", "n": 1]]),
        ])
    func condition(_ example: Condition) throws {
        let form = try Form([
            "sections": [
                [
                    "id": "s",
                    "fields": [
                        ["id": "q", "type": "text", "required": true, "visible_when": example.condition],
                        ["id": "c", "type": "choice", "choices": ["a", "b"]], ["id": "m", "type": "multi_choice", "choices": ["a", "b"]],
                        ["id": "n", "type": "number"], ["id": "d", "type": "date"], ["id": "t", "type": "time"],
                        ["id": "x", "type": "text"],
                        ["id": "f", "type": "file"],
                    ],
                ]
            ]
        ])
        for record in example.holds { #expect(form.holes(in: record).count == 1, "\(record.json)") }
        for record in example.fails { #expect(form.holes(in: record).isEmpty, "\(record.json)") }
    }

    @Test
    func identifiersAreComparedByBytes() throws {
        let form = try Form([
            "sections": [
                ["id": "s", "fields": [["id": "\u{E9}", "type": "text", "required": true], ["id": "e\u{301}", "type": "text"]]]
            ]
        ])
        #expect(form.holes(in: ["\u{E9}": "x"]).isEmpty)
        #expect(form.holes(in: ["e\u{301}": "x"]).count == 1)
    }

    @Test
    func schemasOfTheOwnerCountBesideTheSections() throws {
        let form = try Form([
            "schema": ["properties": ["total": ["type": "integer"]]], "complete": ["required": ["total"]],
            "sections": [["id": "s", "fields": [["id": "q", "type": "text", "required": true]]]],
        ])
        #expect(Self.texts(form.faults(in: ["total": "x"])) == ["/total must be of type integer, found a string"])
        #expect(Self.texts(form.holes(in: [:])) == ["/q is required", "/total is required"])
        #expect(form.progress(of: ["q": "x"]).total == FormCount(questions: 1, answered: 1, required: 2, missing: 1))
        #expect(form.progress(of: ["q": "x", "total": 1]).total.percent == 100)
    }
}
