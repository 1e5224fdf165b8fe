/// `POST /v1/sync/pull`, both directions (PROTOCOL A3).
package enum PullMessages {
    package static func request(_ request: PullRequest) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.name("streams")
            writer.array { writer in
                for stream in request.streams {
                    writer.object { writer in
                        writer.member("entity", stream.entity.text)
                        writer.name("cursor")
                        if let cursor = stream.cursor { writer.string(cursor) } else { writer.null() }
                    }
                }
            }
            writer.member("limit", Int64(request.limit))
            writer.member("max_bytes", Int64(request.maxBytes))
            writer.member("max_sent_seq", request.maxSentSeq)
            if request.namesUnreadable { writer.member("unreadable", UnreadableRecords.named) }
            if request.namesEntities { writer.member("entities", EntityList.named) }
        }
        return writer.bytes
    }

    package static func response(_ response: PullResponse) -> [UInt8] {
        var writer = JSONWriter(capacity: 4096)
        writer.object { writer in
            writer.member("epoch", response.epoch)
            writer.member("head", response.head)
            writer.name("streams")
            writer.array { writer in
                for page in response.pages { page.write(to: &writer) }
            }
            if !response.errors.isEmpty {
                writer.name("errors")
                writer.array { writer in
                    for error in response.errors {
                        writer.object { writer in
                            writer.member("entity", error.entity.text)
                            writer.member("problem", error.problem.json(prefix: Problem.hubPrefix))
                        }
                    }
                }
            }
            EntityList.write(response.entities, to: &writer)
        }
        return writer.bytes
    }

    /// Reads an answer strictly: any invalid part refuses the whole answer, and nothing is applied.
    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> PullResponse {
        let response = try readStreams(body) { error throws(ReplyError) in throw error }
        return response
    }

    /// Reads an answer so that an invalid stream spoils only itself: it becomes a ``StreamError`` that ``StreamError/isUnreadable``, with
    /// the place and the reason. No part of such a page may be used, not even the records before the bad one: the cursor belongs to the
    /// whole page.
    ///
    /// - Throws: When the stream of an invalid page is unknown, or the frame of the answer is broken.
    package static func readStreams(_ body: [UInt8]) throws(ReplyError) -> PullResponse {
        try readStreams(body) { _ in }
    }

    private static func readStreams(
        _ body: [UInt8], onUnreadable: (ReplyError) throws(ReplyError) -> Void
    ) throws(ReplyError) -> PullResponse {
        let object = try ReplyReader.object(body)
        let head = try ReplyReader.version(object["head"], "/head")
        guard let streams = object["streams"]?.array else { throw ReplyError("/streams", "an array") }
        var pages: [StreamPage] = []
        var errors: [StreamError] = []
        for (index, json) in streams.enumerated() {
            let place = "/streams/\(index)"
            let entity = try StreamPage.readEntity(json, at: place)
            do throws(ReplyError) {
                pages.append(try StreamPage.read(json, at: place))
            } catch {
                try onUnreadable(error)
                errors.append(.unreadable(entity, error, in: json))
            }
        }
        for (index, json) in try ReplyReader.list(object["errors"], "/errors").enumerated() {
            guard let entity = json.object?["entity"]?.text.flatMap({ EntityName($0) }),
                let problem = json.object?["problem"], problem.object != nil
            else { throw ReplyError("/errors/\(index)", "an object with entity and problem") }
            errors.append(StreamError(entity: entity, problem: Problem(problem)))
        }
        var response = PullResponse(
            epoch: try ReplyReader.optionalText(object["epoch"], "/epoch"), head: head, pages: pages, errors: errors)
        response.entities = try EntityList.read(object["entities"], "/entities")
        return response
    }
}

package struct PullRequest: Hashable, Sendable {
    package var streams: [StreamPosition]
    /// Number of records and deletions together, over all streams.
    package var limit: Int
    /// Soft cap on the uncompressed answer.
    package var maxBytes: Int
    package var maxSentSeq: Int64
    /// The caller understands ``StreamPage/unreadable``.
    package var namesUnreadable: Bool
    /// The caller wants the names of the entities (``EntityList``).
    package var namesEntities = false

    package init(streams: [StreamPosition], limit: Int, maxBytes: Int, maxSentSeq: Int64, namesUnreadable: Bool = false) {
        self.namesUnreadable = namesUnreadable
        self.streams = streams
        self.limit = limit
        self.maxBytes = maxBytes
        self.maxSentSeq = maxSentSeq
    }
}

