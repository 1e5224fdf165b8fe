/// Reads complete listings by id, one entity after the other, and the seeds of a new device (PROTOCOL A8).
struct ListingReading: Hashable, Sendable {
    /// Entities that are listed by id, one after the other.
    private var listings: [StreamPosition] = []
    /// Entities whose feed is read when all listings are done.
    private var feeds: [StreamPosition] = []

    /// Plans the listings of these streams, and then the feeds of those without one.
    mutating func plan(_ streams: [StreamPosition]) {
        listings = streams.filter { $0.listing != nil }
        feeds = streams.filter { $0.listing == nil }
    }

    // MARK: Requests

    /// Reads the next page of a listing; when there is none, the feeds.
    mutating func next(_ reads: inout CycleReads, _ state: inout SyncState) -> NextRead {
        while let next = listings.first {
            guard reads.mayRead(next.entity, state), let listing = next.listing else {
                listings.removeFirst()
                continue
            }
            let request = SnapshotRequest(
                entity: next.entity, after: listing.after, limit: state.sizes.listedRecords(announced: state.hub.pullRecords),
                buckets: listing.buckets, namesUnreadable: state.hub.namesUnreadable, maxBytes: state.sizes.pace.down.bytes)
            guard let call = state.send(.snapshot, CallContent(query: SnapshotMessages.query(request))) else {
                return .leave(state.halt())
            }
            return .wait(for: .listing(next, call: call))
        }
        let feeds = feeds
        self.feeds = []
        return feeds.isEmpty ? .compare : .pull(feeds)
    }

    /// Reads the next page of an entity's seed.
    func seed(_ stream: StreamPosition, _ state: inout SyncState) -> NextRead {
        let request = SnapshotRequest(
            entity: stream.entity, after: stream.seed?.after, limit: state.sizes.listedRecords(announced: state.hub.pullRecords),
            isSeed: true, namesUnreadable: state.hub.namesUnreadable, maxBytes: state.sizes.pace.down.bytes)
        guard let call = state.send(.snapshot, CallContent(query: SnapshotMessages.query(request))) else { return .leave(state.halt()) }
        return .wait(for: .seeding(stream, call: call))
    }

    // MARK: Pages

    func handle(
        _ page: SnapshotPage, ofListing asked: StreamPosition, _ reads: inout CycleReads, _ state: inout SyncState
    ) throws(ReplyError) -> NextRead {
        var page = page
        try page.check(of: asked.entity, after: asked.listing?.after, only: asked.listing?.buckets)
        record(page, &reads, &state)
        if let leftOut = state.durable.recordLeftOut(page, of: asked.listing) {
            page.leftOut = leftOut
            state.reportLeftOut()
        }
        state.endTrial()
        // Everything up to here is known only when the feed has been read from the listing's beginning.
        state.hub.forgetReadHead()
        return apply(page, .applyingSnapshot, &reads, &state)
    }

    func handle(
        _ page: SnapshotPage, ofSeed asked: StreamPosition, _ reads: inout CycleReads, _ state: inout SyncState
    ) throws(ReplyError) -> NextRead {
        var page = page
        try page.check(of: asked.entity, after: asked.seed?.after, only: nil)
        page.isSeed = true
        record(page, &reads, &state)
        state.endTrial()
        return apply(page, .applyingSeed, &reads, &state)
    }

    private func record(_ page: SnapshotPage, _ reads: inout CycleReads, _ state: inout SyncState) {
        reads.recordSuccess()
        reads.recordReceived(page.records.count + page.unreadable.count)
        state.release(page.entity, by: .listing)
    }

    private func apply(_ page: SnapshotPage, _ step: ReadStep, _ reads: inout CycleReads, _ state: inout SyncState) -> NextRead {
        if state.mustLearnSchemas { return reads.learnFirst(&state) }
        var page = page
        page.newerSchemas = state.newerSchemas
        page.standing = state.stand(at: page.startVersion)
        page.shareMark = state.durable.memory.shareMark
        state.ask(.applySnapshot(page))
        return .wait(for: step)
    }

    /// The page of a listing was applied.
    ///
    /// - Parameter position: The entity's new position. It has no listing any more when this was the last page.
    mutating func listed(
        _ summary: PullSummary, _ position: StreamPosition, _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead {
        state.cycle?.outcome.pulled += summary.upserts + summary.deletions
        reads.recordPage()
        if !summary.massDeletes.isEmpty { state.report(.massDelete(summary.massDeletes)) }
        listings.removeAll { $0.entity == position.entity }
        if position.listing != nil {
            listings.insert(position, at: 0)
        } else {
            feeds.append(position)
        }
        if let end = reads.endIfDue(&state) { return .leave(end) }
        return .list
    }

    /// The page of a seed was applied.
    func seeded(_ summary: PullSummary, _ reads: inout CycleReads, _ state: inout SyncState) -> NextRead {
        state.cycle?.outcome.pulled += summary.upserts
        reads.recordPage()
        return reads.goOnSeeding(&state)
    }

    // MARK: Failed reads

    mutating func leaveOut(
        listing position: StreamPosition, _ failure: FailedRead, _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead {
        reads.hold(position.entity, failure.refusal.detail, failure.cause, kind: failure.refusal.kind, until: .listing, &state)
        listings.removeAll { $0.entity == position.entity }
        return failure.isLast ? reads.pushInstead(&state) : .list
    }

    func leaveOut(
        seed position: StreamPosition, _ failure: FailedRead, _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead {
        reads.hold(position.entity, failure.refusal.detail, failure.cause, kind: failure.refusal.kind, until: .listing, &state)
        return failure.isLast ? reads.pushInstead(&state) : .loadStreams
    }
}
