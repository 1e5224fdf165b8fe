// Complete listings by id, and the comparison by digests that avoids most of them (PROTOCOL A8). A new device reads in this order:
// reference data, then the records that pass the seed filters, then everything.

/// Reads that a cycle still has to do besides the running page.
struct ReadingPlan: Hashable, Sendable {
    /// Entities that are listed by id, one after the other.
    var listings: [StreamPosition] = []
    /// Entities whose feed is read when all listings are done.
    var feeds: [StreamPosition] = []
    /// Entities to compare with the hub when their feeds are read.
    var comparisons: [StreamPosition] = []
    var hasDifferences = false
}

extension PullPhase {
    /// Decides which streams to list, to pull and to compare.
    mutating func read(_ wanted: [StreamPosition], _ state: inout SyncState) -> NextPhase {
        if let next = seed(from: wanted, &state) { return next }
        var plan = ReadingPlan()
        plan.listings = wanted.filter { $0.listing != nil }
        plan.feeds = wanted.filter { $0.listing == nil }
        let due = plan.feeds.filter { stream in
            stream.cursor != nil && state.mayCompare(stream.fullSync)
                && !state.readings.uncompared.holds(stream.entity, at: state.now.instant)
        }
        if state.hub.hasDigests {
            plan.comparisons = due
        } else if !due.isEmpty, !hasRestarted {
            hasRestarted = true
            return restart(due.map(\.entity), &state)
        }
        self.plan = plan
        return goOnReading(&state)
    }

    /// Reads the next page of a listing; when there is none, the feeds.
    mutating func goOnReading(_ state: inout SyncState) -> NextPhase {
        while let next = plan.listings.first {
            guard mayPull(next.entity, state), let listing = next.listing else {
                plan.listings.removeFirst()
                continue
            }
            let request = SnapshotRequest(
                entity: next.entity, after: listing.after, limit: state.sizes.listedRecords(announced: state.hub.pullRecords),
                buckets: listing.buckets, namesUnreadable: state.hub.namesUnreadable, maxBytes: state.sizes.pace.down.bytes)
            guard let call = state.send(.snapshot, CallContent(query: SnapshotMessages.query(request))) else { return state.halt() }
            step = .listing(next, call: call)
            return .wait
        }
        let feeds = plan.feeds
        plan.feeds = []
        return feeds.isEmpty ? compare(&state) : pull(feeds, &state)
    }

    mutating func handle(_ page: SnapshotPage, _ state: inout SyncState) throws(ReplyError) -> NextPhase {
        var page = page
        if case .listing(let asked, _) = step {
            try page.check(of: asked.entity, after: asked.listing?.after, only: asked.listing?.buckets)
            recordListed(page, &state)
            if let leftOut = state.durable.recordLeftOut(page, of: asked.listing) {
                page.leftOut = leftOut
                state.reportLeftOut()
            }
            state.endTrial()
            // Everything up to here is known only when the feed has been read from the listing's beginning.
            state.hub.forgetReadHead()
            step = .applyingSnapshot
        } else if case .seeding(let asked, _) = step {
            try page.check(of: asked.entity, after: asked.seed?.after, only: nil)
            page.isSeed = true
            recordListed(page, &state)
            state.endTrial()
            step = .applyingSeed
        }
        if state.mustLearnSchemas { return learnFirst(&state) }
        page.newerSchemas = state.newerSchemas
        page.standing = state.stand(at: page.startVersion)
        page.shareMark = state.durable.memory.shareMark
        state.ask(.applySnapshot(page))
        return .wait
    }

    private mutating func recordListed(_ page: SnapshotPage, _ state: inout SyncState) {
        badReads = 0
        received += page.records.count + page.unreadable.count
        state.release(page.entity, by: .listing)
    }

    mutating func listed(_ summary: PullSummary, _ position: StreamPosition, _ state: inout SyncState) -> NextPhase {
        state.cycle?.outcome.pulled += summary.upserts + summary.deletions
        pages += 1
        if !summary.massDeletes.isEmpty { state.report(.massDelete(summary.massDeletes)) }
        plan.listings.removeAll { $0.entity == position.entity }
        if position.listing != nil {
            plan.listings.insert(position, at: 0)
        } else {
            plan.feeds.append(position)
        }
        if state.pressure.isQuiet { return state.goOnLater() }
        if hasReadEnough(&state) { return .push }
        return goOnReading(&state)
    }

    // MARK: Seeds

