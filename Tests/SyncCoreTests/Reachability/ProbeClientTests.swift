import SyncCore
import Testing

@Suite("Probe")
struct ProbeClientTests {
    @Test(
        "The probe goes where sync requests go; a portal behind its failure is looked for on port 80 alone",
        arguments: [
            ("https://hub.example.com", "http://hub.example.com/v1/probe"),
            ("https://hub.example.com:8443/base", "http://hub.example.com/v1/probe"),
            ("https://[2001:db8::1]:8443", "http://[2001:db8::1]/v1/probe"),
            ("https://[2001:db8::1]", "http://[2001:db8::1]/v1/probe"),
            ("http://127.0.0.1:8080", nil),
            ("http://[::1]:8080/x/y", nil),
        ])
    func address(_ hub: String, _ plain: String?) {
        let client = ProbeClient(hubURL: hub)
        #expect(client.url == hub + "/v1/probe")
        let second = client.portalRequest(after: .silent("x"), nonce: "n1", interface: "eth0")
        #expect(second?.url == plain.map { $0 + "?n=n1" })
        #expect(second?.tls == nil)
        for outcome in [ProbeOutcome.good(roundTrip: nil), .captive("x", portal: nil), .absent("x")] {
            #expect(client.portalRequest(after: outcome, nonce: "n1", interface: "eth0") == nil)
        }
    }

    @Test("Plain HTTP tells of a portal and of nothing else: what people read is what the hub's own address said")
    func portalOnly() {
        let client = ProbeClient(hubURL: "https://hub.example.com:8443")
        let first = ProbeOutcome.silent("TLS handshake with hub.example.com:8443: certificate has expired")
        func second(_ result: Result<HTTPResponse, TransportError>) -> ProbeOutcome {
            client.outcome(of: result, after: first, nonce: Self.nonce)
        }
        #expect(second(.failure(TransportError(.unreachable, doing: "connect to hub.example.com:80", detail: "refused"))) == first)
        #expect(second(.failure(TransportError(.timedOut, doing: "connect to hub.example.com:80", detail: "3 s"))) == first)
        #expect(second(.success(HTTPResponse(status: 404))) == first)
        #expect(second(.success(HTTPResponse(status: 301, headers: ["Location": "https://hub.example.com:8443/"]))) == first)
        #expect(
            second(.success(HTTPResponse(status: 204, headers: ["Sync-Probe": Self.nonce]))) == first, "port 80 is not the hub's address")
        guard
            case .captive(_, "http://login.example/")? = Optional(
                second(.success(HTTPResponse(status: 302, headers: ["Location": "http://login.example/"]))))
        else {
            Issue.record("not captive")
            return
        }
    }

    @Test("A probe over TLS trusts and shows what sync requests do, wherever it goes")
    func identity() {
        let tls = TLSIdentity(
            caFile: "/etc/agentd/ca.pem", clientCertificateFile: "/c.pem", clientKeyFile: "/k.pem", publicKeyPin: "sha256//x")
        #expect(ProbeClient(hubURL: "https://hub.example.com", tls: tls).request(nonce: "n", interface: nil).tls == tls)
        #expect(ProbeClient(url: "https://probe.example.com/up", tls: tls).request(nonce: "n", interface: nil).tls == tls)
    }

    @Test("The request is small, bound to the link, short, and shows no credentials")
    func request() {
        let request = ProbeClient(hubURL: "https://hub.example.com").request(nonce: "abc12345", interface: "eth0")
        #expect(request.url == "https://hub.example.com/v1/probe?n=abc12345")
        #expect(request.method == .get)
        #expect(request.headers.fields.isEmpty)
        #expect(request.interface == "eth0")
        #expect(request.deadlines.connect == .seconds(3))
        #expect(request.deadlines.total == .seconds(5))
        #expect(request.maxResponseBytes == 1_024)
        #expect(!request.keepsConnection)
    }

    enum Expected: Sendable { case good, captive, silent, absent }

    struct Case: Sendable, CustomTestStringConvertible {
        var what: String
        var status: Int
        var headers: HTTPHeaders = [:]
        var body = ""
        var expected: Expected

        var testDescription: String { what }
    }

    static let nonce = "q1w2e3r4"

    static let cases: [Case] = [
        Case(what: "204 with our nonce", status: 204, headers: ["sync-probe": nonce], expected: .good),
        Case(what: "204 without a nonce", status: 204, expected: .captive),
        Case(what: "204 with another nonce", status: 204, headers: ["Sync-Probe": "other"], expected: .captive),
        Case(what: "200 with our nonce", status: 200, headers: ["Sync-Probe": nonce], expected: .captive),
        Case(what: "200 empty", status: 200, expected: .captive),
        Case(what: "200 HTML", status: 200, headers: ["Content-Type": "text/html"], body: "<html>", expected: .captive),
        Case(what: "redirect to a portal", status: 302, headers: ["Location": "http://login.hotel.example/"], expected: .captive),
        Case(what: "redirect to nowhere", status: 307, expected: .captive),
        Case(
            what: "redirect to the same place by TLS", status: 301, headers: ["Location": "https://HUB.example.com/v1/probe"],
            expected: .absent),
        Case(
            what: "redirect to the same place by TLS on a port", status: 308, headers: ["Location": "https://hub.example.com:8443/"],
            expected: .absent),
        Case(
            what: "redirect that looks like the same place", status: 302, headers: ["Location": "https://hub.example.com@evil.example/"],
            expected: .captive),
        Case(
            what: "redirect to a longer name", status: 302, headers: ["Location": "https://hub.example.com.evil.example/"],
            expected: .captive),
        Case(what: "redirect within plain HTTP", status: 302, headers: ["Location": "http://hub.example.com/login"], expected: .captive),
        Case(what: "511", status: 511, expected: .captive),
        Case(what: "403 of a filter", status: 403, expected: .captive),
        Case(what: "407 of a proxy", status: 407, expected: .silent),
        Case(what: "404 of a proxy before the hub", status: 404, expected: .absent),
        Case(what: "502 of a proxy before the hub", status: 502, expected: .silent),
        Case(what: "503", status: 503, expected: .silent),
    ]

    @Test("Only 204 with our nonce is the hub", arguments: cases)
    func reading(_ example: Case) {
        let response = HTTPResponse(status: example.status, headers: example.headers, body: Array(example.body.utf8))
        #expect(read(.success(response)) == example.expected)
    }

    @Test(
        "No answer is silence; an answer that is too long, or not HTTP, comes from another server", arguments: TransportError.Code.allCases)
    func failures(_ code: TransportError.Code) {
        let expected: Expected = code == .tooLarge || code == .malformed ? .captive : .silent
        #expect(read(.failure(TransportError(code, doing: "connect", detail: "x"))) == expected)
    }

    @Test("A portal's own address is kept")
    func portal() {
        let client = ProbeClient(hubURL: "https://hub.example.com")
        let response = HTTPResponse(status: 302, headers: ["Location": "http://login.hotel.example/"])
        guard case .captive(_, let portal) = client.outcome(of: .success(response), nonce: Self.nonce) else {
            Issue.record("not captive")
            return
        }
        #expect(portal == "http://login.hotel.example/")
    }

    private func read(_ result: Result<HTTPResponse, TransportError>) -> Expected {
        switch ProbeClient(hubURL: "https://hub.example.com").outcome(of: result, nonce: Self.nonce) {
        case .good: .good
        case .captive: .captive
        case .silent: .silent
        case .absent: .absent
        }
    }
}

