import Foundation
import LocalAPI
import ProcessStand
import Testing

extension EndToEnd {
    /// The library for apps in Swift, as an app uses it: a package outside of the checkout that depends on it by path, built and run
    /// against a real agent and hub.
    @Suite("SwiftClient")
    struct SwiftClientTests {
        private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
            .standardizedFileURL.path
        private static let swift = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { "\($0)/swift" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }

        /// The examples of the manual, by the name of their program: a text that only this one has, and what it prints.
        private static let manual = [
            "manual": ("inspection-7781-swift", "outcome: delivered\ndone: wo-swift synced\nchanged: wo-swift\n"),
            "forms": (
                "AgentClient(schemas:", "progress: 50 %, missing: [\"/reason\"]\nrefused: validation [\"/data/reason\"]\nsite: \"s-1\"\n"
            ),
        ]
        private static let entities =
            Stand.standardEntities + """

                  forms: { kind: reference }
                  audits:
                    form: { entity: forms, ref: form_id, path: schema }
                    complete: { when: { status: [completed] } }
                    schema: 2
                    versions:
                      1: { schema: { properties: { site: { type: string } } } }
                      2:
                        schema: { properties: { site_id: { type: string } } }
                        up: [ { rename: { site: site_id } } ]
                """
        private static let form =
            #"{"id":"doors","data":{"schema":{"sections":[{"id":"doors","fields":["#
            + #"{"id":"closes","type":"choice","choices":["pass","fail"],"required":true},"#
            + #"{"id":"reason","type":"text","required":true,"visible_when":{"closes":"fail"}}]}]}}}"#

        /// Builds the example of `deploy/clients/swift` in a folder of its own, and beside it those of the manual.
        ///
        /// - Returns: The folder of the programs.
        private static func build(in folder: String) async throws -> String {
            let app = "\(folder)/app"
            try FileManager.default.createDirectory(atPath: app, withIntermediateDirectories: false)
            for name in ["Package.swift", "Sources"] {
                try FileManager.default.copyItem(atPath: "\(root)/deploy/clients/swift/\(name)", toPath: "\(app)/\(name)")
            }
            let page = try String(contentsOfFile: "\(root)/deploy/docs/apps.md", encoding: .utf8)
            let blocks = page.components(separatedBy: "\n```swift\n").dropFirst().compactMap { $0.components(separatedBy: "\n```").first }
            var manifest = try String(contentsOfFile: "\(app)/Package.swift", encoding: .utf8)
            for (name, (mark, _)) in manual {
                let block = try #require(blocks.first { $0.contains(mark) }, "the manual has no example in Swift with \(mark)")
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
            try #require(output.status == 0, "\(output.text) \(output.talk)")
            let fetched = (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/build/checkouts")) ?? []
            #expect(fetched.isEmpty, "the build fetched \(fetched)")
            return "\(folder)/build/debug"
        }

        @Test(
            "An app in Swift writes once however often it asks, waits, reads, queries, follows over a restart and stores a file",
            .enabled(if: swift != nil, "swift is not in PATH"))
        func example() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let programs = try await Self.build(in: stand.folder)
                let program = "\(programs)/example"
                func run(_ words: String..., status: Int32 = 0) async throws -> String {
                    let output = try await Child.run(
                        [program] + words, environment: ["AGENTD_SOCKET": stand.socketPath], in: stand.folder)
                    #expect(output.status == status, "\(words): \(output.text) \(output.talk)")
                    return status == 0 ? output.text.trimmingCharacters(in: .newlines) : output.talk
                }

                // The same key twice, with another body, and from an app that was started again.
                let data = #"{"n":9007199254740993,"price":1.10,"small":0.1000000000000000055,"status":"open"}"#
                let id = try await run("write", "work_orders", "wo-1", data, "inspection-1")
                #expect(try await run("write", "work_orders", "wo-1", data, "inspection-1") == id)
                #expect(
                    try await run("write", "work_orders", "wo-1", #"{"n":1}"#, "inspection-1", status: 1).contains("idempotency-mismatch"))
                #expect(try await stand.client.status().value.outbox.enqueued == 1)

                #expect(try await run("wait", id) == "delivered")
                #expect(try await stand.hubApplied() == 1)
                #expect(try await run("read", "work_orders", "wo-1").contains(#""data":\#(data)"#))
                #expect(try await run("query", "work_orders", "status", #""open""#) == "wo-1 \(data)")
                #expect(try await run("read", "work_orders", "wo-9", status: 1).contains("not-found"))

                // A follower that is killed, while the agent is killed too, goes on behind the last event that it has stored.
                let position = "\(stand.folder)/position"
                let first = try await Follower(program, position, stand)
                _ = try await run("write", "work_orders", "wo-2", #"{"n":1}"#, "follow-2")
                try await first.waitFor("wo-2")
                await first.stop()
                await stand.killAgent()
                try await stand.startAgent()
                _ = try await run("write", "work_orders", "wo-3", #"{"n":1}"#, "follow-3")
                let second = try await Follower(program, position, stand)
                try await second.waitFor("wo-3")
                await second.stop()
                #expect(!second.seen.contains { $0.contains("\"wo-1\"") }, "what was handled came again")

                let file = "\(stand.folder)/photo.bin"
                try Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0) }).write(to: URL(fileURLWithPath: file))
                #expect(try await run("file", file).hasSuffix(" 300000"))
                let forms = "\(stand.folder)/forms.ndjson"
                try Stand.write(Self.form + "\n", to: forms)
                let published = try await Child.run(
                    [Programs.agenthub, "publish", "forms", forms, "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(published.status == 0, "\(published.talk)")
                for _ in 0..<50 {
                    if try await stand.agentctl("get", "forms", "doors").status == 0 { break }
                    _ = try await stand.sync()
                }
                // Each example is run twice, as it stands in the manual.
                for (name, (_, text)) in Self.manual {
                    for _ in 0..<2 {
                        let output = try await Child.run(
                            ["\(programs)/\(name)"], environment: ["AGENTD_SOCKET": stand.socketPath], in: stand.folder)
                        #expect(output.status == 0, "\(name): \(output.talk)")
                        #expect(output.text == text)
                        _ = try await stand.settle()
                    }
                }
            }
        }

        /// The example while it follows. Its standard output is read line by line.
        private final class Follower {
            private let child: Child
            private let pipe: LinePipe
            private(set) var seen: [String] = []

            /// Waits until the follower has a position.
            init(_ program: String, _ position: String, _ stand: Stand) async throws {
                pipe = try LinePipe()
                child = try Child(
                    [program, "follow", position], environment: ["AGENTD_SOCKET": stand.socketPath],
                    log: "\(stand.folder)/follower.log", output: pipe.writingEnd)
                while !FileManager.default.fileExists(atPath: position), child.isRunning { await Pause.short() }
            }

            func waitFor(_ id: String) async throws {
                while !seen.contains(where: { $0.contains("\"\(id)\"") }) {
                    seen.append(try #require(await pipe.line(), "the follower has ended"))
                }
            }

            func stop() async { await child.stop(SIGKILL) }
        }
    }
}
