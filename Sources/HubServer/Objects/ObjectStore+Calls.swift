import SyncCore

// The calls of S3 that the hub uses, each named by its page of the API reference.
extension ObjectStore {
    struct Object: Hashable {
        /// Without the prefix of the place.
        var key: String
        var size: Int64
        var changedAt: Timestamp
    }

    // MARK: Objects

    /// PutObject
    func put(_ bytes: [UInt8], as key: String) throws(BlobError) {
        _ = try demand(Call(method: .put, key: key, body: bytes, doing: "put \(key)"))
    }

    /// GetObject
    ///
    /// - Returns: `nil` when there is no such object.
    func get(_ key: String, atMost limit: Int) throws(BlobError) -> [UInt8]? {
        let call = Call(method: .get, key: key, maxAnswer: limit, doing: "get \(key)")
        switch try ask(call) {
        case .done(let response): return response.body
        case .refused(let refusal) where refusal.isMissing: return nil
        case .refused(let refusal): throw failure(call.doing, refusal)
        }
    }

    /// GetObject with Range (RFC 9110, section 14).
    ///
    /// - Throws: `.altered` when there are fewer bytes.
    func get(_ key: String, at offset: Int64, count: Int) throws(BlobError) -> [UInt8] {
        guard count > 0 else { return [] }
        let response = try demand(
            Call(
                method: .get, key: key, headers: [("Range", "bytes=\(offset)-\(offset + Int64(count) - 1)")],
                maxAnswer: max(count, 64 << 10), doing: "get \(key)"))
        // Some stores answer a range with 200; `Content-Range` tells what was sent.
        let isRange = response.headers["Content-Range"].map { $0.hasPrefix("bytes \(offset)-") } ?? (offset == 0)
        guard isRange, response.body.count == count else {
            throw BlobError(
                .altered, doing: "get \(key) in \(place)", detail: "\(response.body.count) bytes came from \(offset) on, not \(count)")
        }
        return response.body
    }

    /// HeadObject
    ///
    /// - Returns: `nil` when there is no such object.
    func size(of key: String) throws(BlobError) -> Int64? {
        let call = Call(method: .head, key: key, doing: "look at \(key)")
        switch try ask(call) {
        case .done(let response):
            guard let size = response.headers["Content-Length"].flatMap({ Int64($0) }) else {
                throw BlobError(.io, doing: call.doing, detail: "it does not say how long it is")
            }
            return size
        case .refused(let refusal) where refusal.status == 404: return nil
        case .refused(let refusal): throw failure(call.doing, refusal)
        }
    }

    /// DeleteObject. A missing object counts as deleted.
    func delete(_ key: String) throws(BlobError) {
        let call = Call(method: .delete, key: key, doing: "delete \(key)")
        if case .refused(let refusal) = try ask(call), !refusal.isMissing { throw failure(call.doing, refusal) }
    }

    /// CopyObject, within the store.
    func copy(_ key: String, to target: String) throws(BlobError) {
        _ = try demand(
            Call(
                method: .put, key: target, headers: [("x-amz-copy-source", "/\(place.bucket)/\(place.prefix)\(key)")],
                mayFailLate: true, doing: "copy \(key) to \(target)"))
    }

    /// ListObjectsV2
    ///
    /// - Parameter limit: Largest number of objects; `nil`: those of ``ListGuard/pagesMax`` pages, 100,000.
    /// - Throws: `.away`, also for a list that does not end.
    func list(_ prefix: String, limit: Int? = nil) throws(BlobError) -> [Object] {
        var found: [Object] = []
        var token: String?
        var pages = ListGuard()
        repeat {
            let query = [
                token.map { "continuation-token=\(Self.escaped($0))" }, "list-type=2", "max-keys=\(min(limit ?? 1_000, 1_000))",
                "prefix=\(Self.escaped(place.prefix + prefix))",
            ].compactMap { $0 }.joined(separator: "&")
            let call = Call(method: .get, key: "", query: query, maxAnswer: 8 << 20, doing: "list \(prefix)")
            let root = try document(call)
            var isEmpty = true
            for entry in root.all("Contents") {
                // Callers delete listed objects, so a key outside the prefix is skipped, whatever the store answers.
                guard let key = own(entry["Key"]), key.hasPrefix(prefix), let size = entry["Size"].flatMap({ Int64($0) }) else { continue }
                found.append(Object(key: key, size: size, changedAt: moment(entry["LastModified"])))
                isEmpty = false
            }
            token = root["IsTruncated"] == "true" ? root["NextContinuationToken"] : nil
            if let token, let fault = pages.fault(after: token, isEmpty: isEmpty) { throw listFailed(call, fault) }
        } while token != nil && found.count < limit ?? .max && !pages.isFull
        listEnded()
        return found
    }

    // MARK: Multipart uploads

    /// CreateMultipartUpload
    func beginParts(of key: String) throws(BlobError) -> String {
        let call = Call(method: .post, key: key, query: "uploads=", doing: "begin the parts of \(key)")
        guard let id = try document(call)["UploadId"], !id.isEmpty else {
            throw BlobError(.io, doing: call.doing, detail: "it gives no UploadId")
        }
        return id
    }

    /// UploadPart
    ///
    /// - Returns: Its ETag, as the store wrote it.
    func put(part number: Int, _ bytes: [UInt8], of key: String, in upload: String) throws(BlobError) -> String {
        let call = Call(
            method: .put, key: key, query: "partNumber=\(number)&uploadId=\(Self.escaped(upload))", body: bytes,
            doing: "put part \(number) of \(key)")
        guard let tag = try demand(call).headers["ETag"], !tag.isEmpty else {
            throw BlobError(.io, doing: call.doing, detail: "it gives no ETag")
        }
        return tag
    }

