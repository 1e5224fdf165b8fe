import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// The examples that the manual gives to people who feed the agent: each is taken out of it and run as it stands.
    @Suite("ClientExamples")
    struct ClientExampleTests {
        struct Language: Sendable, CustomTestStringConvertible {
            /// Name of the language, as in the fence of the manual.
            var name: String
            var file: String
            /// The commands that run it. The file's path follows each of them, or replaces `FILE`.
            var commands: [[String]]
            var program: String

            var testDescription: String { name }
        }

        static let languages = [
            Language(name: "sh", file: "example.sh", commands: [["sh", "FILE"]], program: "curl"),
            Language(name: "python", file: "example.py", commands: [["python3", "FILE"]], program: "python3"),
            Language(name: "js", file: "example.js", commands: [["node", "FILE"]], program: "node"),
            Language(name: "go", file: "example.go", commands: [["go", "run", "FILE"]], program: "go"),
            Language(name: "c", file: "example.c", commands: [["cc", "FILE", "-o", "OUTPUT", "-lcurl"], ["OUTPUT"]], program: "cc"),
        ]

        private static func path(of program: String) -> String? {
            (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { "\($0)/\(program)" }
                .first { access($0, X_OK) == 0 }
        }

        private static func example(_ language: String) throws -> String {
            let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../deploy/docs/apps.md")
            let text = try String(contentsOf: page, encoding: .utf8)
            let blocks = text.components(separatedBy: "\n```\(language)\n").dropFirst().compactMap {
                $0.components(separatedBy: "\n```").first
            }
            return try #require(blocks.first { $0.contains("inspection-7781-\(language)") }, "the manual has no example in \(language)")
        }

        @Test("The manual's examples for apps work as printed, twice, and take effect once", arguments: languages)
        func runs(_ language: Language) async throws {
            let source = try Self.example(language.name)
            guard Self.path(of: language.program) != nil else {
                print("skipped: \(language.program) is not installed, so the example in \(language.name) is not run")
                return
            }
            try await Stand.with { stand in
                let folder = stand.folder
                let file = "\(folder)/\(language.file)"
                try source.write(toFile: file, atomically: false, encoding: .utf8)
                for _ in 0..<2 {
                    for command in language.commands {
                        var words = command.map { $0 == "FILE" ? file : $0 == "OUTPUT" ? "\(folder)/example" : $0 }
                        if !words[0].hasPrefix("/") { words[0] = try #require(Self.path(of: words[0])) }
                        let output = try await Child.run(
                            words,
                            environment: [
                                "AGENTD_SOCKET": stand.socketPath, "HOME": folder, "GOCACHE": "\(folder)/go", "GOFLAGS": "-mod=mod",
                            ], in: folder)
                        #expect(output.status == 0, "\(words): \(output.text) \(output.talk)")
                    }
                }
                let settled = try await stand.settle()
                #expect(settled.outbox.enqueued == 1)
                let records = try await stand.hubRecords("work_orders")
                #expect(records.map(\.id) == ["wo-\(language.name)"])
                #expect(records.first?.data["status"]?.text == "done")
            }
        }

        @Test("There is an example in each of the five languages")
        func complete() throws {
            for language in Self.languages { #expect(try !Self.example(language.name).isEmpty) }
        }
    }

    @Suite("Enrolment")
    struct EnrolmentRunTests {
        @Test("A device with a one-time token comes in by itself, keeps its own, and the one-time token is worth nothing then")
        func enrols() async throws {
            try await Stand.with(agent: false) { stand in
                let made = try await Child.run(
                    [Programs.agenthub, "token", "enrol", Stand.device, "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(made.status == 0, "\(made.talk)")
                let token = made.text.trimmingCharacters(in: .newlines)
                #expect(token.hasPrefix("ese_"))
                #expect(
                    FileManager.default.createFile(
                        atPath: "\(stand.folder)/token", contents: Data(made.text.utf8),
                        attributes: [.posixPermissions: NSNumber(value: 0o600)]))
                try await stand.startAgent()
                let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": 1])
                _ = try await stand.client.enqueue(reading)
                _ = try await stand.settle()
                let kept = try String(contentsOfFile: "\(stand.folder)/agent/token", encoding: .utf8)
                #expect(kept.contains("est_"))
                let mode = try FileManager.default.attributesOfItem(atPath: "\(stand.folder)/agent/token")[.posixPermissions] as? NSNumber
                #expect(mode == NSNumber(value: 0o600))
                // A restart shows the kept one.
                await stand.stopAgent()
                try await stand.startAgent()
                _ = try await stand.client.enqueue(reading)
                _ = try await stand.settle()
                let list = try await Child.run(
                    [Programs.agenthub, "token", "list", "--data", "\(stand.folder)/hub", "--json"], in: stand.folder)
                let entries = try #require(try JSONReader.read(list.text).array)
                #expect(entries.count == 2)
                #expect(entries.contains { $0.object?["use"] == "enrolment" && $0.object?["ends_at"] != .null })
                for log in ["agent.log", "hub.log"] {
                    let text = try String(contentsOfFile: "\(stand.folder)/\(log)", encoding: .utf8)
                    #expect(!text.contains(token) && !text.contains("est_"), "a token is in \(log)")
                }
            }
        }
    }
}
