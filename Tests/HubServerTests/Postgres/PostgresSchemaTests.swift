import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Two versions of the program over one database, and several that start at once.
@Suite("Schema on a server", .needsPostgres)
struct PostgresSchemaTests {
    @Test("One of several replicas that start at once on an empty database makes the tables, and all agree on the history")
    func startTogether() throws {
        let bench = try ReplicaBench()
        let workers = (0..<6).map { index in Worker { try bench.hub(seed: UInt64(index)).hub.epoch } }
        #expect(Set(try workers.map { try $0.join() }).count == 1)
    }

    @Test("The tables of a new database are made in a round trip for each step of the schema, and not for each of two hundred statements")
    func newDatabase() throws {
        let hub = try ReplicaBench().hub()
        #expect(hub.hub.store.database.roundTrips < 60)
    }

    @Test("A newer schema that only added is worked with; one that took away is refused, by a running hub too")
    func newer() throws {
        let bench = try ReplicaBench()
        let running = try bench.hub()
        try bench.server.query(
            "ALTER TABLE record ADD COLUMN colour TEXT; ALTER TABLE hub ADD COLUMN n BIGINT NOT NULL DEFAULT 0; UPDATE hub_schema SET version = 99",
            schema: bench.schema)
        #expect(try running.verdict(Sent("k-1", .create)).word == "accepted")
        #expect(try bench.hub().verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
        try bench.server.query("UPDATE hub_schema SET oldest_reader = 99", schema: bench.schema)
        #expect(running.push([Sent("k-3", seq: 3, .create, id: "a-3")]).status == 503)
        #expect(#expect(throws: HubError.self) { try bench.hub() }?.code == .foreignDatabase)
        #expect(#expect(throws: HubError.self) { try HubInspector(try PostgresPlace(bench.url)) }?.code == .foreignDatabase)
        try bench.server.query("UPDATE hub_schema SET oldest_reader = 1", schema: bench.schema)
        #expect(try running.verdict(Sent("k-3", seq: 3, .create, id: "a-3")).word == "accepted")
    }

    @Test("A table of another program with any name of the hub's is refused and left as it was")
    func foreign() throws {
        let hub = try ReplicaBench()
        _ = try hub.hub()
        // Without the names that the server makes up, as it takes others where they are in use, and with one part of the keys for all.
        let names = try hub.server.query(
            """
            SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
            AND (c.relkind IN ('r', 'p', 'v', 'I') OR c.relkind = 'i' AND NOT c.relispartition)
            AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = c.oid)
            AND c.relname !~ '^mutation_key_p[1-9]' ORDER BY 1
            """, schema: hub.schema
        ).compactMap(\.[0])
        #expect(names.count > 40 && names.contains("record_scope") && names.contains("record_by_commit"), "\(names)")
        for name in names {
            let bench = try ReplicaBench()
            try bench.server.query("CREATE TABLE \(name)(mine TEXT); INSERT INTO \(name) VALUES('here')", schema: bench.schema)
            let error = #expect(throws: HubError.self) { try bench.hub() }
            #expect(error?.code == .foreignDatabase, "\(name)")
            #expect(try bench.server.query("SELECT mine FROM \(name)", schema: bench.schema) == [["here"]])
            let tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            let found: [String] = try bench.server.query(tables, schema: bench.schema).compactMap(\.[0])
            #expect(found == [name])
        }
    }

    @Test("Tables of another program with other names are left alone, beside a hub that starts and starts again")
    func neighbours() throws {
        let bench = try ReplicaBench()
        try bench.server.query(
            """
            CREATE TABLE records(mine TEXT PRIMARY KEY); CREATE INDEX records_mine ON records(mine); CREATE VIEW hubs AS SELECT 1 AS n;
            INSERT INTO records VALUES('here')
            """, schema: bench.schema)
        #expect(try bench.hub().verdict(Sent("k-1", .create)).word == "accepted")
        #expect(try bench.hub(seed: 2).verdict(Sent("k-1", .create)).word == "duplicate")
        #expect(try bench.server.query("SELECT mine, n FROM records, hubs", schema: bench.schema) == [["here", "1"]])
    }

    // Fault: the name was read as an identifier, so the first start ended as if another program had the database.
    @Test("A schema with capitals and a dot in its name gets the tables, later steps, and the look for tables of others")
    func nameOfSchema() throws {
        let bench = try ReplicaBench(schema: "EdgeHub.v1")
        #expect(try bench.hub().verdict(Sent("k-1", .create)).word == "accepted")
        try KeysBefore.goBackToOrder(bench)
        #expect(try bench.hub(seed: 2).verdict(Sent("k-1", .create)).word == "duplicate")
        #expect(try bench.server.query("SELECT version FROM hub_schema", schema: bench.schema) == [["17"]])
        let taken = try ReplicaBench(schema: "EdgeHub.v2")
        try taken.server.query("CREATE TABLE record(mine TEXT)", schema: taken.schema)
        let error = #expect(throws: HubError.self) { try taken.hub() }
        #expect(error?.code == .foreignDatabase && error?.detail.contains("another program has record in this schema") == true)
    }

    @Test("A commit waits for the disk, whatever the server's administrator has set")
    func durability() throws {
        let bench = try ReplicaBench()
        let url = bench.url + "%20-csynchronous_commit%3Doff"
        let place = try PostgresPlace(url)
        let database = try place.open()
        #expect(try database.first("SELECT current_setting('synchronous_commit')") { $0.text(0) } == "on")
    }
}
