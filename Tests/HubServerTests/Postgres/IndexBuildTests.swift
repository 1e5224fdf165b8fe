import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Indexes that a starting hub builds while others work, and whose build breaks off (PostgreSQL 15, CREATE INDEX, "Building Indexes
/// Concurrently"): the server leaves them incomplete.
@Suite("Builds of indexes that break off", .needsPostgres)
struct IndexBuildTests {
    /// A database of schema 14, and a hub that works on it.
    private struct Stand {
        let bench: ReplicaBench
        let hub: HubBench

        init() throws {
            bench = try ReplicaBench()
            hub = try bench.hub(seed: 7)
            try KeyTableTests.fill(hub, 1...4)
            try KeysBefore.goBackToOrder(bench)
        }

        /// As a push that has written keys of this part, and waits for its commit.
        func writer(of part: Int) throws -> any HubDatabase {
            let session = try bench.session(.removing)
            try session.execute("LOCK TABLE mutation_key_p\(part) IN ROW EXCLUSIVE MODE")
            try session.waitForWrites()
            return session
        }

        private func build(of part: Int, _ condition: String) -> String {
            "FROM pg_stat_progress_create_index p WHERE p.relid = '\(bench.schema).mutation_key_p\(part)'::regclass AND \(condition)"
        }

        /// Waits until the build of an index of this part waits for others.
        func waitForBuild(of part: Int, _ phase: String) throws {
            try bench.server.wait("EXISTS (SELECT 1 \(build(of: part, "p.phase = '\(phase)'")))", schema: bench.schema)
        }

        func endBuild(of part: Int) throws {
            try bench.server.query("SELECT pg_terminate_backend(p.pid) \(build(of: part, "true"))", schema: bench.schema)
        }

        func isBuilding(_ part: Int) throws -> Bool {
            try bench.server.query("SELECT count(*) \(build(of: part, "true"))", schema: bench.schema) != [["0"]]
        }

        func start(_ seed: Int) -> Worker<Int64> {
            Worker { [bench] in try bench.hub(seed: UInt64(seed)).hub.head }
        }

        func check(_ when: String) throws { try KeyMoveFailureTests.check(hub, bench, when) }
    }

    private static let beforeBuild = "waiting for writers before build", snapshots = "waiting for old snapshots"

    @Test("A session that ends in the middle of a build of any part leaves an incomplete index, and the next start replaces it")
    func ended() throws {
        let stand = try Stand()
        let bench = stand.bench
        for part in 0..<16 {
            // Both indexes of a part, each before its first row and after its last.
            let (isSecond, isAtEnd) = (part.isMultiple(of: 2), part % 4 < 2)
            if isSecond {
                try bench.server.query(
                    "CREATE UNIQUE INDEX mutation_key_p\(part)_by_key ON mutation_key_p\(part)(key, device)", schema: bench.schema)
            }
            let writer = try stand.writer(of: part)
            let opening = stand.start(part + 10)
            try stand.waitForBuild(of: part, Self.beforeBuild)
            var reader: (any HubDatabase)?
            if isAtEnd {
                reader = try stand.bench.session(.reading)
                _ = try reader?.number("SELECT count(*) FROM hub")
                try writer.rollback()
                try stand.waitForBuild(of: part, Self.snapshots)
            }
            try stand.endBuild(of: part)
            #expect(throws: HubError.self) { try opening.join() }
            if isAtEnd { try reader?.rollback() } else { try writer.rollback() }
            let name = "mutation_key_p\(part)_by_\(isSecond ? "commit" : "key")"
            #expect(try KeyMoveFailureTests.invalid(bench) == [name])
            try stand.check("part \(part)")
        }
        #expect(try stand.start(30).join() == 8)
        #expect(try KeyMoveFailureTests.invalid(bench).isEmpty)
        try KeyTableTests.checkOrder(bench)
        try stand.check("schema 15")
    }

    @Test("While a server goes on building for a hub that is gone, the next one waits, and uses that index")
    func orphaned() throws {
        let stand = try Stand()
        let bench = stand.bench
        let wire = try ServerWire(to: bench.server)
        defer { wire.close() }
        let writer = try stand.writer(of: 5)
        let opening = Worker { [url = wire.url(of: bench.url)] in try HubBench(place: .shared(try PostgresPlace(url))).hub.head }
        try stand.waitForBuild(of: 5, Self.beforeBuild)
        wire.cut()
        #expect(throws: HubError.self) { try opening.join() }
        #expect(try stand.isBuilding(5))
        let index = "SELECT 'mutation_key_p5_by_key'::regclass::oid"
        let built = try bench.server.query(index, schema: bench.schema)
        let next = stand.start(2)
        try bench.server.wait(
            """
            EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'idle'
            AND query LIKE '%pg_try_advisory_lock%mutation_key_p5_by_key%')
            """)
        try stand.check("while the server builds")
        try writer.rollback()
        #expect(try next.join() == 8)
        #expect(try bench.server.query(index, schema: bench.schema) == built)
        #expect(try KeyMoveFailureTests.invalid(bench).isEmpty)
        try KeyTableTests.checkOrder(bench)
        try stand.check("schema 15")
    }

    @Test("While a backup reads a part, an incomplete index of it is removed without holding up any other hub")
    func besideBackup() throws {
        let stand = try Stand()
        let bench = stand.bench
        let part = KeyTables.part(of: .one, in: 16)
        // A build waits for the end of the backup as well, so the removal comes first.
        try KeysBefore.buildOrder(bench, parts: 0..<part)
        try bench.server.query("CREATE INDEX mutation_key_p\(part)_by_key ON mutation_key_p\(part)(device)", schema: bench.schema)
        try bench.server.query(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'mutation_key_p\(part)_by_key'::regclass", schema: bench.schema)
        let backup = try stand.bench.session(.reading)
        _ = try backup.number("SELECT count(*) FROM mutation_key_p\(part)")
        let opening = stand.start(2)
        try bench.server.wait(
            """
            EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND wait_event_type = 'Lock'
            AND query LIKE 'DROP INDEX%mutation_key_p\(part)_by_key')
            """)
        try stand.check("while the removal waits")
        try backup.rollback()
        #expect(try opening.join() == 8)
        #expect(try KeyMoveFailureTests.invalid(bench).isEmpty)
        try KeyTableTests.checkOrder(bench)
    }
}
