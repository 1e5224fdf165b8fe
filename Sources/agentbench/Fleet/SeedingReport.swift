import BenchKit
import SyncCore

/// The result of `agentbench fleet --seeding`.
struct SeedingReport: FleetResult {
    struct Row {
        var name: String
        /// Times of pushes without new devices, before and after, and beside them.
        var alone: Times
        var beside: Times
        /// Mutations a second.
        var rates: (alone: Double, beside: Double)
        /// From the first request of the new devices until the last one has everything.
        var nanoseconds: UInt64
        var pages: Int
        var bytes: Int
        /// `nil`: the hub has SQLite.
        var floor: FleetFloor?

        var ratio: Double {
            let alone = alone.quantile(0.99)
            return alone > 0 ? beside.quantile(0.99) / alone : 0
        }
        var goal: FleetGoal { FleetGoal("push p99 beside new devices, by that without", name, ratio, .atMost(SeedingReport.goal)) }
    }

    static let goal = 2.0

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
                "hub", "push p99 alone", "beside", "ratio", "goal", "", "p50 alone", "beside", "mutations/s", "beside", "floor",
                "first syncs", "pages/s",
            ],
            words: [0, 5])
        for row in rows {
            table.add([
                row.name, ms(row.alone, 0.99), ms(row.beside, 0.99), row.ratio.fixed(2), "<= 2", row.goal.verdict,
                ms(row.alone, 0.5), ms(row.beside, 0.5), row.rates.alone.short, row.rates.beside.short,
                row.floor.map(\.mutations.short) ?? "-",
                "\((Double(row.nanoseconds) / 1e9).short) s", (Double(row.pages) * 1e9 / Double(max(row.nanoseconds, 1))).short,
            ])
        }
        return """
            \(run.devices) devices push over \(run.connections) connections, alone for \(run.span(10) / 1_000_000_000) s before and
            after, and beside \(run.seeding) new devices, each of which makes its first sync of \(run.records) records. "first
            syncs": until the last one has everything. Every mutation took effect once, as the hub counts.
            \(FleetFloor.sentence)

            \(table.text)

            \(machine.line(run.fileSystem))
            """
    }

    private func ms(_ times: Times, _ share: Double) -> String { "\((times.quantile(share) / 1e6).short) ms" }

    var json: JSON {
        [
            "schema": "fleet-seeding/1", "version": .string(ProductVersion.text), "devices": .int(Int64(run.devices)),
            "mutations": .int(Int64(run.mutations)), "connections": .int(Int64(run.connections)),
            "new_devices": .int(Int64(run.seeding)), "records": .int(Int64(run.records)),
            "round_trip_ms": .hundredths(run.roundTrip), "machine": machine.json(run.fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "alone": json(row.alone, row.rates.alone), "beside": json(row.beside, row.rates.beside),
                        "p99_ratio": .hundredths(row.ratio), "at_most": .hundredths(SeedingReport.goal), "met": .bool(row.goal.isMet),
                        "first_syncs_ms": .int(Int64(row.nanoseconds / 1_000_000)), "pages": .int(Int64(row.pages)),
                        "bytes": .int(Int64(row.bytes)), "floor": row.floor.map(\.json) ?? .null,
                    ]
                }),
        ]
    }

    private func json(_ times: Times, _ rate: Double) -> JSON {
        [
            "mutations_per_s": .hundredths(rate), "push_p50_us": .hundredths(times.quantile(0.5) / 1_000),
            "push_p99_us": .hundredths(times.quantile(0.99) / 1_000),
        ]
    }
}
