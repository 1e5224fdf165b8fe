import Foundation

/// Where the built programs are: beside the test bundle, in the same build folder.
enum Programs {
    static let agentd = path("agentd")
    static let agentctl = path("agentctl")
    static let agenthub = path("agenthub")
    static let agentbench = path("agentbench")
    static let standin = path("standin")
    /// What sees the calls of a program, and lets them fail; `Tests/powercut`.
    static let interposer = path("libpowercut.so")

    private static func path(_ name: String) -> String {
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
