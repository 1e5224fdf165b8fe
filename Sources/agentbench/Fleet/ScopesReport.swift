import BenchKit
import SyncCore

/// The result of `agentbench fleet --scopes`.
struct ScopesReport: FleetResult {
    struct Row {
        var name: String
        /// Records that all devices received together.
        var received: Int
        /// From the first pull of a device to the end of its share.
        var first: Times
        /// The same of one device whose only scope has 100 records, and its number of pages.
        var handful: (nanoseconds: UInt64, pages: Int)
        /// Pulls that bring nothing, by the number of scopes of the device.
        var idle: [(scopes: Int, times: Times)]
        /// The same of an entity that is not shared out.
        var plain: Times
        /// Requests that ask whether a hub is there: the floor of any request.
        var probe: Times
        /// Rows of the table of scopes, one for a record and scope, and its bytes with all indexes; `nil`: they cannot be counted here.
        var scopeRows: Int
        var scopeBytes: Int?

        var bytesOfRow: Double? { scopeBytes.map { Double($0) / Double(max(scopeRows, 1)) } }

        var goals: [FleetGoal] {
            [FleetGoal("pages of the first sync of 100 records of one scope", name, Double(handful.pages), .atMost(1))]
        }
    }

    /// Figures of the design: statements on PostgreSQL without a hub around them, with 1,000,000 records of 2 scopes.
    private enum Design {
        static let bytes = 235.0
        static let handfulMilliseconds = 1.0
        /// Microseconds by the number of scopes.
        static let idle = [1: 290.0, 16: 430.0, 64: 620.0]
    }

    let run: FleetRun
    var rows: [Row] = []
    private let machine = Machine()
    var goals: [FleetGoal] { rows.flatMap(\.goals) }

    init(_ run: FleetRun) { self.run = run }

    var text: String {
        let counts = rows.first?.idle.map(\.scopes) ?? []
        var table = TextTable(
            ["hub", "received", "first sync p50", "p99", "100 records", "pages", "bytes a row", "probe", "idle pull, none"]
                + counts.map { "idle pull, \($0)" })
        for row in rows {
            table.add(
                [row.name, "\(row.received)"] + [0.5, 0.99].map { "\((row.first.quantile($0) / 1e6).short) ms" }
                    + [
                        "\((Double(row.handful.nanoseconds) / 1e6).short) ms", "\(row.handful.pages)",
                        row.bytesOfRow.map { "\($0.fixed(0)) B" } ?? "-",
                    ]
                    + ([row.probe, row.plain] + row.idle.map(\.times)).map { "\(($0.quantile(0.5) / 1e3).short) µs" })
        }
        table.add(
            ["the design", "-", "-", "-", "\(Design.handfulMilliseconds.short) ms", "1", "\(Design.bytes.fixed(0)) B", "-", "-"]
                + counts.map { Design.idle[$0].map { "\($0.short) µs" } ?? "-" })
        return """
            \(run.records) records are shared out among \(run.devices) devices of 2 scopes each, without TLS and tokens. Each device
            received its share, and no other record. "first sync": from the first pull of a device to the end of its share. "100
            records": the same of a device with one scope of 100 records. "bytes a row": of the table of scopes with its indexes, for a
            record and scope. "idle pull": p50 of a pull that brings nothing, by the number of scopes of its device; "none": of an
            entity that is not shared out. "probe": p50 of `GET /v1/probe`, what any request costs. "the design": the statements alone
            on PostgreSQL.

            \(table.text)

            \(machine.line(run.fileSystem))
            """
    }

    var json: JSON {
        [
            "schema": "fleet-scopes/1", "version": .string(ProductVersion.text), "devices": .int(Int64(run.devices)),
            "records": .int(Int64(run.records)), "machine": machine.json(run.fileSystem),
            "design": [
                "bytes_per_row": .hundredths(Design.bytes), "handful_ms": .hundredths(Design.handfulMilliseconds),
                "idle": .array(
                    Design.idle.sorted { $0.key < $1.key }.map { ["scopes": .int(Int64($0.key)), "us": .hundredths($0.value)] }),
            ],
            "cases": .array(rows.map(json)),
        ]
    }

    private func json(_ row: Row) -> JSON {
        [
            "case": .string(row.name), "received": .int(Int64(row.received)),
            "first_p50_us": .hundredths(row.first.quantile(0.5) / 1_000), "first_p99_us": .hundredths(row.first.quantile(0.99) / 1_000),
            "handful_us": .hundredths(Double(row.handful.nanoseconds) / 1_000), "handful_pages": .int(Int64(row.handful.pages)),
            "probe_us": .hundredths(row.probe.quantile(0.5) / 1_000), "idle_plain_us": .hundredths(row.plain.quantile(0.5) / 1_000),
            "scope_rows": .int(Int64(row.scopeRows)), "bytes_per_row": row.bytesOfRow.map { JSON.hundredths($0) } ?? .null,
            "idle": .array(
                row.idle.map { ["scopes": .int(Int64($0.scopes)), "p50_us": .hundredths($0.times.quantile(0.5) / 1_000)] }),
        ]
    }
}
