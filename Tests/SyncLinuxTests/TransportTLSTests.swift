import Foundation
import SyncCore
import SyncLinux
import Synchronization
import Testing

@Suite("Any HTTP transport, over TLS", .enabled(if: OpenSSL.path != nil, "needs the openssl command"))
struct TransportTLSTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var names = "DNS:localhost,IP:127.0.0.1"
        var validity = CertificateAuthority.Validity.now
        /// `true` when another authority issued the server's certificate; the client trusts the first one alone.
        var isIssuedByOther = false
        var trusts: Trust = .ca
        var host = "localhost"
        var arguments: [String] = []
        /// `nil`: the peer is trusted.
        var code: TransportError.Code?
        /// A word that the error must say.
        var detail = ""

        enum Trust { case ca, system, missingFile, pin, wrongPin }
    }

    @Test(
        "A peer is trusted when its issuer, name, dates and key are right, and the error says which was not", arguments: TransportCase.all,
        [
            Row(testDescription: "own authority, by name"),
            Row(testDescription: "own authority, by address", host: "127.0.0.1"),
            Row(testDescription: "own authority and the right key", trusts: .pin),
            Row(testDescription: "TLS 1.2", arguments: ["-tls1_2"]),
            Row(testDescription: "wrong name", names: "DNS:other.test", code: .untrusted, detail: "ostname mismatch"),
            Row(
                testDescription: "wrong address", names: "DNS:localhost,IP:127.0.0.2", host: "127.0.0.1", code: .untrusted,
                detail: "IP address mismatch"),
            Row(testDescription: "unknown issuer", isIssuedByOther: true, code: .untrusted, detail: "issuer"),
            Row(testDescription: "issuer that the system does not know", trusts: .system, code: .untrusted, detail: "issuer"),
            Row(testDescription: "wrong key", trusts: .wrongPin, code: .untrusted, detail: "pinned"),
            Row(testDescription: "file of the authority missing", trusts: .missingFile, code: .untrusted, detail: "/nonexistent/ca.crt"),
            Row(testDescription: "expired", validity: .past, code: .untrustedDate, detail: "has expired"),
            Row(testDescription: "not yet valid", validity: .future, code: .untrustedDate, detail: "not yet valid"),
            Row(testDescription: "expired, TLS 1.2", validity: .past, arguments: ["-tls1_2"], code: .untrustedDate, detail: "has expired"),
            Row(
                testDescription: "expired and wrong name", names: "DNS:other.test", validity: .past, code: .untrusted,
                detail: "ostname mismatch"),
            Row(
                testDescription: "not yet valid and wrong name", names: "DNS:other.test", validity: .future, code: .untrusted,
                detail: "ostname mismatch"),
            Row(
                testDescription: "expired and wrong address", names: "DNS:localhost", validity: .past, host: "127.0.0.1", code: .untrusted,
                detail: "IP address mismatch"),
            Row(testDescription: "expired and unknown issuer", validity: .past, isIssuedByOther: true, code: .untrusted, detail: "issuer"),
            Row(testDescription: "TLS 1.1", arguments: ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], code: .untrusted, detail: "version"),
        ])
    func trust(_ transport: TransportCase, _ row: Row) async throws {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            let issuer = row.isIssuedByOther ? try CertificateAuthority(in: directory, name: "other") : ca
            let certificate = try issuer.issue("server", row.names, row.validity)
            let server = try TLSServer(certificate, row.arguments)
            defer { server.stop() }
            var request = HTTPRequest(.get, "https://\(row.host):\(server.port)/")
            switch row.trusts {
            case .ca: request.tls = TLSIdentity(caFile: ca.file)
            case .system: request.tls = nil
            case .missingFile: request.tls = TLSIdentity(caFile: "/nonexistent/ca.crt")
            case .pin: request.tls = TLSIdentity(caFile: ca.file, publicKeyPin: try issuer.pin(of: certificate))
            case .wrongPin: request.tls = TLSIdentity(caFile: ca.file, publicKeyPin: try ca.pin(of: try ca.issue("x", "DNS:x")))
            }
            let transport = try transport.make()
            guard let code = row.code else {
                let response = try await transport.send(request)
                #expect(response.status == 200)
                // The first answer over a new connection has the earliest end of the certificates in the chain.
                #expect(try #require(response.certificateEndsAt) > SystemClocks().now().wall)
                return
            }
            let error = try await transport.failure(request)
            #expect(error.code == code, "\(error)")
            #expect(error.detail.contains(row.detail), "\(error)")
            #expect(error.doing == "TLS handshake with \(row.host):\(server.port)")
            #expect(!server.output.contains("GET /"))
        }
    }

    struct Client: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var arguments: [String]
        var shows: Shown
        var code: TransportError.Code?

        enum Shown { case nothing, right, foreign, expired, missingFile, wrongKey }
    }

    static let clients: [Client] = versions("1.2", "-tls1_2") + versions("1.3", "-tls1_3")

    private static func versions(_ name: String, _ version: String) -> [Client] {
        let demands = ["-Verify", "1", "-verify_return_error", version]
        return [
            Client(testDescription: "\(name), right", arguments: demands, shows: .right),
            Client(testDescription: "\(name), none", arguments: demands, shows: .nothing, code: .clientCertificate),
            Client(testDescription: "\(name), of another issuer", arguments: demands, shows: .foreign, code: .clientCertificate),
            Client(testDescription: "\(name), expired", arguments: demands, shows: .expired, code: .clientCertificate),
            Client(testDescription: "\(name), file missing", arguments: demands, shows: .missingFile, code: .clientCertificate),
            Client(testDescription: "\(name), key of another", arguments: demands, shows: .wrongKey, code: .clientCertificate),
            Client(testDescription: "\(name), none and none needed", arguments: ["-verify", "1", version], shows: .nothing),
        ]
    }

    @Test("A fault of the client's certificate is told apart from a broken connection", arguments: TransportCase.all, clients)
    func faultOfTheClientCertificateIsToldApart(_ transport: TransportCase, _ row: Client) async throws {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            let other = try CertificateAuthority(in: directory, name: "other")
            let right = try ca.issue("client", "DNS:client")
            let foreign = try other.issue("client", "DNS:client")
            let shown: (certificate: String, key: String)? =
                switch row.shows {
                case .nothing: nil
                case .right: (right.file, right.key)
                case .foreign: (foreign.file, foreign.key)
                case .expired: try { ($0.file, $0.key) }(ca.issue("old", "DNS:client", .past))
                case .missingFile: (directory + "/none.crt", right.key)
                case .wrongKey: (right.file, foreign.key)
                }
            let server = try TLSServer(try ca.issue("server", "DNS:localhost"), ["-CAfile", ca.file] + row.arguments)
            defer { server.stop() }
            let request = HTTPRequest(
                .post, "https://localhost:\(server.port)/", body: .bytes([UInt8](repeating: 65, count: 100)),
                tls: TLSIdentity(
                    caFile: ca.file, clientCertificateFile: shown?.certificate, clientKeyFile: shown?.key))
            let transport = try transport.make()
            if let code = row.code {
                let error = try await transport.failure(request)
                #expect(error.code == code, "\(error)")
            } else {
                #expect(try await transport.send(request).status == 200)
            }
        }
    }

    @Test(
        "A peer that does not speak TLS is not trusted; one that hangs up in the handshake broke the connection",
        arguments: TransportCase.all)
    func noTLS(_ transport: TransportCase) async throws {
        let plain = try CannedServer(scheme: "https") { connection in
            connection.send("HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.waitForPeerToClose()
        }
        let dead = try CannedServer(scheme: "https") { connection in
            _ = connection.receive(upTo: 10)
            connection.reset()
        }
        let closing = try CannedServer(scheme: "https") { connection in
            _ = connection.receive(upTo: 4096)
        }
        defer { for server in [plain, dead, closing] { server.stop() } }
        let transport = try transport.make()
        #expect(try await transport.failure(plain.request()).code == .untrusted)
        #expect(try await transport.failure(dead.request()).code == .broken)
        #expect(try await transport.failure(closing.request()).code == .broken)
    }

    @Test("A later connection resumes the TLS session of an earlier one, and HTTP/2 is offered", arguments: TransportCase.all)
    func resumes(_ transport: TransportCase) async throws {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            let server = try TLSServer(try ca.issue("server", "DNS:localhost"), ["-alpn", "http/1.1"])
            defer { server.stop() }
            let transport = try transport.make()
            var request = HTTPRequest(.get, "https://localhost:\(server.port)/", tls: TLSIdentity(caFile: ca.file))
            request.keepsConnection = false
            var traffic: [Traffic] = []
            for _ in 1...3 { traffic.append(try await transport.send(request).traffic) }
            #expect(traffic.map(\.newConnection) == [true, true, true])
            #expect(server.output.components(separatedBy: "Reused session-id").count == 3)
            #expect(server.output.contains("ALPN protocols advertised by the client: h2, http/1.1"))
            // Without the certificate a handshake is much smaller.
            #expect(traffic[1].down < traffic[0].down)
        }
    }

    @Test("A peer that speaks HTTP/2 and takes no more of a body costs no processor until its deadline has passed")
    func closedWindow() async throws {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            // It reads and says nothing, so that the first window, 64 KiB, is the last one.
            let server = try TLSServer(try ca.issue("server", "DNS:localhost"), ["-alpn", "h2"], isSilent: true)
            defer { server.stop() }
            let transport = try CurlTransport()
            defer { transport.close() }
            var request = HTTPRequest(
                .post, "https://localhost:\(server.port)/", body: .bytes([UInt8](repeating: 65, count: 200_000)),
                tls: TLSIdentity(caFile: ca.file))
            request.deadlines.idle = .seconds(1)
            #expect(try await transport.failure(request).code == .timedOut)
            // Some for the handshake and the window, then one each 10 ms. Without a pace there are tens of thousands.
            #expect(transport.rounds < 1_000, "\(transport.rounds)")
        }
    }

    @Test(
        "Over TLS the bytes are counted as TCP carried them, handshake and records included, also on a kept connection",
        arguments: TransportCase.all)
    func traffic(_ transport: TransportCase) async throws {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            let server = try TLSServer(try ca.issue("server", "DNS:localhost"))
            defer { server.stop() }
            // TCP sends a segment again that a busy machine does not acknowledge in time; it counts, and no relay sees it. That does not
            // happen each time.
            var differences: [String] = []
            for _ in 1...10 {
                let relay = try Relay(to: server.port)
                defer { relay.stop() }
                differences = try await Self.differences(try transport.make(), relay, ca)
                if differences.isEmpty { break }
            }
            #expect(differences.isEmpty)
        }
    }

    /// - Returns: Where the bytes that a transport counted are not those that the relay passed on.
    private static func differences(
        _ transport: some HTTPTransport, _ relay: Relay, _ ca: CertificateAuthority
    ) async throws -> [String] {
        var differences: [String] = []
        var up = 0, down = 0
        for size in [0, 10_000, 0] {
            let response = try await transport.send(
                HTTPRequest(
                    .post, "https://localhost:\(relay.port)/", body: .bytes([UInt8](repeating: 65, count: size)),
                    tls: TLSIdentity(caFile: ca.file)))
            up += response.traffic.up
            down += response.traffic.down
            let passed = relay.counts
            if (up, down) != passed { differences.append("counted \(up) up and \(down) down, passed \(passed)") }
            #expect(response.traffic.newConnection == (size == 0 && up < 10_000))
        }
        return differences
    }

    @Test("A peer that is refused has cost bytes too", arguments: TransportCase.all)
    func refusedTraffic(_ transport: TransportCase) async throws {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            let server = try TLSServer(try ca.issue("server", "DNS:localhost"))
            defer { server.stop() }
            let error = try await transport.make().failure(HTTPRequest(.get, "https://localhost:\(server.port)/"))
            #expect(error.code == .untrusted)
            #expect(error.traffic.down > 500)
            #expect(error.traffic.up > 200)
            #expect(error.traffic.newConnection)
        }
    }
}

/// Passes bytes between a client and a port of the loopback, and counts them.
private final class Relay: @unchecked Sendable {
    private(set) var port = 0
    private var server: CannedServer?
    private let counted = Mutex((up: 0, down: 0))

    var counts: (up: Int, down: Int) { counted.withLock { $0 } }

    init(to target: Int) throws {
        let server = try CannedServer { [self] connection in
            let upstream = CannedConnection.connect(toPort: target)
            Thread.detachNewThread { [self] in
                pass(from: upstream, to: connection) { $0.down += $1 }
                connection.finishSending()
            }
            pass(from: connection, to: upstream) { $0.up += $1 }
            upstream.finishSending()
        }
        self.server = server
        port = Int(server.url.split(separator: ":").last ?? "") ?? 0
    }

    func stop() {
        server?.stop()
    }

    private func pass(
        from: CannedConnection, to: CannedConnection, _ count: (inout (up: Int, down: Int), Int) -> Void
    ) {
        while true {
            let bytes = from.receiveBytes(upTo: 64 << 10)
            if bytes.isEmpty { return }
            // Before they are passed on, because the receiver may ask for the count at once.
            counted.withLock { count(&$0, bytes.count) }
            to.send(bytes)
        }
    }
}
