import SyncCore
import Testing

@testable import HubServer

/// PROTOCOL H2: what a request for a file asks of it, decided from its header fields alone (RFC 9110, sections 13 and 14).
@Suite("Ranges of files")
struct FileRangeTests {
    private static let tag = "\"sha256:ab\""

    struct Case: Sendable, CustomTestStringConvertible {
        var fields: [(String, String)]
        var size: Int64 = 100
        var isRead = true
        var answer: FileAnswer

        var testDescription: String { fields.map { "\($0): \($1)" }.joined(separator: ", ") + " of \(size)" }
    }

    private static func range(_ text: String, of size: Int64 = 100, _ answer: FileAnswer) -> Case {
        Case(fields: [("Range", text)], size: size, answer: answer)
    }

    static let ranges: [Case] = [
        range("bytes=0-", .part(0..<100)), range("bytes=99-", .part(99..<100)), range("bytes=10-19", .part(10..<20)),
        range("bytes=0-0", .part(0..<1)), range("bytes=-1", .part(99..<100)), range("bytes=-100", .part(0..<100)),
        range("bytes=-500", .part(0..<100)), range("bytes=90-500", .part(90..<100)), range("BYTES=5-6", .part(5..<7)),
        range("bytes=5-9223372036854775807", .part(5..<100)), range("bytes=5-99999999999999999999999", .part(5..<100)),
        // Behind the end, or of nothing.
        range("bytes=100-", .beyond), range("bytes=100-200", .beyond), range("bytes=99999999999999999999999-", .beyond),
        range("bytes=-0", .beyond), range("bytes=0-", of: 0, .beyond), range("bytes=-5", of: 0, .beyond),
        // Ignored: several, another unit, no range.
        range("bytes=0-1,5-6", .whole), range("bytes=0-1,", .whole), range("items=0-1", .whole), range("bytes", .whole),
        range("bytes=", .whole), range("bytes=-", .whole), range("bytes=5-3", .whole), range("bytes=a-b", .whole),
        range("bytes=1-2-3", .whole), range("bytes=+1-2", .whole), range("bytes=1 -2", .whole), range("bytes=--5", .whole),
        range("bytes=0x1-", .whole), range("bytes=\u{661}-", .whole), range("", .whole),
    ]

    static let conditions: [Case] = [
        Case(fields: [], answer: .whole),
        Case(fields: [("Range", "bytes=5-"), ("If-Range", tag)], answer: .part(5..<100)),
        Case(fields: [("Range", "bytes=5-"), ("If-Range", "\"sha256:cd\"")], answer: .whole),
        Case(fields: [("Range", "bytes=5-"), ("If-Range", "W/" + tag)], answer: .whole),
        Case(fields: [("Range", "bytes=5-"), ("If-Range", "Sun, 06 Nov 1994 08:49:37 GMT")], answer: .whole),
        Case(fields: [("Range", "bytes=500-"), ("If-Range", "\"sha256:cd\"")], answer: .whole),
        Case(fields: [("If-Range", tag)], answer: .whole),
        Case(fields: [("If-None-Match", tag)], answer: .unchanged),
        Case(fields: [("If-None-Match", "W/" + tag)], answer: .unchanged),
        Case(fields: [("If-None-Match", "*")], answer: .unchanged),
        Case(fields: [("If-None-Match", "\"sha256:cd\", " + tag)], answer: .unchanged),
        Case(fields: [("If-None-Match", "\"sha256:cd\"")], answer: .whole),
        Case(fields: [("If-None-Match", "sha256:ab")], answer: .whole),
        Case(fields: [("If-None-Match", tag), ("Range", "bytes=500-")], answer: .unchanged),
        Case(fields: [("If-None-Match", "\"sha256:cd\""), ("Range", "bytes=5-")], answer: .part(5..<100)),
        // A HEAD has no range.
        Case(fields: [("Range", "bytes=5-")], isRead: false, answer: .whole),
        Case(fields: [("Range", "bytes=500-")], isRead: false, answer: .whole),
        Case(fields: [("If-None-Match", tag)], isRead: false, answer: .unchanged),
    ]

    @Test("A request asks for all of a file, a part, or nothing", arguments: ranges + conditions)
    func answers(_ asked: Case) {
        var headers: HTTPHeaders = [:]
        for (name, value) in asked.fields { headers[name] = value }
        #expect(FileAnswer(headers, isRead: asked.isRead, tag: Self.tag, size: asked.size) == asked.answer)
    }

    @Test("A range of any numbers is never empty, and never outside of the file")
    func bounds() {
        var random = SeededRandom(seed: 3)
        for _ in 0..<10_000 {
            let size = Int64(random.next() % 5)
            let ends = (0..<2).map { _ in random.next() % 4 == 0 ? "" : String(random.next() % 7) }
            guard let bytes = WantedRange("bytes=\(ends[0])-\(ends[1])")?.bytes(of: size) else { continue }
            #expect(!bytes.isEmpty && bytes.lowerBound >= 0 && bytes.upperBound <= size)
        }
    }
}
