import BenchKit
import SyncCore

/// The result of `agentbench fleet --idle-pulls`.
struct IdlePullsReport: FleetResult {
    struct Load {
        var outcome: RepeatClient.Outcome
        /// CPU time a request: of the hub, and of the database server.
        var hubMicroseconds: Double
        var serverMicroseconds: Double
    }

    /// The listing of what passes the seed filter for one device.
    struct Listing {
        var requests: Int
        var records: Int
        var nanoseconds: UInt64
        var cursor: String
    }

    struct Row {
        var name: String
        /// Requests that ask whether a hub is there: the floor of any request.
        var probes: Load
        var pulls: Load
        /// `true`: there is a database server.
        var isServed: Bool
        var listing: Listing

        var goal: FleetGoal {
            FleetGoal("pulls a second of one hub that bring nothing", name, pulls.outcome.rate, .atLeast(IdlePullsReport.goal), "/s")
        }
    }

    /// Pulls a second.
    static let goal = 5_000.0

    let run: FleetRun
    var rows: [Row] = []
    private let machine = Machine()
    var goals: [FleetGoal] { rows.map(\.goal) }

    init(_ run: FleetRun) {
        self.run = run
    }

    var text: String {
        var table = TextTable(
            [
                "hub", "idle pulls", "goal", "", "of probes", "p50", "p99", "hub CPU", "database CPU", "probes", "hub CPU", "listing",
                "requests",
            ], words: [0, 3])
        for row in rows {
            let (pulls, probes) = (row.pulls.outcome, row.probes.outcome)
            table.add(
                [
                    row.name, "\(pulls.rate.short) /s", ">= 5,000 /s", row.goal.verdict,
                    (pulls.rate / max(probes.rate, 1)).fixed(2),
                ]
                    + [0.5, 0.99].map { "\((pulls.times.quantile($0) / 1e6).short) ms" }
                    + ["\(row.pulls.hubMicroseconds.short) µs", row.isServed ? "\(row.pulls.serverMicroseconds.short) µs" : "-"]
                    + ["\(probes.rate.short) /s", "\(row.probes.hubMicroseconds.short) µs"]
                    + ["\((Double(row.listing.nanoseconds) / 1e6).short) ms", "\(row.listing.requests)"])
        }
        return """
            Pulls that bring nothing over \(run.connections) connections to one hub with \(run.records) records, without TLS and
            tokens. "probes": the same with `GET /v1/probe`, what any request costs. "listing": of the records (\(passing)) that pass the
            seed filter for a new device.

            \(table.text)

            \(machine.line(run.fileSystem))
            """
    }

    private var passing: Int { rows.first?.listing.records ?? 0 }

    var json: JSON {
        [
            "schema": "fleet-idle-pulls/1", "version": .string(ProductVersion.text), "connections": .int(Int64(run.connections)),
            "records": .int(Int64(run.records)), "round_trip_ms": .hundredths(run.roundTrip), "machine": machine.json(run.fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "pulls": json(row.pulls, row), "probes": json(row.probes, row),
                        "at_least_per_s": .hundredths(IdlePullsReport.goal), "met": .bool(row.goal.isMet),
                        "listing_ms": .hundredths(Double(row.listing.nanoseconds) / 1e6),
                        "listing_requests": .int(Int64(row.listing.requests)),
                        "listing_records": .int(Int64(row.listing.records)),
                    ]
                }),
        ]
    }

    private func json(_ load: Load, _ row: Row) -> JSON {
        [
            "per_s": .hundredths(load.outcome.rate), "p50_us": .hundredths(load.outcome.times.quantile(0.5) / 1_000),
            "p99_us": .hundredths(load.outcome.times.quantile(0.99) / 1_000), "hub_cpu_us": .hundredths(load.hubMicroseconds),
            "database_cpu_us": row.isServed ? .hundredths(load.serverMicroseconds) : .null,
        ]
    }
}
