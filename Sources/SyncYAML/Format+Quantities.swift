import SyncCore

// Quantities always carry their unit: `60` alone could be seconds or milliseconds, and would be misread. They have one whole number and one
// unit; quotes make no difference, because they are text anyway.

extension Format where Value == Duration {
    /// A duration such as `500ms`, `30s`, `5m`, `24h` or `7d`.
    package static func duration(_ range: ClosedRange<Duration>) -> Format {
        let expected =
            "a duration from \(DurationText.exact(range.lowerBound)) to \(DurationText.exact(range.upperBound))"
            + ", such as 500ms, 30s, 5m, 24h or 7d"
        return .text(
            expected: expected,
            parse: { text in DurationText.parse(text).flatMap { range.contains($0) ? $0 : nil } },
            write: { .string(DurationText.exact($0)) })
    }
}

extension Format where Value == Int {
    /// Bytes: `64KB`, `5MB`, `2GB` in powers of 1000, `10KiB`, `1MiB`, `1GiB` in powers of 1024, `200B`.
    package static func size(_ range: ClosedRange<Int>) -> Format {
        let expected =
            "a size from \(SizeText.exact(Int64(range.lowerBound))) to \(SizeText.exact(Int64(range.upperBound)))"
            + ", such as 64KB, 5MB or 10KiB"
        return .text(
            expected: expected,
            parse: { text in SizeText.parse(text).flatMap { Int(exactly: $0) }.flatMap { range.contains($0) ? $0 : nil } },
            write: { .string(SizeText.exact(Int64($0))) })
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
