import BenchKit
import SyncCore

/// The observations of one program.
struct CompareRow {
    let name: String
    let settings: String
    var isMissing = false
    var witness: SyncWitness?
    private(set) var alone: Distribution
    private(set) var rates: [Double] = []

    init(_ name: String, _ settings: String) {
        self.name = name
        self.settings = settings
        alone = Distribution(name)
    }

    mutating func add(_ alone: Run, _ together: Run) {
        self.alone.add(alone.times)
        rates.append(together.rate)
    }

    /// The value of its acknowledgement, by observation.
    var worth: String {
        guard !isMissing else { return "not installed here" }
        // A line of syslog over TCP gets no answer.
        if name == Peer.syslogNG.rawValue {
            return "nothing is acknowledged; "
                + (witness.map { $0.syncs == 0 ? "nothing is synced" : "\($0.syncs) syncs for 100 lines" } ?? "not watched")
        }
        guard let witness, witness.answers > 0 else { return "not watched: strace is missing or not allowed" }
        let share = "\(witness.covered) of \(witness.answers) answers after a sync"
        switch Double(witness.covered) / Double(witness.answers) {
        case 0.98...: return "on flash before the answer (\(share))"
        case 0.02...: return "some on flash before the answer (\(share))"
        default: return "answers first: a power cut takes what was acknowledged (\(share))"
        }
    }
}

/// All programs side by side.
struct Comparison {
    let rows: [CompareRow]
    let flash: Distribution
    let producers: Producers
    let workplace: Workplace

    private var ours: Double { median(rows[0].rates) }

    var text: String {
        var table = TextTable(
            ["program", "p50 µs", "p99 µs", "\(producers.count) producers /s", "agentd / it", "what its acknowledgement guarantees"],
            words: [0, 5])
        for row in rows {
            let times = row.alone.times
            let rate = median(row.rates)
            table.add([
                row.name, times.count > 0 ? (times.quantile(0.5) / 1_000).short : "-",
                times.count > 0 ? (times.quantile(0.99) / 1_000).short : "-",
                rate > 0 ? rate.fixed(0) : "-", rate > 0 ? (ours / rate).fixed(2) : "-", row.worth,
            ])
        }
        let machine = Machine()
        var parts = [table.text]
        parts.append("fdatasync of 4 KB in the same run: p50 \((flash.times.quantile(0.5) / 1_000).short) µs")
        parts.append(rows.map { "\($0.name): \($0.settings)" }.joined(separator: "\n"))
        parts.append(
            "\(machine.processor), \(machine.cores) cores, Linux \(machine.kernel), \(workplace.fileSystem.name). 200 B a message; "
                + "medians of \(rows[0].rates.count) rounds.")
        if let shortfall = producers.shortfall { parts.append(shortfall) }
        return parts.joined(separator: "\n\n")
    }

    var json: JSON {
        [
            "schema": "compare/1", "producers": .int(producers.count), "file_system": .string(workplace.fileSystem.name),
            "fdatasync_p50_us": number(flash.times.quantile(0.5) / 1_000),
            "programs": .array(
                rows.map { row in
                    let times = row.alone.times
                    return [
                        "name": .string(row.name), "settings": .string(row.settings), "missing": .bool(row.isMissing),
                        "p50_us": number(times.quantile(0.5) / 1_000), "p99_us": number(times.quantile(0.99) / 1_000),
                        "rate_per_s": number(median(row.rates)), "worth": .string(row.worth),
                        "answers": .int(row.witness?.answers ?? 0), "answers_after_sync": .int(row.witness?.covered ?? 0),
                        "syncs": .int(row.witness?.syncs ?? 0),
                    ]
                }),
        ]
    }

    private func number(_ value: Double) -> JSON { JSONNumber((value * 100).rounded() / 100).map { .number($0) } ?? .null }
}
