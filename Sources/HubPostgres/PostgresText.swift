import HubServer

/// The value for one `$1`, `$2` of a statement.
enum PostgresParameter {
    case value(DatabaseValue)
    case array([DatabaseValue])
}

/// Values in the text format of the protocol.
///
/// PostgreSQL's text cannot hold U+0000; SQLite's and JSON's can (as `\u0000` in the name of a field, for example). It is stored as U+0010
/// and `0`, and U+0010 itself as U+0010 and `1`, so that every text is stored unchanged. Documents are JSON text, which contains neither
/// unescaped.
enum PostgresText {
    private static let escape: UInt8 = 0x10

    /// Placeholders in the server's notation: `?1` becomes `$1`, and each plain `?` the next number.
    static func numbered(_ sql: String) -> String {
        var result: [UInt8] = []
        var count = 0
        var bytes = sql.utf8.makeIterator()
        var next = bytes.next()
        while let byte = next {
            next = bytes.next()
            guard byte == UInt8(ascii: "?") else {
                result.append(byte)
                continue
            }
            result.append(UInt8(ascii: "$"))
            guard let digit = next, (48...57).contains(digit) else {
                count += 1
                result += String(count).utf8
                continue
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Passes each parameter as text that ends with a zero; NULL as no text.
    static func withParameters<T>(_ parameters: [PostgresParameter], _ body: ([UnsafePointer<CChar>?]) -> T) -> T {
        var bytes: [UInt8] = []
        var places: [Int?] = []
        for parameter in parameters {
            if case .value(.null) = parameter {
                places.append(nil)
                continue
            }
            places.append(bytes.count)
            switch parameter {
            case .value(let value): append(value, to: &bytes)
            case .array(let values): append(values, to: &bytes)
            }
            bytes.append(0)
        }
        return bytes.withUnsafeBytes { buffer in
            body(places.map { place in place.flatMap { buffer.baseAddress?.advanced(by: $0).assumingMemoryBound(to: CChar.self) } })
        }
    }

    /// Writes an array in the notation of PostgreSQL (PostgreSQL 15, 8.15.2): quoted texts, with a backslash before a quote and a
    /// backslash.
    private static func append(_ values: [DatabaseValue], to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        for (index, value) in values.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            switch value {
            case .null: bytes += "NULL".utf8
            case .int: append(value, to: &bytes)
            case .text, .blob:
                bytes.append(UInt8(ascii: "\""))
                let start = bytes.count
                append(value, to: &bytes)
                quote(&bytes, from: start)
                bytes.append(UInt8(ascii: "\""))
            }
        }
        bytes.append(UInt8(ascii: "}"))
    }

    private static func quote(_ bytes: inout [UInt8], from start: Int) {
        func isSpecial(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") }
        guard bytes[start...].contains(where: isSpecial) else { return }
        let plain = Array(bytes[start...])
        bytes.removeSubrange(start...)
        for byte in plain {
            if isSpecial(byte) { bytes.append(UInt8(ascii: "\\")) }
            bytes.append(byte)
        }
    }

    private static func append(_ value: DatabaseValue, to bytes: inout [UInt8]) {
        switch value {
        case .null: break
        case .int(let value): bytes += String(value).utf8
        case .text(var value):
            value.withUTF8 { text in
                guard text.contains(0) || text.contains(escape) else { return bytes.append(contentsOf: text) }
                for byte in text {
                    switch byte {
                    case 0: bytes += [escape, UInt8(ascii: "0")]
                    case escape: bytes += [escape, UInt8(ascii: "1")]
                    default: bytes.append(byte)
                    }
                }
            }
        // The hexadecimal form of bytea (PostgreSQL 15, 8.4.1).
        case .blob(let value):
            bytes += [UInt8(ascii: "\\"), UInt8(ascii: "x")]
            for byte in value { bytes += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)

    /// - Returns: `nil` for anything except an integer of 64 bits.
    static func int(_ bytes: UnsafeRawBufferPointer) -> Int64? {
        Int64(String(decoding: bytes, as: UTF8.self)).map { DatabaseNumber(read: $0).value }
    }

    static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        guard bytes.contains(escape) else { return String(decoding: bytes, as: UTF8.self) }
        var plain: [UInt8] = []
        var isEscaped = false
        for byte in bytes {
            if isEscaped {
                plain.append(byte == UInt8(ascii: "0") ? 0 : escape)
                isEscaped = false
            } else if byte == escape {
                isEscaped = true
            } else {
                plain.append(byte)
            }
        }
        return String(decoding: plain, as: UTF8.self)
    }

    /// - Returns: `nil` for anything except the hexadecimal form of bytea: `\x`, then two digits for each byte.
    static func blob(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        guard bytes.count >= 2, bytes.count.isMultiple(of: 2), bytes[0] == UInt8(ascii: "\\"), bytes[1] == UInt8(ascii: "x") else {
            return nil
        }
        var blob: [UInt8] = []
        blob.reserveCapacity(bytes.count / 2 - 1)
        for place in stride(from: 2, to: bytes.count, by: 2) {
            guard let high = value(bytes[place]), let low = value(bytes[place + 1]) else { return nil }
            blob.append(high << 4 | low)
        }
        return blob
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - 48
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - 87
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - 55
        default: nil
        }
    }
}
