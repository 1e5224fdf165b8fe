package import SyncCore

// tus 1.0.0 with creation, creation-with-upload, expiration, termination and checksum (PROTOCOL H1), and blobs by their digest. A request
// with bytes comes here twice: before its bytes are read, for a grant to write them, and afterwards with the result. A call that already
// has the body does both at once.
extension Hub {
    func files(
        _ endpoint: Endpoint, _ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let uploads = settings.uploads else { throw HubRefusal(Hub.notFound) }
        // An operator may have adopted a folder since the last request.
        if let folder = uploads.folder { folder.expect(try querying { () throws(DatabaseError) in try store.folderFacts() }) }
        if endpoint == .blob { return try blob(request, caller, uploads, at: now) }
        var response: HubResponse
        do throws(HubRefusal) {
            if request.method != "OPTIONS", let version = request.headers[Tus.resumable], version != Tus.version {
                var refusal = HubResponse(Problem("unsupported-tus-version", status: 412, detail: "this hub speaks tus \(Tus.version)"))
                refusal.headers["Tus-Version"] = Tus.version
                throw HubRefusal(refusal)
            }
            response = try tus(endpoint, request, caller, uploads, at: now)
        } catch {
            response = try querying { () throws(DatabaseError) in try error.answer() }
        }
        response.headers[Tus.resumable] = Tus.version
        return response
    }

    private func tus(
        _ endpoint: Endpoint, _ request: HubRequest, _ caller: HubGate.Caller, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        switch request.fileStep {
        case .end(let grant, let end): return try ended(grant, end, uploads, at: now)
        case .fenced(let error?): throw refusal(error)
        case .fenced(nil), .begin, nil: break
        }
        switch (endpoint, request.method) {
        case (.files, "OPTIONS"):
            return HubResponse(
                status: 204,
                headers: [
                    "Tus-Version": Tus.version, "Tus-Extension": Tus.extensions.joined(separator: ","),
                    "Tus-Max-Size": String(uploads.limits.fileBytes), "Tus-Checksum-Algorithm": "sha256",
                ])
        case (.files, _): return try write(try create(request, caller, uploads, at: now), request, uploads, at: now)
        default: break
        }
        guard let row = try own(request, caller) else { throw HubRefusal(Hub.noUpload) }
        guard row.expiresAt > now else {
            try drop(row, uploads)
            throw HubRefusal(Problem("upload-expired", status: 410, detail: "the upload was not continued in time"))
        }
        switch request.method {
        case "HEAD": return try show(row, request, uploads, at: now)
        case "DELETE":
            try drop(row, uploads)
            return HubResponse(status: 204)
        default: return try write(try proceed(row, request, uploads, at: now), request, uploads, at: now)
        }
    }

    // MARK: Creation

    private func create(
        _ request: HubRequest, _ caller: HubGate.Caller, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let length = Tus.count(request.headers[Tus.length]) else {
            throw Hub.malformed("Upload-Length is missing or no number: this hub requires the length in advance")
        }
        guard length <= uploads.limits.fileBytes else {
            throw HubRefusal(Problem("too-large", status: 413, detail: "a file may have at most \(uploads.limits.fileBytes) bytes"))
        }
        let text = request.headers[Tus.metadata] ?? ""
        guard let metadata = Tus.metadata(text) else { throw Hub.malformed("Upload-Metadata is malformed") }
        var expected: BlobDigest?
        if let said = metadata["sha256"] {
            expected = BlobDigest(hex: said)
            guard expected != nil else { throw Hub.malformed("sha256 in Upload-Metadata is not 64 hexadecimal digits") }
        }
        let used = try querying { () throws(DatabaseError) in try store.filesUsed(by: caller.device) }
        guard used.open < uploads.limits.deviceUploads, used.bytes.saturatingAdd(length) <= uploads.limits.deviceBytes else {
            throw HubRefusal(
                Problem(
                    "quota", status: 507, detail: "the files of this device use its whole quota (\(used.bytes) bytes)", retryAfter: 3_600))
        }
        if let free = uploads.storage.freeBytes(), free - length < uploads.limits.freeBytes {
            // The free bytes of the disk are not told: they change with the files of other devices.
            throw HubRefusal(
                Problem(
                    "disk-full", status: 507,
                    detail: "the hub has no room for this file; its operator must make room, and the device tries again by itself",
                    retryAfter: 600))
        }
        var link: BlobLink?
        if let entity = metadata["entity"].flatMap({ EntityName($0) }), let id = metadata["record"].flatMap({ RecordID($0) }),
            let field = metadata["field"], field.utf8.count <= 256
        {
            link = BlobLink(RecordName(entity, id), field: field)
        }
        let type = metadata["filetype"] ?? metadata["type"] ?? "application/octet-stream"
        let row = HubStore.UploadRow(
            id: drawUploadID(), device: caller.device, length: length, offset: 0, expected: expected,
            type: String(Printable.text(type, max: 100)), metadata: text, link: link,
            expiresAt: now.advanced(by: uploads.limits.expiry))
        try querying { () throws(DatabaseError) in
            try store.touch(caller.device, replica: caller.replica, at: now)
            try store.insert(row, at: now)
        }
        #if ABLATIONS
            if let answer = try skipping(row, uploads, at: now) { return answer }
        #endif
        var grant = UploadGrant(
            id: row.id, token: uploads.grant(row.id, at: 0), offset: 0, length: length, digest: expected,
            checksum: try checksum(request))
        grant.isCreation = true
        // Without bytes there is nothing to wait for; an empty file is complete at once.
        let hasBody = request.headers["Content-Type"] == Tus.contentType
        if !hasBody, length > 0 { return created(row, uploads) }
        var response = created(row, uploads)
        response.work = .write(grant)
        return response
    }