package struct PullResponse: Hashable, Sendable {
    package var epoch: String?
    package var head: Int64
    package var pages: [StreamPage]
    package var errors: [StreamError]
    /// All entities that the hub has for the device; `nil` when they were not requested.
    package var entities: [EntityName]?
    /// The hub's position from the headers, stored with the pages. Not in the body.
    package var standing: HubStanding?
    /// The versions of the hub's schemas, where records are shown in an older one. Not in the body.
    package var newerSchemas: SchemaNumbers?
    /// All records that are left out now, if these pages have changed them: stored with the pages, because the hub does not repeat them.
    package var leftOut: LeftOutRecords?
    /// ``EngineMemory/writtenUnder``, stored with the pages; `nil`: as it is stored. Not in the body.
    package var writtenUnder: Set<String>?

    package init(epoch: String?, head: Int64, pages: [StreamPage], errors: [StreamError] = []) {
        self.epoch = epoch
        self.head = head
        self.pages = pages
        self.errors = errors
    }
}

/// A section of one entity's feed.
package struct StreamPage: Hashable, Sendable {
    package struct Record: Hashable, Sendable {
        package var id: RecordID
        package var record: HubRecord
        package var originDevice: String?
        package var originKey: String?
        package var originAuthor: String?
        /// The id and version in a backend that has its own: the store derives ours from it.
        package var mark: RestMark?

        package init(
            id: RecordID, record: HubRecord, originDevice: String? = nil, originKey: String? = nil,
            originAuthor: String? = nil
        ) {
            self.originAuthor = originAuthor
            self.id = id
            self.record = record
            self.originDevice = originDevice
            self.originKey = originKey
        }
    }

    package struct Deletion: Hashable, Sendable {
        package var id: RecordID
        package var version: Int64
        /// `revoked` when the device may no longer see the record.
        package var reason: String?
        package var isRevoked: Bool { reason == Problem.revoked }
        /// Author and time of the deletion, for people; a server may leave them out.
        package var hlc: String?
        package var originDevice: String?
        package var originAuthor: String?

        package init(
            id: RecordID, version: Int64, reason: String? = nil, hlc: String? = nil, originDevice: String? = nil,
            originAuthor: String? = nil
        ) {
            self.id = id
            self.version = version
            self.reason = reason
            self.hlc = hlc
            self.originDevice = originDevice
            self.originAuthor = originAuthor
        }
    }

    package var entity: EntityName
    /// Cursor for the next pull of this entity.
    package var cursor: String
    package var hasMore: Bool
    package var records: [Record]
    package var deletions: [Deletion]
    /// Number of live records of the entity, on the first page of a first sync: for the progress that people see.
    package var total: Int64?
    /// Records that changed in this section and that the server itself cannot read. They are neither deleted nor unchanged.
    package var unreadable: [RecordID] = []
    /// Marks of the deletions, in their order, if they come from a backend with its own ids.
    package var marks: [RestMark] = []
    /// The highest time of change on the page if it lies in the future, as an existing backend wrote it (``RestCursor``).
    package var ahead: String?

    package init(
        entity: EntityName, cursor: String, hasMore: Bool, records: [Record], deletions: [Deletion], total: Int64? = nil
    ) {
        self.total = total
        self.entity = entity
        self.cursor = cursor
        self.hasMore = hasMore
        self.records = records
        self.deletions = deletions
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("entity", entity.text)
            writer.member("cursor", cursor)
            writer.member("has_more", hasMore)
            writer.member("total", total)
            writer.name("records")
            writer.array { writer in
                for item in records { item.write(to: &writer) }
            }
            writer.name("deletions")
            writer.array { writer in
                for item in deletions { item.write(to: &writer) }
            }
            UnreadableRecords.write(unreadable, to: &writer)
        }
    }

    static func readEntity(_ json: JSON, at pointer: String) throws(ReplyError) -> EntityName {
        guard let object = json.object else { throw ReplyError(pointer, "an object") }
        guard let entity = object["entity"]?.text.flatMap({ EntityName($0) }) else {
            throw ReplyError(pointer + "/entity", "an entity")
        }
        return entity
    }

    static func read(_ json: JSON, at pointer: String) throws(ReplyError) -> StreamPage {
        let entity = try readEntity(json, at: pointer)
        let object = json.object ?? [:]
        guard let cursor = object["cursor"]?.text, !cursor.isEmpty, cursor.utf8.count <= Limits.cursorBytes else {
            throw ReplyError(pointer + "/cursor", "a string of 1 to \(Limits.cursorBytes) bytes")
        }
        guard let hasMore = object["has_more"]?.bool else { throw ReplyError(pointer + "/has_more", "true or false") }
        var records: [Record] = []
        for (index, json) in try ReplyReader.list(object["records"], pointer + "/records").enumerated() {
            records.append(try Record.read(json, at: pointer + "/records/\(index)"))
        }
        var deletions: [Deletion] = []
        for (index, json) in try ReplyReader.list(object["deletions"], pointer + "/deletions").enumerated() {
            deletions.append(try Deletion.read(json, at: pointer + "/deletions/\(index)"))
        }
        var page = StreamPage(
            entity: entity, cursor: cursor, hasMore: hasMore, records: records, deletions: deletions,
            total: object["total"]?.int.map { max(0, $0) })
        page.unreadable = try UnreadableRecords.read(object["unreadable"], pointer + "/unreadable")
        return page
    }
}

