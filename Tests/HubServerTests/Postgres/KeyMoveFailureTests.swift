import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Hubs that end at any moment of the way from an older schema: no key is lost or doubled, and the next hub finishes.
///
/// A hub that is cut off after a round trip leaves the same as one that is cut off before the next, so only the latter is tried. The wire
/// counts the round trips, so a new one is tried by itself.
@Suite("Moves of keys that break off", .needsPostgres)
struct KeyMoveFailureTests {
    private static let numbers = 1...4

    /// Moves all keys that are left, in slices of three.
    private static func move(_ mover: HubBench) throws {
        var run = HousekeepingRun(at: mover.now, mover.hub.keyTasks)
        run.keysMax = 3
        while !run.isOver { try mover.hub.housekeep(&run) }
    }

    /// Moves until the earlier table is gone: the session of a hub that was cut off may have it locked for a moment.
    private static func finish(_ mover: HubBench, _ bench: ReplicaBench) throws {
        repeat { try move(mover) } while try !KeyTableTests.isMoved(bench)
    }

    /// Opens a hub and moves.
    ///
    /// - Returns: `false`: it has ended in the middle.
    private static func openAndMove(_ url: String, opened: (HubBench) throws -> Void = { _ in }) throws -> Bool {
        do {
            let mover = try HubBench(place: .shared(try PostgresPlace(url)))
            try opened(mover)
            try move(mover)
            // The removal of the earlier table may fail: the next run repeats it.
            return !mover.hub.isDown
        } catch is HubError {
            return false
        }
    }

    /// Each mutation is known by its key, in both forms and of both devices, another content under it is refused, and each key is there
    /// once.
    static func check(_ hub: HubBench, _ bench: ReplicaBench, _ when: String) throws {
        let head = hub.hub.head
        for device in [DeviceID.one, .two] {
            for (value, word) in [(0, "duplicate"), (9, "rejected idempotency-mismatch")] {
                let sent = numbers.map { KeyTableTests.sent($0, of: device, value: value) }
                let words = try hub.verdicts(sent, device: device).map(\.verdict.word)
                #expect(words.allSatisfy { $0 == word }, "\(when): \(words)")
            }
        }
        #expect(hub.hub.head == head, "\(when)")
        let keys = try bench.server.query(
            """
            SELECT count(*), count(DISTINCT (device, key)) FROM (SELECT d.device, CAST(k.key AS TEXT) AS key FROM mutation_key k
            JOIN device_number d ON d.number = k.device UNION ALL SELECT d.device, k.key FROM mutation_key_text k
            JOIN device_number d ON d.number = k.device UNION ALL SELECT device, key FROM mutation_key_earlier) AS k
            """, schema: bench.schema)
        let count = "\(numbers.count * 2 + 2)"
        #expect(keys == [[count, count]], "\(when)")
    }

    /// There is no incomplete index.
    static func invalid(_ bench: ReplicaBench) throws -> [String?] {
        try bench.server.query(
            """
            SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relnamespace = current_schema()::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive) ORDER BY 1
            """, schema: bench.schema
        ).map(\.[0])
    }

    /// The round trips that are tried. A step is one transaction, so of those before its commit every eighth is enough; all others are
    /// tried one by one.
    private struct Walk {
        private(set) var trip = 0
        /// The first ones, which are no part of a step.
        var first = 0
        private var unchanged = -1
        private var isPast = false

        init(first: Int) { self.first = first }

        /// - Parameter isChanged: The step was committed.
        /// - Returns: `false`: that was the last one.
        mutating func go(isHit: Bool, isChanged: Bool) -> Bool {
            if trip < first {
                (unchanged, trip) = (trip, trip + 1)
            } else if isPast {
                trip += 1
                return isHit
            } else if isChanged {
                (isPast, trip) = (true, unchanged + 1)
            } else {
                (unchanged, trip) = (trip, trip + 8)
            }
            return true
        }
    }

    /// Ends hubs that start and move before one round trip after the other, and lets others finish.
    ///
    /// - Parameter goBack: Makes the tables of before.
    private static func endBeforeEach(_ bench: ReplicaBench, first: Int, before: HubBench? = nil, goBack: () throws -> Void) throws {
        let wire = try ServerWire(to: bench.server)
        defer { wire.close() }
        var walk = Walk(first: first)
        var isMore = true
        var tried = 0
        while isMore {
            try goBack()
            let trip = walk.trip
            wire.fail(after: trip, .cutBefore)
            let isWhole = try openAndMove(wire.url(of: bench.url))
            let isHit = wire.endFault()
            #expect(isHit != isWhole, "round trip \(trip)")
            let isChanged = try bench.server.query("SELECT version FROM hub_schema", schema: bench.schema) == [["17"]]
            if let before { try check(before, bench, "a hub of before, after round trip \(trip)") }
            let next = try bench.hub(seed: UInt64(trip + 2))
            try check(next, bench, "ended before round trip \(trip)")
            try finish(next, bench)
            for hub in [before, next] { if let hub { try check(hub, bench, "moved after round trip \(trip)") } }
            #expect(try invalid(bench).isEmpty, "\(trip)")
            isMore = walk.go(isHit: isHit, isChanged: isChanged)
            tried += 1
            try #require(tried < 400, "it does not end")
        }
        #expect(tried > 40, "\(tried) round trips")
        try KeyTableTests.checkOrder(bench)
    }

