import SyncCore
import Testing

@testable import SyncStore

/// PROTOCOL B3: declared indexes. Answers of a query are the same with and without them, whatever happens to the records.
@Suite("Indexes of the mirror")
struct RecordIndexTests {
    private static let entity = EntityName(trusted: "audit")

    private static func rules(_ indexes: String...) -> RuleBook {
        var book = TestAgent.rules
        book.entities[entity]?.declaredIndexes = indexes.map { index(String($0)) }
        return book
    }

    private static func index(_ text: String) -> RecordIndex {
        guard let index = RecordIndex(text) else { preconditionFailure("\(text) is no index") }
        return index
    }

    private static func test(_ path: String, _ comparison: RecordFilter.Comparison) -> RecordFilter {
        guard let path = FieldPath(dotted: path) else { preconditionFailure("\(path) is no path") }
        return .test(path, comparison)
    }

    private static func query(_ filter: RecordFilter = .all([]), sort: String = "", limit: Int = 100) -> RecordQuery {
        var query = RecordQuery(entity)
        (query.filter, query.limit) = (filter, limit)
        query.sort = sort.split(separator: ",").map { text in
            let isDescending = text.hasPrefix("-")
            let name = String(isDescending ? text.dropFirst() : text)
            let key: RecordQuery.SortKey =
                switch name {
                case "id": .id
                case "updated_at": .updatedAt
                case "version": .version
                default: FieldPath(dotted: name).map { .field($0) } ?? .id
                }
            return RecordQuery.Sort(key, isDescending: isDescending)
        }
        return query
    }

    private static func tend(_ agent: TestAgent) throws {
        var slices = 0
        while try agent.store.tendIndexes(at: agent.now) {
            slices += 1
            #expect(slices < 1_000)
        }
    }

    // MARK: - Keys

    private static let values: [JSON] = {
        let texts = [
            "0", "-0", "1", "1.0", "10", "1e1", "-1", "-1.5", "-10", "0.1", "0.09", "123456789012345678901234567890", "1e400", "-1e400",
            "1e-400", "9007199254740993", "9007199254740992.5", "12", "123", "-12", "-123",
        ]
        let numbers = texts.compactMap { try? JSONReader.read(Array($0.utf8)) }
        let long = String(repeating: "ä", count: 200)
        let strings: [JSON] = [
            "", "a", "ab", "b", "\u{0}", "\u{0}\u{1}", "a\u{0}b", "\u{FF}", "\u{10FFFF}", .string(long), .string(long + "x"),
            .string("b" + long),
        ]
        return [.null, true, false, ["a": 1], [1, 2], []] + numbers + strings
    }()

