/// Combines links and reachability: the link table, hints, probes and the hub's answers go in; the uplink, the reachability and the probes
/// to send come out.
///
/// The agent owns one and passes these events on its loop, with the time:
/// - ``Event/links(_:)`` from `NetlinkMonitor`, and ``Event/timer`` at the time of the last ``Effect/wake(at:)``;
/// - ``Event/contacted(_:)`` for each answered call of the engine (`.answered`, or `HubContact(refusal)`), and ``Event/busy(_:)`` when a
///   cycle begins and ends;
/// - the outcomes of its requests: ``Event/probed(nonce:_:)``, ``Event/portalSaid(_:on:)``, ``Event/resolved(isLiteral:)``.
///
/// The agent passes `reachability` and `uplink` to the engine (for `Situation`) with every ``Effect/changed(from:to:_:detail:)`` and
/// ``Effect/uplink(_:)``. A cycle may begin while ``allowsAttempts``; requests of the engine go through ``Uplink/boundInterface``. On
/// ``Effect/uplink(_:)`` kept connections are closed, because they lead over the old link.
package struct Connectivity: Sendable {
    package enum Event: Sendable {
        case links(LinkTable)
        case rules([LinkRule])
        case settings(ReachabilityMachine.Settings)
        case probed(nonce: String, ProbeOutcome)
        case portalSaid(CaptivePortal?, on: String)
        case contacted(HubContact)
        case busy(Bool)
        /// An operator or an app requested a sync.
        case wanted
        /// The answer to ``Effect/resolve``, whatever it was; the addresses themselves go to the link monitor. A literal address is never
        /// resolved again.
        case resolved(isLiteral: Bool)
        case timer
    }

    package enum Effect: Hashable, Sendable {
        case probe(nonce: String, interface: String)
        case askPortal(uri: String, interface: String)
        /// Resolve the hub's name, and pass its addresses to the link monitor.
        case resolve
        case changed(from: Reachability, to: Reachability, ReachabilityCause, HubFault?)
        /// The reachability is unchanged, but the reason is another one.
        case fault(HubFault)
        /// The uplink, its cost or its limits changed.
        case uplink(Uplink?)
        /// No server has answered for the configured time: run the recovery program.
        case recover(LinkRecovery.Run)
        /// Send ``Event/timer`` at that time, or as soon as possible when it has passed. It replaces the earlier request.
        case wake(at: Instant)
    }

    private var watch: LinkWatch
    private var machine: ReachabilityMachine
    private var recovery = LinkRecovery()
    private var isResolving = false
    private var isLiteral = false
    private var resolvedAt: Instant?
    private var resolveAt: Instant?
    private var armedWake: Instant?

    /// Interval between two resolutions of the hub's name while an unmetered link is there, because hubs move. A name without an address is
    /// resolved more often, because the name server may be late.
    private static let resolveInterval: Duration = .seconds(900)
    private static let resolveIntervalWithout: Duration = .seconds(60)
    private static let resolveGap: Duration = .seconds(1)

    package init(
        rules: [LinkRule] = [], settings: ReachabilityMachine.Settings = ReachabilityMachine.Settings(),
        watch: LinkWatch.Settings = LinkWatch.Settings(), random: SeededRandom
    ) {
        self.watch = LinkWatch(rules: rules, settings: watch)
        machine = ReachabilityMachine(settings: settings, random: random)
    }

    // MARK: State

    package var reachability: Reachability { machine.reachability }
    package var allowsAttempts: Bool { machine.allowsAttempts }
    package var uplink: Uplink? { watch.uplink }
    package var links: [JudgedLink] { watch.survey.links }
    package var hints: LinkHints { watch.hints }
    package var portalURL: String? { machine.portalURL }
    package var lastRoundTrip: Duration? { machine.lastRoundTrip }

    /// Progress of a link for status (PROTOCOL E1): a word of ``LinkState``, or for the uplink, once a server has answered there,
    /// `reachable`, `portal` or `limited`.
    package func state(of link: JudgedLink) -> String {
        guard link.state == .routed, link.name == watch.uplink?.name else { return link.state.rawValue }
        switch machine.reachability {
        case .offline, .connecting: return link.state.rawValue
        case .captive: return "portal"
        case .degraded: return "limited"
        case .auth, .online: return "reachable"
        }
    }

    // MARK: Events

    package mutating func handle(_ event: Event, now: Instant) -> [Effect] {
        var effects: [Effect] = []
        switch event {
        case .links(let table):
            let before = watch.table
            apply(watch.see(table, now: now), now: now, &effects)
            // Addresses, routes or name servers may have changed. Our own lookups change only the routes.
            if before.links != table.links || resolvedAt == nil { wantAddresses(now: now, &effects) }
        case .rules(let rules): apply(watch.follow(rules, now: now), now: now, &effects)
        case .settings(let settings): machine.settings = settings
        case .probed(let nonce, let outcome): apply(machine.probed(nonce, outcome, now: now), now: now, &effects)
        case .portalSaid(let portal, let interface):
            let isScarce = portal.map { !$0.isCaptive && $0.isScarce } ?? false
            apply(watch.portal(of: interface, isScarce: isScarce, now: now), now: now, &effects)
            apply(machine.portalSaid(portal, on: interface, now: now), now: now, &effects)
        case .contacted(let contact): apply(machine.contacted(contact, now: now), now: now, &effects)
        case .busy(let isBusy): machine.isBusy = isBusy
        case .wanted: machine.wanted(now: now)
        case .resolved(let isLiteral): (isResolving, self.isLiteral, resolvedAt, resolveAt) = (false, isLiteral, now, nil)
        case .timer: armedWake = nil
        }
        pass(now: now, &effects)
        return effects
    }

    /// Applies a hint from `PUT /v1/links/{name}`.
    ///
    /// - Returns: `nil` when the name cannot be an interface's or too many hints are in force.
    package mutating func hear(_ hint: LinkHint, about name: String, now: Instant) -> [Effect]? {
        var effects: [Effect] = []
        guard let events = watch.hear(hint, about: name, now: now) else { return nil }
        apply(events, now: now, &effects)
        pass(now: now, &effects)
        return effects
    }

    /// Restores the hints that were given before a restart.
    package mutating func restore(_ hints: LinkHints, now: Instant) -> [Effect] {
        var effects: [Effect] = []
        apply(watch.restore(hints, now: now), now: now, &effects)
        pass(now: now, &effects)
        return effects
    }

    // MARK: Links and reachability together

    /// Does all due work, and plans the next wake-up.
    private mutating func pass(now: Instant, _ effects: inout [Effect]) {
        if let due = watch.nextWake, due <= now { apply(watch.tick(now: now), now: now, &effects) }
        if let due = machine.nextWake, due <= now { apply(machine.tick(now: now), now: now, &effects) }
        if let due = resolveAt, due <= now { wantAddresses(now: now, &effects) }
        let runs = recovery.look(
            machine.reachability, watch.rules, links: watch.survey.links.map(\.name), uplink: watch.uplink?.name, now: now)
        effects += runs.map { .recover($0) }
        if resolveAt == nil, !isResolving, !isLiteral, let last = resolvedAt, let uplink = watch.uplink {
            if !watch.table.hasLookedUp {
                resolveAt = last.advanced(by: Self.resolveIntervalWithout)
            } else if !uplink.isMetered {
                resolveAt = last.advanced(by: Self.resolveInterval)
            }
        }
        // A later request replaces an earlier one too: each probe plans a wake-up for the case that its outcome never comes, and an idle
        // agent should not wake up for that.
        guard let wanted = [watch.nextWake, machine.nextWake, recovery.nextWake, resolveAt].compactMap({ $0 }).min(), wanted != armedWake
        else { return }
        armedWake = wanted
        effects.append(.wake(at: wanted))
    }

    private mutating func apply(_ events: [LinkWatch.Event], now: Instant, _ effects: inout [Effect]) {
        for event in events {
            switch event {
            case .up(let uplink):
                effects.append(.uplink(uplink))
                apply(machine.uplinkIs(uplink, portalURI: portalURI, cause: .linkUp, now: now), now: now, &effects)
            case .down(let cause):
                effects.append(.uplink(nil))
                apply(machine.uplinkIs(nil, portalURI: nil, cause: cause, now: now), now: now, &effects)
            case .moved(let uplink, let cause):
                effects.append(.uplink(uplink))
                apply(machine.uplinkIs(uplink, portalURI: portalURI, cause: cause, now: now), now: now, &effects)
            case .repriced(let uplink):
                effects.append(.uplink(uplink))
                machine.uplinkCosts(uplink, portalURI: portalURI, now: now)
            case .blinked: machine.uplinkBlinked()
            }
        }
    }

    private mutating func apply(_ found: [ReachabilityMachine.Effect], now: Instant, _ effects: inout [Effect]) {
        for effect in found {
            switch effect {
            case .probe(let nonce, let interface):
                effects.append(.probe(nonce: nonce, interface: interface))
                // The probe needs the address of the name; if it is not known yet, both are requested now.
                if !watch.table.hasLookedUp { wantAddresses(now: now, &effects) }
            case .askPortal(let uri, let interface): effects.append(.askPortal(uri: uri, interface: interface))
            case .changed(let from, let to, let cause, let fault):
                if from == .online { watch.leftOnline(now: now) }
                effects.append(.changed(from: from, to: to, cause, fault))
            case .fault(let fault): effects.append(.fault(fault))
            }
        }
    }

    private mutating func wantAddresses(now: Instant, _ effects: inout [Effect]) {
        resolveAt = nil
        guard !isResolving, !isLiteral else { return }
        if let last = resolvedAt, last.duration(to: now) < Self.resolveGap {
            resolveAt = last.advanced(by: Self.resolveGap)
            return
        }
        isResolving = true
        effects.append(.resolve)
    }

    private var portalURI: String? {
        watch.uplink.flatMap { watch.survey.link(named: $0.name)?.portalURI }
    }
}
