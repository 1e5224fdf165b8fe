import SyncCore
import Testing

@testable import HubServer

/// PROTOCOL H2: what a request for a file asks of it, decided from its header fields alone (RFC 9110, sections 13 and 14).
@Suite("Requests for parts of a file")
struct FileAnswerTests {
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

    // `ByteRangeTests` has the reading of ranges.
    static let ranges: [Case] = [
        range("bytes=10-19", .part(10..<20)), range("bytes=-1", .part(99..<100)), range("bytes=100-", .beyond),
        range("bytes=0-", of: 0, .beyond), range("bytes=0-1,5-6", .whole), range("", .whole),
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
}
