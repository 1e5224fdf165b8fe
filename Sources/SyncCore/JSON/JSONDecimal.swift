extension JSONNumber {
    /// The parts that order it among other numbers: the sign, the power of ten of its first digit, and its digits without zeros at either
    /// end. Zero has no digits.
    package var orderedParts: (isNegative: Bool, place: Int, digits: String.UTF8View) {
        let decimal = Decimal(self)
        let digits = decimal.digits == "0" ? "" : decimal.digits
        return (decimal.isNegative, digits.utf8.count + decimal.exponent, digits.utf8)
    }

    /// The number as `digits` times ten to `exponent`, without zeros at either end, if it has at most 18 digits then. It costs no memory.
    ///
    /// Two equal numbers have the same parts, or both have none.
    var shortParts: ShortParts? {
        var parts = ShortParts()
        var count = 0
        /// Zeros after the last other digit.
        var zeros = 0
        var written = 0
        var isFraction = false, isExponent = false, isSmall = false
        for byte in source.utf8 {
            switch byte {
            case UInt8(ascii: "-"): if isExponent { isSmall = true } else { parts.isNegative = true }
            case UInt8(ascii: "+"): break
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"): isExponent = true
            default:
                let digit = Int(byte - UInt8(ascii: "0"))
                if isExponent {
                    written = min(10 * written + digit, Decimal.exponentMax)
                    continue
                }
                if isFraction { parts.exponent -= 1 }
                if digit == 0 {
                    if count > 0 { zeros += 1 }
                    continue
                }
                count += zeros + 1
                guard count <= 18 else { return nil }
                for _ in 0...zeros { parts.digits *= 10 }
                parts.digits += UInt64(digit)
                zeros = 0
            }
        }
        if count == 0 { return ShortParts() }
        parts.exponent += zeros + (isSmall ? -written : written)
        return parts
    }

    struct ShortParts: Hashable {
        var isNegative = false
        var digits: UInt64 = 0
        var exponent = 0
    }

    /// A number in normal form: `digits` times ten to `exponent`, without leading or trailing zeros; zero is `0 * 10^0`.
    ///
    /// An exponent beyond ``exponentMax`` is limited, so that arithmetic on exponents cannot overflow. Such numbers stay exact in their
    /// source; only comparing them with each other is then approximate.
    struct Decimal: Hashable {
        /// Far beyond every meaningful number, and far enough from the limits of `Int`.
        static let exponentMax = 1 << 40

        var isNegative: Bool
        var digits: String
        var exponent: Int

        init(_ number: JSONNumber) {
            var whole: [UInt8] = []
            var scale = 0
            var exponentDigits: [UInt8] = []
            var exponentNegative = false
            var negative = false
            enum Part { case whole, fraction, exponent }
            var part = Part.whole
            for byte in number.source.utf8 {
                switch (byte, part) {
                case (UInt8(ascii: "-"), .exponent): exponentNegative = true
                case (UInt8(ascii: "-"), _): negative = true
                case (UInt8(ascii: "+"), _): break
                case (UInt8(ascii: "."), _): part = .fraction
                case (UInt8(ascii: "e"), _), (UInt8(ascii: "E"), _): part = .exponent
                case (_, .whole): whole.append(byte)
                case (_, .fraction):
                    whole.append(byte)
                    scale -= 1
                case (_, .exponent): exponentDigits.append(byte)
                }
            }
            let written = Int(String(decoding: exponentDigits, as: UTF8.self)) ?? (exponentDigits.isEmpty ? 0 : .max)
            let given = min(written, Self.exponentMax)
            self.init(negative: negative, digits: whole, exponent: (exponentNegative ? -given : given) + scale)
        }

        private init(negative: Bool, digits: [UInt8], exponent: Int) {
            let zero = UInt8(ascii: "0")
            var trimmed = digits.drop { $0 == zero }
            var power = exponent
            while trimmed.last == zero {
                trimmed.removeLast()
                power += 1
            }
            isNegative = negative && !trimmed.isEmpty
            self.digits = trimmed.isEmpty ? "0" : String(decoding: trimmed, as: UTF8.self)
            self.exponent = trimmed.isEmpty ? 0 : power
        }

        static func < (left: Decimal, right: Decimal) -> Bool {
            if left == right { return false }
            if left.isNegative != right.isNegative { return left.isNegative }
            let smaller = left.magnitudeIsLess(than: right)
            return left.isNegative ? !smaller : smaller
        }

        private func magnitudeIsLess(than other: Decimal) -> Bool {
            if digits == "0" || other.digits == "0" { return digits == "0" }
            let mine = digits.utf8.count + exponent
            let its = other.digits.utf8.count + other.exponent
            if mine != its { return mine < its }
            return precedesInBytes(digits, other.digits)
        }

        /// Number of digits of the sum in plain notation, except for a carried one.
        func digitsOfSum(with other: Decimal) -> Int {
            max(digits.utf8.count + exponent, other.digits.utf8.count + other.exponent, 1) - min(exponent, other.exponent, 0)
        }

        func adding(_ other: Decimal, maxDigits: Int) -> JSONNumber? {
            let low = min(exponent, other.exponent)
            guard exponent - low <= maxDigits, other.exponent - low <= maxDigits, abs(low) <= maxDigits else { return nil }
            let left = padded(to: low), right = other.padded(to: low)
            guard max(left.count, right.count) <= maxDigits else { return nil }
            var negative = isNegative
            let sum: [UInt8]
            if isNegative == other.isNegative {
                sum = Decimal.add(left, right)
            } else if Decimal.less(left, right) {
                sum = Decimal.subtract(right, left)
                negative = other.isNegative
            } else {
                sum = Decimal.subtract(left, right)
            }
            return Decimal(negative: negative, digits: sum, exponent: low).number
        }

        /// The number in plain notation, without an exponent.
        private var number: JSONNumber {
            var text: String
            if exponent >= 0 {
                text = digits + String(repeating: "0", count: exponent)
            } else if digits.utf8.count > -exponent {
                text = String(digits.dropLast(-exponent)) + "." + String(digits.suffix(-exponent))
            } else {
                text = "0." + String(repeating: "0", count: -exponent - digits.utf8.count) + digits
            }
            if isNegative { text = "-" + text }
            return JSONNumber(validSource: text)
        }

        private func padded(to low: Int) -> [UInt8] {
            Array(digits.utf8) + [UInt8](repeating: UInt8(ascii: "0"), count: exponent - low)
        }

        private static func less(_ left: [UInt8], _ right: [UInt8]) -> Bool {
            let a = left.drop { $0 == UInt8(ascii: "0") }, b = right.drop { $0 == UInt8(ascii: "0") }
            return a.count != b.count ? a.count < b.count : a.lexicographicallyPrecedes(b)
        }

        private static func add(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] {
            var result: [UInt8] = []
            var carry = 0
            for index in 0..<max(left.count, right.count) {
                let sum = digit(left, index) + digit(right, index) + carry
                result.append(UInt8(ascii: "0") + UInt8(sum % 10))
                carry = sum / 10
            }
            if carry > 0 { result.append(UInt8(ascii: "0") + UInt8(carry)) }
            return result.reversed()
        }

        /// - Precondition: `left >= right`.
        private static func subtract(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] {
            var result: [UInt8] = []
            var borrow = 0
            for index in 0..<left.count {
                var difference = digit(left, index) - digit(right, index) - borrow
                borrow = difference < 0 ? 1 : 0
                if difference < 0 { difference += 10 }
                result.append(UInt8(ascii: "0") + UInt8(difference))
            }
            return result.reversed()
        }

        private static func digit(_ digits: [UInt8], _ fromEnd: Int) -> Int {
            fromEnd < digits.count ? Int(digits[digits.count - 1 - fromEnd] - UInt8(ascii: "0")) : 0
        }
    }
}
