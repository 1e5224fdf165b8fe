import SyncCore

/// Size limits of an answer.
package struct AnswerLimits: Sendable {
    /// Bytes of all heads of one answer together: interim ones (1xx), the final one and trailers.
    package var headBytes: Int
    package var headFields: Int
    package var bodyBytes: Int
    package var inflateRatio: Int

    package init(headBytes: Int = 64 << 10, headFields: Int = 100, bodyBytes: Int, inflateRatio: Int) {
        self.headBytes = headBytes
        self.headFields = headFields
        self.bodyBytes = bodyBytes
        self.inflateRatio = inflateRatio
    }
}

/// Reads one answer as it arrives: lines of the head, then the body, with every limit held before memory is spent.
///
/// curl has undone the framing (chunks, HTTP/2) and checks its syntax. The *meaning* of the answer is checked here, where it can be tested
/// byte by byte: codings that were not requested, two lengths that disagree, floods of interim answers, decompression bombs.
struct AnswerReader {
    /// The destination of the body.
    enum Sink {
        case whole
        /// `onBody` returns `false` to stop the body.
        case pieces(
            onHead: @Sendable (_ status: Int, _ headers: HTTPHeaders) -> Void, onBody: @Sendable ([UInt8]) -> Bool)
    }

    private(set) var status = 0
    private(set) var headers: HTTPHeaders = []
    private(set) var body: [UInt8] = []
    /// `true` when the receiver of the pieces has stopped the body.
    private(set) var isStopped = false
    /// `true` when a status line came, be it of an interim answer.
    var hasBegun: Bool { headBytes > 0 }
    /// `true` when the final head is complete.
    var isHeadWhole: Bool { part == .body }

    private enum Part { case statusLine, fields, body }

    private let limits: AnswerLimits
    private let acceptsGzip: Bool
    private let isHead: Bool
    private let sink: Sink
    private var part = Part.statusLine
    private var fields: [(name: String, value: String)] = []
    private var headBytes = 0
    private var headFields = 0
    private var bodyBytes = 0
    private var inflater: Inflater?

    init(limits: AnswerLimits, acceptsGzip: Bool, isHead: Bool, sink: Sink) {
        self.limits = limits
        self.acceptsGzip = acceptsGzip
        self.isHead = isHead
        self.sink = sink
    }

    // MARK: - Head

    /// Consumes one line of a head or of the trailers, with its line break.
    mutating func consume(line: UnsafeRawBufferPointer) throws(Refusal) {
        headBytes += line.count
        if headBytes > limits.headBytes { throw .tooLarge("the answer's head has more than \(limits.headBytes) bytes") }
        var content = line[...]
        while let last = content.last, last == 10 || last == 13 { content = content.dropLast() }
        // A bare CR or an escape sequence has no use here, and would act on logs and terminals behind us.
        guard content.allSatisfy({ HTTPSyntax.isValueByte($0) }) else {
            throw .malformed("a control character in the answer's head")
        }

        switch part {
        case .statusLine:
            status = try Self.status(of: content)
            fields = []
            part = .fields
        case .fields where content.isEmpty:
            if status < 200 {
                // An interim answer; the next head begins.
                part = .statusLine
            } else {
                part = .body
                try beginBody()
            }
        case .fields:
            try consumeField(content)
        case .body:
            // Trailers. The agent uses none of their fields; they only count towards the limits.
            try countField()
        }
    }

    private mutating func consumeField(_ content: Slice<UnsafeRawBufferPointer>) throws(Refusal) {
        if let first = content.first, first == 32 || first == 9 {
            // A folded line, which is obsolete, continues the value before it (RFC 9112, section 5.2).
            guard !fields.isEmpty else { throw .malformed("a folded line without a field before it") }
            fields[fields.count - 1].value += " " + Self.text(Self.trimmed(content))
            return
        }
        try countField()
        guard let colon = content.firstIndex(of: UInt8(ascii: ":")) else {
            throw .malformed("a header field without a colon")
        }
        let name = content[..<colon]
        guard !name.isEmpty, name.allSatisfy(HTTPSyntax.isTokenByte) else {
            throw .malformed("a header field with an invalid name")
        }
        fields.append((Self.text(name), Self.text(Self.trimmed(content[content.index(after: colon)...]))))
    }

    private mutating func countField() throws(Refusal) {
        headFields += 1
        if headFields > limits.headFields {
            throw .tooLarge("the answer's head has more than \(limits.headFields) fields")
        }
    }

    /// The status of a line such as `HTTP/1.1 204 No Content` or `HTTP/2 200`.
    private static func status(of line: Slice<UnsafeRawBufferPointer>) throws(Refusal) -> Int {
        let parts = line.split(separator: 32, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].starts(with: "HTTP/".utf8), parts[1].count == 3,
            parts[1].allSatisfy({ (48...57).contains($0) })
        else { throw .malformed("an invalid status line") }
        let status = parts[1].reduce(0) { $0 * 10 + Int($1 - 48) }
        // The agent never asks to switch protocols, so 101 is as wrong as a number outside of the classes.
        guard (100...599).contains(status), status != 101 else { throw .malformed("status \(status)") }
        return status
    }

