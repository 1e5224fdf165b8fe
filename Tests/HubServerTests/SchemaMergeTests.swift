import HubServer
import SyncCore
import Testing

/// Rules between fields at the hub (PROTOCOL A12): they are judged on the merged record, and a change answers only for what it brings.
@Suite("Schemas and merges at the hub", .eachEngine)
struct SchemaMergeTests {
    private static func bench(_ validation: EntityRules.Validation = .warn) throws -> HubBench {
        var rules = EntityRules()
        rules.fields = ["count": .counter]
        rules.validation = validation
        rules.schema = try DocumentSchema([
            "properties": ["status": ["enum": ["open", "completed"]], "count": ["maximum": 5]],
            "if": ["properties": ["status": ["const": "completed"]], "required": ["status"]], "then": ["required": ["answer"]],
        ])
        return try HubBench(rules: RuleBook(["audits": rules]))
    }

    private static func version(_ verdict: PushResult.Verdict) throws -> Int64 {
        guard case .accepted(let version, _, _, _) = verdict else {
            Issue.record("\(verdict)")
            return 0
        }
        return version
    }

    @Test("The later one of two changes that are right alone and wrong together is rejected by name")
    func together() throws {
        let bench = try Self.bench()
        let created = try Self.version(try bench.verdict(Sent("k-1", .create, data: ["status": "open", "answer": "pass"])))
        // One device completes the record, the other one takes the answer away. Neither has seen the other.
        _ = try Self.version(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["status": "completed"], base: created, ms: 200)))
        let verdict = try bench.verdict(Sent("k-3", .update, unset: ["answer"], base: created, ms: 300), device: .two)
        guard case .rejected(let problem, _) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(problem.code == "validation" && problem.errors == [Problem.Pointer("/data/answer", "is required")])
        #expect(problem.detail.hasSuffix("the record at the hub is newer than the one that the change was made on"))
        #expect(try bench.data("audits", "a-1") == ["status": "completed", "answer": "pass"])
    }

    @Test("A record that breaks a new rule already can be changed, and put right")
    func olderRecords() throws {
        let bench = try Self.bench(.off)
        let created = try Self.version(try bench.verdict(Sent("k-1", .create, data: ["status": "completed"])))
        bench.hub.settings.rules = try Self.bench().hub.settings.rules
        let noted = try Self.version(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["note": "x"], base: created, ms: 200)))
        let mended = try Self.version(try bench.verdict(Sent("k-3", seq: 3, .update, data: ["answer": "pass"], base: noted, ms: 300)))
        guard case .rejected = try bench.verdict(Sent("k-4", seq: 4, .update, unset: ["answer"], base: mended, ms: 400)) else {
            Issue.record("a hole in a completed record was accepted")
            return
        }
    }

    @Test("Counts that are right alone may be too high together")
    func operations() throws {
        let bench = try Self.bench()
        let created = try Self.version(try bench.verdict(Sent("k-1", .create, data: ["status": "open", "count": 3])))
        let add: JSON = ["field": "count", "op": "inc", "value": 2]
        _ = try Self.version(try bench.verdict(Sent("k-2", seq: 2, .update, ops: [add], base: created, ms: 200)))
        _ = try Self.version(try bench.verdict(Sent("k-3", .update, ops: [add], base: created, ms: 300), device: .two))
        #expect(try bench.data("audits", "a-1")?["count"] == 7)
    }

    @Test("A hub without validation judges nothing")
    func off() throws {
        _ = try Self.version(try Self.bench(.off).verdict(Sent("k-1", .create, data: ["status": "completed"])))
    }
}
