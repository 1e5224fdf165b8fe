/// When the next sync cycle is due: a handful of wishes, each with its own delay, and two things that hold all of them back.
///
/// A wish is never lost: it stays until a cycle that serves it begins. Wishes that come during a cycle wait for the next. A
/// cycle that only pulls does not serve what waits to be pushed, nor the other way round; and what the policy does not allow
/// is neither due nor served.
package struct CycleTimer: Hashable, Sendable {
    package struct Settings: Hashable, Sendable {
        package var debounce: Duration = .seconds(2)
        package var debounceMax: Duration = .seconds(10)
        package var criticalDelay: Duration = .milliseconds(200)
        package var bulkDelay: Duration = .seconds(60)
        /// Places the periodic pulls of this device within their interval (``phase(of:)``); `nil`: an interval after the last
        /// one, wherever that is.
        package var phase: UInt64?

        package init() {}
    }

    package enum Wish: Hashable, Sendable {
        case enqueued(Priority)
        /// Periodic pull: the interval begins now, unless it runs already.
        case pullDue
        /// Work was left when the cycle's time was up, an attempt failed, something changed: any whole cycle will do.
        case again(at: Instant)
        /// First contact after a start or a gap. The moment was drawn by the caller, and nothing but critical work and requests
        /// goes before it, however long it has been due: a fleet must not come back as one.
        case spread(until: Instant)
        /// A mutation may be tried again from then on: a cycle that begins earlier does not serve it.
        case due(at: Instant)
        /// An operator or an app asked. Backoff holds it back for ``requestPatience`` at most, and not at all if it is forced.
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
    /// No attempt before this, unless somebody asks for one (backoff).
    package private(set) var retryAt: Instant?
    /// From then on a request goes although ``retryAt`` is still to come.
    private var requestsAt: Instant?
    /// No attempt at all before this (the server's `Retry-After`).
    package private(set) var notBefore: Instant?

    package init(settings: Settings = Settings()) {
        self.settings = settings
    }

    package mutating func wish(_ wish: Wish, now: Instant) {
        switch wish {
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

    /// What the store says: the next moment at which a mutation may be tried again, `nil` when none waits for one.
    package mutating func workIsDue(at moment: Instant?) {
        workAt = moment
    }

    /// A cycle begins and serves every wish that lies in its scope and within what is allowed.
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

    /// Whoever asks for a cycle has a reason to think that it may succeed now: a cable was plugged in, a server was mended. An app
    /// that asks all the time during an outage still makes no more than one attempt in this time.
    package static let requestPatience: Duration = .seconds(10)

    /// - Parameter failedAt: When the attempt failed that ``retryAt`` follows from; `nil`: requests wait for `retryAt` like all else.
    package mutating func holdBack(retryAt: Instant?, notBefore: Instant?, failedAt: Instant? = nil) {
        self.retryAt = retryAt
        self.notBefore = notBefore
        requestsAt = failedAt.map { $0.advanced(by: Self.requestPatience) }
    }

    /// The moment at which a cycle is due; `nil` when nobody wishes for one that is allowed.
    ///
    /// - Parameter forced: What is allowed to a cycle that an operator forces.
    package func dueAt(_ allowed: Allowance, forced: Allowance) -> Instant? {
        var ordinary: [Instant] = []
        if allowed.allows(.normal), let first = normalFirst, let last = normalLast {
            ordinary.append(min(last.advanced(by: settings.debounce), first.advanced(by: settings.debounceMax)))
        }
        if allowed.allows(.bulk), let first = bulkFirst { ordinary.append(first.advanced(by: settings.bulkDelay)) }
        if let terms = allowed.pull, let at = pullAt(terms.interval) { ordinary.append(at) }
        if allowed.push != nil, let workAt { ordinary.append(workAt) }
        if !allowed.isNothing, let againAt { ordinary.append(againAt) }
        var due = ordinary.min()
        if let wished = due, let spreadUntil { due = max(wished, spreadUntil) }
        if allowed.allows(.critical), let criticalAt { due = min(due ?? criticalAt, criticalAt) }
        if let held = due, let retryAt { due = max(held, retryAt) }
        if !allowed.isNothing, let requestedAt {
            let asked = retryAt.map { max(requestedAt, min($0, requestsAt ?? $0)) } ?? requestedAt
            due = min(due ?? asked, asked)
        }
        if !forced.isNothing, let forcedAt { due = min(due ?? forcedAt, forcedAt) }
        if let wished = due, let notBefore { due = max(wished, notBefore) }
        return due
    }

    /// Until when backoff or the server's wish holds everything back.
    package var heldUntil: Instant? { [retryAt, notBefore].compactMap { $0 }.max() }

    // MARK: Periodic pulls

    /// When the next periodic pull is due; `nil` while none is planned.
    ///
    /// With a phase, pulls are made at the device's own place in the interval, whatever else began cycles in between: the
    /// first place that is at least half an interval away.
    package func pullAt(_ interval: Duration) -> Instant? {
        guard let pullSince else { return nil }
        let step = interval.nanoseconds
        guard let phase = settings.phase, step > 1 else { return pullSince.advanced(by: interval) }
        let earliest = pullSince.nanoseconds.saturatingAdd(step / 2)
        let place = Int64(phase % UInt64(step))
        let behind = (earliest % step + step) % step
        return Instant(nanoseconds: earliest.saturatingAdd((place - behind + step) % step))
    }

    /// The same for a device for ever, and evenly spread over a fleet (PROTOCOL G4).
    package static func phase(of device: DeviceID) -> UInt64 {
        SHA256.hash(Array(device.text.utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
