/// Decides when the next sync cycle is due. It holds several requests for a cycle, each with its own delay, and two times before which none
/// of them may start.
///
/// A request is never lost: it stays until a cycle that serves it begins. Requests that come during a cycle wait for the next. A cycle that
/// only pulls does not serve waiting pushes, nor the other way round. A request that the policy does not allow is neither due nor served.
package struct CycleTimer: Hashable, Sendable {
    package struct Settings: Hashable, Sendable {
        package var debounce: Duration = .seconds(2)
        package var debounceMax: Duration = .seconds(10)
        package var criticalDelay: Duration = .milliseconds(200)
        package var bulkDelay: Duration = .seconds(60)
        /// Position of this device's periodic pulls within their interval (``phase(of:)``); `nil`: one interval after the last pull.
        package var phase: UInt64?
    }

    package enum Trigger: Hashable, Sendable {
        case enqueued(Priority)
        /// Periodic pull: the interval begins now, unless it is running already.
        case pullDue
        /// Any whole cycle, because work was left when the cycle's time was up, an attempt failed, or conditions changed.
        case again(at: Instant)
        /// First contact after a start or a gap. The caller drew the moment. Only critical work and requests go before it, however long
        /// other work has been due: a fleet must not come back all at once.
        case spread(until: Instant)
        /// A mutation may be tried again from then on; an earlier cycle does not serve it.
        case due(at: Instant)
        /// An operator or an app requested it. Backoff delays it for ``requestPatience`` at most, and not at all if it is forced.
        case requested(isForced: Bool)
    }

    package var settings: Settings
    /// Work of each urgency has waited since `first`; the newest arrived at `last`.
    private var criticalAt: Instant?
    private var normalFirst: Instant?
    private var normalLast: Instant?
    private var bulkFirst: Instant?
    private var pullSince: Instant?
    private var againAt: Instant?
    private var workAt: Instant?
    private var requestedAt: Instant?
    private var forcedAt: Instant?
    package private(set) var spreadUntil: Instant?
    /// No attempt before this, unless one is requested (backoff).
    package private(set) var retryAt: Instant?
    /// Time from which a request is served although ``retryAt`` is still to come.
    private var requestsAt: Instant?
    /// No attempt at all before this (the server's `Retry-After`).
    package private(set) var notBefore: Instant?

    package init(settings: Settings = Settings()) {
        self.settings = settings
    }

    package mutating func trigger(_ trigger: Trigger, now: Instant) {
        switch trigger {
        case .enqueued(.critical): criticalAt = criticalAt ?? now.advanced(by: settings.criticalDelay)
        case .enqueued(.normal):
            normalFirst = normalFirst ?? now
            normalLast = now
        case .enqueued(.bulk): bulkFirst = bulkFirst ?? now
        case .pullDue: pullSince = pullSince ?? now
        case .again(let at): againAt = min(againAt ?? at, at)
        case .spread(let until): spreadUntil = until
        case .due(let at): workAt = min(workAt ?? at, at)
        case .requested(let isForced): if isForced { forcedAt = now } else { requestedAt = now }
        }
    }

    /// Sets the store's next moment at which a mutation may be tried again, `nil` when none waits for one.
    package mutating func workIsDue(at moment: Instant?) {
        workAt = moment
    }

    /// A cycle begins and serves every request within its scope and the allowance.
    package mutating func began(
        _ scope: SyncRequest.Scope = .all, under allowed: Allowance, pulls: Bool, now: Instant
    ) {
        (requestedAt, forcedAt, retryAt, requestsAt, spreadUntil) = (nil, nil, nil, nil, nil)
        if scope != .pull {
            if allowed.allows(.critical) { criticalAt = nil }
            if allowed.allows(.normal) { (normalFirst, normalLast) = (nil, nil) }
            if allowed.allows(.bulk) { bulkFirst = nil }
            if allowed.push != nil, let at = workAt, at <= now { workAt = nil }
        }
        if scope != .push, pulls { pullSince = nil }
        if scope == .all || scope == .full { againAt = nil }
    }

    /// Longest time that backoff delays a requested cycle. A request has a reason: a cable was plugged in, or a server was repaired. An app
    /// that asks all the time during an outage still makes no more than one attempt in this time.
    package static let requestPatience: Duration = .seconds(10)

    /// - Parameter failedAt: Time of the failed attempt that ``retryAt`` follows from; `nil`: requests wait for `retryAt` like everything
    ///   else.
    package mutating func holdBack(retryAt: Instant?, notBefore: Instant?, failedAt: Instant? = nil) {
        self.retryAt = retryAt
        self.notBefore = notBefore
        requestsAt = failedAt.map { $0.advanced(by: Self.requestPatience) }
    }

    /// The moment at which a cycle is due; `nil` when no allowed cycle is wanted.
    ///
    /// - Parameters:
    ///   - forced: The allowance of a cycle that an operator forces.
    ///   - pulls: `false` while a pull waits at the hub: no periodic one is due then.
    package func dueAt(_ allowed: Allowance, forced: Allowance, pulls: Bool = true) -> Instant? {
        var ordinary: [Instant] = []
        if allowed.allows(.normal), let first = normalFirst, let last = normalLast {
            ordinary.append(min(last.advanced(by: settings.debounce), first.advanced(by: settings.debounceMax)))
        }
        if allowed.allows(.bulk), let first = bulkFirst { ordinary.append(first.advanced(by: settings.bulkDelay)) }
        if pulls, let terms = allowed.pull, let at = pullAt(terms.interval) { ordinary.append(at) }
        if allowed.push != nil, let workAt { ordinary.append(workAt) }
        if !allowed.isNothing, let againAt { ordinary.append(againAt) }
        var due = ordinary.min()
        if let earliest = due, let spreadUntil { due = max(earliest, spreadUntil) }
        if allowed.allows(.critical), let criticalAt { due = min(due ?? criticalAt, criticalAt) }
        if let held = due, let retryAt { due = max(held, retryAt) }
        if !allowed.isNothing, let requestedAt {
            let asked = retryAt.map { max(requestedAt, min($0, requestsAt ?? $0)) } ?? requestedAt
            due = min(due ?? asked, asked)
        }
        if !forced.isNothing, let forcedAt { due = min(due ?? forcedAt, forcedAt) }
        if let earliest = due, let notBefore { due = max(earliest, notBefore) }
        return due
    }

    /// Time until which backoff or the server holds everything back.
    package var heldUntil: Instant? { [retryAt, notBefore].compactMap { $0 }.max() }

    // MARK: Periodic pulls

    /// Time of the next periodic pull; `nil` while none is planned.
    ///
    /// With a phase, pulls are made at the device's own position in the interval, whatever other cycles began in between: at the first such
    /// position that is at least half an interval away.
    package func pullAt(_ interval: Duration) -> Instant? {
        guard let pullSince else { return nil }
        let step = interval.nanoseconds
        guard let phase = settings.phase, step > 1 else { return pullSince.advanced(by: interval) }
        let earliest = pullSince.nanoseconds.saturatingAdd(step / 2)
        let place = Int64(phase % UInt64(step))
        let behind = (earliest % step + step) % step
        return Instant(nanoseconds: earliest.saturatingAdd((place - behind + step) % step))
    }

    /// A value that is constant for a device and evenly spread over a fleet (PROTOCOL G4).
    package static func phase(of device: DeviceID) -> UInt64 {
        SHA256.hash(Array(device.text.utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
