import SyncCore

/// Numbers for people.
extension Double {
    /// Rounded to this number of decimals, with trailing zeros and separated thousands: `12,345.60`.
    package func fixed(_ decimals: Int) -> String {
        guard isFinite, magnitude < 1e15 else { return "\(self)" }
        let scale = (0..<decimals).reduce(1.0) { scale, _ in scale * 10 }
        let scaled = Int64((magnitude * scale).rounded())
        let whole = scaled / Int64(scale)
        let fraction = scaled % Int64(scale)
        let sign = self < 0 && scaled != 0 ? "-" : ""
        guard decimals > 0 else { return sign + PlainText.count(whole) }
        let digits = String(fraction)
        return sign + PlainText.count(whole) + "." + String(repeating: "0", count: decimals - digits.utf8.count) + digits
    }

    /// Three significant digits, more for large numbers: `0.0123`, `1.23`, `12.3`, `1,234`.
    package var short: String {
        switch magnitude {
        case 100...: fixed(0)
        case 10...: fixed(1)
        case 1...: fixed(2)
        case 0: "0"
        default: fixed(4)
        }
    }
}
