import SyncCore

/// Encodes values as bytes in the order of a query (``RecordOrder``). Compared byte by byte, keys of an index have the order of their
/// records in the sorted list.
///
///     missing, null       10
///     false, true         20, 21
///     number              30, then zero 02; or 03, the place of its first digit, its digits, 00; a negative one as the complement of that
///     text                40, its UTF-8 with 00 as 00 FF, then 00 01; only the first ``StoreReads/sortBytes``
///     array, object       50
///
/// The record's id follows the values of all columns, so every key is unique, and equal values are in the order of their ids.
struct IndexKey: Hashable {
    private(set) var bytes: [UInt8] = []

    init() {}

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The key of a record whose document cannot be read. It sorts before all others, and an index with such an entry is not used, because
    /// the record belongs to every list.
    static func unreadable(id: String) -> IndexKey { IndexKey(bytes: [0] + Array(id.utf8)) }

    static let firstReadable = IndexKey(bytes: [1])

    mutating func append(_ value: JSON) {
        switch value {
        case .null: bytes.append(Tag.null)
        case .bool(let value): bytes.append(value ? Tag.true : Tag.false)
        case .number(let number):
            bytes.append(Tag.number)
            append(number)
        case .string(let string):
            bytes.append(Tag.text)
            append(escaping: string.text.utf8)
            bytes += [0, 1]
        case .array, .object: bytes.append(Tag.other)
        }
    }

    /// Appends the beginning of a text.
    mutating func append(prefix: String) {
        bytes.append(Tag.text)
        append(escaping: prefix.utf8)
    }

    mutating func append(id: String) { bytes += id.utf8 }

    /// The first key after all keys that begin with these bytes.
    var successor: IndexKey {
        var next = bytes
        while let last = next.popLast() {
            guard last < 0xFF else { continue }
            next.append(last + 1)
            return IndexKey(bytes: next)
        }
        // No value begins with the byte FF.
        return IndexKey(bytes: [0xFF])
    }

    /// The smallest possible key after this whole one.
    var next: IndexKey { IndexKey(bytes: bytes + [0]) }

    private mutating func append(escaping text: String.UTF8View) {
        for byte in text {
            bytes.append(byte)
            if byte == 0 { bytes.append(0xFF) }
        }
    }

    /// Exact for any number of digits, as is the comparison of numbers.
    private mutating func append(_ number: JSONNumber) {
        let parts = number.orderedParts
        guard !parts.digits.isEmpty else {
            bytes.append(2)
            return
        }
        let flip: UInt8 = parts.isNegative ? 0xFF : 0
        bytes.append(parts.isNegative ? 1 : 3)
        let place = UInt64(bitPattern: Int64(parts.place)) ^ (1 << 63)
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: place >> UInt64(shift)) ^ flip) }
        for digit in parts.digits { bytes.append(digit ^ flip) }
        bytes.append(0 ^ flip)
    }

    enum Tag {
        static let null: UInt8 = 0x10
        static let `false`: UInt8 = 0x20
        static let `true`: UInt8 = 0x21
        static let number: UInt8 = 0x30
        static let text: UInt8 = 0x40
        static let other: UInt8 = 0x50
    }

    /// The bytes of the first `columns` values; `nil` where the bytes are no such key.
    func prefix(columns: Int) -> IndexKey? {
        var rest = bytes[...]
        for _ in 0..<columns { guard Self.skipValue(&rest) else { return nil } }
        return IndexKey(bytes: Array(bytes[..<rest.startIndex]))
    }

    private static func skipValue(_ rest: inout ArraySlice<UInt8>) -> Bool {
        switch rest.popFirst() {
        case Tag.null?, Tag.false?, Tag.true?, Tag.other?: return true
        case Tag.number?:
            guard let sign = rest.popFirst() else { return false }
            if sign == 2 { return true }
            guard rest.count > 8 else { return false }
            rest.removeFirst(8)
            let end: UInt8 = sign == 1 ? 0xFF : 0
            guard let place = rest.firstIndex(of: end) else { return false }
            rest = rest[(place + 1)...]
            return true
        case Tag.text?:
            while let zero = rest.firstIndex(of: 0), zero + 1 < rest.endIndex {
                let next = rest[zero + 1]
                rest = rest[(zero + 2)...]
                if next == 1 { return true }
            }
            return false
        default: return false
        }
    }
}
