import SyncCore

/// A tar file of plain files, in the form that every tar reads (POSIX.1-1988, `ustar`). Each file has a head of 512 bytes and its content
/// padded to a multiple of that; at the end there are two blocks of zeros.
///
///     offset size field           offset size field
///          0  100 name                124   12 size, octal
///        100    8 mode, octal         136   12 mtime, octal seconds
///        108    8 uid                 148    8 checksum: sum of all bytes, its own taken as spaces
///        116    8 gid                 156    1 type, '0' is a file
///        257    6 "ustar\0"           263    2 version "00"
struct TarArchive {
    private(set) var bytes: [UInt8] = []
    private let time: Timestamp

    init(at time: Timestamp) {
        self.time = time
    }

    /// - Precondition: The name has at most 99 bytes of ASCII.
    mutating func add(_ name: String, _ content: [UInt8]) {
        precondition(name.utf8.count < 100, "a name that fits into its field")
        var head = [UInt8](repeating: 0, count: 512)
        func put(_ text: String, at offset: Int) {
            for (index, byte) in text.utf8.enumerated() { head[offset + index] = byte }
        }
        put(name, at: 0)
        put(Self.octal(0o600, 7), at: 100)
        put(Self.octal(0, 7), at: 108)
        put(Self.octal(0, 7), at: 116)
        put(Self.octal(Int64(content.count), 11), at: 124)
        put(Self.octal(max(0, time.milliseconds / 1_000), 11), at: 136)
        put("        ", at: 148)
        put("0", at: 156)
        put("ustar", at: 257)
        put("00", at: 263)
        put(Self.octal(head.reduce(0) { $0 + Int64($1) }, 6), at: 148)
        head[154] = 0
        bytes += head + content
        bytes += [UInt8](repeating: 0, count: (512 - content.count % 512) % 512)
    }

    var finished: [UInt8] { bytes + [UInt8](repeating: 0, count: 1_024) }

    private static func octal(_ value: Int64, _ digits: Int) -> String {
        let text = String(value, radix: 8)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }
}
