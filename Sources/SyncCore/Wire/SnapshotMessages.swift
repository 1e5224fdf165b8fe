/// `GET /v1/sync/snapshot`, both directions (PROTOCOL A8): the live records of one entity by id, a page at a time.
package enum SnapshotMessages {
    package static func readQuery(_ query: HubQuery) throws(Problem) -> SnapshotRequest {
        var after: RecordID?
        if let text = query["after"], !text.isEmpty {
            guard let id = RecordID(text) else { throw HubQuery.malformed("after", "a record id") }
            after = id
        }
        let filter = query["filter"] ?? ""
        guard filter.isEmpty || filter == seed else { throw HubQuery.malformed("filter", "\(seed), or no filter") }
        return SnapshotRequest(
            entity: try query.entity(), after: after, limit: try query.limit(), buckets: try readBuckets(query["bucket"]),
            isSeed: filter == seed, namesUnreadable: query["unreadable"] == UnreadableRecords.named, maxBytes: try query.maxBytes())
    }

    private static let seed = "seed"

    /// Reads `7` or `7,203`: only records whose ids are in these buckets (``EntityDigest``).
    private static func readBuckets(_ text: String?) throws(Problem) -> [UInt8]? {
        guard let text, !text.isEmpty else { return nil }
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        let buckets = parts.prefix(EntityDigest.buckets).compactMap { UInt8($0) }
        guard buckets.count == parts.count else { throw HubQuery.malformed("bucket", "numbers from 0 to 255, with commas") }
        return buckets
    }

    /// The query of a request, without its question mark. It needs no escaping: ids are `[A-Za-z0-9._:-]`.
    package static func query(_ request: SnapshotRequest) -> String {
        var text = "entity=\(request.entity)&limit=\(request.limit)"
        if let after = request.after { text += "&after=\(after)" }
        if let buckets = request.buckets { text += "&bucket=" + buckets.map { String($0) }.joined(separator: ",") }
        if request.isSeed { text += "&filter=\(seed)" }
        if request.namesUnreadable { text += "&unreadable=\(UnreadableRecords.named)" }
        if request.maxBytes < Limits.pullBytes { text += "&max_bytes=\(request.maxBytes)" }
        return text
    }

    package static func response(_ page: SnapshotPage) -> [UInt8] {
        var writer = JSONWriter(capacity: 4096)
        writer.object { writer in
            writer.member("entity", page.entity.text)
            writer.name("start")
            writer.object { writer in
                writer.member("cursor", page.startCursor)
                writer.member("version", page.startVersion)
            }
            writer.name("records")
            writer.array { writer in
                for record in page.records { record.write(to: &writer) }
            }
            UnreadableRecords.write(page.unreadable, to: &writer)
            writer.member("after", page.after?.text)
            writer.member("has_more", page.hasMore)
            writer.member("total", page.total)
            writer.member("deleted_total", page.deletedTotal)
            writer.member("scopes", page.share?.json)
        }
        return writer.bytes
    }

    /// Reads an answer strictly: any invalid part refuses the whole answer, and nothing is applied.
    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> SnapshotPage {
        let object = try ReplyReader.object(body)
        guard let entity = object["entity"]?.text.flatMap({ EntityName($0) }) else {
            throw ReplyError("/entity", "an entity")
        }
        let start = object["start"]?.object ?? [:]
        guard let cursor = start["cursor"]?.text, !cursor.isEmpty, cursor.utf8.count <= Limits.cursorBytes else {
            throw ReplyError("/start/cursor", "a string of 1 to \(Limits.cursorBytes) bytes")
        }
        guard let list = object["records"]?.array else { throw ReplyError("/records", "an array") }
        guard let hasMore = object["has_more"]?.bool else { throw ReplyError("/has_more", "true or false") }
        var records: [StreamPage.Record] = []
        for (index, json) in list.enumerated() { records.append(try StreamPage.Record.read(json, at: "/records/\(index)")) }
        var after: RecordID?
        if let text = try ReplyReader.optionalText(object["after"], "/after") {
            guard let id = RecordID(text) else { throw ReplyError("/after", "a record id") }
            after = id
        }
        if hasMore, after == nil { throw ReplyError("/after", "the id where the next page goes on") }
        var page = SnapshotPage(
            entity: entity, startCursor: cursor, startVersion: try ReplyReader.version(start["version"], "/start/version"),
            records: records, after: after, hasMore: hasMore, total: object["total"]?.int.map { max(0, $0) })
        page.unreadable = try UnreadableRecords.read(object["unreadable"], "/unreadable")
        page.deletedTotal = object["deleted_total"]?.int.map { max(0, $0) }
        page.share = EntityShare(object["scopes"])
        return page
    }
}

