extension JSONNumber {
    /// `true` for a number without a fraction, whatever its size and notation: `1.0` and `1e400` are whole.
    package var isWhole: Bool {
        if source.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) { return true }
        return Decimal(self).exponent >= 0
    }
}

/// The value of `multipleOf`, which divides exactly or not at all: 0.3 is a multiple of 0.1, as no `Double` knows.
struct DecimalDivisor: Sendable {
    /// Largest number of digits without zeros at either end.
    static let digitsMax = 18

    let number: JSONNumber
    private let digits: UInt64
    private let exponent: Int

    /// - Returns: `nil` when the number is not above 0 or has more than ``digitsMax`` digits.
    init?(_ number: JSONNumber) {
        let decimal = JSONNumber.Decimal(number)
        guard !decimal.isNegative, decimal.digits != "0", decimal.digits.utf8.count <= Self.digitsMax, let digits = UInt64(decimal.digits)
        else { return nil }
        self.number = number
        self.digits = digits
        exponent = decimal.exponent
    }

    /// Returns whether the number is a whole multiple. Takes time proportional to the digits of the number.
    func divides(_ number: JSONNumber) -> Bool {
        let decimal = JSONNumber.Decimal(number)
        if decimal.digits == "0" { return true }
        // The last digit of a number in normal form is not 0, so a smaller power of ten cannot be divided by a larger one.
        guard decimal.exponent >= exponent else { return false }
        var rest: UInt64 = 0
        // `rest` is below 10^18, so that ten times as much fits.
        for digit in decimal.digits.utf8 { rest = (rest * 10 + UInt64(digit - UInt8(ascii: "0"))) % digits }
        return product(rest, powerOfTen(decimal.exponent - exponent)) == 0
    }

    private func powerOfTen(_ exponent: Int) -> UInt64 {
        var (result, base, left) = (1 % digits, 10 % digits, exponent)
        while left > 0 {
            if left & 1 == 1 { result = product(result, base) }
            base = product(base, base)
            left >>= 1
        }
        return result
    }

    private func product(_ left: UInt64, _ right: UInt64) -> UInt64 {
        digits.dividingFullWidth(left.multipliedFullWidth(by: right)).remainder
    }
}
