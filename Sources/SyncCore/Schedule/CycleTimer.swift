/// When the next sync cycle is due: a handful of wishes, each with its own delay, and two things that hold all of them back.
///
/// A wish is never lost: it stays until a cycle that serves it begins. Wishes that come during a cycle wait for the next. A
/// cycle that only pulls does not serve what waits to be pushed, nor the other way round.
package struct CycleTimer: Hashable, Sendable {
    package struct Settings: Hashable, Sendable {
        package var debounce: Duration = .seconds(2)
        package var debounceMax: Duration = .seconds(10)
        package var criticalDelay: Duration = .milliseconds(200)
        package var bulkDelay: Duration = .seconds(60)
        package var pullInterval: Duration = .seconds(60)

        package init() {}
    }

    package enum Wish: Hashable, Sendable {
        case enqueued(Priority)
        /// Periodic pull: the interval has run since the last one.
        case pullDue
        /// Work was left when the cycle's time was up, an attempt failed, something changed: any whole cycle will do.
        case again(at: Instant)
        /// First contact after a start or a gap. The moment was drawn by the caller, and nothing but critical work and requests
        /// goes before it, however long it has been due: a fleet must not come back as one.
        case reconnected(at: Instant)
        /// A mutation may be tried again from then on: a cycle that begins earlier does not serve it.
        case due(at: Instant)
        /// An operator or an app asked. Backoff holds it back unless it is forced.
        case requested(isForced: Bool)
    }

    package var settings: Settings
    /// Work of each urgency has waited since `first`; the newest arrived at `last`.
    private var criticalAt: Instant?
    private var normalFirst: Instant?
    private var normalLast: Instant?
    private var bulkFirst: Instant?
    private var pullAt: Instant?
    private var againAt: Instant?
    private var workAt: Instant?
    private var requestedAt: Instant?
    private var forcedAt: Instant?
    private var spreadUntil: Instant?
    /// No attempt before this, unless somebody asks for one (backoff).
    package private(set) var retryAt: Instant?
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
        case .pullDue: pullAt = pullAt ?? now.advanced(by: settings.pullInterval)
        case .again(let at): againAt = min(againAt ?? at, at)
        case .reconnected(let at):
            againAt = min(againAt ?? at, at)
            spreadUntil = at
        case .due(let at): workAt = min(workAt ?? at, at)
        case .requested(let isForced): if isForced { forcedAt = now } else { requestedAt = now }
        }
    }

    /// What the store says: the next moment at which a mutation may be tried again, `nil` when none waits for one.
    package mutating func workIsDue(at moment: Instant?) {
        workAt = moment
    }

    /// A cycle begins and serves every wish that lies in its scope.
    package mutating func began(_ scope: SyncRequest.Scope = .all, now: Instant) {
        (requestedAt, forcedAt, retryAt, spreadUntil) = (nil, nil, nil, nil)
        if scope != .pull {
            (criticalAt, normalFirst, normalLast, bulkFirst) = (nil, nil, nil, nil)
            if let at = workAt, at <= now { workAt = nil }
        }
        if scope != .push { pullAt = nil }
        if scope == .all || scope == .full { againAt = nil }
    }

    package mutating func holdBack(retryAt: Instant?, notBefore: Instant?) {
        self.retryAt = retryAt
        self.notBefore = notBefore
    }

    /// The moment at which a cycle is due; `nil` when nobody wishes for one.
    package var dueAt: Instant? {
        let normalAt = zip(normalFirst, normalLast).map { first, last in
            min(last.advanced(by: settings.debounce), first.advanced(by: settings.debounceMax))
        }
        let bulkAt = bulkFirst?.advanced(by: settings.bulkDelay)
        var ordinary = [normalAt, bulkAt, pullAt, againAt, workAt].compactMap { $0 }.min()
        if let wished = ordinary, let spreadUntil { ordinary = max(wished, spreadUntil) }
        var due = [ordinary, criticalAt, requestedAt].compactMap { $0 }.min()
        if let held = due, let retryAt { due = max(held, retryAt) }
        if let forcedAt { due = min(due ?? forcedAt, forcedAt) }
        if let wished = due, let notBefore { due = max(wished, notBefore) }
        return due
    }

    /// Until when backoff or the server's wish holds everything back.
    package var heldUntil: Instant? { [retryAt, notBefore].compactMap { $0 }.max() }

    package func isDue(now: Instant) -> Bool {
        dueAt.map { $0 <= now } ?? false
    }
}

private func zip<A, B>(_ a: A?, _ b: B?) -> (A, B)? {
    if let a, let b { (a, b) } else { nil }
}
