import Foundation
import Glibc
import LocalAPI
import SyncLinux
import Testing

extension EndToEnd {
    /// Faults of a disk under the configuration of the real agent.
    @Suite("The configuration on a failing disk")
    struct ConfigurationDiskTests {
        private func with(_ body: (String, CurlTransport) async throws -> Void) async throws {
            let place = try NewFolder.make("/tmp/edge-config")
            defer { try? FileManager.default.removeItem(atPath: place) }
            let transport = try CurlTransport(name: "config", idleConnections: 1)
            defer { transport.close() }
            for name in ["agent", "usual"] { mkdir("\(place)/\(name)", 0o700) }
            try Stand.write("token\n", to: "\(place)/token")
            chmod("\(place)/token", 0o600)
            try await body(place, transport)
        }

        private func source(_ agent: LoneAgent) async throws -> (source: String, isTold: Bool) {
            let status = try await agent.client.status().value
            return (status.configuration.source, status.overall.reasons.contains("config"))
        }

        @Test("A configuration that a power cut has emptied does not stop a start, wherever the state folder is")
        func elsewhere() async throws {
            try await with { place, transport in
                let environment = ["STATE_DIRECTORY": "\(place)/usual"]
                let first = try await LoneAgent.start(in: place, over: transport, environment: environment)
                #expect(try await source(first).source == "file")
                #expect(await first.child.stop() == 0)
                try Data().write(to: URL(fileURLWithPath: "\(place)/agentd.yaml"))
                let second = try await LoneAgent.start(in: place, over: transport, environment: environment, configures: false)
                let found = try await source(second)
                #expect(found.source == "last_good" && found.isTold)
                #expect(await second.child.stop() == 0)
                // Another agent of the machine, with another main file, has nothing of it.
                mkdir("\(place)/other", 0o700)
                try Data().write(to: URL(fileURLWithPath: "\(place)/other/agentd.yaml"))
                let other = try Child(
                    [Programs.agentd, "--config", "\(place)/other/agentd.yaml"], environment: environment, log: "\(place)/other/log")
                #expect(await other.end() == 78)
            }
        }

        @Test(
            "A bit that the disk flips in the configuration is reported, and the last good one is in force until the file is written",
            .enabled(if: SmallDisk.obstacleOfExt4 == nil, "needs an ext4 of its own: \(SmallDisk.obstacleOfExt4 ?? "")"))
        func flipped() async throws {
            try await with { place, transport in
                let disk = try SmallDisk(ext4: "\(place)/disk")
                defer { disk.remove() }
                mkdir("\(disk.path)/agent", 0o700)
                try FileManager.default.copyItem(atPath: "\(place)/token", toPath: "\(disk.path)/token")
                chmod("\(disk.path)/token", 0o600)
                let environment = ["STATE_DIRECTORY": "\(disk.path)/agent"]
                // A file that was written a moment before the first start has no usable stamp. The second start has one.
                for isFirst in [true, false] {
                    let agent = try await LoneAgent.start(in: disk.path, over: transport, environment: environment, configures: isFirst)
                    #expect(try await source(agent).source == "file")
                    #expect(await agent.child.stop() == 0)
                }
                let device = "device: \(Stand.device)"
                // Still a right configuration, of another device.
                let count = try disk.flip("http://127.0.0.1:9\", \(device)", at: "http://127.0.0.1:9\", \(device)".utf8.count - 1)
                #expect(count == 1)
                let flipped = try String(contentsOfFile: "\(disk.path)/agentd.yaml", encoding: .utf8)
                #expect(!flipped.contains(device) && flipped.contains(device.dropLast()))
                let agent = try await LoneAgent.start(in: disk.path, over: transport, environment: environment, configures: false)
                let found = try await source(agent)
                #expect(found.source == "last_good" && found.isTold)
                #expect(try await agent.client.status().value.agent.device == Stand.device)
                #expect(await agent.child.stop() == 0)
                // A person saves the changed file: that is an edit.
                try Data(flipped.utf8).write(to: URL(fileURLWithPath: "\(disk.path)/agentd.yaml"))
                let edited = try await LoneAgent.start(in: disk.path, over: transport, environment: environment, configures: false)
                #expect(try await source(edited).source == "file")
                #expect(await edited.child.stop() == 0)
            }
        }
    }
}
