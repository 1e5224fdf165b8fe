import SyncCore

extension Feed {
    /// The rows for a page of a listing.
    struct Listed {
        /// Up to one more than the page may hold.
        var rows: [HubStore.RecordRow] = []
        /// Last record of an incomplete search, which stopped because few rows matched; more may come after.
        var searchedTo: RecordID?
    }

    /// Largest number of documents that are read for one page, however few match: no request delays the others for long.
    private static let searchedMax = 4 * Limits.pullRecordsMax
    /// The text in quotation marks, unless it may be a number, `true` or `false`. Without them, the records of gw-10 to gw-19 would pass
    /// for those of gw-1, and fill the search.
    private static func spelled(_ text: String) -> String {
        let isString = text.utf8.contains { !number.contains($0) } && !sameBytes(text, "true") && !sameBytes(text, "false")
        return isString ? "\"\(text)\"" : text
    }

    private static let number = Set("0123456789-.eE".utf8)

    /// Live records of the device's share, by id.
    private func rows(of entity: EntityName, after: RecordID?, limit: Int) throws(DatabaseError) -> [HubStore.RecordRow] {
        guard let scopes = scopes(of: entity) else { return try store.listing(entity, after: after, limit: limit) }
        var rows: [HubStore.RecordRow] = []
        var place = after
        // Fewer rows than asked for would be the end of the listing, so records that only share a code are made up for.
        while rows.count < limit {
            let ids = try store.scopeListing(entity, scopes.codes, after: place, limit: limit)
            let found = try store.records(entity, ids)
            rows += ids.compactMap { id in found[id].flatMap { isShown($0) ? $0 : nil } }
            guard ids.count == limit, let last = ids.last else { break }
            place = last
        }
        return Array(rows.prefix(limit))
    }

    /// The rows of a page, and one more if it exists.
    func listing(_ request: SnapshotRequest, for device: DeviceID) throws(DatabaseError) -> Listed {
        let buckets = request.buckets.map { Set($0) }
        let filter = request.isSeed ? rules[request.entity]?.seedFilter : nil
        if buckets == nil, filter?.isEmpty ?? true {
            return Listed(rows: try rows(of: request.entity, after: request.after, limit: request.limit + 1))
        }
        // Few records of an entity without scopes may match, so the database leaves out those that cannot.
        let text = scopes(of: request.entity) == nil ? filter?.text(for: device).map(Self.spelled) : nil
        var found = Listed(searchedTo: request.after)
        var searched = 0
        var pace = SearchPace()
        while searched < Self.searchedMax, found.rows.count <= request.limit {
            let part: [HubStore.RecordRow]
            if let text {
                guard let bounds = pace.next else { break }
                let start = time?.now().instant
                let look = try store.listing(
                    request.entity, after: found.searchedTo, containing: text, within: bounds, limit: Limits.pullRecordsMax)
                let elapsed = start.flatMap { start in time.map { start.duration(to: $0.now().instant) } }
                // A part that has ended with its last row is no measure of what follows.
                pace.record(documents: look.rows.count < Limits.pullRecordsMax ? look.documents : nil, elapsed: elapsed ?? .zero)
                (part, found.searchedTo) = (look.rows, look.searchedTo)
            } else {
                part = try rows(of: request.entity, after: found.searchedTo, limit: Limits.pullRecordsMax)
                found.searchedTo = part.count == Limits.pullRecordsMax ? part.last?.id : nil
            }
            found.rows += part.filter { row in
                (buckets?.contains(EntityDigest.bucket(of: row.id)) ?? true)
                    // A damaged record is on the page, which names it or is refused.
                    && (row.whole.map { filter?.matches($0.data ?? [:], for: device) ?? true } ?? true)
            }
            searched += part.count
            if found.searchedTo == nil { break }
        }
        // Rows beyond the page are searched again later, after its last record.
        if found.rows.count > request.limit {
            found.rows = Array(found.rows.prefix(request.limit + 1))
            found.searchedTo = nil
        }
        return found
    }
}
