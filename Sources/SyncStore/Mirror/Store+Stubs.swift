package import SyncCore
import SyncSQLite

// Documents that this device drops to save space (PROTOCOL C9, ``KeepRule``). A stub stays of such a record: its id, its version, and the
// checksum of the document. With these the comparison with the hub agrees, a listing of the same version changes nothing, and the etag that
// apps have stays valid. A new version of the record brings a document again.

/// Position of the sweep for documents to drop. It is in memory only: after a restart the sweep begins again.
struct DocumentSweep: Hashable {
    struct Place: Hashable {
        var entity: EntityName
        /// The last record that was read; empty at the beginning.
        var after = ""
    }

    /// `nil` between two rounds.
    var place: Place?
    /// Time of the next round, on the age clock.
    var nextAge = Int64.min
}

extension Store {
    /// Documents that one slice drops.
    static let droppedMax = 500
    /// Records and bytes of documents that one slice reads.
    private static let readMax = (records: 10_000, bytes: 1 << 20)
    /// Rules count in days, so a round a day is enough.
    private static let roundEvery: Duration = .seconds(86_400)

    /// Does one slice of a round through the entities that have a rule: it drops the documents that are old enough and match.
    ///
    /// Invariant: a record with open work keeps its document, and so does one that waits for an operator, or that shows a file whose bytes
    /// are not at the hub.
    ///
    /// - Returns: `true` when the round is not over.
    func dropDocuments() throws(StoreError) -> Bool {
        let entities = rules.entities.filter { $0.value.keep != nil && names.entities[$0.key] != nil }.keys.sorted()
        // A backend would list every document again.
        guard rest == nil, !entities.isEmpty, sweep.documents.place != nil || age >= sweep.documents.nextAge else { return false }
        let first = sweep.documents.place ?? DocumentSweep.Place(entity: entities[0])
        guard let entity = entities.first(where: { $0 >= first.entity }), let rule = rules[entity]?.keep, let eid = names.entities[entity]
        else {
            sweep.documents = DocumentSweep(place: nil, nextAge: age.saturatingAdd(Self.roundEvery.milliseconds))
            return false
        }
        let place = entity == first.entity ? first : DocumentSweep.Place(entity: entity)
        let found = try readDocuments(eid, after: place.after, rule)
        for rid in found.undated { try database.run("UPDATE record SET changed_age = ? WHERE rid = ?", .int(age), .int(rid)) }
        for row in found.old where try !showsWaitingFile(RecordName(entity, RecordID(trusted: row.id))) {
            var row = row
            try row.dropDocument(in: database)
            try save(&row)
        }
        if let last = found.last {
            sweep.documents.place = DocumentSweep.Place(entity: entity, after: last)
            return true
        }
        let next = entities.first { $0 > entity }
        sweep.documents.place = next.map { DocumentSweep.Place(entity: $0) }
        if next == nil { sweep.documents.nextAge = age.saturatingAdd(Self.roundEvery.milliseconds) }
        return next != nil
    }

    private struct FoundDocuments {
        /// Records whose documents may go.
        var old: [MirrorRow] = []
        /// Records of a database of an earlier version. It did not note when they had changed, so they count as changed now.
        var undated: [Int64] = []
        /// The last record that was read; `nil` at the end of the entity.
        var last: String?
    }

    private func readDocuments(_ eid: Int64, after id: String, _ rule: KeepRule) throws(StoreError) -> FoundDocuments {
        var found = FoundDocuments()
        var count = 0, bytes = 0
        func goesOn() -> Bool { found.old.count < Self.droppedMax && count < Self.readMax.records && bytes < Self.readMax.bytes }
        try database.each("SELECT * FROM record WHERE eid = ? AND id > ? ORDER BY id", .int(eid), .text(id), while: goesOn) {
            statement throws(StoreError) in
            let row = MirrorRow(statement)
            (found.last, count, bytes) = (row.id, count + 1, bytes + row.documentBytes)
            guard row.isSettled(ablations: options.ablations) else { return }
            guard let changed = row.changedAge else { return found.undated.append(row.rid) }
            guard rule.isOver(changedAt: changed, now: age), let document = row.parsedBase.known else { return }
            let isForgotten = options.ablations.contains(.keepIgnored) || rule.forgets(document, changedAt: changed, now: age)
            if isForgotten { found.old.append(row) }
        }
        if goesOn() { found.last = nil }
        return found
    }

    /// Returns whether the record shows a file whose upload has not ended.
    private func showsWaitingFile(_ name: RecordName) throws(StoreError) -> Bool {
        try database.number(
            "SELECT 1 FROM blob_link l JOIN blob b ON b.bid = l.bid WHERE l.entity = ? AND l.id = ? AND b.state <> 1 LIMIT 1",
            .text(name.entity.text), .text(name.id.text)) != nil
    }

    // MARK: - Fetching

    /// Takes in the document of a record that was not kept, as the hub shows it now. It ages again from now on.
    ///
    /// A record that has got its document or open work meanwhile stays as it is, and so does one that the hub shows in an older version.
    package func bringBack(_ item: StreamPage.Record, of entity: EntityName, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let eid = names.entities[entity] else { return }
            guard let row = try MirrorRow.find(database, eid: eid, id: item.id.text) else {
                var summary = PullSummary()
                if options.ablations.contains(.revokedBroughtBack) { try apply([item], eid: eid, listing: nil, &summary) }
                return
            }
            let isMissed = row.isNotKept && item.record.version >= row.baseVersion
            guard !row.isDamaged, row.status == .synced, isMissed || options.ablations.contains(.olderBroughtBack) else { return }
            var records = TouchedRecords()
            try touch(row.rid, &records)
            try applyRemote(RemoteSide(item.record, device: item.originDevice, author: item.originAuthor), of: row.rid, &records)
            records[row.rid]?.changedAge = age
            try finish(records)
        }
    }
}

extension MirrorRow {
    /// `true` when the document is the hub's, and no change or decision is open.
    fileprivate func isSettled(ablations: Ablations) -> Bool {
        (status == .synced || ablations.contains(.openWorkDropped)) && base != nil && !isDeleted && baseVersion > 0 && gen >= 0
            && !isDamaged
    }
}
