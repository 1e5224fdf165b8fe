// Complete listings by id, and the comparison by digests that avoids most of them (PROTOCOL A8).
extension SyncEngine {
    /// Reads that a cycle still has to do besides the running page.
    package struct Reading: Hashable, Sendable {
        /// Entities that are listed by id, one after the other.
        var listings: [StreamPosition] = []
        /// Entities whose feed is read when all listings are done.
        var feeds: [StreamPosition] = []
        /// Entities to compare with the hub when their feeds are read.
        var comparisons: [StreamPosition] = []
        var hasDifferences = false
    }

    /// Decides which streams to list, to pull and to compare.
    mutating func read(_ wanted: [StreamPosition], at moment: Moment, _ effects: inout [SyncEffect]) {
        if seed(from: wanted, at: moment, &effects) { return }
        var reading = Reading()
        reading.listings = wanted.filter { $0.listing != nil }
        reading.feeds = wanted.filter { $0.listing == nil }
        let due = reading.feeds.filter { stream in
            stream.cursor != nil && mayCompare(stream.fullSync) && !readings.uncompared.holds(stream.entity, at: moment.instant)
        }
        if hub.hasDigests {
            reading.comparisons = due
        } else if !due.isEmpty, cycle?.hasRestarted != true {
            cycle?.hasRestarted = true
            return restart(due.map(\.entity), at: moment, &effects)
        }
        cycle?.reading = reading
        goOnReading(at: moment, &effects)
    }

    /// Returns whether a full comparison may run. It waits for an unmetered link and ample power; after its hard limit it runs in any case.
    private func mayCompare(_ fullSync: StreamPosition.FullSync) -> Bool {
        switch fullSync {
        case .notDue: false
        case .due: conditions.uplink?.isMetered != true && conditions.power == .ample
        case .overdue: true
        }
    }

    /// Reads the next page of a listing; when there is none, the feeds.
    mutating func goOnReading(at moment: Moment, _ effects: inout [SyncEffect]) {
        while let next = cycle?.reading.listings.first {
            guard mayPull(next.entity, at: moment), let listing = next.listing else {
                cycle?.reading.listings.removeFirst()
                continue
            }
            let request = SnapshotRequest(
                entity: next.entity, after: listing.after, limit: sizes.listedRecords(announced: hub.pullRecords), buckets: listing.buckets,
                namesUnreadable: hub.namesUnreadable, maxBytes: pace.down.bytes)
            let content = CallContent(query: SnapshotMessages.query(request))
            return send(.snapshot, content, at: moment, &effects) { .listing(next, call: $0) }
        }
        let feeds = cycle?.reading.feeds ?? []
        cycle?.reading.feeds = []
        feeds.isEmpty ? compare(at: moment, &effects) : pull(feeds, at: moment, &effects)
    }

    mutating func listed(
        _ page: SnapshotPage, _ asked: StreamPosition, at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        try check(page, of: asked.entity, after: asked.listing?.after, only: asked.listing?.buckets)
        var page = page
        noteListed(page, &effects)
        if let leftOut = durable.recordLeftOut(page, of: asked.listing) {
            page.leftOut = leftOut
            tellLeftOut(&effects)
        }
        endTrial(&effects)
        // Everything up to here is known only when the feed has been read from the listing's beginning.
        hub.forgetReadHead()
        advance(to: .applyingSnapshot)
        page.standing = stand(at: page.startVersion)
        effects.append(.store(.applySnapshot(page)))
    }

    /// Records that a page of a listing was read.
    mutating func noteListed(_ page: SnapshotPage, _ effects: inout [SyncEffect]) {
        cycle?.badReads = 0
        cycle?.received += page.records.count + page.unreadable.count
        release(page.entity, by: .listing, &effects)
    }