    // MARK: - Between head and body

    private var mayHaveBody: Bool { !isHead && status != 204 && status != 304 }

    private mutating func beginBody() throws(Refusal) {
        headers = HTTPHeaders(fields)
        fields = []
        if mayHaveBody {
            try checkTransferCoding()
            let length = try contentLength()
            let isGzip = try checkContentCoding()
            if isGzip {
                inflater = Inflater(maxBytes: limits.bodyBytes, maxRatio: limits.inflateRatio)
            } else if let length, length > limits.bodyBytes {
                throw .tooLarge("\(length) bytes announced, \(limits.bodyBytes) accepted")
            } else if let length, case .whole = sink {
                // The announced bytes may never come, so more than this is reserved only as they arrive.
                body.reserveCapacity(min(length, 256 << 10))
            }
        }
        if case .pieces(let onHead, _) = sink { onHead(status, headers) }
    }

    /// Refuses every transfer coding but `chunked`. curl would decode `gzip` here even without a request for it, and without a limit on the
    /// ratio.
    private func checkTransferCoding() throws(Refusal) {
        let codings = HTTPSyntax.list(headers, "Transfer-Encoding")
        guard codings.isEmpty || codings.count == 1 && asciiCaseEqual(codings[0], "chunked") else {
            throw .malformed("Transfer-Encoding \(HTTPSyntax.shown(codings)) was not asked for")
        }
    }

    /// - Returns: `nil` when none is announced, or when chunks make it void (RFC 9112, section 6.3).
    private func contentLength() throws(Refusal) -> Int? {
        let lengths = HTTPSyntax.list(headers, "Content-Length")
        guard let first = lengths.first else { return nil }
        // The standard tolerates one value that is repeated. Two values that differ are a means of response smuggling.
        guard lengths.allSatisfy({ $0.utf8.elementsEqual(first.utf8) }), first.utf8.allSatisfy({ (48...57).contains($0) }),
            let length = Int(first)
        else { throw .malformed("Content-Length \(HTTPSyntax.shown(lengths))") }
        return HTTPSyntax.list(headers, "Transfer-Encoding").isEmpty ? length : nil
    }

    /// - Returns: `true` when the body is gzip.
    private func checkContentCoding() throws(Refusal) -> Bool {
        let codings = HTTPSyntax.list(headers, "Content-Encoding").filter { !asciiCaseEqual($0, "identity") }
        guard let first = codings.first else { return false }
        // "x-gzip" has the meaning of "gzip" (RFC 9110, section 8.4.1.3).
        guard codings.count == 1, asciiCaseEqual(first, "gzip") || asciiCaseEqual(first, "x-gzip"), acceptsGzip else {
            throw .malformed("Content-Encoding \(HTTPSyntax.shown(codings)) was not asked for (status \(status))")
        }
        return true
    }

    // MARK: - Body

    /// Consumes the next bytes of the body, still encoded.
    mutating func consume(body bytes: UnsafeRawBufferPointer) throws(Refusal) {
        guard mayHaveBody, !isStopped else { return }
        guard let inflater else { return try consumePlain(bytes) }
        switch sink {
        case .whole:
            // The body is moved out and back, so that it grows in place while the inflater calls.
            var grown = body
            body = []
            defer { body = grown }
            try inflater.feed(bytes) { grown.append(contentsOf: $0) }
        case .pieces(_, let onBody):
            var goesOn = true
            try inflater.feed(bytes) { if goesOn { goesOn = onBody([UInt8]($0)) } }
            isStopped = !goesOn
        }
    }

    private mutating func consumePlain(_ bytes: UnsafeRawBufferPointer) throws(Refusal) {
        bodyBytes += bytes.count
        if bodyBytes > limits.bodyBytes { throw .tooLarge("more than \(limits.bodyBytes) bytes") }
        switch sink {
        case .whole: body.append(contentsOf: bytes)
        case .pieces(_, let onBody): isStopped = !onBody([UInt8](bytes))
        }
    }

    /// Checks that the body is complete. Call it when the head is whole and curl reports the end of the answer.
    func finish() throws(Refusal) {
        guard mayHaveBody, !isStopped, let inflater else { return }
        try inflater.finish()
    }

    // MARK: - Text

    private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        String(decoding: bytes, as: UTF8.self)
    }

    private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        var bytes = bytes
        while let first = bytes.first, first == 32 || first == 9 { bytes = bytes.dropFirst() }
        while let last = bytes.last, last == 32 || last == 9 { bytes = bytes.dropLast() }
        return bytes
    }
}
