/// When the next sync cycle is due: a handful of wishes, each with its own delay, and two things that hold all of them back.
///
/// A wish is never lost: it stays until a cycle that serves it begins. Wishes that come during a cycle wait for the next.
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
        /// A mutation may be tried again, or work was left when the cycle's time was up.
        case again(at: Instant)
        /// The link came (back) up; the delay was drawn by the caller.
        case reconnected(at: Instant)
        /// An operator or an app asked; backoff does not hold it back.
        case requested
    }

    package var settings: Settings
    /// Work of each urgency has waited since `first`; the newest arrived at `last`.
    private var criticalAt: Instant?
    private var normalFirst: Instant?
    private var normalLast: Instant?
    private var bulkFirst: Instant?
    private var pullAt: Instant?
    private var againAt: Instant?
    private var requestedAt: Instant?
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
        case .again(let at), .reconnected(let at): againAt = min(againAt ?? at, at)
        case .requested: requestedAt = now
        }
    }

    /// A cycle begins and serves every wish that there is.
    package mutating func began() {
        (criticalAt, normalFirst, normalLast, bulkFirst) = (nil, nil, nil, nil)
        (pullAt, againAt, requestedAt, retryAt) = (nil, nil, nil, nil)
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
        var due = [criticalAt, normalAt, bulkAt, pullAt, againAt].compactMap { $0 }.min()
        if let held = due, let retryAt { due = max(held, retryAt) }
        if let requestedAt { due = min(due ?? requestedAt, requestedAt) }
        if let wished = due, let notBefore { due = max(wished, notBefore) }
        return due
    }

    package func isDue(now: Instant) -> Bool {
        dueAt.map { $0 <= now } ?? false
    }
}

private func zip<A, B>(_ a: A?, _ b: B?) -> (A, B)? {
    if let a, let b { (a, b) } else { nil }
}
