import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Testing

/// A server, a database or a role may be set to write bytes in the form that PostgreSQL had before 9.0.
@Suite("Form of bytes", .needsPostgres)
struct ByteFormTests {
    /// A hub's database, and its address with a session default of that form.
    private static func place() throws -> PostgresPlace {
        let url = try PostgresServer.shared.get().newURL()
        return try PostgresPlace(url.replacing("options=", with: "options=-cbytea_output%3Descape%20"))
    }

    @Test("A hub starts, serves and starts again where the old form is the default")
    func oldForm() throws {
        let place = try Self.place()
        for seq in [1, 2] as [Int64] {
            let bench = try HubBench(place: .shared(place))
            let sent = Sent("0199c3f2-0000-7000-8000-00000000bee\(seq)", seq: seq, .create, id: "a-\(seq)", data: ["n": 1])
            guard case .accepted = try bench.verdict(sent) else { throw HubBench.Unexpected(bench.push([sent])) }
            // Fingerprints are bytes: the same mutation again is a repetition, and not another one of the same key.
            guard case .duplicate = try bench.verdict(sent) else { throw HubBench.Unexpected(bench.push([sent])) }
        }
    }

    @Test(
        "Bytes in another form and numbers that are none are an error, and no value",
        arguments: [
            "SELECT '\\x00ff41'::bytea", "SELECT ''::bytea", "SELECT 'abc'::bytea",
        ])
    func refused(_ sql: String) throws {
        let database = try Self.place().open()
        #expect(try database.first(sql) { $0.blob(0) } != nil)
        try database.execute("SET bytea_output = 'escape'")
        #expect(throws: DatabaseError.self) { try database.first(sql) { $0.blob(0) } }
        // The connection is whole after it.
        try database.execute("SET bytea_output = 'hex'")
        #expect(try database.first("SELECT 7") { $0.int(0) } == 7)
        #expect(throws: DatabaseError.self) { try database.first("SELECT 'seven'") { $0.int(0) } }
        #expect(throws: DatabaseError.self) { try database.first("SELECT 92233720368547758080") { $0.int(0) } }
    }
}
