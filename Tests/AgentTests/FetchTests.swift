import HubServer
import LocalAPI
import SyncCore
import SyncLinux
import SyncStore
import Testing

/// Records whose documents are not kept on the device: what apps see of them, and how a document comes back.
@Suite("Records that are not kept, with a whole agent behind them")
struct FetchTests {
    private static let audits = EntityName(trusted: "audits")
    private static let done: JSONObject = ["status": "done", "note": "n"]
    private static let settings = "entities: { audits: { keep: { days: 7, when: { status: [done] } } } }\n"

    /// The folder of an agent that has dropped the document of a record, and a hub that has it.
    private static func dropped(at hub: LoopbackHub) throws -> String {
        try hub.publish("audits", "a-1", done)
        let listed = try SnapshotMessages.readResponse(hub.ask("GET", "/v1/sync/snapshot?entity=audits").body)
        var record = try #require(listed.records.first).record
        let now = SystemClocks().now()
        // Its stamp says that it was finished long ago.
        record.hlc = HybridTime(milliseconds: UInt64(now.wall.milliseconds - 100 * 86_400_000), counter: 0, node: "1b2c11ab").description
        var rules = EntityRules()
        rules.keep = KeepRule(days: 7, when: ["status": ["done"]])
        let folder = try AgentStand.makeFolder()
        let options = StoreOptions(
            device: DeviceID(trusted: "gw-test"), bootID: "boot-1", rules: RuleBook([audits: rules]), capacity: StoreCapacity(), seed: 7)
        let store = try Store(Database.open(path: folder + "/agent.db"), options, at: now)
        let page = StreamPage(
            entity: audits, cursor: listed.startCursor, hasMore: false, records: [.init(id: RecordID(trusted: "a-1"), record: record)],
            deletions: [])
        _ = try store.applyPull(PullResponse(epoch: nil, head: 1, pages: [page]), at: now)
        while try store.housekeep(at: now) {}
        try store.close(at: now)
        return folder
    }

    private static func start() async throws -> AgentStand {
        let hub = try LoopbackHub()
        return try await AgentStand.start(settings, hub: hub, in: try dropped(at: hub))
    }

    // Fault: an app takes the record for missing or deleted, and makes it anew.
    @Test("Reads, lists and changes say that the document is not kept, and a sync does not bring it back")
    func told() async throws {
        let stand = try await Self.start()
        for _ in 0..<2 {
            let read = try await stand.send(.get, "/v1/records/audits/a-1")
            #expect(read.status == 409 && read.code == "not-kept")
            #expect(read["fetch"] == "/v1/records/audits/a-1?fetch=1")
            let list = try await stand.send(.get, "/v1/records/audits?include_deleted=true")
            #expect(list["items"] == [] && list["not_kept"] == 1)
            let entities = try await stand.send(.get, "/v1/entities")
            #expect(entities.json?.array?.first?.object?["not_kept"] == 1 && entities.json?.array?.first?.object?["records"] == 0)
            let update = #"{"entity":"audits","record_id":"a-1","action":"update","data":{"note":"m"}}"#
            #expect(try await stand.send(.post, "/v1/mutations", update).code == "not-kept")
            try await stand.sync()
        }
        let metrics = try await stand.send(.get, "/v1/metrics").text
        #expect(metrics.contains(#"agentd_records_not_kept{entity="audits"} 1"#))
        try await stand.stop()
    }

    @Test("A fetched record is here in full, and can be changed")
    func fetched() async throws {
        let stand = try await Self.start()
        try await stand.sync()
        let asked = stand.hub.requests.count
        let fetched = try await stand.send(.get, "/v1/records/audits/a-1?fetch=1&view=both")
        #expect(fetched.status == 200, "\(fetched.text)")
        #expect(fetched["data"] == .object(Self.done) && fetched["base"] == .object(Self.done) && fetched["sync_status"] == "synced")
        let requests = stand.hub.requests.dropFirst(asked).map(\.url)
        #expect(requests.count == 1 && requests.first?.contains("/v1/sync/snapshot?entity=audits&limit=1&after=a-0") == true)
        // The second time it is here.
        #expect(try await stand.send(.get, "/v1/records/audits/a-1?fetch=1").status == 200)
        #expect(stand.hub.requests.count == asked + 1)
        #expect(try await stand.send(.get, "/v1/records/audits")["not_kept"] == nil)
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"update","data":{"note":"m"}}"#)
        try await stand.sync()
        #expect(try stand.hub.document("audits", "a-1") == ["status": "done", "note": "m"])
        try await stand.stop()
    }

    @Test("Without a hub the answer says why, and the stub stays")
    func unavailable() async throws {
        let stand = try await Self.start()
        try await stand.sync()
        stand.hub.weather = .gone
        let gone = try await stand.send(.get, "/v1/records/audits/a-1?fetch=1")
        #expect(gone.status == 503 && gone.code == "hub-unavailable")
        stand.hub.weather = .fine
        #expect(try await stand.send(.post, "/v1/pause", #"{"reason":"work on the line"}"#).status == 200)
        let paused = try await stand.send(.get, "/v1/records/audits/a-1?fetch=1")
        #expect(paused.status == 503 && paused.code == "hub-unavailable" && paused.text.contains("paused"))
        #expect(try await stand.send(.get, "/v1/records/audits/a-1").code == "not-kept")
        try await stand.stop()
    }

    // Fault: a record of others is told apart from one that does not exist.
    @Test("A record that the hub does not show is not found, and an answer of another history brings nothing", arguments: [true, false])
    func notShown(isOtherHistory: Bool) async throws {
        let stand = try await Self.start()
        try await stand.sync()
        stand.hub.weather = .changes { request, response in
            guard request.url.contains("/v1/sync/snapshot") else { return }
            if isOtherHistory {
                response.headers[HubHeader.epoch] = "another"
            } else {
                let page = SnapshotPage(
                    entity: Self.audits, startCursor: "c", startVersion: 1, records: [], after: nil, hasMore: false)
                response.headers["Content-Encoding"] = nil
                response.body = SnapshotMessages.response(page)
            }
        }
        let answer = try await stand.send(.get, "/v1/records/audits/a-1?fetch=1")
        #expect(answer.code == (isOtherHistory ? "hub-unavailable" : "not-found"))
        #expect(try await stand.send(.get, "/v1/records/audits/a-1").code == "not-kept")
        try await stand.stop()
    }
}
