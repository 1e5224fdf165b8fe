import SyncCore
import Testing

@Suite("Names, ids and text for people")
struct IdentifierTests {
    @Test(
        "A name is 1 to 64 characters out of A-Z a-z 0-9 . _ : -",
        arguments: ["a", "A-17", "0199c3f2-a1b4-7000-8000-9f2c11ab0000", "work_orders", "urn:x:1.2", String(repeating: "z", count: 64)])
    func names(_ text: String) {
        #expect(RecordID(text)?.text == text)
    }

    @Test(
        "Anything else is no name",
        arguments: [
            "", " ", "a b", "a/b", "../a", "a\0", "a\n", "é", "e\u{301}", "\u{FF41}", "a%20", "{a}", String(repeating: "z", count: 65),
        ])
    func noNames(_ text: String) {
        #expect(RecordID(text) == nil)
        #expect(EntityName(text) == nil)
    }

    @Test("Names sort by their bytes, records by entity and then by id")
    func order() throws {
        let names = try ["A", "B", "a", "a-", "a.", "aa", "b"].map { try #require(RecordID($0)) }
        #expect(names.shuffled().sorted() == names)
        let first = RecordName(EntityName(trusted: "a"), RecordID(trusted: "z"))
        let second = RecordName(EntityName(trusted: "b"), RecordID(trusted: "a"))
        #expect(first < second)
        #expect(first.description == "a/z")
    }

    @Test("A UUID of version 7 has its form, and sorts by the time it was made")
    func version7() throws {
        var random = SeededRandom(seed: 4)
        var last = ""
        for milliseconds in stride(from: Int64(0), to: 0xFFFF_FFFF_FFFF, by: 0x3FF_FFFF_FFF1) {
            let text = UUIDv7.make(at: Timestamp(milliseconds: milliseconds), using: &random)
            let bytes = Array(text.utf8)
            #expect(bytes.count == 36)
            #expect([8, 13, 18, 23].allSatisfy { bytes[$0] == UInt8(ascii: "-") })
            #expect(bytes[14] == UInt8(ascii: "7"))
            #expect("89ab".utf8.contains(bytes[19]))
            let time = text.prefix(13).filter { $0 != "-" }
            #expect(Int64(time, radix: 16) == milliseconds)
            #expect(last.utf8.lexicographicallyPrecedes(text.utf8))
            #expect(MutationKey(text) != nil)
            last = text
        }
    }

    @Test("A thousand UUIDs of one millisecond are all different, and a clock before 1970 is no obstacle")
    func unique() {
        var random = SeededRandom(seed: 4)
        let made = Set((0..<1_000).map { _ in UUIDv7.make(at: Timestamp(milliseconds: -1), using: &random) })
        #expect(made.count == 1_000)
        #expect(made.allSatisfy { $0.hasPrefix("00000000-0000-7") })
    }

    @Test(
        "Characters that could forge a line or hide text are shown as escapes",
        arguments: [
            ("plain é 😀", "plain é 😀"),
            ("a\nb\r\0", "a\\u{a}b\\u{d}\\u{0}"),
            ("\u{1B}[31mred", "\\u{1b}[31mred"),
            ("\u{7F}\u{85}\u{9F}", "\\u{7f}\\u{85}\\u{9f}"),
            ("abc\u{202E}cba\u{2066}\u{2028}\u{FEFF}\u{200F}", "abc\\u{202e}cba\\u{2066}\\u{2028}\\u{feff}\\u{200f}"),
        ])
    func printable(_ text: String, _ shown: String) {
        #expect(Printable.text(text) == shown)
    }

    @Test("Long text is cut, between scalars, and says so")
    func cut() {
        #expect(Printable.text("abcdef", max: 6) == "abcdef")
        #expect(Printable.text("abcdefg", max: 6) == "abcdef…")
        #expect(Printable.text(String(repeating: "é", count: 10_000)).unicodeScalars.count == 201)
    }

    @Test("The words of states and priorities are read back, and only they")
    func words() {
        for state in MutationState.allCases { #expect(MutationState(name: state.name) == state) }
        for priority in Priority.allCases { #expect(Priority(name: priority.name) == priority) }
        #expect(MutationState(name: "") == nil)
        #expect(Priority(name: "Critical") == nil)
        #expect(
            Set(MutationState.allCases.filter(\.isTerminal).map(\.name)) == [
                "done", "resolved", "discarded", "coalesced", "cancelled", "superseded", "expired",
            ])
    }
}
