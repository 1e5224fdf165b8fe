/// Sizes as text: `200B`, `64KB`, `5MB`, `2GB` in powers of 1000 and `10KiB`, `1MiB`, `1GiB` in powers of 1024 are read and written;
/// `4.6 MB` is shown to people.
package enum SizeText {
    private static let units: [(name: String, factor: Int64)] = [
        ("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30),
    ]

    package static let rule = "must be a size such as 200KB, 5MB or 10MiB"

    /// - Returns: `nil` for any other text, also for a number without a unit, and for a size that does not fit into 63 bits.
    package static func parse(_ text: String) -> Int64? { quantity(text, units) }

    /// The size in the form that ``parse(_:)`` reads, in the unit that gives the smallest whole number.
    package static func exact(_ bytes: Int64) -> String {
        if bytes == 0 { return "0B" }
        let unit = units.filter { bytes % $0.factor == 0 }.max { $0.factor < $1.factor } ?? units[0]
        return String(bytes / unit.factor) + unit.name
    }

    /// The size for people, in powers of 1000, with one decimal below 10 of a unit: `230 B`, `4.6 MB`, `18 KB`.
    package static func readable(_ bytes: Int64) -> String {
        if bytes < 1_000 { return "\(max(0, bytes)) B" }
        var unit: Int64 = 1_000
        for name in ["KB", "MB", "GB", "TB"] {
            let tenths = bytes.saturatingAdd(unit / 20) / (unit / 10)
            if tenths < 100 { return "\(tenths / 10).\(tenths % 10) \(name)" }
            let whole = bytes.saturatingAdd(unit / 2) / unit
            // A value that rounds to 1000 uses the next unit.
            if whole < 1_000 || name == "TB" { return "\(whole) \(name)" }
            unit *= 1_000
        }
        return "\(bytes) B"
    }
}

/// Reads a whole number without sign and leading zeros, directly followed by one of the units.
func quantity(_ text: String, _ units: [(name: String, factor: Int64)]) -> Int64? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let rest = text.dropFirst(digits.count)
    guard !digits.isEmpty, digits.utf8.count == 1 || digits.utf8.first != UInt8(ascii: "0"), let number = Int64(digits),
        let unit = units.first(where: { $0.name.utf8.elementsEqual(rest.utf8) })
    else { return nil }
    let (product, overflow) = number.multipliedReportingOverflow(by: unit.factor)
    return overflow ? nil : product
}
