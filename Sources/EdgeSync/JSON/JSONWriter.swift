/// Writes JSON without white space.
struct JSONWriter {
    private(set) var bytes: [UInt8] = []

    /// The bytes of a value that is sent.
    ///
    /// - Throws: `invalidArgument` if it has more levels than any JSON that this library reads.
    static func bytes(of object: JSONObject) throws(EdgeSyncError) -> [UInt8] {
        guard isShallow(.object(object), levels: JSONParser.levelsMax) else {
            throw .invalidArgument("the value has more than \(JSONParser.levelsMax) levels of lists and objects")
        }
        var writer = JSONWriter()
        writer.append(.object(object))
        return writer.bytes
    }

    mutating func append(_ value: JSONValue) {
        switch value {
        case .null: bytes += "null".utf8
        case .bool(let value): bytes += (value ? "true" : "false").utf8
        case .integer(let value): bytes += value.description.utf8
        case .decimal(let number): bytes += number.text.utf8
        case .string(let text): append(text)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (place, element) in elements.enumerated() {
                if place > 0 { bytes.append(UInt8(ascii: ",")) }
                append(element)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let object):
            bytes.append(UInt8(ascii: "{"))
            for (place, member) in object.enumerated() {
                if place > 0 { bytes.append(UInt8(ascii: ",")) }
                append(member.name)
                bytes.append(UInt8(ascii: ":"))
                append(member.value)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0x08: bytes += "\\b".utf8
            case 0x09: bytes += "\\t".utf8
            case 0x0A: bytes += "\\n".utf8
            case 0x0C: bytes += "\\f".utf8
            case 0x0D: bytes += "\\r".utf8
            case ..<0x20:
                bytes += "\\u00".utf8
                bytes += [Self.digits[Int(byte >> 4)], Self.digits[Int(byte & 15)]]
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static let digits = Array("0123456789abcdef".utf8)

    private static func isShallow(_ value: JSONValue, levels: Int) -> Bool {
        switch value {
        case .null, .bool, .integer, .decimal, .string: true
        case .array(let elements): levels > 0 && elements.allSatisfy { isShallow($0, levels: levels - 1) }
        case .object(let object): levels > 0 && object.allSatisfy { isShallow($0.value, levels: levels - 1) }
        }
    }
}
