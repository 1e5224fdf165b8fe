import LocalAPI
import SyncCore
import Synchronization
import Testing

@Suite("Joining a hub")
struct JoinTests {
    // MARK: Files

    @Test("The files of a join, of which only those that differ are written, the settings last")
    func files() throws {
        let plan = JoinPlan(
            url: try ServiceURL("https://hub.example.com:8443"), token: "est_1", authorities: Array("PEM".utf8),
            device: DeviceID(trusted: "pump-3"), root: "/r")
        #expect(plan.files.map(\.path) == ["/r/etc/credstore/hub-token", "/r/etc/agentd/hub-ca.pem", "/r/etc/agentd/conf.d/90-join.yaml"])
        #expect(plan.files.map(\.mode) == [0o600, 0o644, 0o644])
        let settings = try #require(plan.files.last).bytes
        #expect(
            String(decoding: settings, as: UTF8.self).split(separator: "\n").dropFirst() == [
                "hub:", "  url: \"https://hub.example.com:8443\"", "  ca_file: \"/etc/agentd/hub-ca.pem\"", "  device: \"pump-3\"",
            ])
        #expect(plan.changes { _ in nil } == plan.files)
        #expect(plan.changes { path in plan.files.first { $0.path == path }?.bytes } == [])
        #expect(
            plan.changes { path in path == "/r/etc/credstore/hub-token" ? Array("est_1\n".utf8) : nil }.map(\.name) == [
                "authorities", "settings",
            ])
    }

    @Test("A proxy stands in the settings, its credentials where the service manager takes them from")
    func proxy() throws {
        let proxy = JoinPlan.Proxy(url: try ServiceURL("http://proxy.example.com:3128"), credentials: Array("u:p\n".utf8))
        let plan = JoinPlan(url: try ServiceURL("https://hub.example.com"), token: "est_1", authorities: nil, device: nil, proxy: proxy)
        #expect(plan.files.map(\.path) == ["/etc/credstore/hub-token", "/etc/credstore/hub-proxy", "/etc/agentd/conf.d/90-join.yaml"])
        #expect(plan.files[1].mode == 0o600 && plan.files[1].bytes == Array("u:p\n".utf8))
        let settings = String(decoding: try #require(plan.files.last).bytes, as: UTF8.self)
        #expect(settings.hasSuffix("\n  proxy: \"http://proxy.example.com:3128\"\n"))
    }

    // MARK: The hub's answers

    /// Answers by the path of the request.
    private final class Hub: HTTPTransport {
        typealias Answer = Result<HTTPResponse, TransportError>
        let answers: [String: Answer]
        let asked = Mutex<[HTTPRequest]>([])

        init(_ answers: [String: Answer]) { self.answers = answers }

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            asked.withLock { $0.append(request) }
            let path = request.url.split(separator: "?")[0].split(separator: "/").dropFirst(2).joined(separator: "/")
            return try (answers[path] ?? .success(HTTPResponse(status: 404))).get()
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void, onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse { try await send(request) }
    }

    private struct Clock: TimeSource {
        func now() -> Moment { Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_795_208_400_000)) }
    }

    private static func probe(ahead seconds: Int64 = 0) -> Hub.Answer {
        let time = 1_795_208_400_000 + seconds * 1_000
        return .success(HTTPResponse(status: 200, headers: ["Sync-Version": "1", "Sync-Time": String(time)]))
    }

    private static func refused(_ status: Int, _ detail: String) -> Hub.Answer {
        .success(HTTPResponse(status: status, headers: ["Sync-Version": "1"], body: JSON.object(["detail": .string(detail)]).bytes))
    }

    private static func failed(_ code: TransportError.Code, _ detail: String = "no") -> Hub.Answer {
        .failure(TransportError(code, doing: "connect", detail: detail))
    }

    private func ask(_ hub: Hub, token: String = "est_1", isNamed: Bool = false, ca: String? = nil) async throws -> JoinTrial.Welcome {
        try await JoinTrial(
            hub, Clock(), url: try ServiceURL("https://hub/"), token: token, device: DeviceID(trusted: "pump-3"), isNamed: isNamed,
            caFile: ca
        ).ask()
    }

    @Test("A device's token is shown once, with its name, to a question that changes nothing")
    func known() async throws {
        let hub = Hub(["v1/probe": Self.probe(ahead: 1)])
        let welcome = try await ask(hub)
        #expect(welcome.device.text == "pump-3" && welcome.clockOffset == .seconds(1))
        let asked = hub.asked.withLock { $0 }
        #expect(asked.map(\.method) == [.get, .get] && asked.map(\.url) == ["https://hub/v1/probe?nonce=join", "https://hub/v1/config"])
        #expect(asked[0].headers["Authorization"] == nil && asked[1].headers["Authorization"] == "Bearer est_1")
        #expect(asked[1].headers["Sync-Device"] == "pump-3")
    }

    @Test("A URL with /v1 at its end is refused with that reason, unless a hub answers there")
    func version() async throws {
        func trial(_ hub: Hub) throws -> JoinTrial {
            JoinTrial(
                hub, Clock(), url: try ServiceURL("https://hub/v1"), token: "est_1", device: DeviceID(trusted: "pump-3"), isNamed: false,
                caFile: nil)
        }
        for answer in [Self.refused(404, "no such route"), .success(HTTPResponse(status: 404))] {
            let hub = Hub(["v1/v1/probe": answer])
            await #expect { try await trial(hub).ask() } throws: { error in
                (error as? Problem)?.detail
                    == "there is no hub at https://hub/v1 (404); leave out /v1 at the end of the URL, because agentd adds it"
            }
            #expect(hub.asked.withLock { $0.count } == 1)
        }
        #expect(try await trial(Hub(["v1/v1/probe": Self.probe()])).ask().device.text == "pump-3")
    }

    @Test("A one-time token says whose it is, and is never shown as a bearer token")
    func oneTime() async throws {
        let grant = DeviceMessages.grant(TokenGrant(device: DeviceID(trusted: "pump-9"), token: "est_2", endsAt: nil))
        let hub = Hub(["v1/probe": Self.probe(), "v1/devices/enroll": .success(HTTPResponse(status: 201, body: grant))])
        #expect(try await ask(hub, token: "ese_1").device.text == "pump-9")
        #expect(hub.asked.withLock { $0.allSatisfy { $0.headers["Authorization"] == nil } })
        await #expect { try await ask(hub, token: "ese_1", isNamed: true) } throws: { error in
            (error as? Problem)?.detail.contains("for the device pump-9, not for pump-3") == true
        }
    }

    @Test(
        "Every fault is shown with the remedy",
        arguments: [
            (["v1/probe": failed(.unresolved)], nil, "look at the name in the URL"),
            (["v1/probe": failed(.unreachable)], nil, "look at the URL, and at the network"),
            (["v1/probe": failed(.untrusted)], nil, "--ca FILE"),
            (["v1/probe": failed(.untrusted)], "ca.pem", "the authority in the file of --ca must have signed it"),
            (
                ["v1/probe": failed(.untrusted, "OpenSSL/3.0.19: error:0A00010B:SSL routines::wrong version number")], nil,
                "does not speak TLS; look at the port of the URL"
            ),
            (["v1/probe": failed(.untrusted, "error setting certificate file: ca.pem")], "ca.pem", "-----BEGIN CERTIFICATE-----"),
            (["v1/probe": failed(.untrustedDate)], nil, "look at the clock of this machine"),
            (["v1/probe": failed(.clientCertificate)], nil, "hub.client_cert_file"),
            (["v1/probe": .success(HTTPResponse(status: 200))], nil, "is no hub (200, without Sync-Version)"),
            (["v1/probe": probe(ahead: 400)], nil, "is 6 min behind the hub's; set it"),
            (["v1/probe": probe(ahead: -86_400)], nil, "ahead of the hub's; set it"),
            (["v1/probe": probe(), "v1/config": refused(401, "the token is not known here")], nil, "agenthub token enrol pump-3"),
            (["v1/probe": probe(), "v1/config": refused(401, "the credential belongs to another device")], nil, "--device NAME"),
            (["v1/probe": probe(), "v1/config": refused(403, "this device was shut out by an operator")], nil, "shut out by an operator"),
            (["v1/probe": probe(), "v1/config": refused(429, "slowly")], nil, "wait a minute"),
            (["v1/probe": probe(), "v1/config": refused(500, "oh")], nil, "the hub answers 500: oh"),
        ] as [([String: Result<HTTPResponse, TransportError>], String?, String)])
    func refusals(_ answers: [String: Result<HTTPResponse, TransportError>], _ ca: String?, _ words: String) async {
        await #expect { try await ask(Hub(answers), ca: ca) } throws: { error in
            let detail = (error as? Problem)?.detail ?? ""
            if !detail.contains(words) { Issue.record("\(detail)") }
            return detail.contains(words)
        }
    }
}
