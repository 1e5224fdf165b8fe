import HubServer
import NIOCore
import SyncCore
import SyncHTTP
import SyncLinux
import Testing

/// Strangers at ten times every limit, in each way that costs something, beside one device: each of its requests succeeds. Counts
/// decide, not times.
///
/// The strangers come from five addresses of the loopback, or all from the device's own, as behind a balancer. Some of the device's
/// requests go over a connection that it has kept, some over new ones.
@Suite("Strangers beside a device")
struct StrangersBesideDeviceTests {
    private static let connections = 32
    private static let limits: ServiceTests.ChangeLimits = {
        ($0.connections, $0.strangers, $0.strangersPerAddress) = (connections, connections / 2, connections / 4)
    }

    struct Kind: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: String
        var isTLS = false

        init(_ name: String, _ bytes: String, isTLS: Bool = false) {
            (testDescription, self.bytes, self.isTLS) = (name, bytes, isTLS)
        }
    }

    private static func request(_ line: String, _ fields: String, _ body: String = "") -> String {
        "\(line) HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: gw-1\r\nSync-Replica: r-1\r\n\(fields)\r\n\(body)"
    }

    private static let kinds: [Kind] = [
        Kind("silence", ""),
        Kind("half a head", "GET /v1/pro"),
        Kind("health with a chunked body", request("GET /healthz", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n")),
        Kind("health with a declared body", request("GET /healthz", "Content-Length: 1000\r\n", "x")),
        Kind("readiness with a chunked body", request("GET /readyz", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n")),
        Kind("an enrolment that does not end", request("POST /v1/devices/enroll", "Content-Length: 4000\r\n", "{\"token\":")),
        Kind("a chunked enrolment that does not end", request("POST /v1/devices/enroll", "Transfer-Encoding: chunked\r\n", "1\r\n{\r\n")),
        Kind("an enrolment of 4 MB", request("POST /v1/devices/enroll", "Content-Length: 4000000\r\n", "{")),
        Kind(
            "enrolments with an unknown token",
            repeated(request("POST /v1/devices/enroll", "Content-Length: 20\r\n", #"{"token":"ese_zzzz"}"#), 4)),
        Kind("a path that is not there", request("POST /nothing", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n")),
        Kind("the wrong method", request("PUT /v1/probe", "Content-Length: 4000000\r\n", "x")),
        Kind("a push without a token", request("POST /v1/sync/push", "Transfer-Encoding: chunked\r\n", "1\r\n{\r\n")),
        Kind(
            "a push with an unknown token",
            request("POST /v1/sync/push", "Authorization: Bearer est_zzzz\r\nContent-Length: 4000000\r\n", "{")),
        Kind("a file without a token", request("POST /v1/files", "Content-Length: 4000000\r\n", "x")),
        Kind("probes", repeated(request("GET /v1/probe?n=1", ""), 20)),
        Kind("metrics", repeated(request("GET /metrics", ""), 20)),
        Kind("readiness", repeated(request("GET /readyz", ""), 20)),
        Kind("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u{0}\u{0}\u{0}\u{4}\u{0}\u{0}\u{0}\u{0}\u{0}"),
        Kind("garbage", "\u{0}\u{1}\u{2}\u{7F} \u{3}\u{4}\r\n\r\n\r\n"),
        Kind("TLS that is not spoken here", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}"),
        Kind("silence before TLS", "", isTLS: true),
        Kind("a handshake that stalls", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{7C}\u{3}\u{3}", isTLS: true),
        Kind("HTTP where TLS is spoken", request("GET /healthz", ""), isTLS: true),
    ]

    private static func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    @Test("With strangers at ten times every limit each request of the device succeeds", arguments: kinds, [true, false])
    func beside(_ kind: Kind, fromOneAddress: Bool) async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        let token = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        let limits: ServiceTests.ChangeLimits = {
            Self.limits(&$0)
            // Handshakes are limited by address, the device's own with them: behind a balancer there is no such limit.
            // Elsewhere each address of strangers begins 64, and the device 40 without showing its token.
            $0.handshakesPerAddress = fromOneAddress ? nil : .init(atOnce: 48, perSecond: 1)
        }
        try await ServiceTests.running(tokens: book, tls: kind.isTLS ? ServiceTests.tls(clientCA: false) : nil, limits: limits) { running in
            var running = running
            if kind.isTLS { running.tls = TLSIdentity(caFile: ServiceTests.certificate("issuer.pem")) }
            var strangers: [RawClient] = []
            var served: Int64 = 0
            for batch in 0..<10 {
                let before = running.service.connectionCounts.accepted
                for number in 0..<Self.connections {
                    let source: UInt32 = fromOneAddress ? 1 : 0x0700 + UInt32(number % 5)
                    let stranger = try RawClient(port: running.service.port, source: source)
                    // The hub may have refused it, and closed, within what it says.
                    try? stranger.send(kind.bytes)
                    strangers.append(stranger)
                }
                // The hub has two threads for sockets: a stranger that waits for one of them is not to come after the device. At its
                // own address that many newer connections are the one thing that closes a device's before its first request.
                while running.service.connectionCounts.accepted < before + Int64(Self.connections) { await Task.yield() }
                let sent = Sent("k-\(batch)", seq: Int64(batch + 1), .create, id: "a-\(batch)")
                #expect(try await running.push([sent], token: token).map(\.verdict.word) == ["accepted"])
                served += 1
                var running = running
                running.isFresh = true
                let pulled = try await running.send(.get, "/v1/sync/pull?entity=audits", token: token)
                #expect(try PullMessages.readResponse(pulled.body).head == served)
                for path in ["/v1/probe?n=1", "/healthz", "/readyz", "/metrics"] {
                    #expect(try await running.send(.get, path).status == (path.hasPrefix("/v1") ? 204 : 200), "\(path)")
                }
            }
            let page = String(decoding: try await running.send(.get, "/metrics").body, as: UTF8.self)
            #expect(page.contains("agenthub_overloaded_total{by=\"all\"} 0\n") && page.contains("agenthub_connections_refused_total 0\n"))
            withExtendedLifetime(strangers) {}
        }
    }

    @Test("Handshakes are limited by address before they cost anything; a device gives back what it took, and is served beside it")
    func handshakes() async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        let token = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        let limits: ServiceTests.ChangeLimits = { $0.handshakesPerAddress = .init(atOnce: 4, perSecond: 0.000_001) }
        try await ServiceTests.running(tokens: book, tls: ServiceTests.tls(clientCA: false), limits: limits) { running in
            var running = running
            running.tls = TLSIdentity(caFile: ServiceTests.certificate("issuer.pem"))
            var fresh = running
            fresh.isFresh = true
            func pulls(_ running: ServiceTests.Running) async throws {
                #expect(try await running.send(.get, "/v1/sync/pull?entity=audits", token: token).status == 200)
            }
            /// The answer of TLS to plain HTTP, or none.
            func answers(_ source: UInt32) throws -> String {
                let stranger = try RawClient(port: running.service.port, source: source)
                try stranger.send("GET / HTTP/1.1\r\n\r\n")
                return try stranger.rest()
            }
            // Ten devices of one address: each handshake is given back.
            for _ in 0..<10 { try await pulls(fresh) }
            #expect(running.service.connectionCounts.refusedHandshakes == 0)
            try await pulls(running)
            // Strangers there and elsewhere: so many of each are heard.
            for source: UInt32 in [0x0001, 0x0702] {
                for _ in 0..<4 { _ = try answers(source) }
                let before = running.service.connectionCounts.refusedHandshakes
                for number in 1...10 {
                    #expect(try answers(source).isEmpty)
                    #expect(running.service.connectionCounts.refusedHandshakes == before + Int64(number))
                }
            }
            // The connection that the device has kept is served; a silent one costs nothing and is not counted.
            try await pulls(running)
            let silent = try (0..<8).map { _ in try RawClient(port: running.service.port, source: 0x0703) }
            let heard = try RawClient(port: running.service.port, source: 0x0703)
            try heard.send("GET / HTTP/1.1\r\n\r\n")
            _ = try heard.rest()
            #expect(running.service.connectionCounts.refusedHandshakes == 20)
            withExtendedLifetime(silent) {}
            // At the address of the strangers a new connection of the device waits for the budget, as theirs do.
            await #expect(throws: TransportError.self) { try await pulls(fresh) }
            let page = try await running.send(.get, "/metrics", token: token)
            #expect(String(decoding: page.body, as: UTF8.self).contains("\nagenthub_handshakes_refused_total 21\n"))
        }
    }

    @Test("The limit by address allows a burst, then a rate; a returned permit counts no more; memory is bounded")
    func addressLimitAllowsABurstThenARate() {
        var limit = HandshakeLimit(.init(atOnce: 3, perSecond: 2))
        let start = NIODeadline.uptimeNanoseconds(1_000_000_000)
        func group(_ number: UInt64) -> PeerGroup { .network(high: 0, low: number) }
        #expect((0..<5).map { _ in limit.begin(group(1), at: start) } == [true, true, true, false, false])
        #expect(limit.begin(group(2), at: start) == true)
        #expect((0..<2).map { _ in limit.begin(group(1), at: start + .milliseconds(500)) } == [true, false])
        limit.giveBack(group(1))
        #expect((0..<2).map { _ in limit.begin(group(1), at: start + .milliseconds(500)) } == [true, false])
        for _ in 0..<100 { limit.giveBack(group(2)) }
        #expect((0..<4).map { _ in limit.begin(group(2), at: start) } == [true, true, true, false], "no more than at the start")
        // Addresses beyond the remembered ones are not refused. The remembered ones still are.
        for number in 0..<UInt64(2 * HandshakeLimit.addressesMax) {
            #expect(limit.begin(group(1_000 + number), at: start + .milliseconds(500)) == true)
        }
        #expect(limit.begin(group(1), at: start + .milliseconds(500)) == false)
    }

    @Test("Control: where no room is made, the same silence refuses the device, which is what the check would see")
    func control() async throws {
        try await ServiceTests.running(limits: { ($0.connections, $0.strangers) = (Self.connections, 0) }) { running in
            var running = running
            running.isFresh = true
            let answer = try await running.send(.get, "/v1/sync/pull?entity=audits")
            #expect(answer.status == 503)
        }
    }

    @Test("Strangers never get to the thread of the database: what they ask costs it no transaction")
    func noTransaction() async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        _ = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        try await ServiceTests.running(tokens: book) { running in
            for kind in Self.kinds where !kind.isTLS {
                guard kind.bytes.hasSuffix("}") || kind.bytes.contains("/v1/probe") else { continue }
                let stranger = try RawClient(port: running.service.port)
                try stranger.send(kind.bytes)
                try stranger.send("GET /healthz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
                #expect(try stranger.rest().contains("HTTP/1.1 "))
            }
            let page = String(decoding: try await running.send(.get, "/metrics").body, as: UTF8.self)
            #expect(page.contains("\nagenthub_transaction_seconds_count 0\n"), "\(page)")
            #expect(page.contains(#"agenthub_requests_total{path="/v1/probe",status="204"} 20"#))
        }
    }

    @Test("An enrolment is at most 4 KiB and never compressed; failed ones are limited, which holds up none with a good token")
    func enrolments() async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        let good = book.add(.one, .enrolment, life: .seconds(3_600), at: ServiceTests.FixedTime().now().wall, using: &random)
        try await ServiceTests.running(tokens: book) { running in
            func enrol(_ body: [UInt8], _ headers: [(String, String)] = []) async throws -> HTTPResponse {
                try await running.send(.post, "/v1/devices/enroll", body: body, headers: headers)
            }
            func body(_ token: String, padding: Int = 0) -> [UInt8] {
                let object: JSONObject = ["token": .string(token), "padding": .string(String(repeating: "x", count: padding))]
                return JSON.object(object).bytes
            }
            let bomb = try #require(ZlibCompressor().gzip([UInt8](repeating: 0x20, count: 4_000_000)))
            #expect(bomb.count < 4_096)
            #expect(try await enrol(bomb, [("Content-Encoding", "gzip")]).status == 415)
            #expect(try await enrol(body("ese_unknown", padding: 5_000)).status == 413)
            // The first ten are told what is wrong; this is the second of them.
            for _ in 0..<9 { #expect(try await enrol(body("ese_unknown")).status == 401) }
            var refused = try await enrol(body("ese_unknown"))
            while refused.status == 401 { refused = try await enrol(body("ese_unknown")) }
            #expect(refused.status == 429 && refused.headers["Retry-After"] == "10")
            #expect(try await enrol(body(good)).status == 201)
            let page = String(decoding: try await running.send(.get, "/metrics").body, as: UTF8.self)
            #expect(page.contains("agenthub_enrolments_refused_total{reason=\"token\"} ") && !page.contains("{reason=\"rate\"} 0\n"))
        }
    }

    @Test("One device that runs wild has sixteen places; the others are served, and it is, too, when it stops")
    func wildDevice() async throws {
        try await ServiceTests.running { running in
            var wild: [RawClient] = []
            for number in 0..<Int(Admission.deviceRequestsMax) {
                let client = try RawClient(port: running.service.port)
                try client.send(Self.request("POST /v1/sync/push", "Content-Length: 16\r\nExpect: 100-continue\r\n"))
                #expect(try client.read(to: "\r\n\r\n").hasPrefix("HTTP/1.1 100 "), "\(number)")
                wild.append(client)
            }
            let one = try await running.send(.post, "/v1/sync/push", body: Array(#"{"mutations":[]}"#.utf8))
            #expect(one.status == 503)
            #expect(Problem(try JSONReader.read(one.body)).detail == "this device has too many requests in progress")
            #expect(try await running.push([Sent("k", .create)], device: .two).map(\.verdict.word) == ["accepted"])
            for client in wild {
                try client.send(#"{"mutations":[]}"#)
                #expect(try client.read(to: "}").hasPrefix("HTTP/1.1 200 "))
            }
            #expect(try await running.send(.post, "/v1/sync/push", body: Array(#"{"mutations":[]}"#.utf8)).status == 200)
        }
    }
}
