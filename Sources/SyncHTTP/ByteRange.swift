/// The one range of a `Range` field in bytes (RFC 9110, section 14.1.2).
package enum ByteRange: Hashable, Sendable {
    /// `bytes=N-` and `bytes=N-M`; `last` counts from 0 and is included.
    case from(Int64, last: Int64?)
    /// `bytes=-N`
    case last(Int64)

    /// The unit is read without regard to case, as the standard says. Numbers above 2^63-1 count as that.
    ///
    /// - Returns: `nil` for several ranges, for another unit and for a text that is none: such a field is ignored.
    package init?(_ text: String) {
        let sides = text.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false).map(Self.trimmed)
        guard sides.count == 2, sides[0].elementsEqual("bytes".utf8, by: { $0 | 0x20 == $1 }) else { return nil }
        let ends = sides[1].split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        switch (Self.number(ends[0]), Self.number(ends[1])) {
        case (let first?, let last?) where first <= last: self = .from(first, last: last)
        case (let first?, nil) where ends[1].isEmpty: self = .from(first, last: nil)
        case (nil, let count?) where ends[0].isEmpty: self = .last(count)
        case (_, _): return nil
        }
    }

    /// The bytes of a file of this size; `nil`: none of them exists.
    package func bytes(of size: Int64) -> Range<Int64>? {
        switch self {
        case .from(let first, let last):
            guard first < size else { return nil }
            return first..<(min(size - 1, last ?? .max) + 1)
        case .last(let count):
            guard count > 0, size > 0 else { return nil }
            return max(0, size - count)..<size
        }
    }

    private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
        func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var rest = text.drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return rest
    }

    private static func number(_ text: Substring.UTF8View) -> Int64? {
        guard !text.isEmpty, text.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return Int64(Substring(text)) ?? .max
    }
}
