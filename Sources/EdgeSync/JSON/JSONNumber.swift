/// A JSON number as its text. `0.1000000000000000055` and `18446744073709551616` stay what they are.
///
/// Two numbers are equal if their texts are.
public struct JSONNumber: Sendable, Hashable, CustomStringConvertible {
    /// The number as JSON writes it.
    public let text: String

    /// - Returns: `nil` if the text is not a number of JSON (RFC 8259, section 6), such as `01`, `+1`, `.5` or `NaN`.
    public init?(_ text: String) {
        var scanner = JSONNumberScanner(Array(text.utf8)[...])
        guard scanner.scan() != nil, scanner.bytes.isEmpty else { return nil }
        self.text = text
    }

    public init(_ value: some FixedWidthInteger) {
        text = String(value)
    }

    /// The shortest text that reads back as the same floating-point number.
    ///
    /// - Returns: `nil` if the value is infinite or not a number.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = value.description
    }

    init(checked text: String) {
        self.text = text
    }

    /// The nearest floating-point number.
    public var double: Double { Double(text) ?? .nan }

    /// The number as a whole number; `nil` if its text has a fraction or an exponent, or it does not fit.
    public func integer<Whole: FixedWidthInteger>(as type: Whole.Type = Whole.self) -> Whole? { Whole(text) }

    public var description: String { text }

    /// Both texts are the same number, such as `1.10` and `11e-1`.
    func hasSameValue(as other: JSONNumber) -> Bool {
        let (one, other) = (Scientific(text), Scientific(other.text))
        return one == other
    }
}

/// Sign, digits and exponent of a number, so that each number has one form: zero has no digits.
private struct Scientific: Equatable {
    var isNegative: Bool
    var digits: Substring
    /// Power of ten of the last digit; `nil` if it passes 64 bits.
    var exponent: Int?

    init(_ text: String) {
        let parts = text.split(maxSplits: 1) { $0 == "e" || $0 == "E" }
        let point = parts[0].split(separator: ".", omittingEmptySubsequences: false)
        let fraction = point.count > 1 ? point[1] : ""
        digits = (point[0].drop { $0 == "-" } + fraction).drop { $0 == "0" }
        var zeros = 0
        while digits.last == "0" {
            digits.removeLast()
            zeros += 1
        }
        isNegative = text.hasPrefix("-")
        let written = parts.count > 1 ? Int(parts[1]) : 0
        exponent = digits.isEmpty ? 0 : written.map { $0 &- fraction.utf8.count &+ zeros }
    }
}

extension JSONNumber: ExpressibleByStringLiteral {
    /// The literal must be a number of JSON.
    public init(stringLiteral text: String) {
        guard let number = JSONNumber(text) else { preconditionFailure("\(text) is not a number of JSON") }
        self = number
    }
}

/// Reads the grammar of RFC 8259, section 6: an optional minus, digits without a leading zero, a fraction, an exponent.
struct JSONNumberScanner {
    private(set) var bytes: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
    }

    /// Removes the number from the beginning of the bytes.
    ///
    /// - Returns: `true` if the number has neither a fraction nor an exponent; `nil` if the bytes do not begin with a number.
    mutating func scan() -> Bool? {
        var isWhole = true
        _ = accept { $0 == UInt8(ascii: "-") }
        guard let first = bytes.first, isDigit(first) else { return nil }
        if first == UInt8(ascii: "0") { bytes.removeFirst() } else { digits() }
        if accept({ $0 == UInt8(ascii: ".") }) {
            isWhole = false
            guard digits() else { return nil }
        }
        if accept({ $0 | 0x20 == UInt8(ascii: "e") }) {
            isWhole = false
            _ = accept { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }
            guard digits() else { return nil }
        }
        return isWhole
    }

    @discardableResult
    private mutating func digits() -> Bool {
        let rest = bytes.drop(while: isDigit)
        defer { bytes = rest }
        return rest.startIndex > bytes.startIndex
    }

    private mutating func accept(_ matches: (UInt8) -> Bool) -> Bool {
        guard let first = bytes.first, matches(first) else { return false }
        bytes.removeFirst()
        return true
    }

    private func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}
