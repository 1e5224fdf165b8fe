/// The bytes as hexadecimal digits: two small ones for each.
package func hexText(_ bytes: [UInt8]) -> String {
    String(unsafeUninitializedCapacity: bytes.count * 2) { text in
        for (index, byte) in bytes.enumerated() {
            text[index * 2] = hexDigits[Int(byte >> 4)]
            text[index * 2 + 1] = hexDigits[Int(byte & 15)]
        }
        return bytes.count * 2
    }
}

private let hexDigits = Array("0123456789abcdef".utf8)

/// The bytes of a text in the form of ``hexText(_:)``; capital digits are read, too.
///
/// - Returns: `nil` unless it is pairs of hexadecimal digits.
package func hexBytes(_ text: String) -> [UInt8]? {
    guard text.utf8.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count / 2)
    var high: UInt8?
    for byte in text.utf8 {
        guard let digit = hexDigit(byte) else { return nil }
        if let first = high { bytes.append(first << 4 | digit) }
        high = high == nil ? digit : nil
    }
    return bytes
}
