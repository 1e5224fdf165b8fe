/// Reads CSV by RFC 4180 from pieces of any size, row by row.
///
/// Fields are separated by commas; a field in double quotes may contain commas, line ends and doubled quotes. Lines end with LF or CRLF. A
/// byte order mark at the start and empty lines are skipped. A row that breaks the rules is reported, and reading continues after its line.
package struct CSVReader: Sendable {
    package struct Field: Hashable, Sendable {
        package var bytes: [UInt8]
        /// The field was in quotes: it is text, whatever its form.
        package var isQuoted: Bool

        init(_ bytes: [UInt8], isQuoted: Bool) {
            self.bytes = bytes
            self.isQuoted = isQuoted
        }
    }

    package enum Row: Hashable, Sendable {
        /// - Parameter line: Line of the file where the row starts, from 1.
        case fields(line: Int64, [Field])
        case fault(line: Int64, String)
    }

    private enum State {
        case fieldStart, plain, quoted
        /// After a quote inside quotes: it is doubled, or ends the field.
        case quoteInQuotes
        /// A fault was reported; the rest of the line is skipped.
        case skipping
    }

    private let rowBytesMax: Int
    private var state = State.fieldStart
    private var fields: [Field] = []
    private var field: [UInt8] = []
    private var isQuoted = false
    private var rowBytes = 0
    private var line: Int64 = 1
    private var rowLine: Int64 = 1
    private var lastWasCR = false
    private var lead: [UInt8]? = []

    package init(rowBytesMax: Int) {
        self.rowBytesMax = rowBytesMax
    }

    /// - Returns: The rows that are complete now.
    package mutating func read(_ bytes: some Sequence<UInt8>) -> [Row] {
        var rows: [Row] = []
        for byte in bytes {
            if lead != nil { consumeLead(byte, &rows) } else { consume(byte, &rows) }
        }
        return rows
    }

    /// The last row, when its line has no end.
    package mutating func finish() -> [Row] {
        var rows: [Row] = []
        if let lead {
            self.lead = nil
            for byte in lead { consume(byte, &rows) }
        }
        if lastWasCR {
            lastWasCR = false
            content(UInt8(ascii: "\r"), &rows)
        }
        if state == .quoted {
            fail("a quote is not closed", &rows)
        } else {
            endRow(&rows)
        }
        return rows
    }

    /// The first three bytes may be a byte order mark.
    private mutating func consumeLead(_ byte: UInt8, _ rows: inout [Row]) {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let seen = (lead ?? []) + [byte]
        if seen == mark {
            lead = nil
        } else if mark.starts(with: seen) {
            lead = seen
        } else {
            lead = nil
            for byte in seen { consume(byte, &rows) }
        }
    }

    private mutating func consume(_ byte: UInt8, _ rows: inout [Row]) {
        if state == .quoted {
            if byte == UInt8(ascii: "\n") { line += 1 }
            return content(byte, &rows)
        }
        // A CR is part of a line end only before LF; alone it is content, like any other byte.
        if lastWasCR {
            lastWasCR = false
            if byte != UInt8(ascii: "\n") { content(UInt8(ascii: "\r"), &rows) }
        }
        switch byte {
        case UInt8(ascii: "\r") where state != .skipping: lastWasCR = true
        case UInt8(ascii: "\n"):
            endRow(&rows)
            line += 1
            rowLine = line
        default: content(byte, &rows)
        }
    }

    private mutating func content(_ byte: UInt8, _ rows: inout [Row]) {
        rowBytes += 1
        if rowBytes > rowBytesMax, state != .skipping {
            return fail("the row is longer than \(rowBytesMax) bytes", &rows)
        }
        let quote = UInt8(ascii: "\"")
        let comma = UInt8(ascii: ",")
        switch state {
        case .fieldStart where byte == quote:
            isQuoted = true
            state = .quoted
        case .fieldStart where byte == comma, .plain where byte == comma, .quoteInQuotes where byte == comma: endField()
        case .fieldStart, .plain:
            if byte == quote { return fail("a quote stands inside a field that does not start with one", &rows) }
            field.append(byte)
            state = .plain
        case .quoted where byte == quote: state = .quoteInQuotes
        case .quoted: field.append(byte)
        case .quoteInQuotes where byte == quote:
            field.append(quote)
            state = .quoted
        case .quoteInQuotes: fail("text follows a closing quote", &rows)
        case .skipping: break
        }
    }

    private mutating func endField() {
        fields.append(Field(field, isQuoted: isQuoted))
        field = []
        isQuoted = false
        state = .fieldStart
    }

    private mutating func endRow(_ rows: inout [Row]) {
        let isEmpty = fields.isEmpty && field.isEmpty && !isQuoted
        if state != .skipping, !isEmpty {
            endField()
            rows.append(.fields(line: rowLine, fields))
        }
        reset()
    }

    private mutating func fail(_ reason: String, _ rows: inout [Row]) {
        rows.append(.fault(line: rowLine, reason))
        reset()
        state = .skipping
    }

    private mutating func reset() {
        fields = []
        field = []
        isQuoted = false
        rowBytes = 0
        state = .fieldStart
    }
}
