/// The cost of a link, metered or not, and the evidence for it.
package struct LinkCost: Hashable, Sendable {
    /// The kind of evidence that decided; shown in `metered_by`.
    package enum Evidence: String, Hashable, Sendable, CaseIterable {
        /// A rule of the configuration.
        case config
        /// A hint by `PUT /v1/links`.
        case hint
        /// The network's own portal API reports few remaining bytes or seconds (RFC 8908).
        case portal
        /// `DEVTYPE` or `IFLA_INFO_KIND` names a modem.
        case devtype
        /// The kernel's driver serves only modems or phones.
        case driver
        /// `ARPHRD_*`: PPP, raw IP.
        case linkType = "link_type"
        /// The DHCP lease contains `ANDROID_METERED`.
        case lease
        /// Only the kind of the link was known.
        case kind
        /// The most expensive link that may carry the tunnel decides.
        case tunnel
        /// The most expensive of its ports, or the interface that it is a part of, decides.
        case lower
        /// The interface exists in this machine only, its carrier is not visible, and the machine has no modem.
        case noModem = "no_modem"
    }

    package var isMetered: Bool
    package var evidence: Evidence
    package var isRoaming = false

    package init(isMetered: Bool, evidence: Evidence, isRoaming: Bool = false) {
        self.isMetered = isMetered
        self.evidence = evidence
        self.isRoaming = isRoaming
    }

    var rank: Int { isRoaming ? 2 : isMetered ? 1 : 0 }
}

/// Judges the links of one table (PROTOCOL E2): the first evidence counts, in the order of the functions below. A link without evidence is
/// metered: a wrong guess then costs patience, not money.
struct LinkCostJudge {
    let table: LinkTable
    let rules: [LinkRule]
    let hints: LinkHints
    /// Names of links whose portal reported that little is left.
    let scarce: Set<String>
    let now: Instant

    func cost(of link: LinkFacts) -> LinkCost {
        cost(of: link, depth: 0)
    }

    private func cost(of link: LinkFacts, depth: Int) -> LinkCost {
        let hint = hints.hint(for: link.name, now: now)
        var cost = said(of: link, hint) ?? known(of: link) ?? inherited(by: link, depth: depth) ?? guessed(of: link)
        if let isRoaming = hint?.isRoaming { cost.isRoaming = isRoaming }
        return cost
    }

    /// The evidence of people and their scripts.
    private func said(of link: LinkFacts, _ hint: LinkHint?) -> LinkCost? {
        if let isMetered = rules.rule(for: link.name)?.metered { return LinkCost(isMetered: isMetered, evidence: .config) }
        if let isMetered = hint?.isMetered { return LinkCost(isMetered: isMetered, evidence: .hint) }
        if scarce.contains(link.name) { return LinkCost(isMetered: true, evidence: .portal) }
        return nil
    }

    /// The evidence of the kernel and the network.
    private func known(of link: LinkFacts) -> LinkCost? {
        let kind = LinkKind(link)
        if kind == .wwan || kind == .ppp {
            let evidence: LinkCost.Evidence =
                if link.deviceType == "wwan" || link.infoKind != nil {
                    .devtype
                } else if link.driver.map(LinkKind.wwanDrivers.contains) == true {
                    .driver
                } else {
                    .linkType
                }
            return LinkCost(isMetered: true, evidence: evidence)
        }
        if link.lease.isMetered { return LinkCost(isMetered: true, evidence: .lease) }
        switch kind {
        case .usbTether: return LinkCost(isMetered: true, evidence: .driver)
        case .bluetooth: return LinkCost(isMetered: true, evidence: .devtype)
        case .ethernet, .wlan, .wwan, .ppp, .tunnel, .loopback, .bridge, .bond, .vlan, .virtual, .other: return nil
        }
    }

    private func inherited(by link: LinkFacts, depth: Int) -> LinkCost? {
        // A VLAN on a bond on two ports is 2 deep. The kernel forbids loops and nests at most 8 devices (MAX_NEST_DEV). A table that was
        // read during a change may show anything.
        guard depth < 8 else { return nil }
        let kind = LinkKind(link)
        let carriers: [LinkFacts]
        switch kind {
        case .tunnel:
            // Links without a default route count too: with all traffic in a tunnel, the link below it only has a route to the tunnel's
            // other end.
            carriers = table.links.filter { other in
                let kind = LinkKind(other)
                return kind != .tunnel && kind != .loopback && other.isAddressed
                    && (!kind.isLocal || other.defaultMetric != nil)
            }
        case .bridge, .bond:
            // A veth on a bridge belongs to a container and is not the way out.
            carriers = table.links.filter { $0.masterIndex == link.index && $0.hasCarrier && LinkKind($0) != .virtual }
        case .vlan:
            carriers = table.links.filter { link.lowerIndex != 0 && $0.index == link.lowerIndex }
        case .ethernet, .wlan, .wwan, .ppp, .bluetooth, .usbTether, .loopback, .virtual, .other: return nil
        }
        let costs = carriers.map { cost(of: $0, depth: depth + 1) }
        guard var cost = costs.max(by: { $0.rank < $1.rank }) else { return nil }
        cost.evidence = kind == .tunnel ? .tunnel : .lower
        return cost
    }

    private func guessed(of link: LinkFacts) -> LinkCost {
        switch LinkKind(link) {
        case .ethernet, .wlan, .loopback: LinkCost(isMetered: false, evidence: .kind)
        case .tunnel: LinkCost(isMetered: true, evidence: .tunnel)
        // In a container, or behind a bridge, the way out is an interface of the machine that is not visible from here.
        case .bridge, .bond, .vlan, .virtual:
            isWithoutModem ? LinkCost(isMetered: false, evidence: .noModem) : LinkCost(isMetered: true, evidence: .kind)
        case .wwan, .ppp, .bluetooth, .usbTether, .other: LinkCost(isMetered: true, evidence: .kind)
        }
    }

    private var isWithoutModem: Bool {
        table.hasModem == false && !table.links.contains { [.wwan, .ppp, .bluetooth, .usbTether].contains(LinkKind($0)) }
    }
}
