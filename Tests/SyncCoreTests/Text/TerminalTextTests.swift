import SyncCore
import Testing

@Suite("Text on a terminal")
struct TerminalTextTests {
    @Test(
        "Controls and format characters are escaped as JSON does it, everything else stays",
        arguments: [
            ("plain, ä, 漢, 😀", "plain, ä, 漢, 😀"), ("a\nb\tc", "a\nb\tc"), ("\u{0}\u{7}\u{8}\r", #"\u0000\u0007\u0008\u000d"#),
            ("\u{7F}", #"\u007f"#),
            ("\u{80}\u{9B}31m\u{9F}", #"\u0080\u009b31m\u009f"#), ("\u{202A}\u{202E}\u{2066}\u{2069}", #"\u202a\u202e\u2066\u2069"#),
            ("\u{2028}\u{2029}", #"\u2028\u2029"#), ("\u{200B}\u{200F}\u{2060}\u{FEFF}\u{AD}", #"\u200b\u200f\u2060\ufeff\u00ad"#),
            ("\u{E0041}", #"\udb40\udc41"#),
            ("\u{1B}]0;title\u{7}", #"\u001b]0;title\u0007"#), ("\u{1B}[2J", #"\u001b[2J"#),
            ("\u{1B}[1;31mred\u{1B}[0m", "\u{1B}[1;31mred\u{1B}[0m"),
            ("\u{1B}", #"\u001b"#), ("\u{1B}[", #"\u001b["#), ("\u{1B}[1", #"\u001b[1"#), ("\u{1B}[1;1;1;1;1;1m", #"\u001b[1;1;1;1;1;1m"#),
            ("", ""),
        ])
    func escaped(_ text: String, _ shown: String) {
        #expect(TerminalText.escaped(text) == shown)
        #expect(TerminalText.escaped(Array(text.utf8)) == Array(shown.utf8))
    }

    @Test("JSON stays the same JSON")
    func json() throws {
        var text = ""
        for value in (UInt32(1)...0x2FFF).map({ $0 }) + [0xFEFF, 0xFFF9, 0xE0001, 0xE007F] {
            Unicode.Scalar(value).map { text.unicodeScalars.append($0) }
        }
        let document = JSON.object(["text": .string(text)])
        let shown = TerminalText.escaped(document.json)
        #expect(try JSONReader.read(shown) == document)
        #expect(!shown.unicodeScalars.contains(where: TerminalText.isUnsafe))
    }

    @Test("Bytes that are not UTF-8 become U+FFFD, so that no byte of C1 stands alone")
    func bytesThatAreNotTextBecomeReplacements() {
        #expect(TerminalText.escaped([0x61, 0x9B, 0x33, 0x31, 0x6D]) == Array("a\u{FFFD}31m".utf8))
    }

    @Test("One line of a screen holds none of them, and no end of a line")
    func safe() {
        #expect(PlainText.safe("a\nb\u{200B}\u{9B}\u{FEFF}\u{202E}c") == "a?b????c")
    }
}
