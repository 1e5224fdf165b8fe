import Foundation
import LocalAPI
import ProcessStand
import Testing

extension EndToEnd {
    /// The library for apps in Swift, as an app uses it: a package outside of the checkout that depends on it by path, built and run
    /// against a real agent and hub.
    @Suite("SwiftClient")
    struct SwiftClientTests {
        /// What each example of the manual prints.
        private static let manual = [
            "manual": "outcome: delivered\ndone: wo-swift synced\nchanged: wo-swift\n",
            "forms": "progress: 50 %, missing: [\"/reason\"]\nrefused: validation [\"/data/reason\"]\nsite: \"s-1\"\n",
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

        @Test(
            "An app in Swift writes once however often it asks, waits, reads, queries, follows over a restart and stores a file",
            .enabled(if: SwiftApps.swift != nil, "swift is not in PATH"))
        func example() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let programs = try await SwiftApps.programs()
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
                #expect(Set(Self.manual.keys) == Set(SwiftApps.manual.keys))
                for (name, text) in Self.manual {
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
