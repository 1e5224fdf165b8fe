import SyncCore
import Testing

@testable import HubServer

/// Old events go by the rule `keep` of their entity, and nothing else goes with them.
@Suite("Retention of events", .eachEngine)
struct EventRetentionTests {
    static let day: Duration = .seconds(86_400)

    static func rules(_ days: Int? = 30, kind: EntityRules.Kind = .event) -> RuleBook {
        var log = EntityRules()
        log.kind = kind
        if let days { log.keepEvents = day * days }
        var plain = EntityRules()
        plain.kind = .event
        return RuleBook(["log": log, "alarms": plain])
    }

    static func event(_ key: String, seq: Int64 = 1, _ entity: String = "log", data: JSON? = ["n": 1]) -> Sent {
        Sent(key, seq: seq, .create, entity, id: "e-\(key)", data: data)
    }

    static func isThere(_ hub: Hub, _ key: String, _ entity: EntityName = "log") throws -> Bool {
        try hub.record(RecordName(entity, RecordID(trusted: "e-\(key)"))) != nil
    }

    /// Lets days pass, each with its housekeeping.
    static func live(_ bench: HubBench, _ days: Int) throws {
        for _ in 0..<days {
            bench.now = bench.now.advanced(by: day)
            try bench.hub.housekeep(at: bench.now)
        }
    }

    @Test("An event goes when its time is over, and is not applied again when it is sent again")
    func goes() throws {
        let bench = try HubBench(rules: Self.rules())
        let events = [Self.event("old"), Self.event("other", seq: 2, "alarms")]
        #expect(try bench.verdicts(events).map(\.verdict.word) == ["accepted", "accepted"])
        try Self.live(bench, 15)
        #expect(try bench.verdict(Self.event("young", seq: 3)).word == "accepted")
        try Self.live(bench, 15)
        #expect(try Self.isThere(bench.hub, "old"), "it is as old as the rule, and not older")
        try Self.live(bench, 1)
        #expect(try !Self.isThere(bench.hub, "old"))
        #expect(try Self.isThere(bench.hub, "young") && Self.isThere(bench.hub, "other", "alarms"))

        let head = bench.hub.head
        #expect(try bench.verdicts(events).map(\.verdict.word) == ["duplicate", "duplicate"])
        #expect(bench.hub.head == head)
        #expect(try !Self.isThere(bench.hub, "old"))
        let known = bench.send("POST", "/v1/sync/known", ["keys": ["old", "never"]])
        #expect(try KnownMessages.readResponse(known.body).map(\.text) == ["never"])

        let stats = try bench.hub.stats()
        let log = try #require(stats.events["log"])
        #expect(log.removed == 1 && log.total == 1 && !log.hasMore && log.keep == Self.day * 30 && log.ranAt == bench.now)
        #expect(stats.events["alarms"] == nil && stats.entities.map(\.records) == [1, 1] && stats.keys == 3)
        #expect(stats.counters.applied == 3)
        let metrics = String(decoding: bench.hub.handle(HubRequest("GET", "/metrics"), at: bench.now).body, as: UTF8.self)
        #expect(metrics.contains(#"agenthub_dropped_total{kind="event"} 1"#))
        try Self.live(bench, 1)
        #expect(try bench.hub.stats().events["log"].map { [$0.removed, $0.total] } == [0, 1])
    }

    @Test("A run goes in slices, may end after any of them, and the next one goes on; oldest first")
    func slices() throws {
        let bench = try HubBench(rules: Self.rules())
        try bench.hub.housekeep(at: bench.now)
        for number in 0..<11 { _ = try bench.verdict(Self.event("\(number)", seq: Int64(number + 1))) }
        func left() throws -> [Int] { try (0..<11).filter { try Self.isThere(bench.hub, "\($0)") } }
        func run(_ days: Int) throws -> HousekeepingRun {
            bench.now = bench.now.advanced(by: Self.day * days)
            var run = try bench.hub.beginHousekeeping(at: bench.now)
            run.eventsMax = 3
            return run
        }
        // Until it is old, its time comes in steps that a clock may make.
        for _ in 0..<6 { _ = try run(6) }
        var first = try run(1)
        while case .pastScopes? = first.task { try bench.hub.housekeep(&first) }
        while case .tombstones? = first.task { try bench.hub.housekeep(&first) }
        while case .refusals? = first.task { try bench.hub.housekeep(&first) }
        try bench.hub.housekeep(&first)
        #expect(try left() == Array(3..<11) && !first.isOver)
        #expect(try bench.hub.stats().events["log"].map { $0.hasMore && $0.removed == 3 } == true)
        // A push has its turn between two slices.
        #expect(try bench.verdict(Self.event("new", seq: 99)).word == "accepted")
        try bench.hub.housekeep(&first)
        #expect(try left() == Array(6..<11))
        var second = try run(1)
        while !second.isOver { try bench.hub.housekeep(&second) }
        #expect(try left() == [] && Self.isThere(bench.hub, "new"))
        #expect(try bench.hub.stats().events["log"].map { [$0.removed, $0.total, $0.hasMore ? 1 : 0] } == [5, 11, 0])
    }

