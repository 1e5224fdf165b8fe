/// Sizes as people write them: `200B`, `64KB`, `5MB`, `2GB` in powers of 1000, `10KiB`, `1MiB`, `1GiB` in powers of 1024.
package enum SizeText {
    private static let units: [(name: String, bytes: Int64)] = [
        ("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("KiB", 1 << 10), ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ]

    /// - Returns: `nil` for any other text, also for a number without a unit, and for one that does not fit into 63 bits.
    package static func parse(_ text: String) -> Int64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let name = text.dropFirst(digits.count)
        guard !digits.isEmpty, let count = Int64(digits), let unit = units.first(where: { $0.name == name }) else {
            return nil
        }
        let (bytes, overflow) = count.multipliedReportingOverflow(by: unit.bytes)
        return overflow ? nil : bytes
    }

    package static let rule = "must be a size such as 200KB, 5MB or 10MiB"
}