    @Test("Keys are in the order of values, and equal where the order holds them for equal")
    func keys() throws {
        func key(_ value: JSON) -> IndexKey {
            var key = IndexKey()
            key.append(RecordOrder.key(value))
            return key
        }
        func position(_ value: JSON) -> RecordOrder.Position { RecordOrder.Position(values: [RecordOrder.key(value)], id: "") }
        let order = RecordOrder([RecordQuery.Sort(.updatedAt)])
        for left in Self.values {
            for right in Self.values {
                #expect((key(left) < key(right)) == order.isBefore(position(left), position(right)), "\(left.json) \(right.json)")
                // No key is the beginning of another, or what follows it in a longer one would decide.
                if key(left) != key(right) { #expect(!key(right).bytes.starts(with: key(left).bytes), "\(left.json) \(right.json)") }
            }
            var long = key(left)
            long.append(RecordOrder.key("x"))
            long.append(id: "record")
            #expect(long.prefix(columns: 1) == key(left) && long.prefix(columns: 3) == nil, "\(left.json)")
        }
    }

    // MARK: - Against a scan

    @Test("With indexes in any state a query answers what it answers without", arguments: 0..<8)
    func agrees(_ seed: UInt64) throws {
        var used = 0
        for part in 0..<5 {
            var walk = try Walk(seed: seed * 5 + UInt64(part))
            for _ in 0..<60 {
                for _ in 0..<4 { try walk.step() }
                try walk.compare()
            }
            used += walk.used
        }
        #expect(used > 200, "the indexes were hardly used")
    }

    private struct Walk {
        var random: SeededRandom
        let agent: TestAgent
        var version: Int64 = 10
        var used = 0
        let choices = ["a", "a,b", "b", "updated_at", "b,a,c", "c.d", "a,updated_at"]

        init(seed: UInt64) throws {
            random = SeededRandom(seed: seed)
            agent = try TestAgent(rules: RecordIndexTests.rules("a", "a,b", "updated_at"), seed: seed)
        }

        private mutating func pick<Value>(_ values: [Value]) -> Value { values[Int(random.next() % UInt64(values.count))] }
        private mutating func id() -> String { "r\(random.next() % 40)" }

        private mutating func document() -> JSONObject {
            var document = JSONObject()
            for name in ["a", "b", "c"] where random.next() % 4 > 0 { document[name] = value() }
            return document
        }

        private mutating func value() -> JSON {
            random.next() % 3 == 0 ? pick(RecordIndexTests.values) : pick([1, 2, 3, "x", "y", ["d": 1], ["d": 2]])
        }

        mutating func step() throws {
            agent.wait(.milliseconds(Int64(random.next() % 3)))
            version += 1
            switch random.next() % 20 {
            case 0..<5: _ = agent.refusal(TestAgent.mutation(.upsert, id(), document(), coalesces: true))
            case 5..<7: _ = agent.refusal(TestAgent.mutation(.delete, id()))
            case 7..<12:
                let records = (0..<(1 + random.next() % 6)).map { _ in (id(), version, document()) }
                let unique = Dictionary(records.map { ($0.0, $0) }, uniquingKeysWith: { first, _ in first })
                try agent.pull(
                    unique.values.sorted { $0.0 < $1.0 }, deleted: unique["r1"] == nil && random.next() % 4 == 0 ? [("r1", version)] : [])
            case 12..<16:
                let batch = try agent.claim(Int(1 + random.next() % 5))
                let results = batch.map { mutation -> PushResult in
                    switch random.next() % 5 {
                    case 0: .rejected(mutation.key)
                    case 1: .conflict(mutation.key, ["a"], .record(HubRecord(version: version, data: ["a": 1])))
                    default: .accepted(mutation.key, version)
                    }
                }
                _ = try agent.store.applyResults(results, next: nil, at: agent.now)
            case 16: while try agent.store.forgetHistory(at: agent.now) {}
            case 17:
                // Another configuration.
                let wanted = choices.filter { _ in random.next() % 2 == 0 }
                var book = TestAgent.rules
                book.entities[RecordIndexTests.entity]?.declaredIndexes = wanted.map(RecordIndexTests.index)
                (agent.store.rules, agent.options.rules) = (book, book)
            case 18:
                try agent.crash()
            default:
                if random.next() % 2 == 0 { _ = try agent.store.tendIndexes(at: agent.now) } else { try RecordIndexTests.tend(agent) }
            }
        }

        private mutating func filter(depth: Int = 0) -> RecordFilter {
            let path = pick(["a", "a", "b", "c", "c.d"])
            switch random.next() % 12 {
            case 0..<3: return RecordIndexTests.test(path, .eq(value()))
            case 3: return RecordIndexTests.test(path, .lt(value()))
            case 4: return RecordIndexTests.test(path, .le(value()))
            case 5: return RecordIndexTests.test(path, .gt(value()))
            case 6: return RecordIndexTests.test(path, .ge(value()))
            case 7: return RecordIndexTests.test(path, .isIn([value(), value(), value()]))
            case 8: return RecordIndexTests.test(path, .prefix(pick(["", "a", "ä", "\u{0}"])))
            case 9: return RecordIndexTests.test(path, .exists(random.next() % 2 == 0))
            case 10: return RecordIndexTests.test(path, .ne(value()))
            default:
                guard depth < 2 else { return .all([]) }
                let parts = [filter(depth: depth + 1), filter(depth: depth + 1)]
                return random.next() % 4 == 0 ? .any(parts) : .all(parts)
            }
        }

        mutating func compare() throws {
            let plain = try TestAgent(on: agent.database.copy())
            try RecordIndexTests.tend(plain)
            #expect(plain.store.indexes.entries.isEmpty)
            for _ in 0..<6 {
                let sorts = [
                    "", "a", "-a", "a,b", "-a,b", "b", "-b,-a", "updated_at", "-updated_at", "a,updated_at", "a,id", "b,a,c", "-id",
                    "version",
                ]
                var query = RecordIndexTests.query(
                    random.next() % 3 == 0 ? .all([]) : filter(), sort: pick(sorts), limit: Int(1 + random.next() % 7))
                if random.next() % 3 == 0 { query.statuses = Set([pick([.pending, .conflict, .error, .synced]), .error]) }
                query.includesDeleted = random.next() % 10 == 0
                let way = try agent.store.reads.explain(query).way
                if case .index = way { used += 1 }
                #expect(try ids(agent, query) == ids(plain, query), "\(query) by \(way)")
            }
            let overview = try agent.store.reads.entities().first { $0.name == RecordIndexTests.entity }?.records ?? 0
            var all = RecordQuery(RecordIndexTests.entity)
            all.limit = 1_000
            #expect(try Int64(agent.store.reads.records(all).items.count) == overview)
        }

        /// All pages.
        private func ids(_ agent: TestAgent, _ query: RecordQuery) throws -> [String] {
            var query = query, found: [String] = []
            repeat {
                let page = try agent.store.reads.records(query)
                found += page.items.map(\.name.id.text)
                query.cursor = page.next
            } while query.cursor != nil && found.count < 1_000
            return found
        }
    }

    // MARK: - Work

    private func large(_ count: Int, _ indexes: String...) throws -> TestAgent {
        var book = TestAgent.rules
        book.entities[Self.entity]?.declaredIndexes = indexes.map { Self.index($0) }
        let agent = try TestAgent(rules: book)
        for start in stride(from: 0, to: count, by: 500) {
            try agent.pull(
                (start..<min(count, start + 500)).map { number in
                    (
                        "r\(number)", Int64(number + 1),
                        ["site": .string("s\(number % 100)"), "due": .int(Int64(number * 7919 % count)), "open": .bool(number % 2 == 0)]
                    )
                }, hasMore: true)
        }
        return agent
    }

    @Test(
        "A page reads as many records as it shows, not as many as there are",
        arguments: [
            (query(test("site", .eq("s7")), sort: "due", limit: 10), "site,due", 11),
            (query(test("site", .eq("s7")), limit: 10), "site", 11),
            (query(test("site", .isIn(["s7", "s8"])), sort: "-due", limit: 10), "site", 80),
            (query(sort: "due", limit: 10), "due", 11),
            (query(sort: "-due", limit: 10), "due", 11),
            (query(test("due", .lt(20)), sort: "site", limit: 10), "due", 21),
            (query(.all([test("site", .prefix("s7")), test("due", .ge(3_990))]), limit: 10), "due", 10),
            (query(test("open", .eq(true)), sort: "due", limit: 10), "due", 30),
        ])
    func work(_ query: RecordQuery, _ index: String, _ most: Int) throws {
        let agent = try large(4_000, "site", "due", "site,due")
        try Self.tend(agent)
        let told = try agent.store.reads.explain(query)
        #expect(told.way == .index(Self.index(index)) && told.read <= most && told.found == min(told.found, 10), "\(told)")
        #expect(told.records == 4_000 && told.known.map(\.share) == [1, 1, 1])
        // The pages after it are as cheap.
        var next = query
        next.cursor = try agent.store.reads.records(query).next
        if next.cursor != nil { #expect(try agent.store.reads.explain(next).read <= most) }
    }

    @Test("Records with open mutations are found by these")
    func open() throws {
        let agent = try large(2_000)
        try agent.update("r5", ["due": 1])
        try agent.update("r1999", ["due": 2])
        var query = Self.query(sort: "due")
        query.statuses = [.pending]
        let told = try agent.store.reads.explain(query)
        #expect(told.way == .openMutations && told.read == 2 && told.found == 2)
        query.statuses = [.conflict, .error]
        #expect(try agent.store.reads.explain(query).read == 0)
    }

    @Test("An index is built in slices, told while it grows, used when it is complete, and removed in slices")
    func slices() throws {
        let agent = try large(3_500)
        let query = Self.query(Self.test("site", .eq("s7")), sort: "due")
        #expect(try agent.store.reads.explain(query).way == .scan)
        #expect(try agent.store.reads.explain(query).suggestion == Self.index("site,due"))
        agent.store.rules = Self.rules("site,due")
        var shares: [Double] = []
        while try agent.store.tendIndexes(at: agent.now) {
            let told = try agent.store.reads.explain(query)
            #expect(told.way == .scan && told.suggestion == nil)
            shares += told.known.map(\.share)
            // Records that change meanwhile are in the index, wherever the slices are.
            try agent.update("r\(shares.count)", ["due": -1])
        }
        #expect(shares.count == 3 && shares == shares.sorted() && shares.allSatisfy { $0 > 0 && $0 < 1 }, "\(shares)")
        #expect(try agent.store.reads.explain(query).way == .index(Self.index("site,due")))
        #expect(try agent.store.reads.explain(query).found == 35)
        agent.store.rules = TestAgent.rules
        var removals = 0
        while try agent.store.tendIndexes(at: agent.now) {
            removals += 1
            #expect(try agent.store.reads.explain(query).way == .scan)
        }
        #expect(removals == 4 && agent.store.indexes.entries.isEmpty)
        // Nothing to do writes nothing.
        let commits = agent.database.commits
        #expect(try !agent.store.tendIndexes(at: agent.now))
        #expect(agent.database.commits == commits)
    }

    @Test("A change of another field writes no key")
    func otherFields() throws {
        let agent = try large(10, "site,due")
        try Self.tend(agent)
        func steps(_ work: () throws -> Void) rethrows -> Int {
            let before = agent.database.stepsTaken
            try work()
            return agent.database.stepsTaken - before
        }
        try agent.update("r1", ["open": 1])
        let other = try steps { try agent.update("r2", ["open": 1]) }
        let plain = try large(10)
        try plain.update("r1", ["open": 1])
        let before = plain.database.stepsTaken
        try plain.update("r2", ["open": 1])
        #expect(other == plain.database.stepsTaken - before)
    }

    @Test(
        "A declaration is 1 to 4 different columns",
        arguments: [
            ("site", "site"), ("site , due", "site,due"), ("data.updated_at", "data.updated_at"), ("updated_at", "updated_at"),
            ("a.b", "a.b"),
            ("data.data.x", "data.data.x"), ("", nil), ("site,site", nil), ("a,b,c,d,e", nil), ("id", nil), ("version", nil), ("a,", nil),
            ("a..b", nil),
        ])
    func declarations(_ text: String, _ expected: String?) {
        #expect(RecordIndex(text)?.description == expected)
    }
}
