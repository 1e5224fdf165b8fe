import Foundation
import Glibc
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Hostile things that the machine around the agent may do to it.
    @Suite("Hostile surroundings")
    struct HostileSurroundingsTests {
        @Test(
            "A log without a reader, or a closed one, holds nothing up and gets nothing that is not for it",
            arguments: [
                // A pipe that is full, held open by this shell's own third descriptor.
                #"mkfifo "$0/log" && exec 3<>"$0/log" && head -c 65536 /dev/zero >&3 && exec "$@" 2>&3"#,
                #"exec "$@" <&- >&- 2>&-"#,
            ])
        func unreadLog(script: String) async throws {
            try await Stand.with(agent: false) { stand in
                try await stand.startAgent(wrapper: ["/bin/sh", "-c", script, stand.folder])
                let pid = try #require(await stand.agentProcess)
                // The descriptor of that number is no file of the agent's and no connection.
                for descriptor in 0...2 {
                    let target = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(descriptor)")
                    #expect(
                        target == "/dev/null" || target == stand.folder + "/log" || target.hasSuffix("agent.log"),
                        "\(descriptor): \(target)")
                }
                // Each reload says a line; far more than a pipe takes.
                for _ in 0..<20 { #expect(try await stand.agentctl("config", "reload").status == 0) }
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", #"{"n":1}"#).status == 0)
                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 1)
            }
        }

        @Test(
            "After ten years without a restart of the machine everything runs as on the first day",
            .enabled(if: timeNamespaces, "no time namespaces here"))
        func tenYearsUp() async throws {
            try await Stand.with(agent: false) { stand in
                try await stand.startAgent(wrapper: Self.wrapper(years: 10))
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", #"{"n":1}"#, "--wait").status == 0)
                let status = try await stand.client.status().value
                #expect(status.outbox.count(.done) == 1 && status.agent.uptime < .seconds(3_600))
                // The same state on a machine that was started a moment ago.
                let wrapper = try #require(await stand.agentProcess)
                let children = try String(contentsOfFile: "/proc/\(wrapper)/task/\(wrapper)/children", encoding: .utf8)
                // The wrapper lets no signal through; it ends with its child.
                for child in children.split(separator: " ").compactMap({ Int32($0) }) { kill(child, SIGTERM) }
                await stand.stopAgent()
                try await stand.startAgent()
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-2", "--data", #"{"n":2}"#, "--wait").status == 0)
                #expect(try await stand.hubApplied() == 2)
            }
        }

        /// The whole machine is said to be up that long, for this child alone.
        private static func wrapper(years: Int) -> [String] {
            [
                "/usr/bin/unshare", "-T", "--boottime", "\(years * 31_536_000)", "--monotonic", "\(years * 31_536_000)", "--fork",
                "--kill-child",
            ]
        }

        private static let timeNamespaces: Bool = {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: wrapper(years: 1)[0])
            process.arguments = wrapper(years: 1).dropFirst() + ["true"]
            process.standardError = FileHandle.nullDevice
            // A missing or forbidden program makes the test say that it is left out.
            guard (try? process.run()) != nil else { return false }
            process.waitUntilExit()
            return process.terminationStatus == 0
        }()

        @Test("Without a free descriptor new connections wait and work goes on; with some it is as before")
        func descriptorsUsedUp() async throws {
            try await Stand.with { stand in
                let pid = try #require(await stand.agentProcess)
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", #"{"n":1}"#).status == 0)
                let used =
                    try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").compactMap { Int($0) }.max() ?? 0
                try await limit(pid, descriptors: used + 2, stand)
                let idle = try (0..<6).map { _ in try Self.connect(to: stand.socketPath) }
                // A connection that was there before is served, whatever becomes of the sync that it asks for.
                _ = try? await stand.client.sync(SyncBody(SyncRequest(isForced: true), waits: false))
                for descriptor in idle { close(descriptor) }
                try await limit(pid, descriptors: 1_024, stand)
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-2", "--data", #"{"n":2}"#).status == 0)
                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 2)
                #expect(await stand.agentProcess == pid)
            }
        }

        private func limit(_ pid: pid_t, descriptors: Int, _ stand: Stand) async throws {
            let output = try await Child.run(
                ["/usr/bin/prlimit", "--pid", "\(pid)", "--nofile=\(descriptors):1024"], in: stand.folder)
            #expect(output.status == 0, "\(output.talk)")
        }

        private static func connect(to path: String) throws -> Int32 {
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
            let result = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            guard result == 0 else { throw StandError("connect: \(String(cString: strerror(errno)))") }
            return descriptor
        }
    }
}
