import BenchKit
import SyncCore

/// One promise of a hub, beside what one run has measured.
struct FleetGoal {
    enum Limit {
        case atLeast(Double), atMost(Double), below(Double)
    }

    let what: String
    /// The case that was measured, such as `postgres-1`.
    let name: String
    let value: Double
    let limit: Limit
    /// The unit of value and limit, as people read it; empty for a plain number.
    let unit: String

    init(_ what: String, _ name: String, _ value: Double, _ limit: Limit, _ unit: String = "") {
        self.what = what
        self.name = name
        self.value = value
        self.limit = limit
        self.unit = unit
    }

    /// A value that is no number meets nothing.
    var isMet: Bool {
        switch limit {
        case .atLeast(let limit): value >= limit
        case .atMost(let limit): value <= limit
        case .below(let limit): value < limit
        }
    }

    var verdict: String { isMet ? "met" : "MISSED" }

    private func text(_ value: Double) -> String { unit.isEmpty ? value.short : "\(value.short) \(unit)" }

    var limitText: String {
        switch limit {
        case .atLeast(let limit): ">= \(text(limit))"
        case .atMost(let limit): "<= \(text(limit))"
        case .below(let limit): "< \(text(limit))"
        }
    }

    /// - Returns: An empty text when there are none.
    static func table(_ goals: [FleetGoal]) -> String {
        if goals.isEmpty { return "" }
        var table = TextTable(["goal", "hub", "measured", "limit", ""], words: [0, 1, 4])
        for goal in goals { table.add([goal.what, goal.name, goal.text(goal.value), goal.limitText, goal.verdict]) }
        return table.text
    }

    var json: JSON {
        let (word, limit): (String, Double) =
            switch limit {
            case .atLeast(let limit): ("at_least", limit)
            case .atMost(let limit): ("at_most", limit)
            case .below(let limit): ("below", limit)
            }
        return [
            "goal": .string(what), "case": .string(name), "value": .hundredths(value), "unit": .string(unit), "limit": .string(word),
            "limit_value": .hundredths(limit), "met": .bool(isMet),
        ]
    }
}

/// The result of one measurement of `agentbench fleet`.
protocol FleetResult {
    var run: FleetRun { get }
    /// For people.
    var text: String { get }
    /// For programs; an object without its goals.
    var json: JSON { get }
    var goals: [FleetGoal] { get }
}

extension FleetResult {
    /// The text with the table of goals.
    var page: String { ([text] + [FleetGoal.table(goals)].filter { !$0.isEmpty }).joined(separator: "\n\n") }

    /// The object with its goals.
    var document: JSON {
        guard var object = json.object else { return json }
        object["goals"] = .array(goals.map(\.json))
        return .object(object)
    }
}
