import SyncCore
import SyncStore
import Testing

/// PROTOCOL B3: records by filter and order, page by page.
@Suite("Reading records")
struct RecordReadTests {
    private static let entity = EntityName(trusted: "audit")

    private static func test(_ path: String, _ comparison: RecordFilter.Comparison) -> RecordFilter {
        guard let path = FieldPath(dotted: path) else { preconditionFailure("\(path) is no path") }
        return .test(path, comparison)
    }

    private static let records: [(String, Int64, JSONObject)] = [
        ("a", 1, ["n": 1, "s": "alpha", "deep": ["x": 1]]),
        ("b", 2, ["n": 2, "s": "beta", "deep": ["x": 2]]),
        ("c", 3, ["n": 3, "s": "alps", "flag": true]),
        ("d", 4, ["n": "2", "s": .null]),
        ("e", 5, ["n": .null, "flag": false]),
        ("f", 6, [:]),
    ]

    private func agent() throws -> TestAgent {
        let agent = try TestAgent()
        try agent.pull(Self.records)
        return agent
    }

    private func ids(_ agent: TestAgent, _ change: (inout RecordQuery) -> Void) throws -> String {
        var query = RecordQuery(Self.entity)
        change(&query)
        return try agent.store.reads.records(query).items.map(\.name.id.text).joined()
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var filter: RecordFilter
        var found: String

        init(_ name: String, _ filter: RecordFilter, _ found: String) {
            testDescription = name
            self.filter = filter
            self.found = found
        }
    }

    @Test(
        "Each operator, by value and within one type",
        arguments: [
            Case("eq number", test("n", .eq(2)), "b"), Case("eq text", test("n", .eq("2")), "d"),
            Case("eq null", test("n", .eq(.null)), "ef"),
            Case("ne", test("n", .ne(2)), "acdef"), Case("lt", test("n", .lt(3)), "ab"), Case("le", test("n", .le(2)), "ab"),
            Case("gt", test("n", .gt(1)), "bc"), Case("ge", test("n", .ge(2)), "bc"), Case("gt text", test("s", .gt("alpha")), "bc"),
            Case("in", test("n", .isIn([1, "2", 9])), "ad"), Case("prefix", test("s", .prefix("al")), "ac"),
            Case("exists", test("s", .exists(true)), "abc"), Case("exists not", test("n", .exists(false)), "ef"),
            Case("dotted", test("deep.x", .ge(2)), "b"), Case("true", test("flag", .eq(true)), "c"),
            Case("and", .all([test("n", .ge(1)), test("s", .prefix("a"))]), "ac"),
            Case("or", .any([test("n", .eq(1)), test("flag", .eq(false))]), "ae"),
            Case(
                "nested", .all([.any([test("n", .eq(1)), test("n", .eq(3))]), .any([test("s", .eq("alps")), test("deep.x", .eq(9))])]), "c"),
            Case("all of nothing", .all([]), "abcdef"), Case("any of nothing", .any([]), ""),
        ])
    func filters(_ example: Case) throws {
        let agent = try agent()
        #expect(try ids(agent) { $0.filter = example.filter } == example.found)
        // The same set in any order and in pages of any size.
        var query = RecordQuery(Self.entity)
        query.filter = example.filter
        query.sort = [.init(.version, isDescending: true)]
        query.limit = 1
        var found = ""
        repeat {
            let page = try agent.store.reads.records(query)
            found += page.items.map(\.name.id.text).joined()
            query.cursor = page.next
        } while query.cursor != nil
        #expect(found == String(example.found.reversed()))
    }

    @Test(
        "Each order: missing and null, false and true, numbers, text; the id decides between equals",
        arguments: [
            ("n", false, "efabcd"), ("n", true, "dcbaef"), ("s", false, "defacb"), ("flag", false, "abdfec"),
        ])
    func orders(_ field: String, _ isDescending: Bool, _ expected: String) throws {
        let path = try #require(FieldPath(dotted: field))
        let agent = try agent()
        #expect(try ids(agent) { $0.sort = [.init(.field(path), isDescending: isDescending)] } == expected)
    }

    @Test("Numbers order by value, however they are written and however large")
    func largeNumbers() throws {
        let agent = try TestAgent()
        let texts = ["9007199254740993", "9007199254740992", "1e3", "999.9", "-0.5", "1E400"]
        try agent.pull(try texts.enumerated().map { ("r\($0.offset)", Int64($0.offset + 1), ["n": try JSONReader.read($0.element)]) })
        let path = try #require(FieldPath(dotted: "n"))
        #expect(try ids(agent) { $0.sort = [.init(.field(path))] } == "r4r3r2r1r0r5")
    }

