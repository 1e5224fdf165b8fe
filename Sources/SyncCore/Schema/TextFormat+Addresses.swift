/// Addresses: `email` (RFC 5321, section 4.1.2) and `uri` (RFC 3986).
extension FormatReader {
    private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) }
    private static func isAlphanumeric(_ byte: UInt8) -> Bool { isLetter(byte) || isDigit(byte) }
    private static func isOne(of characters: StaticString, _ byte: UInt8) -> Bool {
        characters.withUTF8Buffer { $0.contains(byte) }
    }

    // MARK: - Email

    mutating func email() -> Bool {
        guard let (found, rest) = split(atLast: "@") else { return false }
        var (local, domain) = (found, rest)
        skip { _ in true }
        guard local.count > 0, local.count <= 64 else { return false }
        guard local.next == UInt8(ascii: "\"") ? local.quoted() : local.dotted() else { return false }
        return domain.next == UInt8(ascii: "[") ? domain.addressLiteral() : domain.hostName()
    }

    /// Words with single dots between them.
    private mutating func dotted() -> Bool {
        repeat {
            if skip(while: { Self.isAlphanumeric($0) || Self.isOne(of: "!#$%&'*+-/=?^_`{|}~", $0) }) == 0 { return false }
        } while consume(".")
        return isAtEnd
    }

    private mutating func quoted() -> Bool {
        guard consume("\"") else { return false }
        while let byte = next, byte != UInt8(ascii: "\"") {
            guard (32...126).contains(byte) else { return false }
            _ = consume("\\")
            if isAtEnd { return false }
            skipOne()
        }
        return consume("\"") && isAtEnd
    }

    private mutating func skipOne() {
        var isFirst = true
        skip { _ in
            defer { isFirst = false }
            return isFirst
        }
    }

    private mutating func hostName() -> Bool {
        guard count <= 253 else { return false }
        repeat {
            let label = part(upTo: ".")
            guard label.isLabel else { return false }
        } while consume(".")
        return isAtEnd
    }

    private var isLabel: Bool {
        var label = self
        guard (1...63).contains(label.count), let first = label.next, Self.isAlphanumeric(first) else { return false }
        var last = first
        label.skip {
            last = $0
            return Self.isAlphanumeric($0) || $0 == UInt8(ascii: "-")
        }
        return label.isAtEnd && Self.isAlphanumeric(last)
    }

    private mutating func addressLiteral() -> Bool {
        guard consume("[") else { return false }
        var address = part(upTo: "]")
        guard consume("]"), isAtEnd else { return false }
        if address.next == UInt8(ascii: "I") {
            for character in "IPv6:".unicodeScalars { guard address.consume(character) else { return false } }
            return address.ipv6()
        }
        return address.ipv4()
    }

    // MARK: - Numeric addresses (RFC 3986, section 3.2.2)

    mutating func ipv4() -> Bool {
        for index in 0..<4 {
            if index > 0, !consume(".") { return false }
            var value = 0
            let isZero = next == UInt8(ascii: "0")
            let digits = skip {
                guard Self.isDigit($0), value <= 255 else { return false }
                value = value * 10 + Int($0 - UInt8(ascii: "0"))
                return true
            }
            guard digits > 0, value <= 255, !isZero || digits == 1 else { return false }
        }
        return isAtEnd
    }

    mutating func ipv6() -> Bool {
        var groups = 0
        var hasGap = false
        if consume(":") {
            guard consume(":") else { return false }
            hasGap = true
        }
        while !isAtEnd {
            var rest = self
            if rest.ipv4() {
                self = rest
                groups += 2
                break
            }
            let digits = skip { hexDigit($0) != nil }
            guard (1...4).contains(digits) else { return false }
            groups += 1
            if isAtEnd { break }
            guard consume(":") else { return false }
            if consume(":") {
                if hasGap { return false }
                hasGap = true
            } else if isAtEnd {
                return false
            }
        }
        return isAtEnd && (hasGap ? groups <= 7 : groups == 8)
    }

    // MARK: - URI

    mutating func uri() -> Bool {
        guard let first = next, Self.isLetter(first) else { return false }
        skip { Self.isAlphanumeric($0) || Self.isOne(of: "+-.", $0) }
        guard consume(":") else { return false }
        if consume("/") {
            if consume("/") {
                var authority = part(upTo: "/?#")
                guard authority.authority() else { return false }
            }
        }
        guard characters("/:@") else { return false }
        if consume("?"), !characters("/:@?") { return false }
        if consume("#"), !characters("/:@?") { return false }
        return true
    }

    /// Unreserved characters, escapes, sub-delimiters, and the given ones. Stops at others.
    ///
    /// - Returns: `false` at an escape that is none.
    private mutating func characters(_ more: StaticString) -> Bool {
        while true {
            skip { Self.isAlphanumeric($0) || Self.isOne(of: "-._~!$&'()*+,;=", $0) || Self.isOne(of: more, $0) }
            guard consume("%") else { return true }
            for _ in 0..<2 {
                guard let byte = next, hexDigit(byte) != nil else { return false }
                skipOne()
            }
        }
    }

    private mutating func authority() -> Bool {
        if let (found, rest) = split(atLast: "@") {
            var user = found
            guard user.characters(":"), user.isAtEnd else { return false }
            self = rest
        }
        if consume("[") {
            var address = part(upTo: "]")
            var future = address
            guard consume("]"), address.ipv6() || future.futureAddress() else { return false }
        } else {
            guard characters("") else { return false }
        }
        if consume(":") { skip(while: Self.isDigit) }
        return isAtEnd
    }

    private mutating func futureAddress() -> Bool {
        guard consume("v") || consume("V"), skip(while: { hexDigit($0) != nil }) > 0, consume("."), count > 0 else { return false }
        return characters(":") && isAtEnd
    }
}
