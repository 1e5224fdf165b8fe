import NIOHTTP1

/// The facts of a head about its message.
struct RequestFacts: Equatable {
    var method: RequestHead.Method
    /// 0 without a body, `nil` when it is chunked.
    var contentLength: Int?
    /// The client waits for `100 Continue` before it sends the body.
    var awaitsContinue: Bool
    var keepsConnection: Bool
    /// The client understands chunked answers and `100 Continue`.
    var isHTTP11: Bool
}

/// The rules for heads that the parser does not check.
///
/// llhttp 9.3 (inside NIOHTTP1, in its strict mode) already refuses: NUL, bare CR and bare LF, white space before the colon, line folding,
/// names that are no tokens, lengths that are no plain number or repeated, a length beside a transfer coding, bad chunk sizes and chunk
/// ends. Tests verify all of that. These rules refuse in addition: targets that are not in origin form, `CONNECT`, `TRACE` and WebDAV,
/// upgrades, a missing or repeated `Host`, transfer codings other than `chunked`, unknown expectations.
enum RequestRules {
    static func check(_ head: HTTPRequestHead) throws(HTTPProblem) -> RequestFacts {
        // `GET / HTTP/1.2` does not exist; the parser refuses all versions except 1.0 and 1.1 by itself.
        let isHTTP11 = head.version.minor == 1
        guard let method = method(head.method) else {
            let allowed = RequestHead.Method.allCases.map(\.rawValue).joined(separator: ", ")
            throw HTTPProblem(
                .methodNotAllowed, status: 405, "The method \(head.method.rawValue) is not used here.",
                headers: [("Allow", allowed)])
        }
        try check(target: head.uri, method: method)

        var facts = RequestFacts(
            method: method, contentLength: 0, awaitsContinue: false, keepsConnection: isHTTP11 && head.isKeepAlive,
            isHTTP11: isHTTP11)
        var hosts = 0
        for (name, padded) in head.headers {
            let value = padded.withoutTrailingBlanks
            // The length distinguishes almost all other names, so that few are compared.
            switch name.utf8.count {
            case 4 where name.isASCIICaseEqual(to: "host"):
                hosts += 1
            case 6 where name.isASCIICaseEqual(to: "expect"):
                guard value.isASCIICaseEqual(to: "100-continue") else {
                    throw HTTPProblem(.malformed, status: 417, "The only expectation that can be met is 100-continue.")
                }
                facts.awaitsContinue = isHTTP11
            case 7 where name.isASCIICaseEqual(to: "upgrade"):
                throw HTTPProblem(.malformed, status: 400, "This server speaks HTTP/1.1 and upgrades to nothing else.")
            case 14 where name.isASCIICaseEqual(to: "content-length"):
                guard let length = decimal(value) else {
                    throw HTTPProblem(.malformed, status: 400, "Content-Length is not a number of bytes.")
                }
                facts.contentLength = length
            case 17 where name.isASCIICaseEqual(to: "transfer-encoding"):
                guard isHTTP11 else {
                    throw HTTPProblem(.malformed, status: 400, "HTTP/1.0 has no transfer codings.")
                }
                guard value.isASCIICaseEqual(to: "chunked"), facts.contentLength != nil else {
                    throw HTTPProblem(.notImplemented, status: 501, "The only transfer coding understood is chunked.")
                }
                facts.contentLength = nil
            default:
                break
            }
        }
        // RFC 9110, 9.3.1: such a body has no meaning. It is refused instead of waited for.
        guard facts.contentLength == 0 || (method != .get && method != .head) else {
            throw HTTPProblem(.malformed, status: 400, "A \(method.rawValue) request has no body here.")
        }
        guard hosts == 1 || (hosts == 0 && !isHTTP11) else {
            throw HTTPProblem(.malformed, status: 400, "An HTTP/1.1 request has exactly one Host field.")
        }
        return facts
    }

    private static func method(_ method: HTTPMethod) -> RequestHead.Method? {
        switch method {
        case .GET: .get
        case .HEAD: .head
        case .POST: .post
        case .PUT: .put
        case .PATCH: .patch
        case .DELETE: .delete
        case .OPTIONS: .options
        default: nil
        }
    }

    /// RFC 9112, section 3.2: origin form, or `*` for `OPTIONS`. A server that is no proxy has no use for the other forms.
    private static func check(target: String, method: RequestHead.Method) throws(HTTPProblem) {
        let bytes = target.utf8
        guard bytes.first == UInt8(ascii: "/") || (method == .options && target == "*") else {
            throw HTTPProblem(.malformed, status: 400, "The request target does not begin with a slash.")
        }
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            throw HTTPProblem(.malformed, status: 400, "The request target has characters that must be encoded.")
        }
    }

    private static func decimal(_ text: Substring) -> Int? {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard !text.isEmpty, text.utf8.allSatisfy(digits.contains) else { return nil }
        return Int(text)
    }
}

extension HTTPProblem {
    init(_ code: ServerCode, status: Int, _ detail: String, headers: [(String, String)] = []) {
        self.init(status: status, code: code.rawValue, detail: detail, headers: headers)
    }

    /// The meaning of the parser's error for the client.
    init(parserError error: any Error) {
        switch error as? HTTPParserError {
        case .headerOverflow:
            self = .headTooLarge
        case .invalidVersion:
            self.init(.version, status: 505, "This server speaks HTTP/1.1.")
        case .invalidMethod, .invalidConstant:
            self.init(.malformed, status: 400, "The request line has no method of HTTP/1.1.")
        case .invalidURL:
            self.init(.malformed, status: 400, "The request target is not valid.")
        case .invalidHeaderToken:
            self.init(.malformed, status: 400, "A header field has a character that is not allowed there.")
        case .invalidContentLength, .unexpectedContentLength:
            self.init(.malformed, status: 400, "The length of the body is not given by exactly one plain number.")
        case .invalidChunkSize:
            self.init(.malformed, status: 400, "A chunk size is not a hexadecimal number that can be.")
        default:
            self.init(.malformed, status: 400, "The request breaks the framing of HTTP/1.1.")
        }
    }

    static var headTooLarge: HTTPProblem {
        HTTPProblem(.tooLarge, status: 431, "Request line and header fields are too long or too many.")
    }

    static func bodyTooLarge(limit: Int) -> HTTPProblem {
        HTTPProblem(.tooLarge, status: 413, "The body has more than \(limit) bytes.")
    }
}

extension String {
    /// A field's value ends before the white space that ends its line (RFC 9110, section 5.5); the parser keeps it.
    var withoutTrailingBlanks: Substring {
        var text = self[...]
        while let last = text.utf8.last, last == 0x20 || last == 0x09 { text = text.dropLast() }
        return text
    }
}

extension StringProtocol {
    /// - Parameter lowercased: The other side, in lower case.
    func isASCIICaseEqual(to lowercased: StaticString) -> Bool {
        var expected = lowercased.utf8Start
        guard utf8.count == lowercased.utf8CodeUnitCount else { return false }
        for byte in utf8 {
            let lower = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
            guard lower == expected.pointee else { return false }
            expected += 1
        }
        return true
    }
}
