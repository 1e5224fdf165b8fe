import LocalAPI
import Logging
import SyncCore
import SyncHTTP

// Passes the monitor's events to the connectivity value of the core, and performs its effects.
extension Agent {
    /// Starts watching. Events from other threads come to the loop.
    func startWatching() {
        environment.links?.watch(hubAddresses: []) { [weak self] table in
            self?.onLoop { $0.see(table) }
        }
        watchPower()
        askSystem()
        events.onPresence = { [weak self] in self?.assumeIsolated { $0.tellConditions() } }
        review()
    }

    /// Raises an alarm, because unwatched links may cost money.
    func reportUnwatchedLinks(_ reason: String) {
        raise(
            .linksUnwatched,
            "the links cannot be watched (\(Printable.text(reason))), so agentd treats every link as unmetered: it ignores "
                + "roaming, the section links and budgets, and does not notice a new link. "
                + "Allow AF_NETLINK to agentd, then: systemctl restart agentd")
    }

    func stopWatching() {
        let timers = [
            trials.wake, queue.wake, around.connectivityWake, around.usageWake, around.reviewWake, tokenRefresh.wake,
        ]
        for timer in timers { timer?.cancel() }
        events.onPresence = nil
        environment.links?.stop()
        environment.power?.stop()
    }

    private func see(_ table: LinkTable) {
        let before = around.connectivity.uplink.flatMap { uplink in
            around.connectivity.links.first { $0.name == uplink.name }
        }
        feed(.links(table))
        guard let before, let now = around.connectivity.links.first(where: { $0.index == before.index }) else { return }
        // The link may be back before its loss counts, but connections from an address that is gone receive nothing any more, and would
        // hang until their deadlines.
        guard !Set(before.addresses).isSubset(of: now.addresses) else { return }
        log.info("an address of the uplink is gone", metadata: ["link": "\(before.name)"])
        environment.closeIdleConnections()
        call?.cancel()
        waitingPull?.cancel()
    }

    func feed(_ event: Connectivity.Event) {
        guard !hasStopped, environment.links != nil else { return }
        perform(around.connectivity.handle(event, now: environment.time.now().instant))
    }

    func perform(_ effects: [Connectivity.Effect]) {
        for effect in effects {
            switch effect {
            case .probe(let nonce, let interface): probe(nonce, interface)
            case .askPortal(let uri, let interface): askPortal(uri, interface)
            case .resolve: resolveHub()
            case .changed(_, _, let cause, let fault): around.reachability.probesFound(cause.code, fault)
            case .fault(let fault): reportFault(fault)
            case .uplink(let uplink): reportUplink(uplink)
            case .recover(let run): recover(run)
            case .wake(let at):
                around.connectivityWake?.cancel()
                around.connectivityWake = schedule(after: delay(until: at)) { $0.feed(.timer) }
            }
        }
        if !effects.isEmpty { tellConditions() }
    }

    func reportFault(_ fault: HubFault) {
        guard around.reachability.failed(fault) else { return }
        log.info("connectivity", metadata: ["state": "\(engine.reachability.rawValue)", "cause": "\(fault.detail)"])
    }

    func delay(until instant: Instant) -> Duration {
        max(.zero, environment.time.now().instant.duration(to: instant))
    }

    private func reportUplink(_ uplink: Uplink?) {
        let before = around.told.uplink
        let state = uplink == nil ? "down" : "routed"
        let name = uplink?.name ?? before?.name ?? ""
        let cause =
            if uplink == nil {
                "link_down"
            } else if before == nil {
                "link_up"
            } else if before?.name == uplink?.name {
                "cost_changed"
            } else {
                "moved"
            }
        log.notice(
            "uplink",
            metadata: [
                "link": "\(name)", "state": "\(state)", "cause": "\(cause)",
                "metered": "\(uplink.map { "\($0.isMetered)" } ?? "-")",
            ])
        journal(.link, EventPayload.link(name: name, state: state, cause: cause))
        if uplink != nil, before?.name != uplink?.name {
            rearmBlobs()
            rearmDownloads()
        }
        // Old connections lead over the old link, and their requests may hang until their deadlines.
        guard before != nil, before?.name != uplink?.name else { return }
        countLeftover(over: before)
        environment.closeIdleConnections()
        call?.cancel()
        waitingPull?.cancel()
    }

