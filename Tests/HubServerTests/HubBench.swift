import HubPostgres
import PostgresStand
import SyncCore

@testable import HubServer

/// A hub with a clock that the test moves, and requests as a device makes them. Its database is one that the engine under test
/// makes for it, unless the test names a place.
final class HubBench {
    let hub: Hub
    private let place: Hub.Place
    /// Abilities of the agents of the test.
    var abilities = AgentAbility.all
    var now = Timestamp(milliseconds: 1_795_208_400_000)  // 2026-11-20T21:00:00Z
    /// Answers requests that only read, as in service, where a test sets it. The hub itself answers those that it leaves.
    var reader: HubReader?
    /// Number of requests that the reader has answered.
    private(set) var readerAnswers = 0
    private static let readerPaths = ["/v1/sync/pull", "/v1/sync/snapshot", "/v1/sync/known", "/v1/sync/verify", "/v1/config"]

    init(
        rules: RuleBook = RuleBook(), tokens: TokenBook? = nil, compressor: (any Compressor)? = nil,
        ablations: Ablations = .none, seed: UInt64 = 1, place: Hub.Place? = nil, access: AccessBook = AccessBook(),
        change: (inout Hub.Settings) -> Void = { _ in }
    ) throws {
        var settings = Hub.Settings(rules: rules, tokens: tokens, compressor: compressor)
        settings.access = access
        settings.ablations = ablations
        change(&settings)
        let place = try place ?? Engine.current.newPlace()
        if case .shared = place, tokens != nil { settings.keepsTokens = true }
        self.place = place
        hub = try Hub(place, settings: settings, random: SeededRandom(seed: seed))
        if settings.keepsTokens, let tokens { try hub.changeTokens { $0 = tokens } }
    }

    // MARK: Backups

    enum Backup {
        case bytes([UInt8])
        case schema(String)
    }

    func backUp() throws -> Backup {
        guard case .shared(let place as PostgresPlace) = place else { return .bytes(try hub.copy()) }
        return .schema(try PostgresServer.shared.get().backUp(schema: PostgresServer.schema(of: place.url)))
    }

    /// - Parameter startingEpoch: `false` as when an operator forgets it.
    func restore(_ backup: Backup, startingEpoch: Bool = true) throws {
        switch backup {
        case .bytes(let bytes): try hub.restore(bytes, startingEpoch: startingEpoch)
        case .schema(let copy):
            guard case .shared(let place as PostgresPlace) = place else { return }
            try PostgresServer.shared.get().restore(copy, schema: PostgresServer.schema(of: place.url))
            if startingEpoch { try hub.startEpoch() }
        }
    }

    // MARK: Requests

    func send(
        _ method: String, _ target: String, _ body: JSON? = nil, device: DeviceID = .one, replica: ReplicaID? = "r-1",
        headers extra: [(String, String)] = []
    ) -> HubResponse {
        var headers: HTTPHeaders = [:]
        var said = HubRequestHeaders(device: device, replica: replica)
        said.abilities = abilities
        said.write(to: &headers)
        for (name, value) in extra { headers[name] = value }
        let request = HubRequest(method, target, headers: headers, body: body?.bytes ?? [])
        if let reader, HubBench.readerPaths.contains(request.path),
            let answer = reader.answer([request], tokens: hub.settings.tokens, at: now)?.first
        {
            readerAnswers += 1
            return answer
        }
        return hub.handle(request, at: now)
    }

    func push(
        _ mutations: [Sent], acked: Int64 = 0, maxSent: Int64? = nil, device: DeviceID = .one, replica: ReplicaID? = "r-1"
    ) -> HubResponse {
        var body: JSONObject = ["acked_seq": .int(acked), "mutations": .array(mutations.map { .object($0.json) })]
        if let maxSent { body["max_sent_seq"] = .int(maxSent) }
        return send("POST", "/v1/sync/push", .object(body), device: device, replica: replica)
    }

    /// Pushes and reads the verdicts with the agent's own reader.
    /// All pages of a listing, from the first on.
    func list(_ request: SnapshotRequest, device: DeviceID = .one) throws -> [SnapshotPage] {
        var request = request
        var pages: [SnapshotPage] = []
        repeat {
            let response = send("GET", "/v1/sync/snapshot?" + SnapshotMessages.query(request), device: device)
            guard response.status == 200 else { throw Unexpected(response) }
            let page = try SnapshotMessages.readResponse(response.body)
            pages.append(page)
            request.after = page.hasMore ? page.after : nil
        } while request.after != nil
        return pages
    }

