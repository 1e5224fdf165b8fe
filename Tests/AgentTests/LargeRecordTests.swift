import HubServer
import SyncCore
import SyncStore
import Testing

/// Many changes of one large record wait, and another device has changed it too.
@Suite("Large records")
struct LargeRecordTests {
    private static let audits = EntityName(trusted: "audits")
    private static let id = RecordID(trusted: "a")
    private let start = Timestamp(milliseconds: 1_795_208_400_000)

    private func hub() throws -> Hub {
        try Hub(.memory, settings: Hub.Settings(), random: SeededRandom(seed: 1))
    }

    private func push(_ body: [UInt8], to hub: Hub, as device: DeviceID) throws -> [UInt8] {
        var headers: HTTPHeaders = [:]
        HubRequestHeaders(device: device, replica: ReplicaID(trusted: "r-\(device.text)")).write(to: &headers)
        let response = hub.handle(HubRequest("POST", "/v1/sync/push", headers: headers, body: body), at: start)
        #expect(response.status == 200, "\(String(decoding: response.body, as: UTF8.self))")
        return response.body
    }

    @Test(
        "600 changes that wait reach the hub in answers of a few hundred kilobytes, also when each answer is lost once",
        arguments: [false, true])
    func drains(_ losesAnswers: Bool) throws {
        let hub = try hub()
        let (mine, theirs) = (DeviceID(trusted: "gw-1"), DeviceID(trusted: "gw-2"))
        let rules = RuleBook([Self.audits: EntityRules()])
        let options = StoreOptions(device: mine, bootID: "boot-1", rules: rules, seed: 1)
        let now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: start)
        let store = try Store(Database.inMemory(), options, at: now)
        let app = Requester(app: AppName(trusted: "inspector"), uid: 1_000)
        func change(_ action: NewMutation.Action, _ data: JSONObject) throws {
            let mutation = NewMutation(action, Self.audits, Self.id, data: data, coalesces: false)
            _ = try store.enqueue([mutation], by: app, at: now)
        }
        var answers: [Int] = []
        func settle(_ batch: Batch) throws {
            let answer = try push(PushMessages.request(batch, config: nil), to: hub, as: mine)
            answers.append(answer.count)
            _ = try store.applyResults(try PushMessages.readResponse(answer).results, next: nil, at: now)
        }
        let limits = BatchLimits(mutations: 500, bytes: 1 << 20)
        try change(.create, ["text": .string(String(repeating: "x", count: 120_000)), "n": 0])
        try settle(try #require(try store.claim(limits, at: now)))
        let other: JSON = [
            "acked_seq": 0,
            "mutations": [
                [
                    "seq": 1, "idempotency_key": "other", "entity": "audits", "record_id": "a", "action": "update", "data": ["other": 1],
                    "base_version": 1, "hlc": .string(HybridTime(milliseconds: 1, counter: 0, node: "0000000b").description),
                    "client_updated_at": "2026-11-20T21:04:05.120Z",
                ]
            ],
        ]
        _ = try push(other.bytes, to: hub, as: theirs)
        for number in 1...600 { try change(.update, ["n": .int(number)]) }
        var rounds = 0
        while let batch = try store.claim(limits, at: now) {
            rounds += 1
            try #require(rounds < 20)
            if losesAnswers { _ = try push(PushMessages.request(batch, config: nil), to: hub, as: mine) }
            try settle(losesAnswers ? try #require(try store.loadInFlight(limits, at: now)) : batch)
        }
        let waiting = try store.reads.facts(at: now).waitingBytes
        #expect(waiting == 0)
        // A repetition shows the record until there is a megabyte of it.
        #expect(answers.allSatisfy { $0 < (losesAnswers ? 2 << 20 : 300 << 10) }, "\(answers)")
        let view = try #require(try store.reads.record(RecordName(Self.audits, Self.id))?.view)
        let document = try JSONReader.read(view).object
        #expect(document?["n"] == 600 && document?["other"] == 1)
        #expect(try store.verify() == [])
    }
}
