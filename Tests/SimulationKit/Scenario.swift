package import SyncCore

/// What can go wrong in a simulated world. Each seed draws its own subset, because one fault can hide another: a hub that
/// is always down never shows what a lost answer does.
package enum Fault: String, CaseIterable, Sendable {
    // The network.
    case lostRequest, lostAnswer, duplicate, delay, cut
    // What answers in the hub's place, or in its name.
    case portal, busy, failed, nonsense, missingResults, bodyLimit, auth
    /// The hub fails over requests that contain certain mutations.
    case poison
    // The agent's machine.
    case crash, powerCut, diskFull, restore, link, clock, pause
    // The hub's machine.
    case hubCrash, collect
}

/// Everything that is decided before a history begins. Together with the seed it is the whole of it.
package struct Scenario: Sendable {
    package var seed: UInt64
    package var faults: Set<Fault>
    package var ablations: Set<Ablation>
    package var agents: Int
    /// What apps do during the time of faults.
    package var operations: Int
    /// Records that they do it with, by entity.
    package var records: Int
    /// Records and deletions of a page; mutations of a batch.
    package var page: Int
    package var batch: Int
    package var pullInterval: Duration
    package var spread: Duration
    /// The time of faults. Then they stop, and everything must drain.
    package var faultsFor: Duration

    /// Draws a scenario from its seed.
    package init(seed: UInt64, ablations: Set<Ablation> = []) {
        var random = SeededRandom(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 77)
        self.seed = seed
        self.ablations = ablations
        faults = Set(Fault.allCases.filter { _ in random.fraction() < 0.4 })
        agents = Int.random(in: 2...3, using: &random)
        operations = Int.random(in: 10...60, using: &random)
        records = Int.random(in: 1...5, using: &random)
        page = [1, 2, 3, 5, 500][Int.random(in: 0..<5, using: &random)]
        batch = [1, 2, 3, 5, 8, 50][Int.random(in: 0..<6, using: &random)]
        pullInterval = [.seconds(20), .seconds(60), .seconds(600), .seconds(6 * 3_600)][Int.random(in: 0..<4, using: &random)]
        spread = Bool.random(using: &random) ? .zero : .seconds(5)
        faultsFor = .seconds(Int64.random(in: 120...900, using: &random))
    }

    /// How a person asks for exactly this history again.
    package var replay: String {
        var words = ["SIMULATION_SEED=\(seed)"]
        let drawn = Scenario(seed: seed)
        if faults != drawn.faults { words.append("SIMULATION_FAULTS=" + (faults.isEmpty ? "none" : names(faults.map(\.rawValue)))) }
        if operations != drawn.operations { words.append("SIMULATION_OPERATIONS=\(operations)") }
        if !ablations.isEmpty { words.append("SIMULATION_ABLATIONS=" + names(ablations.map(\.rawValue))) }
        return words.joined(separator: " ") + " swift test --filter oneSeed"
    }

    private func names(_ names: [String]) -> String { names.sorted().joined(separator: ",") }
}

/// Why a history is not as it should be.
package struct Broken: Error, Sendable, CustomStringConvertible {
    /// The promise that does not hold; shrinking keeps it.
    package var promise: String
    package var detail: String

    init(_ promise: String, _ detail: String) {
        self.promise = promise
        self.detail = detail
    }

    package var description: String { "\(promise): \(detail)" }
}
