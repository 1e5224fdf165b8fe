import Agent
import SyncCore
import SyncYAML
import Testing

struct ConfigurationDamageTests {
    /// xorshift64*: the seed alone decides, so a failure is repeated by its seed.
    struct Random: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state ^= state >> 12
            state ^= state << 25
            state ^= state >> 27
            return state &* 0x2545_F491_4F6C_DD1D
        }
    }

    @Test(
        "A file with any bytes is read or refused, and each error points into it",
        arguments: 1...8)
    func anyDamage(seed: UInt64) throws {
        var random = Random(state: seed &* 0x9E37_79B9_7F4A_7C15)
        let hub = "hub: { url: https://hub.example.com }\n"
        let sources = try [
            ConfigurationMistakes.everyKey, hub + ConfigurationFixtures.projectFile("etc/entities.example.yaml"),
            ConfigurationFixtures.projectFile("etc/agentd.yaml").replacing("hub:\n", with: hub, maxReplacements: 1),
        ].map { Array($0.utf8) }
        var read = 0, refused = 0
        for round in 0..<400 {
            var bytes = sources[round % sources.count]
            for _ in 0..<Int.random(in: 1...4, using: &random) { damage(&bytes, &random) }
            let file = ConfigurationFile(name: "f", contents: .success(bytes))
            do throws(ConfigurationErrors) {
                let loaded = try ConfigurationLoader.read([file], accounts: ConfigurationFixtures.accounts)
                read += 1
                // A configuration that was read can be written and read again.
                let kept = ConfigurationFile(name: "k", text: LastGoodConfiguration.text(loaded.configuration))
                let again = try ConfigurationLoader.read([kept], accounts: ConfigurationFixtures.accounts)
                #expect(again.configuration == loaded.configuration, "seed \(seed), round \(round)")
            } catch {
                refused += 1
                for one in error.errors where !isInside(one, bytes) {
                    Issue.record("seed \(seed), round \(round): \(one)")
                }
            }
        }
        #expect(read > 0 && refused > read)
    }

    /// One change as disks, editors and people make them.
    private func damage(_ bytes: inout [UInt8], _ random: inout Random) {
        guard !bytes.isEmpty else { return }
        let place = Int.random(in: 0..<bytes.count, using: &random)
        let length = min(Int.random(in: 1...40, using: &random), bytes.count - place)
        switch Int.random(in: 0..<8, using: &random) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: bytes.removeSubrange(place..<(place + length))
        case 3:
            bytes.insert(
                contentsOf: bytes[place..<(place + length)], at: Int.random(in: 0...bytes.count, using: &random))
        case 4: bytes.removeSubrange(place...)
        case 5: for index in place..<(place + length) { bytes[index] = 0 }
        case 6: bytes.insert(Array("{}[]:,#&*!|>'\"%@`-?\t\n 0".utf8).randomElement(using: &random) ?? 0, at: place)
        default:
            bytes.insert(
                contentsOf: Array(
                    ["99999999999GB", "-1", "\u{e9}", "<<", "null", "- - -"].randomElement(using: &random)?.utf8
                        ?? "".utf8), at: place)
        }
    }

    /// Line 1 to the line after the last, column 1 to the one after the last of the line.
    private func isInside(_ error: ConfigurationError, _ bytes: [UInt8]) -> Bool {
        guard error.file == "f", error.line >= 1, error.column >= 1, !error.description.contains("\n") else {
            return false
        }
        let text = String(decoding: bytes, as: UTF8.self).unicodeScalars
        var lines: [Int] = [0]
        var last: Unicode.Scalar?
        for scalar in text {
            if scalar == "\r" || (scalar == "\n" && last != "\r") {
                lines.append(0)
            } else if scalar != "\n" {
                lines[lines.count - 1] += 1
            }
            last = scalar
        }
        return error.line <= lines.count && error.column <= lines[error.line - 1] + 1
    }

    @Test("A file made to be slow is refused like any other, with short messages", arguments: SlowFile.allCases)
    func slowFiles(file: SlowFile) {
        let errors = ConfigurationFixtures.errors(file.text)
        #expect(!errors.isEmpty)
        #expect(errors.allSatisfy { $0.utf8.count < 1_000 })
    }

    /// Each is just below the limit of one megabyte, and took a parser somewhere minutes or its stack.
    enum SlowFile: CaseIterable, Sendable {
        case openBrackets, openBraces, dashes, sameKey, questions, quotes, escapes, oneWord, unknownKeys, emptyElements,
            staircase
        case comments, longText, anchors

        var text: String {
            switch self {
            case .openBrackets: String(repeating: "[", count: 900_000)
            case .openBraces: String(repeating: "{a: ", count: 200_000)
            case .dashes: String(repeating: "- ", count: 400_000)
            case .sameKey: String(repeating: "a: 1\n", count: 190_000)
            case .questions: String(repeating: "? ", count: 400_000)
            case .quotes: String(repeating: "'", count: 999_999)
            case .escapes: "entities:\n" + String(repeating: "  \"\\x41\"", count: 100_000)
            case .oneWord: String(repeating: "x", count: 999_999)
            case .unknownKeys: (0..<20_000).map { "unknown_key_number_\($0): 1\n" }.joined()
            case .emptyElements: "links: [" + String(repeating: "{},", count: 40_000) + "]"
            case .staircase: (0..<400).map { String(repeating: " ", count: $0) + "a:\n" }.joined()
            case .comments: String(repeating: "#\n", count: 499_999)
            case .longText: "hub: {url: \"" + String(repeating: "\\u00e4", count: 150_000) + "\"}"
            case .anchors: String(repeating: "&a ", count: 300_000)
            }
        }
    }
}
