import Foundation
import HubServer
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// An object store in memory: as much of S3 as the hub uses, and as strict as the strictest of them. A test can lose requests and
/// answers, let it be away, and damage what it holds.
final class SimObjectStore: WaitingTransport {
    enum Fault: Sendable {
        case lostRequest, lostAnswer
        case status(Int)
    }

    private struct Parts {
        var key: String
        var parts: [Int: [UInt8]] = [:]
    }

    private struct State {
        var objects: [String: [UInt8]] = [:]
        var uploads: [String: Parts] = [:]
        var made = 0
        var requests: [String] = []
        var faults: @Sendable (_ number: Int, _ request: String) -> Fault? = { _, _ in nil }
    }

    static let bucket = "files"
    private let state = Mutex(State())

    // MARK: For tests

    /// `PUT blobs/ab/…`, without what comes after `?`.
    var requests: [String] { state.withLock { $0.requests } }
    /// The objects below the prefix.
    var keys: [String] { state.withLock { $0.objects.keys.sorted() } }
    var openUploads: Int { state.withLock { $0.uploads.count } }

    /// - Parameter faults: Asked before each request, which are counted from here on.
    func fail(_ faults: @escaping @Sendable (_ number: Int, _ request: String) -> Fault?) {
        state.withLock { ($0.requests, $0.faults) = ([], faults) }
    }

    func change(_ key: String, _ change: (inout [UInt8]) -> Void) {
        state.withLock { if $0.objects[key] != nil { change(&$0.objects[key]!) } }
    }

    func put(_ key: String, _ bytes: [UInt8]) { state.withLock { $0.objects[key] = bytes } }
    func bytes(_ key: String) -> [UInt8]? { state.withLock { $0.objects[key] } }

    /// Returns whether these are the bytes of an object. `==` of arrays compares one byte after the other where nothing is optimised, which
    /// takes a third of a test with large files.
    func holds(_ bytes: [UInt8], at key: String) -> Bool { self.bytes(key).map { Data($0) == Data(bytes) } ?? false }

    /// The hub's side of it, as one process has it.
    func blobs(report: @escaping @Sendable (ObjectStore.Change) -> Void = { _ in }) throws -> ObjectBlobs {
        let place = try ObjectStorePlace("s3://\(Self.bucket)/hub", endpoint: "http://store", region: "here-1")
        let credentials = try #require(ObjectStoreCredentials(keyID: "key", secret: "secret"))
        return ObjectBlobs(
            ObjectStore(
                place, credentials, caFile: nil, transport: self, time: StillTime(), newDigest: { FileHash() }, report: report))
    }

    /// A clock on which everything is due at once: a store that was away is asked again by the next call.
    private struct StillTime: TimeSource {
        private static let turns = Atomic<Int64>(0)

        func now() -> Moment {
            let hours = Self.turns.wrappingAdd(1, ordering: .relaxed).newValue
            return Moment(instant: Instant(nanoseconds: hours), wall: Timestamp(milliseconds: 1_795_208_400_000 + hours * 3_600_000))
        }
    }

    // MARK: One request

