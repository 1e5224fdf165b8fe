/// Text that no gzip makes smaller than half.
enum Noise {
    /// - Returns: So many digits of random numbers. One number gives sixteen of them, because one for each digit asks the kernel every
    /// time.
    static func hexadecimal(_ count: Int) -> String {
        var text = ""
        while text.utf8.count < count {
            let digits = String(UInt64.random(in: 0 ... .max), radix: 16)
            text += String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }
        return String(text.prefix(count))
    }
}
