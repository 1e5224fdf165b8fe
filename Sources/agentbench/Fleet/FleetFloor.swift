import BenchKit
import CBenchFloors
import CPostgresFloor
import SyncCore

/// The least that the hub's work costs on a PostgreSQL server: its statements from C, in groups of 16 pushes with 20 mutations of 200 B,
/// one group of a writer at a time.
struct FleetFloor {
    let writers: Int
    let mutations: Double
    /// CPU time a mutation: of the writers, and of the database server.
    let clientMicroseconds: Double
    let serverMicroseconds: Double
    /// The time of a statement with a trivial answer, nanoseconds.
    let roundTrip: Double

    init(_ server: PostgresUnderTest, writers: Int, _ run: FleetRun) throws {
        self.writers = writers
        roundTrip = try server.roundTrip()
        var failure = bench_failure()
        guard let floor = bench_postgres_open(server.url, Int32(writers), &failure) else { throw BenchError("floor: \(failure.message)") }
        defer { bench_postgres_close(floor) }
        var cost = bench_cost()
        // The first second makes the server's caches and files.
        try checked("floor") { bench_postgres_run(floor, run.span(1), &cost, $0) }
        let before = server.cpu
        try checked("floor") { bench_postgres_run(floor, run.span(5), &cost, $0) }
        let spent = server.cpu - before
        mutations = Double(cost.rows) * 1e9 / Double(max(cost.nanoseconds, 1))
        clientMicroseconds = Double(cost.cpu_nanoseconds) / 1_000 / Double(max(cost.rows, 1))
        serverMicroseconds = Double(spent) / 1_000 / Double(max(cost.rows, 1))
    }

    var name: String { writers == 1 ? "floor, 1 writer" : "floor, \(writers) writers" }

    /// The meaning of a column with its rate.
    static let sentence = "\"floor\": mutations a second of groups of 16 pushes from C to the same server."

    /// The hub's rate as a share of this.
    func share(of rate: Double) -> Double { mutations > 0 ? rate / mutations : 0 }

    var json: JSON {
        [
            "writers": .int(Int64(writers)), "mutations_per_s": .hundredths(mutations),
            "client_cpu_us_per_mutation": .hundredths(clientMicroseconds),
            "database_cpu_us_per_mutation": .hundredths(serverMicroseconds), "round_trip_us": .hundredths(roundTrip / 1_000),
        ]
    }
}
