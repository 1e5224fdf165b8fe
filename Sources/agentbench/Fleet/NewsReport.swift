import BenchKit
import SyncCore

/// The result of `agentbench fleet --news`.
struct NewsReport {
    struct Row {
        var name: String
        var waiters: Int
        var times: Times
        /// Growth of the hub's anonymous memory, connection included.
        var bytesPerWaiter: Double
        /// CPU time while nothing changes, µs a second: of the hub, and of the database server.
        var hubMicroseconds: Double
        var serverMicroseconds: Double?
    }

    let fileSystem: String
    var rows: [Row] = []
    private let machine = Machine()

    init(fileSystem: String) { self.fileSystem = fileSystem }

    func publish(asJSON: Bool) { print(asJSON ? json.json : text) }

    private var text: String {
        var table = TextTable(["hub", "waiting", "news p50", "p99", "last", "memory each", "hub CPU idle", "database CPU idle"])
        for row in rows {
            table.add([
                row.name, "\(row.waiters)", "\((row.times.quantile(0.5) / 1e6).short) ms", "\((row.times.quantile(0.99) / 1e6).short) ms",
                "\((row.times.max / 1e6).short) ms", "\((row.bytesPerWaiter / 1_000).short) KB", "\(row.hubMicroseconds.short) µs/s",
                row.serverMicroseconds.map { "\($0.short) µs/s" } ?? "-",
            ])
        }
        return """
            Devices wait at one hub for news, without TLS and tokens, and one device pushes a change. "news": from the push until a device
            has the change. "idle": while nothing changes; the hub then reads the newest commit number ten times a second.

            \(table.text)

            \(machine.processor), \(machine.cores) cores, Linux \(machine.kernel), \(fileSystem), SQLite \(machine.sqlite)
            """
    }

    private var json: JSON {
        [
            "schema": "fleet-news/1", "version": .string(ProductVersion.text),
            "cases": .array(
                rows.map { row in
                    [
                        "case": .string(row.name), "waiters": .int(Int64(row.waiters)),
                        "news_p50_us": .hundredths(row.times.quantile(0.5) / 1_000),
                        "news_p99_us": .hundredths(row.times.quantile(0.99) / 1_000),
                        "news_max_us": .hundredths(row.times.max / 1_000), "bytes_per_waiter": .hundredths(row.bytesPerWaiter),
                        "hub_cpu_us_per_s": .hundredths(row.hubMicroseconds),
                        "database_cpu_us_per_s": row.serverMicroseconds.map { JSON.hundredths($0) } ?? .null,
                    ]
                }),
        ]
    }
}
