// The order of the first reads of a new device (PROTOCOL A8): reference data, then the records that pass the seed filters, then everything.
extension SyncEngine {
    /// Asks for the next part of the seed.
    ///
    /// - Returns: `true` when there is any.
    mutating func seed(from wanted: [StreamPosition], at moment: Moment, _ effects: inout [SyncEffect]) -> Bool {
        func isNew(_ stream: StreamPosition) -> Bool { stream.listing == nil && stream.cursor == nil }
        guard let next = wanted.first(where: { $0.seed != nil && isNew($0) }) else { return false }
        let references = wanted.filter { $0.isReference && isNew($0) }
        // They are read once in a cycle, so that an unreadable one delays nothing else.
        if !references.isEmpty, cycle?.hasReadReferences != true {
            cycle?.hasReadReferences = true
            cycle?.readsReferences = true
            pull(references, at: moment, &effects)
            return true
        }
        let request = SnapshotRequest(
            entity: next.entity, after: next.seed?.after, limit: sizes.listedRecords(announced: hub.pullRecords), isSeed: true,
            namesUnreadable: hub.namesUnreadable, maxBytes: pace.down.bytes)
        send(.snapshot, CallContent(query: SnapshotMessages.query(request)), at: moment, &effects) { .seeding(next, call: $0) }
        return true
    }

    mutating func referencesRead(at moment: Moment, _ effects: inout [SyncEffect]) {
        cycle?.readsReferences = false
        goOnSeeding(at: moment, &effects)
    }

    mutating func seeded(
        _ page: SnapshotPage, _ asked: StreamPosition, at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        try check(page, of: asked.entity, after: asked.seed?.after)
        var page = page
        page.isSeed = true
        noteListed(page, &effects)
        endTrial(&effects)
        advance(to: .applyingSeed)
        page.standing = stand(at: page.startVersion)
        effects.append(.store(.applySnapshot(page)))
    }

    mutating func seeded(_ summary: PullSummary, at moment: Moment, _ effects: inout [SyncEffect]) {
        cycle?.outcome.pulled += summary.upserts
        cycle?.pages += 1
        goOnSeeding(at: moment, &effects)
    }

    /// Loads the next streams from the store, if the hub may be asked for more.
    private mutating func goOnSeeding(at moment: Moment, _ effects: inout [SyncEffect]) {
        if pressure.isQuiet { return goOnLater(at: moment, &effects) }
        if hasReadEnough(at: moment) { return push(at: moment, &effects) }
        loadStreams(&effects)
    }
}
