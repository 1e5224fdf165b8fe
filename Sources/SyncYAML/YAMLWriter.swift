package import SyncCore

/// Writes values as YAML that ``YAMLDocument`` reads back: mappings as indented blocks, lists in one line each, texts in double quotes.
/// Null members are left out, because null is the listed form of "not set".
package enum YAMLWriter {
    package static func text(_ object: JSONObject) -> String {
        var text = ""
        write(object, indent: "", to: &text)
        return text
    }

    private static func write(_ object: JSONObject, indent: String, to text: inout String) {
        for member in object.members where !member.value.isNull {
            text += indent + key(member.name.text) + ":"
            if case .object(let inner) = member.value, inner.members.contains(where: { !$0.value.isNull }) {
                text += "\n"
                write(inner, indent: indent + "  ", to: &text)
            } else {
                text += " " + flow(member.value) + "\n"
            }
        }
    }

    private static func flow(_ value: JSON) -> String {
        switch value {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let number): number.source
        case .string(let string): quoted(string.text)
        case .array(let elements): "[" + elements.map(flow).joined(separator: ", ") + "]"
        case .object(let object):
            "{"
                + object.members.filter { !$0.value.isNull }.map { key($0.name.text) + ": " + flow($0.value) }
                .joined(separator: ", ") + "}"
        }
    }

    private static func key(_ name: String) -> String {
        keyText(name).utf8.first == UInt8(ascii: "\"") ? quoted(name) : name
    }

    /// Values of a configuration have no control characters, but this writer must not rely on it.
    private static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": result += "\\" + String(scalar)
            default:
                if scalar.value < 32 || (0x7F...0x9F).contains(scalar.value)
                    || [0x2028, 0x2029, 0xFEFF].contains(scalar.value)
                {
                    let digits = String(scalar.value, radix: 16)
                    result += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
                } else {
                    result += String(scalar)
                }
            }
        }
        return result + "\""
    }
}
