import BenchKit
import SyncCore

/// The result of `agentbench fleet --snapshot`.
struct SnapshotReport: FleetResult {
    struct Part {
        /// Mutations a second.
        var rate: Double
        /// CPU time of the server a mutation.
        var serverMicroseconds: Double
    }

    struct Row {
        var name: String
        var before: Part
        var held: Part
        var after: Part
        /// The rate of the last fifth of the time in which the snapshot was open.
        var last: Double
        /// Without a snapshot, and with one that is open for these few seconds.
        var floor: FleetFloor
        var heldFloor: FleetFloor

        /// The share that is lost of the mean rate before and after; negative: it rose. The mean, because the tables grow meanwhile, and
        /// the machine may get other work.
        var loss: Double {
            let beside = (before.rate + after.rate) / 2
            return beside > 0 ? 1 - held.rate / beside : 1
        }
        var goal: FleetGoal {
            FleetGoal("rate that is lost while a snapshot is open", name, loss * 100, .below(SnapshotReport.goal * 100), "%")
        }
    }

    static let goal = 0.1

    let run: FleetRun
    var rows: [Row] = []
    private let machine = Machine()
    var goals: [FleetGoal] { rows.map(\.goal) }

    init(_ run: FleetRun) {
        self.run = run
    }

    private var seconds: Int { run.snapshot }

    var text: String {
        var table = TextTable(
            [
                "hubs", "before", "while it is open", "its last fifth", "afterwards", "lost", "goal", "", "database CPU", "while",
                "afterwards", "floor", "while",
            ],
            words: [0, 7])
        for row in rows {
            table.add(
                [
                    row.name, "\(row.before.rate.short) /s", "\(row.held.rate.short) /s", "\(row.last.short) /s",
                    "\(row.after.rate.short) /s",
                ]
                    + ["\((row.loss * 100).fixed(1)) %", "< 10 %", row.goal.verdict]
                    + [row.before, row.held, row.after].map { "\($0.serverMicroseconds.short) µs" }
                    + [row.floor, row.heldFloor].map { "\($0.mutations.short) /s" })
        }
        return """
            Mutations a second that \(run.devices) devices push, before, while and after a transaction keeps one snapshot of the
            database open for \(seconds) s (before and after: \(min(seconds, 60)) s). "lost": of the mean before and after. CPU is for each
            mutation. Every mutation took effect once, as the hub counts. The goal is for 600 s.
            \(FleetFloor.sentence)

            \(table.text)

            \(machine.line(run.fileSystem))
            """
    }

    var json: JSON {
        [
            "schema": "fleet-snapshot/1", "version": .string(ProductVersion.text), "devices": .int(Int64(run.devices)),
            "mutations": .int(Int64(run.mutations)), "seconds": .int(Int64(seconds)), "round_trip_ms": .hundredths(run.roundTrip),
            "machine": machine.json(run.fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "before": json(row.before), "held": json(row.held), "after": json(row.after),
                        "floor": row.floor.json, "held_floor": row.heldFloor.json,
                        "last_fifth_mutations_per_s": .hundredths(row.last), "lost": .hundredths(row.loss),
                        "below": .hundredths(SnapshotReport.goal), "met": .bool(row.goal.isMet),
                    ]
                }),
        ]
    }

    private func json(_ part: Part) -> JSON {
        ["mutations_per_s": .hundredths(part.rate), "database_cpu_us_per_mutation": .hundredths(part.serverMicroseconds)]
    }
}
