/// CRC-32C (Castagnoli, RFC 3720 appendix B.4). It detects every damage of up to 32 consecutive bits, and all but one in four thousand
/// million of other damages. It protects rows against faulty flash, not against people.
///
/// It uses eight tables, so that eight bytes are one step ("slicing-by-8", Intel 2006).
package struct CRC32C: Sendable {
    private var state: UInt32 = 0xFFFF_FFFF

    package init() {}

    /// The checksum of bytes; for the text `123456789` it is 0xE3069283.
    package static func hash(_ bytes: [UInt8]) -> UInt32 {
        var digest = CRC32C()
        bytes.withUnsafeBytes { digest.update($0) }
        return digest.value
    }

    package var value: UInt32 { ~state }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        let tables = Self.tables
        var crc = state
        var index = 0
        while bytes.count - index >= 8 {
            crc = tables.step(crc, UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
            index += 8
        }
        while index < bytes.count {
            crc = tables.entry(0, crc ^ UInt32(bytes[index])) ^ (crc >> 8)
            index += 1
        }
        state = crc
    }

    /// Adds the eight bytes of a number, least significant first.
    package mutating func update(_ number: Int64) {
        state = Self.tables.step(state, UInt64(bitPattern: number))
    }

    /// Adds a field as its length and its bytes, so that bytes that move from one field to the next change the sum. An absent field differs
    /// from an empty one.
    package mutating func update(field bytes: UnsafeRawBufferPointer?) {
        update(Int64(bytes?.count ?? -1))
        if let bytes { update(bytes) }
    }

    package mutating func update(field text: String?) {
        guard var text else { return update(field: UnsafeRawBufferPointer?.none) }
        text.withUTF8 { update(field: UnsafeRawBufferPointer($0)) }
    }

    private struct Tables: @unchecked Sendable {
        /// 8 x 256 entries, made once, never freed and never written again.
        let entries: UnsafePointer<UInt32>

        @inline(__always)
        func entry(_ table: Int, _ byte: UInt32) -> UInt32 { entries[table << 8 | Int(byte & 0xFF)] }

        /// Processes eight bytes; the first one is the least significant.
        @inline(__always)
        func step(_ crc: UInt32, _ bytes: UInt64) -> UInt32 {
            let low = UInt32(truncatingIfNeeded: bytes) ^ crc
            let high = UInt32(truncatingIfNeeded: bytes >> 32)
            return entry(7, low) ^ entry(6, low >> 8) ^ entry(5, low >> 16) ^ entry(4, low >> 24)
                ^ entry(3, high) ^ entry(2, high >> 8) ^ entry(1, high >> 16) ^ entry(0, high >> 24)
        }
    }

    private static let tables: Tables = {
        let entries = UnsafeMutablePointer<UInt32>.allocate(capacity: 8 * 256)
        for byte in 0..<256 {
            var crc = UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0x82F6_3B78 : crc >> 1 }
            entries[byte] = crc
        }
        for table in 1..<8 {
            for byte in 0..<256 {
                let previous = entries[(table - 1) << 8 | byte]
                entries[table << 8 | byte] = entries[Int(previous & 0xFF)] ^ (previous >> 8)
            }
        }
        return Tables(entries: UnsafePointer(entries))
    }()
}
