/// Stops asking a hub that has failed for a long time (PROTOCOL G3).
///
/// It opens at a failure that is at least the eighth in a row and comes 540 s or more after the first. Then only a small probe
/// goes, every 150 to 300 s (600 to 900 s on a metered link). A good probe makes it half open: one push of a few mutations, the most urgent first.
/// When the hub takes that, it is closed. In an outage of an hour this saves two thirds of the requests, and a third of
/// the peak when the hub is back; it costs about a minute and a half of recovery.
///
/// Only silence and the server's own failures (5xx) count. A refusal of our credentials or of a request (4xx) comes from a
/// hub that is alive, and ends the count as a good answer does.
package struct Breaker: Hashable, Sendable {
    package enum State: String, Hashable, Sendable, CaseIterable {
        case closed, open
        case halfOpen = "half_open"
    }

    package struct Settings: Hashable, Sendable {
        /// Ten minutes less the longest wait between two attempts: whoever fails then would ask next when they are over.
        package var opensAfter: Duration = .seconds(540)
        /// One failure, a night of suspend and another one are no outage.
        package var failuresMin = 8
        package var probeInterval: ClosedRange<Duration> = .seconds(150) ... .seconds(300)
        package var meteredProbeInterval: ClosedRange<Duration> = .seconds(600) ... .seconds(900)
        /// Mutations of the push that decides.
        package var trialMutations = 5

        package init() {}
    }

    package var settings: Settings
    package private(set) var state = State.closed
    /// When the next probe is due. Invariant: set if and only if it is open.
    package private(set) var probeAt: Instant?
    /// The first of the failures that nothing has interrupted, and how many there were.
    private var failingSince: Instant?
    private var failures = 0

    package init(settings: Settings = Settings()) {
        self.settings = settings
    }

    /// It was open when the agent ended. The outage may be over by now, so the first probe comes with the first contact.
    package mutating func reopen(probeAt: Instant) {
        state = .open
        self.probeAt = probeAt
    }

    /// A request failed, or a probe.
    package mutating func failed(at now: Instant, isMetered: Bool, using random: inout SeededRandom) {
        failingSince = failingSince ?? now
        failures += 1
        switch state {
        case .closed:
            guard failures >= settings.failuresMin, let since = failingSince, since.duration(to: now) >= settings.opensAfter
            else { return }
        case .open, .halfOpen: break
        }
        let interval = isMetered ? settings.meteredProbeInterval : settings.probeInterval
        state = .open
        probeAt = now.advanced(by: random.duration(from: interval.lowerBound, to: interval.upperBound))
    }

    /// The probe came back. One push decides now.
    package mutating func probed() {
        guard state == .open else { return }
        state = .halfOpen
        probeAt = nil
    }

    /// The hub answered, good or bad. While it is half open only a push or a pull that went through counts.
    package mutating func answered() {
        guard state == .closed else { return }
        close()
    }

    /// The trial went through, or what failed was the old link.
    package mutating func close() {
        state = .closed
        (probeAt, failingSince, failures) = (nil, nil, 0)
    }

    /// Somebody wants to know now.
    package mutating func probeSoon(at now: Instant) {
        guard let planned = probeAt else { return }
        probeAt = min(planned, now)
    }
}
