import SyncCore
import Testing

@Suite("Patterns in linear time")
struct LinearPatternTests {
    struct Case: CustomTestStringConvertible, Sendable {
        var pattern: String
        var yes: [String]
        var no: [String]
        var testDescription: String { pattern }
    }

    @Test(
        "Texts that match, and texts that do not",
        arguments: [
            Case(pattern: "abc", yes: ["abc", "xabcx"], no: ["ab", "acb", ""]),
            Case(pattern: "^abc$", yes: ["abc"], no: ["xabc", "abcx", "abc\n"]),
            Case(pattern: "", yes: ["", "x"], no: []),
            Case(pattern: "^a.c$", yes: ["abc", "a\u{1F600}c"], no: ["ac", "a\nc"]),
            Case(pattern: "^[a-cx]+$", yes: ["abcx"], no: ["d", ""]),
            Case(pattern: "^[^0-9]$", yes: ["a", "-"], no: ["5"]),
            Case(pattern: "^[\\d-]+$", yes: ["12-3"], no: ["12a"]),
            Case(pattern: "^[]a]", yes: [], no: ["a"]),
            Case(pattern: "^\\d{3}-\\d{2,4}$", yes: ["123-45", "123-4567"], no: ["123-4", "12-45", "123-45678"]),
            Case(pattern: "^a{2,}$", yes: ["aa", "aaaa"], no: ["a"]),
            Case(pattern: "^a{0}$", yes: [""], no: ["a"]),
            Case(pattern: "^(ab|cd)*$", yes: ["", "abcdab"], no: ["abc"]),
            Case(pattern: "^(?:ab)?c$", yes: ["c", "abc"], no: ["ac"]),
            Case(pattern: "^a|b$", yes: ["ax", "xb"], no: ["xa x"]),
            Case(pattern: "^\\w+\\s\\S+$", yes: ["ab_1 -"], no: ["ab-1 x", "a  "]),
            Case(pattern: "^\\.\\$\\\\$", yes: [".$\\"], no: ["x$\\"]),
            Case(pattern: "^(a*)*$", yes: ["", "aaa"], no: ["b"]),
            Case(pattern: "^(|a)+$", yes: ["", "aa"], no: ["b"]),
            Case(pattern: "^\\p{L}+$", yes: ["Aé\u{5D0}"], no: ["a1", ""]),
            Case(pattern: "^[\\p{Lu}\\d-]+$", yes: ["A-1É"], no: ["a"]),
            Case(pattern: "^\\P{Letter}$", yes: ["1", "\u{661}"], no: ["a", "é"]),
            Case(pattern: "^\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00\\cA$", yes: ["éA\u{1F600}\u{1F600}\u{1}"], no: ["e"]),
            Case(pattern: "^\\s$", yes: ["\u{FEFF}", "\u{2003}", "\n"], no: ["x", "\u{200B}"]),
            Case(pattern: "^(^a|b)$", yes: ["a", "b"], no: ["ab"]),
            Case(pattern: "a$|^b", yes: ["xa", "bx"], no: ["ax", "xb"]),
            Case(pattern: "é", yes: ["caf\u{E9}"], no: ["cafe\u{301}"]),
        ])
    func matches(_ example: Case) throws {
        guard let pattern = LinearPattern(example.pattern) else {
            #expect(example.yes.isEmpty, "\(example.pattern) is not read")
            return
        }
        for text in example.yes { #expect(pattern.matches(text), "\(text)") }
        for text in example.no { #expect(!pattern.matches(text), "\(text)") }
    }

    @Test(
        "A text that is no pattern, or an unknown one, is refused",
        arguments: [
            "(", ")", "a)", "(a", "*", "+a", "a**", "a+?", "a{", "a{2", "a{3,2}", "a{x}", "[", "[a", "[]", "[b-a]", "\\", "\\1", "\\b",
            "\\p{Lx}", "\\p", "\\p{L", "\\u12", "\\uD800", "\\u{110000}", "\\x1", "\\c1", "(((((){999}){999}){999}){999}){999}",
            "(?=a)", "(?!a)", "(?<n>a)", "(?i)a", "a{1001}{1001}", "(a{90}){90}", "((a{50}){50}){50}", String(repeating: "a", count: 201),
            String(repeating: "(", count: 100) + String(repeating: ")", count: 100),
        ])
    func refused(_ source: String) {
        #expect(LinearPattern(source) == nil)
    }

    @Test(
        "Patterns that make other engines run for ever are answered at once", arguments: ["^(a+)+$", "^(a|aa)*$", "^(a|a?)+$", "^(.*)*x$"])
    func isLinear(_ source: String) throws {
        let pattern = try #require(LinearPattern(source))
        // There are 2^5000 ways to divide the text, which a matcher that tries them one after the other would never finish.
        #expect(!pattern.matches(String(repeating: "a", count: 5_000) + "!"))
    }
}
