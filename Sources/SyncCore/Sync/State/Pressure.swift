/// Everything that delays the next attempt: the schedule and its backoff, the breaker with its probe, and the hub's rate limit.
package struct Pressure: Hashable, Sendable {
    /// Time without an answer after which a probe has failed.
    static let probePatience: Duration = .seconds(60)

    private(set) var timer: CycleTimer
    private(set) var breaker: Breaker
    /// The running probe.
    private var probe: Probe?
    /// Wall time of the next possible attempt, for status.
    private(set) var retryAt: Timestamp?
    /// The origin of the last failure.
    private(set) var failureCause = FailureCause.none
    /// The hub has few requests left for us. No further batch is sent before this, and with none left no request at all.
    private var quietUntil: Instant?
    private(set) var hasNoRequestsLeft = false

    private struct Probe: Hashable, Sendable {
        var id: UInt64
        var sent: Instant
    }

    init(_ settings: SyncEngine.Settings) {
        timer = CycleTimer(settings: settings.timer)
        breaker = Breaker(settings: settings.breaker)
    }

    mutating func apply(_ settings: SyncEngine.Settings) {
        timer.settings = settings.timer
        breaker.settings = settings.breaker
    }

    // MARK: Schedule

    mutating func trigger(_ trigger: CycleTimer.Trigger, at now: Instant) {
        timer.trigger(trigger, now: now)
    }

    mutating func workIsDue(at instant: Instant?) {
        timer.workIsDue(at: instant)
    }

    mutating func cycleBegan(_ scope: SyncRequest.Scope, under allowed: Allowance, pulls: Bool, at now: Instant) {
        timer.began(scope, under: allowed, pulls: pulls, now: now)
        (quietUntil, hasNoRequestsLeft) = (nil, false)
        retryAt = nil
    }

    /// Backoff, the server or the first contact holds ordinary work back.
    func isHeld(at now: Instant) -> Bool {
        [timer.heldUntil, timer.spreadUntil].contains { $0.map { $0 > now } ?? false }
    }

    // MARK: Rate limit

    /// The hub has few requests left for us.
    var isQuiet: Bool { quietUntil != nil }

    /// The earliest time at which the hub takes the next request.
    func nextRequestAt(_ now: Instant) -> Instant { max(now, quietUntil ?? now) }

    mutating func recordRate(_ facts: HubHeaders, at now: Instant) {
        quietUntil = facts.rateLimit?.pause.map { now.advanced(by: $0) }
        hasNoRequestsLeft = quietUntil != nil && facts.rateLimit?.remaining == 0
    }

    // MARK: Delays

    /// Shows a delay of the timer as wall time.
    mutating func showHold(at moment: Moment) {
        retryAt = timer.heldUntil.flatMap { held in
            held > moment.instant ? moment.wall.advanced(by: moment.instant.duration(to: held)) : nil
        }
    }

    /// Holds everything back as the server asked before the restart.
    mutating func hold(until notBefore: Instant, at moment: Moment) {
        timer.holdBack(retryAt: nil, notBefore: notBefore)
        showHold(at: moment)
    }

    mutating func recordSuccess(at moment: Moment) {
        failureCause = .none
        timer.holdBack(retryAt: nil, notBefore: hasNoRequestsLeft ? quietUntil : nil)
        showHold(at: moment)
    }

    /// - Parameter isAskedByServer: The server itself asked for the delay.
    mutating func recordFailure(_ cause: FailureCause, until: Instant, isAskedByServer: Bool, at moment: Moment) {
        failureCause = cause
        // A forced request does not override refused credentials (PROTOCOL B6); new credentials do.
        timer.holdBack(
            retryAt: until, notBefore: isAskedByServer || cause == .credentials ? until : nil, failedAt: moment.instant)
        showHold(at: moment)
        timer.trigger(.again(at: until), now: moment.instant)
    }

    /// Ends backoff; a delay that the hub asked for still holds.
    mutating func endBackoff(at moment: Moment) {
        timer.holdBack(retryAt: nil, notBefore: timer.notBefore)
        showHold(at: moment)
    }

    /// The delays of another server do not apply.
    mutating func endDelays() {
        timer.holdBack(retryAt: nil, notBefore: nil)
    }

    /// Allows an attempt because the cause of the failure was changed.
    ///
    /// - Parameter keepsServersDelay: The server itself asked for a delay, which still holds.
    mutating func tryAgain(keepsServersDelay: Bool, at moment: Moment) {
        failureCause = .none
        timer.holdBack(retryAt: nil, notBefore: keepsServersDelay ? timer.notBefore : nil)
        timer.trigger(.again(at: moment.instant), now: moment.instant)
        showHold(at: moment)
    }

    // MARK: Breaker

    mutating func reopenBreaker(probeAt: Instant) {
        breaker.reopen(probeAt: probeAt)
    }

    mutating func breakerFailed(at now: Instant, isMetered: Bool, using random: inout SeededRandom) -> SyncReport? {
        let before = breaker.state
        breaker.failed(at: now, isMetered: isMetered, using: &random)
        return report(since: before)
    }

    mutating func closeBreaker() -> SyncReport? {
        let before = breaker.state
        breaker.close()
        return report(since: before)
    }

    mutating func hubAnswered() {
        breaker.answered()
    }

    private func report(since before: Breaker.State) -> SyncReport? {
        breaker.state == before ? nil : .breaker(from: before, to: breaker.state)
    }

    // MARK: Probes

    /// Time of the next probe; `nil` while none is needed. A delay that the hub asked for holds for probes as well.
    var probeAt: Instant? {
        breaker.probeAt.map { max($0, timer.notBefore ?? $0) }
    }

    /// Time at which the running probe has failed.
    var probeEndsAt: Instant? {
        probe?.sent.advanced(by: Self.probePatience)
    }

    /// Plans a probe at once, because a sync was forced.
    mutating func probeSoon(at now: Instant) {
        breaker.probeSoon(at: now)
    }

    mutating func beginProbe(_ id: UInt64, at now: Instant) {
        probe = Probe(id: id, sent: now)
    }

    mutating func giveUpProbe() {
        probe = nil
    }

    /// - Returns: `false` when the probe is not the running one, or decides nothing any more.
    mutating func endProbe(_ id: UInt64) -> Bool {
        guard probe?.id == id else { return false }
        probe = nil
        return breaker.state == .open
    }

    /// A good probe: one push decides now. The probes were spread already.
    mutating func recordGoodProbe(at moment: Moment) -> SyncReport? {
        let before = breaker.state
        breaker.probed()
        endBackoff(at: moment)
        timer.trigger(.again(at: moment.instant), now: moment.instant)
        return report(since: before)
    }
}
