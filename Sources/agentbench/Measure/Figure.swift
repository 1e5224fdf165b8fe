import BenchKit

/// One line of the result: the agent's cost, the floor's cost, and the promised ratio.
struct Figure {
    enum Unit: String {
        case microseconds = "µs"
        case perSecond = "/s"
        case bytes = "B"
        case count = ""

        /// The unit in JSON: the suffix of a name.
        var suffix: String {
            switch self {
            case .microseconds: "us"
            case .perSecond: "per_s"
            case .bytes: "bytes"
            case .count: "count"
            }
        }
    }

    enum Goal {
        case atMost(Double)
        case atLeast(Double)
        /// At most this above the floor, in the figure's unit.
        case aboveFloor(Double)
        /// At most this, independent of the floor.
        case below(Double)
    }

    struct Round {
        var floor: Double
        var agent: Double
        var ratio: Double { floor > 0 ? agent / floor : 0 }
        var excess: Double { agent - floor }
    }

    let id: String
    let title: String
    let unit: Unit
    /// Description of the floor.
    let floor: String
    /// `nil`: shown for orientation, without a promise.
    let goal: Goal?
    private(set) var rounds: [Round] = []

    init(id: String, title: String, unit: Unit, floor: String, goal: Goal?) {
        self.id = id
        self.title = title
        self.unit = unit
        self.floor = floor
        self.goal = goal
    }

    mutating func add(floor: Double, agent: Double) {
        rounds.append(Round(floor: floor, agent: agent))
    }

    var floorMedian: Double { median(rounds.map(\.floor)) }
    var agentMedian: Double { median(rounds.map(\.agent)) }
    /// The median of the rounds' ratios, not the ratio of the medians: the two sides of a round met the same disk.
    var ratio: Double { median(rounds.map(\.ratio)) }

    var excess: Double { median(rounds.map(\.excess)) }

    var isMet: Bool? {
        switch goal {
        case .aboveFloor(let limit): excess <= limit
        case .below(let limit): agentMedian <= limit
        case .atMost(let limit): ratio <= limit
        case .atLeast(let limit): ratio >= limit
        case nil: nil
        }
    }
}
