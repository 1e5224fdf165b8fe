import SyncCore
import SyncStore
import Testing

/// Rules between the fields of a record (PROTOCOL A12) are judged at the enqueue, against the record as the app sees it.
@Suite("Rules between fields at the enqueue")
struct FieldRuleTests {
    private static func agent(_ validation: EntityRules.Validation) throws -> TestAgent {
        var audit = EntityRules()
        audit.validation = validation
        audit.schema = try DocumentSchema([
            "properties": ["status": ["enum": ["open", "completed"]], "answer": ["enum": ["pass", "fail"]]],
            "if": ["properties": ["status": ["const": "completed"]], "required": ["status"]], "then": ["required": ["answer"]],
        ])
        return try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): audit]))
    }

    @Test("A draft with holes is taken; completed with holes is refused with what is missing")
    func rejects() throws {
        let agent = try Self.agent(.reject)
        try agent.create("a", ["status": "open"])
        let problem = agent.refusal(TestAgent.mutation(.update, "a", ["status": "completed"]))
        #expect(problem?.code == "validation" && problem?.status == 422)
        #expect(problem?.errors == [Problem.Pointer("/data/answer", "is required")])
        #expect(try agent.view("a") == #"{"status":"open"}"#)

        // The answer is there already, from a change of its own.
        try agent.update("a", ["answer": "pass"])
        try agent.update("a", ["status": "completed"])
        #expect(agent.refusal(TestAgent.mutation(.update, "a", ["answer": .null]))?.errors.map(\.pointer) == ["/data/answer"])
    }

    @Test("A fault is named once, whether a rule of the field or of the record finds it")
    func once() throws {
        let problem = try Self.agent(.reject).refusal(TestAgent.mutation(.create, "a", ["status": "completed", "answer": "other"]))
        #expect(problem?.errors.map(\.pointer) == ["/data/answer"])
    }

    @Test("With validate: warn the change is taken, and the answer names the holes")
    func warns() throws {
        let agent = try Self.agent(.warn)
        #expect(try agent.create("a", ["status": "completed"]).warnings == [Problem.Pointer("/data/answer", "is required")])
        // The hole was there before.
        #expect(try agent.update("a", ["note": "x"]).warnings.isEmpty)
        #expect(try Self.agent(.off).create("a", ["status": "completed"]).warnings.isEmpty)
    }
}
