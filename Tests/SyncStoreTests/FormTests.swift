import SyncCore
import SyncStore
import Testing

/// The form of a record judges its changes at the enqueue (PROTOCOL A12).
@Suite("Forms at the enqueue")
struct FormTests {
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

    /// A device that has version 1 of the form `doors`.
    private static func agent(_ validation: EntityRules.Validation = .warn) throws -> TestAgent {
        var audit = EntityRules()
        audit.validation = validation
        audit.form = FormSettings(entity: EntityName(trusted: "template"), ref: "form_id", version: "form_version")
        audit.complete = CompleteRule(when: ["status": ["completed"]])
        var template = EntityRules()
        template.kind = .reference
        let agent = try TestAgent(
            rules: RuleBook([EntityName(trusted: "audit"): audit, EntityName(trusted: "template"): template]))
        try agent.pull([("doors:1", 1, form)], entity: "template")
        return agent
    }

    @Test(
        "A draft with holes is taken; completed with holes is refused with what is missing",
        arguments: [EntityRules.Validation.warn, .reject])
    func holes(_ validation: EntityRules.Validation) throws {
        let agent = try Self.agent(validation)
        let made = try agent.create("a", ["form_id": "doors", "form_version": 1, "status": "open"])
        #expect(made.form == nil && made.warnings.isEmpty)
        let problem = agent.refusal(TestAgent.mutation(.update, "a", ["status": "completed", "q1": "fail"]))
        #expect(problem?.code == "validation" && problem?.status == 422)
        #expect(problem?.errors == [Problem.Pointer("/data/q2", "is required")])
        #expect(try agent.view("a") == #"{"form_id":"doors","form_version":1,"status":"open"}"#)
        try agent.update("a", ["q1": "fail", "q2": "hinge"])
        try agent.update("a", ["status": "completed"])
        #expect(agent.refusal(TestAgent.mutation(.update, "a", ["q2": .null]))?.errors.map(\.pointer) == ["/data/q2"])
        // The question is hidden then, so nothing is missing.
        try agent.update("a", ["q1": "pass", "q2": .null])
    }

    @Test("A wrong answer is treated as the entity says")
    func kinds() throws {
        let record: JSONObject = ["form_id": "doors", "form_version": 1, "q1": "maybe"]
        #expect(try Self.agent(.warn).create("a", record).warnings.map(\.pointer) == ["/data/q1"])
        #expect(try Self.agent(.reject).refusal(TestAgent.mutation(.create, "a", record))?.errors.map(\.pointer) == ["/data/q1"])
        #expect(try Self.agent(.off).create("a", record).warnings.isEmpty)
    }

    @Test("A form that is not on the device judges nothing, and the answer says so")
    func absent() throws {
        let agent = try Self.agent()
        let record: JSONObject = ["form_id": "doors", "form_version": 2, "status": "completed"]
        #expect(try agent.create("a", record).form == .absent)
        try agent.pull([("doors:2", 2, ["schema": ["sections": [["id": "s"]]]])], entity: "template")
        #expect(try agent.update("a", ["note": "x"]).form == .unusable)
        // When it is there, later changes answer for what they bring, and not for what was taken before.
        try agent.pull([("doors:2", 3, Self.form)], entity: "template")
        #expect(try agent.update("a", ["note": "y"]).form == nil)
        #expect(agent.refusal(TestAgent.mutation(.update, "a", ["q1": "fail"]))?.errors.map(\.pointer) == ["/data/q2"])
    }

    @Test("Progress of a record")
    func progress() throws {
        let agent = try Self.agent()
        let name = TestAgent.name("a")
        let rules = try #require(agent.store.rules[name.entity])
        #expect(try agent.store.reads.progress(name, rules) == nil)
        try agent.create("a", ["form_id": "doors", "form_version": 1, "q1": "fail"])
        let progress = try #require(try agent.store.reads.progress(name, rules))
        guard case .judged(let form, let counted) = progress.found else {
            Issue.record("\(progress)")
            return
        }
        #expect(form.text == "doors, version 1" && !progress.saysComplete)
        #expect(counted.total == FormCount(questions: 2, answered: 1, required: 2, missing: 1) && counted.total.percent == 50)
        try agent.update("a", ["form_version": 9])
        #expect(
            try agent.store.reads.progress(name, rules)?.found
                == .unjudged(.init(id: "doors", version: "9"), .absent, reason: "the form doors, version 9 is not on this device"))
    }

    @Test("Answers in records of their own count for the record that they name")
    func answers() throws {
        var audit = EntityRules()
        audit.form = FormSettings(
            entity: EntityName(trusted: "template"), ref: "form_id",
            answers: FormSettings.Answers(entity: EntityName(trusted: "answer"), ref: "audit_id", question: "question_id"))
        audit.complete = CompleteRule(when: ["status": ["completed"]])
        var answer = EntityRules()
        answer.declaredIndexes = [RecordIndex("audit_id")].compactMap(\.self)
        let agent = try TestAgent(
            rules: RuleBook([EntityName(trusted: "audit"): audit, EntityName(trusted: "answer"): answer]))
        try agent.pull([("doors", 1, Self.form)], entity: "template")
        try agent.create("a", ["form_id": "doors"])
        func put(_ id: String, _ data: JSONObject) throws {
            try agent.enqueue(TestAgent.mutation(.upsert, id, data, entity: "answer"))
        }
        try put("a-q1", ["audit_id": "a", "question_id": "q1", "value": "fail"])
        try put("b-q2", ["audit_id": "b", "question_id": "q2", "value": "of another audit"])
        let complete = TestAgent.mutation(.update, "a", ["status": "completed"])
        #expect(agent.refusal(complete)?.errors == [Problem.Pointer("/data/q2", "is required")])
        let name = TestAgent.name("a")
        guard case .judged(_, let progress)? = try agent.store.reads.progress(name, audit)?.found else {
            Issue.record("it was not judged")
            return
        }
        #expect(progress.total == FormCount(questions: 2, answered: 1, required: 2, missing: 1))
        try put("a-q2", ["audit_id": "a", "question_id": "q2", "value": "hinge"])
        try agent.enqueue(complete)
        #expect(try agent.store.reads.progress(name, audit)?.saysComplete == true)
    }
}
