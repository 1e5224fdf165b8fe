package import SyncCore

/// One file in `GET /v1/blobs` and `GET /v1/blobs/{id}`.
package struct BlobItem: Hashable, Sendable {
    package var id: String
    package var digest: String
    /// Size, bytes.
    package var size: Int64
    package var type: String
    package var filename: String
    package var state: String
    package var direction: BlobDirection
    /// Number of bytes at the server, by its last answer; of a file that comes from the hub, those that are here.
    package var offset: Int64
    /// Number of attempts since the offset last moved.
    package var attempts: Int64
    package var links: [BlobLink]
    /// The server has shown that it has exactly these bytes.
    package var isVerified: Bool
    /// The bytes are kept on this device.
    package var isKept: Bool
    /// The bytes stay on this device, whatever needs room.
    package var isPinned: Bool
    package var createdAt: Timestamp?
    package var doneAt: Timestamp?
    package var error: String?
    package var deferral: Deferral?

    package struct Deferral: Hashable, Sendable {
        package var reason: String
        package var until: Timestamp?

        package init(reason: String, until: Timestamp?) {
            self.reason = reason
            self.until = until
        }
    }

    package init(
        id: String, digest: String, size: Int64, type: String, filename: String, state: String, direction: BlobDirection = .up,
        offset: Int64,
        attempts: Int64, links: [BlobLink], isVerified: Bool, isKept: Bool, isPinned: Bool = false, createdAt: Timestamp?,
        doneAt: Timestamp?, error: String?, deferral: Deferral?
    ) {
        self.id = id
        self.digest = digest
        self.size = size
        self.type = type
        self.filename = filename
        self.state = state
        self.direction = direction
        self.offset = offset
        self.attempts = attempts
        self.links = links
        self.isVerified = isVerified
        self.isKept = isKept
        self.isPinned = isPinned
        self.createdAt = createdAt
        self.doneAt = doneAt
        self.error = error
        self.deferral = deferral
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", id)
            writer.member("digest", digest)
            writer.member("size", size)
            writer.member("type", type)
            writer.member("filename", filename)
            writer.member("state", state)
            writer.member("direction", direction.rawValue)
            writer.member("offset", offset)
            writer.member("attempts", attempts)
            writer.elements("links", links) { writer, link in
                writer.object { writer in
                    writer.member("entity", link.record.entity.text)
                    writer.member("id", link.record.id.text)
                    writer.member("field", link.field)
                }
            }
            writer.member("verified", isVerified)
            writer.member("kept", isKept)
            writer.member("pinned", isPinned)
            writer.time("created_at", createdAt)
            writer.time("done_at", doneAt)
            writer.member("error", error)
            guard let deferral else { return }
            writer.members("deferred") { writer in
                writer.member("reason", deferral.reason)
                writer.time("until", deferral.until)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let id = reader.text("id"), let digest = reader.text("digest"), let size = reader.int("size"),
            let state = reader.text("state")
        else { return nil }
        self.init(
            id: id, digest: digest, size: size, type: reader.text("type") ?? "", filename: reader.text("filename") ?? "",
            state: state, direction: reader.text("direction").flatMap { BlobDirection(rawValue: $0) } ?? .up,
            offset: reader.int("offset") ?? 0, attempts: reader.int("attempts") ?? 0,
            links: reader.list("links").compactMap { element in
                let link = AnswerReader(element)
                guard let entity = link.text("entity").flatMap({ EntityName($0) }), let field = link.text("field"),
                    let id = link.text("id").flatMap({ RecordID($0) })
                else { return nil }
                return BlobLink(RecordName(entity, id), field: field)
            }, isVerified: reader.bool("verified") ?? false, isKept: reader.bool("kept") ?? false,
            isPinned: reader.bool("pinned") ?? false, createdAt: reader.time("created_at"), doneAt: reader.time("done_at"),
            error: reader.text("error"), deferral: nil)
        if reader.has("deferred") {
            let waits = reader.inside("deferred")
            deferral = Deferral(reason: waits.text("reason") ?? "", until: waits.time("until"))
        }
    }

    /// - Parameter isNew: Answer with 201; if the bytes were here before, with 200.
    package func answer(isNew: Bool = false) -> LocalAnswer {
        LocalAnswer(isNew ? 201 : 200, headers: isNew ? ["Location": "/v1/blobs/\(id)"] : []) { write(to: &$0) }
    }

    /// Progress in whole percent; 100 only when it is complete.
    package var percent: Int {
        let isDone = state == BlobState.uploaded.rawValue || state == FetchState.fetched.word
        guard size > 0, !isDone else { return isDone ? 100 : 0 }
        return Int(min(99, max(0, Double(offset) / Double(size) * 100)))
    }
}

package struct BlobListAnswer: Hashable, Sendable {
    package var items: [BlobItem]
    /// The `after` of the next page; `nil` after the last one.
    package var next: Int64?

    package init(items: [BlobItem], next: Int64?) {
        self.items = items
        self.next = next
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", items) { writer, item in item.write(to: &writer) }
                writer.member("next", next)
            }
        }
    }

    init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["items"]?.array != nil else { return nil }
        items = reader.list("items").compactMap { BlobItem($0) }
        next = reader.int("next")
    }
}

extension EventPayload {
    /// - Parameter offset: Number of bytes at the server.
    package static func blob(_ id: BlobID, state: BlobState, offset: Int64, size: Int64, detail: String? = nil) -> [UInt8] {
        blob(id, state.rawValue, .up, offset: offset, size: size, detail: detail)
    }

    /// - Parameter offset: Number of bytes on this device.
    package static func blob(_ id: BlobID, fetch: FetchState, offset: Int64, size: Int64, detail: String? = nil) -> [UInt8] {
        blob(id, fetch.word, .down, offset: offset, size: size, detail: detail)
    }

    private static func blob(
        _ id: BlobID, _ state: String, _ direction: BlobDirection, offset: Int64, size: Int64, detail: String?
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("id", id.description)
            writer.member("state", state)
            writer.member("direction", direction.rawValue)
            writer.member("offset", offset)
            writer.member("size", size)
            writer.member("detail", detail)
        }
        return writer.bytes
    }
}
