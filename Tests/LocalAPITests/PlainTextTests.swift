import LocalAPI
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

    @Test(
        "Sizes have one decimal below ten of their unit",
        arguments: [
            (0, "0 B"), (-5, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (1_049, "1.0 KB"), (1_050, "1.1 KB"),
            (9_949, "9.9 KB"), (9_950, "10 KB"), (18_211, "18 KB"), (999_499, "999 KB"), (999_500, "1.0 MB"),
            (4_610_000, "4.6 MB"), (12_000_000_000, "12 GB"), (.max, "9223372 TB"),
        ] as [(Int64, String)])
    func sizes(_ value: Int64, _ text: String) { #expect(PlainText.bytes(value) == text) }

    @Test(
        "Durations have two units at most and are never negative",
        arguments: [
            (Duration.zero, "0 s"), (.seconds(-5), "0 s"), (.seconds(119), "119 s"), (.seconds(120), "2 min"),
            (.seconds(7_199), "119 min"), (.seconds(7_200), "2 h 00 min"), (.seconds(11_040), "3 h 04 min"),
            (.seconds(172_800), "2 d 00 h"), (.seconds(274_320), "3 d 04 h"),
        ])
    func durations(_ duration: Duration, _ text: String) { #expect(PlainText.duration(duration) == text) }

    @Test("Today has no date, another day has one; UTC is marked")
    func clocks() {
        let now = time("2026-11-20T23:30:00Z")
        #expect(PlainText.clock(time("2026-11-20T21:04:05Z"), now: now, offset: .zero) == "21:04:05Z")
        #expect(PlainText.clock(time("2026-11-21T00:04:05Z"), now: now, offset: .zero) == "2026-11-21 00:04Z")
        #expect(PlainText.clock(time("2026-11-21T00:04:05Z"), now: now, offset: .seconds(3_600)) == "01:04:05")
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

    @Test("JSON for people has the numbers and strings as they were sent")
    func pretty() {
        #expect(
            exactly(#"{"a":1.10,"b":[],"c":{},"d":[1,{"e":"\u00e9"}]}"#).pretty == """
                {
                  "a": 1.10,
                  "b": [],
                  "c": {},
                  "d": [
                    1,
                    {
                      "e": "\\u00e9"
                    }
                  ]
                }
                """)
        #expect(exactly("null").pretty == "null")
    }

    @Test("At a glance, only the first part of a duration")
    func roughDuration() {
        #expect(
            [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map { PlainText.roughDuration(.seconds($0)) } == [
                "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d",
            ])
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
