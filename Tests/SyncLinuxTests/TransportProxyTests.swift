import Foundation
import SyncCore
import SyncLinux
import Testing

@Suite("HTTP through a proxy")
struct TransportProxyTests {
    private static func proxy(_ server: CannedServer, credentials: String? = nil) throws -> HTTPProxy {
        HTTPProxy(url: try ServiceURL(server.url), credentialsFile: credentials)
    }

    @Test(
        "An answer of the proxy to CONNECT is reported as the proxy's, and decides nothing else",
        arguments: [
            (407, "wants a user name and a password (407)"), (403, "lets nothing through to there (403)"),
            (503, "cannot reach it (503)"), (302, "answers 302"),
        ])
    func refusalOfTheProxyIsReportedAsItsOwn(_ status: Int, _ words: String) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 \(status) No\r\nContent-Length: 4\r\nSync-Version: 1\r\n\r\nnone")
        }
        defer { server.stop() }
        let transport = try CurlTransport()
        defer { transport.close() }
        let request = HTTPRequest(
            .post, "https://hub.test/v1/push", headers: ["Authorization": "Bearer secret"], body: .bytes([1, 2, 3]),
            proxy: try Self.proxy(server))
        let error = try await transport.failure(request)
        #expect(error.code == .unreachable && error.detail.hasSuffix(words), "\(error)")
        #expect(error.doing == "connect to hub.test:443 through the proxy \(server.url.dropFirst(7))")
        let asked = try #require(server.allRequests.first)
        #expect(asked.line == "CONNECT hub.test:443 HTTP/1.1")
        #expect(asked.value("Proxy-Authorization") == nil && asked.value("Authorization") == nil && asked.body.isEmpty)
    }

    @Test("A 407 without credentials asks for some; with credentials it refuses them")
    func demand() async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
        }
        defer { server.stop() }
        let transport = try CurlTransport()
        defer { transport.close() }
        try await withTemporaryDirectory { directory in
            let file = directory + "/credentials"
            #expect(
                FileManager.default.createFile(
                    atPath: file, contents: Data("u:p\n".utf8), attributes: [.posixPermissions: NSNumber(value: 0o600)]))
            let demands: [(file: String?, demand: HTTPProxy.Demand)] = [(nil, .credentials), (file, .otherCredentials)]
            for (file, demand) in demands {
                let error = try await transport.failure(
                    HTTPRequest(.get, "https://hub.test/", proxy: try Self.proxy(server, credentials: file)))
                #expect(error.code == .unreachable && error.detail == demand.rawValue, "\(error)")
            }
        }
    }

    @Test("A proxy that is not there, and one without an address, are named")
    func absent() async throws {
        let server = try CannedServer { _ in }
        let address = server.url
        server.stop()
        let transport = try CurlTransport()
        defer { transport.close() }
        var request = HTTPRequest(.get, "https://hub.test/", proxy: HTTPProxy(url: try ServiceURL(address)))
        let dead = try await transport.failure(request)
        #expect(dead.code == .unreachable && dead.doing == "connect to hub.test:443 through the proxy \(address.dropFirst(7))", "\(dead)")
        request.proxy = HTTPProxy(url: try ServiceURL("http://proxy.invalid:3128"))
        let unknown = try await transport.failure(request)
        #expect(unknown.code == .unresolved && unknown.doing == "resolve the proxy proxy.invalid", "\(unknown)")
    }

    @Test("Credentials are shown to the proxy alone, and read anew for each request; without a good file nothing is asked")
    func credentials() async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
        }
        defer { server.stop() }
        let transport = try CurlTransport()
        defer { transport.close() }
        try await withTemporaryDirectory { directory in
            let file = directory + "/credentials"
            func write(_ text: String, mode: Int = 0o600) throws {
                try? FileManager.default.removeItem(atPath: file)  // The first time there is none.
                #expect(
                    FileManager.default.createFile(
                        atPath: file, contents: Data(text.utf8), attributes: [.posixPermissions: NSNumber(value: mode)]))
            }
            let request = HTTPRequest(.get, "https://hub.test/", proxy: try Self.proxy(server, credentials: file))
            let refusals: [(text: String?, mode: Int, words: String)] = [
                (nil, 0o600, "No such file"), ("u:p", 0o644, "mode 0600"), ("", 0o600, "a secret in it"),
                ("user", 0o600, "USER:PASSWORD in one line"),
                (":p", 0o600, "USER:PASSWORD"), ("u:p\nx", 0o600, "USER:PASSWORD"),
            ]
            for refusal in refusals {
                if let text = refusal.text { try write(text, mode: refusal.mode) }
                let error = try await transport.failure(request)
                #expect(error.code == .credentials && error.detail.contains(refusal.words), "\(refusal): \(error)")
                #expect(!error.description.contains("u:p"))
            }
            #expect(server.connectionCount == 0)
            for (text, shown) in [("u:p\n", "u:p"), ("übung:a b:c\r\n", "übung:a b:c")] {
                try write(text)
                _ = try await transport.failure(request)
                #expect(server.allRequests.last?.value("Proxy-Authorization") == "Basic \(Data(shown.utf8).base64EncodedString())")
            }
        }
    }

    @Test("Plain HTTP goes to the proxy with the whole URL; what stays in this machine goes past it")
    func plain() async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") }
        }
        let local = try CannedServer { connection in
            while connection.readRequest() != nil { connection.send("HTTP/1.1 204 No Content\r\n\r\n") }
        }
        defer { for one in [server, local] { one.stop() } }
        let transport = try CurlTransport()
        defer { transport.close() }
        let proxy = try Self.proxy(server)
        #expect(try await transport.send(HTTPRequest(.get, "http://hub.test/v1/probe", proxy: proxy)).body == Array("ok".utf8))
        #expect(server.allRequests.map(\.line) == ["GET http://hub.test/v1/probe HTTP/1.1"])
        #expect(try await transport.send(HTTPRequest(.get, local.url + "/v1/probe", proxy: proxy)).status == 204)
        #expect(server.allRequests.count == 1 && local.allRequests.map(\.line) == ["GET /v1/probe HTTP/1.1"])
    }
}
