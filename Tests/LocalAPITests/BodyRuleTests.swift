import LocalAPI
import SyncCore
import Testing

@Suite("Bodies of routes") struct BodyRuleTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var rule: BodyRule
        var type: String?
        var encoding: String?
        var length: Int?
        var isChunked = false
        /// `nil`: taken.
        var code: LocalProblem?
        var testDescription: String {
            "\(rule) \(type ?? "-") \(encoding ?? "-") \(length.map(String.init) ?? "chunked") -> \(code?.rawValue ?? "ok")"
        }
    }

    static let json = BodyRule.json(maxBytes: 100, isRequired: true)
    static let optional = BodyRule.json(maxBytes: 100, isRequired: false)
    static let lines = BodyRule.lines(maxBytes: 100)

    static let cases: [Case] = [
        Case(rule: json, type: "application/json", length: 100),
        Case(rule: json, type: "Application/JSON; Charset=UTF-8", length: 1),
        Case(rule: json, type: "application/json;charset=\"utf-8\"", length: 1),
        Case(rule: json, type: "application/json", encoding: "identity", length: 1),
        Case(rule: json, type: "application/json", isChunked: true),
        Case(rule: json, type: "application/json", length: 101, code: .tooLarge),
        Case(rule: json, type: "application/json", length: .max, code: .tooLarge),
        Case(rule: json, type: "application/json", length: 0, code: .malformed),
        Case(rule: json, type: nil, length: nil, code: .malformed),
        Case(rule: json, type: nil, length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "text/plain", length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "application/jsonp", length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "application/x-www-form-urlencoded", length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "application/json; charset=iso-8859-1", length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "application/json; version=2", length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "application/json", encoding: "gzip", length: 5, code: .unsupportedMediaType),
        Case(rule: json, type: "application/json", encoding: "", length: 5, code: .unsupportedMediaType),
        // A wrong type is said before a wrong size: the sender has mistaken the place.
        Case(rule: json, type: "image/png", length: 1 << 30, code: .unsupportedMediaType),
        Case(rule: optional, type: nil, length: nil),
        Case(rule: optional, type: nil, length: 0),
        Case(rule: optional, type: "text/plain", length: 3, code: .unsupportedMediaType),
        Case(rule: lines, type: "application/x-ndjson", isChunked: true),
        Case(rule: lines, type: "application/x-ndjson", length: 1 << 40),
        Case(rule: lines, type: nil, length: nil),
        Case(rule: lines, type: "application/json", isChunked: true, code: .unsupportedMediaType),
        Case(rule: .none, type: nil, length: nil),
        Case(rule: .none, type: "application/json", length: 0),
        Case(rule: .none, type: "application/json", length: 2, code: .malformed),
        Case(rule: .none, type: nil, isChunked: true, code: .malformed),
    ]

    @Test("The head alone decides whether a body is taken", arguments: cases)
    func decides(_ example: Case) {
        var code: String?
        do throws(Problem) {
            try example.rule.check(
                contentType: example.type, contentEncoding: example.encoding, contentLength: example.length,
                isChunked: example.isChunked)
        } catch {
            code = error.code
        }
        #expect(code == example.code?.rawValue)
    }
}
