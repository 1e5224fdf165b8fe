import SyncCore
import Testing

/// The verdict of a record's form about a change, wherever the form comes from (PROTOCOL A12).
@Suite("Changes and forms")
struct FormVerdictTests {
    private static let rules: EntityRules = {
        var rules = EntityRules()
        rules.form = FormSettings(entity: EntityName(trusted: "forms"), ref: "form", version: "v")
        rules.complete = CompleteRule(when: ["status": ["done"]])
        return rules
    }()

    private static func form(_ others: JSONObject = [:]) -> JSONObject {
        var record: JSONObject = [
            "schema": [
                "sections": [
                    [
                        "id": "s",
                        "fields": [
                            ["id": "q", "type": "choice", "choices": ["pass", "fail"], "required": true],
                            ["id": "why", "type": "text", "required": true, "visible_when": ["q": "fail"]],
                        ],
                    ]
                ]
            ]
        ]
        for member in others.members { record[member.name.text] = member.value }
        return record
    }

    /// The records of the forms.
    private static let records: [String: JSONObject] = [
        "doors": form(["version": 2]), "doors:1": form(), "plain": form(), "broken": ["schema": ["sections": 1]], "empty": [:],
    ]

    private static func verdict(_ after: JSONObject, before: JSONObject? = nil, rules: EntityRules = rules) throws -> FormVerdict {
        var cache = FormCache()
        return try FormVerdict(rules, after: after, before: before) { name, settings in
            try cache.find(name, settings) { name throws -> FormCache.Source? in
                records[name.id.text].map { record in FormCache.Source(mark: record.json) { record } }
            }
        }
    }

    private static func places(_ pointers: [Problem.Pointer]) -> [String] { pointers.map(\.pointer) }

    @Test("Which version of a form judges a record")
    func versions() throws {
        func unjudged(_ form: JSON, _ version: JSON?) throws -> FormVerdict.Unjudged? {
            var record: JSONObject = ["form": form]
            record["v"] = version
            return try Self.verdict(record).unjudged
        }
        #expect(try unjudged("doors", 2) == nil)
        #expect(try unjudged("doors", "2") == nil)
        // Version 1 is a record of its own, and stays while the plain record goes on.
        #expect(try unjudged("doors", 1) == nil)
        #expect(try unjudged("doors", 3) == .absent)
        // A record without a version, and a form with one.
        #expect(try unjudged("doors", nil) == .absent)
        #expect(try unjudged("plain", nil) == nil)
        #expect(try unjudged("plain", 1) == .absent)
        #expect(try unjudged("doors:1", nil) == nil)
        #expect(try unjudged("none", 1) == .absent)
        #expect(try unjudged("not an id", 1) == .absent)
        #expect(try unjudged("broken", nil) == .unusable)
        #expect(try unjudged("empty", nil) == .unusable)
        #expect(try Self.verdict(["status": "open"]) == FormVerdict())
    }

    @Test("A draft may have holes, and a complete record none")
    func complete() throws {
        let draft: JSONObject = ["form": "doors", "v": 2, "q": "fail"]
        #expect(try Self.verdict(draft) == FormVerdict())
        var done = draft
        done["status"] = "done"
        #expect(Self.places(try Self.verdict(done).holes) == ["/data/why"])
        #expect(Self.places(try Self.verdict(done, before: draft).holes) == ["/data/why"])
        done["why"] = "hinge"
        #expect(try Self.verdict(done, before: draft) == FormVerdict())
        var rules = Self.rules
        rules.validation = .off
        #expect(try Self.verdict(["form": "doors", "v": 2, "q": 1], rules: rules) == FormVerdict())
    }

    @Test("A complete record names its form")
    func unnamed() throws {
        #expect(Self.places(try Self.verdict(["status": "done"]).holes) == ["/data/form"])
        #expect(try Self.verdict(["status": "done", "note": "x"], before: ["status": "done"]) == FormVerdict())
        #expect(Self.places(try Self.verdict(["status": "done"], before: ["status": "done", "form": "doors"]).holes) == ["/data/form"])
    }

    @Test("A change answers for what it brings, not for what was there")
    func earlier() throws {
        let before: JSONObject = ["form": "doors", "v": 2, "status": "done", "q": "bad"]
        var after = before
        after["note"] = "x"
        #expect(try Self.verdict(after, before: before) == FormVerdict())
        after["q"] = "fail"
        #expect(Self.places(try Self.verdict(after, before: before).holes) == ["/data/why"])
        after["q"] = "worse"
        #expect(Self.places(try Self.verdict(after, before: before).faults) == ["/data/q"])
        // A place is named once.
        #expect(Self.places(try Self.verdict(after, before: before).all) == ["/data/q"])
        // Another form judges the record as a whole.
        #expect(Self.places(try Self.verdict(before, before: ["form": "plain", "status": "done", "q": "bad"]).faults) == ["/data/q"])
    }

    @Test("A form that changed under its name is read again")
    func changed() throws {
        var cache = FormCache()
        let settings = FormSettings(entity: EntityName(trusted: "forms"), ref: "form")
        func find(_ record: JSONObject) -> FormCache.Found {
            cache.find(FormSettings.Name(id: "a"), settings) { _ in FormCache.Source(mark: record.json) { record } }
        }
        guard case .form(let first) = find(Self.form()) else { return #expect(Bool(false)) }
        guard case .form(let second) = find(["schema": ["sections": []]]) else { return #expect(Bool(false)) }
        #expect(first.questionCount == 2 && second.questionCount == 0)
    }

    @Test("A record of the forms' entity must be a form")
    func published() {
        let book = RuleBook([EntityName(trusted: "audits"): Self.rules])
        let forms = EntityName(trusted: "forms")
        #expect(book.formFault(in: Self.form(), of: forms) == nil)
        #expect(book.formFault(in: ["any": 1], of: EntityName(trusted: "others")) == nil)
        #expect(book.formFault(in: ["any": 1], of: forms)?.detail == "the form at /schema: there is no form in the member schema")
        #expect(
            book.formFault(in: ["schema": ["sections": [["id": "s", "fields": [["id": "a", "type": "txt"]]]]]], of: forms)?.errors
                .map(\.pointer) == ["/schema/sections/0/fields/0/type"])
    }
}
