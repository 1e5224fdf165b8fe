import SyncYAML
import Testing

struct YAMLDocumentTests {
    struct Refused: Sendable {
        var text: String
        var messages: [String]

        init(_ text: String, _ messages: String...) {
            self.text = text
            self.messages = messages
        }
    }

    @Test(
        "A text that is not plain YAML is refused at its place, in words",
        arguments: [
            Refused("", "f.yaml:1:1: the file is empty"),
            Refused(
                "a: 1\nb: [1, 2\n",
                "f.yaml:3:1: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence that starts in line 2"
            ),
            Refused(
                "a: \"1\n",
                "f.yaml:2:1: not valid YAML: found unexpected end of stream while scanning a quoted scalar that starts in line 1"
            ),
            Refused(
                "a:\n\tb: 1\n",
                "f.yaml:2:1: not valid YAML: found character that cannot start any token while scanning for the next token; indent with spaces, not with tabs"
            ),
            Refused("a: 1\n b: 2\n", "f.yaml:2:3: not valid YAML: mapping values are not allowed in this context"),
            Refused(
                "a: 1\nb\n",
                "f.yaml:3:1: not valid YAML: could not find expected ':' while scanning a simple key that starts in line 2"
            ),
            Refused("a: 1\u{0}\n", "f.yaml:1:5: a NUL byte; the file is damaged"),
            Refused("ä: 1\nb: \u{7}\n", "f.yaml:2:4: the invisible character U+7"),
            Refused("a: 1\r\n\rb: \u{7}\r\n", "f.yaml:3:4: the invisible character U+7"),
            Refused(
                "a: [1",
                "f.yaml:1:6: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence that starts in line 1"
            ),
            Refused("a: x\u{2028}b: 1\n", "f.yaml:1:5: the invisible character U+2028"),
            Refused("a: \u{feff}\n", "f.yaml:1:4: the invisible character U+FEFF"),
            Refused(
                "a: &x 1\nb: *x\n", "f.yaml:1:4: an anchor (&), expected a value without one",
                "f.yaml:2:4: an alias (*), expected the value written out"),
            Refused("a: !!str 1\n", "f.yaml:1:4: a tag (!), expected a value without one"),
            Refused("a: !x {b: 1}\n", "f.yaml:1:4: a tag (!), expected a value without one"),
            Refused(
                "a:\n  <<: {b: 1}\n", "f.yaml:2:3: a merge key (<<), expected a key of at most 256 bytes in one line"),
            Refused("%YAML 1.1\n---\na: 1\n", "f.yaml:1:1: a directive, expected a file without % lines"),
            Refused("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document, expected one document in a file"),
            Refused("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: the key a is given twice, expected it only in line 1"),
            Refused("x: {a: 1, \"a\": 2}\n", "f.yaml:1:11: the key a is given twice, expected it only in line 1"),
            Refused("? [a]\n: 1\n", "f.yaml:1:3: a list as a key, expected a key of at most 256 bytes in one line"),
            Refused("{}: 1\n", "f.yaml:1:1: a mapping as a key, expected a key of at most 256 bytes in one line"),
            Refused("\"\": 1\n", "f.yaml:1:1: a value without a key, expected a key of at most 256 bytes in one line"),
            Refused("\"a\\tb\": 1\n", "f.yaml:1:1: the key a\\tb, expected a key of at most 256 bytes in one line"),
            Refused(
                String(repeating: "[", count: 17) + String(repeating: "]", count: 17),
                "f.yaml:1:17: nested deeper than 16 levels"),
        ])
    func refusals(_ example: Refused) {
        let document = YAMLDocument(Array(example.text.utf8), file: "f.yaml")
        #expect(document.errors.map(\.description) == example.messages)
    }

