import BenchKit
import SyncCore

/// The result of `agentbench fleet --stop`.
struct StopReport: FleetResult {
    struct Row {
        var name: String
        /// For each stop the longest time in which the other hub answered no push; nanoseconds.
        var silences: [UInt64]
        /// The longest of one hub while no hub was stopped.
        var calm: UInt64
        var refused: Int
        var lost: Int
        var pushes: Int
        /// Mutations a second of both hubs while none is stopped.
        var rate: Double
        /// `nil`: there is no database server.
        var floor: FleetFloor?

        var longest: Double { Double(silences.max() ?? 0) }
        var goal: FleetGoal {
            FleetGoal("longest silence after another hub was stopped", name, longest / 1e6, .below(StopReport.goal / 1e6), "ms")
        }
    }

    /// Nanoseconds.
    static let goal = 1e9

    let seed: UInt64
    let run: FleetRun
    var rows: [Row] = []
    private let machine = Machine()
    var goals: [FleetGoal] { rows.map(\.goal) }

    init(seed: UInt64, _ run: FleetRun) {
        self.seed = seed
        self.run = run
    }

    var text: String {
        var table = TextTable(
            ["hubs", "pushes", "longest silence", "goal", "", "of each stop", "while both run", "503", "lost", "mutations/s", "floor"],
            words: [0, 4, 5])
        for row in rows {
            table.add([
                row.name, "\(row.pushes)", "\((row.longest / 1e6).short) ms", "< 1,000 ms", row.goal.verdict,
                row.silences.map { (Double($0) / 1e6).short }.joined(separator: " "), "\((Double(row.calm) / 1e6).short) ms",
                "\(row.refused)",
                "\(row.lost)", row.rate.short, row.floor.map(\.mutations.short) ?? "-",
            ])
        }
        return """
            \(run.devices) devices push without end, \(run.mutations) mutations each time; \(run.stops) times one of two
            hubs was stopped for \(run.span(5) / 1_000_000) ms (SIGSTOP) at a moment drawn with --seed \(seed). "silence": the longest time
            in which the other hub answered no push. "mutations/s": of both, while none is stopped. Every mutation took effect once, as
            the hub counts. \(FleetFloor.sentence)

            \(table.text)

            \(machine.line(run.fileSystem))
            """
    }

    var json: JSON {
        [
            "schema": "fleet-stop/1", "version": .string(ProductVersion.text), "devices": .int(Int64(run.devices)),
            "mutations": .int(Int64(run.mutations)), "seed": .string(String(seed)), "round_trip_ms": .hundredths(run.roundTrip),
            "machine": machine.json(run.fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "pushes": .int(Int64(row.pushes)),
                        "silence_us": .array(row.silences.map { .hundredths(Double($0) / 1_000) }),
                        "longest_silence_us": .hundredths(row.longest / 1_000), "below_us": .hundredths(StopReport.goal / 1_000),
                        "met": .bool(row.goal.isMet), "calm_silence_us": .hundredths(Double(row.calm) / 1_000),
                        "refused": .int(Int64(row.refused)), "lost": .int(Int64(row.lost)),
                        "mutations_per_s": .hundredths(row.rate), "floor": row.floor.map(\.json) ?? .null,
                    ]
                }),
        ]
    }
}

extension Machine {
    /// The last line of a table.
    func line(_ fileSystem: String) -> String { "\(processor), \(cores) cores, Linux \(kernel), \(fileSystem), SQLite \(sqlite)" }

    func json(_ fileSystem: String) -> JSON {
        [
            "processor": .string(processor), "cores": .int(Int64(cores)), "kernel": .string(kernel), "file_system": .string(fileSystem),
            "sqlite": .string(sqlite),
        ]
    }
}