    func verdicts(_ mutations: [Sent], device: DeviceID = .one, replica: ReplicaID? = "r-1") throws -> [PushResult] {
        let response = push(mutations, device: device, replica: replica)
        guard response.status == 200 else { throw Unexpected(response) }
        return try PushMessages.readResponse(response.body).results
    }

    func verdict(_ mutation: Sent, device: DeviceID = .one) throws -> PushResult.Verdict {
        try verdicts([mutation], device: device)[0].verdict
    }

    func pull(
        _ streams: [(EntityName, String?)], limit: Int = 500, maxBytes: Int = 1 << 20, device: DeviceID = .one,
        namesUnreadable: Bool = false, namesEntities: Bool = false
    ) throws -> PullResponse {
        var request = PullRequest(
            streams: streams.map { StreamPosition(entity: $0.0, cursor: $0.1) }, limit: limit, maxBytes: maxBytes, maxSentSeq: 0,
            namesUnreadable: namesUnreadable)
        request.namesEntities = namesEntities
        let body = try JSONReader.read(PullMessages.request(request))
        let response = send("POST", "/v1/sync/pull", body, device: device)
        guard response.status == 200 else { throw Unexpected(response) }
        return try PullMessages.readResponse(response.body)
    }

    /// Follows the feed of one entity to its end.
    func follow(_ entity: EntityName, from cursor: String? = nil, limit: Int = 500) throws -> (pages: [StreamPage], cursor: String?) {
        var pages: [StreamPage] = []
        var cursor = cursor
        while true {
            guard let page = try pull([(entity, cursor)], limit: limit).pages.first else { return (pages, cursor) }
            pages.append(page)
            cursor = page.cursor
            if !page.hasMore { return (pages, cursor) }
            if pages.count > 10_000 { throw Unexpected(HubResponse(status: 0)) }
        }
    }

    /// A record of the hub, as any device sees it.
    func data(_ entity: EntityName, _ id: RecordID) throws -> JSONObject? {
        let pages = try follow(entity).pages
        return pages.flatMap(\.records).last { $0.id == id }?.record.data
    }

    struct Unexpected: Error, CustomStringConvertible {
        let description: String

        init(_ response: HubResponse) {
            description = "\(response.status) \(String(decoding: response.body, as: UTF8.self))"
        }
    }
}

/// A mutation as a device sends it; everything that a test does not care about has a plain value.
struct Sent {
    var json: JSONObject

    init(
        _ key: String, seq: Int64 = 1, _ action: MutationAction, _ entity: String = "audits", id: String = "a-1",
        data: JSON? = nil, unset: [String] = [], ops: [JSON] = [], base: Int64 = 0, hlc: String? = nil, ms: UInt64 = 100,
        node: String = "0000000a", clock: String? = nil, dependsOn: [String] = [], group: String? = nil
    ) {
        json = [
            "seq": .int(seq), "idempotency_key": .string(key), "entity": .string(entity), "record_id": .string(id),
            "action": .string(action.rawValue), "base_version": .int(base),
            "hlc": .string(hlc ?? HybridTime(milliseconds: ms, counter: 0, node: node).description),
            "client_updated_at": "2026-11-20T21:04:05.120Z",
        ]
        if let data { json["data"] = data }
        if !unset.isEmpty { json["unset"] = .list(unset) }
        if !ops.isEmpty { json["ops"] = .array(ops) }
        if let clock { json["clock"] = .string(clock) }
        if !dependsOn.isEmpty { json["depends_on"] = .list(dependsOn) }
        if let group { json["group"] = .string(group) }
    }

    /// The same with one member changed or taken away.
    func with(_ name: String, _ value: JSON?) -> Sent {
        var copy = self
        copy.json[name] = value
        return copy
    }
}

extension DeviceID {
    static var one: DeviceID { DeviceID(trusted: "gw-1") }
    static var two: DeviceID { DeviceID(trusted: "gw-2") }
}

extension Identifier: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self.init(trusted: value) }
}