    /// Checks that a page continues the listing that was asked for.
    ///
    /// - Parameters:
    ///   - before: The last id of the page before this one.
    ///   - buckets: Requested buckets; `nil` means all.
    func check(
        _ page: SnapshotPage, of entity: EntityName, after before: RecordID?, only buckets: [UInt8]? = nil
    ) throws(ReplyError) {
        guard page.entity == entity else { throw ReplyError("/entity", "the entity that was asked for") }
        guard page.records.count + page.unreadable.count <= Limits.pullRecordsMax * 2 else {
            throw ReplyError("/records", "at most \(Limits.pullRecordsMax * 2) records in a page")
        }
        // The ids must rise: a listing that does not move would never end, and one that goes back would hide removed records.
        var last = before
        for (index, item) in page.records.enumerated() {
            if let last, item.id <= last { throw ReplyError("/records/\(index)/id", "an id after \(last)") }
            if let buckets, !buckets.contains(EntityDigest.bucket(of: item.id)) {
                throw ReplyError("/records/\(index)/id", "an id of the buckets that were asked for")
            }
            last = item.id
        }
        try check(page.unreadable, of: page, after: before, only: buckets)
        if let named = page.unreadable.last, last.map({ $0 < named }) ?? true { last = named }
        if page.hasMore, let after = page.after {
            if let before, after <= before { throw ReplyError("/after", "an id after \(before)") }
            if let last, after < last { throw ReplyError("/after", "no id before \(last)") }
        }
    }

    /// Checks that unreadable ids belong to this page; otherwise a removed record would be kept for ever.
    private func check(
        _ unreadable: [RecordID], of page: SnapshotPage, after before: RecordID?, only buckets: [UInt8]?
    ) throws(ReplyError) {
        guard !unreadable.isEmpty else { return }
        let listed = Set(page.records.map(\.id))
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

    mutating func listed(
        _ summary: PullSummary, _ position: StreamPosition, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        cycle?.outcome.pulled += summary.upserts + summary.deletions
        cycle?.pages += 1
        if !summary.massDeletes.isEmpty { effects.append(.report(.massDelete(summary.massDeletes))) }
        cycle?.reading.listings.removeAll { $0.entity == position.entity }
        if position.listing != nil {
            cycle?.reading.listings.insert(position, at: 0)
        } else {
            cycle?.reading.feeds.append(position)
        }
        if pressure.isQuiet { return goOnLater(at: moment, &effects) }
        if hasReadEnough(at: moment) { return push(at: moment, &effects) }
        goOnReading(at: moment, &effects)
    }

    /// Returns whether reading goes on in the next cycle, because local changes must not wait without limit behind a huge backlog.
    mutating func hasReadEnough(at moment: Moment) -> Bool {
        guard (cycle?.pages ?? 0) >= Limits.pullPagesPerCycle || isOverBudget(at: moment) else { return false }
        pressure.wish(.again(at: goOnReadingAt(moment)), at: moment.instant)
        return true
    }

    // MARK: Comparing

    /// Runs the due comparisons with the hub after the last page of all feeds.
    mutating func compare(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard let next = cycle?.reading.comparisons.first else {
            if cycle?.reading.hasDifferences == true {
                cycle?.reading.hasDifferences = false
                return loadStreams(&effects)
            }
            return push(at: moment, &effects)
        }
        guard mayPull(next.entity, at: moment), !isOverBudget(at: moment), !pressure.isQuiet else {
            return push(at: moment, &effects)
        }
        cycle?.reading.comparisons.removeFirst()
        advance(to: .digesting(next))
        effects.append(.store(.digest(next.entity)))
    }

    mutating func compare(
        _ position: StreamPosition, _ digest: EntityDigest, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        let request = VerifyRequest(entity: position.entity, cursor: position.cursor ?? "", digest: digest)
        send(.verify, CallContent(body: VerifyMessages.request(request)), at: moment, &effects) { .verifying(position, call: $0) }
    }

    mutating func compared(
        _ answer: VerifyResponse, _ position: StreamPosition, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        _ = readings.uncompared.release(position.entity, by: .end)
        cycle?.badReads = 0
        if !answer.differs.isEmpty { cycle?.reading.hasDifferences = true }
        effects.append(.report(.compared(position.entity, differing: answer.differs.count)))
        advance(to: .recordingComparison)
        effects.append(.store(.noteVerified(position.entity, differs: answer.differs)))
    }
}