    @Test("A hub that starts on schema 13 and ends before any round trip leaves what the next one finishes")
    func from13() throws {
        let bench = try ReplicaBench()
        do { try KeyTableTests.fill(try bench.hub(), Self.numbers) }
        try Self.endBeforeEach(bench, first: 0) { try KeysBefore.goBack(bench) }
    }

    /// Schema 14 in the middle of the move. The first part is enough to see each statement of the building of an index.
    private static func goToMiddle(_ bench: ReplicaBench) throws {
        try KeysBefore.goHalfBack(bench)
        try KeysBefore.goBackToOrder(bench)
        try KeysBefore.buildOrder(bench, parts: 1..<16)
    }

    /// Above the number of round trips up to the end of the building of indexes.
    private static let building = 32

    @Test("A hub that starts on schema 14 in the middle of a move and ends before any round trip leaves what the next one finishes")
    func from14() throws {
        let bench = try ReplicaBench()
        let before = try bench.hub(seed: 7)
        try KeyTableTests.fill(before, Self.numbers)
        try Self.endBeforeEach(bench, first: Self.building, before: before) { try Self.goToMiddle(bench) }
    }

    @Test("A hub one of whose statements about indexes fails tries again, keeps no lock, and serves with its time limits")
    func refused() throws {
        let bench = try ReplicaBench()
        do { try KeyTableTests.fill(try bench.hub(), Self.numbers) }
        let wire = try ServerWire(to: bench.server)
        defer { wire.close() }
        var (opened, unlimited) = (0, 0)
        for trip in 0..<Self.building {
            try Self.goToMiddle(bench)
            wire.fail(after: trip, .refuse("40001"))
            _ = try Self.openAndMove(wire.url(of: bench.url)) { mover in
                let database = mover.hub.store.database
                opened += 1
                if try database.text("SELECT current_setting('statement_timeout')") != "15s" { unlimited += 1 }
                let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                #expect(try database.number(locks) == 0, "\(trip)")
            }
            #expect(wire.endFault(), "\(trip)")
            let next = try bench.hub(seed: UInt64(trip + 2))
            try Self.finish(next, bench)
            try Self.check(next, bench, "refused in round trip \(trip)")
            #expect(try Self.invalid(bench).isEmpty, "\(trip)")
        }
        // The one that sets the limit may fail on a server that does not know it.
        #expect(opened > Self.building / 2 && unlimited <= 1, "\(opened), \(unlimited)")
    }

    @Test("Of two hubs that move at once one ends before any single round trip: the other goes on, and each key is moved once")
    func beside() throws {
        let bench = try ReplicaBench()
        let watching = try bench.hub(seed: 7)
        try KeyTableTests.fill(watching, Self.numbers)
        let wire = try ServerWire(to: bench.server)
        defer { wire.close() }
        var hits = 0
        // How many round trips there are depends on how the two share the keys.
        for trips in 0..<30 {
            try KeysBefore.goHalfBack(bench)
            let ending = try HubBench(place: .shared(try PostgresPlace(wire.url(of: bench.url))))
            wire.fail(after: trips, .cutBefore)
            let other = Worker { try Self.move(try bench.hub(seed: 2)) }
            do { try Self.move(ending) } catch is HubError {
                // It has ended in the middle.
            }
            if wire.endFault() { hits += 1 }
            try other.join()
            try Self.check(watching, bench, "beside, round trip \(trips)")
            try Self.finish(watching, bench)
            try Self.check(watching, bench, "moved, round trip \(trips)")
        }
        #expect(hits >= 5, "\(hits)")
    }

    @Test("Keys of a device that has got no number beside another mover are left to the next run")
    func withoutNumber() throws {
        let bench = try ReplicaBench()
        do { try KeyTableTests.fill(try bench.hub(), Self.numbers) }
        try KeysBefore.goBack(bench)
        // Its rows come last, and the step does not know it.
        try bench.server.query(
            """
            UPDATE mutation_key SET at_ms = at_ms + 1 WHERE device = 'gw-2'; DELETE FROM replica WHERE device = 'gw-2';
            DELETE FROM device WHERE id = 'gw-2'
            """, schema: bench.schema)
        let hub = try bench.hub()
        let database = try bench.session(.removing)
        let move = try #require(database.spelling.keys.move)
        // All rows of the other device are locked, so that the numbers are looked for among them.
        let moved = try database.first(move.slice, 0, 1, 100) { $0.int(0) }
        #expect(moved == Int64(Self.numbers.count + 2))
        try Self.move(hub)
        #expect(try bench.server.query("SELECT count(*) FROM mutation_key_13", schema: bench.schema) == [["10"]])
        try database.rollback()
        try Self.check(hub, bench, "broken off")
        try Self.finish(hub, bench)
        try Self.check(hub, bench, "moved")
    }
}
