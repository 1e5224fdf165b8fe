/// Follows the uplink over time: it decides when a link counts as present or as gone, and why (PROTOCOL E1).
///
/// A new uplink counts after it was stable for 2 s, a lost one after 1 s, or at once when its interface vanished. A change from one usable
/// link to another, or of a link's cost, counts at once: the kernel already sends over the new one, and the policy must not use a metered
/// link by the rules of the old one.
///
/// A link that comes and goes all day is damped. More than four losses of the uplink, or of the hub over it, within 10 minutes double the
/// delay for a new uplink with every further one, up to 30 s, until 10 minutes passed without any. A link that is gone again before the hub
/// has answered counts like any other, because each of its returns costs requests.
package struct LinkWatch: Sendable {
    package struct Settings: Hashable, Sendable {
        package var upDebounce: Duration = .seconds(2)
        package var upDebounceMax: Duration = .seconds(30)
        package var downDebounce: Duration = .seconds(1)
        package var departuresTolerated = 4
        package var quietPeriod: Duration = .seconds(600)

        package init() {}
    }

    package enum Event: Hashable, Sendable {
        case up(Uplink)
        case down(LinkCause)
        /// Another interface carries the sync now.
        case moved(Uplink, LinkCause)
        /// The cost or the limit of the same interface has changed.
        case repriced(Uplink)
        /// The uplink was gone and is back before that counted; its connections may be dead all the same.
        case blinked
    }

    private enum Phase: Hashable, Sendable {
        case absent
        case rising(index: Int32, until: Instant)
        case present(index: Int32)
        case falling(index: Int32, until: Instant, LinkCause)
    }

    private let settings: Settings
    package private(set) var table = LinkTable()
    package private(set) var survey: LinkSurvey
    package private(set) var hints = LinkHints()
    package private(set) var rules: [LinkRule]
    private var scarce: Set<String> = []
    private var phase = Phase.absent
    /// The uplink that counts; it stays through a loss that is too short to count.
    package private(set) var uplink: Uplink?
    /// Times of losses of the uplink, or of the hub over it, oldest first. They are never older than the quiet period, and never more than
    /// needed.
    private var departures: [Instant] = []
    package private(set) var upDebounce: Duration

    package init(rules: [LinkRule] = [], settings: Settings = Settings()) {
        self.settings = settings
        self.rules = rules
        upDebounce = settings.upDebounce
        survey = LinkSurvey(LinkTable(), now: Instant(nanoseconds: 0))
    }

    // MARK: Events

    package mutating func see(_ table: LinkTable, now: Instant) -> [Event] {
        self.table = table
        return look(now: now)
    }

    package mutating func follow(_ rules: [LinkRule], now: Instant) -> [Event] {
        self.rules = rules
        return look(now: now)
    }

    /// - Returns: `nil` when the hint cannot be kept (``LinkHints/set(_:for:now:)``).
    package mutating func hear(_ hint: LinkHint, about name: String, now: Instant) -> [Event]? {
        guard hints.set(hint, for: name, now: now) else { return nil }
        return look(now: now)
    }

    /// Restores hints from before a restart. Newer hints take precedence.
    package mutating func restore(_ earlier: LinkHints, now: Instant) -> [Event] {
        var all = earlier
        all.replace(with: hints, now: now)
        hints = all
        return look(now: now)
    }

    /// The network of `name` reports that little is left, or that this is not (or no longer) so.
    package mutating func portal(of name: String, isScarce: Bool, now: Instant) -> [Event] {
        if isScarce { scarce.insert(name) } else { scarce.remove(name) }
        return look(now: now)
    }

    /// The reachability left `online`, for any reason.
    package mutating func leftOnline(now: Instant) {
        forgetOldDepartures(now: now)
        recordDeparture(now: now)
    }

    private mutating func recordDeparture(now: Instant) {
        // The hub is lost with its link: that is one loss.
        if let last = departures.last, last.duration(to: now) < .seconds(1) { return }
        departures.append(now)
        if departures.count > settings.departuresTolerated {
            upDebounce = min(upDebounce * 2, settings.upDebounceMax)
            departures.removeFirst(departures.count - settings.departuresTolerated - 1)
        }
    }

    /// Applies the passage of time.
    package mutating func tick(now: Instant) -> [Event] {
        look(now: now)
    }

    /// Time at which ``tick(now:)`` would next change something by itself.
    package var nextWake: Instant? {
        let phaseEnds: Instant? =
            switch phase {
            case .absent, .present: nil
            case .rising(_, let until), .falling(_, let until, _): until
            }
        return [phaseEnds, hints.nextExpiry].compactMap { $0 }.min()
    }

    // MARK: Decisions

    private mutating func look(now: Instant) -> [Event] {
        forgetOldDepartures(now: now)
        hints.expire(now: now)
        scarce.formIntersection(table.links.map(\.name))
        survey = LinkSurvey(table, rules: rules, hints: hints, scarce: scarce, now: now)
        switch phase {
        case .absent: return arrive(now: now)
        case .rising(let index, let until):
            guard survey.uplinkIndex == index else { return arrive(now: now) }
            return until <= now ? begin(index) : []
        case .present(let index):
            if survey.uplinkIndex != nil { return compare(with: index) }
            let cause = causeOfLoss(of: index)
            if cause == .interfaceGone { return end(cause, now: now) }
            phase = .falling(index: index, until: now.advanced(by: settings.downDebounce), cause)
            return []
        case .falling(let index, let until, let cause):
            if survey.uplinkIndex != nil { return [.blinked] + compare(with: index) }
            if causeOfLoss(of: index) == .interfaceGone { return end(.interfaceGone, now: now) }
            return until <= now ? end(cause, now: now) : []
        }
    }

    private mutating func arrive(now: Instant) -> [Event] {
        guard let index = survey.uplinkIndex else {
            phase = .absent
            return []
        }
        // The way to a hub on this machine does not flap.
        let isLoopback = survey.links.contains { $0.index == index && $0.kind == .loopback }
        phase = .rising(index: index, until: isLoopback ? now : now.advanced(by: upDebounce))
        return []
    }

    private mutating func begin(_ index: Int32) -> [Event] {
        phase = .present(index: index)
        uplink = survey.uplink
        return survey.uplink.map { [.up($0)] } ?? []
    }

    private mutating func end(_ cause: LinkCause, now: Instant) -> [Event] {
        phase = .absent
        uplink = nil
        recordDeparture(now: now)
        return [.down(cause)] + arrive(now: now)
    }

    private mutating func compare(with index: Int32) -> [Event] {
        guard let next = survey.uplink, let nextIndex = survey.uplinkIndex else { return [] }
        phase = .present(index: nextIndex)
        let before = uplink
        uplink = next
        if nextIndex != index { return [.moved(next, causeOfMove(from: index))] }
        return before == next ? [] : [.repriced(next)]
    }

    private func causeOfMove(from index: Int32) -> LinkCause {
        survey.links.contains { $0.index == index && $0.isUsable } ? .routeMoved : causeOfLoss(of: index)
    }

    private func causeOfLoss(of index: Int32) -> LinkCause {
        guard let facts = table.links.first(where: { $0.index == index }) else { return .interfaceGone }
        if !facts.isUp { return .switchedOff }
        if !facts.hasCarrier { return .carrierLost }
        return facts.isAddressed || LinkKind(facts) == .loopback ? .routeLost : .addressLost
    }

    private mutating func forgetOldDepartures(now: Instant) {
        departures.removeAll { $0.duration(to: now) > settings.quietPeriod }
        if departures.isEmpty { upDebounce = settings.upDebounce }
    }
}

/// The reason why the uplink appeared or disappeared; the `cause` of a transition.
package enum LinkCause: String, Hashable, Sendable, CaseIterable {
    case linkUp = "link_up"
    /// The kernel has no such interface any more.
    case interfaceGone = "interface_gone"
    /// The interface was switched off.
    case switchedOff = "interface_down"
    case carrierLost = "carrier_lost"
    case addressLost = "address_lost"
    case routeLost = "route_lost"
    /// Both links work; the kernel, or a rule of ours, chose the other one.
    case routeMoved = "route_moved"
}
