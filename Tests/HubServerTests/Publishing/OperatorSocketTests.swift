import Foundation
import SyncCore
import SyncLinux
import Testing

@testable import HubServer

/// The socket of a running hub for the commands of an operator.
@Suite("The hub's own socket")
struct OperatorSocketTests {
    /// A running hub with a socket, a file, and devices.
    struct Stand: Sendable {
        let running: ServiceTests.Running
        let path: String

        func ask(_ method: HTTPRequest.Method, _ target: String, _ body: [UInt8] = []) async throws -> HTTPResponse {
            try await running.transport.send(
                HTTPRequest(method, "http://hub\(target)", body: body.isEmpty ? .none : .bytes(body), socketPath: path))
        }

        func publish(_ lines: [String], to entity: String = "audits", line: Int = 1) async throws -> HTTPResponse {
            try await ask(
                .post, "/v1/operator/publish?entity=\(entity)&line=\(line)", Array(lines.map { $0 + "\n" }.joined().utf8))
        }

        func apply(_ text: String, over: Int64? = nil) async throws -> HTTPResponse {
            var body: JSONObject = ["text": .string(text), "name": "entities.yaml", "by": "test"]
            if let over { body["over"] = .int(over) }
            return try await ask(.post, "/v1/operator/entities", JSON.object(body).bytes)
        }

        func pull(_ cursor: String?, waiting: Bool = false, known: String? = nil) async throws -> HTTPResponse {
            let request = PullRequest(
                streams: [StreamPosition(entity: "audits", cursor: cursor)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
            return try await running.send(
                .post, "/v1/sync/pull", body: PullMessages.request(request), headers: waiting ? [("Prefer", "wait=55")] : [])
        }

        func cursor() async throws -> String {
            try #require(try PullMessages.readResponse(try await pull(nil).body).pages.first?.cursor)
        }

        /// Waits until one pull waits.
        func waiting() async throws {
            while true {
                let page = String(decoding: try await running.send(.get, "/metrics").body, as: UTF8.self)
                if page.contains("\nagenthub_pulls_waiting 1\n") { return }
                await Task.yield()
            }
        }
    }

    private static func with(path given: String? = nil, _ body: (Stand) async throws -> Void) async throws {
        let rows = try HubRows(.sqlite)
        let path = given ?? FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString.prefix(8)).sock").path
        defer { unlink(path) }
        var settings = Hub.Settings(compressor: ZlibCompressor())
        settings.readEntities = EntityTexts.reader
        let hub = try Hub(rows.place, settings: settings, random: SeededRandom(seed: 1))
        var options = HubService.Options(host: "127.0.0.1", port: 0)
        options.operatorSocket = path
        try await ServiceTests.serving(hub, options) { try await body(Stand(running: $0, path: path)) }
        #expect(access(path, F_OK) != 0, "the file goes with the hub")
        withExtendedLifetime(rows) {}
    }

    @Test("The socket is for the hub's user alone, and a dead one of an earlier hub is replaced")
    func file() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString.prefix(8)).sock").path
        // A second name stays behind, as the file of a hub that was killed does.
        try await Self.with(path: path) { _ in #expect(link(path, path + "2") == 0) }
        #expect(rename(path + "2", path) == 0)
        try await Self.with(path: path) { stand in
            var facts = stat()
            #expect(stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFSOCK && facts.st_mode & 0o777 == 0o600)
            let answers = [
                try await stand.ask(.get, "/v1/operator/status"), try await stand.ask(.get, "/v1/operator/publish"),
                try await stand.ask(.get, "/v1/sync/pull"), try await stand.running.send(.get, "/v1/operator/status"),
            ]
            #expect(answers.map(\.status) == [200, 405, 404, 404], "it is no way for devices, and the network is none for operators")
        }
    }

    @Test("A file that is removed comes back at once, with its permissions, and serves")
    func removed() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString.prefix(8)).sock").path
        try await Self.with(path: path) { stand in
            for _ in 0..<2 {
                #expect(unlink(path) == 0)
                // The kernel tells the hub of it.
                while access(path, F_OK) != 0 { await Task.yield() }
                var facts = stat()
                #expect(stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFSOCK && facts.st_mode & 0o777 == 0o600)
                // `try?`: the file has its name a moment before the socket listens.
                while (try? await stand.ask(.get, "/v1/operator/status"))?.status != 200 { await Task.yield() }
            }
        }
    }

    @Test("A path that is too long for a socket leaves the hub to its devices")
    func longPath() async throws {
        let path = "/tmp/" + String(repeating: "x", count: 110)
        try await Self.with(path: path) { stand in
            let results = try await stand.running.push([Sent("k-1", .create)])
            #expect(results.map(\.verdict.word) == ["accepted"])
        }
    }

    @Test("Records that are published beside devices reach one that waits for news at once")
    func publish() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            async let woken = stand.pull(cursor, waiting: true)
            try await stand.waiting()
            let answer = try await stand.publish((1...1_500).map { #"{"id":"a-\#($0)","data":{"n":\#($0)}}"# })
            #expect(answer.status == 200)
            #expect(try JSONReader.read(answer.body) == ["published": 1_500, "unshared": 0, "head": 1_500])
            let page = try PullMessages.readResponse(try await woken.body).pages.first
            #expect(page?.records.isEmpty == false)
        }
    }

    @Test("A line that cannot be published is named, and nothing of its set is there")
    func refused() async throws {
        try await Self.with { stand in
            let answer = try await stand.publish([#"{"id":"a-1","data":{}}"#, "{"], line: 501)
            #expect(answer.status == 422)
            #expect(Problem(try JSONReader.read(answer.body)).members["line"] == 502)
            let pages = try PullMessages.readResponse(try await stand.pull(nil).body).pages
            #expect(pages.flatMap(\.records).isEmpty)
            #expect(try await stand.publish([], to: "no%20name").status == 400)
        }
    }

    @Test("Settings that are applied count for the next request, and wake a device that waits")
    func entities() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            async let woken = stand.pull(cursor, waiting: true)
            try await stand.waiting()
            let text = EntityTexts.audits("pass")
            let answer = try await stand.apply(text, over: 0)
            #expect(answer.status == 200)
            #expect(try JSONReader.read(answer.body) == ["generation": 1, "applied": true])
            #expect(try await woken.headers[HubHeader.config] == EntityTexts.config(text))
            let wrong = Sent("k-1", .create, data: ["value": "fail"])
            let results = try await stand.running.push([wrong])
            #expect(results.map(\.verdict.word) == ["rejected validation"])
            #expect(try await stand.apply(text, over: 1).status == 200)
            #expect(try await stand.apply(EntityTexts.audits("fail"), over: 0).status == 409)
            let refused = try await stand.apply("entities: { audits: { colour: red } }")
            #expect(refused.status == 422)
            #expect(Problem(try JSONReader.read(refused.body)).detail.contains("entities.yaml:1:"))
        }
    }
}
