import SyncCore
import Testing

@Suite("Plain text") struct PlainTextTests {
    @Test(
        "Numbers have commas",
        arguments: [
            (0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567"), (-1_000, "-1,000"),
            (.min, "-9,223,372,036,854,775,808"),
        ] as [(Int64, String)])
    func counts(_ value: Int64, _ text: String) { #expect(PlainText.count(value) == text) }

    @Test("Only the number one has the singular")
    func counted() {
        #expect(PlainText.count(1, "record") == "1 record")
        #expect(PlainText.count(0, "record") == "0 records")
        #expect(PlainText.count(8_123, "reply", "replies") == "8,123 replies")
    }

    @Test("Today has no date, another day has one; UTC is marked")
    func clocks() throws {
        func time(_ text: String) throws -> Timestamp { try #require(RFC3339.timestamp(text)) }
        let now = try time("2026-11-20T23:30:00Z")
        #expect(try PlainText.clock(time("2026-11-20T21:04:05Z"), now: now, offset: .zero) == "21:04:05Z")
        #expect(try PlainText.clock(time("2026-11-21T00:04:05Z"), now: now, offset: .zero) == "2026-11-21 00:04Z")
        #expect(try PlainText.clock(time("2026-11-21T00:04:05Z"), now: now, offset: .seconds(3_600)) == "01:04:05")
    }

    @Test(
        "Outside text can neither move the cursor nor turn the line around",
        arguments: [
            "a\u{1B}[31mb", "a\nb", "a\rb", "a\u{7F}b", "a\u{9B}b", "a\u{202E}b", "a\u{2066}b", "a\u{2028}b", "a\u{0}b",
        ])
    func safe(_ text: String) {
        let shown = PlainText.safe(text)
        #expect(
            shown.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && $0.value != 0x7F && !(0x80..<0xA0).contains($0.value)
                    && !(0x2028...0x2069).contains($0.value)
            })
        #expect(shown.hasPrefix("a?"))
    }

    @Test("Ordinary text stays as it is", arguments: ["audits/a-9", "Überprüfung – fertig", "日本", "e\u{301}"])
    func keeps(_ text: String) { #expect(PlainText.safe(text).unicodeScalars.elementsEqual(text.unicodeScalars)) }

    @Test(
        "Columns count what a terminal shows",
        arguments: [("abc", 3), ("日本", 4), ("e\u{301}", 1), ("é", 1), ("👍", 2), ("", 0)])
    func columns(_ text: String, _ count: Int) { #expect(PlainText.columns(text) == count) }

    @Test(
        "Clipped text fits, and says that it was cut",
        arguments: [
            ("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("日本語", 4, "日…"), ("日本語", 5, "日本…"), ("abc", 1, "…"),
            ("abc", 0, ""),
        ])
    func clips(_ text: String, _ width: Int, _ clipped: String) { #expect(PlainText.clip(text, to: width) == clipped) }

    @Test("Wrapped text breaks at spaces where it can")
    func wraps() {
        #expect(PlainText.wrap("one two three", to: 7, lines: 3) == ["one two", "three"])
        #expect(PlainText.wrap("one two three", to: 8, lines: 3) == ["one two", "three"])
        #expect(PlainText.wrap("one two three", to: 7, lines: 1) == ["one tw…"])
        #expect(PlainText.wrap("abcdefghij", to: 4, lines: 5) == ["abcd", "efgh", "ij"])
        #expect(PlainText.wrap("日本語", to: 1, lines: 9) == ["日", "本", "語"])
        #expect(PlainText.wrap("one two  ", to: 7, lines: 3) == ["one two"])
    }

    @Test("Every wrapped line fits and nothing but spaces is lost, for any text and width")
    func wrapProperty() {
        var random = SeededRandom(seed: 13)
        let alphabet = Array("ab  日e\u{301}".unicodeScalars)
        for _ in 0..<2_000 {
            var text = ""
            for _ in 0..<Int.random(in: 0..<40, using: &random) {
                text.unicodeScalars.append(alphabet.randomElement(using: &random) ?? "a")
            }
            let width = Int.random(in: 2..<12, using: &random)
            let lines = PlainText.wrap(text, to: width, lines: 100)
            #expect(lines.allSatisfy { PlainText.columns($0) <= width }, "\(text.debugDescription) in \(width)")
            func letters(_ text: String) -> [Unicode.Scalar] { text.unicodeScalars.filter { $0 != " " } }
            #expect(letters(lines.joined()) == letters(text))
        }
    }

    @Test("A table leaves out what can be done without before it cuts, and shows nothing that moves a terminal")
    func table() {
        var table = TextTable([
            .init("NAME", widthMin: 4), .init("N", .right), .init("KIND", dispensable: 1), .init("MORE", dispensable: 2),
        ])
        table.add(["a-long-name", "7", "x\u{1B}[2J", "more"])
        #expect(table.lines(width: 80) == ["NAME         N  KIND   MORE", "a-long-name  7  x?[2J  more"])
        #expect(table.lines(width: 25) == ["NAME         N  KIND", "a-long-name  7  x?[2J"])
        #expect(table.lines(width: 10) == ["NAME     N", "a-long…  7"])
    }
}
