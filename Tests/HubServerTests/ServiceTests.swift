import Foundation
import HubServer
import Logging
import SyncCore
import SyncHTTP
import SyncLinux
import Testing

/// The hub over real sockets, asked by the agent's own transport.
@Suite("Service")
struct ServiceTests {
    struct FixedTime: TimeSource {
        func now() -> Moment { Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_795_208_400_000)) }
    }

    /// A running hub, and a way to ask it.
    struct Running: Sendable {
        let service: HubService
        let transport: CurlTransport
        var scheme = "http"
        var tls: TLSIdentity?
        /// Each request on a connection of its own.
        var isFresh = false

        func send(
            _ method: HTTPRequest.Method, _ target: String, body: [UInt8] = [], device: DeviceID = .one, token: String? = nil,
            headers extra: [(String, String)] = [], gzip: Bool = false
        ) async throws -> HTTPResponse {
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: device, replica: "r-1").write(to: &headers)
            headers["Authorization"] = token.map { "Bearer \($0)" }
            for (name, value) in extra { headers[name] = value }
            var request = HTTPRequest(
                method, "\(scheme)://\(service.address)\(target)", headers: headers, body: body.isEmpty ? .none : .bytes(body),
                tls: tls, acceptsGzip: gzip)
            request.keepsConnection = !isFresh
            return try await transport.send(request)
        }

        /// The page of figures, from the address for monitoring where the hub has one.
        func figures() async throws -> String {
            guard let address = service.metricsAddress else {
                return String(decoding: try await send(.get, "/metrics").body, as: UTF8.self)
            }
            var request = HTTPRequest(.get, "http://\(address)/metrics")
            request.keepsConnection = !isFresh
            return String(decoding: try await transport.send(request).body, as: UTF8.self)
        }

        func push(_ mutations: [Sent], device: DeviceID = .one, token: String? = nil) async throws -> [PushResult] {
            let body: JSON = ["mutations": .array(mutations.map { .object($0.json) })]
            let response = try await send(.post, "/v1/sync/push", body: body.bytes, device: device, token: token)
            guard response.status == 200 else { throw HubBench.Unexpected(HubResponse(status: response.status, body: response.body)) }
            return try PushMessages.readResponse(response.body).results
        }
    }

    typealias ChangeLimits = @Sendable (inout HTTPServerLimits) -> Void

    static func running(
        tokens: TokenBook? = nil, tls: HubTLS? = nil, faults: String? = nil, place: Hub.Place = .memory,
        limits: ChangeLimits = { _ in }, _ body: (Running) async throws -> Void
    ) async throws {
        let hub = try Hub(
            place, settings: Hub.Settings(tokens: tokens, compressor: ZlibCompressor()), random: SeededRandom(seed: 1))
        var options = HubService.Options(host: "127.0.0.1", port: 0, tls: tls)
        options.faults = faults.map { HubFaults($0) }
        limits(&options.limits)
        try await serving(hub, options, tokens: tokens, body)
    }

    /// Serves a hub while the body runs.
    ///
    /// - Parameter end: Ends hub and transport behind a body that did not fail.
    static func serving(
        _ hub: sending Hub, _ options: HubService.Options, time: any TimeSource = FixedTime(), tokens: TokenBook? = nil,
        end: (Running) async -> Void = { running in
            running.transport.close()
            await running.service.stop(within: .seconds(5))
        }, _ body: (Running) async throws -> Void
    ) async throws {
        let environment = HubService.Environment(
            time: time, seed: 1, tokens: { tokens }, compressor: ZlibCompressor(),
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let service = try await HubService.start(hub, options, environment)
        let running = Running(
            service: service, transport: try CurlTransport(idleConnections: 16), scheme: options.tls == nil ? "http" : "https")
        do {
            try await body(running)
        } catch {
            running.transport.close()
            await service.stop(within: .zero)
            throw error
        }
        await end(running)
    }

    @Test("Many devices at once are all served, each mutation once")
    func concurrent() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("hub-\(UUID().uuidString).db").path
        defer { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file + suffix) } }
        try await Self.running(place: .file(file)) { running in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<12 {
                    group.addTask {
                        let device = DeviceID(trusted: "gw-\(number)")
                        for round in 0..<10 {
                            let batch = (0..<5).map { index in
                                Sent(
                                    "k-\(round)-\(index)", seq: Int64(round * 5 + index + 1), .update, id: "shared",
                                    ops: [["field": "n", "op": "inc", "value": 1]])
                            }
                            // The record is there from the first create that arrives; every device sends one.
                            let create = [Sent("c", seq: 1, .create, id: "shared", data: [:])]
                            if round == 0 { _ = try await running.push(create, device: device) }
                            let words = try await running.push(batch, device: device).map(\.verdict.word)
                            #expect(words == Array(repeating: "accepted", count: 5))
                            let again = try await running.push(batch, device: device).map(\.verdict.word)
                            #expect(again == Array(repeating: "duplicate", count: 5))
                        }
                    }
                }
                try await group.waitForAll()
            }
            let page = try await running.send(.get, "/v1/sync/pull?entity=audits")
            let record = try #require(try PullMessages.readResponse(page.body).pages.first?.records.first?.record)
            #expect(record.data == ["n": 600])
        }
        // All answered changes are in the file, and the log of the database was written back.
        let inspector = try HubInspector(file: file)
        #expect(try inspector.stats().counters.duplicates == 600)
        #expect((try? FileManager.default.attributesOfItem(atPath: file + "-wal")[.size] as? Int) ?? 0 == 0)
    }

    @Test("Answers are compressed for clients that accept it, when it is worth it")
    func compressedAnswers() async throws {
        try await Self.running { running in
            _ = try await running.push(
                (0..<40).map { Sent("k-\($0)", seq: Int64($0 + 1), .create, id: "a-\($0)", data: ["text": "the same again"]) })
            let plain = try await running.send(.get, "/v1/sync/pull?entity=audits")
            let small = try await running.send(.get, "/v1/sync/pull?entity=audits", gzip: true)
            #expect(plain.body == small.body && plain.headers["Vary"] == "Accept-Encoding")
            #expect(small.traffic.down < plain.traffic.down / 3)
            let tiny = try await running.send(.get, "/v1/sync/pull?entity=none", gzip: true)
            #expect(tiny.headers["Content-Encoding"] == nil && tiny.headers["Vary"] == nil)
        }
    }

    @Test("Compressed requests are read")
    func compressedRequests() async throws {
        try await Self.running { running in
            let body: JSON = [
                "mutations": .array((0..<50).map { .object(Sent("k-\($0)", seq: Int64($0 + 1), .create, id: "a-\($0)").json) })
            ]
            let packed = try #require(ZlibCompressor().gzip(body.bytes))
            let response = try await running.send(.post, "/v1/sync/push", body: packed, headers: [("Content-Encoding", "gzip")])
            #expect(try PushMessages.readResponse(response.body).results.count == 50)
        }
    }

    @Test("A client without a right is refused before the body is read, and a body beyond the limit is not read either")
    func earlyRefusals() async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        let token = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        try await Self.running(tokens: book) { running in
            let large = [UInt8](repeating: 0x20, count: 3 << 20)
            let stranger = try await running.send(.post, "/v1/sync/push", body: large)
            #expect(stranger.status == 401 && stranger.headers["Sync-Version"] == "1" && stranger.headers["WWW-Authenticate"] == "Bearer")
            let old = try await running.send(.post, "/v1/sync/push", body: large, token: token, headers: [("Sync-Version", "9")])
            #expect(old.status == 400)
            #expect(Problem(try JSONReader.read(old.body)).members["supported"] == [1])
            let tooLarge = try await running.send(.post, "/v1/sync/push", body: large + large, token: token)
            #expect(tooLarge.status == 413)
            #expect(Problem(try JSONReader.read(tooLarge.body)).code == "too-large")
            #expect(try await running.push([Sent("k", .create)], token: token).map(\.verdict.word) == ["accepted"])
            let probe = try await running.send(.get, "/v1/probe?n=1234")
            #expect(probe.status == 204 && probe.headers["Sync-Probe"] == "1234")
        }
    }

    @Test("An answer that is lost after the commit is repeated as a duplicate")
    func lostAnswer() async throws {
        try await Self.running(faults: "drop=0.5,seed=3") { running in
            var lost = 0
            for index in 0..<20 {
                let batch = [Sent("k-\(index)", seq: Int64(index + 1), .create, id: "a-\(index)")]
                var word: String?
                var attempts = 0
                while word == nil {
                    attempts += 1
                    // Broken on purpose: the next attempt tells.
                    word = try? await running.push(batch).first?.verdict.word
                }
                #expect(word == (attempts == 1 ? "accepted" : "duplicate"))
                if attempts > 1 { lost += 1 }
            }
            #expect(lost > 2)
        }
    }

    @Test("Faults that a test asks for look like the real ones", arguments: ["unavailable=1", "portal=1", "cut=1", "delay_ms=1"])
    func faults(_ fault: String) async throws {
        try await Self.running(faults: fault) { running in
            if fault == "cut=1" {
                let error = await #expect(throws: TransportError.self) { try await running.send(.get, "/v1/sync/pull?entity=a") }
                #expect(error?.code == .broken)
            } else {
                let response = try await running.send(.get, "/v1/sync/pull?entity=a")
                #expect(response.status == (fault == "unavailable=1" ? 503 : 200))
                #expect(response.headers["Retry-After"] == (fault == "unavailable=1" ? "1" : nil))
                #expect((response.headers["Sync-Version"] == "1") == (fault == "delay_ms=1"))
            }
            if fault != "cut=1" { #expect(try await running.send(.get, "/healthz").status == 200) }
        }
    }

    @Test("An address that is taken is an error before anything runs")
    func addressInUse() async throws {
        try await Self.running { running in
            let environment = HubService.Environment(
                time: FixedTime(), seed: 1, tokens: { nil }, compressor: nil, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let options = HubService.Options(host: "127.0.0.1", port: running.service.port)
            let error = await #expect(throws: HubError.self) {
                let hub = try Hub(.memory, settings: Hub.Settings(), random: SeededRandom(seed: 1))
                _ = try await HubService.start(hub, options, environment)
            }
            #expect(error?.code == .cannotListen)
        }
    }

    // MARK: TLS

    static func certificate(_ name: String) -> String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Certificates/\(name)").path
    }

    static func tls(clientCA: Bool = true) -> HubTLS {
        HubTLS(
            certificateFile: certificate("hub.pem"), keyFile: certificate("hub.key"),
            clientCAFile: clientCA ? certificate("issuer.pem") : nil)
    }

    @Test(
        "Files that are no certificate or key are named",
        arguments: [
            ("none.pem", "hub.key", "issuer.pem", "none.pem"), ("hub.pem", "none.key", "issuer.pem", "none.key"),
            ("hub.pem", "hub.key", "none.pem", "none.pem"), ("hub.key", "hub.key", "issuer.pem", "hub.key"),
            ("hub.pem", "device.key", "issuer.pem", "device.key"),
        ])
    func badFiles(_ chain: String, _ key: String, _ issuers: String, _ culprit: String) async throws {
        let tls = HubTLS(
            certificateFile: Self.certificate(chain), keyFile: Self.certificate(key), clientCAFile: Self.certificate(issuers))
        let error = await #expect(throws: HubError.self) { try await Self.running(tls: tls) { _ in } }
        #expect(error?.code == .badCertificate && error?.doing.hasSuffix(culprit) == true)
    }
}
