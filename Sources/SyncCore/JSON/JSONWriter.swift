/// Writes JSON without building a tree. It adds commas and colons, and escapes text.
package struct JSONWriter: Sendable {
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    package init(capacity: Int = 256) {
        bytes.reserveCapacity(capacity)
    }

    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        body(&self)
        close(UInt8(ascii: "}"))
    }

    package mutating func array(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "["))
        body(&self)
        close(UInt8(ascii: "]"))
    }

    /// - Precondition: `name` needs no escape, because it is one of ours.
    package mutating func name(_ name: StaticString) {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func name(_ name: JSONString) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func string(_ text: String) {
        string(JSONString(text))
    }

    package mutating func string(_ string: JSONString) {
        comma()
        bytes.append(UInt8(ascii: "\""))
        append(string.source)
        bytes.append(UInt8(ascii: "\""))
    }

    package mutating func int(_ value: Int64) {
        comma()
        append(String(value))
    }

    package mutating func bool(_ value: Bool) {
        comma()
        append(value ? "true" : "false")
    }

    package mutating func null() {
        comma()
        append("null")
    }

    /// Writes one complete value that is JSON already.
    package mutating func raw(_ json: [UInt8]) {
        comma()
        bytes.append(contentsOf: json)
    }

    /// Writes one complete value that is JSON already.
    package mutating func raw(_ json: String) {
        comma()
        append(json)
    }

    package mutating func value(_ json: JSON) {
        switch json {
        case .null: null()
        case .bool(let value): bool(value)
        case .number(let value): raw(value.source)
        case .string(let value): string(value)
        case .array(let elements): array { writer in for element in elements { writer.value(element) } }
        case .object(let object): value(object)
        }
    }

    package mutating func value(_ object: JSONObject) {
        self.object { writer in
            for member in object.members {
                writer.name(member.name)
                writer.value(member.value)
            }
        }
    }

    package mutating func member(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        self.name(name)
        string(value)
    }

    package mutating func member(_ name: StaticString, _ value: Int64?) {
        guard let value else { return }
        self.name(name)
        int(value)
    }

    package mutating func member(_ name: StaticString, _ value: Bool) {
        self.name(name)
        bool(value)
    }

    package mutating func member(_ name: StaticString, _ value: JSON?) {
        guard let value else { return }
        self.name(name)
        self.value(value)
    }

    /// Appends a text as one copy; the view of a string's bytes would be copied byte by byte.
    private mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { bytes.append(contentsOf: $0) }
    }

    private mutating func comma() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func open(_ byte: UInt8) {
        comma()
        bytes.append(byte)
        needsComma = false
    }

    private mutating func close(_ byte: UInt8) {
        bytes.append(byte)
        needsComma = true
    }
}

extension JSON {
    /// The shortest JSON text: no spaces, members in their order, numbers and strings as they were sent.
    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.value(self)
        return writer.bytes
    }

    /// ``bytes`` as text.
    package var json: String { String(decoding: bytes, as: UTF8.self) }
}

extension JSONObject {
    package var bytes: [UInt8] { JSON.object(self).bytes }
    package var json: String { JSON.object(self).json }
}

extension JSONString {
    /// Escapes only the characters that RFC 8259 requires, so that other text is unchanged.
    static func escape(_ text: String) -> String {
        var text = text
        let isPlain = text.withUTF8 { bytes in
            bytes.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        }
        if isPlain { return text }
        var source = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": source += "\\\""
            case "\\": source += "\\\\"
            case "\n": source += "\\n"
            case "\r": source += "\\r"
            case "\t": source += "\\t"
            case "\u{8}": source += "\\b"
            case "\u{C}": source += "\\f"
            case "\u{0}"..<"\u{20}":
                source += scalar.value < 16 ? "\\u000" : "\\u00"
                source += String(scalar.value, radix: 16)
            default: source.unicodeScalars.append(scalar)
            }
        }
        return source
    }

    /// - Precondition: The escapes are valid.
    static func unescape(_ source: String) -> String {
        var units: [UInt8] = []
        var bytes = Array(source.utf8)[...]
        while let byte = bytes.popFirst() {
            guard byte == UInt8(ascii: "\\"), let kind = bytes.popFirst() else {
                units.append(byte)
                continue
            }
            switch kind {
            case UInt8(ascii: "n"): units.append(0x0A)
            case UInt8(ascii: "r"): units.append(0x0D)
            case UInt8(ascii: "t"): units.append(0x09)
            case UInt8(ascii: "b"): units.append(0x08)
            case UInt8(ascii: "f"): units.append(0x0C)
            case UInt8(ascii: "u"):
                var value = takeUnit(&bytes)
                if value >= 0xD800, value < 0xDC00 {
                    bytes = bytes.dropFirst(2)
                    value = 0x10000 + (value - 0xD800) << 10 + (takeUnit(&bytes) &- 0xDC00)
                }
                if let scalar = Unicode.Scalar(value) { units.append(contentsOf: String(Character(scalar)).utf8) }
            default: units.append(kind)
            }
        }
        return String(decoding: units, as: UTF8.self)
    }

    private static func takeUnit(_ bytes: inout ArraySlice<UInt8>) -> UInt32 {
        var value: UInt32 = 0
        for byte in bytes.prefix(4) { value = value << 4 | UInt32(hexDigit(byte) ?? 0) }
        bytes = bytes.dropFirst(4)
        return value
    }
}
