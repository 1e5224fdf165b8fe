import BenchKit
import SyncCore

/// The result of `agentbench fleet --snapshot`.
struct SnapshotReport {
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

        /// The share that is lost of the mean rate before and after; negative: it rose. The mean, because the tables grow meanwhile, and
        /// the machine may get other work.
        var loss: Double {
            let beside = (before.rate + after.rate) / 2
            return beside > 0 ? 1 - held.rate / beside : 1
        }
        var isMet: Bool { loss < SnapshotReport.goal }
    }

    static let goal = 0.1

    let command: FleetCommand
    let fileSystem: String
    var rows: [Row] = []
    private let machine = Machine()

    init(command: FleetCommand, fileSystem: String) {
        self.command = command
        self.fileSystem = fileSystem
    }

    private var seconds: Int { command.snapshot ?? 0 }

    func publish(asJSON: Bool) { print(asJSON ? json.json : text) }

    private var text: String {
        var table = TextTable(
            [
                "hubs", "before", "while it is open", "its last fifth", "afterwards", "lost", "goal", "", "database CPU", "while",
                "afterwards",
            ],
            words: [0, 7])
        for row in rows {
            table.add(
                [
                    row.name, "\(row.before.rate.short) /s", "\(row.held.rate.short) /s", "\(row.last.short) /s",
                    "\(row.after.rate.short) /s",
                ]
                    + ["\((row.loss * 100).fixed(1)) %", "< 10 %", row.isMet ? "met" : "MISSED"]
                    + [row.before, row.held, row.after].map { "\($0.serverMicroseconds.short) µs" })
        }
        return """
            Mutations a second that \(command.devices) devices push, before, while and after a transaction keeps one snapshot of the
            database open for \(seconds) s (before and after: \(min(seconds, 60)) s). "lost": of the mean before and after. CPU is for each
            mutation. Every mutation took effect once, as the hub counts.

            \(table.text)

            \(machine.line(fileSystem))
            """
    }

    private var json: JSON {
        [
            "schema": "fleet-snapshot/1", "version": .string(ProductVersion.text), "devices": .int(Int64(command.devices)),
            "mutations": .int(Int64(command.mutations)), "seconds": .int(Int64(seconds)), "round_trip_ms": .hundredths(command.roundTrip),
            "machine": machine.json(fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "before": json(row.before), "held": json(row.held), "after": json(row.after),
                        "last_fifth_mutations_per_s": .hundredths(row.last), "lost": .hundredths(row.loss),
                        "below": .hundredths(SnapshotReport.goal), "met": .bool(row.isMet),
                    ]
                }),
        ]
    }

    private func json(_ part: Part) -> JSON {
        ["mutations_per_s": .hundredths(part.rate), "database_cpu_us_per_mutation": .hundredths(part.serverMicroseconds)]
    }
}
