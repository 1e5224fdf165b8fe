package import SyncCore

// The text form of a filter: `field:op:value` in a query parameter, `{"field","op","value"}` in a body.

extension RecordFilter {
    static let operatorWords = ["eq", "ne", "lt", "le", "gt", "ge", "in", "prefix", "exists"]
    static var operators: String { operatorWords.joined(separator: " ") }
    static let listMax = 100

    /// Reads `field:op:value`, split at the first two colons.
    ///
    /// A value that is a JSON number, `true`, `false`, `null` or a string in quotes has that meaning; any other value is text. So `7` is
    /// the number and `"7"` the text. The operand of `in` is a list separated by commas, where text in quotes may contain commas. The
    /// operand of `prefix` is the text itself, or the text inside quotes.
    package init?(text: String) {
        let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let path = FieldPath(parameter: parts[0]) else { return nil }
        let operand: JSON
        switch parts[1] {
        case "in":
            guard let list = RecordFilter.list(parts[2]) else { return nil }
            operand = .array(list)
        case "prefix":
            if case .string(let text) = RecordFilter.scalar(parts[2]) {
                operand = .string(text)
            } else {
                operand = .string(parts[2])
            }
        default: operand = RecordFilter.scalar(parts[2])
        }
        guard case .success(let comparison) = RecordFilter.comparison(parts[1], operand) else { return nil }
        self = .test(path, comparison)
    }

    /// - Precondition: The filter is a single test.
    var text: String {
        guard case .test(let path, let comparison) = self else { preconditionFailure("not a single test") }
        let (word, operand) = comparison.written
        let value =
            if case .array(let elements) = operand { elements.map(\.json).joined(separator: ",") } else { operand.json }
        return "\(path.parameter):\(word):\(value)"
    }

    struct Fault: Error {
        /// The fault lies in the operator, not in the operand.
        var isOperator = false
        var rule: String
    }

    /// Combines operator and operand, or reports the mismatch.
    static func comparison(_ word: String, _ operand: JSON) -> Result<Comparison, Fault> {
        switch (word, operand) {
        case ("eq", .array), ("eq", .object), ("ne", .array), ("ne", .object):
            .failure(Fault(rule: "must be a plain value"))
        case ("eq", _): .success(.eq(operand))
        case ("ne", _): .success(.ne(operand))
        case ("lt", .number), ("lt", .string): .success(.lt(operand))
        case ("le", .number), ("le", .string): .success(.le(operand))
        case ("gt", .number), ("gt", .string): .success(.gt(operand))
        case ("ge", .number), ("ge", .string): .success(.ge(operand))
        case ("lt", _), ("le", _), ("gt", _), ("ge", _): .failure(Fault(rule: "must be a number or a string"))
        case ("in", .array(let elements)) where (1...listMax).contains(elements.count) && elements.allSatisfy(isPlain):
            .success(.isIn(elements))
        case ("in", _): .failure(Fault(rule: "must be an array of 1 to \(listMax) plain values"))
        case ("prefix", .string(let text)): .success(.prefix(text.text))
        case ("prefix", _): .failure(Fault(rule: "must be a string"))
        case ("exists", .bool(let wanted)): .success(.exists(wanted))
        case ("exists", _): .failure(Fault(rule: "must be true or false"))
        default: .failure(Fault(isOperator: true, rule: "must be one of " + operators))
        }
    }

    private static func isPlain(_ json: JSON) -> Bool {
        switch json {
        case .array, .object: false
        case .null, .bool, .number, .string: true
        }
    }

    private static func scalar(_ text: String) -> JSON {
        // A value that is not JSON is text; a JSON array or object has no meaning here, so it is text as well.
        guard let json = try? JSONReader.read(text), isPlain(json) else { return .string(text) }
        return json
    }

    /// - Returns: `nil` when a quote is not closed.
    private static func list(_ text: String) -> [JSON]? {
        var elements: [JSON] = []
        var rest = Array(text.utf8)[...]
        while true {
            var element: [UInt8] = []
            var isQuoted = false
            var isEscaped = false
            while let byte = rest.first, isQuoted || byte != UInt8(ascii: ",") {
                rest.removeFirst()
                element.append(byte)
                if isEscaped {
                    isEscaped = false
                } else if isQuoted, byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\""), isQuoted || element.count == 1 {
                    isQuoted.toggle()
                }
            }
            if isQuoted { return nil }
            elements.append(scalar(String(decoding: element, as: UTF8.self)))
            if rest.isEmpty { return elements }
            rest.removeFirst()
        }
    }
}

extension RecordFilter.Comparison {
    /// Operator and operand in their text form.
    var written: (word: String, operand: JSON) {
        switch self {
        case .eq(let value): ("eq", value)
        case .ne(let value): ("ne", value)
        case .lt(let value): ("lt", value)
        case .le(let value): ("le", value)
        case .gt(let value): ("gt", value)
        case .ge(let value): ("ge", value)
        case .isIn(let values): ("in", .array(values))
        case .prefix(let text): ("prefix", .string(text))
        case .exists(let wanted): ("exists", .bool(wanted))
        }
    }
}
