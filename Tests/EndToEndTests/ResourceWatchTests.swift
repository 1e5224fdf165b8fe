import CSyncLinux
import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import Testing

extension EndToEnd {
    /// The watch itself: it finds what is planted, and an agent that was asked for too much has given all of it back.
    @Suite("What programs hold")
    struct ResourceWatchTests {
        @Test("A descriptor, a process and a temporary file that a program does not give back are found and named")
        func planted() async throws {
            let folder = try NewFolder.make("/tmp/edge-sync")
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let (fifo, answers) = ("\(folder)/orders", "\(folder)/answers")
            #expect(mkfifo(fifo, 0o600) == 0 && mkfifo(answers, 0o600) == 0)
            // A shell in the place of a program: it does one line at a time, and says when it has.
            let script = #"while read -r line; do eval "$line"; echo done > "$1"; done < "$0""#
            let child = try Child(["/bin/sh", "-c", script, fifo, answers], log: "\(folder)/log")
            let orders = open(fifo, O_WRONLY | O_CLOEXEC)
            defer { close(orders) }
            func order(_ line: String) throws {
                #expect(write(orders, line + "\n", line.utf8.count + 1) > 0)
                #expect(try String(contentsOfFile: answers, encoding: .utf8) == "done\n")
            }
            try order(":")
            let watch = try ResourceWatch("shell", child.pid, .init(descriptors: []), temporaryFilesIn: [folder])
            #expect(try await watch.leftOver() == [])
            try order("exec 7<\(folder)/log; sleep 1000 & pid=$!; : > \(folder)/.a.0123456789abcdef.tmp")
            let left = try watch.look()
            #expect(left.contains("shell: 1 of \(folder)/log beyond what may be open"), "\(left)")
            #expect(left.contains("shell: 1 child processes") && left.contains { $0.hasSuffix("0123456789abcdef.tmp") }, "\(left)")
            try order("exec 7<&-; kill $pid; wait $pid; rm \(folder)/.a.0123456789abcdef.tmp")
            #expect(try await watch.leftOver() == [])
            await child.stop(SIGKILL)
        }

        @Test("Descriptors that strangers attach to requests do not stay with the agent")
        func attached() async throws {
            try await Stand.with { stand in
                // More than the agent may have open, had each left one.
                for number in 0..<300 {
                    let answer = try Self.ask(stand.socketPath, attaching: 5)
                    #expect(answer.hasPrefix("HTTP/1.1 200"), "\(number): \(answer)")
                }
                _ = try await stand.settle()
            }
        }

        /// Asks how the agent is, with copies of our standard input attached.
        private static func ask(_ path: String, attaching count: Int32) throws -> String {
            let socket = sync_unix_connect(path)
            guard socket >= 0 else { throw StandError("connect: \(errno)") }
            defer { close(socket) }
            let head = Array("GET /v1/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8)
            let descriptors = [Int32](repeating: 0, count: Int(count))
            guard sync_send_descriptors(socket, head, head.count, descriptors, count) == 0 else { throw StandError("send: \(errno)") }
            var answer: [UInt8] = []
            var piece = [UInt8](repeating: 0, count: 4_096)
            while true {
                let count = read(socket, &piece, piece.count)
                guard count > 0 else { return String(decoding: answer, as: UTF8.self) }
                answer += piece.prefix(count)
            }
        }
    }
}
