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
