/// Makes text safe for a terminal: text from outside must not move the cursor, change the title, or hide or reverse the text beside it.
/// Every command of `agentctl` and `agenthub` writes through this if its output is a terminal; piped output is unchanged to the byte.
package enum TerminalText {
    /// The text with each control and format character as `\u` and four hexadecimal digits (two such escapes beyond U+FFFF, as in JSON, so
    /// JSON stays the same JSON). Line feeds and tabs stay, and so do the colour codes that our own screens use.
    package static func escaped(_ text: String) -> String {
        guard !text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) else { return text }
        var result = ""
        var rest = text.unicodeScalars[...]
        while let scalar = rest.first {
            if scalar == "\u{1B}", let end = colorEnd(rest) {
                result.unicodeScalars += rest[..<end]
                rest = rest[end...]
                continue
            }
            rest = rest.dropFirst()
            if scalar == "\n" || scalar == "\t" || !isUnsafe(scalar) {
                result.unicodeScalars.append(scalar)
            } else {
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    result += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
                }
            }
        }
        return result
    }

    /// Does the same for bytes; invalid UTF-8 becomes U+FFFD.
    package static func escaped(_ bytes: [UInt8]) -> [UInt8] {
        if bytes.allSatisfy({ $0 >= 0x20 && $0 < 0x7F || $0 == 0x0A }) { return bytes }
        return Array(escaped(String(decoding: bytes, as: UTF8.self)).utf8)
    }

    /// Returns whether a character is unsafe: control characters (C0, DEL and C1, which many terminals obey like ESC), format characters
    /// (zero width, direction, tags, soft hyphen, byte order mark), and separators of lines and paragraphs.
    package static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value >= 0x20 && scalar.value < 0x7F { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: return true
        default: return false
        }
    }

    /// The end of a colour code (`ESC [` digits and `;`, then `m`), if `text` begins with one. Colours are harmless.
    private static func colorEnd(_ text: Substring.UnicodeScalarView) -> String.Index? {
        let after = text.dropFirst()
        guard after.first == "[" else { return nil }
        let numbers = after.dropFirst().prefix(8).prefix { ("0"..."9").contains($0) || $0 == ";" }
        guard numbers.endIndex < text.endIndex, text[numbers.endIndex] == "m" else { return nil }
        return text.index(after: numbers.endIndex)
    }
}
