import Glibc
import SimulationKit
import SyncCore

/// What a person may ask for by environment variables.
enum Environment {
    static func text(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    static func number(_ name: String) -> UInt64? {
        text(name).flatMap { UInt64($0) }
    }

    static func scenario(seed: UInt64) -> Scenario {
        var scenario = Scenario(seed: seed, ablations: Set(words("SIMULATION_ABLATIONS").compactMap { Ablation(rawValue: $0) }))
        if text("SIMULATION_FAULTS") != nil { scenario.faults = Set(words("SIMULATION_FAULTS").compactMap { Fault(rawValue: $0) }) }
        if let operations = number("SIMULATION_OPERATIONS") { scenario.operations = Int(clamping: operations) }
        return scenario
    }

    private static func words(_ name: String) -> [String] {
        (text(name) ?? "").split(separator: ",").map { String($0) }
    }
}