    /// CompleteMultipartUpload
    ///
    /// - Returns: `false` when there is no such upload any more: it is complete already, or was aborted.
    func joinParts(_ tags: [String], of key: String, in upload: String) throws(BlobError) -> Bool {
        var text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        for (index, tag) in tags.enumerated() {
            text += "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(Self.markup(tag))</ETag></Part>"
        }
        text += "</CompleteMultipartUpload>"
        let call = Call(
            method: .post, key: key, query: "uploadId=\(Self.escaped(upload))", body: Array(text.utf8), mayFailLate: true,
            doing: "join the parts of \(key)")
        switch try ask(call) {
        case .done: return true
        case .refused(let refusal) where refusal.code == "NoSuchUpload": return false
        case .refused(let refusal): throw failure(call.doing, refusal)
        }
    }

    /// AbortMultipartUpload. A missing upload counts as aborted.
    func abortParts(of key: String, in upload: String) throws(BlobError) {
        let call = Call(method: .delete, key: key, query: "uploadId=\(Self.escaped(upload))", doing: "abort the parts of \(key)")
        if case .refused(let refusal) = try ask(call), refusal.status != 404 { throw failure(call.doing, refusal) }
    }

    /// ListMultipartUploads. (MinIO lists those of a complete key only, and drops all others itself after a day.)
    func openParts(_ prefix: String) throws(BlobError) -> [(key: String, upload: String, begunAt: Timestamp)] {
        var found: [(key: String, upload: String, begunAt: Timestamp)] = []
        var marker = (key: "", upload: "")
        var pages = ListGuard()
        while true {
            let query = [
                marker.key.isEmpty ? nil : "key-marker=\(Self.escaped(marker.key))", "prefix=\(Self.escaped(place.prefix + prefix))",
                marker.key.isEmpty ? nil : "upload-id-marker=\(Self.escaped(marker.upload))", "uploads=",
            ].compactMap { $0 }.joined(separator: "&")
            let call = Call(method: .get, key: "", query: query, maxAnswer: 8 << 20, doing: "list the open uploads of \(prefix)")
            let root: XMLElement
            switch try ask(call) {
            case .done(let response): root = try document(response, call)
            // Some stores answer so when there are none.
            case .refused(let refusal) where refusal.code == "NoSuchUpload": return found
            case .refused(let refusal): throw failure(call.doing, refusal)
            }
            let entries = root.all("Upload")
            for entry in entries {
                guard let key = own(entry["Key"]), key.hasPrefix(prefix), let upload = entry["UploadId"] else { continue }
                found.append((key, upload, moment(entry["Initiated"])))
            }
            let next = (key: root["NextKeyMarker"] ?? "", upload: root["NextUploadIdMarker"] ?? "")
            guard root["IsTruncated"] == "true", !next.key.isEmpty else { break }
            if let fault = pages.fault(after: "\(next.key) \(next.upload)", isEmpty: entries.isEmpty) { throw listFailed(call, fault) }
            guard !pages.isFull else { break }
            marker = next
        }
        listEnded()
        return found
    }

    // MARK: Reading and writing

    private func document(_ call: Call) throws(BlobError) -> XMLElement {
        try document(try demand(call), call)
    }

    private func document(_ response: HTTPResponse, _ call: Call) throws(BlobError) -> XMLElement {
        guard let root = XMLReader.read(response.body) else {
            throw BlobError(
                .io, doing: "\(call.doing) in \(place)",
                detail: "the answer is not the XML of an object store: expected one at this endpoint")
        }
        return root
    }

    private func own(_ key: String?) -> String? {
        guard let key, key.hasPrefix(place.prefix) else { return nil }
        return String(key.dropFirst(place.prefix.count))
    }

    /// An unreadable time counts as the latest possible one, so that nothing is dropped for its age.
    private func moment(_ text: String?) -> Timestamp {
        text.flatMap { RFC3339.timestamp($0) } ?? Timestamp(milliseconds: .max)
    }

    /// Percent-encoding as AWS signs it: every byte except `A-Z a-z 0-9 - . _ ~` becomes `%XY`.
    static func escaped(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                bytes.append(byte)
            default: bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func markup(_ text: String) -> String {
        var result = ""
        for character in text.unicodeScalars {
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }
}

extension ObjectStore.Refusal {
    /// There is no such object; a missing bucket is another error.
    var isMissing: Bool { status == 404 && (code == "NoSuchKey" || code.isEmpty) }
}

/// Follows a list over its pages, so that an endless list costs a bounded number of calls.
struct ListGuard {
    /// Number of pages, of at most 1,000 entries each. Later entries wait for the next run: lists find objects that can be deleted.
    static let pagesMax = 100
    /// S3 may send a page without entries and with a token; a store that keeps doing so is broken.
    static let emptyPagesMax = 8

    private var tokens: Set<String> = []
    private var emptyPages = 0

    var isFull: Bool { tokens.count >= Self.pagesMax }

    /// - Parameter token: The beginning of the next page, by this page.
    /// - Returns: The error in the list; `nil` when it may continue.
    mutating func fault(after token: String, isEmpty: Bool) -> String? {
        emptyPages = isEmpty ? emptyPages + 1 : 0
        guard tokens.insert(token).inserted else {
            return "the list does not end: expected a continuation token that is new on each page, found one a second time"
        }
        guard emptyPages < Self.emptyPagesMax else {
            return "the list does not end: expected entries, found \(emptyPages) pages without one in a row"
        }
        return nil
    }
}
