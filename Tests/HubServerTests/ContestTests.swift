import HubServer
import SyncCore
import Testing

/// Contests of two sides that changed the same, over the hub's requests.
@Suite("Contests at the hub", .eachEngine)
struct ContestTests {
    private static var bench: HubBench {
        get throws {
            var rules = EntityRules()
            rules.fields = ["finding": .manual, "notes": .append]
            return try HubBench(rules: RuleBook(["audits": rules]))
        }
    }

    private static func sent(
        _ key: String, _ seq: Int64, _ data: JSONObject, base: Int64, ms: UInt64, author: String, _ action: MutationAction = .update
    ) -> Sent {
        Sent(key, seq: seq, action, "audits", id: "a-1", data: .object(data), base: base, ms: ms).with("author", .string(author))
    }

    @Test("A value that lost is kept, with who wrote it")
    func lostValues() throws {
        let bench = try Self.bench
        let (one, two) = (DeviceID(trusted: "gw-1"), DeviceID(trusted: "gw-2"))
        _ = try bench.verdicts([Self.sent("k-1", 1, ["note": "old"], base: 0, ms: 100, author: "eve", .create)], device: one)
        _ = try bench.verdicts([Self.sent("k-2", 1, ["note": "tom\'s"], base: 1, ms: 300, author: "tom")], device: two)
        _ = try bench.verdicts([Self.sent("k-3", 2, ["note": "ines\'"], base: 1, ms: 200, author: "ines")], device: one)
        _ = try bench.verdicts([Self.sent("k-4", 3, ["note": "later"], base: 1, ms: 400, author: "ines")], device: one)
        let lost = try bench.hub.lostValues("audits", RecordID(trusted: "a-1"))
        #expect(lost.map(\.value.value) == ["tom\'s", "ines\'"])
        #expect(lost.map(\.value.stamp.author) == ["tom", "ines"])
        #expect(lost.map(\.value.stamp.writer) == [two, one])
        #expect(try bench.hub.lostValues("audits", RecordID(trusted: "a-2")).isEmpty)
    }

    @Test("A member that lost is kept under its dotted name, an element of a set by its id, and the answer names the field")
    func lostParts() throws {
        var rules = EntityRules()
        rules.fields = ["form": .merge, "tags": .set]
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        let (one, two) = (DeviceID(trusted: "gw-1"), DeviceID(trusted: "gw-2"))
        let form: JSON = ["size": 1, "unit": "mm"]
        func sent(_ key: String, _ size: Int, _ n: Int, ms: UInt64, author: String) -> Sent {
            Sent(
                key, seq: 2, .update, "audits", id: "a-1", data: ["form": ["size": .int(size), "unit": "mm"]],
                ops: [["field": "tags", "op": "add", "value": ["id": "t-1", "n": .int(n)]]], base: 1, ms: ms
            ).with("author", .string(author)).with("base", ["form": form])
        }
        let create: JSONObject = ["form": form, "tags": [["id": "t-1", "n": 1]]]
        _ = try bench.verdicts([Self.sent("k-1", 1, create, base: 0, ms: 100, author: "eve", .create)], device: one)
        _ = try bench.verdicts([sent("k-2", 2, 2, ms: 300, author: "tom")], device: two)
        _ = try bench.verdicts([sent("k-3", 3, 3, ms: 400, author: "ines")], device: one)
        let three = DeviceID(trusted: "gw-3")
        let answer = try bench.verdicts([sent("k-4", 4, 4, ms: 200, author: "kim")], device: three)
        guard case .accepted(_, _, _, let merged)? = answer.first?.verdict else {
            Issue.record("\(answer)")
            return
        }
        #expect(merged == ["form", "tags"])
        let lost = try bench.hub.lostValues("audits")
        #expect(lost.map(\.value.field) == ["tags[t-1]", "form.size", "tags[t-1]", "form.size"])
        #expect(lost.map(\.value.value) == [["id": "t-1", "n": 4], 4, ["id": "t-1", "n": 2], 2])
        #expect(lost.map(\.value.stamp.author) == ["kim", "kim", "tom", "tom"])
        #expect(lost.map(\.value.stamp.writer) == [three, three, two, two])
    }

