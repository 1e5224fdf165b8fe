/// The preference `wait` of RFC 7240, section 4.3: the client of a pull without news accepts a later answer (PROTOCOL A3).
package enum WaitPreference {
    package static let field = "Prefer"
    package static let appliedField = "Preference-Applied"
    /// Longest wait, seconds. Many proxies end a request that got no byte of its answer for 60 s.
    package static let secondsMax = 55

    /// Reads the field values of a request, joined by commas.
    ///
    /// - Returns: 1 to ``secondsMax``; `nil` when there is no such preference, or its value is no number of seconds above 0. Such a value
    ///   is ignored, as is every other preference.
    package static func seconds(in text: String) -> Int? {
        for preference in parts(of: Array(text.utf8), at: UInt8(ascii: ",")) {
            let item = parts(of: preference, at: UInt8(ascii: ";"))[0]
            let sides = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false).map { trimmed($0) }
            guard asciiCaseEqual(String(decoding: sides[0], as: UTF8.self), "wait") else { continue }
            // Only the first one of a name counts.
            return sides.count == 2 ? number(sides[1]) : nil
        }
        return nil
    }

    /// The preference as both sides write it.
    package static func text(_ seconds: Int) -> String { "wait=\(seconds)" }

    /// Splits a value outside of its quoted strings.
    private static func parts(of text: [UInt8], at separator: UInt8) -> [[UInt8]] {
        var parts: [[UInt8]] = [[]]
        var (isQuoted, isEscaped) = (false, false)
        for byte in text {
            if byte == separator, !isQuoted {
                parts.append([])
                continue
            }
            if byte == UInt8(ascii: "\""), !isEscaped { isQuoted.toggle() }
            isEscaped = isQuoted && byte == UInt8(ascii: "\\") && !isEscaped
            parts[parts.count - 1].append(byte)
        }
        return parts
    }

    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        return text.drop(while: isBlank).reversed().drop(while: isBlank).reversed()[...]
    }

    private static func number(_ text: ArraySlice<UInt8>) -> Int? {
        var digits = text
        if digits.count >= 2, digits.first == UInt8(ascii: "\""), digits.last == UInt8(ascii: "\"") {
            digits = digits.dropFirst().dropLast()
        }
        guard !digits.isEmpty, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        let seconds = digits.reduce(0) { min(secondsMax, $0 * 10 + Int($1 - UInt8(ascii: "0"))) }
        return seconds > 0 ? seconds : nil
    }
}