    @Test("Deleted records are there when asked for; a status leaves out the others")
    func statuses() throws {
        let agent = try agent()
        try agent.pull([], deleted: [("a", 10)])
        try agent.update("b", ["n": 9])
        let refused = try agent.update("c", ["n": 9]).key
        _ = try agent.claim()
        try agent.answer(.rejected(refused))
        #expect(try ids(agent) { _ in } == "bcdef")
        #expect(try ids(agent) { $0.includesDeleted = true } == "abcdef")
        #expect(try ids(agent) { $0.statuses = [.pending] } == "b")
        #expect(try ids(agent) { $0.statuses = [.error] } == "c")
        #expect(try ids(agent) { $0.statuses = [.synced, .conflict] } == "def")
        #expect(try ids(agent) { $0.filter = Self.test("n", .eq(9)) } == "b", "what was refused is not in the view")
    }

    @Test("Pages by id neither repeat nor miss what stays, while other records come, go and change", arguments: 1...4)
    func stablePages(_ limit: Int) throws {
        let agent = try TestAgent()
        for number in Int64(1)...40 { try agent.pull([("k\(number + 100)", number, ["n": .int(number)])], hasMore: true) }
        let before = try agent.store.reads.records(RecordQuery(Self.entity)).items.map(\.name.id.text)
        var query = RecordQuery(Self.entity)
        query.limit = limit
        var seen: [String] = []
        var version: Int64 = 100
        repeat {
            let page = try agent.store.reads.records(query)
            seen += page.items.map(\.name.id.text)
            query.cursor = page.next
            version += 3
            let last = seen.last ?? "k"
            // One behind us, one ahead, and a change to what was seen; until there is an end to it.
            guard version < 130 else { continue }
            try agent.pull(
                [("0" + String(version), version, [:]), (last + "a", version + 1, [:]), (seen[0], version + 2, ["n": 0])], hasMore: true)
        } while query.cursor != nil
        #expect(Set(seen).count == seen.count, "nothing twice")
        #expect(seen == seen.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
        #expect(Set(before).isSubset(of: seen), "nothing that stayed was missed")
    }

    @Test("A cursor belongs to its order, and nonsense is refused", arguments: ["", "zz", "5b5d", "5b312c2261225d"])
    func cursors(_ text: String) throws {
        let agent = try agent()
        var query = RecordQuery(Self.entity)
        query.cursor = text
        #expect(StoreError.problem { _ = try agent.store.reads.records(query) }?.status == 400)
        query.cursor = nil
        query.limit = 2
        query.sort = [.init(.version)]
        query.cursor = try agent.store.reads.records(query).next
        query.sort = [.init(.version, isDescending: true)]
        #expect(StoreError.problem { _ = try agent.store.reads.records(query) }?.code == "malformed")
    }

