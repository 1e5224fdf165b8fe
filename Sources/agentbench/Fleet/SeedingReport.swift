import BenchKit
import SyncCore

/// The result of `agentbench fleet --seeding`.
struct SeedingReport {
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

        var ratio: Double {
            let alone = alone.quantile(0.99)
            return alone > 0 ? beside.quantile(0.99) / alone : 0
        }
        var isMet: Bool { ratio <= SeedingReport.goal }
    }

    static let goal = 2.0

    let command: FleetCommand
    let fileSystem: String
    var rows: [Row] = []
    private let machine = Machine()

    init(command: FleetCommand, fileSystem: String) {
        self.command = command
        self.fileSystem = fileSystem
    }

    private var newDevices: Int { command.seeding ?? 0 }

    func publish(asJSON: Bool) { print(asJSON ? json.json : text) }

    private var text: String {
        var table = TextTable(
            [
                "hub", "push p99 alone", "beside", "ratio", "goal", "", "p50 alone", "beside", "mutations/s", "beside", "first syncs",
                "pages/s",
            ],
            words: [0, 5])
        for row in rows {
            table.add([
                row.name, ms(row.alone, 0.99), ms(row.beside, 0.99), row.ratio.fixed(2), "<= 2", row.isMet ? "met" : "MISSED",
                ms(row.alone, 0.5), ms(row.beside, 0.5), row.rates.alone.short, row.rates.beside.short,
                "\((Double(row.nanoseconds) / 1e9).short) s", (Double(row.pages) * 1e9 / Double(max(row.nanoseconds, 1))).short,
            ])
        }
        return """
            \(command.devices) devices push over \(command.connections) connections, alone for 10 s before and after, and beside
            \(newDevices) new devices, each of which makes its first sync of \(command.records) records. "first syncs": until the last
            one has everything. Every mutation took effect once, as the hub counts.

            \(table.text)

            \(machine.line(fileSystem))
            """
    }

    private func ms(_ times: Times, _ share: Double) -> String { "\((times.quantile(share) / 1e6).short) ms" }

    private var json: JSON {
        [
            "schema": "fleet-seeding/1", "version": .string(ProductVersion.text), "devices": .int(Int64(command.devices)),
            "mutations": .int(Int64(command.mutations)), "connections": .int(Int64(command.connections)),
            "new_devices": .int(Int64(newDevices)), "records": .int(Int64(command.records)),
            "round_trip_ms": .hundredths(command.roundTrip), "machine": machine.json(fileSystem),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "alone": json(row.alone, row.rates.alone), "beside": json(row.beside, row.rates.beside),
                        "p99_ratio": .hundredths(row.ratio), "at_most": .hundredths(SeedingReport.goal), "met": .bool(row.isMet),
                        "first_syncs_ms": .int(Int64(row.nanoseconds / 1_000_000)), "pages": .int(Int64(row.pages)),
                        "bytes": .int(Int64(row.bytes)),
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
