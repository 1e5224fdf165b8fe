import LocalAPI
import Logging
import SyncCore
import SyncStore

// `GET` and `PUT /v1/links`.
extension Agent {
    func showLinks(_ call: LocalCall) {
        fromReader { reads, now throws(StoreError) in
            try reads.facts(at: now).waitingPriorities
        } then: { agent, result in
            // Links are shown also where the database cannot be read; status reports that.
            let waiting: Set<Priority> = if case .success(let found) = result { found } else { [] }
            let cause = agent.presentCause(in: agent.presentSituation, waiting: waiting, now: agent.environment.time.now().wall)
            call.answer(LinksAnswer(items: agent.linkItems, uplink: agent.around.connectivity.uplink?.name, cause: cause).answer)
        }
    }

    func hintLink(_ call: LocalCall, _ name: LinkName) throws(Problem) {
        let body = try LinkHintBody.read(call.body)
        let now = environment.time.now().instant
        let hint = LinkHint(
            isMetered: body.isMetered, isRoaming: body.isRoaming, expiresAt: body.life.map { now.advanced(by: $0) })
        try hear(hint, about: name, call)
    }

    func clearLinkHint(_ call: LocalCall, _ name: LinkName) throws(Problem) {
        try hear(LinkHint(), about: name, call)
    }

    /// Restores hints from before a restart of the agent. After a boot, scripts must send them again, because the modem may be elsewhere.
    func restoreHints(_ text: String?) {
        // Hints that came before the store had answered are stored now.
        defer { if around.connectivity.hints != LinkHints() { keepHints() } }
        guard let text, text.hasPrefix(environment.bootID + " ") else { return }
        let now = environment.time.now().instant
        guard let hints = LinkHints(text: String(text.dropFirst(environment.bootID.count + 1)), now: now) else {
            return log.warning("the stored hints about links cannot be read and are dropped")
        }
        perform(around.connectivity.restore(hints, now: now))
        tellConditions()
    }

    private func keepHints() {
        keep(
            environment.bootID + " " + around.connectivity.hints.text, as: .linkHints,
            loss: "a hint about a link was not stored; a restart forgets it")
    }

    private func hear(_ hint: LinkHint, about name: LinkName, _ call: LocalCall) throws(Problem) {
        let now = environment.time.now()
        guard let effects = around.connectivity.hear(hint, about: name.text, now: now.instant) else {
            throw LocalProblem.validation.problem("no more than \(LinkHints.limit) links can have a hint at the same time")
        }
        log.notice("hint about a link", metadata: ["link": "\(name)", "uid": "\(call.peer.uid)"])
        perform(effects)
        tellConditions()
        keepHints()
        let link = around.connectivity.links.first { $0.name == name.text }
        let kept = around.connectivity.hints.hint(for: name.text, now: now.instant)
        call.answer(
            LinkHintAnswer(
                name: name.text, isMetered: link?.cost.isMetered ?? kept?.isMetered,
                meteredBy: link?.cost.evidence.rawValue, isRoaming: link?.cost.isRoaming ?? kept?.isRoaming,
                expiresAt: kept?.expiresAt.map { now.wall.advanced(by: now.instant.duration(to: $0)) }
            ).answer)
    }

    var linkItems: [LinkItem] {
        let now = environment.time.now()
        let connectivity = around.connectivity
        return shownLinks.map { link in
            let isUplink = link.name == connectivity.uplink?.name
            var item = LinkItem(link)
            item.addresses = link.addresses
            item.bytesPerSecond = loaded.configuration.linkRule(for: link.name)?.bytesPerSecond.map(Int64.init)
            item.budget = budgets(of: link)
            item.recovery = around.recoveries[link.name]
            if isUplink {
                item.state = uplinkState(link)
                (item.roundTrip, item.lastProbe) = (connectivity.lastRoundTrip, around.lastProbe)
            }
            if let expiresAt = connectivity.hints.hint(for: link.name, now: now.instant)?.expiresAt {
                item.expiresAt = now.wall.advanced(by: now.instant.duration(to: expiresAt))
            }
            return item
        }
    }

    /// Links that could carry the sync. Internal interfaces (loopback, container ends, queueing devices) are shown only while they do.
    var shownLinks: [JudgedLink] {
        let connectivity = around.connectivity
        return connectivity.links.filter { link in
            switch link.kind {
            case .loopback: link.name == connectivity.uplink?.name
            case .virtual: link.isUsable || link.name == connectivity.uplink?.name
            case .ethernet, .wlan, .wwan, .ppp, .tunnel, .bluetooth, .usbTether, .bridge, .bond, .vlan, .other: true
            }
        }
    }

    /// The state of the uplink, which includes the reachability behind it (PROTOCOL E1).
    private func uplinkState(_ link: JudgedLink) -> String {
        switch engine.reachability {
        case .online, .auth: "reachable"
        case .captive: "portal"
        case .degraded: "limited"
        case .offline, .connecting: link.state.rawValue
        }
    }
}
