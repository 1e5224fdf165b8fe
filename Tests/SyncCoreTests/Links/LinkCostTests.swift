import SyncCore
import Testing

@Suite("Kind and cost of a link")
struct LinkCostTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var what: String
        var facts: LinkFacts
        var kind: LinkKind
        var isMetered: Bool
        var evidence: LinkCost.Evidence

        var testDescription: String { what }

        init(_ what: String, _ facts: LinkFacts, _ kind: LinkKind, metered: Bool, by evidence: LinkCost.Evidence) {
            (self.what, self.facts, self.kind, self.isMetered, self.evidence) = (what, facts, kind, metered, evidence)
        }
    }

    static let cases: [Case] = [
        Case("Ethernet", .sample(), .ethernet, metered: false, by: .kind),
        Case("wireless LAN", .sample("wlan0", deviceType: "wlan"), .wlan, metered: false, by: .kind),
        Case("a modem by DEVTYPE", .sample("wwan0", deviceType: "wwan", driver: "cdc_ether"), .wwan, metered: true, by: .devtype),
        Case("a modem's data channel", .sample("rmnet0", hardwareType: 519, infoKind: "rmnet"), .wwan, metered: true, by: .devtype),
        Case("a modem by driver", .sample("usb0", driver: "qmi_wwan"), .wwan, metered: true, by: .driver),
        Case("raw IP without a name", .sample("qmimux0", hardwareType: 0xFFFE), .wwan, metered: true, by: .linkType),
        Case("raw IP by type", .sample("ip0", hardwareType: 519), .wwan, metered: true, by: .linkType),
        Case("PPP", .sample("ppp0", hardwareType: 512), .ppp, metered: true, by: .linkType),
        Case("an Android phone over USB", .sample("usb0", driver: "rndis_host"), .usbTether, metered: true, by: .driver),
        Case("an iPhone over USB", .sample("eth1", driver: "ipheth"), .usbTether, metered: true, by: .driver),
        Case(
            "cdc_ether with a made-up address: a phone", .sample("usb0", driver: "cdc_ether").with { $0.hasMadeUpAddress = true },
            .usbTether, metered: true, by: .driver),
        Case("cdc_ether with a maker's address: an adapter", .sample("eth1", driver: "cdc_ether"), .ethernet, metered: false, by: .kind),
        Case("Bluetooth", .sample("bnep0", deviceType: "bluetooth"), .bluetooth, metered: true, by: .devtype),
        Case(
            "wireless LAN of a phone, by its lease", .sample("wlan0", deviceType: "wlan").with { $0.lease.isMetered = true }, .wlan,
            metered: true, by: .lease),
        Case("loopback", .sample("lo", hardwareType: 772), .loopback, metered: false, by: .kind),
        Case("a veth", .sample("eth0", infoKind: "veth"), .virtual, metered: true, by: .kind),
        Case("a bridge without ports", .sample("docker0", infoKind: "bridge", deviceType: "bridge"), .bridge, metered: true, by: .kind),
        Case("InfiniBand, or whatever comes", .sample("ib0", hardwareType: 32), .other, metered: true, by: .kind),
        Case("a tunnel over nothing", .sample("wg0", hardwareType: 0xFFFE, infoKind: "wireguard"), .tunnel, metered: true, by: .tunnel),
        Case(
            "tun, which has no hardware type either", .sample("tun0", hardwareType: 0xFFFE, infoKind: "tun"), .tunnel, metered: true,
            by: .tunnel),
        Case("a VLAN on nothing known", .sample("eth0.5", infoKind: "vlan", deviceType: "vlan"), .vlan, metered: true, by: .kind),
    ]

    @Test("Kind and cost follow from what the kernel, sysfs and the lease say", arguments: cases)
    func alone(_ example: Case) throws {
        let link = try #require(survey([example.facts]).links.first)
        #expect(link.kind == example.kind)
        #expect(link.cost == LinkCost(isMetered: example.isMetered, evidence: example.evidence))
    }

    @Test(
        "In a container, and behind a bridge, a machine without a modem costs nothing; one with a modem, or of which that is not known, may",
        arguments: [
            LinkFacts.sample("eth0", infoKind: "veth"), .sample("br0", infoKind: "bridge", deviceType: "bridge"),
            .sample("eth0.5", infoKind: "vlan", deviceType: "vlan"), .sample("bond0", infoKind: "bond", deviceType: "bond"),
        ])
    func withoutModem(_ facts: LinkFacts) {
        func cost(_ others: [LinkFacts] = [], hasModem: Bool?) -> LinkCost? {
            LinkSurvey(LinkTable(links: [facts] + others, hasModem: hasModem), now: .seconds(1)).links.first { $0.name == facts.name }?.cost
        }
        #expect(cost(hasModem: false) == LinkCost(isMetered: false, evidence: .noModem))
        #expect(cost(hasModem: true) == LinkCost(isMetered: true, evidence: .kind))
        #expect(cost(hasModem: nil) == LinkCost(isMetered: true, evidence: .kind))
        #expect(cost([.sample("ppp0", index: 9, hardwareType: 512)], hasModem: false) == LinkCost(isMetered: true, evidence: .kind))
    }

    @Test("Hints outlive a restart until they end; what was said since counts more, and nonsense is none")
    func keptHints() throws {
        var before = LinkHints()
        _ = before.set(LinkHint(isMetered: true, isRoaming: true), for: "wwan0", now: .seconds(0))
        _ = before.set(LinkHint(isMetered: false, expiresAt: .seconds(60)), for: "eth0", now: .seconds(0))
        let after = try #require(LinkHints(text: before.text, now: .seconds(30)))
        #expect(after == before)
        #expect(LinkHints(text: before.text, now: .seconds(61))?.hint(for: "eth0", now: .seconds(61)) == nil)
        var watch = LinkWatch()
        _ = watch.hear(LinkHint(isMetered: false), about: "wwan0", now: .seconds(30))
        _ = watch.restore(after, now: .seconds(31))
        #expect(watch.hints.hint(for: "wwan0", now: .seconds(31))?.isMetered == false)
        #expect(watch.hints.hint(for: "eth0", now: .seconds(31))?.isMetered == false)
        for text in ["", "{", "{}"] { #expect(LinkHints(text: text, now: .seconds(0)) == nil) }
        #expect(LinkHints(text: #"[7,{"link":"a/b","metered":true,"expires":99999999999},{"link":"x"}]"#, now: .seconds(0)) == LinkHints())
    }

    @Test("A rule of the configuration counts before a hint, a hint before a portal, a portal before the kernel")
    func order() throws {
        let modem = LinkFacts.sample("wwan0", deviceType: "wwan")
        var hints = LinkHints()
        _ = hints.set(LinkHint(isMetered: false), for: "wwan0", now: .seconds(0))
        func cost(rules: [LinkRule] = [], hints: LinkHints = LinkHints(), scarce: Set<String> = []) -> LinkCost? {
            LinkSurvey(LinkTable(links: [modem]), rules: rules, hints: hints, scarce: scarce, now: .seconds(1)).links.first?.cost
        }
        let rule = LinkRule.sample("wwan*", metered: true)
        #expect(cost(rules: [rule], hints: hints) == LinkCost(isMetered: true, evidence: .config))
        #expect(cost(rules: [.sample("wwan*")], hints: hints) == LinkCost(isMetered: false, evidence: .hint))
        #expect(cost(hints: hints, scarce: ["wwan0"]) == LinkCost(isMetered: false, evidence: .hint))
        #expect(cost(scarce: ["wwan0"]) == LinkCost(isMetered: true, evidence: .portal))
        #expect(cost() == LinkCost(isMetered: true, evidence: .devtype))
        // The first rule that matches counts wholly, also where it says nothing.
        #expect(cost(rules: [.sample("w*"), rule])?.evidence == .devtype)
    }

    @Test("A hint decides on roaming, whatever decided on metered; unknown is home")
    func roaming() {
        var hints = LinkHints()
        _ = hints.set(LinkHint(isRoaming: true), for: "wwan0", now: .seconds(0))
        let table = LinkTable(links: [.sample("wwan0", deviceType: "wwan")], routes: [2])
        let survey = LinkSurvey(table, rules: [.sample("wwan0", metered: true)], hints: hints, now: .seconds(1))
        #expect(survey.links.first?.cost == LinkCost(isMetered: true, evidence: .config, isRoaming: true))
        #expect(survey.uplink == Uplink(name: "wwan0", isMetered: true, isRoaming: true))
        #expect(LinkSurvey(table, now: .seconds(1)).uplink?.isRoaming == false)
    }

    @Test("A tunnel costs what the most expensive link that may carry it costs")
    func tunnels() {
        let tunnel = LinkFacts.sample("wg0", index: 9, hardwareType: 0xFFFE, infoKind: "wireguard", addresses: ["fd00::2"])
        let ethernet = LinkFacts.sample("eth0", index: 2, metric: nil)
        let modem = LinkFacts.sample("wwan0", index: 3, deviceType: "wwan", metric: nil)
        func cost(_ others: [LinkFacts]) -> LinkCost? { survey([tunnel] + others).link(named: "wg0")?.cost }
        #expect(cost([ethernet]) == LinkCost(isMetered: false, evidence: .tunnel))
        #expect(cost([ethernet, modem]) == LinkCost(isMetered: true, evidence: .tunnel))
        // One without an address carries nothing; neither do loopback and a bridge without a way out.
        #expect(cost([ethernet, modem.with { $0.addresses = [] }])?.isMetered == false)
        #expect(
            cost([.sample("lo", index: 1, hardwareType: 772), .sample("docker0", index: 4, infoKind: "bridge", metric: nil)])?.isMetered
                == true)
    }

    @Test("A bridge, a bond and a VLAN cost what carries them costs, and a loop of them ends")
    func lower() {
        let bridge = LinkFacts.sample("br0", index: 5, infoKind: "bridge")
        let port = LinkFacts.sample("eth0", index: 2).with { $0.masterIndex = 5 }
        let guest = LinkFacts.sample("vnet0", index: 6, infoKind: "veth").with { $0.masterIndex = 5 }
        #expect(survey([bridge, port, guest]).link(named: "br0")?.cost == LinkCost(isMetered: false, evidence: .lower))
        let vlan = LinkFacts.sample("br0.7", index: 7, infoKind: "vlan").with { $0.lowerIndex = 5 }
        #expect(survey([bridge, port, vlan]).link(named: "br0.7")?.cost == LinkCost(isMetered: false, evidence: .lower))
        let loop = [vlan.with { $0.lowerIndex = 8 }, vlan.with { ($0.name, $0.index, $0.lowerIndex) = ("b", 8, 7) }]
        #expect(survey(loop).links.map(\.cost.isMetered) == [true, true])
    }

    private func survey(_ links: [LinkFacts]) -> LinkSurvey {
        LinkSurvey(LinkTable(links: links), now: .seconds(0))
    }
}

