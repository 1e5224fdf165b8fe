/// Base64 with the alphabet that needs no escape in a URL or a header, without padding (RFC 4648, section 5).
package enum Base64URL {
    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits = 0
        var held: UInt32 = 0
        for byte in bytes {
            held = held << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(held >> UInt32(bits) & 63)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(held << UInt32(6 - bits) & 63)]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: `nil` for another character, an impossible length, or trailing bits that are not zero.
    package static func decode(_ text: String) -> [UInt8]? {
        guard text.utf8.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        var bits = 0
        var held: UInt32 = 0
        for character in text.utf8 {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            held = held << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: held >> UInt32(bits)))
                held &= (1 << UInt32(bits)) - 1
            }
        }
        return held == 0 ? bytes : nil
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
}
