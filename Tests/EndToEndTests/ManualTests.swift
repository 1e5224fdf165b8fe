import Foundation
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

        @Test(
            "Every command of the pages that lead through something prints what the page shows",
            .enabled(if: python != nil && path(of: "jq") != nil && path(of: "curl") != nil),
            arguments: ["first-hour", "first-form", "two-customers"])
        func walks(_ page: String) async throws {
            let output = try await Child.run(
                [Self.python ?? "", Self.root + "/deploy/lib/try-page", Self.root + "/deploy/docs/\(page).md", Self.binaries],
                in: NSTemporaryDirectory())
            #expect(output.status == 0, "\(output.text + output.talk)")
            #expect(output.text.contains("no difference"))
        }

        @Test("The clients for apps work with a real agent: package and examples", .enabled(if: python != nil))
        func clients() async throws {
            let output = try await Child.run([Self.root + "/deploy/clients/test", Self.binaries], in: NSTemporaryDirectory())
            print(output.text)
            #expect(output.status == 0, "\(output.text + output.talk)")
            #expect(output.text.contains("passed    python-agent"))
        }
    }
}
