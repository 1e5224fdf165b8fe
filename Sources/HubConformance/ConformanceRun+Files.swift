import SyncCore

// Files: tus 1.0.0 with the offered extensions, and complete files by their digest (PROTOCOL H1, H2).
extension ConformanceRun {
    func checkFiles() async {
        var extensions: [String] = []
        await check("files-options", "H1", "OPTIONS /v1/files tells the tus versions and extensions; creation is among them.") {
            try offered("tus")
            let answer = try await send(.options, "/v1/files")
            try require(answer.status == 204 || answer.status == 200, "\(answer.status)")
            let versions = list(answer, "Tus-Version")
            try require(versions.contains(Tus.version), "Tus-Version is \(versions)")
            extensions = list(answer, "Tus-Extension")
            try require(extensions.contains("creation"), "Tus-Extension is \(extensions)")
            return extensions.joined(separator: " ")
        }
        let content = (0..<3_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        await checkUpload(content)
        await checkBadUploads(content, extensions)
    }

    private func checkUpload(_ content: [UInt8]) async {
        let digest = BlobDigest(bytes: SHA256.hash(content))
        var place: String?
        await check(
            "files-creation", "H1",
            "POST /v1/files with Upload-Length is 201 with a Location on this server; HEAD there says that nothing is there yet."
        ) {
            try offered("tus")
            place = try await create(content.count, digest)
            guard let place else { return "" }
            let head = try await tus(.head, place)
            try require(head.status == 200 || head.status == 204, "HEAD is \(head.status)")
            try require(Tus.count(head.headers[Tus.offset]) == 0, "Upload-Offset is \(head.headers[Tus.offset] ?? "missing"), not 0")
            try require(
                Tus.count(head.headers[Tus.length]) == Int64(content.count), "Upload-Length is \(head.headers[Tus.length] ?? "missing")")
            return place
        }
        await check("files-piece", "H1", "PATCH appends, and says where it stands; HEAD says the same.") {
            let place = try made(place)
            let answer = try await patch(place, at: 0, Array(content.prefix(1_000)))
            try require(answer.status == 204, "\(answer.status)\(said(answer))")
            try require(
                Tus.count(answer.headers[Tus.offset]) == 1_000, "Upload-Offset is \(answer.headers[Tus.offset] ?? "missing"), not 1000")
            try await standsAt(1_000, place)
            return "1000 of \(content.count)"
        }
        await check("files-offset-conflict", "H1", "PATCH at another offset than the server's is 409, and changes nothing.") {
            let place = try made(place)
            let answer = try await patch(place, at: 500, Array(content[500...]))
            try require(answer.status == 409, "\(answer.status)\(said(answer))")
            try await standsAt(1_000, place)
            return "409"
        }
        await check("files-content-type", "H1", "PATCH with another content type is 415, and changes nothing.") {
            let place = try made(place)
            let answer = try await patch(place, at: 1_000, Array(content[1_000...]), type: "application/octet-stream")
            try require(answer.status == 415, "\(answer.status)\(said(answer))")
            try await standsAt(1_000, place)
            return "415"
        }
        await check("files-whole", "H2", "With its last byte a file is compared with its sha256; the answer is 204 with Repr-Digest.") {
            let place = try made(place)
            guard let digest else { throw NotTried("no digest") }
            let answer = try await patch(place, at: 1_000, Array(content[1_000...]))
            try require(answer.status == 204, "\(answer.status)\(said(answer))")
            try require(answer.headers[Tus.reprDigest] == digest.field, "Repr-Digest is \(answer.headers[Tus.reprDigest] ?? "missing")")
            left.append("one file of \(content.count) bytes, \(digest)")
            return "\(digest)"
        }
        await check("files-by-digest", "H2", "HEAD and GET /v1/blobs/DIGEST have what has arrived; 404 for what has not.") {
            try offered("tus")
            guard let digest, let none = BlobDigest(bytes: SHA256.hash([])) else { throw NotTried("no digest") }
            let head = try await send(.head, "/v1/blobs/\(digest)")
            try require(head.status == 200, "HEAD is \(head.status)")
            let got = try await send(.get, "/v1/blobs/\(digest)")
            try require(
                got.status == 200 && got.body == content,
                "GET is \(got.status) with \(got.body.count) bytes" + (got.body.count == content.count ? ", other ones" : ""))
            let other = try await send(.head, "/v1/blobs/\(none)")
            try require(other.status == 404, "HEAD of a file that is not there is \(other.status)")
            return "the same \(content.count) bytes"
        }
        await checkRanges(content, digest)
    }

    private func checkRanges(_ content: [UInt8], _ digest: BlobDigest?) async {
        func tag() async throws -> (path: String, tag: String) {
            try offered("tus")
            guard let digest else { throw NotTried("no digest") }
            return ("/v1/blobs/\(digest)", try await handsOut(digest))
        }
        await check("files-range", "H2", "GET with a Range is 206 with those bytes and Content-Range, from either end of the file.") {
            let (path, _) = try await tag()
            let size = content.count
            for (range, bytes) in [("1000-", 1_000..<size), ("10-19", 10..<20), ("-5", (size - 5)..<size), ("0-\(size * 2)", 0..<size)] {
                let answer = try await send(.get, path, changed: [("Range", "bytes=\(range)")])
                try require(answer.status == 206, "bytes=\(range) is \(answer.status), not 206")
                try require(answer.body == Array(content[bytes]), "bytes=\(range) brings \(answer.body.count) bytes, other ones")
                let said = answer.headers["Content-Range"]
                try require(said == "bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/\(size)", "Content-Range is \(said ?? "missing")")
            }
            return "206"
        }
        await check("files-range-beyond", "H2", "A Range behind the end is 416 malformed, and Content-Range tells the size.") {
            let (path, _) = try await tag()
            let answer = try await send(.get, path, changed: [("Range", "bytes=\(content.count)-")])
            try refusal(answer, 416, "malformed")
            let said = answer.headers["Content-Range"]
            try require(said == "bytes */\(content.count)", "Content-Range is \(said ?? "missing")")
            return "416"
        }
        await check("files-if-range", "H2", "If-Range with the ETag lets the Range count; with another tag all of the file comes.") {
            let (path, tag) = try await tag()
            for (known, status) in [(tag, 206), ("\"another\"", 200)] {
                let answer = try await send(.get, path, changed: [("Range", "bytes=1000-"), ("If-Range", known)])
                try require(answer.status == status, "with \(known) it is \(answer.status), not \(status)")
            }
            return "206 and 200"
        }
        await check("files-unchanged", "H2", "If-None-Match with the ETag is 304 without a body.") {
            let (path, tag) = try await tag()
            let answer = try await send(.get, path, changed: [("If-None-Match", tag)])
            try require(answer.status == 304 && answer.body.isEmpty, "\(answer.status) with \(answer.body.count) bytes")
            return "304"
        }
    }

    /// The entity tag of a file that the server hands out in ranges.
    ///
    /// - Throws: ``NotOffered`` for a server that does not say so: only such a one hands out files that records show.
    func handsOut(_ digest: BlobDigest, _ party: Party = .first) async throws -> String {
        let head = try await ask(party, .head, "/v1/blobs/\(digest)")
        try require(head.status == 200, "HEAD of the file is \(head.status)")
        guard head.headers["Accept-Ranges"] == "bytes" else { throw NotOffered("HEAD has no Accept-Ranges: bytes") }
        try require(head.headers[Tus.reprDigest] == digest.field, "Repr-Digest is \(head.headers[Tus.reprDigest] ?? "missing")")
        guard let tag = head.headers["ETag"], tag.hasPrefix("\"") else {
            throw Deviation("ETag is \(head.headers["ETag"] ?? "missing"), not a strong tag")
        }
        return tag
    }

    private func checkBadUploads(_ content: [UInt8], _ extensions: [String]) async {
        func needs(_ name: String) throws {
            try offered("tus")
            if !extensions.contains(name) { throw NotOffered("Tus-Extension has no \(name)") }
        }
        await check(
            "files-digest-mismatch", "H2", "A file that is not what its sha256 says is 422 digest-mismatch, and the upload is gone."
        ) {
            try offered("tus")
            let place = try await create(content.count, BlobDigest(bytes: SHA256.hash([1, 2, 3])))
            try refusal(try await patch(place, at: 0, content.reversed()), 422, "digest-mismatch")
            try await isGone(place)
            return "422"
        }
        await check("files-termination", "H1", "DELETE of an upload is 204, and it is gone.") {
            try needs("termination")
            let place = try await create(content.count, nil)
            let answer = try await tus(.delete, place)
            try require(answer.status == 204, "\(answer.status)\(said(answer))")
            try await isGone(place)
            return "204"
        }
        await check("files-checksum", "H1", "A piece that does not match its Upload-Checksum is 460, and is not kept.") {
            try needs("checksum")
            let place = try await create(content.count, nil)
            let wrong = "sha256 " + Base64.encode(SHA256.hash([9]))
            let answer = try await patch(place, at: 0, Array(content.prefix(1_000)), changed: [(Tus.checksum, wrong)])
            try require(answer.status == 460, "\(answer.status)\(said(answer))")
            try await standsAt(0, place)
            _ = try await tus(.delete, place)
            return "460"
        }
        await check("files-unknown", "H1", "An upload that is not there is 404 or 410.") {
            try offered("tus")
            try await isGone("/v1/files/\(prefix)-none")
            return "404 or 410"
        }
    }

    // MARK: Requests

    private func list(_ answer: HTTPResponse, _ name: String) -> [String] {
        (answer.headers[name] ?? "").split(separator: ",").map(\.trimmingSpaces)
    }

    private func made(_ place: String?) throws -> String {
        try offered("tus")
        guard let place else { throw NotTried("files-creation failed") }
        return place
    }

    func tus(
        _ method: HTTPRequest.Method, _ place: String, _ body: [UInt8]? = nil, changed: [(String, String?)] = []
    ) async throws -> HTTPResponse {
        try await send(method, place, body, changed: [(Tus.resumable, Tus.version), ("Content-Type", nil)] + changed)
    }

    /// - Returns: Path of the new upload.
    func create(_ length: Int, _ digest: BlobDigest?, from device: [(String, String?)] = []) async throws -> String {
        var pairs = [("filename", prefix), ("filetype", "application/octet-stream")]
        if let digest { pairs.append(("sha256", digest.hex)) }
        let answer = try await tus(
            .post, "/v1/files", changed: [(Tus.length, String(length)), (Tus.metadata, Tus.metadata(pairs))] + device)
        try require(answer.status == 201, "\(answer.status)\(said(answer)), not 201")
        guard let place = answer.headers["Location"] else { throw Deviation("201 without Location") }
        // The address may be relative, but must be at this server: an agent follows no link to another one.
        let afterScheme = settings.baseURL.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        let basePath = afterScheme.count > 3 ? "/" + afterScheme[3] : ""
        if place.hasPrefix("/") { return place.hasPrefix(basePath + "/") ? String(place.dropFirst(basePath.count)) : place }
        guard place.hasPrefix(settings.baseURL + "/") else {
            throw Deviation("Location leads elsewhere: \(Printable.text(place, max: 120))")
        }
        return String(place.dropFirst(settings.baseURL.count))
    }

    func patch(
        _ place: String, at offset: Int, _ bytes: [UInt8], type: String = Tus.contentType, changed: [(String, String?)] = []
    ) async throws -> HTTPResponse {
        try await tus(.patch, place, bytes, changed: [(Tus.offset, String(offset)), ("Content-Type", type)] + changed)
    }

    private func offset(_ place: String) async throws -> Int64? { Tus.count(try await tus(.head, place).headers[Tus.offset]) }

    private func standsAt(_ expected: Int64, _ place: String) async throws {
        let stands = try await offset(place)
        try require(stands == expected, "HEAD says \(stands.map { String($0) } ?? "nothing"), not \(expected)")
    }

    private func isGone(_ place: String) async throws {
        let status = try await tus(.head, place).status
        try require(status == 404 || status == 410, "HEAD is \(status)")
    }
}
