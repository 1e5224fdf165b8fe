import Glibc
import SimulationKit

/// The environment variables of the simulation: see ``SimulationTests``.
enum Environment {
    static func text(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    static func number(_ name: String) -> UInt64? {
        text(name).flatMap { UInt64($0) }
    }

    static var seeds: UInt64 {
        number("SIMULATION_SEEDS") ?? (text("EDGE_SYNC_LONG") == nil ? 2_000 : 20_000)
    }

    static var scenario: Scenario? { Scenario(settings: text) }
}
