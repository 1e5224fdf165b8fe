import Foundation
import ProcessStand

/// The programs of a package that stands outside of the checkout, as the package of an app does, and depends on the library by path: the
/// example of `deploy/clients/swift`, and those of the manual. They are built once in a run of the tests.
enum SwiftApps {
    /// `nil`: it is not in PATH.
    static let swift = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { "\($0)/swift" }
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    /// The examples of the manual: the name of the program, and a text that only this one has.
    static let manual = ["manual": "inspection-7781-swift", "forms": "AgentClient(schemas:"]

    /// - Returns: The folder of the programs.
    static func programs() async throws -> String { try await building.value }

    private static let building = Task { try await build() }
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../..")
        .standardizedFileURL.path

    private static func build() async throws -> String {
        let folder = try NewFolder.make("/tmp/edge-sync")
        // What matters of it is elsewhere by then.
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await build(in: folder)
        let programs = "\(root)/.build/swift-apps"
        if FileManager.default.fileExists(atPath: programs) { try FileManager.default.removeItem(atPath: programs) }
        try FileManager.default.createDirectory(atPath: programs, withIntermediateDirectories: true)
        for name in ["example"] + manual.keys {
            try FileManager.default.moveItem(atPath: "\(folder)/build/debug/\(name)", toPath: "\(programs)/\(name)")
        }
        return programs
    }

    private static func build(in folder: String) async throws {
        let app = "\(folder)/app"
        try FileManager.default.createDirectory(atPath: app, withIntermediateDirectories: false)
        for name in ["Package.swift", "Sources"] {
            try FileManager.default.copyItem(atPath: "\(root)/deploy/clients/swift/\(name)", toPath: "\(app)/\(name)")
        }
        let page = try String(contentsOfFile: "\(root)/deploy/docs/apps.md", encoding: .utf8)
        let blocks = page.components(separatedBy: "\n```swift\n").dropFirst().compactMap { $0.components(separatedBy: "\n```").first }
        var manifest = try String(contentsOfFile: "\(app)/Package.swift", encoding: .utf8)
        for (name, mark) in manual {
            guard let block = blocks.first(where: { $0.contains(mark) }) else {
                throw StandError("the manual has no example in Swift with \(mark)")
            }
            try FileManager.default.createDirectory(atPath: "\(app)/Sources/\(name)", withIntermediateDirectories: false)
            try block.write(toFile: "\(app)/Sources/\(name)/main.swift", atomically: false, encoding: .utf8)
            manifest +=
                #"package.targets.append(.executableTarget(name: "\#(name)", dependencies: package.targets[0].dependencies))"# + "\n"
        }
        try manifest.write(toFile: "\(app)/Package.swift", atomically: false, encoding: .utf8)
        // FOCUS leaves out what the library does not need: nothing is fetched, and nothing else of the package is built.
        let output = try await Child.run(
            [swift ?? "", "build", "--package-path", app, "--scratch-path", "\(folder)/build"],
            environment: ["FOCUS": "EdgeSync", "EDGE_SYNC_SOURCE": root], in: folder)
        guard output.status == 0 else { throw StandError("\(output.text) \(output.talk)") }
        let fetched = (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/build/checkouts")) ?? []
        guard fetched.isEmpty else { throw StandError("the build fetched \(fetched)") }
    }
}