    @Test("The feed names who wrote what people decide about, where that is not who wrote the record last")
    func origins() throws {
        let bench = try Self.bench
        _ = try bench.verdicts(
            [Self.sent("k-1", 1, ["finding": "open", "note": 1], base: 0, ms: 100, author: "ines", .create)],
            device: DeviceID(trusted: "gw-1"))
        _ = try bench.verdicts([Self.sent("k-2", 1, ["note": 2], base: 1, ms: 300, author: "tom")], device: DeviceID(trusted: "gw-2"))
        let record = try #require(try bench.follow("audits").pages.flatMap(\.records).first)
        #expect(record.originDevice == "gw-2" && record.originAuthor == "tom")
        #expect(record.record.fieldOrigins == ["finding": ["device": "gw-1", "author": "ines"]])
    }

    @Test("The history of texts and sets outlives a restart of the hub")
    func outlives() throws {
        var rules = EntityRules()
        rules.fields = ["tags": .set, "notes": .append]
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        let (one, two) = (DeviceID(trusted: "gw-1"), DeviceID(trusted: "gw-2"))
        func ops(_ key: String, _ seq: Int64, _ kind: String) -> Sent {
            Sent(
                key, seq: seq, .update, "audits", id: "a-1", ops: [["field": "tags", "op": .string(kind), "value": "x"]], base: 1, ms: 200)
        }
        _ = try bench.verdicts([Self.sent("k-1", 1, ["tags": ["x"]], base: 0, ms: 100, author: "eve", .create)], device: one)
        _ = try bench.verdicts([ops("k-2", 2, "add")], device: one)
        try bench.restore(try bench.backUp(), startingEpoch: false)
        _ = try bench.verdicts([ops("o-1", 1, "remove")], device: two)
        #expect(try bench.data("audits", RecordID(trusted: "a-1")) == ["tags": ["x"]])
    }

    @Test("A field that was written earlier than the rest of its mutation is compared by its own stamp, and so is an element of a set")
    func parts() throws {
        var rules = EntityRules()
        rules.fields = ["tags": .set]
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        let (one, two) = (DeviceID(trusted: "gw-1"), DeviceID(trusted: "gw-2"))
        func stamp(_ ms: UInt64) -> JSON { .string(HybridTime(milliseconds: ms, counter: 0, node: "1").description) }
        func add(_ n: Int, at ms: UInt64?) -> JSON {
            var operation: JSONObject = ["field": "tags", "op": "add", "value": ["id": 1, "n": .int(n)]]
            if let ms { operation["hlc"] = stamp(ms) }
            return .object(operation)
        }
        _ = try bench.verdicts([Self.sent("k-1", 1, ["l": 0, "k": 0], base: 0, ms: 100, author: "eve", .create)], device: one)
        _ = try bench.verdicts(
            [Sent("o-1", seq: 1, .update, "audits", id: "a-1", data: ["l": 12], ops: [add(12, at: nil)], base: 1, ms: 1_200)], device: two)
        let late = Sent("k-2", seq: 2, .update, "audits", id: "a-1", data: ["l": 9, "k": 17], ops: [add(9, at: 900)], base: 1, ms: 1_700)
            .with("field_hlc", ["l": stamp(900)])
        let answer = try bench.verdicts([late], device: one)
        guard case .accepted(_, _, _, let merged)? = answer.first?.verdict else {
            Issue.record("\(answer)")
            return
        }
        #expect(Set(merged) == ["l", "tags"])
        #expect(try bench.data("audits", RecordID(trusted: "a-1")) == ["l": 12, "k": 17, "tags": [["id": 1, "n": 12]]])
        // The same under its key, with other stamps: they are no part of what it asks for.
        var again = late
        again = again.with("field_hlc", ["l": stamp(950)])
        guard case .duplicate? = try bench.verdicts([again], device: one).first?.verdict else {
            Issue.record("no duplicate")
            return
        }
    }

    @Test("A stamp of a field that is none refuses the mutation with its place", arguments: ["field_hlc", "ops"])
    func noStamp(_ member: String) throws {
        let bench = try Self.bench
        var sent = Self.sent("k-1", 1, ["l": 0], base: 0, ms: 100, author: "eve", .create)
        sent =
            member == "ops"
            ? sent.with("ops", [["field": "n", "op": "inc", "value": 1, "hlc": "noon"]]) : sent.with("field_hlc", ["l": "noon"])
        guard case .rejected(let problem, _)? = try bench.verdicts([sent], device: DeviceID(trusted: "gw-1")).first?.verdict else {
            Issue.record("not rejected")
            return
        }
        #expect(
            problem.code == "validation"
                && problem.errors.map(\.pointer) == [member == "ops" ? "/mutations/0/ops/0/hlc" : "/mutations/0/field_hlc/l"])
    }
}
