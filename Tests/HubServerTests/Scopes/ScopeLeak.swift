import HubServer
import SyncCore
import Testing

/// One place in which a server tells a device something of another one's records, or lets it change them, and the check that must
/// notice it.
struct ScopeLeak: Sendable, CustomTestStringConvertible {
    var what: String
    var noticedBy: String
    var ablations: Ablations = .none
    var alter: @Sendable (inout HTTPRequest, Memory) -> Void = { _, _ in }
    var spoil: @Sendable (HTTPRequest, inout HTTPResponse, inout Memory) -> Void = { _, _, _ in }

    var testDescription: String { what }

    /// The state that a server may keep from one request to the next.
    struct Memory: Sendable {
        /// Keys of the second device's changes.
        var keys: Set<String> = []
        /// Cursors that the second device got in pulls, and in listings.
        var cursors: Set<String> = []
        var starts: Set<String> = []
        /// Records that the first device was told to be revoked.
        var revoked: [String] = []
        /// Records that were made in the scope which the first device gains and loses.
        var west: [String] = []
        /// The cursors of the first device that have brought something.
        var used: Set<String> = []
        var count: Int64 = 0

        mutating func note(_ request: HTTPRequest) {
            for mutation in ScopeLeak.mutations(request) {
                if request.isOf(ScopeConformanceTests.tokens.second), let key = mutation["idempotency_key"]?.text { keys.insert(key) }
                if mutation["data"]?.object?["site"]?.text == ScopeLeak.west, let id = mutation["record_id"]?.text { west.append(id) }
            }
        }

        mutating func note(_ response: HTTPResponse, to request: HTTPRequest) {
            guard let object = (try? JSONReader.read(response.body))?.object else { return }  // Not every answer is JSON.
            let pages = (object["streams"]?.array ?? []).compactMap(\.object)
            if request.isOf(ScopeConformanceTests.tokens.second) {
                cursors.formUnion(pages.compactMap { $0["cursor"]?.text })
                if let start = object["start"]?.object?["cursor"]?.text { starts.insert(start) }
            } else if request.isOfFirst {
                let deletions = pages.flatMap { $0["deletions"]?.array ?? [] }.compactMap(\.object)
                revoked += deletions.filter { $0["reason"] == "revoked" }.compactMap { $0["id"]?.text }
            }
        }
    }

    // MARK: Requests

    static let foreign = ScopeConformanceTests.prefix + "-foreign"
    static let mine = ScopeConformanceTests.prefix + "-mine"
    static let north = ScopeConformanceTests.prefix + "-north"
    static let south = ScopeConformanceTests.prefix + "-south"
    static let west = ScopeConformanceTests.prefix + "-west"

    static func mutations(_ request: HTTPRequest) -> [JSONObject] {
        guard request.path == "/v1/sync/push" else { return [] }
        return (request.json?["mutations"]?.array ?? []).compactMap(\.object)
    }

    /// The cursor of the one stream of a pull or comparison; `.null` begins at the beginning.
    static func cursor(_ request: HTTPRequest) -> JSON? {
        switch request.path {
        case "/v1/sync/pull": request.json?["streams"]?.array?.first?.object?["cursor"]
        case "/v1/sync/verify": request.json?["at"]
        default: nil
        }
    }

    /// Rewrites the mutations of the first device's pushes.
    static func rewriting(_ change: @escaping @Sendable (inout JSONObject) -> Void) -> @Sendable (inout HTTPRequest, Memory) -> Void {
        { request, _ in
            guard request.isOfFirst, request.path == "/v1/sync/push", var object = request.json else { return }
            ConformanceTests.each("mutations", in: &object, change)
            request.body = .bytes(JSON.object(object).bytes)
        }
    }

    /// Answers some requests of the first device as if another one had made them.
    static func asking(
        as token: String, _ which: @escaping @Sendable (HTTPRequest, Memory) -> Bool
    ) -> @Sendable (inout HTTPRequest, Memory) -> Void {
        { request, memory in
            guard request.isOfFirst, which(request, memory) else { return }
            request.headers["Authorization"] = "Bearer \(token)"
            request.headers["Sync-Device"] = nil
            request.headers["Sync-Replica"] = ScopeConformanceTests.prefix + "-other"
        }
    }

    // MARK: Answers

    /// A record that the first device must not see.
    static let record: JSON = ["id": .string(foreign), "version": 1, "data": ["site": .string(south), "note": "of the second device"]]
    static let state: JSON = ["version": 1, "data": ["site": .string(south), "note": "of the second device"]]

