/// Numbers, times and outside text in the form for a terminal.
package enum PlainText {
    /// A number with separators, such as `8,123`.
    package static func count(_ value: Int64) -> String {
        let digits = String(value.magnitude)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return value < 0 ? "-" + text : text
    }

    /// A number with what it counts, in singular or plural: `1 record`, `8,123 records`.
    ///
    /// - Parameter many: The plural; without it, `one` with an "s".
    package static func count(_ value: Int64, _ one: String, _ many: String? = nil) -> String {
        count(value) + " " + (value == 1 ? one : many ?? one + "s")
    }

    package static func count(_ value: Int, _ one: String, _ many: String? = nil) -> String { count(Int64(value), one, many) }

    /// A number with at least this many digits, filled up with zeros.
    package static func digits(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }

    /// Text, filled up with spaces to this width, columns; longer text stays as it is.
    package static func padded(_ text: String, to width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - columns(text)))
    }

    /// The time of day when `time` is on the same day as `now`, otherwise with its date. `Z` marks UTC.
    ///
    /// - Parameter offset: Offset of local time from UTC.
    package static func clock(_ time: Timestamp, now: Timestamp, offset: Duration) -> String {
        let local = RFC3339.text(time.advanced(by: offset))
        let today = RFC3339.text(now.advanced(by: offset))
        let zone = offset == .zero ? "Z" : ""
        if local.prefix(10) == today.prefix(10) { return local.dropFirst(11).prefix(8) + zone }
        return local.prefix(10) + " " + local.dropFirst(11).prefix(5) + zone
    }

    /// Text from outside, made safe for one line of a screen or a log: `?` for each character that ``TerminalText`` would escape, line
    /// feeds and tabs included.
    package static func safe(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            if TerminalText.isUnsafe(scalar) { result += "?" } else { result.unicodeScalars.append(scalar) }
        }
        return result
    }

    /// Width of `text` on a terminal, columns: two for East Asian wide characters and pictographs, none for marks.
    package static func columns(_ text: String) -> Int {
        text.unicodeScalars.reduce(0) { $0 + columns($1) }
    }

    /// `text` in at most `width` columns, with `…` at a cut.
    package static func clip(_ text: String, to width: Int) -> String {
        if columns(text) <= width { return text }
        var result = ""
        var used = 1
        for scalar in text.unicodeScalars {
            used += columns(scalar)
            if used > width { break }
            result.unicodeScalars.append(scalar)
        }
        return width < 1 ? "" : result + "…"
    }

    /// `text` in lines of at most `width` columns, broken at spaces if possible; the last line is clipped.
    package static func wrap(_ text: String, to width: Int, lines most: Int) -> [String] {
        var lines: [String] = []
        var rest = text.unicodeScalars[...]
        while lines.count < most - 1, isWider(rest, than: width) {
            var end = rest.startIndex
            var space: String.Index?
            var used = 0
            while end < rest.endIndex, used + columns(rest[end]) <= width {
                used += columns(rest[end])
                if rest[end] == " ", end > rest.startIndex { space = end }
                end = rest.index(after: end)
            }
            // A word that ends exactly at the edge fits completely.
            if end < rest.endIndex, rest[end] == " " { space = end }
            // When not even one character fits, it is used all the same, or the loop would never end.
            if end == rest.startIndex { end = rest.index(after: end) }
            lines.append(String(rest[..<(space ?? end)]))
            rest = rest[(space ?? end)...].drop { $0 == " " }
        }
        return rest.isEmpty && !lines.isEmpty ? lines : lines + [clip(String(rest), to: width)]
    }

    /// Stops as early as possible, because a long text is checked for each of its lines.
    private static func isWider(_ text: Substring.UnicodeScalarView, than width: Int) -> Bool {
        var used = 0
        for scalar in text {
            used += columns(scalar)
            if used > width { return true }
        }
        return false
    }

    private static func columns(_ scalar: Unicode.Scalar) -> Int {
        switch scalar.value {
        case 0x20..<0x7F: return 1
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default:
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark, .format: return 0
            default: return 1
            }
        }
    }
}