@Suite("Hints about links")
struct LinkHintTests {
    @Test("A hint holds until its time is over, and no longer than a week")
    func expiry() {
        var hints = LinkHints()
        let hint = LinkHint(isMetered: true, expiresAt: .seconds(10))
        #expect(hints.set(hint, for: "wwan0", now: .seconds(0)) == true)
        #expect(hints.nextExpiry == .seconds(10))
        #expect(hints.hint(for: "wwan0", now: .seconds(9.9)) == hint)
        #expect(hints.hint(for: "wwan0", now: .seconds(10)) == nil)
        hints.expire(now: .seconds(10))
        #expect(hints.nextExpiry == nil)
        #expect(hints.set(LinkHint(isMetered: true, expiresAt: .seconds(1e9)), for: "a", now: .seconds(0)) == true)
        #expect(hints.nextExpiry == .seconds(7 * 86_400))
    }

    @Test("A hint replaces the one before, and an empty one takes it away")
    func replaced() {
        var hints = LinkHints()
        #expect(hints.set(LinkHint(isMetered: true, isRoaming: true), for: "wwan0", now: .seconds(0)) == true)
        #expect(hints.set(LinkHint(isMetered: false), for: "wwan0", now: .seconds(0)) == true)
        #expect(hints.hint(for: "wwan0", now: .seconds(1))?.isMetered == false)
        #expect(hints.hint(for: "wwan0", now: .seconds(1))?.isRoaming == nil)
        #expect(hints.set(LinkHint(), for: "wwan0", now: .seconds(2)) == true)
        #expect(hints.hint(for: "wwan0", now: .seconds(2)) == nil)
    }

    @Test(
        "A text that cannot be the name of an interface is refused",
        arguments: ["", ".", "..", "a/b", "a:1", "a b", "sixteencharacter", "a\nb", "é", "\u{7f}"])
    func names(_ name: String) {
        var hints = LinkHints()
        #expect(hints.set(LinkHint(isMetered: true), for: name, now: .seconds(0)) == false)
    }

    @Test("There is room for 64 of them; what has expired makes room")
    func limit() {
        var hints = LinkHints()
        for number in 0..<64 {
            #expect(hints.set(LinkHint(isMetered: true, expiresAt: .seconds(5)), for: "if\(number)", now: .seconds(0)) == true)
        }
        #expect(hints.set(LinkHint(isMetered: true), for: "more", now: .seconds(1)) == false)
        #expect(hints.set(LinkHint(isMetered: false), for: "if3", now: .seconds(1)) == true)
        #expect(hints.set(LinkHint(isMetered: true), for: "more", now: .seconds(8)) == true)
    }
}
