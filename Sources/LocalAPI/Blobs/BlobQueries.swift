package import SyncCore

/// The query of `POST /v1/blobs`, which describes the file: `?filename=p1.jpg&type=image/jpeg`.
package struct BlobAddQuery: Hashable, Sendable {
    /// File name for people; never a path of ours.
    package var filename: String
    /// Media type; `nil`: the `Content-Type` of the request.
    package var type: String?

    package init(filename: String = "", type: String? = nil) {
        self.filename = filename
        self.type = type
    }

    package static let filenameBytes = 255
    package static let typeBytes = 127

    /// - Throws: 400 `malformed` for an invalid name, such as one with a slash, and for an invalid type.
    init(from p: inout ParameterReader) throws(Problem) {
        self.init()
        if let name = try p.text("filename") {
            guard BlobAddQuery.isName(name) else {
                throw p.refusal("filename", "must be 1 to \(Self.filenameBytes) bytes without / and control characters")
            }
            filename = name
        }
        if let text = try p.text("type") {
            guard BlobAddQuery.isType(text) else { throw p.refusal("type", "must be a media type such as image/jpeg") }
            type = text
        }
    }

    package static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= filenameBytes && name != "." && name != ".."
            && name.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "/") }
    }

    /// Returns whether the text has the form `type/subtype`, without parameters (RFC 9110, section 8.3.1).
    package static func isType(_ type: String) -> Bool {
        let parts = type.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return parts.count == 2 && type.utf8.count <= typeBytes
            && parts.allSatisfy { part in
                !part.isEmpty
                    && part.allSatisfy { byte in
                        switch byte {
                        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                            UInt8(ascii: "0")...UInt8(ascii: "9"):
                            true
                        default: "!#$&-^_.+".utf8.contains(byte)
                        }
                    }
            }
    }
}

/// Selects the files to list: `GET /v1/blobs?state=pending,failed&after=&limit=`.
package struct BlobListQuery: Hashable, Sendable {
    /// States to include, as words; `nil` means any. `uploading` and `verifying` are pending files with a running request; `failed` stands
    /// for both directions.
    package var states: [String]?
    /// Only higher ids.
    package var after: Int64
    package var limit: Int

    package init(states: [String]? = nil, after: Int64 = 0, limit: Int = MutationListQuery.limitDefault) {
        self.states = states
        self.after = after
        self.limit = limit
    }

    init(from p: inout ParameterReader) throws(Problem) {
        self.init()
        states = try p.words("state", BlobListState.words.map { ($0, $0) })
        after = try p.integer("after", in: 0...Int64.max) ?? 0
        if let wanted = try p.integer("limit", in: 1...Int64(MutationListQuery.limitMax)) { limit = Int(wanted) }
    }
}

/// The place of the bytes of a `POST /v1/blobs`: the header field `Blob-Source`.
package enum BlobSourceKind: String, Hashable, Sendable, CaseIterable {
    /// The bytes are the body.
    case stream
    /// The bytes are in a file whose descriptor came with the head by `SCM_RIGHTS`; the body is empty.
    case fd
    /// The body is a ``BlobPathBody``.
    case path

    package static let header = "Blob-Source"
}

/// `{"path":"/srv/photos/p1.jpg"}`: a file below one of `blobs.import_dirs` that belongs to the caller.
package struct BlobPathBody: Hashable, Sendable {
    package var path: String

    package static let bytesMax = 8 << 10

    package static func read(_ body: [UInt8]) throws(Problem) -> BlobPathBody {
        let json: JSON
        do throws(JSONError) {
            json = try JSONReader.read(body)
        } catch {
            throw LocalProblem.malformed.problem("the body is not JSON: \(error)")
        }
        guard let object = json.object, let path = object["path"]?.text, !path.isEmpty else {
            throw LocalProblem.malformed.problem("path is missing: the body must be {\"path\":\"/…\"}")
        }
        for name in object.names where name != "path" && name != "take" {
            throw LocalProblem.unknownMember.problem("\(RouteParser.shown(name)) is no member of this body")
        }
        // A copy shares its blocks where the file system supports that, so both have the same meaning.
        if let take = object["take"]?.text, take != "copy", take != "reflink" {
            throw LocalProblem.malformed.problem("take must be copy or reflink")
        }
        return BlobPathBody(path: path)
    }

    package var bytes: [UInt8] { JSON.object(["path": .string(path)]).bytes }
}
