import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

// The order of the columns in the index of keys, and the way there from schema 14.
extension KeyTableTests {
    /// The unique index and the smaller one of each part; nothing is left of the index of before.
    static func checkOrder(_ bench: ReplicaBench) throws {
        let indexes = try bench.server.query(
            """
            SELECT c.relname, i.indisvalid, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            JOIN pg_class t ON t.oid = i.indrelid
            WHERE t.relname ~ '^mutation_key(_p[0-9]+)?$' AND t.relnamespace = current_schema()::regnamespace
            """, schema: bench.schema)
        // One for payloads in each part as well, and two of the whole.
        #expect(indexes.count == 16 * 3 + 2 && indexes.allSatisfy { $0[1] == "t" }, "\(indexes)")
        #expect(indexes.count { $0[2]?.hasSuffix("USING btree (key, device)") == true } == 17, "\(indexes)")
        #expect(indexes.count { $0[2]?.contains("USING brin (version)") == true } == 16, "\(indexes)")
    }

    @Test("The index is turned round while a hub of before works on")
    func turned() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...9) }
        // Its statements are those of a program of before. One that began now would make the step.
        let old = try bench.hub(seed: 7)
        try KeysBefore.goBackToOrder(bench)
        try Self.check(old, 1...9, "schema 14")
        // A build that broke off, and one that was done.
        try bench.server.query(
            """
            CREATE INDEX mutation_key_p3_by_key ON mutation_key_p3(device);
            CREATE UNIQUE INDEX mutation_key_p4_by_key ON mutation_key_p4(key, device)
            """, schema: bench.schema)
        try bench.server.query(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'mutation_key_p3_by_key'::regclass", schema: bench.schema)
        let workers = (0..<3).map { index in Worker { try bench.hub(seed: UInt64(index)).hub.head } }
        for n in 1...9 { #expect(try old.verdict(Self.sent(n)).word == "duplicate") }
        #expect(try workers.map { try $0.join() } == [18, 18, 18])
        #expect(try bench.server.query("SELECT version, oldest_reader FROM hub_schema", schema: bench.schema) == [["17", "16"]])
        try Self.checkOrder(bench)
        let hub = try bench.hub(seed: 8)
        for hub in [old, hub] { try Self.check(hub, 1...9, "schema 15") }
        #expect(try old.verdict(Self.sent(10)).word == "accepted")
        #expect(try hub.verdict(Self.sent(10)).word == "duplicate")
    }

    @Test("A new database, and one of schema 13, have the same indexes as one of schema 14")
    func sameOrder() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...3) }
        try Self.checkOrder(bench)
        try KeysBefore.goBack(bench)
        try Self.check(try bench.hub(), 1...3, "schema 13")
        try Self.checkOrder(bench)
    }

    @Test("The newest commits of a device are those of its keys, wherever its rows lie")
    func commits() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        try Self.fill(hub, 1...6)
        let keys = hub.hub.store.database.spelling.keys
        func commits(after version: Int64) throws -> Set<Int64> {
            Set(try hub.hub.store.database.all(keys.commits, .text(DeviceID.two.text), .int(version)) { $0.int(0) })
        }
        #expect(try commits(after: 0) == [7, 8, 9, 10, 11, 12])
        #expect(try commits(after: 10) == [11, 12])
        try bench.server.query(
            """
            DO $$ BEGIN PERFORM brin_summarize_new_values(c.oid) FROM pg_class c WHERE c.relname ~ '^mutation_key_p[0-9]+_by_commit$'
            AND c.relnamespace = current_schema()::regnamespace; END $$
            """, schema: bench.schema)
        #expect(try hub.verdict(Self.sent(8, of: .two), device: .two).word == "accepted")
        #expect(try commits(after: 11) == [12, 13])
        #expect(try commits(after: 13) == [])
    }
}

extension KeysBefore {
    /// The tables of schema 15 become those of schema 14 again, which had the device first in the unique index.
    static func goBackToOrder(_ bench: ReplicaBench) throws {
        let small = (0..<16).map { "mutation_key_p\($0)_by_commit" }.joined(separator: ", ")
        try bench.server.query(
            """
            ALTER TABLE mutation_key DROP CONSTRAINT mutation_key_by_key;
            ALTER TABLE mutation_key ADD CONSTRAINT mutation_key_pkey PRIMARY KEY (device, key);
            DROP INDEX \(small); UPDATE hub_schema SET version = 14
            """, schema: bench.schema)
    }

    /// Indexes that the step to schema 15 would build.
    static func buildOrder(_ bench: ReplicaBench, parts: Range<Int>) throws {
        let statements = parts.map { part in
            """
            CREATE UNIQUE INDEX mutation_key_p\(part)_by_key ON mutation_key_p\(part)(key, device);
            CREATE INDEX mutation_key_p\(part)_by_commit ON mutation_key_p\(part) USING brin (version) WITH (autosummarize = on);
            """
        }
        try bench.server.query(statements.joined(separator: "\n"), schema: bench.schema)
    }
}
