/// Durations as people write them: `500ms`, `30s`, `5m`, `2h`, `7d`.
package enum DurationText {
    /// - Returns: `nil` for any other text, for a negative duration, and for more than 10,000 years.
    package static func parse(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, let count = Int64(digits), count <= 3_650_000 * 86_400 else { return nil }
        switch text.dropFirst(digits.count) {
        case "ms": return .milliseconds(count)
        case "s": return .seconds(count)
        case "m": return count <= 3_650_000 * 1_440 ? .seconds(count * 60) : nil
        case "h": return count <= 3_650_000 * 24 ? .seconds(count * 3_600) : nil
        case "d": return count <= 3_650_000 ? .seconds(count * 86_400) : nil
        default: return nil
        }
    }
}