    static func first(
        _ path: String, where isMeant: @escaping @Sendable (HTTPRequest) -> Bool = { _ in true },
        _ change: @escaping @Sendable (inout JSONObject, inout Memory) -> Void
    ) -> @Sendable (HTTPRequest, inout HTTPResponse, inout Memory) -> Void {
        { request, response, memory in
            guard request.isOfFirst, request.path == path, isMeant(request), response.status == 200,
                // An answer 200 at these paths is JSON.
                var object = (try? JSONReader.read(response.body))?.object
            else { return }
            change(&object, &memory)
            response.body = JSON.object(object).bytes
        }
    }

    /// Rewrites the first device's verdicts.
    static func verdicts(
        _ change: @escaping @Sendable (_ mutation: JSONObject, _ result: inout JSONObject, Memory) -> Void
    ) -> @Sendable (HTTPRequest, inout HTTPResponse, inout Memory) -> Void {
        { request, response, memory in
            let known = memory
            var asked: [String: JSONObject] = [:]
            for mutation in mutations(request) { asked[mutation["idempotency_key"]?.text ?? ""] = mutation }
            let change = first("/v1/sync/push") { [asked] object, _ in
                ConformanceTests.each("results", in: &object) { result in
                    if let mutation = asked[result["idempotency_key"]?.text ?? ""] { change(mutation, &result, known) }
                }
            }
            change(request, &response, &memory)
        }
    }

    /// Adds to the pages of the first device, of which there is one at least.
    static func pages(
        where isMeant: @escaping @Sendable (HTTPRequest) -> Bool = { _ in true },
        _ change: @escaping @Sendable (HTTPRequest, inout JSONObject, inout Memory) -> Void
    ) -> @Sendable (HTTPRequest, inout HTTPResponse, inout Memory) -> Void {
        { request, response, memory in
            let change = first("/v1/sync/pull", where: isMeant) { object, memory in
                guard object["errors"]?.array?.isEmpty ?? true else { return }
                var page = object["streams"]?.array?.first?.object
                if page == nil, let cursor = cursor(request), cursor.text != nil {
                    page = [
                        "entity": request.json?["streams"]?.array?.first?.object?["entity"] ?? .null, "cursor": cursor, "has_more": false,
                        "records": [], "deletions": [],
                    ]
                }
                guard var page else { return }
                change(request, &page, &memory)
                let isEmpty = page["records"]?.array?.isEmpty ?? true && page["deletions"]?.array?.isEmpty ?? true
                if !isEmpty || object["streams"]?.array?.isEmpty == false { object["streams"] = [.object(page)] }
            }
            change(request, &response, &memory)
        }
    }

    static func add(_ item: JSON, to list: String, of page: inout JSONObject) {
        page[list] = .array((page[list]?.array ?? []) + [item])
    }

    static func deletion(_ id: String) -> JSON { ["id": .string(id), "version": .int(1 << 40)] }

    static func refuse(_ result: inout JSONObject, _ code: String = "forbidden", _ detail: String = "it is of another site") {
        result["status"] = "rejected"
        result["version"] = nil
        result["record"] = nil
        result["problem"] = ["type": .string("urn:edge-sync:" + code), "title": "Refused", "status": 403, "detail": .string(detail)]
    }

    static func isForbidden(_ result: JSONObject) -> Bool { code(result) == "forbidden" }

    static func code(_ result: JSONObject) -> String? {
        result["problem"]?.object?["type"]?.text.map { String($0.dropFirst("urn:edge-sync:".utf8.count)) }
    }

    static func say(_ detail: String, in result: inout JSONObject) {
        guard var problem = result["problem"]?.object else { return }
        problem["detail"] = .string(detail)
        result["problem"] = .object(problem)
    }
}

extension HTTPRequest {
    var path: String { String(url.dropFirst("http://hub".utf8.count).prefix { $0 != "?" }) }
    var query: String { url.split(separator: "?", maxSplits: 1).dropFirst().first.map { String($0) } ?? "" }
    func isOf(_ token: String) -> Bool { headers["Authorization"] == "Bearer \(token)" }
    var isOfFirst: Bool { isOf(ScopeConformanceTests.tokens.first) }

    var json: JSONObject? {
        guard case .bytes(let bytes) = body else { return nil }
        return (try? JSONReader.read(bytes))?.object  // The run also sends what is no JSON.
    }
}
