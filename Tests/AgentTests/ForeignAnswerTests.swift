import Agent
import LocalAPI
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// A server in the hub's place must decide neither about tokens nor about readable records.
@Suite("Something in the hub's place, and one bad stream")
struct ForeignAnswerTests {
    /// Answers everything with one response.
    private final class Says: HTTPTransport {
        let response = Mutex(HTTPResponse(status: 200))
        let shown = Mutex<[String?]>([])
        let interfaces = Mutex<[String?]>([])

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            shown.withLock { $0.append(request.headers["Authorization"]) }
            interfaces.withLock { $0.append(request.interface) }
            return response.withLock { $0 }
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void, onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse {
            throw TransportError(.malformed, doing: "stream", detail: "nothing is streamed here")
        }
    }

    private static func backend(_ transport: Says) -> RestClient {
        var mapping = RestMapping()
        mapping.baseURL = "https://api.example.org"
        return RestClient(
            settings: .init(mapping: mapping, tls: TLSIdentity(), userAgent: "test"), transport: transport, time: SystemClocks(),
            secret: { _ in "" })
    }

    @Test("A probe of the breaker goes over the link that the sync goes over", arguments: [true, false])
    func probeInterface(_ isPinned: Bool) async {
        let transport = Says()
        var uplink = Uplink(name: "wwan0")
        uplink.isPinned = isPinned
        let client = Self.client(transport, Keeps(), provisioned: "operators", kept: nil)
        _ = await client.probe(nonce: "n", over: uplink)
        _ = await Self.backend(transport).probe(over: uplink)
        let expected: String? = isPinned ? "wwan0" : nil
        #expect(transport.interfaces.withLock { $0 } == [expected, expected])
    }

    @Test("The breaker and reachability judge the answer of a backend to a probe by one rule")
    func backendProbe() async {
        let transport = Says()
        let client = Self.backend(transport)
        let reachability = ProbeClient(backend: "https://api.example.org/", tls: TLSIdentity())
        var refused: [Int] = []
        for status in 200...599 {
            let response = HTTPResponse(status: status)
            transport.response.withLock { $0 = response }
            let isGood = await client.probe(over: nil).isGood
            if case .good = reachability.outcome(of: .success(response), nonce: "") {
                #expect(isGood, "\(status)")
            } else {
                #expect(!isGood, "\(status)")
            }
            if !isGood { refused.append(status) }
        }
        #expect(refused == [502, 503, 504, 511])
    }

    private final class Keeps: Sendable {
        let count = Mutex(0)
    }

    private static func client(_ transport: Says, _ keeps: Keeps, provisioned: String, kept: KeptToken?) -> HubClient {
        HubClient(
            settings: .init(
                baseURL: "http://hub", device: DeviceID(trusted: "gw-1"), tls: TLSIdentity(), compressOver: 1 << 20, userAgent: "test"),
            transport: transport, compressor: ZlibCompressor(), time: SystemClocks(), token: { provisioned },
            keeper: HubClient.TokenKeeper(read: { kept }, keep: { _ in keeps.count.withLock { $0 += 1 } }))
    }

    @Test("No status without Sync-Version changes the token that is shown, or the one that is kept; the hub's own does")
    func tokens() async throws {
        let (transport, keeps) = (Says(), Keeps())
        let client = Self.client(transport, keeps, provisioned: "operators", kept: KeptToken("lastgood"))
        let call = HubCall(id: 1, kind: .pull, session: "s", body: Array("{}".utf8))
        let replica = ReplicaID(trusted: "r-1")
        for status in 200...599 where status != 415 {
            transport.response.withLock { response in
                response = HTTPResponse(status: status, headers: ["Content-Type": "application/json"], body: Array("{}".utf8))
            }
            _ = await client.send(call, replica: replica)
            #expect(!client.showsOtherToken && keeps.count.withLock { $0 } == 0, "\(status)")
        }
        #expect(Set(transport.shown.withLock { $0 }).count == 1)
        // The controls: the same statuses with the header.
        transport.response.withLock { $0 = HTTPResponse(status: 200, headers: ["Sync-Version": "1", "Content-Type": "application/json"]) }
        _ = await client.send(call, replica: replica)
        #expect(keeps.count.withLock { $0 } == 1)
        transport.response.withLock { $0 = HTTPResponse(status: 401, headers: ["Sync-Version": "1"]) }
        _ = await client.send(call, replica: replica)
        #expect(client.showsOtherToken)
    }

