/// One request as a value: what is sent, and whether it may be sent twice.
struct Request: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        /// The bytes of a file, from its beginning to its end. It is opened for each try.
        case file(path: String)
    }

    let method: String
    let target: String
    private(set) var fields: [(name: String, value: String)]
    let body: Body
    /// The agent applies it at most once, however often it comes.
    let isRepeatable: Bool
    /// Time without a byte in which the agent must answer.
    let silence: Duration

    /// - Throws: `invalidArgument` for a field that HTTP cannot carry, so that it is told before there is a connection.
    init(
        _ method: String, _ target: String, fields: [(name: String, value: String)] = [], body: Body = .bytes([]),
        isRepeatable: Bool = true, silence: Duration = Limits.answerSilence
    ) throws(EdgeSyncError) {
        for (name, value) in fields {
            let bytes = Array(value.utf8)
            guard let first = bytes.first, let last = bytes.last, first != 0x20, last != 0x20,
                bytes.allSatisfy({ (0x20...0x7E).contains($0) })
            else { throw .invalidArgument("\(name) must be visible ASCII, and not empty") }
        }
        self.method = method
        self.target = target
        self.fields = fields
        self.body = body
        self.isRepeatable = isRepeatable
        self.silence = silence
    }

    /// A request with a JSON body.
    init(
        post target: String, _ body: JSONObject, fields: [(name: String, value: String)] = [], isRepeatable: Bool
    ) throws(EdgeSyncError) {
        try self.init(
            "POST", target, fields: [("Content-Type", "application/json")] + fields, body: .bytes(JSONWriter.bytes(of: body)),
            isRepeatable: isRepeatable)
    }

    /// The request with further fields, which were checked before.
    func with(_ fields: [(name: String, value: String)]) -> Request {
        var request = self
        request.fields += fields
        return request
    }

    /// For errors: `GET /v1/status`.
    var name: String { "\(method) \(target.prefix { $0 != "?" })" }

    /// - Parameter length: Bytes of the body.
    func head(length: Int) -> [UInt8] {
        var text = "\(method) \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        if length > 0 || method == "POST" { text += "Content-Length: \(length)\r\n" }
        return Array((text + "\r\n").utf8)
    }
}

// MARK: Targets

extension Request {
    /// The path below `/v1` with these segments.
    static func path(_ segments: String...) throws(EdgeSyncError) -> String {
        for segment in segments where segment.isEmpty { throw .invalidArgument("a name in the path \(segments) is empty") }
        return "/v1/" + segments.map(escaped).joined(separator: "/")
    }

    /// The query of a target, from the parameters that have a value.
    static func query(_ parameters: [(name: String, value: String?)]) -> String {
        let given = parameters.compactMap { name, value in value.map { "\(name)=\(escaped($0))" } }
        return given.isEmpty ? "" : "?" + given.joined(separator: "&")
    }

    /// Escapes all but the unreserved characters of RFC 3986 and `:` and `,`.
    private static func escaped(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: ":"), UInt8(ascii: ","):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += digits.count < 2 ? "%0\(digits)" : "%\(digits)"
            }
        }
        return result
    }
}
