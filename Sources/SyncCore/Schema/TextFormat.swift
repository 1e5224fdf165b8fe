/// A value of `format`. It is a rule, not a note: a text that does not have its format is refused.
enum TextFormat: String, Sendable, CaseIterable {
    case date, time
    case dateTime = "date-time"
    case duration, uuid, email, uri

    var text: String {
        switch self {
        case .date: "a date"
        case .time: "a time of day with an offset"
        case .dateTime: "a date and time with an offset"
        case .duration: "a duration"
        case .uuid: "a UUID"
        case .email: "an email address"
        case .uri: "a URI with a scheme"
        }
    }

    var example: String {
        switch self {
        case .date: "2026-04-30"
        case .time: "14:05:00Z"
        case .dateTime: "2026-04-30T14:05:00+02:00"
        case .duration: "PT1H30M"
        case .uuid: "01984c2a-9c80-7000-9b2c-11ab01984c2a"
        case .email: "ines@example.com"
        case .uri: "https://example.com/manual"
        }
    }

    func accepts(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var reader = FormatReader(bytes)
            let isRead =
                switch self {
                case .date: reader.date()
                case .time: reader.time()
                case .dateTime: reader.dateTime()
                case .duration: reader.duration()
                case .uuid: reader.uuid()
                case .email: reader.email()
                case .uri: reader.uri()
                }
            return isRead && reader.isAtEnd
        }
    }
}

/// Reads a text byte by byte. Each function takes what it reads and returns whether it was there.
struct FormatReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var place = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { place == bytes.count }
    var next: UInt8? { isAtEnd ? nil : bytes[place] }

    /// Moves behind the character if it is the next one.
    mutating func consume(_ character: Unicode.Scalar) -> Bool {
        guard let next, next == UInt8(ascii: character) else { return false }
        place += 1
        return true
    }

    /// Takes characters as long as they are accepted.
    ///
    /// - Returns: Their number.
    @discardableResult
    mutating func skip(while accept: (UInt8) -> Bool) -> Int {
        let start = place
        while let next, accept(next) { place += 1 }
        return place - start
    }

    /// The rest up to the last occurrence of a character, and what comes after it.
    func split(atLast character: Unicode.Scalar) -> (FormatReader, FormatReader)? {
        let rest = UnsafeBufferPointer(rebasing: bytes[place...])
        guard let index = rest.lastIndex(of: UInt8(ascii: character)) else { return nil }
        return (
            FormatReader(UnsafeBufferPointer(rebasing: rest[..<index])), FormatReader(UnsafeBufferPointer(rebasing: rest[(index + 1)...]))
        )
    }

    /// The next characters up to one of those given or the end, as a reader of their own.
    mutating func part(upTo ends: String) -> FormatReader {
        let start = place
        skip { !ends.utf8.contains($0) }
        return FormatReader(UnsafeBufferPointer(rebasing: bytes[start..<place]))
    }

    var count: Int { bytes.count - place }

    // MARK: - Times (RFC 3339, sections 5.6 and 5.7)

    static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private mutating func number(digits: Int, _ range: ClosedRange<Int>) -> Int? {
        guard place + digits <= bytes.count else { return nil }
        var value = 0
        for byte in bytes[place..<(place + digits)] {
            guard Self.isDigit(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        place += digits
        return range.contains(value) ? value : nil
    }

    mutating func date() -> Bool {
        guard let year = number(digits: 4, 0...9999), consume("-"), let month = number(digits: 2, 1...12), consume("-") else {
            return false
        }
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let days = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        return number(digits: 2, 1...days[month - 1]) != nil
    }

    mutating func time() -> Bool {
        guard let hour = number(digits: 2, 0...23), consume(":"), let minute = number(digits: 2, 0...59), consume(":"),
            let second = number(digits: 2, 0...60)
        else { return false }
        if consume("."), skip(while: Self.isDigit) == 0 { return false }
        var offset = 0
        if !consume("Z"), !consume("z") {
            let isWest = next == UInt8(ascii: "-")
            guard consume("+") || consume("-"), let hours = number(digits: 2, 0...23), consume(":"), let minutes = number(digits: 2, 0...59)
            else {
                return false
            }
            offset = (isWest ? -1 : 1) * (hours * 60 + minutes)
        }
        // A leap second is the last one of a day in UTC.
        let day = 24 * 60
        return second < 60 || (hour * 60 + minute - offset + day) % day == day - 1
    }

    mutating func dateTime() -> Bool {
        date() && (consume("T") || consume("t")) && time()
    }

    /// ISO 8601 in the form of RFC 3339, appendix A: weeks, or units from years to seconds in this order and without a gap.
    mutating func duration() -> Bool {
        guard consume("P") else { return false }
        guard next != UInt8(ascii: "T") else {
            place += 1
            return units("HMS") && isAtEnd
        }
        var weeks = self
        if weeks.units("W"), weeks.isAtEnd {
            self = weeks
            return true
        }
        guard units("YMD") else { return false }
        return isAtEnd || consume("T") && units("HMS") && isAtEnd
    }

    /// One or more numbers, each with its unit. A unit follows the one before it.
    private mutating func units(_ names: String) -> Bool {
        var left: [UInt8]? = nil
        while let byte = next, Self.isDigit(byte) {
            skip(while: Self.isDigit)
            guard let unit = next, let index = (left ?? Array(names.utf8)).firstIndex(of: unit), left == nil || index == 0 else {
                return false
            }
            left = Array((left ?? Array(names.utf8))[(index + 1)...])
            place += 1
        }
        return left != nil
    }

    // MARK: - UUID (RFC 9562, section 4)

    mutating func uuid() -> Bool {
        for (index, digits) in [8, 4, 4, 4, 12].enumerated() {
            if index > 0, !consume("-") { return false }
            let start = place
            while place - start < digits, let byte = next, hexDigit(byte) != nil { place += 1 }
            guard place - start == digits else { return false }
        }
        return true
    }
}
