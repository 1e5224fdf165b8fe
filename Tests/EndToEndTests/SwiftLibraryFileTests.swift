import EdgeSync
import Foundation
import Testing

extension EndToEnd {
    /// The library for apps in Swift: files that one gateway brings, and another one has come from the hub.
    @Suite("SwiftLibraryFiles")
    struct SwiftLibraryFileTests {
        private static let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 251 &+ $0) }

        /// Runs `body` with the placeholder of a file that another gateway has brought.
        private static func with(_ body: (Stand, AgentClient, FilePlaceholder) async throws -> Void) async throws {
            try await Stand.with(entities: "      audits: { kind: record }") { stand in
                let neighbour = try await Neighbour("gw-2", on: stand)
                do {
                    let path = "\(stand.folder)/door.jpg"
                    try Data(bytes).write(to: URL(fileURLWithPath: path))
                    let added = try await neighbour.agentctl("blobs", "add", path, "--for", "audits/a-1", "--field", "photo", "--watch")
                    #expect(added.status == 0, "\(added.talk)")
                    // If the record came after its file, the hub's change of the placeholder comes with the next pull.
                    try await neighbour.sync()
                    try await neighbour.sync()
                    #expect(try await stand.sync() == "ok")
                    let agent = try AgentClient(socket: stand.socketPath)
                    let shown = try #require(try await agent.record("audits", "a-1").files("photo").first)
                    #expect(shown.isUploaded && shown.size == bytes.count)
                    try await body(stand, agent, shown)
                } catch {
                    let log = neighbour.log
                    await neighbour.stop()
                    throw StandError("\(error)\nthe end of the neighbour's log:\n\(log)")
                }
                await neighbour.stop()
            }
        }

        private func failure(_ call: () async throws(EdgeSyncError) -> Void) async -> EdgeSyncError? {
            do {
                try await call()
                return nil
            } catch { return error }
        }

        @Test("A file of another gateway is on its way at first, is saved by a call that waits for it, and is then on the device")
        func saves() async throws {
            try await Self.with { stand, agent, shown in
                let early = await failure { () throws(EdgeSyncError) in _ = try await agent.bytes(of: shown) }
                #expect(early?.code == .blobFetching && early?.fileProgress?.size == Self.bytes.count, "\(String(describing: early))")
                let path = "\(stand.folder)/fetched.jpg"
                #expect(try await agent.saveFile(shown, to: path, wait: .seconds(60)) == Self.bytes.count)
                #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data(Self.bytes))
                let file = try await agent.file(try #require(early?.fileProgress).id)
                #expect(file.isFromHub && file.isKept && file.state == "fetched" && file.digest == shown.digest)
                #expect(try await agent.bytes(of: file.id) == Self.bytes)
                #expect(try await agent.pinFile(shown).isPinned)
                #expect(try await !agent.unpinFile(file.id).isPinned)
                #expect(try await agent.fetchFile(shown.digest).state == "fetched")
                let nowhere = "sha256:" + String(repeating: "0", count: 64)
                #expect(await failure { () throws(EdgeSyncError) in try await agent.fetchFile(nowhere) }?.code == .notFound)
            }
        }

        @Test("A copy that has begun goes on by itself while the agent is killed and started again")
        func restart() async throws {
            try await Self.with { stand, agent, shown in
                var pieces = agent.content(of: shown, wait: .seconds(60)).makeAsyncIterator()
                var read = try #require(try await pieces.next(isolation: nil))
                await stand.killAgent()
                try await stand.startAgent()
                while let piece = try await pieces.next(isolation: nil) { read += piece }
                #expect(read == Self.bytes)
            }
        }
    }
}
