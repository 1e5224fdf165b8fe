import SyncCore
import SyncStore
import Testing

/// Operations and lists at the enqueue: what is refused with its place, what is put right, and what had no effect and is said.
@Suite("Operations at the enqueue")
struct OperationTests {
    private static func agent(_ fields: [String: FieldStrategy]) throws -> TestAgent {
        var rules = EntityRules()
        rules.fields = fields
        return try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): rules]))
    }

    private static func operated(_ id: String, _ operations: [FieldOperation], unset: [String] = [], _ data: JSONObject = [:])
        -> NewMutation
    {
        var mutation = TestAgent.mutation(.update, id, data)
        (mutation.operations, mutation.unset) = (operations, unset)
        return mutation
    }

    @Test("A value that does not beat what max has stays out, and the answer says what stays; the repeat of a key says it too")
    func kept() throws {
        let agent = try Self.agent(["peak": .max])
        try agent.pull([("a", 5, ["peak": 7])])
        let plain = try agent.update("a", ["peak": 1])
        #expect(plain.kept == ["peak": 7] && plain.record?.view == #"{"peak":7}"#)
        let key = AppKey(key: "k", fingerprint: [UInt8](repeating: 1, count: 16))
        let lower = Self.operated("a", [FieldOperation("peak", .max, 2)])
        #expect(try agent.enqueue(lower, appKey: key).kept == ["peak": 7])
        let again = try agent.enqueue(lower, appKey: key)
        #expect(again.isRepeat && again.kept == ["peak": 7])
        #expect(try agent.update("a", ["peak": 9]).kept.isEmpty)
        #expect(try agent.store.verify() == [])
    }

    @Test("One update that removes a max field and raises it begins anew, whatever it held")
    func reset() throws {
        for held: JSON in [7, "seven"] {
            let agent = try Self.agent(["peak": .max])
            try agent.pull([("a", 5, ["peak": held])])
            let made = try agent.enqueue(Self.operated("a", [FieldOperation("peak", .max, 1)], unset: ["peak"]))
            #expect(made.kept.isEmpty && made.record?.view == #"{"peak":1}"#)
            let sent = try agent.claim()
            #expect(sent.map(\.unset) == [#"["peak"]"#] && sent.map(\.operations) == [#"[{"field":"peak","op":"max","value":1}]"#])
        }
    }

    @Test(
        "An operation on a member goes out as it was named, and the view has it in the member; one without a rule is refused with its place"
    )
    func members() throws {
        let agent = try Self.agent(["mg": .merge, "mg.c": .counter])
        try agent.pull([("a", 5, ["mg": ["c": 7, "x": 1]])])
        let made = try agent.enqueue(Self.operated("a", [FieldOperation("mg.c", .increment, 2)]))
        #expect(made.record?.view == #"{"mg":{"c":9,"x":1}}"#)
        let refused = agent.refusal(Self.operated("a", [FieldOperation("mg.x", .increment, 2)]))
        #expect(refused?.code == "validation" && refused?.errors.map(\.pointer) == ["/ops/0/field"])
        #expect(agent.refusal(Self.operated("a", [FieldOperation("mg.c", .increment, 2)], ["mg": 5]))?.code == "validation")
        // A pull that changes the object beside it.
        try agent.pull([("a", 6, ["mg": ["c": 20, "x": 2]])])
        #expect(try agent.view("a") == #"{"mg":{"c":22,"x":2}}"#)
        let sent = try agent.claim()
        #expect(sent.map(\.operations) == [#"[{"field":"mg.c","op":"inc","value":2}]"#] && sent.map(\.baseVersion) == [6])
        try agent.answer(.accepted(sent[0].key, 7))
        #expect(try agent.view("a") == #"{"mg":{"c":22,"x":2}}"# && agent.record("a")?.status == .synced)
        #expect(try agent.store.verify() == [])
    }

    @Test("A set has each element once, in a create and in an update; a first one without elements is there")
    func sets() throws {
        let agent = try Self.agent(["tags": .set, "mg": .merge, "mg.s": .set])
        let created = try agent.create("a", ["tags": ["x", "y", "x"], "mg": ["s": [1, 1]]])
        #expect(created.record?.view == #"{"tags":["x","y"],"mg":{"s":[1]}}"#)
        #expect(try agent.claim().map(\.data) == [#"{"tags":["x","y"],"mg":{"s":[1]}}"#])
        try agent.create("b", ["n": 1])
        let empty = try agent.update("b", ["tags": []])
        #expect(empty.record?.view == #"{"n":1,"tags":[]}"#)
        #expect(try agent.claim().map(\.data) == [#"{"n":1}"#, #"{"tags":[]}"#])
    }

    @Test("A sum that cannot be written down is refused with what it would need")
    func sums() throws {
        let agent = try Self.agent(["n": .counter])
        try agent.pull([("a", 5, ["n": try JSONReader.read("1e300")])])
        let problem = agent.refusal(Self.operated("a", [FieldOperation("n", .increment, try JSONReader.read("1e-300"))]))
        #expect(problem?.code == "validation" && problem?.errors.map(\.pointer) == ["/ops/0"])
        #expect(problem?.detail == "the sum of what n holds and of what is to be added would have 601 digits, the limit is 400")
    }

    @Test(
        "A pull that brings an element which a waiting removal had not seen: it stays, and the trail says so; an own one that is under way goes"
    )
    func removals() throws {
        let agent = try Self.agent(["tags": .set])
        try agent.pull([("a", 5, ["tags": ["x"]]), ("b", 5, ["tags": []])])
        try agent.enqueue(Self.operated("a", [FieldOperation("tags", .remove, "y")]))
        let own = try agent.enqueue(Self.operated("b", [FieldOperation("tags", .add, "y")]))
        #expect(try agent.claim(2).count == 2)
        let removal = try agent.enqueue(Self.operated("a", [FieldOperation("tags", .remove, "z")]))
        let ownRemoval = try agent.enqueue(Self.operated("b", [FieldOperation("tags", .remove, "y")]))
        try agent.pull([("a", 6, ["tags": ["x", "z"]]), ("b", 6, ["tags": ["y"]])])
        #expect(try agent.state(removal.key) == .superseded && agent.state(ownRemoval.key) == .pending && agent.state(own.key) == .inFlight)
        #expect(try agent.view("a") == #"{"tags":["x","z"]}"# && agent.view("b") == #"{"tags":[]}"#)
        #expect(try agent.store.verify() == [])
    }
}
