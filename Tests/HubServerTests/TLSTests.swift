import Foundation
import HubServer
import NIOCore
import NIOPosix
import NIOSSL
import SyncCore
import SyncHTTP
import SyncLinux
import Testing

/// The hub behind TLS, asked by the agent's own transport (PROTOCOL A1, A10). The certificates are in `Certificates`.
@Suite("TLS")
struct TLSTests {
    private static func file(_ name: String) -> String { ServiceTests.certificate(name) }

    private static func hub(_ name: String = "hub", clientCA: Bool = false) -> HubTLS {
        HubTLS(
            certificateFile: file(name + ".pem"), keyFile: file(name + ".key"), clientCAFile: clientCA ? file("issuer.pem") : nil)
    }

    struct Trust: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var certificate = "hub"
        var trusts: String? = "issuer.pem"
        var host = "127.0.0.1"
        /// `nil`: the hub is trusted.
        var code: TransportError.Code?
        var word = ""
    }

    @Test(
        "A hub is trusted when issuer, name and dates are right, and the error says which was not",
        arguments: [
            Trust(testDescription: "by address"),
            Trust(testDescription: "by name", host: "localhost"),
            Trust(testDescription: "of another issuer", trusts: "stranger-issuer.pem", code: .untrusted, word: "issuer"),
            Trust(testDescription: "of an issuer that the system does not know", trusts: nil, code: .untrusted, word: "issuer"),
            Trust(
                testDescription: "of another name", certificate: "elsewhere", host: "localhost", code: .untrusted, word: "ostname mismatch"),
            Trust(testDescription: "of another address", certificate: "elsewhere", code: .untrusted, word: "IP address mismatch"),
            Trust(testDescription: "expired", certificate: "expired", code: .untrustedDate, word: "has expired"),
            Trust(testDescription: "not yet valid", certificate: "future", code: .untrustedDate, word: "not yet valid"),
        ])
    func trust(_ row: Trust) async throws {
        try await ServiceTests.running(tls: Self.hub(row.certificate)) { running in
            let request = HTTPRequest(
                .get, "https://\(row.host):\(running.service.port)/v1/probe?n=1234",
                tls: row.trusts.map { TLSIdentity(caFile: Self.file($0)) })
            guard let code = row.code else {
                let answer = try await running.transport.send(request)
                #expect(answer.status == 204 && answer.headers["Sync-Probe"] == "1234")
                return
            }
            let error = try #require(await #expect(throws: TransportError.self) { try await running.transport.send(request) })
            #expect(error.code == code && error.detail.contains(row.word), "\(error)")
        }
    }

    /// The files of a hub, in a folder of their own, and what they are replaced by.
    private static func replaceable() throws -> (folder: String, tls: HubTLS) {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("hub-tls-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (from, to) in [("hub.pem", "cert.pem"), ("hub.key", "cert.key")] {
            try FileManager.default.copyItem(atPath: file(from), toPath: "\(folder)/\(to)")
        }
        return (folder, HubTLS(certificateFile: "\(folder)/cert.pem", keyFile: "\(folder)/cert.key"))
    }

    private static func replace(_ name: String, by other: String, in folder: String) throws {
        try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
        try FileManager.default.copyItem(atPath: file(other), toPath: "\(folder)/\(name)")
    }

    @Test("A renewed certificate is shown without a restart, and a half of a renewal changes nothing")
    func renewal() async throws {
        let (folder, tls) = try Self.replaceable()
        // The data that is left behind harms nothing.
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await ServiceTests.running(tls: tls) { running in
            func shown() async -> String {
                let request = HTTPRequest(
                    .get, "https://127.0.0.1:\(running.service.port)/v1/probe?n=1234", tls: TLSIdentity(caFile: Self.file("issuer.pem")),
                    keepsConnection: false)
                do throws(TransportError) {
                    return "\(try await running.transport.send(request).status)"
                } catch {
                    return error.code.rawValue
                }
            }
            func ends() async throws -> Int64 {
                let request = HTTPRequest(
                    .get, "https://127.0.0.1:\(running.service.port)/metrics", tls: TLSIdentity(caFile: Self.file("issuer.pem")))
                let page = String(decoding: try await running.transport.send(request).body, as: UTF8.self)
                let line = page.split(separator: "\n").first { $0.hasPrefix("agenthub_certificate_end_timestamp_seconds ") }
                return Int64(line?.split(separator: " ").last ?? "") ?? 0
            }
            #expect(await shown() == "204")
            let end = try await ends()
            #expect(end > 0)
            // The certificate alone: it does not belong to the key that is there.
            try Self.replace("cert.pem", by: "expired.pem", in: folder)
            running.service.renewCertificate()
            #expect(await shown() == "204")
            try Self.replace("cert.key", by: "expired.key", in: folder)
            #expect(await shown() == "204", "no check was made yet")
            running.service.renewCertificate()
            #expect(await shown() == "untrustedDate")
            try Self.replace("cert.pem", by: "hub.pem", in: folder)
            try Self.replace("cert.key", by: "hub.key", in: folder)
            running.service.renewCertificate()
            #expect(await shown() == "204")
            #expect(try await ends() == end)
            // A file that is gone, or empty, is no renewal.
            try FileManager.default.removeItem(atPath: "\(folder)/cert.pem")
            running.service.renewCertificate()
            #expect(await shown() == "204")
        }
    }

    @Test(
        "The files of TLS that cannot be used are named, with what was expected",
        arguments: [
            ("cert.key", "stranger.key", "cert.key", "is not the key of the certificate"),
            ("cert.pem", "hub.key", "cert.pem", "expected certificates in PEM"),
            ("cert.key", "hub.pem", "cert.key", "expected a private key in PEM"),
        ])
    func unusableFiles(_ name: String, _ other: String, _ named: String, _ said: String) async throws {
        let (folder, tls) = try Self.replaceable()
        // The data that is left behind harms nothing.
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try Self.replace(name, by: other, in: folder)
        let error = try #require(
            await #expect(throws: HubError.self) { try await ServiceTests.running(tls: tls) { _ in } })
        #expect(error.code == .badCertificate && error.doing.contains(named), "\(error)")
        #expect(error.detail.contains(said), "\(error)")
    }

    @Test(
        "TLS 1.2 and newer are spoken, older versions end in the handshake",
        arguments: [
            (TLSVersion.tlsv1, false), (.tlsv11, false), (.tlsv12, true), (.tlsv13, true),
        ])
    func versions(_ version: TLSVersion, _ isSpoken: Bool) async throws {
        try await ServiceTests.running(tls: Self.hub()) { running in
            let answer = try? await Self.shakeHands(port: running.service.port, version)
            #expect((answer?.hasPrefix("HTTP/1.1 200") == true) == isSpoken)
            if !isSpoken { #expect(answer == nil) }
        }
    }

    /// Asks for `/healthz` in this one version of TLS; throws when the handshake fails.
    private static func shakeHands(port: Int, _ version: TLSVersion) async throws -> String {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = version
        configuration.maximumTLSVersion = version
        configuration.trustRoots = .file(file("issuer.pem"))
        let context = try NIOSSLContext(configuration: configuration)
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil))
                    return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { incoming, outgoing in
            try await outgoing.write(ByteBuffer(string: "GET /healthz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n"))
            var text = ""
            for try await piece in incoming { text += String(buffer: piece) }
            return text
        }
    }

    struct Client: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var certificate: String?
        var device: DeviceID = .one
        var hasToken = false
        /// `nil`: the handshake fails.
        var status: Int?
    }

    @Test(
        "A device shows a token, a certificate of its own, or both; a certificate is valid for the device that it names alone",
        arguments: [
            Client(testDescription: "neither", status: 401),
            Client(testDescription: "a token", hasToken: true, status: 200),
            Client(testDescription: "a certificate", certificate: "device", status: 200),
            Client(testDescription: "both", certificate: "device", hasToken: true, status: 200),
            Client(testDescription: "a certificate, as another device", certificate: "device", device: .two, status: 401),
            Client(testDescription: "both of different devices", certificate: "device", device: .two, hasToken: true, status: 401),
            Client(testDescription: "a certificate that names no device", certificate: "device-unnamed", status: 401),
            Client(
                testDescription: "a certificate that names no device, and a token", certificate: "device-unnamed", hasToken: true,
                status: 200),
            Client(testDescription: "an expired certificate", certificate: "device-expired", hasToken: true),
            Client(testDescription: "a certificate of another issuer", certificate: "stranger", hasToken: true),
        ])
    func clients(_ row: Client) async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        let tokens = [
            DeviceID.one: book.add(.one, at: Timestamp(milliseconds: 0), using: &random),
            DeviceID.two: book.add(.two, at: Timestamp(milliseconds: 0), using: &random),
        ]
        try await ServiceTests.running(tokens: book, tls: Self.hub(clientCA: true)) { running in
            var running = running
            running.tls = TLSIdentity(
                caFile: Self.file("issuer.pem"), clientCertificateFile: row.certificate.map { Self.file($0 + ".pem") },
                clientKeyFile: row.certificate.map { Self.file($0 + ".key") })
            let asked = running
            let body: JSON = ["mutations": [.object(Sent("k", .create).json)]]
            let send = {
                try await asked.send(
                    .post, "/v1/sync/push", body: body.bytes, device: row.device, token: row.hasToken ? tokens[row.device] : nil)
            }
            if let status = row.status {
                #expect(try await send().status == status)
            } else {
                let error = await #expect(throws: TransportError.self) { _ = try await send() }
                #expect(error?.code == .clientCertificate, "\(String(describing: error))")
            }
            // The refused request has left nothing behind.
            running.tls = TLSIdentity(caFile: Self.file("issuer.pem"))
            let page = try await running.send(.get, "/v1/sync/pull?entity=audits", token: tokens[.one])
            #expect(try PullMessages.readResponse(page.body).head == (row.status == 200 ? 1 : 0))
        }
    }

    @Test("A device whose tokens were all revoked is shut out, whatever certificate it shows")
    func blockedCertificate() async throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        _ = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        #expect(book.revoke(.one, at: Timestamp(milliseconds: 1)) == 1)
        try await ServiceTests.running(tokens: book, tls: Self.hub(clientCA: true)) { running in
            var running = running
            running.tls = TLSIdentity(
                caFile: Self.file("issuer.pem"), clientCertificateFile: Self.file("device.pem"), clientKeyFile: Self.file("device.key"))
            let answer = try await running.send(.get, "/v1/sync/pull?entity=audits")
            #expect(answer.status == 403)
            #expect(Problem(try JSONReader.read(answer.body)).code == "device-blocked")
        }
    }

    @Test(
        "A client without TLS, or one that falls silent in a handshake, is cut off, and costs the others nothing",
        arguments: [
            "", "GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n", "\u{16}\u{3}\u{1}",
        ])
    func noHandshake(_ bytes: String) async throws {
        // The client behind it must connect within the same time.
        try await ServiceTests.running(tls: Self.hub(), limits: { $0.firstHeadTime = .seconds(3) }) { running in
            let client = try RawClient(port: running.service.port)
            try client.send(bytes)
            let text = try client.rest()
            // An alert of TLS may come, an answer of HTTP may not.
            #expect(!text.contains("HTTP/"))
            var running = running
            running.tls = TLSIdentity(caFile: Self.file("issuer.pem"))
            #expect(try await running.send(.get, "/healthz").status == 200)
        }
    }

    @Test("A connection is kept for the next request, over TLS as well", arguments: [false, true])
    func keptConnection(_ isTLS: Bool) async throws {
        try await ServiceTests.running(tls: isTLS ? Self.hub() : nil) { running in
            var running = running
            if isTLS { running.tls = TLSIdentity(caFile: Self.file("issuer.pem")) }
            let first = try await running.send(.get, "/v1/sync/pull?entity=audits")
            // A refusal costs no connection either.
            let second = try await running.send(.get, "/v1/sync/pull")
            let third = try await running.send(.get, "/v1/sync/pull?entity=audits")
            #expect([first, second, third].map(\.status) == [200, 400, 200])
            #expect([first, second, third].map(\.traffic.newConnection) == [true, false, false])
        }
    }
}
