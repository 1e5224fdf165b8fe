import BenchKit
import SyncCore

/// The result of `agentbench fleet`, as a table or as JSON.
struct FleetReport: FleetResult {
    struct Row {
        var name: String
        var steady: FleetClient.Outcome
        /// CPU time during the load, in nanoseconds: all hubs, and the database server's processes.
        var hubCPU: UInt64
        var serverCPU: UInt64?
        var returning: FleetClient.Outcome
        /// Time from the return of all hubs until the last device was done, in nanoseconds.
        var drained: UInt64
        /// `nil`: the hub has SQLite.
        var floor: FleetFloor?

        var seconds: Double { Double(steady.nanoseconds) / 1e9 }
        var requests: Double { Double(steady.requests) / seconds }
        var mutations: Double { Double(steady.applied) / seconds }
        var hubMicroseconds: Double { Double(hubCPU) / 1_000 / Double(max(steady.applied, 1)) }
        var serverMicroseconds: Double? { serverCPU.map { Double($0) / 1_000 / Double(max(steady.applied, 1)) } }
        var times: Times { Times(steady.pushTimes) }
    }

    let run: FleetRun
    let load: FleetLoad
    var rows: [Row] = []
    private let machine = Machine()

    init(_ run: FleetRun, _ load: FleetLoad) {
        self.run = run
        self.load = load
    }

    /// The goals of one hub on PostgreSQL: at its own socket, and behind a way of 1 ms.
    var goals: [FleetGoal] {
        guard [0, 1].contains(run.roundTrip) else { return [] }
        let limit = run.roundTrip > 0 ? 10_000.0 : 15_000.0
        let way = run.roundTrip > 0 ? ", \(run.roundTrip.short) ms from its database" : ""
        return rows.filter { $0.name == "postgres-1" }.map {
            FleetGoal("mutations a second of one hub\(way)", $0.name, $0.mutations, .atLeast(limit), "/s")
        }
    }

    var text: String {
        var table = TextTable([
            "hubs", "requests/s", "mutations/s", "of floor", "hub CPU", "database CPU", "push p50", "p99", "503", "back after", "lost",
            "repeated",
        ])
        for row in rows {
            if let floor = row.floor {
                table.add([
                    floor.name, "-", floor.mutations.short, "1", "\(floor.clientMicroseconds.short) µs",
                    "\(floor.serverMicroseconds.short) µs", "-", "-", "-", "-", "-", "-",
                ])
            }
            table.add([
                row.name, row.requests.short, row.mutations.short, row.floor.map { $0.share(of: row.mutations).fixed(2) } ?? "-",
                "\(row.hubMicroseconds.short) µs",
                row.serverMicroseconds.map { "\($0.short) µs" } ?? "-", "\((row.times.quantile(0.5) / 1e6).short) ms",
                "\((row.times.quantile(0.99) / 1e6).short) ms", "\(row.steady.refused)", "\((Double(row.drained) / 1e9).short) s",
                "\(row.returning.lost)", "\(row.returning.repeated)",
            ])
        }
        return """
            \(load.devices) devices, each \(load.pushes) pulls and pushes of \(load.mutations) mutations; CPU is for each mutation.
            "back after": all hubs were killed in the middle of the same load and away for \(run.outage) ms; the time from their return
            until everything was there. "lost": requests without an answer; "repeated": mutations that had been applied, and were
            answered as duplicates. Every mutation took effect once, as the hub counts. "floor": the statements of groups of 16 pushes with
            20 mutations of 200 B, from C to the same server, as many writers as there are hubs; its "hub CPU" is that of the writers.
            \(way)
            \(table.text)

            \(machine.processor), \(machine.cores) cores, Linux \(machine.kernel), \(run.fileSystem), SQLite \(machine.sqlite)
            """
    }

    private var way: String {
        let seen = rows.compactMap(\.floor?.roundTrip).map { "\(($0 / 1e6).short) ms" }
        if seen.isEmpty { return "" }
        let asked = run.roundTrip > 0 ? "a way of \(run.roundTrip.short) ms there and back" : "the server's socket"
        return "PostgreSQL was reached over \(asked); a trivial statement took \(seen.joined(separator: " and ")).\n"
    }

    var json: JSON {
        [
            "schema": "fleet/1", "version": .string(ProductVersion.text), "devices": .int(Int64(load.devices)),
            "pushes": .int(Int64(load.pushes)), "mutations": .int(Int64(load.mutations)), "outage_ms": .int(Int64(run.outage)),
            "round_trip_ms": .hundredths(run.roundTrip),
            "machine": [
                "processor": .string(machine.processor), "cores": .int(Int64(machine.cores)), "kernel": .string(machine.kernel),
                "file_system": .string(run.fileSystem), "sqlite": .string(machine.sqlite),
            ],
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "requests_per_s": .hundredths(row.requests),
                        "mutations_per_s": .hundredths(row.mutations),
                        "applied": .int(Int64(row.steady.applied)), "applied_at_return": .int(Int64(row.returning.applied)),
                        "hub_cpu_us_per_mutation": .hundredths(row.hubMicroseconds),
                        "database_cpu_us_per_mutation": row.serverMicroseconds.map { JSON.hundredths($0) } ?? .null,
                        "push_p50_us": .hundredths(row.times.quantile(0.5) / 1_000),
                        "push_p99_us": .hundredths(row.times.quantile(0.99) / 1_000),
                        "refused": .int(Int64(row.steady.refused)), "drained_ms": .int(Int64(row.drained / 1_000_000)),
                        "lost": .int(Int64(row.returning.lost)), "repeated": .int(Int64(row.returning.repeated)),
                        "of_floor": row.floor.map { JSON.hundredths($0.share(of: row.mutations)) } ?? .null,
                        "floor": row.floor.map(\.json) ?? .null,
                    ]
                }),
        ]
    }
}
