import Glibc

/// The calls of a program on one folder, and its messages on sockets, in one order. `Tests/powercut` writes it; the form of
/// a record stands in its header.
package struct IOLog {
    package enum Kind: UInt32 {
        case create = 1, write, truncate, sync, synced, unsynced, rename, link, remove, makeFolder, sent, found, syncFolder
    }

    package struct Record {
        package var kind: Kind
        /// Place in the file, length, or the number of a sync.
        package var place: UInt64
        package var inode: UInt64
        /// Relative to the folder, which itself is "".
        package var path: String
        /// The place of the data in ``IOLog/bytes``.
        package var data: Range<Int>
    }

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    package let bytes: [UInt8]
    package private(set) var records: [Record] = []

    private static let magic: UInt32 = 0x4543_5045
    private static let headerBytes = 32

    package init(path: String) throws {
        guard let file = fopen(path, "rb") else { throw Failure(description: "open \(path): errno \(errno)") }
        defer { fclose(file) }
        fseek(file, 0, SEEK_END)
        let size = ftell(file)
        rewind(file)
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = fread(buffer.baseAddress, 1, size, file)
        }
        try self.init(bytes)
    }

    /// - Throws: When something else than records is in it. A last record that was cut off is left out: its call had not
    ///   returned.
    package init(_ bytes: [UInt8]) throws {
        self.bytes = bytes
        var start = 0
        while start + Self.headerBytes <= bytes.count {
            guard Self.number(bytes, start, as: UInt32.self) == Self.magic,
                let kind = Kind(rawValue: Self.number(bytes, start + 4))
            else { throw Failure(description: "no record at byte \(start) of the log") }
            let path = start + Self.headerBytes
            let data = path + Int(Self.number(bytes, start + 24, as: UInt32.self))
            let end = data + Int(Self.number(bytes, start + 28, as: UInt32.self))
            guard end <= bytes.count else { return }
            records.append(
                Record(
                    kind: kind, place: Self.number(bytes, start + 8), inode: Self.number(bytes, start + 16),
                    path: String(decoding: bytes[path..<data], as: UTF8.self), data: data..<end))
            start = end
        }
    }

    package func text(_ record: Record) -> String { String(decoding: bytes[record.data], as: UTF8.self) }

    private static func number<Number: FixedWidthInteger>(_ bytes: [UInt8], _ offset: Int, as _: Number.Type = Number.self) -> Number {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) }
    }
}