    @Test(
        "Bytes that are not UTF-8 are refused at their place",
        arguments: [
            ([0x61, 0x3A, 0x20, 0xFF, 0x0A], "f.yaml:1:4: not UTF-8"),
            ([0x61, 0x3A, 0x0A, 0xC3], "f.yaml:2:1: not UTF-8"),
            // A surrogate, and a slash in two bytes: both have a shape that a lazy decoder takes.
            ([0x61, 0x3A, 0x20, 0xED, 0xA0, 0x80, 0x0A], "f.yaml:1:4: not UTF-8"),
            ([0x61, 0x3A, 0x20, 0xC0, 0xAF, 0x0A], "f.yaml:1:4: not UTF-8"),
            // UTF-16.
            ([0xFF, 0xFE, 0x61, 0x00], "f.yaml:1:1: not UTF-8"),
        ] as [([UInt8], String)])
    func notUTF8(bytes: [UInt8], message: String) {
        let document = YAMLDocument(bytes, file: "f.yaml")
        #expect(document.errors.map(\.description) == [message])
        #expect(document.root == nil)
    }

    @Test("A file above one megabyte and a file of endless values are refused")
    func tooLarge() {
        let long = YAMLDocument([UInt8](repeating: UInt8(ascii: "#"), count: 1_000_001), file: "f.yaml")
        #expect(long.errors.map(\.description) == ["f.yaml:1:1: the file is too large, expected at most 1000000 bytes"])
        let longest = YAMLDocument([UInt8](repeating: UInt8(ascii: "#"), count: 1_000_000), file: "f.yaml")
        #expect(longest.errors.isEmpty && longest.root != nil)
        let many = YAMLDocument(Array("[".utf8) + Array(String(repeating: "1,", count: 400_000).utf8), file: "f.yaml")
        #expect(many.errors.map(\.problem) == ["more than 50000 values"])
    }

    @Test("Every node and key knows line and column, counted in characters from 1")
    func positions() throws {
        let text = "# note\r\nhub:\r\n  url: \"ö\"   # c\r\n  \"list\": [ä, {b: 2}]\r\n"
        let root = try #require(YAMLDocument(Array(text.utf8), file: "f").root)
        func place(_ node: YAMLNode?) -> [Int]? { node.map { [$0.position.line, $0.position.column] } }
        #expect(place(root["hub"]?["url"]) == [3, 8])
        #expect(root["hub"]?.members?.map { [$0.position.line, $0.position.column] } == [[3, 3], [4, 3]])
        guard case .sequence(let elements)? = root["hub"]?["list"]?.content else {
            Issue.record("no list")
            return
        }
        #expect(elements.map { [$0.position.line, $0.position.column] } == [[4, 12], [4, 15]])
        #expect(place(elements[1]["b"]) == [4, 19])
    }

    @Test(
        "Scalars stay the text that was written, whatever YAML would make of them",
        arguments: [
            ("no", "no", true), ("off", "off", true), ("0660", "0660", true), ("22:00", "22:00", true),
            ("1e3", "1e3", true),
            ("'it''s'", "it's", false), ("\"a\\u00e4\"", "aä", false), ("\"5\"", "5", false),
            ("2026-11-20", "2026-11-20", true),
            ("a # b", "a", true), ("a#b", "a#b", true), ("|\n  x\n  y\n", "x\ny\n", false),
            (">\n  x\n  y\n", "x y\n", false),
        ])
    func scalars(source: String, text: String, isPlain: Bool) {
        let root = YAMLDocument(Array(("k: " + source + "\n").utf8), file: "f").root
        #expect(root?["k"]?.content == .scalar(text, isPlain: isPlain))
    }

    @Test(
        "Nothing is nothing only without quotes",
        arguments: [
            ("", true), ("~", true), ("null", true), ("Null", true), ("NULL", true), ("\"\"", false), ("'null'", false),
            ("nil", false),
        ])
    func nulls(source: String, isNull: Bool) {
        let root = YAMLDocument(Array(("k: " + source + "\n").utf8), file: "f").root
        #expect(root?["k"]?.isNull == isNull)
    }