    @Test("A page ends by its bytes too, goes on where it ended, and always gets further", arguments: [false, true])
    func bytes(_ isByField: Bool) throws {
        let agent = try TestAgent()
        let large = JSON.string(JSONString(String(repeating: "x", count: 240_000)))
        for start in stride(from: 0, to: 60, by: 10) {
            try agent.pull(
                (start..<(start + 10)).map { ("r\($0 + 100)", Int64($0 + 1), ["n": .int(Int64($0)), "p": large]) }, hasMore: true)
        }
        var query = RecordQuery(Self.entity)
        query.limit = 1_000
        if isByField { query.sort = [.init(.field(try #require(FieldPath(dotted: "n"))))] }
        var seen: [String] = []
        var pages = 0
        repeat {
            let page = try agent.store.reads.records(query)
            let bytes = page.items.reduce(0) { $0 + ($1.base?.utf8.count ?? 0) }
            #expect(!page.items.isEmpty && bytes < StoreReads.pageBytes + Limits.documentBytes)
            seen += page.items.map(\.name.id.text)
            query.cursor = page.next
            pages += 1
        } while query.cursor != nil
        #expect(seen == (0..<60).map { "r\($0 + 100)" })
        #expect(pages > 2)
    }

    @Test("An order by values of any size keeps little of them: the cursor is short, and each record is shown once, in order")
    func largeKeys() throws {
        let agent = try TestAgent()
        let start = String(repeating: "ü", count: StoreReads.sortBytes / 2 - 1)
        func value(_ number: Int) -> JSON {
            switch number % 3 {
            // Equal as far as it counts, but for two of them; then by id.
            case 0: .string(start + (number == 3 ? "A" : number == 6 ? "B" : "ü") + String(repeating: "\(9 - number / 3)", count: 100_000))
            case 1: .array(Array(repeating: .int(number), count: 10_000))
            default: .object(["x": .string(String(repeating: "x", count: 100_000))])
            }
        }
        try agent.pull((0..<30).map { ("r\($0 + 100)", Int64($0 + 1), ["p": value($0)]) })
        var query = RecordQuery(Self.entity)
        query.limit = 4
        query.sort = [.init(.field(try #require(FieldPath(dotted: "p"))))]
        var seen: [Int] = []
        repeat {
            let page = try agent.store.reads.records(query)
            seen += page.items.compactMap { Int($0.name.id.text.dropFirst()) }
            query.cursor = page.next
            #expect(page.next?.utf8.count ?? 0 < 4 * StoreReads.sortBytes)
        } while query.cursor != nil
        let texts = [103, 106] + (0..<30).filter { $0 % 3 == 0 && $0 != 3 && $0 != 6 }.map { $0 + 100 }
        #expect(seen == texts + (0..<30).filter { $0 % 3 != 0 }.map { $0 + 100 })
    }

    @Test("A page of conflicts, and one of the audit trail, ends by its bytes too, whatever limit is asked for", arguments: [1_000, .max])
    func pagesOfValues(_ limit: Int) throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        func large(_ word: String) -> JSON { .string(String(repeating: word, count: 120_000 / word.utf8.count)) }
        let count = 40
        for number in 0..<count { try agent.pull([("a\(number)", 5, ["finding": large("was ")])], hasMore: true) }
        for number in 0..<count { try agent.update("a\(number)", ["finding": large("mine")]) }
        // A hub that disputes everything, and has as much to say about it.
        for number in 0..<count { try agent.pull([("a\(number)", 7, ["finding": large("hers")])], hasMore: true) }
        #expect(try agent.store.reads.openConflicts() == Int64(count))
        var query = ConflictQuery()
        query.limit = limit
        var seen: [Int64] = []
        var pages = 0
        while true {
            let page = try agent.store.reads.conflicts(query)
            let bytes = page.items.reduce(0) { $0 + $1.sides.reduce(0) { $0 + $1.json.json.utf8.count } }
            #expect(!page.items.isEmpty && bytes < StoreReads.pageBytes + 4 * Limits.documentBytes)
            seen += page.items.map(\.number)
            pages += 1
            guard let next = page.next else { break }
            query.after = next
        }
        #expect(seen == Array(1...Int64(count)) && pages > 2)

        let before = try agent.store.reads.audit(after: 0, limit: limit).items.last?.number ?? 0
        for _ in 0..<count { try agent.store.audit("lost", "audit/a", uid: 7, ["value": large("lost")], at: agent.now) }
        var number: Int64? = before
        var entries: [Int64] = []
        pages = 0
        while let after = number {
            let page = try agent.store.reads.audit(after: after, limit: limit)
            #expect(page.items.reduce(0) { $0 + ($1.json?.utf8.count ?? 0) } < StoreReads.pageBytes + Limits.documentBytes)
            entries += page.items.map(\.number)
            number = page.next
            pages += 1
        }
        #expect(entries.count == count && entries == entries.sorted() && pages >= 2)
    }

    @Test("A page of mutations ends by its bytes too")
    func mutationBytes() throws {
        let agent = try TestAgent()
        let large = JSON.string(JSONString(String(repeating: "x", count: 120_000)))
        for _ in 0..<80 { try agent.event(["p": large]) }
        var query = MutationQuery()
        query.limit = 1_000
        var seen: [Int64] = []
        var pages = 0
        while true {
            let page = try agent.store.reads.mutations(query, at: agent.now)
            seen += page.items.map(\.seq)
            pages += 1
            guard let next = page.next else { break }
            query.after = next
        }
        #expect(seen == Array(1...80))
        #expect(pages > 2)
    }

    @Test("Mutations by state, entity, record and app")
    func mutations() throws {
        let agent = try TestAgent()
        try agent.create("a")
        try agent.update("a", ["v": 2])
        try agent.create("b")
        try agent.event()
        _ = try agent.store.enqueue(
            [TestAgent.mutation(.create, "c")], by: Requester(app: AppName(trusted: "other"), uid: 7), at: agent.now)
        _ = try agent.claim(1)
        func seqs(_ change: (inout MutationQuery) -> Void) throws -> [Int64] {
            var query = MutationQuery()
            change(&query)
            return try agent.store.reads.mutations(query, at: agent.now).items.map(\.seq)
        }
        #expect(try seqs { _ in } == [1, 2, 3, 4, 5])
        #expect(try seqs { $0.states = [.inFlight] } == [1])
        #expect(try seqs { $0.states = [.pending] } == [2, 3, 4, 5])
        #expect(try seqs { $0.entity = EntityName(trusted: "reading") } == [4])
        #expect(try seqs { $0.recordID = RecordID(trusted: "a") } == [1, 2])
        #expect(
            try seqs {
                $0.recordID = RecordID(trusted: "a"); $0.entity = Self.entity; $0.states = [.pending, .inFlight]
            } == [1, 2])
        #expect(try seqs { $0.app = AppName(trusted: "other") } == [5])
        #expect(
            try seqs {
                $0.after = 2; $0.limit = 2
            } == [3, 4])
    }

    @Test("An etag changes with every change, and with nothing else")
    func etags() throws {
        let agent = try agent()
        func etag() throws -> String? { try agent.record("a")?.etag }
        let first = try etag()
        try agent.pull([("b", 20, [:])])
        #expect(try etag() == first)
        try agent.update("a", ["n": 5])
        let second = try etag()
        #expect(second != first)
        try agent.drain()
        #expect(try etag() != second)
    }
}
