import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Testing

/// Two versions of the program over one database, and several that start at once.
@Suite("Schema on a server", .needsPostgres)
struct PostgresSchemaTests {
    @Test("One of several replicas that start at once on an empty database makes the tables, and all agree on the history")
    func startTogether() throws {
        let bench = try ReplicaBench()
        let workers = (0..<6).map { index in Worker { try bench.hub(seed: UInt64(index)).hub.epoch } }
        #expect(Set(try workers.map { try $0.join() }).count == 1)
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

    @Test("Tables of another program are refused and left as they were")
    func foreign() throws {
        let bench = try ReplicaBench()
        try bench.server.query("CREATE TABLE record(mine TEXT); INSERT INTO record VALUES('here')", schema: bench.schema)
        #expect(#expect(throws: HubError.self) { try bench.hub() }?.code == .foreignDatabase)
        #expect(try bench.server.query("SELECT mine FROM record", schema: bench.schema) == [["here"]])
        #expect(
            try bench.server.query("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()", schema: bench.schema) == [["1"]])
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
