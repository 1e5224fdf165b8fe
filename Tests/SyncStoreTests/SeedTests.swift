import SyncCore
import SyncStore
import Testing

/// PROTOCOL A8, "first-sync seeding", as the store keeps it.
@Suite("Seeds")
struct SeedTests {
    private static let audit = EntityName(trusted: "audit")

    private static let rules: RuleBook = {
        var rules = TestAgent.rules
        rules.entities[audit]?.seedFilter = SeedFilter(["assignee": SeedFilter.device])
        return rules
    }()

    private func page(_ records: [(String, Int64)], hasMore: Bool = false) -> SnapshotPage {
        var page = SnapshotPage(
            entity: Self.audit, startCursor: "start", startVersion: 50,
            records: records.map {
                StreamPage.Record(id: RecordID(trusted: $0.0), record: HubRecord(version: $0.1, data: ["v": .int($0.1)]))
            },
            after: records.last.map { RecordID(trusted: $0.0) }, hasMore: hasMore)
        page.isSeed = true
        return page
    }

    private func audit(_ agent: TestAgent) throws -> StreamPosition {
        try #require(try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit })
    }

    private func overview(_ agent: TestAgent) throws -> EntityOverview {
        try #require(try agent.store.reads.entities().first { $0.name == Self.audit })
    }

    @Test("It goes on after any restart, shows what it has, moves no cursor, and the listing after it removes what has gone since")
    func resumes() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        #expect(try audit(agent).seed == StreamPosition.Seed())
        let first = try agent.store.applySnapshot(page([("b", 3), ("d", 7)], hasMore: true), at: agent.now)
        #expect(first.summary.upserts == 2)
        try agent.reopen()
        #expect(try audit(agent).seed == StreamPosition.Seed(after: RecordID(trusted: "d")))
        #expect(try audit(agent).cursor == nil && audit(agent).listing == nil)
        #expect(try agent.view("b") == #"{"v":3}"#)
        #expect(try overview(agent).isSeeded == false)
        _ = try agent.store.applySnapshot(page([("f", 9)]), at: agent.now)
        #expect(try audit(agent).seed == nil && audit(agent).cursor == nil)
        #expect(try overview(agent).isSeeded && overview(agent).lastFullAt == nil)
        // All of it: d was deleted meanwhile, b is known, a is news.
        let applied = try agent.pull([("a", 1, ["v": 1]), ("b", 3, ["v": 3]), ("f", 12, ["v": 12])], head: 60)
        #expect(applied.upserts == 2 && applied.unchanged == 1 && applied.deletions == 1)
        #expect(try agent.view("d") == nil && agent.view("a") != nil)
        #expect(try overview(agent).lastFullAt != nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("An edit of what came first stays on top, and goes out")
    func edited() throws {
        let agent = try TestAgent(rules: Self.rules)
        _ = try agent.store.applySnapshot(page([("b", 3)], hasMore: true), at: agent.now)
        try agent.update("b", ["v": 4])
        _ = try agent.store.applySnapshot(page([("b", 3)]), at: agent.now)
        #expect(try agent.view("b") == #"{"v":4}"#)
        #expect(try agent.claim().map(\.baseVersion) == [3])
    }

    @Test("A page that comes when the listing has begun changes nothing")
    func late() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 1, ["v": 1])], hasMore: true, head: 60)
        #expect(try audit(agent).seed == nil)
        let late = try agent.store.applySnapshot(page([("b", 3)], hasMore: true), at: agent.now)
        #expect(late.summary == PullSummary())
        #expect(try agent.view("b") == nil && audit(agent).seed == nil)
    }

    @Test("Without a filter, after a restart of the stream and with a backend there is none")
    func ends() throws {
        let folder = try TemporaryFolder()
        let plain = try TestAgent()
        #expect(try audit(plain).seed == nil)
        let agent = try TestAgent(in: folder, rules: Self.rules)
        _ = try agent.store.applySnapshot(page([("b", 3)], hasMore: true), at: agent.now)
        try agent.store.restartStreams([Self.audit], at: agent.now)
        #expect(try audit(agent).seed == nil)
        #expect(try audit(agent).listing == StreamPosition.Listing(), "it begins at the beginning")
        try agent.reopen()
        #expect(try audit(agent).seed == nil)
    }
}