package struct SnapshotRequest: Hashable, Sendable {
    package var entity: EntityName
    /// The last id of the page before; `nil` for the first page.
    package var after: RecordID?
    package var limit: Int
    /// Only the records of these buckets; `nil` means all.
    package var buckets: [UInt8]?
    /// Only the records that the entity's ``SeedFilter`` matches.
    package var isSeed: Bool
    /// The caller understands ``SnapshotPage/unreadable``.
    package var namesUnreadable: Bool
    /// Bytes of records after which the page ends; at least one record is on it. Older hubs ignore it.
    package var maxBytes: Int

    package init(
        entity: EntityName, after: RecordID?, limit: Int, buckets: [UInt8]? = nil, isSeed: Bool = false, namesUnreadable: Bool = false,
        maxBytes: Int = Limits.pullBytes
    ) {
        self.maxBytes = maxBytes
        self.namesUnreadable = namesUnreadable
        self.isSeed = isSeed
        self.entity = entity
        self.after = after
        self.limit = limit
        self.buckets = buckets
    }
}

package struct SnapshotPage: Hashable, Sendable {
    package var entity: EntityName
    /// Cursor at which the feed continues after the listing. Only the one of the *first* page counts: any later one would miss a change
    /// that was made while the listing ran.
    package var startCursor: String
    package var startVersion: Int64
    package var records: [StreamPage.Record]
    /// Records of this page that the server stores and cannot read. They are not deleted.
    package var unreadable: [RecordID] = []
    /// `after` of the next request; `nil` when no record came.
    package var after: RecordID?
    package var hasMore: Bool
    /// Number of live records of the entity, for the progress that people see; `nil` when the hub does not report it.
    package var total: Int64?
    /// Number of deleted records of the entity over this history of the hub; on the first page of a listing of all. `nil` when the hub does
    /// not report it.
    package var deletedTotal: Int64?
    /// The scopes of the device under which all pages were made; on the last page of a listing. `nil` when the hub does not tell them.
    package var share: EntityShare?
    /// `true` for the records that a new device needs first, `false` for a part of the listing. Not in the answer; the caller knows it.
    package var isSeed = false
    /// The hub's position from the headers, stored with the records. Not in the body.
    package var standing: HubStanding?
    /// The mark of the device's scopes under which the hub made this page (`Sync-Scopes`); `nil` from a hub without scopes. Not in the
    /// body.
    package var shareMark: String?
    /// The versions of the hub's schemas, where records are shown in an older one. Not in the body.
    package var newerSchemas: SchemaNumbers?
    /// All records that are left out now, if these pages have changed them: stored with the pages, because the hub does not repeat them.
    package var leftOut: LeftOutRecords?

    package init(
        entity: EntityName, startCursor: String, startVersion: Int64, records: [StreamPage.Record], after: RecordID?,
        hasMore: Bool, total: Int64? = nil
    ) {
        self.total = total
        self.entity = entity
        self.startCursor = startCursor
        self.startVersion = startVersion
        self.records = records
        self.after = after
        self.hasMore = hasMore
    }
}
