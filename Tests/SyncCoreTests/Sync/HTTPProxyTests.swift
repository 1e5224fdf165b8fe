import SyncCore
import Testing

@Suite("Which requests go through a proxy")
struct HTTPProxyTests {
    private static func proxy(_ exceptions: [String]) throws -> HTTPProxy {
        HTTPProxy(
            url: try ServiceURL("http://proxy.example.com:3128"),
            exceptions: try exceptions.map { try #require(HTTPProxy.Exception($0), "\($0)") })
    }

    @Test(
        "All but those to this machine and to what is excepted",
        arguments: [
            ("hub.example.com", true), ("localhost", false), ("127.0.0.1", false), ("127.8.0.9", false), ("[::1]", false), ("::1", false),
            ("example.org", false), ("a.b.example.org", false), ("EXAMPLE.ORG", false), ("example.org.", false), ("notexample.org", true),
            ("internal.test", false), ("10.1.2.3", false), ("11.1.2.3", true), ("192.0.2.7", false), ("192.0.2.8", true),
            ("172.16.5.1", false),
            ("172.32.0.1", true), ("[2001:db8::1]", false), ("[2001:db9::1]", true), ("198.51.100.130", false), ("198.51.100.127", true),
            ("10", true),
        ])
    func carries(_ host: String, _ isCarried: Bool) throws {
        let proxy = try Self.proxy(
            ["example.org", ".internal.test", "10.0.0.0/8", "192.0.2.7", "172.16.0.0/12", "2001:db8::/32", "198.51.100.128/25"])
        #expect(proxy.carries(host) == isCarried)
    }

    @Test("A network of no bits is every address of its kind, and no name")
    func everything() throws {
        let proxy = try Self.proxy(["0.0.0.0/0"])
        #expect(!proxy.carries("203.0.113.1") && proxy.carries("[2001:db8::1]") && proxy.carries("hub.example.com"))
    }

    @Test(
        "Texts that are neither a name, nor an address, nor a network",
        arguments: [
            "", ".", "*", "*.example.com", "a b", "example.com/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0/8",
            "2001:db8::/129",
            "example.com:443", "user@example.com", "http://example.com", "..example.com",
        ])
    func malformed(_ text: String) {
        #expect(HTTPProxy.Exception(text) == nil)
    }

    @Test("A proxy is shown as it was written")
    func proxyIsShownAsItWasWritten() {
        #expect(
            ["Example.com", "10.0.0.0/8", "2001:DB8::/32", "192.0.2.1"].map { HTTPProxy.Exception($0)?.description } == [
                "example.com", "10.0.0.0/8", "2001:DB8::/32", "192.0.2.1",
            ])
    }

    @Test("A probe goes the way of the sync requests, and looks for no portal beside it")
    func probe() throws {
        var client = ProbeClient(hubURL: "https://hub.example.com:8443")
        #expect(client.request(nonce: "n", interface: nil).proxy == nil)
        #expect(client.portalRequest(after: .silent("no"), nonce: "n", interface: nil) != nil)
        client.proxy = try Self.proxy([])
        #expect(client.request(nonce: "n", interface: nil).proxy == client.proxy)
        #expect(client.portalRequest(after: .silent("no"), nonce: "n", interface: nil) == nil)
        client.proxy = try Self.proxy(["example.com"])
        #expect(client.portalRequest(after: .silent("no"), nonce: "n", interface: nil) != nil)
        let asked = client.outcome(of: .success(HTTPResponse(status: 407)), nonce: "n")
        var page = TransportError(.tooLarge, doing: "receive", detail: "3476 bytes announced, 1024 accepted")
        guard case .captive = client.outcome(of: .failure(page), nonce: "n") else { return #expect(Bool(false)) }
        page.status = 503
        #expect(client.outcome(of: .failure(page), nonce: "n") == .silent(HubFault(.overloaded, "the probe's answer is 503")))
        guard case .silent(let fault) = asked else { return #expect(Bool(false), "\(asked)") }
        #expect(fault == HubFault(.otherServer, "the proxy wants a user name and a password (407)"))
    }

    @Test("The command of a 407 says where the proxy's credentials go; without a proxy, and for words of the hub, it is the usual one")
    func demands() {
        var place = HubPlace()
        place.proxy = "http://proxy.example.com:3128"
        let elsewhere =
            "put USER:PASSWORD into /etc/credstore/hub-proxy, mode 600, owned by root, then: systemctl restart agentd; another file needs "
            + "hub.proxy_credentials_file in agentd.yaml"
        let here =
            "put USER:PASSWORD into /etc/agentd/proxy (hub.proxy_credentials_file), mode 600, owned by the agent's user, then: "
            + "agentctl sync --force"
        // The names are so long that the cause is cut for people.
        let doing = "connect to \(String(repeating: "h", count: 200)):443 through the proxy proxy.example.com:3128"
        for demand in HTTPProxy.Demand.allCases {
            let error = TransportError(.unreachable, doing: doing, detail: demand.rawValue)
            for fault in [HubFault(error), HubFault(HubReply.Refusal(.transport(error.code), error.description))] {
                for (file, command) in [
                    (nil, elsewhere), ("/run/credentials/agentd.service/hub-proxy", elsewhere), ("/etc/agentd/proxy", here),
                ] {
                    place.proxyCredentialsFile = file
                    #expect(fault.command(at: place) == command)
                }
                #expect(fault.command(at: HubPlace()) == "curl -v --noproxy '*' https://hub.example.com/v1/probe; ask the hub's operator")
            }
            #expect(HubFault(.otherServer, demand.rawValue).command(at: place) == here)
            #expect(HubFault(.blocked, demand.rawValue).command(at: place).contains("agenthub token list"))
        }
    }
}
