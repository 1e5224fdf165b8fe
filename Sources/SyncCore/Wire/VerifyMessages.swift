/// `POST /v1/sync/verify`, both directions (PROTOCOL A8): asks which buckets of an entity differ between the two sides. It is sent only to
/// a hub with `digest` in its hello.
package enum VerifyMessages {
    package static let capability = "digest"

    package static func request(_ verify: VerifyRequest) -> [UInt8] {
        var writer = JSONWriter(capacity: 3_072)
        writer.object { writer in
            writer.member("entity", verify.entity.text)
            writer.member("at", verify.cursor)
            writer.member("buckets", verify.digest.text)
        }
        return writer.bytes
    }

    package static func readRequest(_ body: [UInt8]) throws(Problem) -> VerifyRequest {
        let object = try RequestReader.object(body)
        let entity = try RequestReader.name(object["entity"], "/entity", as: EntityName.self, RequestReader.malformed)
        guard let cursor = object["at"]?.text, !cursor.isEmpty else { throw RequestReader.malformed("/at", "a cursor") }
        guard let digest = object["buckets"]?.text.flatMap({ EntityDigest($0) }) else {
            throw RequestReader.malformed("/buckets", "base64 of 256 times 8 bytes")
        }
        return VerifyRequest(entity: entity, cursor: cursor, digest: digest)
    }

    package static func response(_ verdict: VerifyResponse) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.member("differs", JSON.array(verdict.differs.map { .int(Int64($0)) }))
            writer.name("start")
            writer.object { writer in
                writer.member("cursor", verdict.startCursor)
                writer.member("version", verdict.startVersion)
            }
        }
        return writer.bytes
    }

    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> VerifyResponse {
        let object = try ReplyReader.object(body)
        guard let list = object["differs"]?.array, list.count <= EntityDigest.buckets else {
            throw ReplyError("/differs", "an array of at most \(EntityDigest.buckets) buckets")
        }
        var differs: [UInt8] = []
        for (index, json) in list.enumerated() {
            guard let number = json.int.flatMap({ UInt8(exactly: $0) }), differs.last.map({ $0 < number }) ?? true else {
                throw ReplyError("/differs/\(index)", "a bucket from 0 to 255, in order")
            }
            differs.append(number)
        }
        let start = object["start"]?.object ?? [:]
        guard let cursor = start["cursor"]?.text, !cursor.isEmpty, cursor.utf8.count <= Limits.cursorBytes else {
            throw ReplyError("/start/cursor", "a string of 1 to \(Limits.cursorBytes) bytes")
        }
        return VerifyResponse(
            differs: differs, startCursor: cursor, startVersion: try ReplyReader.version(start["version"], "/start/version"))
    }
}

package struct VerifyRequest: Hashable, Sendable {
    package var entity: EntityName
    /// The cursor of the asking side's feed: it names the history of its versions.
    package var cursor: String
    package var digest: EntityDigest

    package init(entity: EntityName, cursor: String, digest: EntityDigest) {
        self.entity = entity
        self.cursor = cursor
        self.digest = digest
    }
}

package struct VerifyResponse: Hashable, Sendable {
    package var differs: [UInt8]
    /// The cursor at which the feed would continue after a listing made now.
    package var startCursor: String
    package var startVersion: Int64

    package init(differs: [UInt8], startCursor: String, startVersion: Int64) {
        self.differs = differs
        self.startCursor = startCursor
        self.startVersion = startVersion
    }
}
