package import SyncCore

/// The body that a route accepts, checked by the head of the request, before a byte of the body is stored.
package enum BodyRule: Hashable, Sendable {
    case none
    /// One JSON text. If it is not required, an empty body means `{}`.
    case json(maxBytes: Int, isRequired: Bool)
    /// Any number of JSON texts, one a line, each of at most `maxBytes`.
    case lines(maxBytes: Int)
    /// The bytes of a file, of any type and length; the configuration limits the size.
    case file

    /// - Parameters:
    ///   - contentLength: The declared length; `nil` when absent.
    ///   - isChunked: A body without a declared length follows.
    /// - Throws: 415 `unsupported-media-type`, 413 `too-large`, 400 `malformed` for a body where none is allowed.
    package func check(
        contentType: String?, contentEncoding: String?, contentLength: Int?, isChunked: Bool
    ) throws(Problem) {
        let hasBody = isChunked || (contentLength ?? 0) > 0
        switch self {
        case .none:
            if hasBody { throw LocalProblem.malformed.problem("this request takes no body") }
        case .json(let maxBytes, let isRequired):
            guard hasBody else {
                if isRequired { throw LocalProblem.malformed.problem("a JSON body is required, and there is none") }
                return
            }
            try BodyRule.check(contentType, is: LocalAnswer.json, contentEncoding)
            if let contentLength, contentLength > maxBytes { throw BodyRule.tooLarge(maxBytes) }
        case .file:
            if let contentEncoding, !asciiCaseEqual(contentEncoding, "identity") {
                throw LocalProblem.unsupportedMediaType.problem("files are taken without a Content-Encoding")
            }
        case .lines:
            // A stream without a line gets an answer without a line: there is nothing to refuse.
            guard hasBody else { return }
            try BodyRule.check(contentType, is: LocalAnswer.lines, contentEncoding)
        }
    }

    /// The refusal of a body beyond its limit, or a line beyond the limit of lines.
    package static func tooLarge(_ maxBytes: Int) -> Problem {
        LocalProblem.tooLarge.problem("the body is larger than \(maxBytes) bytes")
    }

    private static func check(_ type: String?, is expected: String, _ encoding: String?) throws(Problem) {
        if let encoding, !asciiCaseEqual(encoding, "identity") {
            throw LocalProblem.unsupportedMediaType.problem("bodies are taken without a Content-Encoding")
        }
        // Nearly every client sends this.
        if type == expected { return }
        let parts = (type ?? "").split(separator: ";", omittingEmptySubsequences: false).map(trimmed)
        guard let first = parts.first, asciiCaseEqual(first, expected) else {
            throw LocalProblem.unsupportedMediaType.problem("the Content-Type must be \(expected)")
        }
        for parameter in parts.dropFirst() {
            let isUTF8 = ["charset=utf-8", "charset=\"utf-8\""].contains { asciiCaseEqual(parameter, $0) }
            guard isUTF8 else { throw LocalProblem.unsupportedMediaType.problem("the body must be UTF-8") }
        }
    }

    private static func trimmed(_ text: Substring) -> String {
        func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        guard let first = text.utf8.firstIndex(where: { !isBlank($0) }), let last = text.utf8.lastIndex(where: { !isBlank($0) })
        else { return "" }
        return String(text[first...last])
    }
}
