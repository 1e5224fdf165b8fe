import Foundation
import LocalAPI
import SyncCore
import SyncLinux
import Testing

@Suite("The local API, over its socket, with a whole agent behind it")
struct LocalAPITests {
    @Test("An accepted mutation is in the mirror at once, at the hub after a sync, and every digit is as it was sent")
    func acceptedAndSynced() async throws {
        let stand = try await AgentStand.start()
        let body = #"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":9007199254740993,"v":1.10,"t":"e\u0301 \u00e9"}}"#
        let id = try await stand.enqueue(body)
        let before = try await stand.send(.get, "/v1/records/audits/a-1")
        #expect(before["sync_status"] == "pending")
        #expect(before.text.contains(#""data":{"n":9007199254740993,"v":1.10,"t":"e\u0301 \u00e9"}"#))
        #expect(try await stand.sync()["result"] == "ok")
        let after = try await stand.send(.get, "/v1/records/audits/a-1")
        #expect(after["sync_status"] == "synced")
        #expect(after.text.contains(#""data":{"n":9007199254740993,"v":1.10,"t":"e\u0301 \u00e9"}"#))
        #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "done")
        let atHub = try #require(try stand.hub.document("audits", "a-1"))
        #expect(atHub.json.contains("9007199254740993") && atHub.json.contains("1.10"))
        try await stand.stop()
    }

    @Test("The same Idempotency-Key with the same body gives the first answer again, with another body 409")
    func idempotencyKey() async throws {
        let stand = try await AgentStand.start()
        let body = #"{"entity":"audits","action":"create","data":{"a":1}}"#
        let first = try await stand.send(.post, "/v1/mutations", body, headers: ["Idempotency-Key": "k-1"])
        let again = try await stand.send(.post, "/v1/mutations", body, headers: ["Idempotency-Key": "k-1"])
        let other = try await stand.send(
            .post, "/v1/mutations", body.replacingOccurrences(of: "1", with: "2"), headers: ["Idempotency-Key": "k-1"])
        #expect(first.status == 201 && again.status == 200 && other.status == 409)
        #expect(first["id"] == again["id"])
        #expect(other.code == "idempotency-mismatch")
        let list = try await stand.send(.get, "/v1/mutations")
        #expect(list["items"]?.array?.count == 1)
        try await stand.stop()
    }

    struct Refusal: Sendable, CustomTestStringConvertible {
        var name: String
        var method = HTTPRequest.Method.post
        var path = "/v1/mutations"
        var body: String?
        var headers: HTTPHeaders = [:]
        var status: Int
        var code: String
        var testDescription: String { name }
    }

