import SyncLinux

/// gzip as a peer would send it, right or wrong.
enum Gzip {
    /// Returns the output of the project's own compressor. Its tests compare it with the `gzip` program.
    static func compressed(_ bytes: [UInt8]) -> [UInt8] {
        ZlibCompressor().gzip(bytes) ?? stored(bytes)
    }

    static let text = Array(String(repeating: "The quick brown fox jumps over the lazy dog. ", count: 200).utf8)

    /// One member with the content as it is: for what does not shrink.
    static func stored(_ bytes: [UInt8]) -> [UInt8] {
        var member: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]
        let size = UInt16(bytes.count)
        member += [1] + little(size) + little(~size) + bytes
        return member + little(crc32(bytes)) + little(UInt32(bytes.count))
    }

    private static func little<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
        withUnsafeBytes(of: number.littleEndian) { Array($0) }
    }

    /// RFC 1952, section 8.
    private static func crc32(_ bytes: [UInt8]) -> UInt32 {
        ~bytes.reduce(~0) { crc, byte in
            (0..<8).reduce(crc ^ UInt32(byte)) { crc, _ in crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
        }
    }
}