@Suite("Captive portal API")
struct CaptivePortalTests {
    private func read(_ body: String, type: String = "application/captive+json", status: Int = 200) -> CaptivePortal? {
        CaptivePortal(HTTPResponse(status: status, headers: ["Content-Type": type], body: Array(body.utf8)))
    }

    @Test("The document of RFC 8908, section 5 is read")
    func example() throws {
        let portal = try #require(
            read(#"{"captive": true, "user-portal-url": "https://example.org/portal.html", "venue-info-url": "https://v.example/"}"#))
        #expect(portal.isCaptive)
        #expect(portal.userPortalURL == "https://example.org/portal.html")
        #expect(!portal.isScarce)
        let session = try #require(
            read(
                #"{"captive": false, "seconds-remaining": 326, "bytes-remaining": 65536.7, "can-extend-session": true}"#,
                type: "Application/Captive+JSON; charset=utf-8"))
        #expect(!session.isCaptive)
        #expect(session.secondsRemaining == 326)
        #expect(session.bytesRemaining == 65_536)
        #expect(session.isScarce)
        #expect(read(#"{"captive":false,"seconds-remaining":86400,"bytes-remaining":1e12}"#)?.isScarce == false)
    }

    @Test(
        "Another document proves nothing",
        arguments: [
            "", "[]", "{}", #"{"captive":"yes"}"#, #"{"captive":1}"#, "<html>", #"{"captive":true"#, #"{"captive":true,"captive":false}"#,
        ])
    func nonsense(_ body: String) {
        #expect(read(body) == nil)
    }

    @Test("The content type and the status must be right")
    func framing() {
        #expect(read(#"{"captive":true}"#, type: "application/json") == nil)
        #expect(read(#"{"captive":true}"#, status: 302) == nil)
    }

    @Test(
        "An address for people must be https in visible ASCII, and amounts not negative",
        arguments: ["http://x.example/", "javascript:alert(1)", "https://", "https://a b/", "https://x\u{1b}[2J/", "https://user@x/"])
    func addresses(_ url: String) throws {
        let portal = try #require(read("{\"captive\":true,\"user-portal-url\":\(quoted(url)),\"seconds-remaining\":-1}"))
        #expect(portal.userPortalURL == nil)
        #expect(portal.secondsRemaining == nil)
        #expect(CaptivePortal.request(url, interface: nil) == nil)
    }

    @Test("A probe goes over TLS, without credentials, through its link")
    func request() throws {
        let request = try #require(CaptivePortal.request("https://portal.example/api", interface: "wlan0"))
        #expect(request.interface == "wlan0")
        #expect(request.headers.fields.map(\.name) == ["Accept"])
        #expect(CaptivePortal.request("urn:ietf:params:capport:unrestricted", interface: nil) == nil)
    }

    private func quoted(_ text: String) -> String {
        var writer = JSONWriter()
        writer.string(text)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
