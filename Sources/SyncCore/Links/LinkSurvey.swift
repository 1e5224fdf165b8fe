/// Progress of a link, for status (PROTOCOL E1).
package enum LinkState: String, Hashable, Sendable, CaseIterable {
    case absent, down, carrier, addressed, routed
}

/// One link with the judgement about it.
package struct JudgedLink: Hashable, Sendable {
    package var name: String
    package var index: Int32
    package var kind: LinkKind
    package var state: LinkState
    package var cost: LinkCost
    /// The link can carry the sync.
    package var isUsable: Bool
    package var addresses: [String] = []
    /// Address of the portal API (RFC 8910), from its lease.
    package var portalURI: String?
}

/// Evaluates a ``LinkTable``: it judges every link and chooses the one that carries the sync. It is a pure function of its inputs; debounce
/// and damping, which need time, are in ``LinkWatch``.
package struct LinkSurvey: Hashable, Sendable {
    /// In the order of the table.
    package private(set) var links: [JudgedLink]
    package private(set) var uplink: Uplink?
    /// The uplink's index; it distinguishes an interface from a later one of the same name.
    package private(set) var uplinkIndex: Int32?

    /// - Parameter scarce: Links whose network reports few remaining bytes or seconds (``CaptivePortal/isScarce``).
    package init(
        _ table: LinkTable, rules: [LinkRule] = [], hints: LinkHints = LinkHints(), scarce: Set<String> = [], now: Instant
    ) {
        let judge = LinkCostJudge(table: table, rules: rules, hints: hints, scarce: scarce, now: now)
        links = table.links.map { facts in
            JudgedLink(
                name: facts.name, index: facts.index, kind: LinkKind(facts), state: facts.state(in: table),
                cost: judge.cost(of: facts), isUsable: facts.isUsable(in: table), addresses: facts.addresses,
                portalURI: facts.lease.portalURI)
        }
        guard let (facts, isPinned) = Self.choose(table, rules), let link = links.first(where: { $0.index == facts.index })
        else { return }
        let rule = rules.rule(for: facts.name)
        var uplink = Uplink(
            name: link.name, isMetered: link.cost.isMetered, isRoaming: link.cost.isRoaming,
            bytesPerSecond: rule?.bytesPerSecond)
        uplink.isPinned = isPinned
        self.uplink = uplink
        uplinkIndex = link.index
    }

    package func link(named name: String) -> JudgedLink? {
        links.first { $0.name == name }
    }

    /// Chooses the uplink. It is the interface of the first route to the hub, because the kernel sends unbound traffic there. Where no
    /// route is known yet, it is the one with the best default route. A link with a higher `prefer` and a default route of its own is
    /// chosen instead, and traffic is bound to it then.
    private static func choose(_ table: LinkTable, _ rules: [LinkRule]) -> (LinkFacts, isPinned: Bool)? {
        func preference(_ link: LinkFacts) -> Int { rules.rule(for: link.name)?.prefer ?? 0 }
        let usable = table.links.filter { $0.isUsable(in: table) }
        let byDefaultRoute = usable.filter { $0.defaultMetric != nil }
            .sorted { ($0.defaultMetric ?? .max, $0.index) < ($1.defaultMetric ?? .max, $1.index) }
        let routed = table.routes.lazy.compactMap { index in usable.first { $0.index == index } }.first
        guard let kernels = routed ?? (table.hasLookedUp ? nil : byDefaultRoute.first) else { return nil }
        let best = byDefaultRoute.first { link in byDefaultRoute.allSatisfy { preference($0) <= preference(link) } }
        if let best, best.index != kernels.index, preference(best) > preference(kernels) { return (best, true) }
        return (kernels, false)
    }
}

extension LinkFacts {
    /// `true` when it is switched on, with carrier and an address that reaches beyond the link.
    var isAddressed: Bool { isUp && hasCarrier && !addresses.isEmpty }

    func state(in table: LinkTable) -> LinkState {
        guard isUp, hasCarrier else { return .down }
        // The loopback interface needs no global address to carry packets within the machine.
        guard isAddressed || LinkKind(self) == .loopback else { return .carrier }
        return hasRoute(in: table) ? .routed : .addressed
    }

    /// Returns whether it can carry the sync. A port of a bridge or bond carries nothing by itself, whatever addresses are left on it.
    func isUsable(in table: LinkTable) -> Bool {
        state(in: table) == .routed && !(masterIndex != 0 && table.links.contains { $0.index == masterIndex && $0.joinsPorts })
    }

    private var joinsPorts: Bool {
        switch LinkKind(self) {
        case .bridge, .bond: true
        case .ethernet, .wlan, .wwan, .ppp, .tunnel, .bluetooth, .usbTether, .loopback, .vlan, .virtual, .other: false
        }
    }

    private func hasRoute(in table: LinkTable) -> Bool {
        table.routes.contains(index) || defaultMetric != nil
    }
}
