/// The pull that waits at the hub for news (PROTOCOL G5): whether there may be one, how long it asks to wait, and what was learned from
/// those before.
///
/// It is no part of a cycle. Its answer begins one, with this answer as that of its pull. A hub or a proxy may not know such requests, so
/// each way in which one can end early has its own consequence, and none of them counts as a failure of the hub.
package struct NewsWait: Hashable, Sendable {
    /// A waiting pull.
    struct Running: Hashable, Sendable {
        var call: HubCall
        var streams: [StreamPosition]
        /// Time after which its answer counts as lost.
        var lostAt: Instant
        /// The first bytes of its answer are here. To end it now would fetch them twice.
        var isArriving = false
        /// The hub has answered another call meanwhile, and may have been further than in this answer.
        var isOvertaken = false
    }

    private enum Step: Hashable, Sendable {
        case idle
        /// The store is asked for the cursors.
        case loading
        case waiting(Running)
    }

    /// Shortest wait that is worth a request, seconds: a proxy that ends requests sooner than that is left alone.
    static let secondsMin = 10
    /// Shortest time between the beginnings of two waits. A feed that never stops then costs two requests a second.
    static let spacing: Duration = .milliseconds(500)
    /// A request that ended sooner has not waited: the way to the hub is in doubt, and an ordinary cycle finds out about it. It is longer
    /// than the time in which a connection must be made.
    static let doubtful: Duration = .seconds(12)
    /// Number of requests in a row that ended so, although the hub could be reached in between, after which this way allows no waiting.
    static let doubtsMax = 3
    /// A hub that answers without waiting is not asked again to wait for this time.
    static let refusalTime: Duration = .seconds(3_600)
    /// Number of complete waits after which a shortened wait is doubled: the proxy that shortened it may be gone.
    static let provenAfter = 100

    private var step = Step.idle
    /// The wait that is asked for.
    private(set) var seconds = WaitPreference.secondsMax
    private var doubts = 0
    private var complete = 0
    /// Number of answers in a row that came early and without news.
    private var early = 0
    /// No wait until the next change of the link.
    private(set) var hasGivenUp = false
    private var refusedUntil: Instant?
    private var notBefore: Instant?
    /// A cycle must reach its end first: it shows that nothing is in flight, and that the hub can be reached.
    private var owesCycle = true

    var isLoading: Bool { step == .loading }
    var isWaiting: Bool { running != nil }
    var isArriving: Bool { running?.isArriving ?? false }
    /// The last cycle has reached its end, so nothing is in flight.
    var isProven: Bool { !owesCycle }
    var running: Running? { if case .waiting(let running) = step { running } else { nil } }

    /// Returns whether a wait may begin, as far as earlier ones decide that.
    func isDue(at now: Instant) -> Bool {
        step == .idle && !hasGivenUp && !owesCycle && [refusedUntil, notBefore].allSatisfy { $0.map { $0 <= now } ?? true }
    }

    /// The next time at which this value must be looked at.
    func wakeAt(after now: Instant) -> Instant? {
        switch step {
        case .loading: nil
        case .waiting(let running): running.lostAt
        case .idle: hasGivenUp || owesCycle ? nil : notBefore.flatMap { $0 > now ? $0 : nil }
        }
    }

    // MARK: Its course

    mutating func load() { step = .loading }
    mutating func begin(_ running: Running) { step = .waiting(running) }

    /// The answer begins to arrive. A late word about one that was given up is dropped.
    mutating func answerBegan(_ id: UInt64) {
        guard var running, running.call.id == id else { return }
        running.isArriving = true
        step = .waiting(running)
    }

    /// The hub has answered a call of a cycle.
    mutating func overtake() {
        guard var running else { return }
        running.isOvertaken = true
        step = .waiting(running)
    }

    /// Something must be read first that only an ordinary cycle reads.
    mutating func needCycle() { (step, owesCycle) = (.idle, true) }

    /// - Returns: The wait that has ended; `nil` when there is none with this number.
    mutating func end(_ id: UInt64? = nil) -> Running? {
        guard let running, id.map({ $0 == running.call.id }) ?? true else { return nil }
        step = .idle
        return running
    }

    mutating func cycleBegan() { owesCycle = true }
    mutating func cycleSucceeded() { owesCycle = false }

    // MARK: Facts from answers

    /// The hub has answered.
    ///
    /// - Parameters:
    ///   - isApplied: It knows such requests.
    ///   - pause: Time until the next wait after the first early answer without news, as a hub gives it that stops: it may be back soon.
    ///   - longPause: The same after a further one, because this hub does not let its clients wait.
    mutating func answered(
        isApplied: Bool, hasNews: Bool, after time: Duration, pause: Duration, longPause: Duration, at now: Instant
    ) {
        doubts = 0
        guard isApplied else {
            refusedUntil = now.advanced(by: Self.refusalTime)
            return
        }
        let isComplete = time >= .seconds(Int64(seconds)) / 2
        early = hasNews || isComplete ? 0 : early + 1
        notBefore = now.advanced(by: early == 0 ? max(.zero, Self.spacing - time) : early == 1 ? pause : longPause)
        guard isComplete, !hasNews else { return }
        complete += 1
        if complete >= Self.provenAfter { (complete, seconds) = (0, min(WaitPreference.secondsMax, 2 * seconds)) }
    }

    /// The request ended without an answer of the hub.
    ///
    /// - Parameter pause: Time until the next attempt.
    /// - Returns: `true` when an ordinary cycle must find out about the way to the hub.
    mutating func cut(after time: Duration, pause: Duration, at now: Instant) -> Bool {
        complete = 0
        seconds = max(Self.secondsMin, seconds / 2)
        notBefore = now.advanced(by: pause)
        guard time < Self.doubtful else { return false }
        doubts += 1
        if doubts >= Self.doubtsMax { hasGivenUp = true }
        owesCycle = true
        return true
    }

    /// The request was ended here.
    mutating func interrupted(at now: Instant) { notBefore = now.advanced(by: Self.doubtful) }

    /// The hub refused the request: an ordinary cycle hears the same, and acts on it.
    mutating func refused() { owesCycle = true }

    /// Another link may have other proxies.
    mutating func linkIsNew() { self = NewsWait(after: refusedUntil) }

    /// Another hub may know such requests.
    mutating func serverIsNew() { self = NewsWait(after: nil) }

    init() {}

    private init(after refusal: Instant?) { refusedUntil = refusal }
}
