import SyncCore
import Testing

@Suite("Hello, known, pull and snapshot, both directions")
struct SmallMessagesTests {
    @Test("A hello arrives as it was sent")
    func hello() throws {
        let sent = HelloRequest(
            agent: "1.0.0", platform: "linux/arm64", replica: ReplicaID(trusted: "r-1"), maxSentSeq: 412, highestAckedSeq: 411,
            config: 42, entities: [EntityName(trusted: "audits"), EntityName(trusted: "templates")])
        #expect(try HelloMessages.readRequest(HelloMessages.request(sent)) == sent)
        #expect(try HelloMessages.readRequest(Array("{}".utf8)) == HelloRequest())
    }

    @Test("An answer to hello arrives as it was sent")
    func helloAnswer() throws {
        let sent = HelloResponse(
            device: DeviceID(trusted: "gw-17"), epoch: "7f3a", head: 90_211, time: Timestamp(milliseconds: 1_795_208_400_123),
            deviceSeq: 412, config: 43, capabilities: ["gzip", "groups"],
            limits: .init(pushMutations: 50, pushBytes: 262_144, pullRecords: 100, mutationBytes: 1_000), spread: .seconds(30))
        #expect(try HelloMessages.readResponse(HelloMessages.response(sent)) == sent)
    }

    @Test("Limits that a hub announces can only lower ours")
    func limits() throws {
        let body =
            #"{"device_id":"d","epoch":"e","head":0,"limits":{"push_mutations":100000,"push_bytes":-5,"pull_records":"x"},"spread_s":999999}"#
        let read = try HelloMessages.readResponse(Array(body.utf8))
        #expect(read.limits == .init())
        #expect(read.spread == .seconds(3_600))
    }

    @Test(
        "An answer to hello that is not as agreed is refused",
        arguments: [
            "", "[]", "{}", #"{"device_id":"d","epoch":"e"}"#, #"{"device_id":"d d","epoch":"e","head":1}"#,
            #"{"device_id":"d","epoch":"","head":1}"#, #"{"device_id":"d","epoch":"e","head":-1}"#,
            #"{"device_id":"d","epoch":"e","head":1,"device_seq":"x"}"#, #"{"device_id":"d","epoch":"e","head":1,"capabilities":[5]}"#,
        ])
    func badHello(_ body: String) {
        #expect(throws: ReplyError.self) { try HelloMessages.readResponse(Array(body.utf8)) }
    }

    @Test("Keys and unknown keys arrive in their order")
    func known() throws {
        let keys = ["k-2", "k-1"].map { MutationKey(trusted: $0) }
        #expect(try KnownMessages.readRequest(KnownMessages.request(keys)) == keys)
        #expect(try KnownMessages.readResponse(KnownMessages.response(unknown: keys)) == keys)
        let tooMany = KnownMessages.request((0...1_000).map { MutationKey(trusted: "k-\($0)") })
        #expect(#expect(throws: Problem.self) { try KnownMessages.readRequest(tooMany) }?.code == "too-large")
    }

    @Test("A pull arrives as it was sent, with limits lowered to the hub's")
    func pull() throws {
        let sent = PullRequest(
            streams: [
                StreamPosition(entity: EntityName(trusted: "templates"), cursor: "eyJ"),
                StreamPosition(entity: EntityName(trusted: "audits"), cursor: nil),
            ], limit: 500, maxBytes: 65_536, maxSentSeq: 412)
        #expect(try PullMessages.readRequest(PullMessages.request(sent)) == sent)
        let greedy = try PullMessages.readRequest(Array(#"{"streams":[],"limit":1000000,"max_bytes":99999999999}"#.utf8))
        #expect(greedy.limit == 1_000 && greedy.maxBytes == 4 << 20)
        let plain = try PullMessages.readRequest(Array(#"{"streams":[]}"#.utf8))
        #expect(plain.limit == 500 && plain.maxBytes == 1 << 20)
    }

    @Test(
        "A request that is not as agreed is malformed, and says where",
        arguments: [
            ("{}", "/streams"), (#"{"streams":{}}"#, "/streams"), (#"{"streams":[1]}"#, "/streams/0"),
            (#"{"streams":[{"entity":"a b"}]}"#, "/streams/0/entity"), (#"{"streams":[{"entity":"a","cursor":5}]}"#, "/streams/0/cursor"),
            (#"{"streams":[{"entity":"a"},{"entity":"a"}]}"#, "/streams/1/entity"), (#"{"streams":[],"limit":0}"#, "/limit"),
            (#"{"streams":[],"limit":1.5}"#, "/limit"), (#"{"streams":[],"max_bytes":"x"}"#, "/max_bytes"),
        ])
    func badPull(_ body: String, _ pointer: String) {
        let error = #expect(throws: Problem.self) { try PullMessages.readRequest(Array(body.utf8)) }
        #expect(error?.code == "malformed")
        #expect(error?.errors.first?.pointer == pointer)
    }

    @Test("A page of a listing arrives as it was sent")
    func snapshot() throws {
        let record = HubRecord(version: 5, data: ["a": 1], hlc: "0199c3f2a1b4-0007-9f2c11ab", fieldHLC: ["a": "0199c3f2a1b4-0001-9f2c11ab"])
        let page = SnapshotPage(
            entity: EntityName(trusted: "audits"), startCursor: "abc", startVersion: 9,
            records: [.init(id: RecordID(trusted: "a-1"), record: record, originDevice: "gw-1", originKey: "k")],
            after: RecordID(trusted: "a-1"), hasMore: true)
        #expect(try SnapshotMessages.readResponse(SnapshotMessages.response(page)) == page)
    }

    @Test("A page of a listing that cannot go on is refused")
    func endless() {
        let body = #"{"entity":"a","start":{"cursor":"c","version":1},"records":[],"has_more":true}"#
        #expect(throws: ReplyError.self) { try SnapshotMessages.readResponse(Array(body.utf8)) }
    }
}
