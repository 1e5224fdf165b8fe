import SyncCore
import Testing

@Suite("Messages of push, pull and hello, as the agent writes and reads them")
struct SyncMessagesTests {
    typealias Rig = EngineRig

    // MARK: Push

    @Test("A push carries the payload parts byte for byte as the row holds them")
    func push() throws {
        var mutation = Rig.mutation(402)
        mutation.data = #"{"n":9007199254740993,"t":"e\#u{301}","f":1.10}"#
        mutation.unset = #"["old"]"#
        mutation.operations = #"[{"field":"a","op":"append","value":"x"}]"#
        mutation.priority = .critical
        mutation.clock = .unsynced
        mutation.group = GroupID(trusted: "g-1")
        let body = PushMessages.request(Batch(mutations: [mutation], ackedSeq: 399, maxSentSeq: 402), config: nil)
        let text = String(decoding: body, as: UTF8.self)
        #expect(
            text.utf8.elementsEqual(
                (#"{"acked_seq":399,"max_sent_seq":402,"mutations":[{"seq":402,"idempotency_key":"key-402","entity":"works","#
                    + #""record_id":"w-402","action":"update","data":{"n":9007199254740993,"t":"e\#u{301}","f":1.10},"unset":["old"],"#
                    + #""ops":[{"field":"a","op":"append","value":"x"}],"base_version":1,"hlc":"0199c3f2a1b4-0000-9f2c11ab","#
                    + #""client_updated_at":"1970-01-01T00:00:00.000Z","group":"g-1","priority":"critical","clock":"unsynced"}]}"#).utf8))
    }

    @Test("Every verdict is read back as it was written")
    func verdicts() throws {
        let record = HubRecord(version: 7, data: ["a": 1], hlc: "0199c3f2a1b4-0000-9f2c11ab", fieldHLC: ["a": "x"])
        let problem = Problem("validation", status: 422, detail: "no", errors: [Problem.Pointer("/a", "must be b")])
        let verdicts: [PushResult.Verdict] = [
            .accepted(version: 5, serverID: nil, record: nil, merged: []),
            .accepted(version: 5, serverID: "A-1", record: record, merged: ["a"]),
            .duplicate(original: .accepted, current: .record(record)),
            .duplicate(original: .rejected, current: .deleted(version: 9)),
            .duplicate(original: .conflict, current: .absent),
            .conflict(fields: ["a"], current: .record(record)),
            .rejected(problem, current: nil),
            .rejected(problem, current: .deleted(version: 3)),
            .retry(problem, after: .seconds(30)),
            .retry(nil, after: nil),
        ]
        var results = verdicts.enumerated().map { PushResult(key: MutationKey(trusted: "k-\($0)"), verdict: $1) }
        results[0].notes.kept = ["peak": 7, "mg.hi": "b"]
        let read = try PushMessages.readResponse(PushMessages.response(head: 12, results: results))
        #expect(read == PushResponse(head: 12, results: results))
    }

    struct Bad: Sendable {
        var body: String
        var pointer: String

        init(_ body: String, _ pointer: String) {
            self.body = body
            self.pointer = pointer
        }
    }

    private static func result(_ members: String) -> String { #"{"head":1,"results":[{"idempotency_key":"k","# + members + "}]}" }

    @Test(
        "An answer to a push that is not as agreed is refused as a whole, and says where",
        arguments: [
            Bad("", ""), Bad("[]", ""), Bad("{", ""), Bad("<html>", ""), Bad("{}", "/head"),
            Bad(#"{"head":-1,"results":[]}"#, "/head"), Bad(#"{"head":"1","results":[]}"#, "/head"),
            Bad(#"{"head":1}"#, "/results"), Bad(#"{"head":1,"results":{}}"#, "/results"),
            Bad(#"{"head":1,"results":null}"#, "/results"), Bad(#"{"head":1,"results":[1]}"#, "/results/0"),
            Bad(#"{"head":1,"results":[{}]}"#, "/results/0/idempotency_key"),
            Bad(#"{"head":1,"results":[{"idempotency_key":"a b","status":"accepted"}]}"#, "/results/0/idempotency_key"),
            Bad(#"{"head":1,"results":[{"idempotency_key":"k"}]}"#, "/results/0/status"),
            Bad(result(#""status":7"#), "/results/0/status"),
            Bad(result(#""status":"accepted""#), "/results/0/version"),
            Bad(result(#""status":"accepted","version":-1"#), "/results/0/version"),
            Bad(result(#""status":"accepted","version":9007199254740993"#), "/results/0/version"),
            Bad(result(#""status":"accepted","version":1.5"#), "/results/0/version"),
            Bad(result(#""status":"accepted","version":1,"record":7"#), "/results/0/record"),
            Bad(result(#""status":"accepted","version":1,"record":{"version":1}"#), "/results/0/record/data"),
            Bad(result(#""status":"duplicate","original":"retry"#) + "\"", ""),
            Bad(result(#""status":"duplicate","original":"retry""#), "/results/0/original"),
            Bad(result(#""status":"duplicate""#), "/results/0/original"),
            Bad(result(#""status":"rejected""#), "/results/0/problem"),
            Bad(result(#""status":"conflict","fields":[1]"#), "/results/0/fields"),
            Bad(
                #"{"head":1,"results":[{"idempotency_key":"k","status":"retry"},{"idempotency_key":"k","status":"retry"}]}"#,
                "/results/1/idempotency_key"),
        ])
    func badPush(_ bad: Bad) {
        let error = #expect(throws: ReplyError.self) { try PushMessages.readResponse(Array(bad.body.utf8)) }
        #expect(error?.pointer == bad.pointer)
    }

    @Test("A status word that we do not know means later, and names itself")
    func unknownStatus() throws {
        let read = try PushMessages.readResponse(Array(Self.result(#""status":"quarantined","x":1"#).utf8))
        guard case .retry(let problem?, nil) = read.results.first?.verdict else {
            Issue.record("not a retry")
            return
        }
        #expect(problem.detail.contains("quarantined"))
    }

    @Test(
        "Absurd waits of a retry are clamped to a day, nonsense is none",
        arguments: [
            ("30", 30), ("0", nil), ("-1", nil), ("1e300", 86_400), ("\"30\"", nil), ("1.5", 1.5),
        ] as [(String, Double?)])
    func retryAfter(_ value: String, _ seconds: Double?) throws {
        let read = try PushMessages.readResponse(Array(Self.result(#""status":"retry","retry_after":\#(value)"#).utf8))
        #expect(read.results.first?.verdict == .retry(nil, after: seconds.map { .seconds($0) }))
    }

    // MARK: Pull

    @Test("A request for a pull names its streams, a first sync with a null cursor")
    func pullRequest() {
        let request = PullRequest(
            streams: [Rig.position(Rig.sites, nil), Rig.position(Rig.works, "c\"1")], limit: 500, maxBytes: 1_048_576,
            maxSentSeq: 412)
        #expect(
            String(decoding: PullMessages.request(request), as: UTF8.self)
                == #"{"streams":[{"entity":"sites","cursor":null},{"entity":"works","cursor":"c\"1"}],"#
                + #""limit":500,"max_bytes":1048576,"max_sent_seq":412}"#)
    }

    @Test("An answer to a pull is read back as it was written, documents byte for byte")
    func pull() throws {
        let document = try #require(try JSONReader.read(#"{"n":1.10,"t":"\u0041","b":9007199254740993}"#).object)
        var page = Rig.page(Rig.works, cursor: "c2", hasMore: true)
        page.records = [
            StreamPage.Record(
                id: RecordID(trusted: "w-1"),
                record: HubRecord(version: 3, data: document, hlc: "0199c3f2a1b4-0000-9f2c11ab", fieldHLC: ["n": "x"]),
                originDevice: "gw-1", originKey: "k-1")
        ]
        page.deletions = [
            StreamPage.Deletion(id: RecordID(trusted: "w-2"), version: 4),
            StreamPage.Deletion(id: RecordID(trusted: "w-3"), version: 5, reason: "revoked"),
            StreamPage.Deletion(
                id: RecordID(trusted: "w-4"), version: 6, hlc: "0199c3f2a1b4-0000-9f2c11ab", originDevice: "gw-3", originAuthor: "tom"),
        ]
        let response = PullResponse(epoch: "7f3a", head: 9, pages: [page], errors: [Rig.expired(Rig.sites)])
        let read = try PullMessages.readResponse(PullMessages.response(response))
        #expect(read == response)
        #expect(read.pages.first?.records.first?.record.data.json == document.json)
        #expect(read.errors.first?.isExpired == true)
    }

    private static func page(_ members: String) -> String { #"{"head":1,"streams":[{"entity":"works",\#(members)}]}"# }

    @Test(
        "An answer to a pull that is not as agreed is refused as a whole, and says where",
        arguments: [
            Bad("{}", "/head"), Bad(#"{"head":1}"#, "/streams"), Bad(#"{"head":1,"streams":[{}]}"#, "/streams/0/entity"),
            Bad(#"{"head":1,"streams":[{"entity":"a/b"}]}"#, "/streams/0/entity"),
            Bad(page(#""has_more":false"#), "/streams/0/cursor"),
            Bad(page(#""cursor":"","has_more":false"#), "/streams/0/cursor"),
            Bad(page(#""cursor":7,"has_more":false"#), "/streams/0/cursor"),
            Bad(page(#""cursor":"\#(String(repeating: "c", count: 513))","has_more":false"#), "/streams/0/cursor"),
            Bad(page(#""cursor":"c""#), "/streams/0/has_more"), Bad(page(#""cursor":"c","has_more":1"#), "/streams/0/has_more"),
            Bad(page(#""cursor":"c","has_more":false,"records":[{}]"#), "/streams/0/records/0/id"),
            Bad(page(#""cursor":"c","has_more":false,"records":[{"id":"r"}]"#), "/streams/0/records/0/data"),
            Bad(page(#""cursor":"c","has_more":false,"records":[{"id":"r","data":[]}]"#), "/streams/0/records/0/data"),
            Bad(page(#""cursor":"c","has_more":false,"records":[{"id":"r","data":{}}]"#), "/streams/0/records/0/version"),
            Bad(page(#""cursor":"c","has_more":false,"deletions":[{"id":"r"}]"#), "/streams/0/deletions/0/version"),
            Bad(page(#""cursor":"c","has_more":false,"deletions":["r"]"#), "/streams/0/deletions/0/id"),
            Bad(#"{"head":1,"streams":[],"errors":[{"entity":"works"}]}"#, "/errors/0"),
            Bad(#"{"head":1,"streams":[],"epoch":7}"#, "/epoch"),
        ])
    func badPull(_ bad: Bad) {
        let error = #expect(throws: ReplyError.self) { try PullMessages.readResponse(Array(bad.body.utf8)) }
        #expect(error?.pointer == bad.pointer)
    }

    @Test("Members that a newer hub adds are ignored")
    func unknownMembers() throws {
        let text = #"{"head":1,"new":{"x":[]},"streams":[{"entity":"works","cursor":"c","has_more":false,"new":1}]}"#
        #expect(try PullMessages.readResponse(Array(text.utf8)).pages.count == 1)
    }

    // MARK: Hello

    @Test("A hello's limits are ours where they are missing or absurd, and never raised")
    func helloLimits() throws {
        func limits(_ text: String) throws -> HelloResponse.Announced {
            try HelloMessages.readResponse(
                Array(#"{"device_id":"d","epoch":"e","head":1,"limits":\#(text)}"#.utf8)
            ).limits
        }
        #expect(try limits("{}") == HelloResponse.Announced())
        #expect(try limits(#"{"push_mutations":"x","push_bytes":-1}"#) == HelloResponse.Announced())
        #expect(try limits(#"{"push_mutations":5,"push_bytes":1000}"#).pushMutations == 5)
        #expect(try limits(#"{"push_mutations":100000}"#).pushMutations == Limits.batchMutationsMax)
    }

    @Test(
        "A hello without device, epoch or head is none",
        arguments: [
            Bad("{}", "/device_id"), Bad(#"{"device_id":"d","head":1}"#, "/epoch"),
            Bad(#"{"device_id":"d","epoch":"","head":1}"#, "/epoch"), Bad(#"{"device_id":"d","epoch":"e"}"#, "/head"),
            Bad(#"{"device_id":"d","epoch":"e","head":1,"device_seq":"x"}"#, "/device_seq"),
        ])
    func badHello(_ bad: Bad) {
        let error = #expect(throws: ReplyError.self) { try HelloMessages.readResponse(Array(bad.body.utf8)) }
        #expect(error?.pointer == bad.pointer)
    }
}
