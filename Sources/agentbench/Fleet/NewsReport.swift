import BenchKit
import SyncCore

/// The result of `agentbench fleet --news`.
struct NewsReport: FleetResult {
    struct Row {
        var name: String
        var waiters: Int
        /// From the push of a change until a device has it: alone, and beside a new device.
        var times: Times
        var beside: Times
        /// The new device's answers in that time.
        var listing: NewsLister.Count
        /// Growth of the hub's anonymous memory, connection included.
        var bytesPerWaiter: Double
        /// Time without a change, seconds, and the number of waits that ended in it, each followed by the next one.
        var idleSeconds: Double
        var asked: Int
        /// CPU time in that time, µs a second: of the hub, and of the database server.
        var hubMicroseconds: Double
        var serverMicroseconds: Double?
        /// Transactions a second that the server committed in that time.
        var transactions: Double?

        var goals: [FleetGoal] {
            [
                FleetGoal("news p99", name, times.quantile(0.99) / 1e6, .atMost(1_000), "ms"),
                FleetGoal("memory of the hub a waiting device", name, bytesPerWaiter / 1_000, .atMost(20), "KB"),
            ]
        }
    }

    let run: FleetRun
    var rows: [Row] = []
    private let machine = Machine()
    var goals: [FleetGoal] { rows.flatMap(\.goals) }

    init(_ run: FleetRun) { self.run = run }

    var text: String {
        var table = TextTable([
            "hub", "waiting", "news p50", "p99", "last", "beside p50", "p99", "pages", "compared", "memory each", "asks", "hub CPU idle",
            "database CPU idle", "transactions",
        ])
        for row in rows {
            table.add(
                [row.name, "\(row.waiters)"]
                    + [row.times.quantile(0.5), row.times.quantile(0.99), row.times.max].map { "\(($0 / 1e6).short) ms" }
                    + [row.beside.quantile(0.5), row.beside.quantile(0.99)].map { "\(($0 / 1e6).short) ms" }
                    + [
                        "\(row.listing.pages)", "\(row.listing.comparisons)", "\((row.bytesPerWaiter / 1_000).short) KB",
                        "\((Double(row.asked) / row.idleSeconds).short) /s", "\(row.hubMicroseconds.short) µs/s",
                        row.serverMicroseconds.map { "\($0.short) µs/s" } ?? "-", row.transactions.map { "\($0.short) /s" } ?? "-",
                    ])
        }
        return """
            Devices wait at one hub for news, without TLS and tokens, and one device pushes a change. "news": from the push until a device
            has the change. "beside": the same while a new device lists \(run.records) records of another entity, "pages" of it, and
            compares them. "idle": nothing changes for \(seconds); each wait ends once in that time, and its device asks again.
            "transactions": of the database a second in that time. There is no floor: no least cost of waiting is known.

            \(table.text)

            \(machine.line(run.fileSystem))
            """
    }

    private var seconds: String { "\((rows.first?.idleSeconds ?? 0).fixed(0)) s" }

    var json: JSON {
        [
            "schema": "fleet-news/1", "version": .string(ProductVersion.text), "records": .int(Int64(run.records)),
            "machine": machine.json(run.fileSystem), "cases": .array(rows.map(json)),
        ]
    }

    private func json(_ row: Row) -> JSON {
        [
            "case": .string(row.name), "waiters": .int(Int64(row.waiters)), "news_count": .int(Int64(row.times.count)),
            "news_p50_us": .hundredths(row.times.quantile(0.5) / 1_000), "news_p99_us": .hundredths(row.times.quantile(0.99) / 1_000),
            "news_max_us": .hundredths(row.times.max / 1_000), "beside_count": .int(Int64(row.beside.count)),
            "beside_p50_us": .hundredths(row.beside.quantile(0.5) / 1_000),
            "beside_p99_us": .hundredths(row.beside.quantile(0.99) / 1_000), "beside_pages": .int(Int64(row.listing.pages)),
            "beside_comparisons": .int(Int64(row.listing.comparisons)), "beside_refused": .int(Int64(row.listing.refused)),
            "bytes_per_waiter": .hundredths(row.bytesPerWaiter), "idle_s": .hundredths(row.idleSeconds), "asks": .int(Int64(row.asked)),
            "hub_cpu_us_per_s": .hundredths(row.hubMicroseconds),
            "database_cpu_us_per_s": row.serverMicroseconds.map { JSON.hundredths($0) } ?? .null,
            "database_transactions_per_s": row.transactions.map { JSON.hundredths($0) } ?? .null,
        ]
    }
}
