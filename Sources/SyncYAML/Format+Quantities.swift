import SyncCore

// Quantities always carry their unit: `60` alone could be seconds or milliseconds, and would be misread. They have one whole number and one
// unit; quotes make no difference, because they are text anyway.

extension Format where Value == Duration {
    /// A duration such as `500ms`, `30s`, `5m`, `24h` or `7d`.
    package static func duration(_ range: ClosedRange<Duration>) -> Format {
        let expected =
            "a duration from \(DurationText.write(range.lowerBound)) to \(DurationText.write(range.upperBound))"
            + ", such as 500ms, 30s, 5m, 24h or 7d"
        return .text(
            expected: expected,
            parse: { text in DurationText.read(text).flatMap { range.contains($0) ? $0 : nil } },
            write: { .string(DurationText.write($0)) })
    }
}

extension Format where Value == Int {
    /// Bytes: `64KB`, `5MB`, `2GB` in powers of 1000, `10KiB`, `1MiB`, `1GiB` in powers of 1024, `200B`.
    package static func size(_ range: ClosedRange<Int>) -> Format {
        let expected =
            "a size from \(SizeText.write(range.lowerBound)) to \(SizeText.write(range.upperBound))"
            + ", such as 64KB, 5MB or 10KiB"
        return .text(
            expected: expected, parse: { text in SizeText.read(text).flatMap { range.contains($0) ? $0 : nil } },
            write: { .string(SizeText.write($0)) })
    }

    /// A percentage without decimals, such as `15%`.
    package static func share(_ range: ClosedRange<Int>) -> Format {
        .text(
            expected: "a share from \(range.lowerBound)% to \(range.upperBound)%",
            parse: { text in
                guard text.utf8.last == UInt8(ascii: "%"), let value = wholeNumber(text.dropLast()),
                    range.contains(value)
                else { return nil }
                return value
            }, write: { .string("\($0)%") })
    }
}

package enum DurationText {
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]

    /// - Returns: `nil` when it is not a duration, or longer than 292 million years.
    package static func read(_ text: String) -> Duration? {
        quantity(text, units: units.map { ($0.name, $0.milliseconds) }).map { .milliseconds($0) }
    }

    /// Uses the largest unit that gives a whole number, except `60s` and `24h` instead of `1m` and `1d`, which are more usual.
    package static func write(_ duration: Duration) -> String {
        let milliseconds = duration.milliseconds
        if milliseconds == 60_000 { return "60s" }
        if milliseconds == 86_400_000 { return "24h" }
        if milliseconds == 0 { return "0s" }
        let unit = units.last { milliseconds % $0.milliseconds == 0 } ?? units[0]
        return String(milliseconds / unit.milliseconds) + unit.name
    }
}

package enum SizeText {
    private static let units: [(name: String, bytes: Int64)] = [
        ("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("KiB", 1 << 10), ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ]

    /// - Returns: `nil` when it is not a size, or is out of range.
    package static func read(_ text: String) -> Int? {
        quantity(text, units: units.map { ($0.name, $0.bytes) }).flatMap { Int(exactly: $0) }
    }

    /// Uses the unit that gives the smallest whole number.
    package static func write(_ bytes: Int) -> String {
        if bytes == 0 { return "0B" }
        let unit = units.filter { Int64(bytes) % $0.bytes == 0 }.max { $0.bytes < $1.bytes } ?? units[0]
        return String(Int64(bytes) / unit.bytes) + unit.name
    }
}

/// Reads a whole number without sign, directly followed by one of the units.
private func quantity(_ text: String, units: [(name: String, factor: Int64)]) -> Int64? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let rest = text.dropFirst(digits.count)
    guard !digits.isEmpty, digits.utf8.count == 1 || digits.utf8.first != 48, let number = Int64(digits),
        let unit = units.first(where: { $0.name.utf8.elementsEqual(rest.utf8) })
    else { return nil }
    let (product, overflow) = number.multipliedReportingOverflow(by: unit.factor)
    return overflow ? nil : product
}
