import SyncCore

// Old rows go slice by slice: deletions after their retention, and events by the rule `keep` of their entity.
extension Hub {
    /// Removes one slice, in a transaction of its own.
    package func housekeep(_ run: inout HousekeepingRun) throws(HubError) {
        guard let task = run.task else { return }
        let slice: HousekeepingRun.Slice
        switch task {
        case .events(let walk, let keep): slice = try removeEvents(walk, keep, run)
        case .earlierKeys(let page): slice = try moveKeys(from: page, run)
        case .tombstones, .pastScopes, .refusals:
            slice = try transact(.removing) { () throws(DatabaseError) in try removePast(task, run) }
        }
        switch task {
        case .events: housekept.events += Int64(slice.removed)
        case .tombstones: housekept.deletions += Int64(slice.removed)
        case .pastScopes, .refusals, .earlierKeys: break
        }
        run.advance(after: slice)
    }

    /// Removes a slice of one kind beside the pushes.
    private func removePast(_ task: HousekeepingRun.Task, _ run: HousekeepingRun) throws(DatabaseError) -> HousekeepingRun.Slice {
        let limit = run.rowsMax
        let raising = !settings.ablations.contains(.horizonIgnored)
        let removed =
            switch task {
            case .tombstones(let before): try store.removeTombstones(before: before, raisingHorizon: raising, limit: limit)
            case .pastScopes(let before): try store.removePastScopes(before: before, raisingHorizon: raising, limit: limit)
            case .refusals(let before): try store.removeRefusals(before: before, limit: limit)
            case .events, .earlierKeys: 0
            }
        return HousekeepingRun.Slice(removed: removed, next: removed < limit ? nil : task)
    }

    // MARK: Events

    /// The entities whose events are removed.
    ///
    /// Events that give devices rights stay: a right must not end by age.
    func eventTasks(at now: Timestamp) throws(HubError) -> [HousekeepingRun.Task] {
        let sources = Set(settings.access.sources.map(\.entity))
        let kept = settings.rules.entities.filter { $1.kind == .event && $1.keepEvents != nil && !sources.contains($0) }
        return try transact(.removing) { () throws(DatabaseError) in
            try store.forgetRetention(besides: kept.keys)
            var tasks: [HousekeepingRun.Task] = []
            for (name, rules) in kept.sorted(by: { $0.key < $1.key }) {
                guard let keep = rules.keepEvents else { continue }
                let walk = EventWalk(
                    name, before: now.advanced(by: .zero - keep), now: now, upTo: try store.removableCommit(of: name))
                tasks.append(.events(walk, keep: keep))
            }
            return tasks
        }
    }

    /// Removes the next page of old events.
    ///
    /// The rule is compared once more: another hub may have applied other settings since the run began.
    private func removeEvents(_ walk: EventWalk, _ keep: Duration, _ run: HousekeepingRun) throws(HubError) -> HousekeepingRun.Slice {
        try transact(.removing) { () throws(DatabaseError) in
            guard let rules = settings.rules.entities[walk.entity], rules.kind == .event, rules.keepEvents == keep else {
                return HousekeepingRun.Slice()
            }
            var walk = walk
            let page = try store.page(of: walk, limit: run.eventsMax)
            var slice = HousekeepingRun.Slice()
            switch walk.decide(about: page, isLast: page.count < run.eventsMax) {
            case .remove(let count): slice = HousekeepingRun.Slice(removed: count, next: .events(walk, keep: keep))
            case .removeLast(let count): slice.removed = count
            case .readOn: slice.next = .events(walk, keep: keep)
            }
            // A page that decides nothing costs no sync of the disk.
            if slice.removed == 0, slice.next != nil { return slice }
            try store.removeEvents(page.prefix(slice.removed), of: walk.entity)
            try store.recordRun(
                removed: slice.removed, of: walk.entity, keeping: keep, run: run.at, hasMore: slice.next != nil)
            return slice
        }
    }

    // MARK: The clock

    /// Judges the hub's clock within the present transaction.
    ///
    /// Only the removal of events asks it: a deletion that is forgotten too early makes devices list anew, an event is lost.
    ///
    /// - Returns: `true` when events may be removed by it.
    func judgeClock(at now: Timestamp) throws(DatabaseError) -> Bool {
        var clock = try store.retentionClock()
        let before = clock.believed
        let verdict = clock.judge(now)
        try store.keep(clock)
        switch verdict {
        case .believed: return true
        case .noted: return false
        case .doubted(let isNew):
            if isNew, let before, let until = clock.waitsUntil { notices.append(.clockJumped(from: before, to: now, until: until)) }
            return false
        }
    }
}
