import Foundation
import Glibc

/// A shell in user, network and mount namespaces of its own, where a test makes and breaks links, and `linkspy` in it, which
/// prints the table of links after each change.
final class NetworkNamespace: @unchecked Sendable {
    struct Table: Decodable, Equatable, Sendable {
        struct Link: Decodable, Equatable, Sendable {
            var name: String
            var kind: String
            var state: String
            var addresses: [String]
        }

        var uplink: String?
        var links: [Link]

        func state(of name: String) -> String? { links.first { $0.name == name }?.state }
    }

    struct Counts: Decodable, Sendable {
        var readings: Int
        var overruns: Int
        var dropped: Int
    }

    struct Trouble: Error, CustomStringConvertible {
        var description: String
    }

    /// The obstacle to these tests on this machine, in a word; `nil`: none.
    static let obstacle: String? = {
        guard which("ip") != nil else { return "iproute2 is missing" }
        guard which("unshare") != nil else { return "unshare is missing" }
        return flags == nil ? "neither root nor unprivileged user namespaces work here" : nil
    }()

    static let hasPython = which("python3") != nil

    private static let flags: String? = ["-Urnm", "-nm"].first { run(["unshare", $0, "ip", "link"]) == 0 }

    private let shell = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var pending: [UInt8] = []
    private(set) var tables: [Table] = []

    /// - Parameter arguments: Arguments of `linkspy`.
    init(in folder: String, _ arguments: [String] = []) throws {
        guard let flags = Self.flags else { throw Trouble(description: Self.obstacle ?? "no namespaces") }
        let programs = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let spy = programs.deletingLastPathComponent().appendingPathComponent("linkspy").path
        guard access(spy, X_OK) == 0 else { throw Trouble(description: "linkspy is not built beside the tests: \(spy)") }
        shell.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        shell.arguments = ["unshare", flags, "sh"]
        shell.standardInput = input
        shell.standardOutput = output
        try shell.run()
        // The spy ends with its input, which ends with the shell, which ends with its own.
        run("mkfifo '\(folder)/spy'")
        run("'\(spy)' \(arguments.joined(separator: " ")) < '\(folder)/spy' & spy=$!; exec 3> '\(folder)/spy'")
    }

    deinit {
        try? input.fileHandleForWriting.close()
        shell.waitUntilExit()
    }

    /// Hands a line to the shell, which takes them one after another. One that fails shows in the next wait.
    func run(_ command: String) {
        input.fileHandleForWriting.write(Data("\(command) || echo 'FAILED: \(command.replacingOccurrences(of: "'", with: " "))'\n".utf8))
    }

    /// Reads tables until one is as wanted.
    @discardableResult
    func wait(for what: String, _ isWanted: (Table) -> Bool) throws -> Table {
        while true {
            let line = try line(for: what)
            guard let table = try? JSONDecoder().decode(Table.self, from: Data(line)) else {
                throw Trouble(description: "waiting for \(what), read: \(String(decoding: line, as: UTF8.self))")
            }
            // The monitor's promise.
            if table == tables.last { continue }
            tables.append(table)
            if isWanted(table) { return table }
        }
    }

    func counts() throws -> Counts {
        run("echo counts >&3")
        while true {
            // Tables that come first are of no interest here.
            if let counts = try? JSONDecoder().decode(Counts.self, from: Data(line(for: "the counts"))) { return counts }
        }
    }

    /// Only the safety net of a test that would otherwise wait for ever; far above what anything takes here.
    private static let patience: Int32 = 60_000

    private func line(for what: String) throws -> [UInt8] {
        while true {
            if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                defer { pending.removeFirst(end + 1) }
                return Array(pending[..<end])
            }
            var polled = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&polled, 1, Self.patience) == 1 else {
                throw Trouble(description: "\(what) never came; last: \(tables.last.map { "\($0)" } ?? "nothing")")
            }
            var room = [UInt8](repeating: 0, count: 64 << 10)
            let count = read(polled.fd, &room, room.count)
            guard count > 0 else { throw Trouble(description: "the namespace ended while waiting for \(what)") }
            pending += room.prefix(count)
        }
    }

    private static func which(_ program: String) -> String? {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }

    private static func run(_ arguments: [String]) -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return -1 }
        process.waitUntilExit()
        return process.terminationStatus
    }
}
