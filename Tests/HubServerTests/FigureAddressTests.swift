import Foundation
import SyncCore
import SyncHTTP
import SyncLinux
import Testing

@testable import HubServer

/// The figures of all devices: the port of the devices has them only while the hub shares nothing out. An address for monitoring and the
/// operator's socket have them always (PROTOCOL A16).
@Suite("Addresses of the figures", .eachEngine)
struct FigureAddressTests {
    /// A running hub with a socket for its operator, and with an address for monitoring if the test wants one.
    struct Stand: Sendable {
        let running: ServiceTests.Running
        let socket: String

        func device(_ method: HTTPRequest.Method, _ target: String) async throws -> HTTPResponse {
            try await running.send(method, target)
        }

        func monitor(_ method: HTTPRequest.Method, _ target: String, body: [UInt8] = []) async throws -> HTTPResponse {
            let address = try #require(running.service.metricsAddress)
            return try await running.transport.send(
                HTTPRequest(method, "http://\(address)\(target)", body: body.isEmpty ? .none : .bytes(body)))
        }

        func person(_ method: HTTPRequest.Method, _ target: String, body: [UInt8] = []) async throws -> HTTPResponse {
            try await running.transport.send(
                HTTPRequest(method, "http://hub\(target)", body: body.isEmpty ? .none : .bytes(body), socketPath: socket))
        }

        func apply(_ text: String) async throws -> HTTPResponse {
            let body: JSONObject = ["text": .string(text), "name": "entities.yaml", "by": "test", "drop_scopes": true]
            return try await person(.post, "/v1/operator/entities", body: JSON.object(body).bytes)
        }
    }

