/// A digest of an entity's records: 256 sums, one for each bucket of record ids (PROTOCOL A8, "cheaper weekly check").
///
/// A record belongs to the bucket of the first byte of SHA-256 of its id. It adds the first 8 bytes, big-endian, of SHA-256 of
/// `<id>|<version>`, modulo 2^64. If two sides have equal sums for a bucket, they have the same ids in the same versions there, except for
/// one case in 2^64; buckets that differ are listed again. The digest takes 2.7 KB for an entity of any size.
///
/// It protects against mistakes, not against an attacker, who could forge records instead of sums.
package struct EntityDigest: Hashable, Sendable {
    package static let buckets = 256

    package private(set) var sums = [UInt64](repeating: 0, count: EntityDigest.buckets)

    package init() {}

    package mutating func add(_ id: RecordID, version: Int64) {
        let hash = SHA256.hash(Array("\(id.text)|\(version)".utf8))
        let value = hash[0..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        sums[Int(EntityDigest.bucket(of: id))] &+= value
    }

    package static func bucket(of id: RecordID) -> UInt8 { SHA256.hash(Array(id.text.utf8))[0] }

    /// Buckets with different sums, in order.
    package func differences(from other: EntityDigest) -> [UInt8] {
        (0..<EntityDigest.buckets).filter { sums[$0] != other.sums[$0] }.map { UInt8($0) }
    }
}

// MARK: - On the wire

extension EntityDigest {
    /// 256 numbers of 8 bytes, big-endian, in base64 (RFC 4648, section 4): 2,732 characters.
    package var text: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(8 * EntityDigest.buckets)
        for sum in sums {
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: sum >> UInt64(shift))) }
        }
        return Base64.encode(bytes)
    }

    /// - Returns: `nil` when the text is not in the format of ``text``.
    package init?(_ text: String) {
        guard text.utf8.count <= 4_096, let bytes = Base64.decode(text), bytes.count == 8 * EntityDigest.buckets else { return nil }
        for index in 0..<EntityDigest.buckets {
            sums[index] = bytes[(8 * index)..<(8 * index + 8)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        }
    }
}

/// base64 with padding (RFC 4648, section 4).
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let pad = UInt8(ascii: "=")

    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let part = bytes[start..<min(start + 3, bytes.count)]
            let bits = part.reduce(0) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - part.count))
            for index in 0..<4 {
                text.append(index <= part.count ? alphabet[Int(bits >> UInt32(18 - 6 * index) & 63)] : pad)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: `nil` for any text that ``encode(_:)`` does not make, such as one with stray bits at the end.
    package static func decode(_ text: String) -> [UInt8]? {
        let characters = Array(text.utf8)
        guard characters.count % 4 == 0 else { return nil }
        let padding = characters.suffix(2).count { $0 == pad }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(characters.count / 4 * 3)
        var bits: UInt32 = 0
        for (index, character) in characters.dropLast(padding).enumerated() {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            bits = bits << 6 | UInt32(value)
            if index % 4 == 3 {
                bytes.append(UInt8(truncatingIfNeeded: bits >> 16))
                bytes.append(UInt8(truncatingIfNeeded: bits >> 8))
                bytes.append(UInt8(truncatingIfNeeded: bits))
                bits = 0
            }
        }
        switch padding {
        case 1:
            guard bits & 3 == 0 else { return nil }
            bytes.append(UInt8(truncatingIfNeeded: bits >> 10))
            bytes.append(UInt8(truncatingIfNeeded: bits >> 2))
        case 2:
            guard bits & 15 == 0 else { return nil }
            bytes.append(UInt8(truncatingIfNeeded: bits >> 4))
        default: break
        }
        return bytes
    }
}
