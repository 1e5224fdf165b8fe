package import SyncCore

/// A record of the mirror as an answer. Documents are inserted as stored and are not parsed again.
package struct RecordAnswer: Hashable, Sendable {
    package var name: RecordName
    package var serverID: String?
    package var version: Int64
    package var status: String
    package var isDeleted: Bool
    /// JSON text; `nil` when the record does not exist in this view.
    package var data: String?
    /// JSON text of the hub's document, only for `view=both`.
    package var base: String?
    package var syncedAt: Timestamp?
    /// Time at which this device first had the record.
    package var createdAt: Timestamp?
    package var updatedAt: Timestamp?
    package var pending: [String]
    /// The conflict that waits for a decision, such as `c-12`.
    package var conflict: String?
    package var etag: String

    /// Answer with 200, the record and its `ETag`, or 304 when the reader has it already. A record whose document is not kept is a problem:
    /// an answer without a document would say that it was deleted.
    package static func answer(
        _ record: RecordSnapshot, view: RecordView = .merged, ifNoneMatch: String? = nil
    ) -> LocalAnswer {
        let etag = record.etag
        let headers: HTTPHeaders = ["ETag": etag]
        if let ifNoneMatch, matches(ifNoneMatch, etag) { return LocalAnswer(304, headers: headers) }
        if record.isNotKept { return RecordSnapshot.notKept(record.name).localAnswer }
        return LocalAnswer(200, headers: headers) { write(record, view: view, to: &$0) }
    }

    /// One page of a list: `{"items":[…],"next":…}`.
    ///
    /// - Parameters:
    ///   - unknownEntity: A sentence for an entity that is unknown.
    ///   - notKept: Number of records of the entity whose documents are not kept, which the list therefore cannot contain.
    package static func list(
        _ records: [RecordSnapshot], fields: [FieldPath] = [], next: String?, unknownEntity: String? = nil, notKept: Int64 = 0
    ) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", records) { writer, record in
                    write(record, fields: fields, to: &writer)
                }
                writer.name("next")
                if let next { writer.string(next) } else { writer.null() }
                writer.member("unknown_entity", unknownEntity)
                if notKept > 0 { writer.member("not_kept", notKept) }
            }
        }
    }

    /// - Parameter fields: Parts of the document to show; empty means all.
    package static func write(
        _ record: RecordSnapshot, view: RecordView = .merged, fields: [FieldPath] = [], to writer: inout JSONWriter
    ) {
        writer.object { writer in
            writer.member("entity", record.name.entity.text)
            writer.member("id", record.name.id.text)
            writer.member("server_id", record.serverID)
            writer.member("version", record.version)
            writer.member("sync_status", record.status.name)
            writer.member("deleted", record.isDeleted)
            let data = view == .server ? record.base : record.view
            if fields.isEmpty { writer.stored("data", data) } else { writer.member("data", project(data, fields)) }
            if view == .both { writer.stored("base", record.base) }
            writer.time("synced_at", record.syncedAt)
            writer.time("created_at", record.createdAt)
            writer.time("updated_at", record.updatedAt)
            writer.elements("pending", record.pending) { $0.string($1.text) }
            writer.member("conflict", record.conflict)
            writer.member("etag", record.etag)
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let entity = reader.text("entity").flatMap({ EntityName($0) }),
            let id = reader.text("id").flatMap({ RecordID($0) })
        else { return nil }
        name = RecordName(entity, id)
        serverID = reader.text("server_id")
        version = reader.int("version") ?? 0
        status = reader.text("sync_status") ?? "unknown"
        isDeleted = reader.bool("deleted") ?? false
        data = reader.source("data")
        base = reader.source("base")
        syncedAt = reader.time("synced_at")
        createdAt = reader.time("created_at")
        updatedAt = reader.time("updated_at")
        pending = reader.texts("pending")
        conflict = reader.text("conflict")
        etag = reader.text("etag") ?? ""
    }

    /// A sentence for people about a record without a document in this view.
    package func absence(in view: RecordView) -> String {
        let when = updatedAt.map { " at \($0)" } ?? ""
        if pending.isEmpty { return "\(name) was deleted\(when) (version \(version))" }
        if status == RecordSnapshot.SyncStatus.error.name {
            let cause = version == 0 ? "does not exist, because its creation was refused" : "was deleted, and a change of it was refused"
            return "\(name) \(cause). To see the refused changes: agentctl rejected"
        }
        if version == 0, view == .server { return "\(name) is not at the hub yet" }
        return "\(name) was deleted here\(when); the hub has not confirmed it yet"
    }

    /// Returns whether the header matches the tag (RFC 9110, section 13.1.2): a list of tags with weak comparison, or `*`.
    static func matches(_ header: String, _ etag: String) -> Bool {
        func opaque(_ tag: Substring) -> Substring {
            let trimmed = tag.drop { $0 == " " || $0 == "\t" }
            let bare = trimmed.hasPrefix("W/") ? trimmed.dropFirst(2) : trimmed
            return bare.lastIndex(of: "\"").map { bare[...$0] } ?? bare
        }
        // Our own tags contain no comma, so splitting there cuts only tags that cannot match.
        return header == "*" || header.split(separator: ",").contains { opaque($0) == opaque(etag[...]) }
    }

    /// The document reduced to some of its fields, nested as before.
    private static func project(_ document: String?, _ fields: [FieldPath]) -> JSON {
        // The store has checked the row; a document that is no JSON all the same is shown as missing.
        guard let document, let object = (try? JSONReader.read(document, limits: .stored))?.object else {
            return .null
        }
        var result: JSONObject = [:]
        for path in fields { copy(path.names[...], from: object, to: &result) }
        return .object(result)
    }

    private static func copy(_ names: ArraySlice<String>, from source: JSONObject, to target: inout JSONObject) {
        guard let name = names.first, let value = source[name] else { return }
        if names.count == 1 {
            target[name] = value
        } else if let inner = value.object {
            var part = target[name]?.object ?? [:]
            copy(names.dropFirst(), from: inner, to: &part)
            target[name] = .object(part)
        }
    }
}