    /// Asks for the next part of the seed; `nil` when there is none.
    private mutating func seed(from wanted: [StreamPosition], _ state: inout SyncState) -> NextPhase? {
        func isNew(_ stream: StreamPosition) -> Bool { stream.listing == nil && stream.cursor == nil }
        guard let next = wanted.first(where: { $0.seed != nil && isNew($0) }) else { return nil }
        let references = wanted.filter { $0.isReference && isNew($0) }
        // They are read once in a cycle, so that an unreadable one delays nothing else.
        if !references.isEmpty, !hasReadReferences {
            (hasReadReferences, readsReferences) = (true, true)
            return pull(references, &state)
        }
        let request = SnapshotRequest(
            entity: next.entity, after: next.seed?.after, limit: state.sizes.listedRecords(announced: state.hub.pullRecords), isSeed: true,
            namesUnreadable: state.hub.namesUnreadable, maxBytes: state.sizes.pace.down.bytes)
        guard let call = state.send(.snapshot, CallContent(query: SnapshotMessages.query(request))) else { return state.halt() }
        step = .seeding(next, call: call)
        return .wait
    }

    /// Loads the next streams from the store, if the hub may be asked for more.
    mutating func goOnSeeding(_ state: inout SyncState) -> NextPhase {
        if state.pressure.isQuiet { return state.goOnLater() }
        if hasReadEnough(&state) { return .push }
        return loadStreams(&state)
    }

    // MARK: Comparing

    /// Runs the due comparisons with the hub after the last page of all feeds.
    mutating func compare(_ state: inout SyncState) -> NextPhase {
        guard let next = plan.comparisons.first else {
            guard plan.hasDifferences else { return .push }
            plan.hasDifferences = false
            return loadStreams(&state)
        }
        guard mayPull(next.entity, state), !state.isOverBudget, !state.pressure.isQuiet else { return .push }
        plan.comparisons.removeFirst()
        step = .digesting(next)
        state.ask(.digest(next.entity))
        return .wait
    }

    mutating func verify(_ position: StreamPosition, _ digest: EntityDigest, _ state: inout SyncState) -> NextPhase {
        let request = VerifyRequest(entity: position.entity, cursor: position.cursor ?? "", digest: digest)
        guard let call = state.send(.verify, CallContent(body: VerifyMessages.request(request))) else { return state.halt() }
        step = .verifying(position, call: call)
        return .wait
    }

    mutating func handle(_ comparison: VerifyResponse, _ state: inout SyncState) -> NextPhase {
        guard case .verifying(let position, _) = step else { return .wait }
        _ = state.readings.uncompared.release(position.entity, by: .end)
        badReads = 0
        if !comparison.differs.isEmpty { plan.hasDifferences = true }
        state.report(.compared(position.entity, differing: comparison.differs.count))
        step = .recordingComparison
        state.ask(.noteVerified(position.entity, differs: comparison.differs, shareMark: state.durable.memory.shareMark))
        return .wait
    }
}

extension SyncState {
    /// Returns whether a full comparison may run. It waits for an unmetered link and ample power; after its hard limit it runs in any case.
    func mayCompare(_ fullSync: StreamPosition.FullSync) -> Bool {
        switch fullSync {
        case .notDue: false
        case .due: conditions.uplink?.isMetered != true && conditions.power == .ample
        case .overdue: true
        }
    }
}

extension SnapshotPage {
    /// Checks that the page continues the listing that was asked for.
    ///
    /// - Parameters:
    ///   - before: The last id of the page before this one.
    ///   - buckets: Requested buckets; `nil` means all.
    func check(of asked: EntityName, after before: RecordID?, only buckets: [UInt8]?) throws(ReplyError) {
        guard entity == asked else { throw ReplyError("/entity", "the entity that was asked for") }
        guard records.count + unreadable.count <= Limits.pullRecordsMax * 2 else {
            throw ReplyError("/records", "at most \(Limits.pullRecordsMax * 2) records in a page")
        }
        // The ids must rise: a listing that does not move would never end, and one that goes back would hide removed records.
        var last = before
        for (index, item) in records.enumerated() {
            if let last, item.id <= last { throw ReplyError("/records/\(index)/id", "an id after \(last)") }
            if let buckets, !buckets.contains(EntityDigest.bucket(of: item.id)) {
                throw ReplyError("/records/\(index)/id", "an id of the buckets that were asked for")
            }
            last = item.id
        }
        try checkUnreadable(after: before, only: buckets)
        if let named = unreadable.last, last.map({ $0 < named }) ?? true { last = named }
        if hasMore, let after {
            if let before, after <= before { throw ReplyError("/after", "an id after \(before)") }
            if let last, after < last { throw ReplyError("/after", "no id before \(last)") }
        }
    }

    /// Checks that unreadable ids belong to this page; otherwise a removed record would be kept for ever.
    private func checkUnreadable(after before: RecordID?, only buckets: [UInt8]?) throws(ReplyError) {
        guard !unreadable.isEmpty else { return }
        let listed = Set(records.map(\.id))
        var last = before
        for (index, id) in unreadable.enumerated() {
            let place = "/unreadable/\(index)"
            if let last, id <= last { throw ReplyError(place, "an id after \(last)") }
            if listed.contains(id) { throw ReplyError(place, "no id of a record that is on the page") }
            if let buckets, !buckets.contains(EntityDigest.bucket(of: id)) {
                throw ReplyError(place, "an id of the buckets that were asked for")
            }
            last = id
        }
    }
}
