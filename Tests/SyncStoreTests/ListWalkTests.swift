import SyncCore
import SyncStore
import Testing

/// Atomic lists over few records, which another device deletes and changes, and which people decide about in any order. A hub that takes
/// each list as a whole sees whether a part of one arrives alone.
@Suite("Walks over atomic lists")
struct ListWalkTests {
    /// The numbers by themselves are histories in which lists once waited for each other for good, or a part of one arrived.
    private static let seeds: [UInt64] = Array(1...20) + [27, 49, 112, 180, 556, 974]

    @Test("No list arrives in part, and none waits for ever", arguments: ListWalkTests.seeds)
    func walk(_ seed: UInt64) throws {
        let walk = try ListWalk(seed)
        for _ in 0..<60 { try walk.step() }
        for _ in 0..<60 { try walk.end() }
        let open = try walk.mutations.filter { [.pending, .inFlight, .conflicted].contains($0.state) }
        #expect(open.isEmpty, "\(walk.trace.suffix(30))")
    }
}

/// A hub without rules: a change of a record that is not there is in dispute, and a list is all or nothing.
private struct ListHub {
    var version: Int64 = 10
    var records: [String: JSONObject] = [:]
    var versions: [String: Int64] = [:]
    /// Fields that a record ever had.
    var seen: Set<String> = []
    var accepted: Set<String> = []
    var random: SeededRandom

    mutating func decide(_ batch: [OutgoingMutation]) throws -> [PushResult] {
        var results: [PushResult] = []
        var blocked: Set<RecordName> = []
        var rest = batch[...]
        while let first = rest.first {
            let unit = rest.prefix { $0.key == first.key || $0.group != nil && $0.group == first.group }
            rest = rest.dropFirst(unit.count)
            let isBlocked = unit.contains { blocked.contains($0.record) }
            for result in isBlocked ? unit.map({ .retry($0.key, "blocked-by-earlier") }) : try decide(unit: Array(unit)) {
                switch result.verdict {
                case .retry, .conflict: blocked.formUnion(unit.map(\.record))
                case .accepted, .duplicate, .rejected: break
                }
                results.append(result)
            }
        }
        return results
    }

    private mutating func decide(unit: [OutgoingMutation]) throws -> [PushResult] {
        let whim = random.below(12)
        if whim == 0 { return unit.map { .rejected($0.key) } }
        if whim == 1 { return unit.map { .retry($0.key, after: .seconds(1)) } }
        let before = self
        version += 1
        var results: [PushResult] = []
        for mutation in unit {
            let id = mutation.record.id.text
            let keys = try mutation.dependsOn.map { try JSONReader.read($0).array ?? [] } ?? []
            let known = accepted.union(unit.map(\.key.text))
            if keys.contains(where: { !known.contains($0.text ?? "") }) {
                results.append(.retry(mutation.key, "dependency-missing", after: .seconds(1)))
            } else if mutation.action == .update, records[id] == nil {
                results.append(.conflict(mutation.key, ["$delete"], .deleted(version: versions[id] ?? 0)))
            } else {
                var record = records[id] ?? [:]
                for member in try JSONReader.read(mutation.data ?? "{}").object?.members ?? [] { record[member.name.text] = member.value }
                set(id, record)
                results.append(.accepted(mutation.key, version, record: HubRecord(version: version, data: record)))
            }
        }
        if results.allSatisfy({ if case .accepted = $0.verdict { true } else { false } }) {
            accepted.formUnion(unit.map(\.key.text))
            for record in records.values { seen.formUnion(record.names) }
            return results
        }
        let random = random
        self = before
        self.random = random
        return results.map { result in
            if case .accepted = result.verdict { .retry(result.key, "blocked-by-earlier") } else { result }
        }
    }

    mutating func set(_ id: String, _ record: JSONObject?) {
        records[id] = record
        versions[id] = version
    }
}

extension SeededRandom {
    fileprivate mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}

private final class ListWalk {
    let agent: TestAgent
    var hub: ListHub
    var random: SeededRandom
    /// The field of each member, by list. No other change sets it.
    var lists: [[String]] = []
    var keys: [MutationKey] = []
    var trace: [String] = []
    private static let ids = ["a", "b", "c", "d"]
    private let hasDeadlines: Bool
    private var count = 0

