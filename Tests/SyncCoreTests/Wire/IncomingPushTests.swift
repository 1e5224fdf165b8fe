import SyncCore
import Testing

@Suite("Reading a push")
struct IncomingPushTests {
    static let item: JSONObject = [
        "seq": 402, "idempotency_key": "k-2", "entity": "audit_responses", "record_id": "r-5", "action": "update",
        "base_version": 90102, "hlc": "0199c3f2a1b4-0007-9f2c11ab", "client_updated_at": "2026-11-20T21:04:05.120Z",
        "data": ["value": "fail"], "unset": ["waived_by"],
        "ops": [["field": "notes", "op": "append", "value": "rail loose"], ["field": "visits", "op": "inc", "value": 1]],
        "depends_on": ["k-1"], "group": "g-1", "blobs": ["sha256:9b1c"], "priority": "critical", "clock": "retro",
    ]

    static func body(_ items: [JSON], _ envelope: JSONObject = [:]) -> [UInt8] {
        var object = envelope
        object["mutations"] = .array(items)
        return object.bytes
    }

    static func read(_ item: JSONObject) throws -> IncomingItem {
        try PushMessages.readRequest(body([.object(item)])).items[0]
    }

    @Test("A mutation is read with all of its members")
    func whole() throws {
        let push = try PushMessages.readRequest(
            Self.body([.object(Self.item)], ["acked_seq": 399, "max_sent_seq": 402, "config": 42, "news": true]))
        #expect(push.ackedSeq == 399 && push.maxSentSeq == 402 && push.config == 42)
        let item = push.items[0]
        #expect(item.key.text == "k-2" && item.seq == 402 && item.group?.text == "g-1")
        let mutation = try item.content.get()
        #expect(mutation.record.description == "audit_responses/r-5")
        #expect(
            mutation.content
                == MutationContent(
                    .update, data: ["value": "fail"], unset: ["waived_by"],
                    operations: [FieldOperation("notes", .append, "rail loose"), FieldOperation("visits", .increment, 1)]))
        #expect(mutation.baseVersion == 90102 && mutation.clock == .retro)
        #expect(mutation.hlc.description == "0199c3f2a1b4-0007-9f2c11ab")
        #expect(mutation.clientUpdatedAt?.description == "2026-11-20T21:04:05.120Z")
        #expect(mutation.dependsOn.map(\.text) == ["k-1"])
    }

    @Test("The hub reads the agent's push back unchanged")
    func hubReadsThePushOfTheAgent() throws {
        let sent = OutgoingMutation(
            seq: 7, key: MutationKey(trusted: "k"), record: RecordName(EntityName(trusted: "e"), RecordID(trusted: "i")),
            action: .create, data: #"{"n":1.10,"t":"e\u0301"}"#, baseVersion: 0, hlc: "0199c3f2a1b4-0007-9f2c11ab",
            clock: .unsynced, clientUpdatedAt: Timestamp(milliseconds: 0), priority: .bulk)
        let push = try PushMessages.readRequest(
            PushMessages.request(Batch(mutations: [sent], ackedSeq: 6, maxSentSeq: 7), config: nil))
        let mutation = try push.items[0].content.get()
        #expect(mutation.content.data.json == #"{"n":1.10,"t":"e\u0301"}"#)
        #expect(mutation.clock == .unsynced && push.maxSentSeq == 7 && push.ackedSeq == 6)
    }

    @Test("Unknown members, and null members, count as missing")
    func lenient() throws {
        var item = Self.item
        for name in ["data", "unset", "ops", "depends_on", "group", "clock", "client_updated_at"] { item[name] = .null }
        item["from_the_future"] = ["a": 1]
        let mutation = try Self.read(item).content.get()
        #expect(mutation.content == MutationContent(.update) && mutation.clock == .synced && mutation.dependsOn.isEmpty)
    }

    struct Flaw: Sendable, CustomStringConvertible {
        let member: String
        let value: JSON?
        var pointer: String?

        init(_ member: String, _ value: JSON?, at pointer: String? = nil) {
            self.member = member
            self.value = value
            self.pointer = pointer
        }

        var description: String { "\(member): \(value?.json.prefix(40) ?? "missing")" }
    }

    static func nested(_ levels: Int) -> JSON { (0..<levels).reduce(1) { value, _ in ["a": value] } }

    @Test(
        "A fault in one mutation refuses that one alone, and names the place",
        arguments: [
            Flaw("seq", nil), Flaw("seq", 0), Flaw("seq", -1), Flaw("seq", "1"), Flaw("seq", 9_007_199_254_740_993),
            Flaw("entity", nil), Flaw("entity", ""), Flaw("entity", "a b"), Flaw("entity", 5), Flaw("entity", "../etc"),
            Flaw("record_id", nil), Flaw("record_id", .string(String(repeating: "x", count: 65))), Flaw("record_id", "é"),
            Flaw("action", nil), Flaw("action", "upsert"), Flaw("action", "CREATE"), Flaw("action", .null),
            Flaw("base_version", nil), Flaw("base_version", -2), Flaw("base_version", .number(JSONNumber(1.5)!)), Flaw("base_version", "1"),
            Flaw("hlc", nil), Flaw("hlc", "yesterday"), Flaw("hlc", 5), Flaw("hlc", "0199c3f2a1b4-0007-"),
            Flaw("client_updated_at", "soon"), Flaw("client_updated_at", 5), Flaw("clock", "broken"), Flaw("clock", 1),
            Flaw("data", []), Flaw("data", "text"), Flaw("data", nested(33)),
            Flaw("unset", "f"), Flaw("unset", ["f", 5], at: "/unset/1"),
            Flaw("ops", [:]), Flaw("ops", [5], at: "/ops/0/field"), Flaw("ops", [["op": "inc", "value": 1]], at: "/ops/0/field"),
            Flaw("ops", [["field": "f", "op": "square", "value": 1]], at: "/ops/0/op"),
            Flaw("ops", [["field": "f", "op": "inc"]], at: "/ops/0/value"),
            Flaw("ops", [["field": "f", "op": "inc", "value": "1"]], at: "/ops/0/value"),
            Flaw("ops", [["field": "f", "op": "add", "value": nested(33)]], at: "/ops/0/value"),
            Flaw("depends_on", "k-1"), Flaw("depends_on", ["k 1"], at: "/depends_on/0"), Flaw("group", "a b"), Flaw("group", 5),
        ])
    func flaws(_ flaw: Flaw) throws {
        var item = Self.item
        item[flaw.member] = flaw.value
        var good = Self.item
        good["idempotency_key"] = "k-3"
        good["group"] = nil
        let push = try PushMessages.readRequest(Self.body([.object(item), .object(good)]))
        guard case .failure(let problem) = push.items[0].content else {
            Issue.record("read as \(push.items[0].content)")
            return
        }
        #expect(problem.code == "validation")
        #expect(problem.errors.map(\.pointer) == ["/mutations/0" + (flaw.pointer ?? "/\(flaw.member)")])
        #expect(push.items[0].key.text == "k-2")
        #expect(try push.items[1].content.get().record.id.text == "r-5")
    }

    @Test("A delete carries nothing")
    func deleteWithData() throws {
        var item = Self.item
        item["action"] = "delete"
        guard case .failure(let problem) = try Self.read(item).content else {
            Issue.record("accepted")
            return
        }
        #expect(problem.code == "validation")
    }

    @Test("A document may nest to its limit, whatever is around it")
    func deepest() throws {
        var item = Self.item
        item["data"] = Self.nested(32)
        #expect(throws: Never.self) { try Self.read(item).content.get() }
    }

    struct Broken: Sendable, CustomStringConvertible {
        let description: String
        let body: String
        var pointer = ""
        var code = "malformed"
    }

    @Test(
        "A body that cannot be read as a push is refused as a whole",
        arguments: [
            Broken(description: "empty", body: ""), Broken(description: "cut", body: #"{"mutations":["#),
            Broken(description: "trailing", body: #"{"mutations":[]}x"#), Broken(description: "a list", body: "[]"),
            Broken(description: "HTML", body: "<html></html>"), Broken(description: "BOM", body: "\u{FEFF}{}"),
            Broken(description: "NaN", body: #"{"acked_seq":NaN,"mutations":[]}"#),
            Broken(description: "duplicate name", body: #"{"mutations":[],"mutations":[]}"#),
            Broken(description: "NUL", body: #"{"mutations":["\u0000"]}"#),
            Broken(description: "lone surrogate", body: #"{"mutations":["\ud800"]}"#),
            Broken(description: "no mutations", body: "{}", pointer: "/mutations"),
            Broken(description: "mutations are an object", body: #"{"mutations":{}}"#, pointer: "/mutations"),
            Broken(description: "a mutation is a number", body: #"{"mutations":[5]}"#, pointer: "/mutations/0"),
            Broken(description: "no key", body: #"{"mutations":[{}]}"#, pointer: "/mutations/0/idempotency_key"),
            Broken(
                description: "key of spaces", body: #"{"mutations":[{"idempotency_key":"a b"}]}"#, pointer: "/mutations/0/idempotency_key"),
            Broken(
                description: "one key twice", body: #"{"mutations":[{"idempotency_key":"a"},{"idempotency_key":"a"}]}"#,
                pointer: "/mutations/1/idempotency_key"),
            Broken(description: "negative acked_seq", body: #"{"acked_seq":-1,"mutations":[]}"#, pointer: "/acked_seq"),
            Broken(description: "acked_seq of text", body: #"{"acked_seq":"1","mutations":[]}"#, pointer: "/acked_seq"),
            Broken(
                description: "max_sent_seq of 2^53+1", body: #"{"max_sent_seq":9007199254740993,"mutations":[]}"#, pointer: "/max_sent_seq"),
            Broken(description: "config of text", body: #"{"config":"x","mutations":[]}"#, pointer: "/config"),
            Broken(
                description: "a group in two pieces",
                body: #"""
                    {"mutations":[{"idempotency_key":"a","group":"g"},{"idempotency_key":"b"},{"idempotency_key":"c","group":"g"}]}
                    """#, pointer: "/mutations/2/group"),
            Broken(
                description: "501 mutations",
                body: "{\"mutations\":[" + (0...500).map { "{\"idempotency_key\":\"k\($0)\"}" }.joined(separator: ",") + "]}",
                code: "too-large"),
            Broken(
                description: "more than a MiB of payload",
                body: "{\"mutations\":["
                    + (0..<10).map { "{\"idempotency_key\":\"k\($0)\",\"data\":{\"t\":\"\(String(repeating: "x", count: 110_000))\"}}" }
                    .joined(separator: ",") + "]}", code: "too-large"),
            Broken(description: "a hundred thousand brackets", body: String(repeating: "[", count: 100_000)),
        ])
    func broken(_ example: Broken) {
        let error = #expect(throws: Problem.self) { try PushMessages.readRequest(Array(example.body.utf8)) }
        #expect(error?.code == example.code)
        if !example.pointer.isEmpty { #expect(error?.errors.first?.pointer == example.pointer) }
    }

    @Test("A mutation above its limit is refused by itself, one at the limit is read")
    func sizes() throws {
        // {"t":"…"} is 8 bytes around the text; together with an empty list of removals and operations.
        let room = 128 << 10
        func item(_ key: String, _ bytes: Int) -> JSON {
            var item = Self.item
            item["idempotency_key"] = .string(key)
            for name in ["unset", "ops", "group"] { item[name] = nil }
            item["data"] = ["t": .string(String(repeating: "x", count: bytes - 8))]
            return .object(item)
        }
        let push = try PushMessages.readRequest(Self.body([item("at", room), item("above", room + 1)]))
        #expect(throws: Never.self) { try push.items[0].content.get() }
        let error = #expect(throws: Problem.self) { try push.items[1].content.get() }
        #expect(error?.code == "too-large")
    }

    // MARK: Fingerprints

    @Test(
        "Equal meaning has an equal fingerprint",
        arguments: [
            #"{"b":[1.0,10e1],"a":"\u0041"}"#, #"{"a":"A","b":[1,100]}"#, #"{ "a" : "A", "b" : [ 1, 1e2 ] }"#,
        ])
    func sameFingerprint(_ data: String) throws {
        var item = Self.item
        item["data"] = try JSONReader.read(data)
        var plain = Self.item
        plain["data"] = ["a": "A", "b": [1, 100]]
        #expect(Fingerprint.of(item) == Fingerprint.of(plain))
        #expect(Fingerprint.of(item).count == 16)
    }

    @Test("Only what a mutation asks for is in its fingerprint")
    func stampsAreNotInIt() {
        var item = Self.item
        for name in ["seq", "idempotency_key", "base_version", "hlc", "clock", "client_updated_at", "depends_on", "group", "priority"] {
            item[name] = "other"
        }
        #expect(Fingerprint.of(item) == Fingerprint.of(Self.item))
        item["unset"] = []
        var without = Self.item
        without["unset"] = nil
        #expect(Fingerprint.of(item) == Fingerprint.of(without))
    }

    @Test(
        "Another wish has another fingerprint",
        arguments: [
            ("entity", "x"), ("record_id", "x"), ("action", "create"), ("data", ["value": "pass"]), ("data", ["value": ["fail"]]),
            ("unset", []), ("unset", ["other"]), ("ops", []), ("data", ["value": .null]), ("data", [:]),
        ] as [(String, JSON)])
    func otherFingerprint(_ member: String, _ value: JSON) {
        var item = Self.item
        item[member] = value
        #expect(Fingerprint.of(item) != Fingerprint.of(Self.item))
    }
}
