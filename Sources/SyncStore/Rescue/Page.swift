import SyncCore
import SyncSQLite

/// One page of a database, read as a tree page. It reads only its own bytes and the pages that `PageFile` hands it.
///
/// Header of 8 bytes on a leaf, 12 on an inner page; on page 1 it begins at 100
/// (https://www.sqlite.org/fileformat2.html, 1.6):
///
///     offset  size  content
///          0     1  13 leaf of a table, 10 leaf of an index, 2 inner page of an index, 5 inner page of a table
///          3     2  number of cells
///          8     4  right-most child, inner pages only
///
/// The places of the cells follow, 2 bytes each. A table without rowids is stored as an index, whose inner pages hold rows as well.
struct Page {
    let number: Int
    let bytes: [UInt8]
    /// The page is intact, as far as a seal or checksum can tell.
    let isWhole: Bool

    struct Row {
        /// The rowid; 0 in a table without rowids.
        var rowid: Int64
        var values: [SQLiteValue]
        /// All pages of the row are intact.
        var isWhole: Bool
    }

    private var start: Int { number == 1 ? 100 : 0 }

    /// The rows whose cells are on this page. A cell that makes no sense is left out and counted.
    func rows(of file: PageFile) -> (rows: [Row], damaged: Int) {
        let kind = bytes[start]
        guard kind == 13 || kind == 10 || kind == 2 else { return ([], 0) }
        guard let offsets = cells(after: kind == 2 ? 12 : 8) else { return ([], 1) }
        let rows = offsets.compactMap { row(at: $0, kind, file) }
        return (rows, offsets.count - rows.count)
    }

    /// The pages below this one, when it is an inner page.
    var children: [Int] {
        let kind = bytes[start]
        guard kind == 2 || kind == 5, let offsets = cells(after: 12) else { return [] }
        return offsets.map { Int(bytes.number(at: $0)) } + [Int(bytes.number(at: start + 8))]
    }

    /// The places of the cells; `nil` when there are more than a page can hold.
    private func cells(after header: Int) -> [Int]? {
        let count = Int(bytes[start + 3]) << 8 | Int(bytes[start + 4])
        guard start + header + 2 * count <= bytes.count else { return nil }
        return (0..<count).map { cell in
            let place = start + header + 2 * cell
            return Int(bytes[place]) << 8 | Int(bytes[place + 1])
        }
    }

    private func row(at offset: Int, _ kind: UInt8, _ file: PageFile) -> Row? {
        var reader = ByteReader(bytes, at: offset)
        if kind == 2 { reader.skip(4) }
        guard let length = reader.varint(), length >= 2, length <= Self.rowBytesMax else { return nil }
        var rowid: Int64 = 0
        if kind == 13 {
            guard let number = reader.varint() else { return nil }
            rowid = number
        }
        guard let payload = payload(length: Int(length), isTable: kind == 13, &reader, file) else { return nil }
        return Record.read(payload.bytes).map { Row(rowid: rowid, values: $0, isWhole: isWhole && payload.isWhole) }
    }

    /// Largest row that is read, bytes. A mutation at its limit in all columns, and a record's two documents, stay far below this.
    private static let rowBytesMax: Int64 = 8 << 20

    /// The payload of a cell, including the part on overflow pages (section 1.6, "Cell Payload Overflow Pages").
    private func payload(length: Int, isTable: Bool, _ reader: inout ByteReader, _ file: PageFile) -> (bytes: [UInt8], isWhole: Bool)? {
        let usable = file.usableBytes
        let most = isTable ? usable - 35 : (usable - 12) * 64 / 255 - 23
        if length <= most { return reader.bytes(length).map { ($0, true) } }
        let least = (usable - 12) * 32 / 255 - 23
        let wanted = least + (length - least) % (usable - 4)
        guard var payload = reader.bytes(wanted <= most ? wanted : least), let next = reader.bytes(4) else { return nil }
        var overflow = Int(next.number(at: 0))
        var isWhole = true
        while payload.count < length {
            guard let page = file.page(overflow) else { return nil }
            payload += page.bytes[4..<usable].prefix(length - payload.count)
            overflow = Int(page.bytes.number(at: 0))
            if !page.isWhole { isWhole = false }
        }
        return (payload, isWhole)
    }
}

/// A row in SQLite's record format (https://www.sqlite.org/fileformat2.html, section 2.1): the length of the header, a type for each
/// column, then the values.
enum Record {
    static func read(_ bytes: [UInt8]) -> [SQLiteValue]? {
        var header = ByteReader(bytes, at: 0)
        guard let size = header.varint(), size >= 1, size <= Int64(bytes.count) else { return nil }
        var body = ByteReader(bytes, at: Int(size))
        var values: [SQLiteValue] = []
        while header.place < Int(size) {
            guard let type = header.varint(), let value = value(type, &body), values.count < 100 else { return nil }
            values.append(value)
        }
        return header.place == Int(size) ? values : nil
    }

    private static func value(_ type: Int64, _ body: inout ByteReader) -> SQLiteValue? {
        switch type {
        case 0: return .null
        case 1...6: return body.integer([0, 1, 2, 3, 4, 6, 8][Int(type)]).map { .int($0) }
        case 7: return body.integer(8).map { .real(Double(bitPattern: UInt64(bitPattern: $0))) }
        case 8: return .int(0)
        case 9: return .int(1)
        case 12...:
            guard let content = body.bytes(Int(clamping: (type - 12) / 2)) else { return nil }
            return type % 2 == 0 ? .blob(content) : .text(String(decoding: content, as: UTF8.self))
        default: return nil
        }
    }
}

/// Reads forward; a read past the end is `nil`.
struct ByteReader {
    private let content: [UInt8]
    private(set) var place: Int

    init(_ bytes: [UInt8], at place: Int) {
        content = bytes
        self.place = place
    }

    mutating func skip(_ count: Int) {
        place += count
    }

    mutating func bytes(_ count: Int) -> [UInt8]? {
        guard count >= 0, place >= 0, count <= content.count - place else { return nil }
        defer { place += count }
        return Array(content[place..<(place + count)])
    }

    /// A signed big-endian integer.
    mutating func integer(_ count: Int) -> Int64? {
        guard let bytes = bytes(count), let first = bytes.first else { return nil }
        return bytes.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
    }

    /// A varint of 1 to 9 bytes: 7 bits in each, 8 in the ninth.
    mutating func varint() -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard place >= 0, place < content.count else { return nil }
            let byte = content[place]
            place += 1
            if index == 8 { return Int64(bitPattern: value << 8 | UInt64(byte)) }
            value = value << 7 | UInt64(byte & 0x7F)
            if byte & 0x80 == 0 { break }
        }
        return Int64(bitPattern: value)
    }
}
