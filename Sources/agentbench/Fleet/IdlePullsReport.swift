import BenchKit
import SyncCore

/// The result of `agentbench fleet --idle-pulls`.
struct IdlePullsReport {
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

        var isMet: Bool { pulls.outcome.rate >= IdlePullsReport.goal }
    }

    /// Pulls a second.
    static let goal = 5_000.0

    let command: FleetCommand
    let fileSystem: String
    var rows: [Row] = []
    private let machine = Machine()

    init(command: FleetCommand, fileSystem: String) {
        self.command = command
        self.fileSystem = fileSystem
    }

    func publish(asJSON: Bool) { print(asJSON ? json.json : text) }

    private var text: String {
        var table = TextTable(
            [
                "hub", "idle pulls", "goal", "", "of probes", "p50", "p99", "hub CPU", "database CPU", "probes", "hub CPU", "listing",
                "requests",
            ], words: [0, 3])
        for row in rows {
            let (pulls, probes) = (row.pulls.outcome, row.probes.outcome)
            table.add(
                [
                    row.name, "\(pulls.rate.short) /s", ">= 5,000 /s", row.isMet ? "met" : "MISSED",
                    (pulls.rate / max(probes.rate, 1)).fixed(2),
                ]
                    + [0.5, 0.99].map { "\((pulls.times.quantile($0) / 1e6).short) ms" }
                    + ["\(row.pulls.hubMicroseconds.short) µs", row.isServed ? "\(row.pulls.serverMicroseconds.short) µs" : "-"]
                    + ["\(probes.rate.short) /s", "\(row.probes.hubMicroseconds.short) µs"]
                    + ["\((Double(row.listing.nanoseconds) / 1e6).short) ms", "\(row.listing.requests)"])
        }
        return """
            Pulls that bring nothing over \(command.connections) connections to one hub with \(command.records) records, without TLS and
            tokens. "probes": the same with `GET /v1/probe`, what any request costs. "listing": of the records (\(passing)) that pass the
            seed filter for a new device.

            \(table.text)

            \(machine.line(fileSystem))
            """
    }

    private var passing: Int { rows.first?.listing.records ?? 0 }

    private var json: JSON {
        [
            "schema": "fleet-idle-pulls/1", "version": .string(ProductVersion.text), "connections": .int(Int64(command.connections)),
            "records": .int(Int64(command.records)), "round_trip_ms": .hundredths(command.roundTrip), "machine": machine.json(fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "pulls": json(row.pulls, row), "probes": json(row.probes, row),
                        "at_least_per_s": .hundredths(IdlePullsReport.goal), "met": .bool(row.isMet),
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
