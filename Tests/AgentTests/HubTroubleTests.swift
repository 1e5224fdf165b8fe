import HubServer
import LocalAPI
import SyncCore
import Testing

@Suite("What the hub, or something in its place, may answer")
struct HubTroubleTests {
    struct Nonsense: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var response: HTTPResponse
        /// The reachability that status shows then.
        var state: String

        init(_ name: String, _ status: Int, _ type: String?, _ body: String, version: Bool = true, state: String) {
            testDescription = name
            var headers: HTTPHeaders = [:]
            if version { headers["Sync-Version"] = "1" }
            if let type { headers["Content-Type"] = type }
            response = HTTPResponse(status: status, headers: headers, body: Array(body.utf8))
            self.state = state
        }
    }

    private static let json = "application/json"

    @Test(
        "Nonsense changes nothing in the store, is named in status, and the work goes through when the hub is back",
        arguments: [
            Nonsense("HTML with 200", 200, "text/html", "<h1>Welcome to our WiFi</h1>", version: false, state: "captive"),
            Nonsense("JSON without Sync-Version", 200, json, #"{"head":1,"results":[]}"#, version: false, state: "captive"),
            Nonsense("a redirect", 302, nil, "", version: false, state: "captive"),
            Nonsense("HTML that claims to be the hub's", 200, "text/html", "<p>", state: "captive"),
            Nonsense("204", 204, nil, "", version: false, state: "captive"),
            Nonsense("cut JSON", 200, json, #"{"head":1,"resul"#, state: "online"),
            Nonsense("wrong types", 200, json, #"{"epoch":"e","head":"one","device_id":"gw-test","results":{}}"#, state: "online"),
            Nonsense("null", 200, json, "null", state: "online"),
            Nonsense("an empty object", 200, json, "{}", state: "online"),
            Nonsense("a version of the future", 200, json, "{}", state: "online"),
            Nonsense("a proxy's 502", 502, "text/html", "bad gateway", version: false, state: "degraded"),
            Nonsense("401", 401, "application/problem+json", #"{"type":"urn:edge-sync:auth","status":401}"#, state: "auth"),
            Nonsense("404 at the wrong address", 404, "text/plain", "no such page", version: false, state: "degraded"),
        ])
    func nonsense(_ example: Nonsense) async throws {
        let stand = try await AgentStand.start()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"a":1}}"#)
        stand.hub.weather = .says(example.response)
        let outcome = try await stand.sync()
        #expect(outcome["result"] == "failed")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.connectivity.state == example.state)
        #expect(status.sync.lastError?.isEmpty == false)
        #expect(status.sync.lastSuccess == nil)
        #expect(status.outbox.isBalanced && status.outbox.open == 1)
        let state = try await stand.send(.get, "/v1/mutations/\(id)")["state"]
        #expect(state == "pending" || state == "in_flight")
        stand.hub.weather = .fine
        #expect(try await stand.sync()["result"] == "ok")
        #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "done")
        #expect(try stand.hub.document("audits", "a-1") == ["a": 1])
        try await stand.stop()
    }

    @Test("An answer that is lost makes nobody apply anything twice")
    func lostAnswer() async throws {
        let stand = try await AgentStand.start("entities: { audits: { fields: { n: counter } } }\n")
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        try await stand.sync()
        _ = try await stand.enqueue(
            #"{"entity":"audits","record_id":"a-1","action":"update","ops":[{"field":"n","op":"inc","value":5}]}"#)
        stand.hub.weather = .losesAnswers
        #expect(try await stand.sync()["result"] == "failed")
        stand.hub.weather = .fine
        #expect(try await stand.sync()["result"] == "ok")
        #expect(try stand.hub.document("audits", "a-1") == ["n": 6])
        #expect(try await stand.send(.get, "/v1/records/audits/a-1")["data"] == ["n": 6])
        try await stand.stop()
    }

    @Test("A rejection takes the value out of the mirror, keeps it for its author, and can be repeated or let go")
    func rejection() async throws {
        let stand = try await AgentStand.start()
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"a":1}}"#)
        try await stand.sync()
        // Somebody else deletes it while this device is away.
        let deleted = stand.hub.ask(
            "POST", "/v1/sync/push",
            body: #"{"acked_seq":0,"mutations":[{"seq":1,"idempotency_key":"k-1","entity":"audits","record_id":"a-1","action":"delete","base_version":1,"hlc":"0199c3f2a1b4-0007-9f2c11ab"}]}"#)
        #expect(String(decoding: deleted.body, as: UTF8.self).contains("accepted"))
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"update","data":{"a":2}}"#)
        #expect(try await stand.send(.get, "/v1/records/audits/a-1")["data"] == ["a": 2])
        try await stand.sync()
        let refused = try await stand.send(.get, "/v1/mutations/\(id)")
        #expect(refused["state"] == "rejected")
        #expect(refused["data"] == ["a": 2])
        #expect(refused["problem"] != nil)
        #expect(try await stand.send(.get, "/v1/records/audits/a-1?view=merged")["data"] != ["a": 2])
        let inbox = try await stand.send(.get, "/v1/rejected")
        #expect(inbox["items"]?.array?.count == 1)
        let gone = try await stand.send(.post, "/v1/mutations/\(id)/discard", #"{"reason":"seen"}"#)
        #expect(gone.status == 200, "\(gone.text)")
        #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "discarded")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.outbox.isBalanced && status.outbox.open == 0)
        try await stand.stop()
    }

    @Test("Without a hub apps go on: status says what waits and why")
    func offline() async throws {
        let stand = try await AgentStand.start()
        stand.hub.weather = .gone
        for n in 1...5 { _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-\#(n)","action":"create","data":{}}"#) }
        try await stand.sync()
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.connectivity.state == "degraded")
        #expect(status.outbox.open == 5)
        #expect(status.overall.level == .degraded)
        #expect(try await stand.send(.get, "/v1/records/audits/a-3")["sync_status"] == "pending")
        try await stand.stop()
    }
}
