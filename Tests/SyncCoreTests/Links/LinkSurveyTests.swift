import SyncCore
import Testing

@Suite("Choice of the uplink")
struct LinkSurveyTests {
    let ethernet = LinkFacts.sample("eth0", index: 2, metric: 100)
    let wireless = LinkFacts.sample("wlan0", index: 3, deviceType: "wlan", metric: 600)

    struct Step: Sendable {
        var state: LinkState
        var facts: LinkFacts
    }

    @Test(
        "A link comes step by step: switched on, carrier, address, route",
        arguments: [
            Step(state: .down, facts: LinkFacts.sample().with { $0.isUp = false }),
            Step(state: .down, facts: LinkFacts.sample().with { $0.hasCarrier = false }),
            Step(state: .carrier, facts: .sample(addresses: [], metric: nil)),
            Step(state: .carrier, facts: .sample(addresses: [])),
            Step(state: .addressed, facts: .sample(metric: nil)),
            Step(state: .routed, facts: .sample()),
        ])
    func steps(_ step: Step) {
        let survey = LinkSurvey(LinkTable(links: [step.facts]), now: .seconds(0))
        #expect(survey.links.map(\.state) == [step.state])
        #expect((survey.uplink != nil) == (step.state == .routed))
    }

    @Test("The interface of the first route to the hub carries the sync, whatever the default routes are")
    func kernelDecides() {
        let table = LinkTable(links: [ethernet, wireless], routes: [3, 2])
        #expect(LinkSurvey(table, now: .seconds(0)).uplink == Uplink(name: "wlan0"))
        // A route through something that is down leads nowhere; the hub's next address may.
        let down = LinkTable(links: [ethernet, wireless.with { $0.hasCarrier = false }], routes: [3, 2])
        #expect(LinkSurvey(down, now: .seconds(0)).uplink?.name == "eth0")
    }

    @Test("Before the hub's addresses are known the best default route counts; once they are, only a route to them")
    func beforeLookup() {
        #expect(LinkSurvey(LinkTable(links: [ethernet, wireless]), now: .seconds(0)).uplink?.name == "eth0")
        #expect(LinkSurvey(LinkTable(links: [ethernet, wireless], hasLookedUp: true), now: .seconds(0)).uplink == nil)
        #expect(LinkSurvey(LinkTable(), now: .seconds(0)).uplink == nil)
    }

    @Test("A link that a rule prefers is taken instead if it has a default route, and traffic is bound to it")
    func preferred() {
        let table = LinkTable(links: [ethernet, wireless], routes: [3])
        let rules = [LinkRule.sample("eth*", prefer: 10)]
        let uplink = LinkSurvey(table, rules: rules, now: .seconds(0)).uplink
        #expect(uplink?.name == "eth0")
        #expect(uplink?.boundInterface == "eth0")
        let without = LinkTable(links: [ethernet.with { $0.defaultMetric = nil }, wireless], routes: [3])
        #expect(LinkSurvey(without, rules: rules, now: .seconds(0)).uplink == Uplink(name: "wlan0"))
        // The kernel's choice needs no binding.
        let agreed = LinkTable(links: [ethernet, wireless], routes: [2])
        #expect(LinkSurvey(agreed, rules: rules, now: .seconds(0)).uplink?.boundInterface == nil)
    }

    @Test("A hub in this machine is reached over loopback, which needs no address; a container has nothing but a veth")
    func local() {
        let loopback = LinkFacts.sample("lo", index: 1, hardwareType: 772, addresses: [], metric: nil)
        #expect(LinkSurvey(LinkTable(links: [loopback], routes: [1]), now: .seconds(0)).uplink == Uplink(name: "lo"))
        #expect(LinkSurvey(LinkTable(links: [loopback]), now: .seconds(0)).uplink == nil)
        let veth = LinkFacts.sample("eth0", index: 8, infoKind: "veth")
        #expect(LinkSurvey(LinkTable(links: [veth], routes: [8]), now: .seconds(0)).uplink?.isMetered == true)
    }

    @Test("A port of a bridge carries nothing itself, an interface in a VRF does")
    func ports() {
        let port = ethernet.with { $0.masterIndex = 5 }
        let bridge = LinkFacts.sample("br0", index: 5, infoKind: "bridge", metric: nil)
        #expect(LinkSurvey(LinkTable(links: [port, bridge]), now: .seconds(0)).uplink == nil)
        let vrf = LinkFacts.sample("vrf0", index: 5, infoKind: "vrf", addresses: [], metric: nil)
        #expect(LinkSurvey(LinkTable(links: [port, vrf]), now: .seconds(0)).uplink?.name == "eth0")
    }
}
