import Foundation
import PostgresStand
import Testing

extension EndToEnd {
    /// The manual and the clients for apps, compared with the programs.
    @Suite("Manual and clients")
    struct ManualTests {
        private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
            .standardizedFileURL.path
        private static let binaries = URL(fileURLWithPath: Programs.agentd).deletingLastPathComponent().path
        private static let python = path(of: "python3")

        private static func path(of program: String) -> String? {
            (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { "\($0)/\(program)" }
                .first { FileManager.default.isExecutableFile(atPath: $0) }
        }

        @Test("The README is short, links of the manual lead somewhere, and no command in it is unknown", .enabled(if: python != nil))
        func manual() async throws {
            let output = try await Child.run(
                [Self.python ?? "", Self.root + "/deploy/lib/check-docs", Self.root, Self.binaries], in: NSTemporaryDirectory())
            #expect(output.status == 0, "\(output.text + output.talk)")
            #expect(output.text.contains("no mistake"))
        }

        /// The longest walks first.
        private static let pages = [
            "apps", "first-form", "files", "hub", "two-customers", "hub-on-postgresql", "first-hour", "conflicts", "troubleshooting",
            "queries", "operation", "rest-backend", "forms", "schemas", "links-and-cost", "scopes", "install", "security", "limits",
            "figures",
        ]

        @Test(
            "Every command of 20 pages prints what the page shows, unless the page gives a reason to leave it out",
            .enabled(if: python != nil && path(of: "jq") != nil && path(of: "curl") != nil))
        func walks() async throws {
            #expect(Self.pages.count == 20)
            // Walks wait for devices most of the time, so two at a time are quicker and need no more of the processor.
            try await withThrowingTaskGroup(of: Output.self) { group in
                var left = Self.pages.filter { $0 != "hub-on-postgresql" || PostgresServer.isInstalled }.makeIterator()
                for page in [left.next(), left.next()].compactMap(\.self) { group.addTask { try await Self.walk(page) } }
                while let output = try await group.next() {
                    #expect(output.status == 0, "\(output.text + output.talk)")
                    #expect(output.text.contains("no difference"))
                    if let page = left.next() { group.addTask { try await Self.walk(page) } }
                }
            }
        }

        private static func walk(_ page: String) async throws -> Output {
            try await Child.run(
                [python ?? "", root + "/deploy/lib/try-page", root + "/deploy/docs/\(page).md", binaries], in: NSTemporaryDirectory())
        }

        @Test(
            "A page that shows another output than that of its commands is found, and so is a command that fails",
            .enabled(if: python != nil),
            arguments: [
                (page: "```console\n$ seq 2\n1\n```", found: "--- it prints\n1\n2"),
                (page: "```console\n$ seq 2\n1\n…\n3\n```", found: "--- it prints\n1\n2"),
                (page: "```sh\ntrue\nfalse\ntrue\n```", found: "--- it fails: false"),
                (page: "<!-- try\nfails true\n-->", found: "--- it fails: \"$@\""),
                (page: "<!-- try file: one -->\n```yaml\na: 1\n```\n```console\n$ cat one\na: 2\n```", found: "--- it prints\na: 1"),
                (page: "<!-- try not: -->\n```sh\nfalse\n```", found: "a reason is missing"),
                (page: "<!-- try table -->\n| `agentctl why ID` |", found: "no replacement for ID"),
                (page: "<!-- try something -->", found: "no such comment"),
            ])
        func differences(page: String, found: String) async throws {
            let file = NSTemporaryDirectory() + "page-\(UUID().uuidString).md"
            try (page + "\n").write(toFile: file, atomically: true, encoding: .utf8)
            defer { unlink(file) }
            let output = try await Child.run(
                [Self.python ?? "", Self.root + "/deploy/lib/try-page", file, Self.binaries], in: NSTemporaryDirectory())
            #expect(output.status == 1)
            #expect((output.text + output.talk).contains(found), "\(output.text + output.talk)")
        }

        @Test("The clients for apps work with a real agent: package and examples", .enabled(if: python != nil))
        func clients() async throws {
            var environment: [String: String] = [:]
            if SwiftApps.swift != nil { environment["EDGE_SYNC_SWIFT_EXAMPLE"] = try await SwiftApps.programs() + "/example" }
            let output = try await Child.run(
                [Self.root + "/deploy/clients/test", Self.binaries], environment: environment, in: NSTemporaryDirectory())
            print(output.text)
            #expect(output.status == 0, "\(output.text + output.talk)")
            #expect(output.text.contains("passed    python-agent"))
        }
    }
}