    #if ABLATIONS
        /// The answer to an upload of a file that the hub has already, with the rule of ``Ablation/knownUploadsSkipped`` off; `nil`: the
        /// rule holds.
        private func skipping(_ row: HubStore.UploadRow, _ uploads: HubUploads, at now: Timestamp) throws(HubRefusal) -> HubResponse? {
            guard settings.ablations.contains(.knownUploadsSkipped), let digest = row.expected else { return nil }
            let isKnown = try querying { () throws(DatabaseError) in
                guard try store.blob(digest) != nil else { return false }
                try store.complete(row, digest, at: now)
                return true
            }
            guard isKnown else { return nil }
            var whole = row
            whole.offset = row.length
            var answer = created(whole, uploads)
            answer.headers[Tus.reprDigest] = digest.field
            return answer
        }
    #endif

    private func created(_ row: HubStore.UploadRow, _ uploads: HubUploads) -> HubResponse {
        HubResponse(
            status: 201,
            headers: [
                "Location": "/v1/files/\(row.id)", Tus.offset: String(row.offset), Tus.expires: HTTPDate.text(row.expiresAt),
            ])
    }

    // MARK: An upload

    /// An upload of another device counts as absent.
    private func own(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubStore.UploadRow? {
        let id = String(request.path.dropFirst(Endpoint.filePrefix.utf8.count))
        return try querying { () throws(DatabaseError) in try store.upload(id, of: caller.device) }
    }

    private func show(
        _ row: HubStore.UploadRow, _ request: HubRequest, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        var response = HubResponse(
            status: 200, headers: [Tus.length: String(row.length), "Cache-Control": "no-store", Tus.expires: HTTPDate.text(row.expiresAt)])
        if !row.metadata.isEmpty { response.headers[Tus.metadata] = row.metadata }
        if let digest = row.digest {
            response.headers[Tus.offset] = String(row.length)
            response.headers[Tus.reprDigest] = digest.field
            return response
        }
        guard let offset = try endWriter(of: row, request, uploads, at: now) else { return Hub.fencing(row) }
        response.headers[Tus.offset] = String(offset)
        return response
    }

    /// Ends the present writer of an upload, and records how many bytes are on disk.
    ///
    /// - Returns: `nil` when this would wait for the storage, which this thread must not do.
    private func endWriter(
        of row: HubStore.UploadRow, _ request: HubRequest, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> Int64? {
        var offset: Int64
        if let standing = uploads.standing(row.id, at: row.offset) {
            offset = standing
        } else if request.fileStep == nil {
            do throws(BlobError) { offset = try uploads.fence(row.id, at: row.offset) } catch { throw refusal(error) }
        } else {
            return nil
        }
        if offset != row.offset {
            try querying { () throws(DatabaseError) in
                try store.advanceUpload(row.id, to: offset, expiresAt: now.advanced(by: uploads.limits.expiry))
            }
        }
        return offset
    }

    private func proceed(
        _ row: HubStore.UploadRow, _ request: HubRequest, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard request.headers["Content-Type"] == Tus.contentType else {
            throw HubRefusal(Problem("media-type", status: 415, detail: "a piece of a file is \(Tus.contentType)"))
        }
        guard let said = Tus.count(request.headers[Tus.offset]) else { throw Hub.malformed("Upload-Offset is missing or no number") }
        let sum = try checksum(request)
        var offset = row.length
        if row.digest == nil {
            guard let written = try endWriter(of: row, request, uploads, at: now) else { return Hub.fencing(row) }
            offset = written
        }
        guard said == offset else {
            var response = HubResponse(Problem("offset-conflict", status: 409, detail: "the upload has \(offset) bytes, not \(said)"))
            response.headers[Tus.offset] = String(offset)
            throw HubRefusal(response)
        }
        guard row.digest == nil else {
            return HubResponse(status: 204, headers: [Tus.offset: String(offset), Tus.reprDigest: row.digest?.field ?? ""])
        }
        var response = HubResponse(status: 204)
        response.work = .write(
            UploadGrant(
                id: row.id, token: uploads.grant(row.id, at: offset), offset: offset, length: row.length, digest: row.expected,
                checksum: sum))
        return response
    }

    private static func fencing(_ row: HubStore.UploadRow) -> HubResponse {
        var response = HubResponse(status: 503)
        response.work = .fence(row.id, at: row.offset)
        return response
    }

    private func checksum(_ request: HubRequest) throws(HubRefusal) -> UploadGrant.Checksum? {
        guard let text = request.headers[Tus.checksum] else { return nil }
        guard let sum = Tus.checksum(text) else { throw Hub.malformed("Upload-Checksum is malformed") }
        guard sum.algorithm == "sha256" else { throw Hub.malformed("this hub checks sha256 only") }
        return UploadGrant.Checksum(algorithm: sum.algorithm, bytes: sum.bytes)
    }

    private func drop(_ row: HubStore.UploadRow, _ uploads: HubUploads) throws(HubRefusal) {
        try querying { () throws(DatabaseError) in try store.deleteUpload(row.id) }
        if row.digest == nil { uploads.discard(row.id) }
    }

    // MARK: Bytes

    /// Writes the bytes that came with the request, if there are any; otherwise the answer carries the grant to write them.
    private func write(
        _ response: HubResponse, _ request: HubRequest, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let grant = response.work?.grant, request.fileStep == nil else { return response }
        let end = UploadBody.write(request.body, grant, uploads)
        return try ended(grant, end, uploads, at: now)
    }

    /// Handles the end of a request's bytes: those that came are on disk.
    private func ended(
        _ grant: UploadGrant, _ end: UploadEnd, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let row = try querying({ () throws(DatabaseError) in try store.upload(grant.id, of: nil) }) else {
            throw HubRefusal(Hub.noUpload)
        }
        let expires = now.advanced(by: uploads.limits.expiry)
        if end.isWrong {
            try querying { () throws(DatabaseError) in try store.deleteUpload(row.id) }
            let found = end.digest?.description ?? ""
            throw HubRefusal(
                Problem("digest-mismatch", status: 422, detail: "the received file is \(found), not \(row.expected?.description ?? "")"))
        }
        if let refusal = end.refusal {
            // The database is right, unless the file has fewer bytes.
            if end.isLost {
                try querying { () throws(DatabaseError) in try store.advanceUpload(row.id, to: 0, expiresAt: expires) }
                uploads.forget(row.id)
            }
            throw HubRefusal(refusal)
        }
        try querying { () throws(DatabaseError) in
            if let digest = end.digest {
                try store.complete(row, digest, at: now)
                try flip(digest, of: row.device, also: row.link, at: now)
            } else {
                // Another replica may have continued where this request's client gave up.
                try store.advanceUpload(row.id, to: max(end.offset, row.offset), expiresAt: expires)
            }
        }
        // Only now: until the row says that it is complete, an upload can continue from its offset.
        if end.digest != nil { uploads.discard(row.id) }
        var response = grant.isCreation ? created(row, uploads) : HubResponse(status: 204)
        response.headers[Tus.offset] = String(end.offset)
        response.headers[Tus.expires] = HTTPDate.text(expires)
        if let digest = end.digest { response.headers[Tus.reprDigest] = digest.field }
        return response
    }

    // MARK: Housekeeping

    /// Drops expired uploads, and files that a crash left behind.
    package func tidyFiles(at now: Timestamp) throws(HubError) {
        guard let uploads = settings.uploads else { return }
        let (expired, known) = try transact { () throws(DatabaseError) in
            let expired = try store.expiredUploads(before: now, limit: 1_000)
            for id in expired { try store.deleteUpload(id) }
            housekept.uploads += Int64(expired.count)
            return (expired, try store.uploads())
        }
        for id in expired { uploads.discard(id) }
        uploads.later {
            let files: [(name: String, changedAt: Timestamp)]
            // The next daily run tries again.
            do throws(BlobError) { files = try uploads.storage.incoming() } catch { return uploads.reportFailure(error) }
            for file in files {
                // An hour: a new file gets its row at once, but perhaps after the rows were read.
                let isLeft = known[file.name].map { $0 } ?? (file.changedAt < now.advanced(by: .seconds(-3_600)))
                if isLeft { uploads.storage.discard(incoming: file.name) }
            }
        }
    }

    func refusal(_ error: BlobError) -> HubRefusal {
        HubRefusal(UploadBody.problem(error))
    }

    private static func malformed(_ detail: String) -> HubRefusal {
        HubRefusal(Problem("malformed", status: 400, detail: detail))
    }

    private static let noUpload = Problem("not-found", status: 404, detail: "there is no such upload of this device")
}

/// The body of one request while it is written to the disk.
enum UploadBody {
    static func write(_ bytes: [UInt8], _ grant: UploadGrant, _ uploads: HubUploads) -> UploadEnd {
        var sum = grant.checksum.map { _ in SHA256() }
        if let failed = append(bytes, grant, &sum, uploads) { return failed }
        return finish(grant, sum, uploads)
    }

    /// - Returns: The end of the request; `nil` when it continues.
    static func append(_ bytes: [UInt8], _ grant: UploadGrant, _ sum: inout SHA256?, _ uploads: HubUploads) -> UploadEnd? {
        guard !bytes.isEmpty else { return nil }
        sum?.update(bytes)
        switch uploads.append(bytes, to: grant) {
        case .success(let offset) where offset > grant.length:
            // The client sends more than it announced, so no byte of the request counts.
            uploads.undo(grant)
            return UploadEnd(
                offset: grant.offset,
                refusal: Problem("too-large", status: 413, detail: "the upload was announced with \(grant.length) bytes"))
        case .success: return nil
        case .failure(let why): return end(why, grant, uploads)
        }
    }

    /// - Parameter isCut: The client left in the middle; the bytes that came are kept.
    static func finish(_ grant: UploadGrant, _ sum: SHA256?, _ uploads: HubUploads, isCut: Bool = false) -> UploadEnd {
        if let expected = grant.checksum, var sum, !isCut {
            guard sum.finish() == expected.bytes else {
                uploads.undo(grant)
                return UploadEnd(
                    offset: grant.offset,
                    refusal: Problem("checksum-mismatch", status: 460, detail: "the piece does not match its checksum"))
            }
        }
        switch uploads.finish(grant) {
        case .success(let end): return end
        case .failure(let why): return end(why, grant, uploads)
        }
    }

    private static func end(_ why: HubUploads.Written, _ grant: UploadGrant, _ uploads: HubUploads) -> UploadEnd {
        switch why {
        case .fenced:
            return UploadEnd(
                offset: grant.offset,
                refusal: Problem("upload-taken-over", status: 409, detail: "another request continues this upload"))
        case .failed(let error) where error.code == .damaged:
            // Fewer bytes are on disk than the database says, so the upload begins again.
            var end = UploadEnd(offset: 0, refusal: Problem("offset-conflict", status: 409, detail: error.description))
            end.isLost = true
            return end
        case .failed(let error):
            uploads.reportFailure(error)
            return UploadEnd(offset: grant.offset, refusal: problem(error))
        }
    }

    static func problem(_ error: BlobError) -> Problem {
        switch error.code {
        case .full: Problem("disk-full", status: 507, detail: "the hub's disk is full", retryAfter: 600)
        case .away: Problem("maintenance", status: 503, detail: "the hub cannot reach its store of files at the moment", retryAfter: 10)
        case .notFound, .damaged, .refused, .tooLarge, .io, .altered:
            Problem("maintenance", status: 503, detail: "the hub cannot use its disk at the moment", retryAfter: 30)
        }
    }
}
