/// Decides the reachability from the uplink, from probes, and from every answer to a sync request (PROTOCOL E1, E4).
///
/// | from | to | when |
/// |---|---|---|
/// | any | offline | the uplink is gone |
/// | offline, or another uplink | connecting | an uplink is there |
/// | any with an uplink | online | a good probe, or an answer of the hub's own |
/// | any with an uplink | auth | the hub refuses us; a good probe does not end that, an answer does |
/// | any with an uplink | captive | another server answers |
/// | connecting, captive | degraded | three failures in a row |
/// | online, auth | degraded | two failures at least 1 s apart, or one after the link blinked, and a probe after them fails as well |
///
/// Probes cost as little as possible: any answer of the hub counts as one, none is sent while a sync is running, and an idle metered link
/// gets none at all. While the hub is silent they are sent after 1, 2, 4 … 60 s, then every 150 to 300 s, on a metered link every 600 to
/// 900 s. They are spread because a fleet notices an outage in the same second (PROTOCOL G3). A portal is checked after 30 s, and then less
/// and less often, down to every 5 minutes.
///
/// A hub need not offer the probe. Until one was good over the present uplink, failed probes prove nothing against a hub that answers
/// requests, and ``allowsAttempts`` lets requests try although probes fail.
package struct ReachabilityMachine: Sendable {
    package struct Settings: Hashable, Sendable {
        /// There is a probe.
        package var hasProbe = true
        /// Interval between probes while online, idle and unmetered.
        package var idleInterval: Duration = .seconds(300)
        /// Largest random delay of the first probe, because a link comes back for many devices of a place at once. It is short enough to
        /// show the true state within a second, including the TLS handshake over a slow link.
        package var connectJitter: Duration = .milliseconds(500)
        package var silentInterval: Duration = .seconds(300)
        package var silentIntervalMetered: Duration = .seconds(900)
        package var failuresUntilDegraded = 3

        package init() {}
    }

    package enum Effect: Hashable, Sendable {
        /// Send a probe through this interface and return its outcome with the nonce.
        case probe(nonce: String, interface: String)
        /// Ask the network's own API at this address (RFC 8910), if it is one.
        case askPortal(uri: String, interface: String)
        case changed(from: Reachability, to: Reachability, ReachabilityCause, HubFault?)
        /// The reachability is unchanged, but the reason is another one.
        case fault(HubFault)
    }

    package var settings: Settings
    private var random: SeededRandom
    package private(set) var reachability = Reachability.offline
    /// The fault of the last failure, which explains the present reachability.
    private var fault: HubFault?
    private var uplink: Uplink?
    /// Address of the API of the uplink's network.
    private var portalURI: String?
    /// Address of the portal's page. It comes from outside, so it must be shown with care.
    package private(set) var portalURL: String?
    package private(set) var lastRoundTrip: Duration?
    /// A sync is running.
    package var isBusy = false

    /// Number of failures in a row while connecting, degraded or captive.
    private var failures = 0
    /// Number of probes in a row without an answer; it determines their interval.
    private var silentProbes = 0
    /// Number of portals since the hub last answered a request: a good probe does not reset the delays.
    private var portalsMet = 0
    /// Time of the first of the failures in a row while online.
    private var firstFailureAt: Instant?
    private var hasBlinked = false
    /// The hub refuses this device, until it answers.
    private var isRefused = false
    /// A probe was good over this uplink. `isProbeAbsent`: there is none over this uplink.
    private var isProbeProven = false
    private var isProbeAbsent = false

    private var underWay: Probe?
    private var probeAt: Instant?
    private var nextProbeConfirms = false

    private struct Probe: Hashable, Sendable {
        let nonce: String
        /// Time from which its answer counts as lost, whatever the shell does.
        let lostAt: Instant
        /// Its failure alone is sufficient.
        var isConfirming: Bool
        /// A newer fact is known. Only a good outcome still counts, because it proves that there is a probe.
        var isOvertaken = false
    }

    package init(settings: Settings = Settings(), random: SeededRandom) {
        self.settings = settings
        self.random = random
    }

    // MARK: Events

    /// The uplink appeared, disappeared, or is another interface.
    package mutating func uplinkIs(
        _ next: Uplink?, portalURI: String?, cause: LinkCause, now: Instant
    ) -> [Effect] {
        var effects: [Effect] = []
        uplink = next
        self.portalURI = next == nil ? nil : portalURI
        (failures, silentProbes, portalsMet) = (0, 0, 0)
        (firstFailureAt, hasBlinked, portalURL, lastRoundTrip) = (nil, false, nil, nil)
        (isProbeProven, isProbeAbsent, underWay, probeAt, nextProbeConfirms) = (false, false, nil, nil, false)
        guard let next else {
            become(.offline, .link(cause), nil, &effects)
            return effects
        }
        become(.connecting, .link(cause), nil, &effects)
        probeAt = settings.hasProbe ? now.advanced(by: random.duration(from: .zero, to: settings.connectJitter)) : nil
        // The question is only whether the session is nearly used up; it is not worth a TLS handshake on a metered link.
        if let portalURI, !next.isMetered { effects.append(.askPortal(uri: portalURI, interface: next.name)) }
        return effects
    }

    /// The cost of the same uplink, or its lease, has changed.
    package mutating func uplinkCosts(_ next: Uplink, portalURI: String?, now: Instant) {
        guard uplink != nil else { return }
        let wasMetered = uplink?.isMetered
        uplink = next
        self.portalURI = portalURI
        if wasMetered != next.isMetered, reachability == .online, underWay == nil { planIdleProbe(now: now) }
    }

    /// The uplink was gone for too short a time to count.
    package mutating func uplinkBlinked() {
        hasBlinked = true
    }

    package mutating func probed(_ nonce: String, _ outcome: ProbeOutcome, now: Instant) -> [Effect] {
        var effects: [Effect] = []
        // A late answer over an earlier uplink.
        guard let probe = underWay, probe.nonce == nonce else { return [] }
        underWay = nil
        if probe.isOvertaken {
            if case .good = outcome { isProbeProven = true }
            return []
        }
        switch outcome {
        case .good(let roundTrip):
            isProbeProven = true
            lastRoundTrip = roundTrip
            reached(isRefused ? .auth : .online, .probeGood, nil, now: now, &effects)
        case .captive(let fault, let portal):
            metPortal(fault, portal, now: now, &effects)
        case .absent(let fault):
            isProbeAbsent = true
            probeAt = nil
            if reachability == .captive { become(.connecting, .portalWaited, fault, &effects) }
        case .silent(let fault):
            // The hub answers requests here and no probe ever was good: there is no probe, so its failure means nothing.
            if !isProbeProven, reachability == .online || reachability == .auth {
                isProbeAbsent = true
                probeAt = nil
            } else {
                failed(fault, of: probe.isConfirming ? .confirmingProbe : .probe, now: now, &effects)
            }
        }
        return effects
    }

    /// Records the result of a sync request for the way to the hub.
    package mutating func contacted(_ contact: HubContact, now: Instant) -> [Effect] {
        var effects: [Effect] = []
        // A late answer over a link that is gone.
        guard uplink != nil else { return [] }
        switch contact {
        case .answered:
            (isRefused, portalsMet) = (false, 0)
            reached(.online, .hubAnswered, nil, now: now, &effects)
        case .refused(let fault):
            (isRefused, portalsMet) = (true, 0)
            reached(.auth, .refused, fault, now: now, &effects)
        case .foreign(let fault): metPortal(fault, nil, now: now, &effects)
        case .silent(let fault): failed(fault, of: .request, now: now, &effects)
        case .untrusted(let fault):
            failed(fault, of: .request, now: now, &effects)
            // A portal may intercept TLS; plain HTTP will show it.
            if canProbe { probeAt = now }
        }
        return effects
    }

    /// Records the answer of the network's own API; `nil` when it could not be used.
    package mutating func portalSaid(_ portal: CaptivePortal?, on interface: String, now: Instant) -> [Effect] {
        var effects: [Effect] = []
        guard let portal, uplink?.name == interface else { return [] }
        if portal.isCaptive {
            let url = portal.userPortalURL ?? portalURL
            if reachability == .captive {
                portalURL = url
            } else {
                metPortal(HubFault(.portal, "the network says that it wants a login"), url, asks: false, now: now, &effects)
            }
        } else if reachability == .captive, canProbe {
            probeAt = now
        }
        return effects
    }

    /// A sync was requested: whether the hub works again is worth a probe now.
    package mutating func wanted(now: Instant) {
        guard uplink != nil, canProbe, underWay == nil, !allowsAttempts else { return }
        probeAt = now
    }

    /// Applies the passage of time.
    package mutating func tick(now: Instant) -> [Effect] {
        var effects: [Effect] = []
        if let probe = underWay, probe.lostAt <= now {
            effects += probed(probe.nonce, .silent(HubFault(.timedOut, "the probe brought no outcome")), now: now)
        }
        guard let due = probeAt, due <= now, underWay == nil, let uplink else { return effects }
        probeAt = nil
        guard canProbe else {
            if reachability == .captive { become(.connecting, .portalWaited, nil, &effects) }
            return effects
        }
        if reachability == .online, isBusy, !nextProbeConfirms {
            planIdleProbe(now: now)
            return effects
        }
        let nonce = makeNonce()
        underWay = Probe(nonce: nonce, lostAt: now.advanced(by: Self.probeLost), isConfirming: nextProbeConfirms)
        nextProbeConfirms = false
        effects.append(.probe(nonce: nonce, interface: uplink.name))
        return effects
    }

    package var nextWake: Instant? { underWay?.lostAt ?? probeAt }

    /// `true` when a sync request may be sent. It is `false` at a portal, and while probes that were good before show that the hub is away.
    /// The engine's own delays (`auth`, backoff) count besides.
    package var allowsAttempts: Bool {
        switch reachability {
        case .offline, .captive: false
        case .connecting, .auth, .online: true
        case .degraded: !(canProbe && isProbeProven)
        }
    }

    // MARK: Decisions

    private mutating func reached(
        _ next: Reachability, _ cause: ReachabilityCause, _ fault: HubFault?, now: Instant, _ effects: inout [Effect]
    ) {
        (failures, silentProbes, firstFailureAt, hasBlinked) = (0, 0, nil, false)
        (nextProbeConfirms, portalURL) = (false, nil)
        underWay?.isOvertaken = true
        planIdleProbe(now: now)
        become(next, cause, fault, &effects)
    }

    private mutating func metPortal(
        _ fault: HubFault, _ portal: String?, asks: Bool = true, now: Instant, _ effects: inout [Effect]
    ) {
        (failures, silentProbes, firstFailureAt, nextProbeConfirms) = (0, 0, nil, false)
        underWay?.isOvertaken = true
        portalsMet += 1
        portalURL = portal ?? portalURL
        let wait = min(.seconds(300), .seconds(30) * (1 << min(portalsMet - 1, 4)))
        probeAt = now.advanced(by: random.duration(from: wait * 3 / 4, to: wait))
        become(.captive, .portal, fault, &effects)
        if asks, let portalURI, let uplink { effects.append(.askPortal(uri: portalURI, interface: uplink.name)) }
    }

    /// What was sent and got no answer.
    private enum Attempt {
        /// The probe that follows two failures.
        case confirmingProbe
        case probe
        /// A sync request.
        case request
    }

    private mutating func failed(_ fault: HubFault, of attempt: Attempt, now: Instant, _ effects: inout [Effect]) {
        switch reachability {
        case .offline: break
        case .connecting, .degraded, .captive:
            failures += 1
            if attempt != .request {
                silentProbes += 1
                planProbeAfterSilence(now: now)
            }
            if reachability == .degraded || failures >= settings.failuresUntilDegraded {
                become(.degraded, .silent, fault, &effects)
            }
        case .online, .auth:
            let first = firstFailureAt ?? now
            firstFailureAt = first
            let isSuspect = hasBlinked || first.duration(to: now) >= .seconds(1)
            if attempt == .confirmingProbe || (isSuspect && (attempt == .probe || !canProbe)) {
                (failures, silentProbes, firstFailureAt) = (0, 1, nil)
                nextProbeConfirms = false
                planProbeAfterSilence(now: now)
                become(.degraded, .silent, fault, &effects)
            } else if isSuspect, let probe = underWay, !probe.isOvertaken {
                underWay?.isConfirming = true
            } else if isSuspect {
                (probeAt, nextProbeConfirms) = (now, true)
            } else if attempt == .probe {
                (probeAt, nextProbeConfirms) = (now.advanced(by: .seconds(1)), true)
            }
        }
    }

    private mutating func planIdleProbe(now: Instant) {
        let isWanted = canProbe && uplink?.isMetered == false
        probeAt = isWanted ? now.advanced(by: settings.idleInterval) : nil
    }

    private mutating func planProbeAfterSilence(now: Instant) {
        guard canProbe else { return probeAt = nil }
        let ceiling = Backoff().ceiling(afterFailures: silentProbes)
        guard silentProbes > Self.quickProbes else { return probeAt = now.advanced(by: ceiling) }
        let isMetered = uplink?.isMetered ?? true
        let longest = isMetered ? settings.silentIntervalMetered : settings.silentInterval
        let wait = random.duration(from: isMetered ? longest * 2 / 3 : longest / 2, to: longest)
        probeAt = now.advanced(by: wait)
    }

    private mutating func become(
        _ next: Reachability, _ cause: ReachabilityCause, _ fault: HubFault?, _ effects: inout [Effect]
    ) {
        defer { self.fault = fault }
        guard next != reachability else {
            if next != .online, let fault, fault != self.fault { effects.append(.fault(fault)) }
            return
        }
        let before = reachability
        reachability = next
        effects.append(.changed(from: before, to: next, cause, fault))
    }

    private var canProbe: Bool { settings.hasProbe && !isProbeAbsent }

    private mutating func makeNonce() -> String {
        let alphabet = Array("0123456789abcdefghijklmnopqrstuvwxyz")
        return String((0..<8).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &random)] })
    }

    /// Number of the first delays: 1, 2, 4, 8, 16, 32, 60 s.
    private static let quickProbes = 7
    /// Time after which a probe counts as lost; longer than all of its own deadlines, name resolution included.
    private static let probeLost: Duration = .seconds(30)
}
