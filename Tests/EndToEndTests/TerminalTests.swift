import Foundation
import Glibc
import LocalAPI
import SyncCore
import Testing

/// A terminal for a program's standard output, read by a thread.
final class Terminal: Sendable {
    let programsEnd: Int32
    private let ourEnd: Int32

    init() throws {
        var (ours, programs): (Int32, Int32) = (-1, -1)
        guard openpty(&ours, &programs, nil, nil, nil) == 0 else { throw StandError("openpty: \(String(cString: strerror(errno)))") }
        _ = fcntl(ours, F_SETFD, FD_CLOEXEC)
        _ = fcntl(programs, F_SETFD, FD_CLOEXEC)
        (ourEnd, programsEnd) = (ours, programs)
    }

    deinit { close(ourEnd) }

    /// Everything until the program's end of it is closed.
    func rest() async -> [UInt8] {
        await withCheckedContinuation { continuation in
            let thread = Thread { [ourEnd] in
                var all: [UInt8] = []
                var piece = [UInt8](repeating: 0, count: 64 << 10)
                while true {
                    // EIO: the last copy of the other end was closed.
                    let count = read(ourEnd, &piece, piece.count)
                    if count <= 0 { break }
                    all += piece.prefix(count)
                }
                continuation.resume(returning: all)
            }
            thread.start()
        }
    }
}

extension EndToEnd {
    @Suite("Terminals")
    struct TerminalTests {
        /// C0, DEL, C1 (which terminals obey as they do ESC), directions, separators, zero width, byte order mark, tags.
        static let hostile =
            "x\u{7F}\u{9B}31m\u{9D}0;title\u{9C}\u{202E}evil\u{2066}\u{2028}\u{2029}\u{200B}\u{200F}\u{FEFF}\u{AD}\u{E0041}\u{8}\u{1B}]0;t\u{7}y"

        /// Control characters in an answer to a terminal other than ends of lines and colours.
        static func findings(_ bytes: [UInt8]) -> [String] {
            var text = String(decoding: bytes, as: UTF8.self)
            text = text.replacing(/\u{1B}\[[0-9;]*m/, with: "")
            return text.unicodeScalars.filter { $0 != "\n" && $0 != "\r" && $0 != "\t" && TerminalText.isUnsafe($0) }.map {
                "U+" + String($0.value, radix: 16)
            }
        }

        private func show(_ arguments: [String], _ stand: Stand) async throws -> (bytes: [UInt8], talk: String) {
            let terminal = try Terminal()
            let log = "\(stand.folder)/talk"
            unlink(log)
            let child = try Child(
                arguments, environment: ["AGENTD_SOCKET": stand.socketPath, "TERM": "xterm"], log: log, output: terminal.programsEnd)
            let bytes = await terminal.rest()
            await child.end()
            return (bytes, (try? String(contentsOfFile: log, encoding: .utf8)) ?? "")
        }

        @Test("No command of agentctl or agenthub brings a control or format character of a document to a terminal; a pipe gets every byte")
        func documents() async throws {
            try await Stand.with { stand in
                let document = JSON.object(["title": .string(Self.hostile), Self.hostile: 1]).json
                let made = try await stand.agentctl(
                    "enqueue", "work_orders", "wo-1", "--data", document, "--author", "\u{202E}evil\u{2066}")
                let id = try #require(made.text.split(separator: " ").first.map(String.init), "\(made.talk)")
                _ = try await stand.settle()
                let waiting =
                    try await stand.agentctl("enqueue", "work_orders", "wo-2", "--data", document).text.split(separator: " ").first.map(
                        String.init) ?? ""
                let commands: [[String]] = [
                    ["status"], ["status", "--json"], ["status", "--brief"], ["why", waiting], ["plan"], ["get", "work_orders", "wo-1"],
                    ["get", "work_orders", "wo-1", "--json"],
                    ["get", "work_orders", "wo-1", "--view", "both"], ["query", "work_orders"], ["query", "work_orders", "--json"],
                    ["mutations", "list"],
                    ["mutations", "list", "--json"], ["mutations", "show", id], ["mutations", "show", id, "--json"],
                    ["mutations", "show", waiting], ["rejected", "list"],
                    ["conflicts", "list"], ["blobs", "list"], ["links"], ["links", "--json"], ["power"], ["ledger"], ["audit"],
                    ["audit", "--json"], ["config", "show"],
                    ["doctor"], ["doctor", "--json"], ["sync", "--force"], ["pause", "--reason", Self.hostile], ["status"], ["resume"],
                    ["version"], ["--help"],
                    ["get", Self.hostile, "a"], ["get", "work_orders", Self.hostile], ["mutations", "show", Self.hostile],
                    ["conflicts", "resolve", Self.hostile, "--choice", "local"],
                    ["--" + Self.hostile], [Self.hostile], ["status", Self.hostile],
                    ["enqueue", "work_orders", "a", "--data", Self.hostile],
                    ["enqueue", "work_orders", "a", "--data", "{\"\(Self.hostile)\"", "--json"],
                ]
                for arguments in commands {
                    let shown = try await show([Programs.agentctl] + arguments, stand)
                    #expect(Self.findings(shown.bytes) == [], "agentctl \(arguments)")
                    #expect(Self.findings(Array(shown.talk.utf8)) == [], "agentctl \(arguments) on standard error")
                }
                let hub = ["--data", "\(stand.folder)/hub"]
                for arguments in [
                    ["export", "work_orders"] + hub, ["devices"] + hub, ["lost"] + hub, ["stats"] + hub, ["token", "list"] + hub,
                    ["export", Self.hostile] + hub, ["--" + Self.hostile],
                ] {
                    let shown = try await show([Programs.agenthub] + arguments, stand)
                    #expect(Self.findings(shown.bytes) == [], "agenthub \(arguments)")
                    #expect(Self.findings(Array(shown.talk.utf8)) == [], "agenthub \(arguments) on standard error")
                }
                // The document came through whole, and shows as JSON that means the same.
                let piped = try await stand.agentctl("get", "work_orders", "wo-1", "--json")
                #expect(try JSONReader.read(piped.text).object?["data"]?.object?["title"]?.text == Self.hostile)
                #expect(piped.text.contains("\u{9B}") && piped.text.contains("\u{202E}"))
                let shown = try await show([Programs.agentctl, "get", "work_orders", "wo-1", "--json"], stand)
                let onScreen = String(decoding: shown.bytes, as: UTF8.self).replacing("\r\n", with: "")
                #expect(try JSONReader.read(onScreen).object?["data"]?.object?["title"]?.text == Self.hostile)
            }
        }
    }
}