    @Test(
        "A refusal has its status and code, and leaves no trace",
        arguments: [
            Refusal(name: "an empty body", body: "", status: 400, code: "malformed"),
            Refusal(name: "not JSON", body: "hello", status: 400, code: "malformed"),
            Refusal(name: "cut JSON", body: #"{"entity":"audits""#, status: 400, code: "malformed"),
            Refusal(name: "trailing bytes", body: #"{"entity":"audits","action":"create","data":{}} x"#, status: 400, code: "malformed"),
            Refusal(name: "a byte order mark", body: "\u{FEFF}{}", status: 400, code: "malformed"),
            Refusal(name: "NaN", body: #"{"entity":"audits","action":"create","data":{"a":NaN}}"#, status: 400, code: "malformed"),
            Refusal(
                name: "Infinity", body: #"{"entity":"audits","action":"create","data":{"a":-Infinity}}"#, status: 400, code: "malformed"),
            Refusal(name: "a comment", body: #"{"entity":"audits",/* */"action":"create"}"#, status: 400, code: "malformed"),
            Refusal(
                name: "a member with a name of 300 bytes",
                body: #"{"entity":"audits","action":"create","data":{""# + String(repeating: "n", count: 300) + #"":1}}"#, status: 400,
                code: "malformed"),
            Refusal(
                name: "a member twice", body: #"{"entity":"audits","entity":"b","action":"create","data":{}}"#, status: 400,
                code: "malformed"),
            Refusal(
                name: "a hundred thousand brackets", body: String(repeating: "[", count: 100_000), status: 400,
                code: "malformed"),
            Refusal(
                name: "a misspelt member", body: #"{"entity":"audits","action":"create","dta":{}}"#, status: 400,
                code: "unknown-member"),
            Refusal(
                name: "a lone surrogate", body: #"{"entity":"audits","action":"create","data":{"a":"\ud800"}}"#, status: 400,
                code: "malformed"),
            Refusal(
                name: "NUL in a string", body: #"{"entity":"audits","action":"create","data":{"a":"\u0000"}}"#, status: 400,
                code: "malformed"),
            Refusal(
                name: "another content type", body: "{}", headers: ["Content-Type": "text/plain"], status: 415,
                code: "unsupported-media-type"),
            Refusal(
                name: "another charset", body: "{}", headers: ["Content-Type": "application/json; charset=latin1"], status: 415,
                code: "unsupported-media-type"),
            Refusal(
                name: "a content encoding", body: "{}", headers: ["Content-Encoding": "gzip"], status: 415,
                code: "unsupported-media-type"),
            Refusal(
                name: "a body above the limit", body: "\"" + String(repeating: "x", count: 1 << 20) + "\"", status: 413,
                code: "too-large"),
            Refusal(
                name: "a mutation above the limit",
                body: #"{"entity":"audits","action":"create","data":{"a":""# + String(repeating: "x", count: 200_000) + "\"}}",
                status: 413, code: "too-large"),
            Refusal(
                name: "an empty idempotency key", body: #"{"entity":"audits","action":"create","data":{}}"#,
                headers: ["Idempotency-Key": ""], status: 400, code: "malformed"),
            Refusal(
                name: "a long idempotency key", body: #"{"entity":"audits","action":"create","data":{}}"#,
                headers: ["Idempotency-Key": String(repeating: "k", count: 300)], status: 400, code: "malformed"),
            Refusal(
                name: "an update of nothing", body: #"{"entity":"audits","record_id":"no","action":"update","data":{"a":1}}"#,
                status: 404, code: "not-found"),
            Refusal(
                name: "a delete of nothing", body: #"{"entity":"audits","record_id":"no","action":"delete"}"#, status: 404,
                code: "not-found"),
            Refusal(
                name: "an unknown entity in a strict book", body: #"{"entity":"strangers","action":"create","data":{}}"#,
                status: 422, code: "validation"),
            Refusal(
                name: "a write to a reference", body: #"{"entity":"templates","action":"create","data":{}}"#, status: 422,
                code: "validation"),
            Refusal(
                name: "an update of an event", body: #"{"entity":"readings","record_id":"r","action":"update","data":{"a":1}}"#,
                status: 422, code: "validation"),
            Refusal(name: "an unknown path", method: .get, path: "/v1/foo", status: 404, code: "not-found"),
            Refusal(name: "a climbing path", method: .get, path: "/v1/records/audits/%2e%2e", status: 404, code: "not-found"),
            Refusal(name: "a hidden slash", method: .get, path: "/v1/records/audits/a%2fb", status: 400, code: "malformed"),
            Refusal(name: "NUL in the path", method: .get, path: "/v1/records/audits/%00", status: 400, code: "malformed"),
            Refusal(name: "another method", method: .delete, path: "/v1/status", status: 405, code: "method-not-allowed"),
            Refusal(
                name: "an unknown parameter", method: .get, path: "/v1/mutations?stat=pending", status: 400, code: "malformed"),
            Refusal(name: "an unknown mutation", method: .get, path: "/v1/mutations/nope", status: 404, code: "not-found"),
            Refusal(name: "an unknown record", method: .get, path: "/v1/records/audits/nope", status: 404, code: "not-found"),
        ])
    func refusals(_ example: Refusal) async throws {
        let stand = try await AgentStand.start(
            """
            strict_entities: true
            entities: { audits: { kind: record }, readings: { kind: event }, templates: { kind: reference } }
            """)
        let answer = try await stand.send(example.method, example.path, example.body, headers: example.headers)
        #expect(answer.status == example.status, "\(answer.text)")
        #expect(answer.code == example.code, "\(answer.text)")
        #expect(answer.headers["Content-Type"] == "application/problem+json")
        let status = try await stand.send(.get, "/v1/status")
        #expect(status.json.flatMap { StatusDocument($0) }?.outbox.enqueued == 0)
        #expect(try await stand.send(.get, "/v1/metrics").text.contains("agentd_refusals_total{code=\"\(example.code)\"} 1\n"))
        try await stand.stop()
    }

    @Test("An atomic list is one group: refused as a whole, or applied as a whole")
    func atomicList() async throws {
        let stand = try await AgentStand.start()
        let good = #"{"entity":"audits","record_id":"a-1","action":"create","data":{"a":1}}"#
        let bad = #"{"entity":"audits","record_id":"no","action":"update","data":{"a":1}}"#
        let refused = try await stand.send(.post, "/v1/mutations", #"{"atomic":true,"mutations":[\#(good),\#(bad)]}"#)
        #expect(refused.status == 404)
        #expect(try await stand.send(.get, "/v1/records/audits/a-1").status == 404)
        let other = good.replacingOccurrences(of: "a-1", with: "a-2")
        let taken = try await stand.send(.post, "/v1/mutations", #"{"atomic":true,"mutations":[\#(good),\#(other)]}"#)
        #expect(taken.status == 201)
        #expect(taken["results"]?.array?.count == 2)
        try await stand.sync()
        #expect(try stand.hub.document("audits", "a-1") != nil)
        #expect(try stand.hub.document("audits", "a-2") != nil)
        try await stand.stop()
    }

    @Test("A stream of lines: each stands alone, each is answered, the summary adds up")
    func bulkLines() async throws {
        let stand = try await AgentStand.start("entities: { readings: { kind: event } }\n")
        var lines = (1...700).map { #"{"entity":"readings","action":"create","data":{"v":\#($0)},"ref":\#($0)}"# }
        lines[100] = "not json"
        lines[200] = #"{"entity":"readings","record_id":"x","action":"delete","ref":"gone"}"#
        let answer = try await stand.send(
            .post, "/v1/mutations/bulk", lines.joined(separator: "\n"), headers: ["Content-Type": "application/x-ndjson"])
        let answers = try answer.text.split(separator: "\n").map { try JSONReader.read(String($0)) }
        #expect(answers.count == 701)
        #expect(answers.last == ["summary": ["accepted": 698, "failed": 2]])
        #expect(answers[100].object?["error"] != nil && answers[200].object?["ref"] == "gone")
        #expect(answers[699].object?["ref"] == 700)
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.outbox.enqueued == 698)
        #expect(status.outbox.isBalanced)
        try await stand.stop()
    }

    @Test("A query answers with what matches, in order, in pages that do not overlap")
    func queries() async throws {
        let stand = try await AgentStand.start()
        for n in 1...25 {
            _ = try await stand.enqueue(
                #"{"entity":"audits","record_id":"a-\#(100 + n)","action":"create","data":{"n":\#(n),"status":"\#(n % 2 == 0 ? "open" : "done")"}}"#
            )
        }
        let path = "/v1/records/audits?filter=status:eq:open&filter=n:gt:4&sort=-n&fields=n&limit=4"
        var seen: [Int64] = []
        var cursor: String?
        repeat {
            let page = try await stand.send(.get, path + (cursor.map { "&cursor=" + $0 } ?? ""))
            #expect(page.status == 200, "\(page.text)")
            seen += (page["items"]?.array ?? []).compactMap { $0.object?["data"]?.object?["n"]?.int }
            cursor = page["next"]?.text
        } while cursor != nil
        #expect(seen == [24, 22, 20, 18, 16, 14, 12, 10, 8, 6])
        let nested = try await stand.send(
            .post, "/v1/query",
            #"{"entity":"audits","where":{"or":[{"field":"n","op":"eq","value":3},{"field":"n","op":"in","value":[7,8]}]},"sort":["n"]}"#)
        #expect(nested["items"]?.array?.compactMap { $0.object?["data"]?.object?["n"]?.int } == [3, 7, 8])
        try await stand.stop()
    }

    @Test("Events come in order, and a reader that comes back goes on where it was")
    func events() async throws {
        let stand = try await AgentStand.start()
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"a":1}}"#)
        let first = try await stand.events(after: "0", until: 2)
        #expect(first.map(\.type) == ["mutation", "record"] || first.map(\.type) == ["record", "mutation"])
        let last = try #require(first.last?.id)
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-2","action":"create","data":{"a":1}}"#)
        let second = try await stand.events(after: last, until: 2, types: "mutation,record")
        #expect(second.allSatisfy { String(decoding: $0.data, as: UTF8.self).contains("a-2") })
        #expect(second.compactMap { $0.id.flatMap { Int64($0) } }.min() ?? 0 > Int64(last) ?? .max)
        try await stand.stop()
    }

    @Test("A pause is in force at once, keeps taking work, refuses a sync, and survives a restart")
    func pause() async throws {
        let stand = try await AgentStand.start()
        #expect(try await stand.send(.post, "/v1/pause", #"{"reason":"maintenance"}"#).status == 200)
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{}}"#)
        let refused = try await stand.sync()
        #expect(refused.status == 409 && refused.code == "paused")
        try await stand.stop(keepingFolder: true)
        let again = try await AgentStand.start(hub: stand.hub, in: stand.folder)
        #expect(try await again.send(.get, "/v1/status")["sync"]?.object?["paused"]?.object?["reason"] == "maintenance")
        #expect(try await again.sync().status == 409)
        #expect(try await again.send(.post, "/v1/resume").status == 200)
        #expect(try await again.sync()["result"] == "ok")
        #expect(try again.hub.document("audits", "a-1") != nil)
        try await again.stop()
    }

    @Test("A pause that has ended already is refused, with the time of the device")
    func pastPause() async throws {
        let stand = try await AgentStand.start()
        let refused = try await stand.send(.post, "/v1/pause", #"{"until":"2001-01-01T00:00:00Z"}"#)
        #expect(refused.status == 422 && refused.code == "validation" && refused.text.contains("until: expected a time after"))
        #expect(try await stand.send(.get, "/v1/status")["sync"]?.object?["paused"]?.object == nil)
        try await stand.stop()
    }

    @Test("A peer that no access rule names may ask for health, and nothing else")
    func strangers() async throws {
        let stand = try await AgentStand.start("access: [ { user: \"4242\", role: admin } ]\n")
        #expect(try await stand.send(.get, "/v1/healthz").status == 200)
        for path in ["/v1/status", "/v1/records/audits/a", "/v1/events", "/v1/config"] {
            let answer = try await stand.send(.get, path)
            #expect(answer.status == 403 && answer.code == "forbidden", "\(path): \(answer.text)")
        }
        try await stand.stop()
    }

    @Test("A role does what it says and no more: entities, priority, rate")
    func roles() async throws {
        let stand = try await AgentStand.start(
            """
            access: [ { user: "\(getuid())", role: enqueue, app: inspector, entities: [audits], max_priority: normal, rate: 5 } ]
            """)
        let other = try await stand.send(.post, "/v1/mutations", #"{"entity":"sites","action":"create","data":{}}"#)
        #expect(other.status == 403 && other.code == "entity-not-allowed")
        let urgent = try await stand.send(
            .post, "/v1/mutations", #"{"entity":"audits","action":"create","data":{},"priority":"critical"}"#)
        #expect(urgent.status == 403 && urgent.code == "forbidden")
        #expect(try await stand.send(.post, "/v1/pause", "{}").status == 403)
        var statuses: [Int] = []
        for _ in 0..<60 { statuses.append(try await stand.send(.get, "/v1/entities").status) }
        #expect(statuses.contains(429))
        try await stand.stop()
    }
}

extension LocalAPITests {
    @Test("A mutation expires in its time, although the hub was never reached, and `why` says when")
    func expires() async throws {
        let stand = try await AgentStand.start()
        let lasting = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{},"ttl":86400}"#)
        let why = try await stand.send(.get, "/v1/why/\(lasting)")
        #expect(why["state"] == "pending" && why["expires_at"]?.text != nil)
        // The wait ends when its mutation does.
        let answer = try await stand.send(
            .post, "/v1/mutations?wait=acked&timeout=300", #"{"entity":"audits","record_id":"a-2","action":"create","data":{},"ttl":1}"#)
        #expect(answer["state"] == "expired", "\(answer.text)")
        let id = try #require(answer["id"]?.text)
        #expect(try await stand.send(.get, "/v1/why/\(id)")["verdict"] == "settled")
        #expect(try await stand.send(.get, "/v1/why/\(lasting)")["state"] == "pending")
        #expect(try await stand.send(.get, "/v1/records/audits/a-2").status == 404)
        try await stand.stop()
    }

    // Fault: the answer told that the hub had decided, and showed the record as it was before: `pending` under its old version.
    @Test("A caller that waits for the hub gets the record as it is then: synced under its new version, or rolled back")
    func waitsForTheRecord() async throws {
        let stand = try await AgentStand.start()
        let created = try await stand.acked(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        #expect(created.status == 201 && created["state"] == "done", "\(created.text)")
        #expect(created["record"]?.object?["sync_status"] == "synced" && created["record"]?.object?["data"] == ["n": 1])
        let version = try #require(created["record"]?.object?["version"]?.int)
        let changed = try await stand.acked(#"{"entity":"audits","record_id":"a-1","action":"update","data":{"n":2}}"#)
        let record = try #require(changed["record"]?.object)
        #expect(record["sync_status"] == "synced" && record["data"] == ["n": 2], "\(changed.text)")
        let later = try #require(record["version"]?.int)
        #expect(version > 0 && later > version)
        stand.hub.weather = .changesResults { results in
            results.map { result in
                [
                    "idempotency_key": result.object?["idempotency_key"] ?? .null, "status": "rejected",
                    "problem": Problem("validation", status: 422, detail: "n must be a text").json(prefix: ""),
                ]
            }
        }
        let refused = try await stand.acked(#"{"entity":"audits","record_id":"a-1","action":"update","data":{"n":3}}"#)
        #expect(refused.status == 201 && refused["state"] == "rejected", "\(refused.text)")
        #expect(refused["record"]?.object?["data"] == ["n": 2])
        try await stand.stop()
    }
}

extension AgentStand {
    /// Enqueues one mutation, lets a cycle send it, and returns the answer of `?wait=acked`.
    fileprivate func acked(_ body: String) async throws -> Answer {
        async let answer = send(.post, "/v1/mutations?wait=acked&timeout=300", body)
        // The cycle must begin after the mutation was stored. On a busy machine these requests are more than an app may send in a second.
        var waiting: [JSON] = []
        while waiting.isEmpty {
            let list = try await send(.get, "/v1/mutations?state=pending")
            if list.status != 429 { waiting = try #require(list["items"]?.array, "\(list.text)") }
        }
        try await sync()
        return try await answer
    }

    /// Reads the event stream until so many events have come.
    func events(after position: String, until count: Int, types: String = "mutation,record") async throws -> [LocalEvent] {
        let collector = EventCollector(wanted: count)
        _ = try await client.stream(
            HTTPRequest(
                .get, "http://localhost/v1/events?types=\(types)", headers: ["Last-Event-ID": position], socketPath: socket,
                maxResponseBytes: .max),
            onHead: { _, _ in }, onBody: { collector.add($0) })
        return collector.events
    }
}

private final class EventCollector: @unchecked Sendable {
    // Touched on the transport's thread until the stream has ended, and after that by its reader only.
    private var parser = EventParser()
    private(set) var events: [LocalEvent] = []
    private let wanted: Int

    init(wanted: Int) {
        self.wanted = wanted
    }

    func add(_ bytes: [UInt8]) -> Bool {
        events += parser.read(bytes)
        return events.count < wanted
    }
}
