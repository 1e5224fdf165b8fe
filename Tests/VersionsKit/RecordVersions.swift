package import SyncCore

/// A server whose versions are counters of each record, made of a hub whose versions are numbers of its feed.
///
/// The protocol promises that the version of a record rises with every change of that record, and nothing else (PROTOCOL A4). A hub whose
/// versions are commit numbers keeps more than that, so a client that compares the versions of two records, or a version with `Sync-Head`,
/// would go unnoticed beside it. This value stands between a client and such a hub and rewrites every version on its way, record by record:
///
///     request    base_version of a mutation                                         to the hub's version
///     answer     version of a verdict, of its record and its current, of a pulled
///                or listed record, of a deletion; the buckets of a comparison       to the client's version
///
/// Heads, cursors, receipts and the `start` of a listing are the feed's, and stay as they are.
///
/// The counters of one half of the records begin at 1 and stay far below the head, and those of the other half are far above it. Both
/// have gaps. A version that the client cannot have from here becomes -1, as a hub takes the versions of another history. Requests and
/// answers in gzip pass as they are.
package struct RecordVersions: Sendable {
    /// The versions of one record as the hub and as the client know them, oldest first.
    private struct Counter: Sendable {
        var atHub: [Int64] = []
        var onWire: [Int64] = []
        let start: Int64
        let stride: Int64

        init(_ name: RecordName) {
            let digest = SHA256.hash(Array(name.description.utf8))
            stride = 1 + Int64(digest[1] % 5)
            start = digest[0].isMultiple(of: 2) ? 0 : 1 << 40 + Int64(digest[2])
        }

        /// - Parameter room: Numbers to leave free before it, for older versions that come to light later.
        mutating func add(_ version: Int64, leaving room: Int64 = 0) {
            let place = atHub.firstIndex { $0 >= version } ?? atHub.count
            if place < atHub.count, atHub[place] == version { return }
            let before = place > 0 ? onWire[place - 1] : start
            let number: Int64
            if place == atHub.count {
                number = before + 1 + Int64(place) % stride + room
            } else {
                // Without room a version that comes to light after a newer one has no number of its own left; no hub tells of such.
                number = before + 1 < onWire[place] ? before + 1 : max(before, 1)
            }
            atHub.insert(version, at: place)
            onWire.insert(number, at: place)
        }
    }

    private var counters: [RecordName: Counter] = [:]

    package init() {}

    /// The client's version of a record; `nil` when no answer has told of it.
    ///
    /// - Parameter version: The hub's; 0 stands for no version on both sides.
    package func onWire(_ version: Int64, of name: RecordName) -> Int64? {
        guard version > 0 else { return version }
        guard let counter = counters[name], let place = counter.atHub.firstIndex(of: version) else { return nil }
        return counter.onWire[place]
    }

    /// The hub's version of a record; -1 when no answer has told of this one or of an older one.
    ///
    /// - Parameter version: The client's.
    package func atHub(_ version: Int64, of name: RecordName) -> Int64 {
        guard version > 0 else { return version }
        guard let counter = counters[name], let last = counter.onWire.last, version <= last,
            let place = counter.onWire.lastIndex(where: { $0 <= version })
        else { return -1 }
        return counter.atHub[place]
    }

    /// Gives a version of the hub its number, whether a client was told of it or not.
    package mutating func count(_ version: Int64, of name: RecordName) {
        if version > 0 { counters[name, default: Counter(name)].add(version, leaving: 8) }
    }

    // MARK: - Requests

    package func atHub(_ request: HTTPRequest) -> HTTPRequest {
        guard Exchange(request) == .push, var push = Self.object(request) else { return request }
        var isChanged = false
        Self.each("mutations", in: &push) { mutation in
            guard let name = Self.name(mutation), let version = mutation["base_version"]?.int else { return }
            let known = atHub(version, of: name)
            mutation["base_version"] = .int(known)
            if known != version { isChanged = true }
        }
        // Otherwise its bytes stay as they are, blanks and all.
        guard isChanged else { return request }
        var request = request
        request.body = .bytes(JSON.object(push).bytes)
        return request
    }

    // MARK: - Answers

    /// - Parameters:
    ///   - request: As it went to the hub.
    ///   - hub: Answers the listing that a comparison needs, in the hub's versions.
    package mutating func onWire(
        _ response: HTTPResponse, to request: HTTPRequest, asking hub: (HTTPRequest) -> HTTPResponse
    ) -> HTTPResponse {
        guard response.status == 200, let exchange = Exchange(request), response.headers["Content-Encoding"] == nil,
            // An answer that is no JSON is no hub's, and has no version.
            var answer = (try? JSONReader.read(response.body, limits: .answer))?.object
        else { return response }
        var response = response
        if exchange == .verify {
            if let body = compared(answer, to: request, asking: hub) { response.body = body }
            return response
        }
        let names = Self.names(request)
        var seen: [(name: RecordName, version: Int64)] = []
        Self.visit(&answer, exchange, names) { name, object in
            if let version = object["version"]?.int, version > 0 { seen.append((name, version)) }
        }
        // One answer may show the steps of a record in any order.
        for (name, version) in seen.sorted(by: { $0.version < $1.version }) { counters[name, default: Counter(name)].add(version) }
        Self.visit(&answer, exchange, names) { name, object in
            guard let version = object["version"]?.int, let number = onWire(version, of: name) else { return }
            object["version"] = .int(number)
        }
        response.body = JSON.object(answer).bytes
        return response
    }

    /// The digest is made of versions, so it is compared anew with all that the hub lists.
    private mutating func compared(
        _ answer: JSONObject, to request: HTTPRequest, asking hub: (HTTPRequest) -> HTTPResponse
    ) -> [UInt8]? {
        // The hub has read both.
        guard case .bytes(let bytes) = request.body, let asked = try? VerifyMessages.readRequest(bytes),
            var said = try? VerifyMessages.readResponse(JSON.object(answer).bytes)
        else { return nil }
        let place = request.url.replacing("/v1/sync/verify", with: "/v1/sync/snapshot?")
        var digest = EntityDigest()
        var after: RecordID?
        repeat {
            let query = SnapshotMessages.query(
                SnapshotRequest(entity: asked.entity, after: after, limit: Limits.pullRecordsMax, namesUnreadable: true))
            let listing = HTTPRequest(.get, place + query, headers: request.headers)
            let listed = onWire(hub(listing), to: listing, asking: hub)
            // A hub that cannot list cannot be compared with either.
            guard let page = try? SnapshotMessages.readResponse(listed.body) else { return nil }
            for item in page.records { digest.add(item.id, version: item.record.version) }
            after = page.hasMore ? page.after : nil
        } while after != nil
        said.differs = digest.differences(from: asked.digest)
        return VerifyMessages.response(said)
    }

    // MARK: - Where versions are

    private enum Exchange {
        case push, pull, snapshot, verify

        init?(_ request: HTTPRequest) {
            let path = request.url.prefix { $0 != "?" }
            if path.hasSuffix("/v1/sync/push") {
                self = .push
            } else if path.hasSuffix("/v1/sync/pull") {
                self = .pull
            } else if path.hasSuffix("/v1/sync/snapshot") {
                self = .snapshot
            } else if path.hasSuffix("/v1/sync/verify") {
                self = .verify
            } else {
                return nil
            }
        }
    }

    /// Visits every object of an answer that has the version of a record.
    private static func visit(
        _ answer: inout JSONObject, _ exchange: Exchange, _ names: [String: RecordName], _ body: (RecordName, inout JSONObject) -> Void
    ) {
        func visit(_ lists: [String], _ object: inout JSONObject) {
            guard let entity = object["entity"]?.text.flatMap({ EntityName($0) }) else { return }
            for list in lists {
                each(list, in: &object) { item in
                    if let id = item["id"]?.text.flatMap({ RecordID($0) }) { body(RecordName(entity, id), &item) }
                }
            }
        }
        switch exchange {
        case .push:
            each("results", in: &answer) { result in
                guard let name = result["idempotency_key"]?.text.flatMap({ names[$0] }) else { return }
                body(name, &result)
                for member in ["record", "current"] {
                    guard var state = result[member]?.object else { continue }
                    body(name, &state)
                    result[member] = .object(state)
                }
            }
        case .pull: each("streams", in: &answer) { visit(["records", "deletions"], &$0) }
        case .snapshot: visit(["records"], &answer)
        case .verify: break
        }
    }

    /// The records of a push by the keys of its mutations.
    private static func names(_ request: HTTPRequest) -> [String: RecordName] {
        guard var push = object(request) else { return [:] }
        var names: [String: RecordName] = [:]
        each("mutations", in: &push) { mutation in
            if let key = mutation["idempotency_key"]?.text { names[key] = name(mutation) }
        }
        return names
    }

    private static func name(_ mutation: JSONObject) -> RecordName? {
        guard let entity = mutation["entity"]?.text.flatMap({ EntityName($0) }),
            let id = mutation["record_id"]?.text.flatMap({ RecordID($0) })
        else { return nil }
        return RecordName(entity, id)
    }

    private static func object(_ request: HTTPRequest) -> JSONObject? {
        guard case .bytes(let bytes) = request.body, request.headers["Content-Encoding"] == nil else { return nil }
        // The hub refuses a body that is not JSON.
        return (try? JSONReader.read(bytes, limits: .answer))?.object
    }

    /// Rewrites each object of a list in an object.
    private static func each(_ name: String, in object: inout JSONObject, _ change: (inout JSONObject) -> Void) {
        guard let list = object[name]?.array else { return }
        object[name] = .array(
            list.map { element in
                guard var inner = element.object else { return element }
                change(&inner)
                return .object(inner)
            })
    }
}