extension StreamPage.Deletion {
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", id.text)
            writer.member("version", version)
            writer.member("reason", reason)
            writer.member("hlc", hlc)
            guard let originDevice else { return }
            writer.name("origin")
            writer.object { writer in
                writer.member("device", originDevice)
                writer.member("author", originAuthor)
            }
        }
    }

    static func read(_ json: JSON, at place: String) throws(ReplyError) -> StreamPage.Deletion {
        guard let id = json.object?["id"]?.text.flatMap({ RecordID($0) }) else {
            throw ReplyError(place + "/id", "a record id")
        }
        let origin = json.object?["origin"]?.object
        return StreamPage.Deletion(
            id: id, version: try ReplyReader.version(json.object?["version"], place + "/version"),
            reason: json.object?["reason"]?.text, hlc: json.object?["hlc"]?.text, originDevice: origin?["device"]?.text,
            originAuthor: origin?["author"]?.text)
    }
}

extension StreamPage.Record {
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", id.text)
            writer.member("version", record.version)
            writer.member("hlc", record.hlc)
            if let stamps = record.fieldHLC, !stamps.isEmpty { writer.member("field_hlc", JSON.object(stamps)) }
            if let origins = record.fieldOrigins, !origins.isEmpty { writer.member("field_origin", JSON.object(origins)) }
            if let originDevice {
                writer.name("origin")
                writer.object { writer in
                    writer.member("device", originDevice)
                    writer.member("key", originKey)
                    writer.member("author", originAuthor)
                }
            }
            writer.name("data")
            writer.value(record.data)
        }
    }

    static func read(_ json: JSON, at place: String) throws(ReplyError) -> StreamPage.Record {
        guard let id = json.object?["id"]?.text.flatMap({ RecordID($0) }) else {
            throw ReplyError(place + "/id", "a record id")
        }
        let origin = json.object?["origin"]?.object
        return StreamPage.Record(
            id: id, record: try HubRecord.read(json, at: place), originDevice: origin?["device"]?.text,
            originKey: origin?["key"]?.text, originAuthor: origin?["author"]?.text)
    }
}

package struct StreamError: Hashable, Sendable {
    package var entity: EntityName
    package var problem: Problem

    package init(entity: EntityName, problem: Problem) {
        self.entity = entity
        self.problem = problem
    }

    /// The code of an error that the reader of an answer found, not the hub.
    package static let unreadable = "unreadable"

    /// `true` when the hub's data of this stream is invalid.
    package var isUnreadable: Bool { problem.code == Self.unreadable }

    /// - Parameter page: The page as received; the error names the record if its id can be read.
    static func unreadable(_ entity: EntityName, _ error: ReplyError, in page: JSON) -> StreamError {
        var detail = "\(error)"
        // `/streams/0/records/3/version`
        let parts = error.pointer.split(separator: "/")
        if parts.count >= 4, let index = Int(parts[3]), let items = page.object?[String(parts[2])]?.array, items.indices.contains(index),
            let id = items[index].object?["id"]?.idText
        {
            detail += " (record \(Printable.text(id, max: 80)))"
        }
        return StreamError(entity: entity, problem: Problem(Self.unreadable, status: 0, detail: detail))
    }

    /// `true` when the cursor is too old, of another history, or made under other scopes: this feed must be read from the beginning.
    package var isExpired: Bool { problem.status == 410 || problem.code.hasSuffix("-expired") }
}