    private func probe(_ nonce: String, _ interface: String) {
        let client = loaded.configuration.probeClient
        let transport = environment.transport
        let uplink = around.connectivity.uplink
        Task(executorPreference: executor) { [weak self] in
            let result = await transport.answer(to: client.request(nonce: nonce, interface: interface))
            var (outcome, traffic) = (client.outcome(of: result, nonce: nonce), result.traffic)
            if let request = client.portalRequest(after: outcome, nonce: nonce, interface: interface) {
                let second = await transport.answer(to: request)
                outcome = client.outcome(of: second, after: outcome, nonce: nonce)
                traffic.add(second.traffic)
            }
            await self?.probed(outcome, nonce, traffic, over: uplink)
        }
    }

    private func probed(_ outcome: ProbeOutcome, _ nonce: String, _ traffic: Traffic, over uplink: Uplink?) {
        count(traffic, for: .probe, over: uplink)
        around.lastProbe = .init(at: environment.time.now().wall, result: outcome.word)
        log.debug("probe", metadata: ["result": "\(outcome.word)"])
        feed(.probed(nonce: nonce, outcome))
        answerHeldWaiters()
    }

    private func askPortal(_ uri: String, _ interface: String) {
        guard let request = CaptivePortal.request(uri, interface: interface) else { return }
        let transport = environment.transport
        let uplink = around.connectivity.uplink
        Task(executorPreference: executor) { [weak self] in
            let result = await transport.answer(to: request)
            // A portal that does not answer is treated as one that says nothing.
            let portal = (try? result.get()).flatMap { CaptivePortal($0) }
            await self?.portalSaid(portal, interface, result.traffic, over: uplink)
        }
    }

    private func portalSaid(_ portal: CaptivePortal?, _ interface: String, _ traffic: Traffic, over uplink: Uplink?) {
        count(traffic, for: .probe, over: uplink)
        feed(.portalSaid(portal, on: interface))
    }

    /// Resolves the configured hub, or the proxy before it; the answer may take long.
    func resolveHub() {
        guard let resolve = environment.resolve else { return feed(.resolved(isLiteral: true)) }
        resolve(loaded.configuration.nextHop.host) { [weak self] addresses, isLiteral in
            self?.onLoop { agent in
                agent.hubFacts.lookedUp(found: addresses != nil)
                if let addresses { agent.environment.links?.look(for: addresses) }
                agent.feed(.resolved(isLiteral: isLiteral))
            }
        }
    }

    /// Records what an answer to the engine, or its absence, shows about the way to the hub.
    func recordContact(_ answer: HubAnswer) {
        guard environment.links != nil else { return }
        switch answer.result {
        case .failure(let error):
            if let contact = HubContact(HubReply.Refusal(.transport(error.code), error.description)) { feed(.contacted(contact)) }
        case .success(let response):
            switch HubReply.read(response, now: answer.at.wall) {
            case .answered: feed(.contacted(.answered))
            case .refused(let refusal): if let contact = HubContact(refusal) { feed(.contacted(contact)) }
            }
        }
    }
}

extension ProbeOutcome {
    /// The text for status and the log.
    var word: String {
        switch self {
        case .good: "ok"
        case .captive(let fault, _): "captive: " + Printable.text(fault.detail, max: 120)
        case .silent(let fault): "no answer: " + Printable.text(fault.detail, max: 120)
        case .absent(let fault): "no probe there: " + Printable.text(fault.detail, max: 120)
        }
    }
}
