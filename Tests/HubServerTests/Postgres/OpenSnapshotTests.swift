import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// A session keeps a snapshot open, as a backup does, so that the server can remove no former row.
@Suite("An open snapshot", .needsPostgres)
struct OpenSnapshotTests {
    /// Pages that the server touches to find the rows of a device.
    private static func pages(_ bench: ReplicaBench, _ query: String) throws -> Int {
        let plan = try bench.server.query("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) \(query)", schema: bench.schema)
        let line = plan.compactMap(\.[0]).first { $0.contains("Buffers:") } ?? ""
        // "Buffers: shared hit=3 read=1"
        return line.split(separator: "=").dropFirst().compactMap { Int($0.prefix(while: \.isNumber)) }.reduce(0, +)
    }

    @Test("The newest rows of a device are found beside all its former ones, and each device has one row")
    func newestFirst() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        let newest = hub.hub.store.database.spelling.newestRow
        let of = "FROM replica WHERE device = 'gw-1' AND id = 'r-1'"
        _ = try hub.verdict(Sent("k-0", seq: 1, .create, id: "a-0"))
        let before = try Self.pages(bench, "SELECT max_seq \(of)\(newest)")
        let backup = try bench.session(.reading)
        #expect(try backup.number("SELECT max_seq \(of)") == 1)
        for number in 1...800 { _ = try hub.verdict(Sent("k-\(number)", seq: Int64(number + 1), .create, id: "a-\(number)")) }
        let rows = try bench.server.query(
            """
            SELECT (SELECT count(*) FROM device), (SELECT count(*) FROM replica), (SELECT applied FROM device),
            (SELECT max_seq FROM replica), (SELECT n FROM replica)
            """, schema: bench.schema)
        #expect(rows == [["1", "1", "801", "801", "25"]])
        #expect(try Self.pages(bench, "SELECT max_seq \(of)\(newest)") <= before + 3)
        // The control: without the order all former rows are looked at.
        #expect(try Self.pages(bench, "SELECT max_seq \(of)") > before + 8)
        #expect(try backup.number("SELECT max_seq \(of)") == 1)
        try backup.rollback()
    }
}