    // Fault: a hub whose clock was set to the next decade would have removed everything at once.
    @Test("A clock that jumped removes nothing, says so once, and is believed when it is right again or has gone on for a week")
    func clock() throws {
        let rows = try HubRows()
        var bench = try HubBench(rules: Self.rules(), place: rows.place)
        var told: [HubNotice] = []
        bench.hub.onNotice = { told.append($0) }
        _ = try bench.verdict(Self.event("a"))
        try Self.live(bench, 2)
        let right = bench.now
        bench.now = bench.now.advanced(by: Self.day * 3_000)
        try Self.live(bench, 3)
        #expect(try Self.isThere(bench.hub, "a"))
        #expect(told.count { if case .clockJumped = $0 { true } else { false } } == 1)
        #expect(try bench.hub.stats().clock.waitsUntil == right.advanced(by: Self.day * 3_008))
        // The doubt outlives a restart.
        let wrong = bench.now
        bench = try HubBench(rules: Self.rules(), seed: 2, place: rows.place)
        bench.now = wrong
        try bench.hub.housekeep(at: bench.now)
        #expect(try Self.isThere(bench.hub, "a"))
        bench.now = right
        try Self.live(bench, 2)
        #expect(try Self.isThere(bench.hub, "a") && bench.hub.stats().clock.waitsUntil == nil)
        // A hub that was switched off for three months, not one with a wrong clock.
        bench.now = bench.now.advanced(by: Self.day * 90)
        try Self.live(bench, 7)
        #expect(try Self.isThere(bench.hub, "a"))
        try Self.live(bench, 1)
        #expect(try !Self.isThere(bench.hub, "a"))
    }

    @Test("The first run of a database removes nothing: there is no earlier time to compare the clock with")
    func firstRun() throws {
        let bench = try HubBench(rules: Self.rules())
        _ = try bench.verdict(Self.event("a"))
        bench.now = bench.now.advanced(by: Self.day * 3_000)
        try bench.hub.housekeep(at: bench.now)
        #expect(try Self.isThere(bench.hub, "a"))
    }

    @Test("A rule that is taken away, or changed while a run goes on, removes nothing more")
    func otherRules() throws {
        let bench = try HubBench(rules: Self.rules())
        _ = try bench.verdict(Self.event("a"))
        for _ in 0..<6 {
            bench.now = bench.now.advanced(by: Self.day * 6)
            _ = try bench.hub.beginHousekeeping(at: bench.now)
        }
        for rules in [Self.rules(nil), Self.rules(400), Self.rules(kind: .record), RuleBook()] {
            var run = try bench.hub.beginHousekeeping(at: bench.now)
            bench.hub.settings.rules = rules
            while !run.isOver { try bench.hub.housekeep(&run) }
            #expect(try Self.isThere(bench.hub, "a"))
            bench.hub.settings.rules = Self.rules()
        }
        bench.hub.settings.rules = Self.rules(nil)
        try bench.hub.housekeep(at: bench.now)
        #expect(try Self.isThere(bench.hub, "a") && bench.hub.stats().events.isEmpty)
        bench.hub.settings.rules = Self.rules()
        try bench.hub.housekeep(at: bench.now)
        #expect(try !Self.isThere(bench.hub, "a"))
    }

    @Test("Where an entity becomes one of records again, devices that hold removed ones list anew")
    func otherKind() throws {
        let rows = try HubRows()
        var bench = try HubBench(rules: Self.rules(nil, kind: .record), place: rows.place)
        func start(_ rules: RuleBook) throws {
            let now = bench.now
            bench = try HubBench(rules: rules, place: rows.place)
            bench.now = now
        }
        _ = try bench.verdict(Self.event("a"))
        let cursor = try bench.follow("log").cursor
        _ = try bench.verdict(Self.event("b", seq: 2))
        try start(Self.rules())
        try Self.live(bench, 32)
        try start(Self.rules(nil, kind: .record))
        #expect(try bench.pull([("log", cursor)]).errors.first?.problem.code == "cursor-expired")
        let pages = try bench.list(SnapshotRequest(entity: "log", after: nil, limit: 10))
        #expect(pages.flatMap(\.records).isEmpty && pages.first?.deletedTotal == 2)
    }

