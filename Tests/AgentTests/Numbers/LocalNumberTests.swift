import Foundation
import LocalAPI
import NumbersKit
import SyncCore
import SyncLinux
import Testing

/// Numbers that break arithmetic, in every place of every request of the local API. None of them may end the agent, make it answer
/// 5xx, or change what it does afterwards. A trap ends the run.
@Suite("Numbers from outside, at the local API")
struct LocalNumberTests {
    /// A request that a route takes: a new route does not compile here before it has one.
    struct Sample {
        var target: String?
        var body: String?
        var headers: [(String, String)] = []
    }

    static func sample(_ route: Route) -> Sample {
        switch route {
        case .enqueue:
            Sample(
                target: "/v1/mutations?wait=acked&timeout=1",
                body:
                    #"{"entity":"audits","record_id":"n-1","action":"upsert","data":{"n":1},"ops":[{"op":"inc","field":"c","by":1}],"ttl":60,"expect_version":0}"#
            )
        case .enqueueLines: Sample(body: #"{"entity":"audits","record_id":"n-2","action":"upsert","data":{"n":1},"ttl":60}"#)
        case .mutations: Sample(target: "/v1/mutations?after=0&limit=10")
        case .conflicts: Sample(target: "/v1/conflicts?limit=10")
        case .records: Sample(target: "/v1/records/audits?limit=10&where=n%3D1")
        case .query: Sample(body: #"{"entity":"audits","where":{"n":1},"limit":10}"#)
        case .blobs: Sample(target: "/v1/blobs?after=0&limit=10")
        case .audit: Sample(target: "/v1/audit?after=0&limit=10")
        case .ledger: Sample(target: "/v1/ledger?from=2026-11-01&to=2026-11-20")
        case .events: Sample(headers: [("Last-Event-ID", "1")])
        case .sync: Sample(body: #"{"scope":"push","timeout":1}"#)
        case .pause: Sample(body: #"{"for":60,"seconds":60}"#)
        case .hintLink: Sample(body: #"{"metered":true,"ttl":60}"#)
        case .plan: Sample(body: #"{"battery":50,"budget":1000}"#)
        case .resolveConflict: Sample(body: #"{"choice":"local","expect_remote_version":1}"#)
        case .retryMutation, .discardMutation, .undoMutation, .resume, .acknowledge, .checkConfig: Sample(body: #"{"n":1}"#)
        case .addBlob: Sample(target: "/v1/blobs?size=1", body: "x", headers: [("Content-Type", "application/octet-stream")])
        case .blobContent: Sample(target: "/v1/blobs/b-1/content?wait=1", headers: [("Range", "bytes=1-1")])
        case .mutation, .cancelMutation, .conflict, .record, .progress, .entities, .blob, .retryBlob, .removeBlob, .fetchBlob, .pinBlob,
            .unpinBlob, .welcome, .reference,
            .status, .health, .ready, .metrics,
            .config, .reloadConfig, .links, .clearLinkHint, .power, .why, .checklist, .diagnose:
            Sample()
        }
    }

    /// One of each.
    static let routes: [Route] = {
        let key = MutationKey(trusted: "0199c3f2-0000-7000-8000-00000000beef")
        let name = RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-1"))
        let targets = [
            "GET /v1/mutations", "GET /v1/conflicts", "GET /v1/records/audits", "GET /v1/blobs", "GET /v1/ledger", "GET /v1/audit",
            "GET /v1/events",
            "POST /v1/blobs", "PUT /v1/links/eth0", "DELETE /v1/links/eth0", "GET /v1/blobs/b-1", "GET /v1/blobs/b-1/content",
            "POST /v1/blobs/b-1/retry", "POST /v1/blobs/b-1/fetch", "POST /v1/blobs/b-1/pin", "POST /v1/blobs/b-1/unpin",
            "DELETE /v1/blobs/b-1", "GET /v1/conflicts/c-1", "POST /v1/conflicts/c-1/resolve",
        ]
        let parsed = targets.compactMap { text -> Route? in
            let words = text.split(separator: " ").map(String.init)
            return try? Route.parse(method: words[0], target: words[1])
        }
        return parsed + [
            .enqueue(wait: nil), .enqueueLines, .mutation(key), .cancelMutation(key), .retryMutation(key), .discardMutation(key),
            .undoMutation(key),
            .record(name, view: .merged), .progress(name), .query, .entities, .welcome, .reference, .status, .health, .ready, .metrics,
            .sync, .pause,
            .resume, .acknowledge, .config, .checkConfig,
            .reloadConfig, .links, .power, .why(key), .plan, .checklist, .diagnose,
        ]
    }()

    @Test("Every route is asked")
    func complete() throws {
        // By the names in the source of the table, which the compiler cannot count for us.
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "../../../Sources/LocalAPI/Routes/Route.swift")
        let source = try String(contentsOf: file.standardizedFileURL, encoding: .utf8)
        let declared = Set(source.matches(of: /case \.\w+: "([a-z_]+)"/).map { String($0.1) })
        #expect(declared.count >= 40)
        #expect(Set(Self.routes.map(\.name)) == declared)
    }

    @Test("No number in a request ends the agent or makes it answer 5xx, and work goes on", arguments: routes.map(\.name))
    func requests(_ name: String) async throws {
        let route = try #require(Self.routes.first { $0.name == name })
        let stand = try await AgentStand.start("blobs: { quota: 1MB }")
        // Events, so that each position before the journal's end has one after it.
        for index in 0..<4 { _ = try await stand.enqueue(#"{"entity":"audits","record_id":"e-\#(index)","action":"create","data":{}}"#) }
        let sample = Self.sample(route)
        let asked = RouteTarget(route)
        let target = sample.target ?? asked.target
        var requests: [(target: String, body: String?, headers: [(String, String)])] = [(target, sample.body, sample.headers)]
        // The parameters of the target, and its numbers: ids of blobs and conflicts.
        for match in target.matches(of: /[=-][0-9]+/) {
            for value in HostileNumbers.numbers {
                let changed =
                    target[..<match.range.lowerBound] + String(target[match.range.lowerBound]) + value + target[match.range.upperBound...]
                requests.append((String(changed), sample.body, sample.headers))
            }
        }
        for (index, header) in sample.headers.enumerated() {
            for match in header.1.matches(of: /[0-9]+/) {
                for value in HostileNumbers.numbers {
                    var headers = sample.headers
                    headers[index].1 = header.1[..<match.range.lowerBound] + value + header.1[match.range.upperBound...]
                    requests.append((target, sample.body, headers))
                }
            }
        }
        if let body = sample.body, let json = try? JSONReader.read(body) {
            for variant in HostileNumbers.variants(of: json) { requests.append((target, variant.json.json, sample.headers)) }
        }
        for value in HostileNumbers.numbers {
            requests.append((target, sample.body, sample.headers + [("Idempotency-Key", value), ("If-Match", "\"\(value)\"")]))
        }
        for request in requests {
            if case .events = route {
                try await firstEvent(stand, request.target, request.headers)
                continue
            }
            var headers: HTTPHeaders = [:]
            for (name, value) in request.headers { headers[name] = value }
            if case .enqueueLines = route { headers["Content-Type"] = "application/x-ndjson" }
            let answer = try await stand.send(asked.method, request.target, request.body, headers: headers)
            // The stand has no files, and has not met its hub yet: what asks for that is told so, and that is an answer.
            let isTold = (answer.code == "read-only" && asked.target.hasPrefix("/v1/blobs")) || answer["reason"] == "waiting"
            #expect(answer.status < 500 || isTold, "\(request): \(answer.status) \(answer.text.prefix(200))")
        }
        if name == "pause" { _ = try await stand.send(.post, "/v1/resume", "{}") }
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"sane","action":"create","data":{"n":1}}"#)
        #expect(try await stand.sync()["result"] == "ok")
        #expect(try await stand.send(.get, "/v1/mutations/\(id)")["state"] == "done")
        try await stand.stop()
    }

    /// Reads until the stream has said something; a position that cannot be is refused instead.
    private func firstEvent(_ stand: AgentStand, _ target: String, _ headers: [(String, String)]) async throws {
        var fields: HTTPHeaders = [:]
        for (name, value) in headers { fields[name] = value }
        let request = HTTPRequest(.get, "http://localhost" + target, headers: fields, socketPath: stand.socket)
        do {
            _ = try await stand.client.stream(
                request, onHead: { _, _ in }, onBody: { $0.starts(with: Array(":\n\n".utf8)) && $0.count == 3 })
        } catch {
            // Refused, or ended by ourselves after the first event.
        }
        #expect(try await stand.send(.get, "/v1/healthz").status == 200)
    }

    @Test(
        "A position at or beyond the end of all numbers is a reset, and not the end of the agent",
        arguments: [
            "9223372036854775807", "9223372036854775806", "4611686018427387904", "0",
        ])
    func lastEventID(_ id: String) async throws {
        let stand = try await AgentStand.start()
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a","action":"create","data":{}}"#)
        for _ in 0..<3 { try await firstEvent(stand, "/v1/events", [("Last-Event-ID", id)]) }
        try await stand.stop()
    }
}
