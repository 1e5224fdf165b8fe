import BenchKit
import SyncCore

/// The result of `agentbench fleet --stop`.
struct StopReport {
    struct Row {
        var name: String
        /// For each stop the longest time in which the other hub answered no push; nanoseconds.
        var silences: [UInt64]
        /// The longest of one hub while no hub was stopped.
        var calm: UInt64
        var refused: Int
        var lost: Int
        var pushes: Int

        var longest: Double { Double(silences.max() ?? 0) }
        var isMet: Bool { longest < StopReport.goal }
    }

    /// Nanoseconds.
    static let goal = 1e9

    let seed: UInt64
    let command: FleetCommand
    let fileSystem: String
    var rows: [Row] = []
    private let machine = Machine()

    init(seed: UInt64, command: FleetCommand, fileSystem: String) {
        self.seed = seed
        self.command = command
        self.fileSystem = fileSystem
    }

    func publish(asJSON: Bool) { print(asJSON ? json.json : text) }

    private var text: String {
        var table = TextTable(
            ["hubs", "pushes", "longest silence", "goal", "", "of each stop", "while both run", "503", "lost"], words: [0, 4, 5])
        for row in rows {
            table.add([
                row.name, "\(row.pushes)", "\((row.longest / 1e6).short) ms", "< 1,000 ms", row.isMet ? "met" : "MISSED",
                row.silences.map { (Double($0) / 1e6).short }.joined(separator: " "), "\((Double(row.calm) / 1e6).short) ms",
                "\(row.refused)",
                "\(row.lost)",
            ])
        }
        return """
            \(command.devices) devices push without end, \(command.mutations) mutations each time; \(command.stops) times one of two
            hubs was stopped for 5 s (SIGSTOP) at a moment drawn with --seed \(seed). "silence": the longest time in which the other hub
            answered no push. Every mutation took effect once, as the hub counts.

            \(table.text)

            \(machine.line(fileSystem))
            """
    }

    private var json: JSON {
        [
            "schema": "fleet-stop/1", "version": .string(ProductVersion.text), "devices": .int(Int64(command.devices)),
            "mutations": .int(Int64(command.mutations)), "seed": .string(String(seed)), "round_trip_ms": .hundredths(command.roundTrip),
            "machine": machine.json(fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "pushes": .int(Int64(row.pushes)),
                        "silence_us": .array(row.silences.map { .hundredths(Double($0) / 1_000) }),
                        "longest_silence_us": .hundredths(row.longest / 1_000), "below_us": .hundredths(StopReport.goal / 1_000),
                        "met": .bool(row.isMet), "calm_silence_us": .hundredths(Double(row.calm) / 1_000),
                        "refused": .int(Int64(row.refused)), "lost": .int(Int64(row.lost)),
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