    @Test("A refresh and an enrolment that something else answers keep nothing, and the refresh counts as failed")
    func grants() async throws {
        let (transport, keeps) = (Says(), Keeps())
        let grant = HTTPResponse(
            status: 200, headers: ["Content-Type": "application/json"],
            body: Array(
                #"{"device_id":"gw-1","token":"est_\#(String(repeating: "e", count: 43))","expires_at":"2099-01-01T00:00:00Z"}"#.utf8))
        transport.response.withLock { $0 = grant }
        let client = Self.client(transport, keeps, provisioned: "operators", kept: nil)
        let refreshed = await client.refreshToken(replica: ReplicaID(trusted: "r-1"))
        guard case .failure(let error) = refreshed else {
            Issue.record("taken for the hub's: \(refreshed)")
            return
        }
        #expect(error.description.contains("Sync-Version"))
        transport.response.withLock { $0.status = 201 }
        let enrolling = Self.client(transport, keeps, provisioned: "ese_" + String(repeating: "a", count: 43), kept: nil)
        let call = HubCall(id: 1, kind: .pull, session: "s", body: Array("{}".utf8))
        _ = await enrolling.send(call, replica: ReplicaID(trusted: "r-1"))
        #expect(keeps.count.withLock { $0 } == 0)
    }

    @Test("Records that the hub cannot read itself are told until they come, and everything else is read")
    func leftOut() async throws {
        let stand = try await AgentStand.start("entities: { audits: { kind: record } }\n")
        try stand.hub.publish("audits", "good", ["n": 1])
        stand.hub.weather = .changes { request, response in
            guard request.url.contains("/v1/sync/pull") else { return }
            let named = #""entity":"audits","unreadable":["bad"],"#
            response.body = Array(String(decoding: response.body, as: UTF8.self).replacing(#""entity":"audits","#, with: named).utf8)
        }
        _ = try await stand.sync()
        #expect(try await stand.send(.get, "/v1/records/audits/good").status == 200)
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        let alarm = status.alarms.first { $0.has(.recordsUnreadable) }
        #expect(alarm?.detail.contains("1 of audits (bad)") == true, "\(status.alarms)")
        #expect(status.overall.level != .ok)

        stand.hub.weather = .fine
        try stand.hub.publish("audits", "bad", ["n": 2])
        _ = try await stand.sync()
        #expect(try await stand.send(.get, "/v1/records/audits/bad").status == 200)
        let healed = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(!healed.alarms.contains { $0.has(.recordsUnreadable) })
        try await stand.stop()
    }

    @Test("One record that cannot be read: the push goes on, other entities are read, status names it, and it is read when it can be")
    func badRecord() async throws {
        let stand = try await AgentStand.start("entities: { audits: { kind: record }, sites: { kind: record } }\n")
        try stand.hub.publish("audits", "good", ["n": 1])
        try stand.hub.publish("audits", "bad", ["n": 2])
        try stand.hub.publish("sites", "s-1", ["n": 3])
        stand.hub.weather = .changes { request, response in
            guard request.url.contains("/v1/sync/") else { return }
            response.body = Array(
                String(decoding: response.body, as: UTF8.self).replacing("\"id\":\"bad\"", with: "\"id\":\"../../bad\"").utf8)
        }
        let key = try await stand.enqueue(#"{"entity":"audits","record_id":"ours","action":"create","data":{"a":1}}"#)
        _ = try await stand.sync()
        #expect(try await stand.send(.get, "/v1/mutations/\(key)")["state"] == "done")
        #expect(try stand.hub.document("audits", "ours") != nil)
        #expect(try await stand.send(.get, "/v1/records/sites/s-1").status == 200)
        #expect(try await stand.send(.get, "/v1/records/audits/good").status == 404, "nothing of the bad page is applied")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        let alarm = status.alarms.first { $0.code == "stream_unreadable" }
        #expect(
            alarm?.detail.contains("audits") == true && alarm?.detail.contains("../../bad") == true, "\(String(describing: status.alarms))")
        #expect(status.overall.level != .ok)
        #expect(status.sync.lastError?.contains("audits was not read") == true)

        stand.hub.weather = .fine
        _ = try await stand.sync()
        #expect(try await stand.send(.get, "/v1/records/audits/good").status == 200)
        #expect(try await stand.send(.get, "/v1/records/audits/bad").status == 200)
        let healed = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(!healed.alarms.contains { $0.code == "stream_unreadable" })
        try await stand.stop()
    }

    @Test("A proxy's 413 rejects nothing: the change stays in the mirror and goes when the proxy is gone")
    func proxyTooLarge() async throws {
        let stand = try await AgentStand.start()
        stand.hub.weather = .changes { request, response in
            guard request.url.hasSuffix("/v1/sync/push") else { return }
            response = HTTPResponse(status: 413, headers: ["Content-Type": "text/html"], body: Array("<html>".utf8))
        }
        let key = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"a":1}}"#)
        for _ in 0..<3 { _ = try await stand.sync() }
        let state = try await stand.send(.get, "/v1/mutations/\(key)")["state"]
        #expect(state == "pending" || state == "in_flight", "\(String(describing: state))")
        #expect(try await stand.send(.get, "/v1/records/audits/a-1").status == 200)
        try await stand.stop()
    }
}
