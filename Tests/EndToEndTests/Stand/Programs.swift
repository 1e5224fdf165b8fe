import Foundation

/// Paths of the built programs: beside the test bundle, in the same build folder. The product's may be others: those in the folder
/// `EDGE_SYNC_PROGRAMS`, built with optimisation or installed.
enum Programs {
    static let agentd = product("agentd")
    static let agentctl = product("agentctl")
    static let agenthub = product("agenthub")
    static let agentbench = product("agentbench")
    static let standin = neighbour("standin")
    /// The preload that sees the calls of a program and lets them fail; `Tests/powercut`.
    static let interposer = neighbour("libpowercut.so")
    /// The preload that moves the clocks of a program; `Tests/CClockWarp`.
    static let clockWarp = neighbour("libclockwarp.so")

    private static func product(_ name: String) -> String {
        ProcessInfo.processInfo.environment["EDGE_SYNC_PROGRAMS"].map { "\($0)/\(name)" } ?? neighbour(name)
    }

    private static func neighbour(_ name: String) -> String {
        let folder = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(fileURLWithPath: folder).deletingLastPathComponent().appendingPathComponent(name).path
    }
}

struct StandError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