    @Test(
        "Comments alone are an empty mapping, and a byte order mark does not shift the columns",
        arguments: [
            "# nothing\n", "\n\n", "---\n", "--- # x\n...\n",
        ])
    func emptyDocuments(text: String) {
        for bytes in [Array(text.utf8), [0xEF, 0xBB, 0xBF] + Array(text.utf8)] {
            let document = YAMLDocument(bytes, file: "f")
            #expect(document.errors.isEmpty)
            #expect(document.root.map { $0.isNull || $0.members == [] } == true)
        }
        let marked = YAMLDocument([0xEF, 0xBB, 0xBF] + Array("a: b\n".utf8), file: "f")
        #expect(marked.root?["a"]?.position.column == 4)
    }

    @Test("Two spellings of one accent are two keys")
    func keysAreBytes() {
        let root = YAMLDocument(Array("\u{e9}: 1\ne\u{301}: 2\n".utf8), file: "f").root
        #expect(root?.members?.count == 2)
        #expect(root?["e\u{301}"]?.content == .scalar("2", isPlain: true))
    }

    @Test("Laying one file over another joins mappings, replaces the rest, and keeps what is left empty")
    func overlay() throws {
        func tree(_ text: String, _ file: String) throws -> YAMLNode {
            try #require(YAMLDocument(Array(text.utf8), file: file).root)
        }
        let base = try tree("a: {x: 1, y: [1, 2]}\nb: 2\nc: [3]\nd: 4\n", "1")
        let other = try tree("a: {y: [9], z: 3}\nb: {n: 1}\nc:\ne: 5\n", "2")
        let result = base.overlaid(by: other)
        #expect(result.members?.map(\.key) == ["a", "b", "c", "d", "e"])
        #expect(result["a"]?["x"]?.position.file == "1")
        #expect(result["a"]?["y"] == other["a"]?["y"])
        #expect(result["a"]?["z"]?.position.file == "2")
        #expect(result["b"] == other["b"])
        #expect(result["c"] == base["c"])
        #expect(result["d"] == base["d"])
        #expect(result["e"] == other["e"])
    }

    @Test("Any bytes are read or refused, and every place that is named lies in the file", arguments: 1...4)
    func anyBytes(seed: UInt64) {
        var random = SeededRandom(state: seed)
        let pieces = [
            "a", "b: ", "- ", "{", "}", "[", "]", ", ", ": ", "? ", "| ", "> ", "'", "\"", "\\", "#", " ", "\n", "\n  ",
            "\r\n", "\t", "&x ", "*x",
            "!t ", "%", "---\n", "...\n", "~", "ä", "\u{2029}", "\u{feff}", "\u{1f600}", "<<", "\\x", "\\u12", "0",
        ].map { Array($0.utf8) }
        for round in 0..<2_000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 1...40, using: &random) { bytes += pieces.randomElement(using: &random) ?? [] }
            if Int.random(in: 0..<4, using: &random) == 0 {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            let document = YAMLDocument(bytes, file: "f")
            #expect(document.root != nil || !document.errors.isEmpty)
            let lines = lineLengths(bytes)
            for error in document.errors {
                let isInside =
                    error.line >= 1 && error.line <= lines.count && error.column >= 1
                    && error.column <= lines[error.line - 1] + 1
                #expect(isInside, "seed \(seed), round \(round): \(error)")
            }
        }
    }

    private func lineLengths(_ bytes: [UInt8]) -> [Int] {
        var lines = [0]
        var last: Unicode.Scalar?
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            if scalar == "\r" || (scalar == "\n" && last != "\r") {
                lines.append(0)
            } else if scalar != "\n" {
                lines[lines.count - 1] += 1
            }
            last = scalar
        }
        return lines
    }

    /// xorshift64*: the seed alone decides, so a failure is repeated by its seed.
    private struct SeededRandom: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state ^= state >> 12
            state ^= state << 25
            state ^= state >> 27
            return state &* 0x2545_F491_4F6C_DD1D
        }
    }
}
