import Foundation
import Testing

/// The messages of the scripts of `deploy` on a machine that lacks something. Each has to stop there, with the command that mends it as its
/// last word, before it has built, removed or started anything.
@Suite("Scripts on a machine that lacks something")
struct DeployScriptTests {
    static let scripts = ["quickstart", "test", "package"]

    private struct Ended {
        var status: Int32
        var text: String
    }

    /// A machine of our own: the commands of this one, but for those that are left out or replaced.
    ///
    /// - Parameter commands: Shell text by the command's name; `nil`: there is no such command.
    private func run(_ script: String, _ commands: [String: String?]) throws -> Ended {
        let files = FileManager.default
        let folder = files.temporaryDirectory.appendingPathComponent("deploy-\(UUID().uuidString)")
        defer { try? files.removeItem(at: folder) }
        let bin = folder.appendingPathComponent("bin")
        try files.createDirectory(at: bin, withIntermediateDirectories: true)
        for place in ["/usr/bin", "/bin", "/usr/sbin", "/sbin"] {
            for name in (try? files.contentsOfDirectory(atPath: place)) ?? [] where commands[name] == nil && name != "swift" {
                try? files.createSymbolicLink(atPath: bin.appendingPathComponent(name).path, withDestinationPath: "\(place)/\(name)")
            }
        }
        for (name, text) in commands {
            guard let text else { continue }
            let path = bin.appendingPathComponent(name).path
            try "#!/bin/sh\n\(text)\n".write(toFile: path, atomically: true, encoding: .utf8)
            try files.setAttributes([.posixPermissions: NSNumber(value: 0o755)], ofItemAtPath: path)
        }
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments =
            [root.appendingPathComponent("deploy/\(script)").path] + (script == "package" ? ["--out", "\(folder.path)/out"] : [])
        process.environment = ["PATH": bin.path, "HOME": folder.path, "EDGE_SYNC_STATE": "\(folder.path)/state", "TMPDIR": folder.path]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return Ended(status: process.terminationStatus, text: text)
    }

    private static let recentSwift = "echo 'Swift version 99.0 (swift-99.0-RELEASE)'"
    /// A script that comes as far as to build fails with this.
    private static let noBuild = #"case "$1" in --version) \#(recentSwift) ;; *) echo BUILT; exit 9 ;; esac"#

    @Test("Without Swift it stops and says where to get it", arguments: scripts)
    func noSwift(_ script: String) throws {
        let ended = try run(script, ["swift": nil])
        #expect(ended.status != 0, "\(ended.text)")
        #expect(
            ended.text.contains("There is no swift on the PATH. Install Swift 6.2 or newer: https://www.swift.org/install/linux/"),
            "\(ended.text)")
        #expect(!ended.text.contains("ready"), "\(ended.text)")
    }

    @Test("A toolchain that does not start is not called too old: the library that it lacks is named, and the command", arguments: scripts)
    func brokenSwift(_ script: String) throws {
        let loader =
            "swift: error while loading shared libraries: libncurses.so.6: cannot open shared object file: No such file or directory"
        let ended = try run(script, ["swift": "echo '\(loader)' >&2; exit 127"])
        #expect(ended.status != 0, "\(ended.text)")
        #expect(
            ended.text.contains("because libncurses.so.6 is missing") && ended.text.contains("apt-get install --yes binutils"),
            "\(ended.text)")
        #expect(!ended.text.contains("too old"), "\(ended.text)")
    }

    @Test("A toolchain that is too old is named with its version", arguments: scripts)
    func oldSwift(_ script: String) throws {
        let ended = try run(script, ["swift": "echo 'Swift version 5.10.1 (swift-5.10.1-RELEASE)'"])
        #expect(ended.status != 0 && ended.text.contains("Swift 5.10.1 is too old: 6.2 or newer is needed."), "\(ended.text)")
    }

    @Test("Where packages are missing and cannot be installed it stops, with the command for all of them", arguments: scripts)
    func noPackages(_ script: String) throws {
        let ended = try run(
            script,
            [
                "swift": Self.noBuild, "apt-get": "echo 'E: Unable to locate package'; exit 100", "sudo": #"exec "$@""#,
                "dpkg-query": #"case "$*" in *libyaml-dev*) exit 1 ;; *) echo installed ;; esac"#,
            ])
        #expect(ended.status != 0, "\(ended.text)")
        #expect(
            ended.text.contains("E: Unable to locate package") && ended.text.contains("apt-get install --yes libyaml-dev\n"),
            "\(ended.text)")
        #expect(!ended.text.contains("BUILT"), "\(ended.text)")
    }
}
