import HubServer
import SyncCore
import Testing

/// Forms at the hub (PROTOCOL A12): the merged record is judged by the form that it names.
@Suite("Forms and merges at the hub", .eachEngine)
struct FormMergeTests {
    private static let form: JSONObject = [
        "schema": [
            "sections": [
                [
                    "id": "doors",
                    "fields": [
                        ["id": "q1", "type": "choice", "choices": ["pass", "fail"], "required": true],
                        ["id": "q2", "type": "text", "required": true, "visible_when": ["q1": "fail"]],
                    ],
                ]
            ]
        ]
    ]

    private static func bench() throws -> HubBench {
        var audits = EntityRules()
        audits.form = FormSettings(entity: "forms", ref: "form_id", version: "form_version")
        audits.complete = CompleteRule(when: ["status": ["completed"]])
        var forms = EntityRules()
        forms.kind = .reference
        let bench = try HubBench(rules: RuleBook(["audits": audits, "forms": forms]))
        try bench.hub.publish(RecordName("forms", "doors:1"), form, at: bench.now)
        return bench
    }

    private static let draft: JSONObject = ["form_id": "doors", "form_version": 1, "q1": "pass"]

    private static func version(_ verdict: PushResult.Verdict) throws -> Int64 {
        guard case .accepted(let version, _, _, _) = verdict else {
            Issue.record("\(verdict)")
            return 0
        }
        return version
    }

    private static func rejection(_ verdict: PushResult.Verdict) -> Problem? {
        guard case .rejected(let problem, _) = verdict else { return nil }
        return problem
    }

    @Test("The later one of two changes that are right alone and wrong together is rejected by name")
    func together() throws {
        let bench = try Self.bench()
        let created = try Self.version(try bench.verdict(Sent("k-1", .create, data: .object(Self.draft))))
        _ = try Self.version(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["status": "completed"], base: created, ms: 200)))
        let problem = Self.rejection(try bench.verdict(Sent("k-3", .update, data: ["q1": "fail"], base: created, ms: 300), device: .two))
        #expect(problem?.code == "validation" && problem?.errors == [Problem.Pointer("/data/q2", "is required")])
        #expect(problem?.detail.hasSuffix("the record at the hub is newer than the one that the change was made on") == true)
    }

    @Test("A change that the device could not judge is judged here")
    func judged() throws {
        let bench = try Self.bench()
        var record = Self.draft
        (record["status"], record["q1"]) = ("completed", "fail")
        #expect(Self.rejection(try bench.verdict(Sent("k-1", .create, data: .object(record))))?.errors.map(\.pointer) == ["/data/q2"])
        record["q2"] = 7
        #expect(
            Self.rejection(try bench.verdict(Sent("k-2", seq: 2, .create, data: .object(record))))?.errors.map(\.pointer) == ["/data/q2"])
        record["q2"] = "hinge"
        _ = try Self.version(try bench.verdict(Sent("k-3", seq: 3, .create, data: .object(record))))
    }

    @Test("A form that is not here judges nothing")
    func absent() throws {
        let bench = try Self.bench()
        var record = Self.draft
        (record["status"], record["form_version"], record["q1"]) = ("completed", 2, nil)
        _ = try Self.version(try bench.verdict(Sent("k-1", .create, data: .object(record))))
    }

    @Test("A form that cannot be completed is not published")
    func published() throws {
        let bench = try Self.bench()
        let error = #expect(throws: HubError.self) {
            try bench.hub.publish(
                RecordName("forms", "doors:2"), ["schema": ["sections": [["id": "s", "fields": [["id": "q", "type": "txt"]]]]]],
                at: bench.now)
        }
        #expect(error?.description.contains("/schema/sections/0/fields/0/type") == true)
    }
}
