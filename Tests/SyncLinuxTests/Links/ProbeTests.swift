import SyncCore
import SyncLinux
import Testing

@Suite("Probe over libcurl")
struct ProbeTests {
    private static let nonce = "q1w2e3r4"

    private func probe(_ server: CannedServer, interface: String? = "lo") async throws -> ProbeOutcome {
        let transport = try CurlTransport()
        defer { transport.close() }
        let client = ProbeClient(hubURL: server.url)
        let result: Result<HTTPResponse, TransportError>
        do throws(TransportError) {
            result = .success(try await transport.send(client.request(nonce: Self.nonce, interface: interface)))
        } catch {
            result = .failure(error)
        }
        return client.outcome(of: result, nonce: Self.nonce)
    }

    @Test("The hub's echo is good, with its round trip; the request is one small GET")
    func good() async throws {
        let server = try CannedServer { connection in
            guard let request = connection.readRequest() else { return }
            let nonce = request.line.split(separator: " ")[1].split(separator: "=").last ?? ""
            connection.send("HTTP/1.1 204 No Content\r\nSync-Probe: \(nonce)\r\n\r\n")
        }
        defer { server.stop() }
        guard case .good(let roundTrip) = try await probe(server) else {
            Issue.record("not good")
            return
        }
        #expect(roundTrip != nil)
        #expect(server.allRequests.map(\.line) == ["GET /v1/probe?n=\(Self.nonce) HTTP/1.1"])
        #expect(server.allRequests.allSatisfy { $0.byteCount < 200 })
        #expect(server.allRequests[0].value("Authorization") == nil)
    }

    @Test("A redirect is not followed: it is a portal's, and says where to")
    func redirect() async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("302 Found", ["Location: http://login.example/"])
        }
        defer { server.stop() }
        guard case .captive(_, let portal) = try await probe(server) else {
            Issue.record("not captive")
            return
        }
        #expect(portal == "http://login.example/")
        #expect(server.connectionCount == 1)
    }

    @Test("A page in place of the echo is a portal, and no more than 1 KiB of it is read")
    func page() async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
            while connection.send([UInt8](repeating: 0x20, count: 64 << 10)) {}
        }
        defer { server.stop() }
        guard case .captive = try await probe(server) else {
            Issue.record("not captive")
            return
        }
    }

    @Test("A missing server, or a missing interface, is silence")
    func silence() async throws {
        let server = try CannedServer { _ in }
        guard case .silent = try await probe(server, interface: "nonesuch0") else {
            Issue.record("not silent: the interface was not used")
            return
        }
        #expect(server.connectionCount == 0)
        guard case .silent = try await probe(server) else {
            Issue.record("not silent: the peer hung up")
            return
        }
        server.stop()
    }
}
