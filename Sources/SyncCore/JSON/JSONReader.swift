/// Reads JSON strictly by RFC 8259 and refuses everything else: trailing bytes, byte order marks, comments, NaN, duplicate names, invalid
/// UTF-8, lone surrogates, NUL in strings, and anything beyond its limits. It never recurses deeper than `limits.depth` and never traps.
package struct JSONReader {
    package struct Limits: Sendable {
        /// Largest nesting of arrays and objects.
        package var depth = SyncCore.Limits.jsonDepth
        /// Largest member name, UTF-8 bytes, escapes included.
        package var nameBytes = SyncCore.Limits.nameBytes
        /// Largest number of values in the whole text.
        package var values = 1_000_000
        /// Largest number of members of one object.
        package var members = SyncCore.Limits.objectMembers
        /// Largest memory of the value, bytes, by ``JSONReader/Cost``. It limits the cost of a small text with many tiny values.
        package var memoryBytes = SyncCore.Limits.messageMemoryBytes

        package init() {}

        /// Limits for messages that carry documents. A document may be nested as deep as ``SyncCore/Limits/jsonDepth`` wherever the message
        /// puts it; otherwise a record that one side accepted would make a whole batch or page unreadable for the other.
        package static var message: Limits {
            var limits = Limits()
            limits.depth = SyncCore.Limits.jsonDepth + SyncCore.Limits.messageDepth
            return limits
        }

        /// Limits for answers of the hub and of a backend. A document of theirs may be deeper, and its names longer, than a new one may be:
        /// it must not make a whole page unreadable. The depth limit still protects the stack.
        package static var answer: Limits {
            var limits = stored
            limits.values = Limits().values
            limits.members = Limits().members
            limits.memoryBytes = SyncCore.Limits.messageMemoryBytes
            return limits
        }

        /// Limits for text that this program has checked and stored itself. Stored text must never be refused when it is read, so no limit
        /// of input applies. Names and counts are limited by the text; the depth limit, which protects the stack, is far above everything
        /// that ``Fold`` ever built.
        package static var stored: Limits {
            var limits = Limits()
            limits.depth = SyncCore.Limits.storedDepth
            limits.nameBytes = .max
            limits.values = .max
            limits.members = .max
            limits.memoryBytes = .max
            return limits
        }
    }

    /// Memory of a value on a 64-bit machine, bytes: the storage of growing arrays and objects, up to twice their content, and the heap
    /// memory of longer strings.
    private enum Cost {
        static let value = 2 * MemoryLayout<JSON>.stride
        static let container = 32
        /// Cost of a member of a small object; in an object with an index, that of its entry as well.
        static let member = 2 * MemoryLayout<JSONObject.Member>.stride
        static let indexedMember = member + 64

        /// Cost of a text; up to 15 bytes are stored in the value itself.
        static func text(_ bytes: Int) -> Int { bytes <= 15 ? 0 : bytes + 32 }
    }

    /// - Throws: ``JSONError`` with the byte offset and the expected input.
    package static func read(_ bytes: [UInt8], limits: Limits = Limits()) throws(JSONError) -> JSON {
        let result: Result<JSON, JSONError> = bytes.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(bytes: buffer, limits: limits)
            do throws(JSONError) {
                return .success(try reader.document())
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    package static func read(_ text: String, limits: Limits = Limits()) throws(JSONError) -> JSON {
        try read(Array(text.utf8), limits: limits)
    }

    private let bytes: UnsafeBufferPointer<UInt8>
    private let limits: Limits
    private var position = 0
    private var values = 0
    /// Memory so far, bytes, by ``Cost``.
    private var memory = 0
    /// The last string contains an escape.
    private var sawEscape = false

    private init(bytes: UnsafeBufferPointer<UInt8>, limits: Limits) {
        self.bytes = bytes
        self.limits = limits
    }

    private mutating func document() throws(JSONError) -> JSON {
        skipSpace()
        let value = try value(depth: 0)
        skipSpace()
        guard position == bytes.count else { throw fail(.trailing, "the end of the text") }
        return value
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSON {
        values += 1
        guard values <= limits.values else { throw fail(.tooMany, "at most \(limits.values) values") }
        guard position < bytes.count else { throw fail(.truncated, "a value") }
        switch bytes[position] {
        case UInt8(ascii: "{"): return .object(try object(depth: depth + 1))
        case UInt8(ascii: "["): return .array(try array(depth: depth + 1))
        case UInt8(ascii: "\""): return .string(try string(limit: .max))
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
        case UInt8(ascii: "t"):
            try word("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try word("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try word("null")
            return .null
        default: throw fail(.unexpected, "a value")
        }
    }

    private mutating func spend(_ bytes: Int) throws(JSONError) {
        memory += bytes
        guard memory <= limits.memoryBytes else {
            throw fail(.tooMany, "values that take at most \(limits.memoryBytes) bytes of memory")
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONObject {
        guard depth <= limits.depth else { throw fail(.tooDeep, "at most \(limits.depth) levels") }
        position += 1
        var members: [JSONObject.Member] = []
        var places: [JSONString: Int]?
        var hasEscapedName = false
        try spend(Cost.container)
        skipSpace()
        if consume(UInt8(ascii: "}")) { return JSONObject() }
        // Most objects have a few members; growing step by step would cost three allocations.
        members.reserveCapacity(4)
        while true {
            skipSpace()
            let start = position
            guard members.count < limits.members else { throw fail(.tooMany, "at most \(limits.members) members in an object") }
            guard position < bytes.count else { throw fail(.truncated, "a member name") }
            guard bytes[position] == UInt8(ascii: "\"") else { throw fail(.unexpected, "a member name in quotes") }
            let name = try string(limit: limits.nameBytes)
            hasEscapedName = hasEscapedName || sawEscape
            // For few members, comparing is faster than hashing. For many, an index keeps the work linear, here and in every later lookup.
            let duplicate: Bool
            if members.count < JSONObject.unindexedMax, !hasEscapedName {
                duplicate = members.contains { sameBytes($0.name.source, name.source) }
            } else if members.count < JSONObject.unindexedMax {
                duplicate = members.contains { $0.name == name }
            } else {
                if places == nil {
                    places = Dictionary(members.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
                }
                duplicate = places?.updateValue(members.count, forKey: name) != nil
            }
            try spend(places == nil ? Cost.member : Cost.indexedMember)
            if duplicate { throw JSONError(code: .duplicateName, offset: start, expected: "each member name once") }
            skipSpace()
            guard consume(UInt8(ascii: ":")) else { throw unexpected("a colon") }
            skipSpace()
            members.append(JSONObject.Member(name: name, value: try value(depth: depth)))
            skipSpace()
            if consume(UInt8(ascii: ",")) { continue }
            if consume(UInt8(ascii: "}")) { return JSONObject(uniqueMembers: members, places: places) }
            throw unexpected("a comma or a closing brace")
        }
    }

    private mutating func array(depth: Int) throws(JSONError) -> [JSON] {
        guard depth <= limits.depth else { throw fail(.tooDeep, "at most \(limits.depth) levels") }
        position += 1
        try spend(Cost.container)
        var elements: [JSON] = []
        skipSpace()
        if consume(UInt8(ascii: "]")) { return elements }
        while true {
            skipSpace()
            try spend(Cost.value)
            elements.append(try value(depth: depth))
            skipSpace()
            if consume(UInt8(ascii: ",")) { continue }
            if consume(UInt8(ascii: "]")) { return elements }
            throw unexpected("a comma or a closing bracket")
        }
    }

    private mutating func string(limit: Int) throws(JSONError) -> JSONString {
        let opening = position
        position += 1
        let start = position
        sawEscape = false
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case UInt8(ascii: "\""):
                guard position - start <= limit else {
                    throw JSONError(code: .nameTooLong, offset: opening, expected: "a name of at most \(limit) bytes")
                }
                try spend(Cost.text(position - start))
                let source = String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<position]), as: UTF8.self)
                position += 1
                return JSONString(validSource: source)
            case UInt8(ascii: "\\"):
                sawEscape = true
                try escape()
            case 0..<0x20: throw fail(.controlCharacter, "an escape instead of a control character")
            case 0x20..<0x80: position += 1
            default: try multibyte()
            }
        }
        throw fail(.truncated, "the closing quote of a string")
    }

    private mutating func escape() throws(JSONError) {
        guard position + 1 < bytes.count else { throw fail(.truncated, "an escape") }
        switch bytes[position + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            position += 2
        case UInt8(ascii: "u"):
            let unit = try codeUnit(at: position)
            switch unit {
            case 0: throw fail(.badEscape, "no NUL in a string")
            case 0xDC00...0xDFFF: throw fail(.badEscape, "no lone surrogate")
            case 0xD800...0xDBFF:
                guard position + 7 < bytes.count, bytes[position + 6] == UInt8(ascii: "\\"),
                    bytes[position + 7] == UInt8(ascii: "u"),
                    case 0xDC00...0xDFFF = try codeUnit(at: position + 6)
                else { throw fail(.badEscape, "no lone surrogate") }
                position += 12
            default: position += 6
            }
        default: throw fail(.badEscape, "an escape of JSON")
        }
    }

    private func codeUnit(at start: Int) throws(JSONError) -> UInt32 {
        guard start + 6 <= bytes.count else {
            throw JSONError(code: .truncated, offset: start, expected: "four hexadecimal digits")
        }
        var unit: UInt32 = 0
        for byte in bytes[(start + 2)..<(start + 6)] {
            guard let digit = hexDigit(byte) else {
                throw JSONError(code: .badEscape, offset: start, expected: "four hexadecimal digits")
            }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    /// Reads one scalar of two to four bytes, by table 3-7 of Unicode 15 ("Well-Formed UTF-8 Byte Sequences").
    private mutating func multibyte() throws(JSONError) {
        let first = bytes[position]
        let count: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch first {
        case 0xC2...0xDF: count = 2
        case 0xE0: (count, second) = (3, 0xA0...0xBF)
        case 0xED: (count, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: count = 3
        case 0xF0: (count, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: count = 4
        case 0xF4: (count, second) = (4, 0x80...0x8F)
        default: throw fail(.badUTF8, "valid UTF-8")
        }
        guard position + count <= bytes.count, second.contains(bytes[position + 1]) else {
            throw fail(.badUTF8, "valid UTF-8")
        }
        for index in 2..<max(2, count) where bytes[position + index] & 0xC0 != 0x80 {
            throw fail(.badUTF8, "valid UTF-8")
        }
        position += count
    }

    private mutating func number() throws(JSONError) -> JSONNumber {
        let start = position
        _ = consume(UInt8(ascii: "-"))
        if consume(UInt8(ascii: "0")) {
            if position < bytes.count, isDigit(bytes[position]) { throw fail(.badNumber, "no leading zero") }
        } else {
            try digits()
        }
        if consume(UInt8(ascii: ".")) { try digits() }
        if consume(UInt8(ascii: "e")) || consume(UInt8(ascii: "E")) {
            if !consume(UInt8(ascii: "+")) { _ = consume(UInt8(ascii: "-")) }
            try digits()
        }
        guard position - start <= 1_000 else {
            throw JSONError(code: .badNumber, offset: start, expected: "a number of at most 1000 characters")
        }
        try spend(Cost.text(position - start))
        let source = String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<position]), as: UTF8.self)
        return JSONNumber(validSource: source)
    }

    private mutating func digits() throws(JSONError) {
        let start = position
        while position < bytes.count, isDigit(bytes[position]) { position += 1 }
        if position == start { throw position < bytes.count ? fail(.badNumber, "a digit") : fail(.truncated, "a digit") }
    }

    private mutating func word(_ word: StaticString) throws(JSONError) {
        let count = word.utf8CodeUnitCount
        guard position + count <= bytes.count else { throw fail(.truncated, "\(word)") }
        for index in 0..<count where bytes[position + index] != word.utf8Start[index] {
            throw fail(.unexpected, "\(word)")
        }
        position += count
    }

    private mutating func skipSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    /// Moves behind the byte if it is the next one.
    private mutating func consume(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    private func isDigit(_ byte: UInt8) -> Bool { byte >= 48 && byte <= 57 }

    private func unexpected(_ expected: String) -> JSONError {
        fail(position < bytes.count ? .unexpected : .truncated, expected)
    }

    private func fail(_ code: JSONError.Code, _ expected: String) -> JSONError {
        JSONError(code: code, offset: position, expected: expected)
    }
}

func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - 48
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - 87
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - 55
    default: nil
    }
}

/// The reason why a text is not accepted as JSON.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Sendable {
        case truncated, trailing, unexpected, badNumber, badEscape, badUTF8, controlCharacter, duplicateName, tooDeep
        case nameTooLong, tooMany
    }

    package var code: Code
    /// Offset from the start of the text, bytes.
    package var offset: Int
    package var expected: String

    package var description: String { "byte \(offset): expected \(expected)" }
}
