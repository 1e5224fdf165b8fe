import HubServer
import SyncCore

/// A hub that shares work orders out by assignee and site, and devices that hold what they receive.
final class ScopeBench {
    let bench: HubBench
    private(set) var mirrors: [DeviceID: Mirror] = [:]
    /// Answers that showed a record to a device that may not see it.
    private(set) var leaks: [String] = []
    /// Number of the last key. Another bench over the same database goes on behind it.
    var keys = 0

    /// The records of a device, and its place in the feed.
    struct Mirror {
        var records: [RecordID: HubRecord] = [:]
        var cursor: String?
        /// Records and deletions that were sent.
        var received = 0
        /// Whole listings.
        var listings = 0
        var revoked: [RecordID] = []
    }

    static let orders: EntityName = "work_orders"

    static var rules: RuleBook {
        var orders = EntityRules()
        orders.declaredScope = ["assignee", "site"]
        orders.fieldRights = ["price": .role("office")]
        var readings = EntityRules()
        readings.kind = .event
        readings.declaredScope = ["device"]
        return RuleBook(["work_orders": orders, "readings": readings])
    }

    init(
        rules: RuleBook = ScopeBench.rules, ablations: Ablations = .none, access: AccessBook = AccessBook(), place: Hub.Place? = nil,
        scopes: Hub.ScopesOfDatabase = .kept
    ) throws {
        bench = try HubBench(rules: rules, ablations: ablations, place: place, access: access) { $0.scopesOfDatabase = scopes }
    }

    // MARK: Grants

    func grant(_ device: DeviceID, _ field: String, _ values: String...) {
        for value in values where bench.hub.settings.access.devices[device]?.scopes[field]?.contains(value) != true {
            bench.hub.settings.access.devices[device, default: Grants()].scopes[field, default: []].append(value)
        }
    }

    func revoke(_ device: DeviceID, _ field: String, _ value: String) {
        bench.hub.settings.access.devices[device]?.scopes[field]?.removeAll { $0 == value }
    }

    func share(of device: DeviceID) -> DeviceAccess { bench.hub.settings.access.share(of: device) }

    func mayReceive(_ device: DeviceID, _ data: JSONObject, _ entity: EntityName = ScopeBench.orders) -> Bool {
        guard let rules = bench.hub.settings.rules[entity] else { return false }
        return share(of: device).includesAny(of: rules.scopes(of: data))
    }

    // MARK: Requests

    @discardableResult
    func push(
        _ device: DeviceID, _ action: MutationAction, _ id: String, _ data: JSON? = nil, base: Int64 = 0, entity: String = "work_orders",
        group: String? = nil
    ) throws -> PushResult.Verdict {
        keys += 1
        let sent = Sent(
            "k-\(keys)", seq: Int64(keys), action, entity, id: id, data: data, base: base, ms: UInt64(1_000 + keys),
            node: HybridClock.node(of: device), group: group)
        let verdict = try bench.verdict(sent, device: device)
        for state in verdict.shownStates { check(device, RecordID(trusted: id), state, "a verdict") }
        return verdict
    }

    func publish(_ id: String, _ data: JSONObject?) throws {
        try bench.hub.publish(RecordName(ScopeBench.orders, RecordID(trusted: id)), data, at: bench.now)
    }

    /// Pulls until there is nothing new, as an agent does.
    func pull(_ device: DeviceID, limit: Int = 100) throws {
        var mirror = mirrors[device] ?? Mirror()
        for _ in 0..<1_000 {
            let response = try bench.pull([(ScopeBench.orders, mirror.cursor)], limit: limit, device: device)
            if let error = response.errors.first {
                guard error.problem.status == 410 else { throw HubBench.Unexpected(HubResponse(status: error.problem.status)) }
                try list(device, &mirror)
                continue
            }
            guard let page = response.pages.first else { break }
            for record in page.records {
                check(device, record.id, .record(record.record), "a page")
                mirror.records[record.id] = record.record
            }
            for deletion in page.deletions {
                if mirror.records[deletion.id] != nil, deletion.reason == "revoked" { mirror.revoked.append(deletion.id) }
                mirror.records[deletion.id] = nil
            }
            mirror.received += page.records.count + page.deletions.count
            mirror.cursor = page.cursor
            if !page.hasMore, response.errors.isEmpty { break }
        }
        mirrors[device] = mirror
    }

    func list(_ device: DeviceID, _ mirror: inout Mirror) throws {
        let request = SnapshotRequest(entity: ScopeBench.orders, after: nil, limit: 7)
        let pages = try bench.list(request, device: device)
        mirror.records = [:]
        mirror.listings += 1
        for record in pages.flatMap(\.records) {
            check(device, record.id, .record(record.record), "a listing")
            mirror.records[record.id] = record.record
            mirror.received += 1
        }
        mirror.cursor = pages.first?.startCursor
    }

    private func check(_ device: DeviceID, _ id: RecordID, _ state: HubState, _ place: String) {
        guard case .record(let record) = state, !mayReceive(device, record.data) else { return }
        leaks.append("\(place) shows \(id) to \(device): \(record.data.json)")
    }

    /// The records that the device should have.
    func expected(_ device: DeviceID, _ ids: [String]) throws -> [RecordID: JSONObject] {
        var found: [RecordID: JSONObject] = [:]
        for id in ids {
            let name = RecordName(ScopeBench.orders, RecordID(trusted: id))
            if let data = try bench.hub.record(name)?.data, mayReceive(device, data) { found[name.id] = data }
        }
        return found
    }

    func held(_ device: DeviceID) -> [RecordID: JSONObject] { (mirrors[device]?.records ?? [:]).mapValues(\.data) }
    func ids(_ device: DeviceID) -> [String] { held(device).keys.map(\.text).sorted() }
}

extension PushResult.Verdict {
    fileprivate var shownStates: [HubState] {
        switch self {
        case .accepted(_, _, let record, _): record.map { [.record($0)] } ?? []
        case .duplicate(_, let current), .conflict(_, let current): [current]
        case .rejected(_, let current): current.map { [$0] } ?? []
        case .retry: []
        }
    }

    var code: String {
        switch self {
        case .accepted: "accepted"
        case .duplicate: "duplicate"
        case .conflict: "conflict"
        case .rejected(let problem, _): problem.code
        case .retry(let problem, _): problem?.code ?? "retry"
        }
    }
}
