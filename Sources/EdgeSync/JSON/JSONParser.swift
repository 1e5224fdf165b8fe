/// The place at which a text stops being JSON, and the reason.
struct JSONFault: Error, Equatable, CustomStringConvertible {
    var offset: Int
    var reason: String

    var description: String { "\(reason) at byte \(offset)" }
}

/// Reads JSON to the letter of RFC 8259, from UTF-8.
///
/// It refuses a second member of one name and half of a surrogate pair, because both would be changed silently further on.
struct JSONParser {
    /// Levels of nested lists and objects. The agent itself accepts 32 below `data`.
    static let levelsMax = 64

    private let bytes: [UInt8]
    private var offset = 0
    private var level = 0

    static func parse(_ bytes: [UInt8]) throws(JSONFault) -> JSONValue {
        var parser = JSONParser(bytes)
        parser.skipSpace()
        let value = try parser.value()
        parser.skipSpace()
        guard parser.offset == bytes.count else { throw parser.fault("there is more behind the value") }
        return value
    }

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    private var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private func fault(_ reason: String) -> JSONFault { JSONFault(offset: offset, reason: reason) }

    private mutating func skipSpace() {
        while let next, next == 0x20 || next == 0x0A || next == 0x0D || next == 0x09 { offset += 1 }
    }

    private mutating func accept(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        offset += 1
        return true
    }

    private mutating func expect(_ byte: UInt8) throws(JSONFault) {
        guard accept(byte) else { throw fault("\(Character(Unicode.Scalar(byte))) is missing") }
    }

    // MARK: Values

    private mutating func value() throws(JSONFault) -> JSONValue {
        switch next {
        case UInt8(ascii: "{"): return .object(try object())
        case UInt8(ascii: "["): return .array(try array())
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case nil: throw fault("the text ends within a value")
        default: return try number()
        }
    }

    private mutating func word(_ word: String, _ value: JSONValue) throws(JSONFault) -> JSONValue {
        guard bytes[offset...].starts(with: word.utf8) else { throw fault("there is no value of JSON") }
        offset += word.utf8.count
        return value
    }

    private mutating func number() throws(JSONFault) -> JSONValue {
        var scanner = JSONNumberScanner(bytes[offset...])
        guard let isWhole = scanner.scan() else { throw fault("there is no value of JSON") }
        let text = String(decoding: bytes[offset..<scanner.bytes.startIndex], as: UTF8.self)
        offset = scanner.bytes.startIndex
        // `-0` is no whole number: as one it would lose its sign.
        if isWhole, text != "-0", let whole = Int64(text) { return .integer(whole) }
        return .decimal(JSONNumber(checked: text))
    }

    private mutating func descend() throws(JSONFault) {
        level += 1
        if level > Self.levelsMax { throw fault("there are more than \(Self.levelsMax) levels") }
        offset += 1
        skipSpace()
    }

    private mutating func array() throws(JSONFault) -> [JSONValue] {
        try descend()
        defer { level -= 1 }
        var elements: [JSONValue] = []
        if accept(UInt8(ascii: "]")) { return elements }
        while true {
            skipSpace()
            elements.append(try value())
            skipSpace()
            if accept(UInt8(ascii: "]")) { return elements }
            try expect(UInt8(ascii: ","))
        }
    }

    private mutating func object() throws(JSONFault) -> JSONObject {
        try descend()
        defer { level -= 1 }
        var object = JSONObject()
        if accept(UInt8(ascii: "}")) { return object }
        while true {
            skipSpace()
            let place = offset
            guard next == UInt8(ascii: "\"") else { throw fault("the name of a member is missing") }
            let name = try string()
            skipSpace()
            try expect(UInt8(ascii: ":"))
            skipSpace()
            let value = try value()
            guard object.append(name, value) else {
                throw JSONFault(offset: place, reason: "the member \(name) is there twice")
            }
            skipSpace()
            if accept(UInt8(ascii: "}")) { return object }
            try expect(UInt8(ascii: ","))
        }
    }

    // MARK: Strings

    private mutating func string() throws(JSONFault) -> String {
        offset += 1
        let begin = offset
        var unescaped: [UInt8]?
        while true {
            guard let byte = next else { throw fault("the text ends within a string") }
            switch byte {
            case UInt8(ascii: "\""):
                let content = unescaped ?? Array(bytes[begin..<offset])
                guard let text = String(validating: content, as: UTF8.self) else {
                    throw JSONFault(offset: begin, reason: "the string is not UTF-8")
                }
                offset += 1
                return text
            case UInt8(ascii: "\\"):
                var content = unescaped ?? Array(bytes[begin..<offset])
                offset += 1
                try escape(into: &content)
                unescaped = content
            case ..<0x20:
                throw fault("a control character stands in a string without its escape")
            default:
                unescaped?.append(byte)
                offset += 1
            }
        }
    }

    private mutating func escape(into content: inout [UInt8]) throws(JSONFault) {
        guard let byte = next else { throw fault("the text ends within a string") }
        offset += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): content.append(byte)
        case UInt8(ascii: "b"): content.append(0x08)
        case UInt8(ascii: "f"): content.append(0x0C)
        case UInt8(ascii: "n"): content.append(0x0A)
        case UInt8(ascii: "r"): content.append(0x0D)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "u"): content += try unicodeEscape()
        default:
            offset -= 1
            throw fault("there is no such escape")
        }
    }

    private mutating func unicodeEscape() throws(JSONFault) -> String.UTF8View {
        let place = offset
        let halfPair = JSONFault(offset: place, reason: "a string holds half of a surrogate pair")
        var code = UInt32(try hexadecimal())
        if code >= 0xD800, code < 0xE000 {
            guard code < 0xDC00, accept(UInt8(ascii: "\\")), accept(UInt8(ascii: "u")) else { throw halfPair }
            let low = UInt32(try hexadecimal())
            guard low >= 0xDC00, low < 0xE000 else { throw halfPair }
            code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(code) else { throw halfPair }
        return String(Character(scalar)).utf8
    }

    private mutating func hexadecimal() throws(JSONFault) -> UInt16 {
        var value: UInt16 = 0
        for _ in 0..<4 {
            guard let next, let digit = Character(Unicode.Scalar(next)).hexDigitValue, next < 0x80 else {
                throw fault("an escape needs four hexadecimal digits")
            }
            value = value << 4 | UInt16(digit)
            offset += 1
        }
        return value
    }
}
