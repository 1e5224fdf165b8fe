/// The header field `Content-Range` of bytes (RFC 9110, section 14.4).
///
///     bytes 100-199/500    first 100, end 200, total 500
///     bytes 100-199/*      the total is not known
///     bytes */500          nothing; of an answer 416
package struct ContentRange: Hashable, Sendable {
    /// The bytes of the answer; `nil` when none of the requested ones exist.
    package var range: Range<Int64>?
    /// Size of the whole, bytes.
    package var total: Int64?

    /// - Returns: `nil` for another unit, for numbers that contradict each other, and for any other text.
    package init?(_ text: String) {
        let text = text.trimmingSpaces
        guard asciiCaseEqual(String(text.prefix(6)), "bytes ") else { return nil }
        let sides = text.dropFirst(6).split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map { $0.trimmingSpaces }
        guard sides.count == 2 else { return nil }
        if sides[1] != "*" {
            guard let count = Tus.count(sides[1]) else { return nil }
            total = count
        }
        if sides[0] == "*" {
            guard total != nil else { return nil }
            return
        }
        let ends = sides[0].split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Tus.count(String(ends[0])), let last = Tus.count(String(ends[1])), last >= first, last < .max,
            total.map({ last < $0 }) ?? true
        else { return nil }
        range = first..<(last + 1)
    }
}
