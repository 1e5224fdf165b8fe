/// Stops requests to a hub that has failed for a long time (PROTOCOL G3).
///
/// It opens at a failure that is at least the eighth in a row and comes 540 s or more after the first. Then only a small probe
/// goes, every 150 to 300 s (600 to 900 s on a metered link). A good probe makes it half open: one push of a few
/// mutations, the most urgent first. When the hub takes that, it is closed. In an outage of an hour this saves two thirds of the requests,
/// and a third of the peak when the hub is back; it costs about a minute and a half of recovery.
///
/// Only silence and the server's own failures (5xx) count. A refusal of credentials or of a request (4xx) comes from a hub that works, and
/// ends the count as a good answer does.
package struct Breaker: Hashable, Sendable {
    package enum State: String, Hashable, Sendable, CaseIterable {
        case closed, open
        case halfOpen = "half_open"
    }

    package struct Settings: Hashable, Sendable {
        /// Ten minutes minus the longest delay between two attempts: the attempt after a failure at that time would come when they are
        /// over.
        package var opensAfter: Duration = .seconds(540)
        /// One failure, a night of suspend and another failure are no outage.
        package var failuresMin = 8
        package var probeInterval: ClosedRange<Duration> = .seconds(150) ... .seconds(300)
        package var meteredProbeInterval: ClosedRange<Duration> = .seconds(600) ... .seconds(900)
        /// Number of mutations in the push that decides.
        package var trialMutations = 5
    }

    package var settings: Settings
    package private(set) var state = State.closed
    /// Time of the next probe. Invariant: set if and only if the breaker is open.
    package private(set) var probeAt: Instant?
    /// Time of the first of the uninterrupted failures; `failures` is their number.
    private var failingSince: Instant?
    private var failures = 0

    package init(settings: Settings = Settings()) {
        self.settings = settings
    }

    /// Opens a breaker that was open when the agent ended. The outage may be over by now, so the first probe comes with the first contact.
    package mutating func reopen(probeAt: Instant) {
        state = .open
        self.probeAt = probeAt
    }

    /// Records a failed request or probe.
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

    /// Records a good probe. One push decides now.
    package mutating func probed() {
        guard state == .open else { return }
        state = .halfOpen
        probeAt = nil
    }

    /// Records an answer of the hub, good or bad. While half open, only a successful push or pull counts.
    package mutating func answered() {
        guard state == .closed else { return }
        close()
    }

    /// Closes the breaker: the trial was successful, or the failures belonged to the old link.
    package mutating func close() {
        state = .closed
        (probeAt, failingSince, failures) = (nil, nil, 0)
    }

    /// Plans a probe at once, because a sync was requested.
    package mutating func probeSoon(at now: Instant) {
        guard let planned = probeAt else { return }
        probeAt = min(planned, now)
    }
}
