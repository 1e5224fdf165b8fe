import SyncHTTP
import Testing

/// RFC 9110, section 14.1.2, as the agent and the hub read it (PROTOCOL H2).
@Suite("Ranges of bytes")
struct ByteRangeTests {
    enum Answer: Hashable, Sendable {
        /// The field is ignored.
        case whole
        case part(Range<Int64>)
        /// No byte of the range exists.
        case beyond
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var text: String
        var size: Int64
        var answer: Answer

        var testDescription: String { "\(text) of \(size)" }
    }

    private static func range(_ text: String, of size: Int64 = 100, _ answer: Answer) -> Case {
        Case(text: text, size: size, answer: answer)
    }

    static let ranges: [Case] = [
        range("bytes=0-", .part(0..<100)), range("bytes=99-", .part(99..<100)), range("bytes=10-19", .part(10..<20)),
        range("bytes=0-0", .part(0..<1)), range("bytes=-1", .part(99..<100)), range("bytes=-100", .part(0..<100)),
        range("bytes=-500", .part(0..<100)), range("bytes=90-500", .part(90..<100)), range("BYTES=5-6", .part(5..<7)),
        range(" bytes = 5-6\t", .part(5..<7)),
        range("bytes=5-9223372036854775807", .part(5..<100)), range("bytes=5-99999999999999999999999", .part(5..<100)),
        range("bytes=-99999999999999999999999", .part(0..<100)),
        range("bytes=0-9223372036854775807", of: .max, .part(0..<Int64.max)),
        // Behind the end, or of nothing.
        range("bytes=100-", .beyond), range("bytes=100-200", .beyond), range("bytes=99999999999999999999999-", .beyond),
        range("bytes=-0", .beyond), range("bytes=0-", of: 0, .beyond), range("bytes=-5", of: 0, .beyond),
        // Ignored: several, another unit, no range.
        range("bytes=0-1,5-6", .whole), range("bytes=0-1,", .whole), range("items=0-1", .whole), range("bytes", .whole),
        range("bytes=", .whole), range("bytes=-", .whole), range("bytes=5-3", .whole), range("bytes=a-b", .whole),
        range("bytes=1-2-3", .whole), range("bytes=+1-2", .whole), range("bytes=1 -2", .whole), range("bytes=--5", .whole),
        range("bytes=0x1-", .whole), range("bytes=\u{661}-", .whole), range("", .whole), range("=0-1", .whole),
        range("by\u{212A}es=0-1", .whole), range("bytes==0-1", .whole),
    ]

    @Test("A field asks for all of a file, a part, or nothing", arguments: ranges)
    func answers(_ asked: Case) {
        var answer = Answer.whole
        if let range = ByteRange(asked.text) { answer = range.bytes(of: asked.size).map { .part($0) } ?? .beyond }
        #expect(answer == asked.answer)
    }

    @Test("A range of any numbers is never empty, and never outside of the file")
    func bounds() {
        for size in Int64(0)..<5 {
            for (first, last) in (0..<64).map({ (text($0 / 8), text($0 % 8)) }) {
                guard let bytes = ByteRange("bytes=\(first)-\(last)")?.bytes(of: size) else { continue }
                #expect(!bytes.isEmpty && bytes.lowerBound >= 0 && bytes.upperBound <= size)
            }
        }
    }

    private func text(_ number: Int) -> String { number == 7 ? "" : String(number) }
}