    @Test("A backup brings removed events back, and the next run removes them again")
    func backup() throws {
        let bench = try HubBench(rules: Self.rules())
        _ = try bench.verdict(Self.event("a"))
        try Self.live(bench, 30)
        let backup = try bench.backUp()
        try Self.live(bench, 1)
        #expect(try !Self.isThere(bench.hub, "a"))
        try bench.restore(backup)
        #expect(try Self.isThere(bench.hub, "a"))
        #expect(try bench.verdict(Self.event("a")).word == "duplicate")
        try bench.hub.housekeep(at: bench.now)
        #expect(try !Self.isThere(bench.hub, "a"))
        #expect(try bench.verdict(Self.event("a")).word == "duplicate")
    }

    @Test("The link of a file goes with the event that named it, and so does the wait for one that never came")
    func files() throws {
        var rules = Self.rules()
        rules.entities["work_orders"] = EntityRules()
        let stand = try FileStand(rules: rules)
        let bench = stand.fleet.bench
        let (content, missing): ([UInt8], [UInt8]) = ([1, 2, 3], [4, 5])
        try stand.upload(content, by: .one)
        for (key, bytes) in [("a", content), ("b", missing)] {
            #expect(try bench.verdict(Self.event(key, data: ["photo": FileStand.placeholder(bytes)])).word == "accepted")
        }
        let order = Sent("o", seq: 3, .create, "work_orders", id: "o", data: ["photo": try FileStand.placeholder(content)])
        #expect(try bench.verdict(order).word == "accepted")
        #expect(try stand.links().all.count == 3)
        try Self.live(bench, 31)
        #expect(try !Self.isThere(bench.hub, "a") && !Self.isThere(bench.hub, "b"))
        #expect(try stand.links().all.map(\.record) == ["work_orders/o"])
        #expect(try bench.hub.store.database.number("SELECT count(*) FROM blob_wait") == 0)
        #expect(try stand.mayFetch(content, .two), "a record still names it")
    }

    // MARK: Deletions

    @Test("Deletions are forgotten in slices, and each raises the horizon for its own")
    func deletions() throws {
        let bench = try HubBench()
        for number in 0..<7 { _ = try bench.verdict(Sent("k\(number)", seq: Int64(number + 1), .create, id: "a-\(number)")) }
        let cursor = try bench.follow("audits").cursor
        for number in 0..<6 {
            _ = try bench.verdict(Sent("d\(number)", seq: Int64(number + 20), .delete, id: "a-\(number)", base: Int64(number + 1)))
        }
        bench.now = bench.now.advanced(by: Self.day * 91)
        var run = try bench.hub.beginHousekeeping(at: bench.now)
        run.rowsMax = 4
        func tombstones() throws -> Int64 { try bench.hub.stats().entities.map(\.tombstones).reduce(0, +) }
        var seen: [Int64] = []
        while !run.isOver {
            try bench.hub.housekeep(&run)
            seen.append(try tombstones())
            // Forgotten or not, they count.
            let first = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 10)).first
            #expect(first?.deletedTotal == 6 && first?.records.map(\.id.text) == ["a-6"])
        }
        #expect(seen.prefix(4) == [6, 2, 0, 0])
        #expect(seen.dropFirst(4).allSatisfy { $0 == 0 }, "a task of another kind may follow")
        #expect(try bench.pull([("audits", cursor)]).errors.first?.problem.code == "cursor-expired")
    }

    @Test("Old rows are found by an index")
    func plans() throws {
        guard Engine.current == .sqlite else { return }  // `PostgresPlanTests` asks the server.
        let database = try HubBench(rules: Self.rules()).hub.store.database
        let wanted = [
            (HubStore.eventPage(database.spelling), "USING INDEX record_feed (entity=? AND (version,id)>(?,?))"),
            (HubStore.eventRemoval(database.spelling), "USING INDEX record_feed (entity=? AND (version,id)<(?,?))"),
            (HubStore.oldTombstones(database.spelling), "USING INDEX record_tombstone (updated_at_ms<?)"),
            (HubStore.pastScopes(database.spelling), "INDEX record_scope_past (at_ms<?)"),
            (HubStore.oldRefusals(database.spelling), "INDEX refused_create_past (at_ms<?)"),
            (HubStore.linkedFilesQuery.sql, "INDEX record_file_record (entity=? AND id=?)"),
        ]
        for (statement, part) in wanted {
            let steps = try database.all("EXPLAIN QUERY PLAN \(statement)") { $0.text(3) }
            #expect(steps.count == 1 && steps[0].hasPrefix("SEARCH") && steps[0].contains(part), "\(steps)")
        }
    }
}