    /// - Parameter metrics: The port for monitoring on the loopback; 0 lets the kernel choose.
    private static func with(rules: RuleBook = RuleBook(), metrics: Int? = nil, _ body: (Stand) async throws -> Void) async throws {
        let rows = try HubRows()
        let socket = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString.prefix(8)).sock").path
        var settings = Hub.Settings(rules: rules, compressor: ZlibCompressor())
        settings.readEntities = EntityTexts.reader
        let hub = try Hub(rows.place, settings: settings, random: SeededRandom(seed: 1))
        var options = HubService.Options(host: "127.0.0.1", port: 0)
        options.operatorSocket = socket
        options.metrics = metrics.map { .init(host: "127.0.0.1", port: $0) }
        try await ServiceTests.serving(hub, options) { running in
            // The transport keeps its connections meanwhile, and the stop ends when the hub has closed them.
            await running.service.stop(within: .seconds(3_600))
            running.transport.close()
        } _: {
            try await body(Stand(running: $0, socket: socket))
        }
        withExtendedLifetime(rows) {}
    }

    private static func isPage(_ response: HTTPResponse) -> Bool {
        let text = String(decoding: response.body, as: UTF8.self)
        return response.status == 200 && response.headers["Content-Type"] == MetricsPage.contentType
            && text.contains("\nagenthub_database_up 1\n") && text.contains("\nagenthub_pulls_waiting 0\n")
    }

    /// All that a caller sees of an answer.
    private static func whole(_ response: HTTPResponse) -> String {
        let fields = response.headers.fields.map { "\($0.name): \($0.value)" }.sorted().joined(separator: "\n")
        return "\(response.status)\n\(fields)\n\(String(decoding: response.body, as: UTF8.self))"
    }

    private static func expectNoPage(_ stand: Stand, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        for method in [HTTPRequest.Method.get, .post, .put, .head] {
            let (seen, other) = (try await stand.device(method, "/metrics"), try await stand.device(method, "/nothing"))
            #expect(seen.status == 404 && Self.whole(seen) == Self.whole(other), "\(method)", sourceLocation: sourceLocation)
        }
    }

    // MARK: The port of the devices

    @Test("A hub that shares records out has no figures for devices and strangers, and its operator has them")
    func sharing() async throws {
        try await Self.with(rules: ScopeBench.rules) { stand in
            try await Self.expectNoPage(stand)
            #expect(try await stand.device(.get, "/healthz").status == 200)
            #expect(try await stand.device(.get, "/readyz").status == 200)
            #expect(stand.running.service.metricsAddress == nil)
            #expect(Self.isPage(try await stand.person(.get, "/metrics")))
            #expect(try await stand.person(.post, "/metrics").status == 405)
        }
    }

    @Test("A hub that shares nothing out answers everybody who asks, as ever")
    func notSharing() async throws {
        try await Self.with { stand in
            #expect(Self.isPage(try await stand.device(.get, "/metrics")))
            let posted = try await stand.device(.post, "/metrics")
            #expect(posted.status == 405 && posted.headers["Allow"] == "GET")
            #expect(Self.isPage(try await stand.person(.get, "/metrics")))
        }
    }

    @Test("Settings that begin or end to share records out count for the next question, whoever asked for what before")
    func atRunTime() async throws {
        try await Self.with { stand in
            #expect(try await stand.apply(EntityTexts.audits("pass")).status == 200)
            #expect(Self.isPage(try await stand.device(.get, "/metrics")))
            // More than the fresh answers about readiness that there are.
            for _ in 0..<3 * HubWorker.viewsAtOnce { #expect(try await stand.device(.get, "/readyz").status == 200) }
            #expect(try await stand.apply(EntityTexts.audits("pass", scope: "site")).status == 200)
            try await Self.expectNoPage(stand)
            #expect(Self.isPage(try await stand.person(.get, "/metrics")))
            #expect(try await stand.apply(EntityTexts.audits("fail")).status == 200)
            #expect(Self.isPage(try await stand.device(.get, "/metrics")))
        }
    }

    @Test("A hub that another one over its database has given scopes knows them when it is asked for figures", .needsPostgres)
    func replica() throws {
        guard Engine.current == .postgres else { return }
        let rows = try HubRows()
        let (one, other) = (try HubBench(file: nil, place: rows.place), try HubBench(file: nil, place: rows.place, seed: 2))
        #expect(one.send("GET", "/metrics").status == 200)
        let scoped = EntityTexts.text(EntityTexts.audits("pass", scope: "site"))
        #expect(try other.hub.apply(scoped) == .applied(generation: 1))
        #expect(one.send("GET", "/metrics").status == 404)
        #expect(one.hub.figures(at: one.now).status == 200)
    }

    // MARK: The address for monitoring

    @Test(
        "An address for monitoring has figures, health and readiness and nothing else, with scopes and without",
        arguments: [true, false])
    func monitoring(_ isSharing: Bool) async throws {
        try await Self.with(rules: isSharing ? ScopeBench.rules : RuleBook(), metrics: 0) { stand in
            #expect(Self.isPage(try await stand.monitor(.get, "/metrics")))
            #expect(try await stand.monitor(.get, "/healthz").body == Array("ok\n".utf8))
            #expect(try await stand.monitor(.get, "/readyz").body == Array("ready\n".utf8))
            for path in ["/metrics", "/healthz", "/readyz"] {
                let refused = try await stand.monitor(.post, path, body: Array("x".utf8))
                #expect(refused.status == 405 && refused.headers["Allow"] == "GET", "\(path)")
            }
            let others = Endpoint.allCases.filter { ![.metrics, .healthz, .readyz].contains($0) }.map {
                String($0.rawValue.prefix { $0 != "{" }) + ($0.rawValue.contains("{") ? "x" : "")
            }
            for path in others + ["/", "/nothing", "/metrics/", "/metrics/x", "/v1/operator/status", "/v1/operator/publish?entity=audits"] {
                #expect(try await stand.monitor(.get, path).status == 404, "\(path)")
                #expect(try await stand.monitor(.post, path, body: Array("{}".utf8)).status == 404, "\(path)")
            }
            // The port of the devices has the path no more.
            try await Self.expectNoPage(stand)
            #expect(try await stand.device(.get, "/readyz").status == 200)
            #expect(Self.isPage(try await stand.person(.get, "/metrics")))
        }
    }

    @Test("A hub whose address for monitoring is taken does not start")
    func taken() async throws {
        try await Self.with(metrics: 0) { stand in
            let port = try #require(stand.running.service.metricsAddress?.split(separator: ":").last.flatMap { Int($0) })
            let error = await #expect(throws: HubError.self) { try await Self.with(metrics: port) { _ in } }
            #expect(error?.code == .cannotListen && error?.doing == "listen on 127.0.0.1:\(port)")
            #expect(Self.isPage(try await stand.monitor(.get, "/metrics")), "the first hub has it still")
        }
    }
}
