import CSyncLinux
import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import Testing

extension EndToEnd {
    /// The watch itself: it finds what is planted, and an agent that was asked for too much has given all of it back.
    @Suite("Resources of programs")
    struct ResourceWatchTests {
        @Test("A descriptor and a temporary file that a program does not give back are found and named")
        func planted() async throws {
            let folder = try NewFolder.make("/tmp/edge-sync")
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let (log, temporary) = ("\(folder)/log", "\(folder)/.a.0123456789abcdef.tmp")
            #expect(FileManager.default.createFile(atPath: log, contents: nil))
            // This process stands in the place of a program: what it takes here is what one would have kept.
            let watch = try ResourceWatch("test", getpid(), .init(descriptors: []), temporaryFilesIn: [folder])
            let planted = ["test: 1 of \(log) beyond what may be open", "test: the temporary file \(temporary)"]
            #expect(try watch.look().allSatisfy { !planted.contains($0) })
            let descriptor = open(log, O_RDONLY | O_CLOEXEC)
            #expect(FileManager.default.createFile(atPath: temporary, contents: nil))
            let left = try watch.look()
            #expect(planted.allSatisfy(left.contains), "\(left)")
            close(descriptor)
            try FileManager.default.removeItem(atPath: temporary)
            #expect(try watch.look().allSatisfy { !planted.contains($0) })
        }

        @Test("A process that a program has started and that has not ended, or was not collected, is found")
        func plantedChild() async throws {
            let folder = try NewFolder.make("/tmp/edge-sync")
            defer { try? FileManager.default.removeItem(atPath: folder) }
            // Others of this process's children belong to what ran before.
            let before = try ProcessResources(of: getpid()).children
            let watch = try ResourceWatch("test", getpid(), .init(descriptors: []), temporaryFilesIn: [folder])
            let planted = "test: \(before + 1) child processes"
            #expect(try !watch.look().contains(planted))
            var ends: [Int32] = [0, 0]
            guard pipe(&ends) == 0 else { throw StandError("pipe: \(errno)") }
            // It reads until the other end is closed.
            _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
            let child = try Spawn.start(["/bin/cat"], input: ends[0])
            #expect(try watch.look().contains(planted))
            // Ended, and not collected: the kernel still keeps it.
            close(ends[1])
            close(ends[0])
            var state = siginfo_t()
            #expect(waitid(P_PID, id_t(child), &state, WEXITED | WNOWAIT) == 0)
            #expect(try watch.look().contains(planted))
            #expect(waitpid(child, nil, 0) == child)
            #expect(try !watch.look().contains(planted))
        }

        @Test("Descriptors that strangers attach to requests do not stay with the agent")
        func attached() async throws {
            try await Stand.with { stand in
                // The descriptors of all these requests are more than the agent may have open.
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
