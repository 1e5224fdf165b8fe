import BenchKit
import SyncCore

/// The result of `agentbench fleet --scopes`.
struct ScopesReport {
    struct Row {
        var name: String
        /// Records that all devices received together.
        var received: Int
        /// From the first pull of a device to the end of its share.
        var first: Times
        /// Pulls that bring nothing, by the number of scopes of the device.
        var idle: [(scopes: Int, times: Times)]
        /// The same of an entity that is not shared out.
        var plain: Times
    }

    let devices: Int
    let records: Int
    let fileSystem: String
    var rows: [Row] = []
    private let machine = Machine()

    init(devices: Int, records: Int, fileSystem: String) {
        self.devices = devices
        self.records = records
        self.fileSystem = fileSystem
    }

    func publish(asJSON: Bool) { print(asJSON ? json.json : text) }

    private var text: String {
        let counts = rows.first?.idle.map { "idle pull, \($0.scopes)" } ?? []
        var table = TextTable(["hub", "received", "first sync p50", "p99", "idle pull, none"] + counts)
        for row in rows {
            table.add(
                [row.name, "\(row.received)"] + [0.5, 0.99].map { "\((row.first.quantile($0) / 1e6).short) ms" }
                    + ([row.plain] + row.idle.map(\.times)).map { "\(($0.quantile(0.5) / 1e3).short) µs" })
        }
        return """
            \(records) records are shared out among \(devices) devices of 2 scopes each, without TLS and tokens. Each device received
            its share, and no other record. "first sync": from the first pull of a device to the end of its share. "idle pull": p50 of a
            pull that brings nothing, by the number of scopes of its device; "none": of an entity that is not shared out.

            \(table.text)

            \(machine.processor), \(machine.cores) cores, Linux \(machine.kernel), \(fileSystem), SQLite \(machine.sqlite)
            """
    }

    private var json: JSON {
        [
            "schema": "fleet-scopes/1", "version": .string(ProductVersion.text), "devices": .int(Int64(devices)),
            "records": .int(Int64(records)),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "received": .int(Int64(row.received)),
                        "first_p50_us": .hundredths(row.first.quantile(0.5) / 1_000),
                        "first_p99_us": .hundredths(row.first.quantile(0.99) / 1_000),
                        "idle_plain_us": .hundredths(row.plain.quantile(0.5) / 1_000),
                        "idle": .array(
                            row.idle.map { ["scopes": .int(Int64($0.scopes)), "p50_us": .hundredths($0.times.quantile(0.5) / 1_000)] }),
                    ]
                }),
        ]
    }
}
