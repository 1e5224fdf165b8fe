import BenchKit
import SyncCore

/// The result of one command, as a table or as JSON.
struct Report {
    let command: String
    let workplace: Workplace
    var figures: [Figure] = []
    var distributions: [Distribution] = []
    private var notes: [String] = []
    private let machine = Machine()

    init(command: String, workplace: Workplace) {
        self.command = command
        self.workplace = workplace
    }

    /// A remark that a reader of the figures needs.
    mutating func note(_ text: String) {
        notes.append(text)
    }

    func publish(asJSON: Bool) {
        print(asJSON ? json.json : text)
    }

    // MARK: For people

    private var text: String {
        var table = TextTable(
            [
                "figure (median of \(figures.first?.rounds.count ?? 0) rounds)", "agent", "floor", "ratio", "goal", "",
                "the floor",
            ], words: [0, 5, 6])
        for figure in figures {
            table.add([
                figure.title, "\(figure.agentMedian.short) \(figure.unit.rawValue)",
                "\(figure.floorMedian.short) \(figure.unit.rawValue)",
                figure.ratio.fixed(2), figure.goal.map { Report.text(of: $0, figure.unit) } ?? "-",
                figure.isMet.map { $0 ? "met" : "MISSED" } ?? "", figure.floor,
            ])
        }
        var parts = [table.text]
        if !distributions.isEmpty {
            var times = TextTable(["times in µs", "count", "p50", "p90", "p99", "max"])
            for distribution in distributions {
                let all = distribution.times
                times.add(
                    [distribution.title, String(all.count)]
                        + [all.quantile(0.5), all.quantile(0.9), all.quantile(0.99), all.max].map { ($0 / 1_000).short }
                )
            }
            parts.append(times.text)
        }
        let system = "Linux \(machine.kernel), \(workplace.fileSystem.name), SQLite \(machine.sqlite)"
        parts.append("\(machine.processor), \(machine.cores) cores, \(system)")
        if !notes.isEmpty { parts.append(notes.joined(separator: "\n")) }
        return parts.joined(separator: "\n\n")
    }

    private static func text(of goal: Figure.Goal, _ unit: Figure.Unit) -> String {
        switch goal {
        case .aboveFloor(let limit): "<= floor + \(limit.short) \(unit.rawValue)"
        case .below(let limit): "<= \(limit.short) \(unit.rawValue)"
        case .atMost(let limit): "<= \(limit.fixed(1))"
        case .atLeast(let limit): ">= \(limit.fixed(1))"
        }
    }

    // MARK: For programs

    private var json: JSON {
        [
            "schema": "bench/1", "command": .string(command), "version": .string(ProductVersion.text),
            "machine": [
                "processor": .string(machine.processor), "cores": .int(machine.cores),
                "kernel": .string(machine.kernel),
                "file_system": .string(workplace.fileSystem.name), "sqlite": .string(machine.sqlite),
            ],
            "figures": .array(figures.map(Report.json)),
            "times": .array(distributions.map(Report.json)),
            "notes": .list(notes),
        ]
    }

    private static func json(of figure: Figure) -> JSON {
        var object: JSONObject = [
            "id": .string(figure.id), "title": .string(figure.title), "unit": .string(figure.unit.suffix),
            "floor_is": .string(figure.floor), "agent": number(figure.agentMedian), "floor": number(figure.floorMedian),
            "ratio": number(figure.ratio),
            "rounds": .array(
                figure.rounds.map { round in
                    ["agent": number(round.agent), "floor": number(round.floor), "ratio": number(round.ratio)]
                }),
        ]
        switch figure.goal {
        case .atMost(let limit): object["at_most"] = number(limit)
        case .below(let limit): object["below"] = number(limit)
        case .atLeast(let limit): object["at_least"] = number(limit)
        case .aboveFloor(let limit):
            object["above_floor"] = number(figure.excess)
            object["above_floor_at_most"] = number(limit)
        case nil: break
        }
        if let isMet = figure.isMet { object["met"] = .bool(isMet) }
        return .object(object)
    }

    private static func json(of distribution: Distribution) -> JSON {
        let times = distribution.times
        return [
            "title": .string(distribution.title), "count": .int(times.count),
            "p50_us": number(times.quantile(0.5) / 1_000),
            "p90_us": number(times.quantile(0.9) / 1_000), "p99_us": number(times.quantile(0.99) / 1_000),
            "max_us": number(times.max / 1_000),
        ]
    }

    /// Rounds to four decimals: more would be noise.
    private static func number(_ value: Double) -> JSON {
        JSONNumber((value * 10_000).rounded() / 10_000).map { .number($0) } ?? .null
    }
}