    func exchange(_ request: HTTPRequest) throws(TransportError) -> HTTPResponse {
        let result: Result<HTTPResponse, TransportError> = state.withLock { state in
            do throws(TransportError) {
                return .success(try Self.exchange(request, &state))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private static func exchange(_ request: HTTPRequest, _ state: inout State) throws(TransportError) -> HTTPResponse {
        let parts = request.url.dropFirst("http://store/".count).split(separator: "?", maxSplits: 1).map(String.init)
        let prefix = "\(bucket)/hub/"
        let key = parts[0].hasPrefix(prefix) ? String(parts[0].dropFirst(prefix.count)) : ""
        let query = (parts.count > 1 ? parts[1] : "").split(separator: "&").map {
            $0.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
        }
        // curl signs the query in its order, and every store sorts it before it compares, so the order must be right already.
        precondition(query.allSatisfy { $0.count == 2 } && query.map { $0[0] } == query.map { $0[0] }.sorted(), "\(request.url)")
        let arguments = Dictionary(uniqueKeysWithValues: query.map { ($0[0], $0[1].removingPercentEncoding ?? "") })
        let body: [UInt8] = if case .bytes(let bytes) = request.body { bytes } else { [] }
        precondition(request.headers["x-amz-content-sha256"] == BlobStorageContract.digest(body).hex, "what is signed is not the body")
        precondition(request.signature?.secret == "secret" && request.signature?.region == "here-1")

        let name = "\(request.method.rawValue) \(key)"
        state.requests.append(name)
        let lost = TransportError(.timedOut, doing: "wait for the answer of store:80", detail: "no byte of the answer")
        let fault = state.faults(state.requests.count, name)
        if case .lostRequest? = fault { throw lost }
        if case .status(let status)? = fault { return refusal(status, "SlowDown") }
        let response = answer(request.method, key, arguments, request.headers, body, &state)
        if case .lostAnswer? = fault { throw lost }
        return response
    }

    private static func answer(
        _ method: HTTPRequest.Method, _ key: String, _ arguments: [String: String], _ headers: HTTPHeaders, _ body: [UInt8],
        _ state: inout State
    ) -> HTTPResponse {
        switch (method, key.isEmpty) {
        case (.get, true) where arguments["uploads"] != nil: return openUploads(arguments, state)
        case (.get, true): return list(arguments, state)
        case (.get, false):
            guard let bytes = state.objects[key] else { return refusal(404, "NoSuchKey") }
            guard let range = headers["Range"]?.dropFirst("bytes=".count).split(separator: "-").compactMap({ Int($0) }) else {
                return HTTPResponse(status: 200, body: bytes)
            }
            guard range[0] < bytes.count else { return refusal(416, "InvalidRange") }
            let last = min(range[1], bytes.count - 1)
            return HTTPResponse(
                status: 206, headers: ["Content-Range": "bytes \(range[0])-\(last)/\(bytes.count)"], body: Array(bytes[range[0]...last]))
        case (.head, false):
            guard let bytes = state.objects[key] else { return HTTPResponse(status: 404) }
            return HTTPResponse(status: 200, headers: ["Content-Length": String(bytes.count)])
        case (.put, false):
            if let upload = arguments["uploadId"] {
                guard state.uploads[upload]?.key == key, let number = arguments["partNumber"].flatMap({ Int($0) }) else {
                    return refusal(404, "NoSuchUpload")
                }
                state.uploads[upload]?.parts[number] = body
                return HTTPResponse(status: 200, headers: ["ETag": tag(body)])
            }
            if let source = headers["x-amz-copy-source"] {
                guard let bytes = state.objects[String(source.dropFirst("/\(bucket)/hub/".count))] else { return refusal(404, "NoSuchKey") }
                state.objects[key] = bytes
                return document("<CopyObjectResult><ETag>\(tag(bytes))</ETag></CopyObjectResult>")
            }
            state.objects[key] = body
            return HTTPResponse(status: 200, headers: ["ETag": tag(body)])
        case (.delete, false):
            if let upload = arguments["uploadId"] {
                return state.uploads.removeValue(forKey: upload) == nil ? refusal(404, "NoSuchUpload") : HTTPResponse(status: 204)
            }
            state.objects[key] = nil
            return HTTPResponse(status: 204)
        case (.post, false) where arguments["uploads"] != nil:
            state.made += 1
            state.uploads["upload/\(state.made)"] = Parts(key: key)
            return document(
                "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><UploadId>upload/\(state.made)</UploadId></InitiateMultipartUploadResult>"
            )
        case (.post, false): return join(key, arguments["uploadId"] ?? "", body, &state)
        default: return refusal(400, "InvalidRequest")
        }
    }

    private static func join(_ key: String, _ upload: String, _ body: [UInt8], _ state: inout State) -> HTTPResponse {
        guard let open = state.uploads[upload], open.key == key else { return refusal(404, "NoSuchUpload") }
        let wanted = XMLReader.read(body)?.all("Part").map { (Int($0["PartNumber"] ?? "") ?? 0, $0["ETag"] ?? "") } ?? []
        guard !wanted.isEmpty, wanted.map(\.0) == wanted.map(\.0).sorted() else { return refusal(400, "InvalidPartOrder") }
        var whole: [UInt8] = []
        for (index, part) in wanted.enumerated() {
            guard let bytes = open.parts[part.0], tag(bytes) == part.1 else { return refusal(400, "InvalidPart") }
            guard bytes.count >= 5 << 20 || index == wanted.count - 1 else { return refusal(400, "EntityTooSmall") }
            whole += bytes
        }
        state.objects[key] = whole
        state.uploads[upload] = nil
        return document("<CompleteMultipartUploadResult><Key>hub/\(key)</Key></CompleteMultipartUploadResult>")
    }

    /// In pages of three, so that every test goes through several.
    private static func list(_ arguments: [String: String], _ state: State) -> HTTPResponse {
        let after = arguments["continuation-token"] ?? ""
        let all = state.objects.keys.map { "hub/\($0)" }.filter { $0.hasPrefix(arguments["prefix"] ?? "") && $0 > after }.sorted()
        var text = "<ListBucketResult><IsTruncated>\(all.count > 3)</IsTruncated>"
        for key in all.prefix(3) {
            text += "<Contents><Key>\(key)</Key><Size>\(state.objects[String(key.dropFirst(4))]?.count ?? 0)</Size>"
            text += "<LastModified>2026-11-20T21:00:00.000Z</LastModified></Contents>"
        }
        if all.count > 3 { text += "<NextContinuationToken>\(all[2])</NextContinuationToken>" }
        return document(text + "</ListBucketResult>")
    }

    private static func openUploads(_ arguments: [String: String], _ state: State) -> HTTPResponse {
        let after = arguments["upload-id-marker"] ?? ""
        let all = state.uploads.filter { "hub/\($0.value.key)".hasPrefix(arguments["prefix"] ?? "") && $0.key > after }.sorted {
            $0.key < $1.key
        }
        var text = "<ListMultipartUploadsResult><IsTruncated>\(all.count > 1)</IsTruncated>"
        if let first = all.first {
            text += "<NextKeyMarker>hub/\(first.value.key)</NextKeyMarker><NextUploadIdMarker>\(first.key)</NextUploadIdMarker>"
            text +=
                "<Upload><Key>hub/\(first.value.key)</Key><UploadId>\(first.key)</UploadId><Initiated>2026-11-20T21:00:00Z</Initiated></Upload>"
        }
        return document(text + "</ListMultipartUploadsResult>")
    }

    private static func tag(_ bytes: [UInt8]) -> String { "\"\(BlobStorageContract.digest(bytes).hex)\"" }

    private static func document(_ text: String) -> HTTPResponse {
        HTTPResponse(status: 200, body: Array("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\(text)".utf8))
    }

    private static func refusal(_ status: Int, _ code: String) -> HTTPResponse {
        HTTPResponse(status: status, body: Array("<Error><Code>\(code)</Code><Message>no</Message></Error>".utf8))
    }
}
