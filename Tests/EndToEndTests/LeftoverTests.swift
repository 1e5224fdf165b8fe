import Foundation
import Testing

extension EndToEnd {
    /// Temporary files of writes that a crash or a power loss has cut off.
    @Suite("Leftovers of interrupted writes")
    struct LeftoverTests {
        private static let ending = ".0123456789abcdef.tmp"

        @Test("A start of the agent removes those of its state folder, and nothing else")
        func agent() async throws {
            try await Stand.with { stand in
                _ = await stand.stopAgent()
                let folder = "\(stand.folder)/agent"
                let ours = ["identity.json", "starts", "token", "trial.json", "proven.yaml", "last-good.yaml"].map {
                    ".\($0)\(Self.ending)"
                }
                let others = ["identity.json\(Self.ending)", ".identity.json\(Self.ending)~", ".0123456789abcdef.tmp-kept"]
                for name in ours + others { try "x".write(toFile: "\(folder)/\(name)", atomically: false, encoding: .utf8) }
                try await stand.startAgent()
                let names = Set(try FileManager.default.contentsOfDirectory(atPath: folder))
                #expect(names.intersection(ours) == [])
                #expect(names.isSuperset(of: others))
            }
        }

        @Test("A start of the hub removes those of its mark, and a command for tokens those of the tokens")
        func hub() async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                let folder = "\(stand.folder)/hub"
                _ = try await stand.token(for: "first")
                let (mark, tokens) = (".mark\(Self.ending)", ".tokens\(Self.ending)")
                for name in [mark, tokens] { try "x".write(toFile: "\(folder)/\(name)", atomically: false, encoding: .utf8) }
                func names() throws -> Set<String> { Set(try FileManager.default.contentsOfDirectory(atPath: folder)) }
                _ = try await stand.token(for: "second")
                #expect(try names().intersection([mark, tokens]) == [mark])
                try await stand.startHub()
                #expect(try names().intersection([mark, tokens]) == [])
            }
        }
    }
}
