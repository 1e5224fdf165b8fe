import HubServer
import LocalAPI
import SyncCore
import Testing

@Suite("Answers of the hub, or of a server in its place")
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

    @Test("Status tells the present reason of an outage, and not the one that it began with")
    func presentCause() async throws {
        let stand = try await AgentStand.start()
        for detail in ["no address for hub.example.com", "the certificate is of another name", "connection refused"] {
            stand.hub.weather = .fails(TransportError(.unreachable, doing: "ask the hub", detail: detail))
            #expect(try await stand.sync()["result"] == "failed")
            let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
            #expect(status.connectivity.detail?.contains(detail) == true, "\(status.connectivity.detail ?? "nothing")")
        }
        try await stand.stop()
    }

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
            Nonsense("an empty 200", 200, json, "", state: "online"),
            Nonsense("a member twice", 200, json, #"{"head":1,"head":2,"results":[]}"#, state: "online"),
            Nonsense("a number beyond all measure", 200, json, #"{"head":1e999,"results":[]}"#, state: "online"),
            Nonsense("a hundred thousand brackets", 200, json, String(repeating: "[", count: 100_000), state: "online"),
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
        if example.state == "auth" { try await refusedUntilTheTokenIsNew(stand) }
        #expect(try await stand.sync()["result"] == "ok")
        #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "done")
        #expect(try stand.hub.document("audits", "a-1") == ["a": 1])
        try await stand.stop()
    }

    @Test(
        "Without a whole answer nothing changes in the store, status says what happened, and later all goes through",
        arguments: [
            TransportError(.tooLarge, doing: "read the answer", detail: "more than 16777216 bytes"),
            TransportError(.malformed, doing: "read the answer", detail: "gzip that is none"),
            TransportError(.broken, doing: "read the answer", detail: "ended within the body"),
            TransportError(.timedOut, doing: "wait for the answer", detail: "no byte in 30 s"),
            TransportError(.untrusted, doing: "TLS handshake", detail: "hostname mismatch"),
            TransportError(.untrustedDate, doing: "TLS handshake", detail: "certificate has expired"),
            TransportError(.clientCertificate, doing: "TLS handshake", detail: "certificate required"),
        ])
    func noAnswer(_ error: TransportError) async throws {
        let stand = try await AgentStand.start()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"a":1}}"#)
        stand.hub.weather = .fails(error)
        #expect(try await stand.sync()["result"] == "failed")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.connectivity.state != "online")
        #expect(status.sync.lastError?.contains(error.detail) == true, "\(status.sync.lastError ?? "nothing")")
        #expect(status.outbox.isBalanced && status.outbox.open == 1)
        stand.hub.weather = .fine
        if error.code == .clientCertificate { try await refusedUntilTheTokenIsNew(stand) }
        #expect(try await stand.sync()["result"] == "ok")
        #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "done")
        try await stand.stop()
    }

    /// A request for a sync does not send refused credentials again. The caller is told so at once.
    private func refusedUntilTheTokenIsNew(_ stand: AgentStand) async throws {
        let outcome = try await stand.sync()
        #expect(outcome["result"] == "deferred")
        #expect(outcome["deferred"]?.object?["critical"] == "auth")
        stand.outside.token = "a new one"
    }

    struct Changed: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// Which of two creates is done after this answer: what is said about it is believed, and nothing else.
        var done: [Bool]
        var change: @Sendable ([JSON]) -> [JSON]
    }

    /// A result under a key that the agent has not sent.
    private static let stranger: JSON = ["idempotency_key": "0199c3f2-0000-7000-8000-000000000000", "status": "accepted", "version": 7]

    @Test(
        "Each result of a push counts for its own key only; mutations without one stay, and are settled later",
        arguments: [
            Changed(testDescription: "in another order", done: [true, true]) { $0.reversed() },
            Changed(testDescription: "with a stranger's among them", done: [true, true]) { results in [stranger] + results },
            Changed(testDescription: "none", done: [false, false]) { _ in [] },
            Changed(testDescription: "of other keys only", done: [false, false]) { _ in [stranger] },
            Changed(testDescription: "one twice", done: [false, false]) { $0 + $0.prefix(1) },
            Changed(testDescription: "one that is no object", done: [false, false]) { Array($0.prefix(1)) + [JSON.null] },
            Changed(testDescription: "one without a version", done: [false, false]) { results in
                results.map { result in
                    var object = result.object ?? [:]
                    object["version"] = nil
                    object["original"] = nil
                    return .object(object)
                }
            },
            Changed(testDescription: "one without a key", done: [false, false]) { results in
                results.map { result in
                    var object = result.object ?? [:]
                    object["idempotency_key"] = nil
                    return .object(object)
                }
            },
        ])
    func changedResults(_ example: Changed) async throws {
        let stand = try await AgentStand.start("entities: { audits: { fields: { n: counter } } }\n")
        var ids: [String] = []
        for index in 1...2 {
            ids.append(
                try await stand.enqueue(
                    #"{"entity":"audits","record_id":"a-\#(index)","action":"create","ops":[{"field":"n","op":"inc","value":1}]}"#))
        }
        stand.hub.weather = .changesResults(example.change)
        let isWhole = !example.done.contains(false)
        #expect(try await stand.sync()["result"] == (isWhole ? "ok" : "failed"))
        for (id, isDone) in zip(ids, example.done) {
            let state = try await stand.send(.get, "/v1/mutations/\(id)")["state"]
            #expect((state == "done") == isDone)
        }
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.outbox.isBalanced && status.outbox.open == (isWhole ? 0 : 2))
        #expect((status.sync.lastError == nil) == isWhole)
        stand.hub.weather = .fine
        #expect(try await stand.sync()["result"] == "ok")
        for (index, id) in ids.enumerated() {
            #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "done")
            // Applied once, however often it was sent.
            #expect(try stand.hub.document("audits", "a-\(index + 1)") == ["n": 1])
            #expect(try await stand.send(.get, "/v1/records/audits/a-\(index + 1)")["data"] == ["n": 1])
        }
        try await stand.stop()
    }

    @Test("An answer that lost a result settles the others; the lost one is asked for again and applied once")
    func missingResult() async throws {
        let stand = try await AgentStand.start()
        var ids: [String] = []
        for index in 1...3 {
            ids.append(try await stand.enqueue(#"{"entity":"audits","record_id":"a-\#(index)","action":"create","data":{}}"#))
        }
        let lost = JSON.string(ids[1])
        stand.hub.weather = .changesResults { results in results.filter { $0.object?["idempotency_key"] != lost } }
        try await stand.sync()
        var states: [JSON?] = []
        for id in ids { states.append(try await stand.send(.get, "/v1/mutations/\(id)")["state"]) }
        #expect(states == ["done", "in_flight", "done"])
        stand.hub.weather = .fine
        #expect(try await stand.sync()["result"] == "ok")
        #expect(try await stand.send(.get, "/v1/mutations/\(ids[1])")["state"] == "done")
        try await stand.stop()
    }

    @Test("A lost answer never leads to a second application")
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
        // Another device deletes it while this one is away.
        let deleted = stand.hub.ask(
            "POST", "/v1/sync/push",
            body:
                #"{"acked_seq":0,"mutations":[{"seq":1,"idempotency_key":"k-1","entity":"audits","record_id":"a-1","action":"delete","base_version":1,"hlc":"0199c3f2a1b4-0007-9f2c11ab"}]}"#
        )
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