    init(_ seed: UInt64) throws {
        random = SeededRandom(seed: seed)
        hub = ListHub(random: SeededRandom(seed: seed ^ 77))
        var audit = EntityRules()
        audit.fields = ["finding": .manual]
        audit.onDeleted = random.below(2) == 0 ? .manual : .deleteWins
        hasDeadlines = random.below(2) == 0
        agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): audit]))
        for id in Self.ids {
            hub.version += 1
            hub.set(id, ["finding": "pass", "n": 0])
        }
        try pull()
    }

    var mutations: [MutationSnapshot] {
        get throws {
            var query = MutationQuery()
            query.limit = 1_000
            return try agent.store.reads.mutations(query, at: agent.now).items
        }
    }

    private func pull() throws {
        let there = Self.ids.compactMap { id in hub.records[id].map { (id, hub.versions[id] ?? 0, $0) } }
        try agent.pull(there, deleted: Self.ids.filter { hub.records[$0] == nil }.map { ($0, hub.versions[$0] ?? 0) })
    }

    private func push(_ most: Int) throws {
        let batch = try agent.claim(most)
        let results = try hub.decide(batch)
        _ = try agent.store.applyResults(results, next: nil, at: agent.now)
        trace.append("push \(zip(batch, results).map { "\($0.action) \($0.record.id) \($0.data ?? "") \("\($1.verdict)".prefix(8))" })")
        for list in lists {
            let arrived = list.filter { hub.seen.contains($0) }
            #expect(arrived.isEmpty || arrived.count == list.count, "\(arrived) of \(list): \(trace.suffix(30))")
        }
    }

    /// Does what the store may refuse.
    private func attempt(_ what: String, _ body: () throws -> Void) throws {
        trace.append(what)
        do { try body() } catch { if (error as? StoreError)?.problem == nil { throw error } }
    }

    private func there() throws -> [String] { try Self.ids.filter { try agent.record($0)?.isDeleted == false } }

    func step() throws {
        agent.wait(.seconds(2))
        switch random.below(10) {
        case 0...2: try list()
        case 3: try change()
        case 4: disturb()
        case 5: try pull()
        case 6, 7: try decide()
        case 8: try push(1 + random.below(6))
        default: try act()
        }
        try check()
    }

    /// All that waits goes on.
    func end() throws {
        agent.wait(.seconds(4_000))
        try pull()
        for conflict in try agent.conflicts() where conflict.isOpen {
            try attempt("decide \(conflict.record)") { try ConflictTests.resolve(agent, .all(.local), id: conflict.number) }
        }
        try push(50)
        try check()
    }

    private func check() throws {
        let faults = try agent.store.verify()
        #expect(faults.isEmpty, "\(faults): \(trace.suffix(30))")
    }

    private func field() -> String {
        count += 1
        return "t\(count)"
    }

    private func list() throws {
        let there = try there()
        guard there.count > 1 else { return }
        var members: [NewMutation] = []
        var fields: [String] = []
        for _ in 0..<2 + random.below(2) {
            let field = field()
            var data: JSONObject = [field: 1]
            if random.below(3) == 0 { data["finding"] = .string(field) }
            var member = TestAgent.mutation(.update, there[random.below(there.count)], data)
            if hasDeadlines, random.below(4) == 0 { member.ttl = .seconds(10 + random.below(30)) }
            members.append(member)
            fields.append(field)
        }
        keys += try agent.list(members).map(\.key)
        lists.append(fields)
        trace.append("list \(members.map { "\($0.recordID?.text ?? "") \($0.data.names)" })")
    }

    private func change() throws {
        guard let id = try there().first(where: { _ in random.below(2) == 0 }) else { return }
        let field = field()
        keys.append(try agent.update(id, random.below(2) == 0 ? [field: 1] : ["finding": .string(field)]).key)
        trace.append("change \(id)")
    }

    /// Another device deletes a record, makes it anew, or changes it.
    private func disturb() {
        let id = Self.ids[random.below(4)]
        hub.version += 1
        if hub.records[id] == nil {
            hub.set(id, ["finding": "anew"])
        } else if random.below(2) == 0 {
            hub.set(id, nil)
        } else {
            var record = hub.records[id] ?? [:]
            record["finding"] = .string("o\(hub.version)")
            hub.set(id, record)
        }
        trace.append("others: \(id) \(hub.records[id]?.json ?? "gone")")
    }

    private func decide() throws {
        let open = try agent.conflicts().filter(\.isOpen)
        if open.isEmpty { return }
        let conflict = open[random.below(open.count)]
        let choice: ConflictDecision.Choice = conflict.kind == .field && random.below(3) == 0 ? .remote : .local
        try attempt("decide \(conflict.record) \(choice)") { try ConflictTests.resolve(agent, .all(choice), id: conflict.number) }
    }

    private func act() throws {
        switch random.below(3) {
        case 0:
            if keys.isEmpty { return }
            let key = keys[random.below(keys.count)]
            try attempt("cancel") { _ = try agent.store.cancel(key, at: agent.now) }
        case 1:
            let refused = try mutations.filter { $0.state == .rejected }
            if refused.isEmpty { return }
            let key = refused[random.below(refused.count)].key
            try attempt("retry") { _ = try agent.store.retry(key, cascades: true, by: agent.app, at: agent.now) }
        default: try agent.crash()
        }
    }
}
