import StoreKit
import SyncCore
import SyncStore

/// A store in memory with a clock that a test moves, and short words for what tests do with it.
final class TestAgent {
    var database: Database
    var store: Store
    var now: Moment
    var options: StoreOptions
    /// Stamp of the records that the hub hands out; `nil` for a hub without stamps.
    var stamp: HybridTime?
    let app = Requester(app: AppName(trusted: "inspector"), uid: 1000)

    static let rules: RuleBook = {
        var reading = EntityRules()
        reading.kind = .event
        reading.priority = .bulk
        var template = EntityRules()
        template.kind = .reference
        return RuleBook([
            EntityName(trusted: "audit"): EntityRules(), EntityName(trusted: "reading"): reading,
            EntityName(trusted: "template"): template,
        ])
    }()

    /// The same rules, with others for events.
    static func rulesWithReadings(_ change: (inout EntityRules) -> Void) -> RuleBook {
        var book = rules
        var reading = book.entities[EntityName(trusted: "reading")] ?? EntityRules()
        change(&reading)
        book.entities[EntityName(trusted: "reading")] = reading
        return book
    }

    static func capacity(_ mutations: Int) -> StoreCapacity {
        var capacity = StoreCapacity()
        capacity.mutations = mutations
        return capacity
    }

    init(
        rules: RuleBook = TestAgent.rules, capacity: StoreCapacity = StoreCapacity(), ablations: Ablations = .none,
        seed: UInt64 = 1, on database: Database? = nil, change: (inout StoreOptions) -> Void = { _ in }
    ) throws {
        now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: 1_763_700_000_000))
        options = StoreOptions(
            device: DeviceID(trusted: "gw-17"), bootID: "boot-1", rules: rules, capacity: capacity, seed: seed,
            ablations: ablations)
        change(&options)
        self.database = try database ?? EmptyDatabase.copy()
        store = try Store(self.database, options, at: now)
    }

    /// Lets time pass, on both clocks.
    func wait(_ duration: Duration) {
        now = Moment(instant: now.instant.advanced(by: duration), wall: now.wall.advanced(by: duration))
    }

    /// Throws the store away between two commits and opens another on the same database.
    func crash() throws {
        wait(.seconds(1))
        store = try Store(database, options, at: now)
    }

    // MARK: - Enqueue

    static func name(_ id: String, _ entity: String = "audit") -> RecordName {
        RecordName(EntityName(trusted: entity), RecordID(trusted: id))
    }

    static func mutation(
        _ action: NewMutation.Action, _ id: String?, _ data: JSONObject = [:], entity: String = "audit",
        priority: Priority? = nil, coalesces: Bool = false
    ) -> NewMutation {
        NewMutation(
            action, EntityName(trusted: entity), id.map { RecordID(trusted: $0) }, data: data, priority: priority,
            coalesces: coalesces)
    }

    @discardableResult
    func enqueue(_ mutation: NewMutation, appKey: AppKey? = nil) throws -> Enqueued {
        try store.enqueue([mutation], by: app, appKey: appKey, at: now)[0]
    }

    @discardableResult
    func create(_ id: String, _ data: JSONObject = ["n": 1], priority: Priority? = nil) throws -> Enqueued {
        try enqueue(TestAgent.mutation(.create, id, data, priority: priority))
    }

    @discardableResult
    func update(_ id: String, _ data: JSONObject, priority: Priority? = nil) throws -> Enqueued {
        try enqueue(TestAgent.mutation(.update, id, data, priority: priority))
    }

    @discardableResult
    func delete(_ id: String) throws -> Enqueued { try enqueue(TestAgent.mutation(.delete, id)) }

    @discardableResult
    func event(_ data: JSONObject = ["t": 20], priority: Priority? = nil) throws -> Enqueued {
        try enqueue(TestAgent.mutation(.create, nil, data, entity: "reading", priority: priority))
    }

    @discardableResult
    func list(_ mutations: [NewMutation]) throws -> [Enqueued] {
        try store.enqueue(mutations, isAtomic: true, by: app, at: now)
    }

    /// The problem that an enqueue is refused with.
    func refusal(_ mutation: NewMutation, appKey: AppKey? = nil) -> Problem? {
        do {
            try enqueue(mutation, appKey: appKey)
            return nil
        } catch {
            return (error as? StoreError)?.problem
        }
    }

    // MARK: - Sync

    static let anyBatch = BatchLimits(mutations: 50, bytes: 1 << 20)

    func claim(_ count: Int = 50, bytes: Int = 1 << 20, _ least: Priority = .bulk) throws -> [OutgoingMutation] {
        try store.claim(BatchLimits(mutations: count, bytes: bytes, leastPriority: least), at: now)?.mutations ?? []
    }

    func inFlight(_ count: Int = 50) throws -> [OutgoingMutation] {
        try store.loadInFlight(BatchLimits(mutations: count, bytes: 1 << 20), at: now)?.mutations ?? []
    }

    @discardableResult
    func answer(_ results: PushResult...) throws -> ResultsSummary {
        try store.applyResults(results, next: nil, at: now).summary
    }

    /// Claims everything and lets the hub accept it, version after version.
    func drain(from version: Int64 = 100) throws {
        var version = version
        while case let batch = try claim(), !batch.isEmpty {
            var results: [PushResult] = []
            for mutation in batch {
                results.append(.accepted(mutation.key, version))
                version += 1
            }
            _ = try store.applyResults(results, next: nil, at: now)
        }
    }

    @discardableResult
    func pull(
        _ records: [(String, Int64, JSONObject)], deleted: [(String, Int64)] = [], entity: String = "audit",
        cursor: String = "c", hasMore: Bool = false, head: Int64 = 1_000
    ) throws -> PullSummary {
        let page = TestAgent.page(
            records, deleted: deleted, entity: entity, cursor: cursor, hasMore: hasMore, head: head, stamp: stamp?.description)
        return try store.applyPull(page, at: now)
    }

    static func page(
        _ records: [(String, Int64, JSONObject)], deleted: [(String, Int64)] = [], entity: String = "audit",
        cursor: String = "c", hasMore: Bool = false, head: Int64 = 1_000, stamp: String? = nil
    ) -> PullResponse {
        PullResponse(
            epoch: "e", head: head,
            pages: [
                StreamPage(
                    entity: EntityName(trusted: entity), cursor: cursor, hasMore: hasMore,
                    records: records.map {
                        StreamPage.Record(id: RecordID(trusted: $0.0), record: HubRecord(version: $0.1, data: $0.2, hlc: stamp))
                    },
                    deletions: deleted.map { StreamPage.Deletion(id: RecordID(trusted: $0.0), version: $0.1) })
            ])
    }

    // MARK: - Look

    func record(_ id: String, _ entity: String = "audit") throws -> RecordSnapshot? {
        try store.reads.record(TestAgent.name(id, entity))
    }

    func view(_ id: String, _ entity: String = "audit") throws -> String? { try record(id, entity)?.view }

    /// Returns the reason in the plan for which a mutation waits.
    func blocked(_ key: MutationKey) throws -> Deferral? {
        try store.reads.waiting(limit: 1_000, at: now).first { $0.key == key }?.blockedBy
    }

    func state(_ key: MutationKey) throws -> MutationState? { try store.reads.mutation(key, at: now)?.state }

    func states(_ keys: [MutationKey]) throws -> [String] { try keys.map { try state($0)?.name ?? "gone" } }
}

extension PushResult {
    static func accepted(
        _ key: MutationKey, _ version: Int64, record: HubRecord? = nil, merged: [String] = []
    ) -> PushResult {
        PushResult(key: key, verdict: .accepted(version: version, serverID: nil, record: record, merged: merged))
    }

    static func rejected(_ key: MutationKey, current: HubState? = nil) -> PushResult {
        PushResult(
            key: key, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: current))
    }

    static func retry(_ key: MutationKey, _ code: String = "busy", after: Duration? = nil) -> PushResult {
        PushResult(key: key, verdict: .retry(Problem(code, status: 503, detail: "later"), after: after))
    }

    static func conflict(_ key: MutationKey, _ fields: [String], _ current: HubState) -> PushResult {
        PushResult(key: key, verdict: .conflict(fields: fields, current: current))
    }

    static func duplicate(
        _ key: MutationKey, _ original: Original = .accepted, _ current: HubState
    ) -> PushResult {
        PushResult(key: key, verdict: .duplicate(original: original, current: current))
    }
}
