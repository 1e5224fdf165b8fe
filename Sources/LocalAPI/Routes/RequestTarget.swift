package import SyncCore

/// The target of a request line, parsed strictly by RFC 3986: it is not normalised or guessed.
///
/// A path names a route, never a file, but is checked as if it named a file: dot segments, encoded slashes, NUL and doubly encoded text are
/// refused, so that no proxy, log or later handler can see another path than we do.
package struct RequestTarget: Hashable, Sendable {
    /// Longest target that is read, bytes; a request line is at most 8 KiB.
    package static let bytesMax = 8 << 10
    /// Largest number of parameters, far more than any route has; it limits the work for one line.
    static let parametersMax = 64

    /// Decoded segments; empty for `/`.
    package var segments: [String]
    package var parameters: [Parameter]

    package struct Parameter: Hashable, Sendable {
        package var name: String
        package var value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Reads `/path?name=value&…`. `+` is an ordinary character, so that a time zone offset needs no escape.
    ///
    /// - Throws: 400 `malformed` when the text is no target, 404 `not-found` for a path that no route can have: dot segments, empty
    ///   segments, a trailing slash.
    package init(_ target: String) throws(Problem) {
        let bytes = Array(target.utf8)
        guard bytes.count <= RequestTarget.bytesMax else {
            throw LocalProblem.malformed.problem("the request target is longer than \(RequestTarget.bytesMax) bytes")
        }
        guard bytes.first == UInt8(ascii: "/") else {
            throw LocalProblem.malformed.problem("the request target must be a path that starts with /")
        }
        let question = bytes.firstIndex(of: UInt8(ascii: "?"))
        segments = try RequestTarget.segments(bytes[1..<(question ?? bytes.count)])
        parameters = if let question { try RequestTarget.parameters(bytes[(question + 1)...]) } else { [] }
    }

    private static func segments(_ path: ArraySlice<UInt8>) throws(Problem) -> [String] {
        if path.isEmpty { return [] }
        var segments: [String] = []
        for part in path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            let text = try decode(part, isAllowed: isPathByte)
            // An encoded slash or percent sign: the path would have another meaning for a program that decodes it before or after us.
            if text.utf8.contains(UInt8(ascii: "/")) || text.utf8.contains(UInt8(ascii: "%")) {
                throw LocalProblem.malformed.problem("the path holds an encoded / or %")
            }
            if text.isEmpty || text == "." || text == ".." {
                throw LocalProblem.notFound.problem("the path has an empty or a dot segment")
            }
            segments.append(text)
        }
        return segments
    }

    private static func parameters(_ query: ArraySlice<UInt8>) throws(Problem) -> [Parameter] {
        if query.isEmpty { return [] }
        let parts = query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        guard parts.count <= parametersMax else {
            throw LocalProblem.malformed.problem("more than \(parametersMax) query parameters")
        }
        var parameters: [Parameter] = []
        for part in parts {
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")), equals > part.startIndex else {
                throw LocalProblem.malformed.problem("each query parameter must be name=value")
            }
            parameters.append(
                Parameter(
                    try decode(part[..<equals], isAllowed: isQueryByte),
                    try decode(part[(equals + 1)...], isAllowed: isQueryByte)))
        }
        return parameters
    }

    private static func decode(_ part: ArraySlice<UInt8>, isAllowed: (UInt8) -> Bool) throws(Problem) -> String {
        var decoded: [UInt8] = []
        var rest = part
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    throw LocalProblem.malformed.problem("% must be followed by two hexadecimal digits")
                }
                let value = high << 4 | low
                guard value >= 0x20, value != 0x7F else {
                    throw LocalProblem.malformed.problem("the request target holds an encoded control character")
                }
                decoded.append(value)
            } else {
                guard isAllowed(byte) else {
                    throw LocalProblem.malformed.problem(
                        "the request target holds the byte 0x\(String(byte, radix: 16)), which must be percent-encoded")
                }
                decoded.append(byte)
            }
        }
        guard let text = String(validating: decoded, as: UTF8.self) else {
            throw LocalProblem.malformed.problem("the request target is not UTF-8 after decoding")
        }
        return text
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - 48
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - 87
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - 55
        default: nil
        }
    }

    /// Returns whether the byte is a `pchar` of RFC 3986, section 3.3, without the percent sign.
    private static func isPathByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~!$&'()*+,;=:@".utf8.contains(byte)
        }
    }

    /// Returns whether the byte belongs to the `query` of RFC 3986, section 3.4, without the percent sign.
    private static func isQueryByte(_ byte: UInt8) -> Bool {
        isPathByte(byte) || byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?")
    }

    /// The text of a target that means `segments` and `parameters`, as the client sends it.
    package static func text(_ segments: [String], _ parameters: [Parameter] = []) -> String {
        let path = "/" + segments.map { encode($0) }.joined(separator: "/")
        if parameters.isEmpty { return path }
        return path + "?" + parameters.map { encode($0.name) + "=" + encode($0.value) }.joined(separator: "&")
    }

    /// Escapes everything except the unreserved characters and `:` and `,`, which are common here and safe in both parts.
    private static func encode(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: ":"), UInt8(ascii: ","):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                result += byte < 16 ? "%0" : "%"
                result += String(byte, radix: 16, uppercase: true)
            }
        }
        return result
    }
}
