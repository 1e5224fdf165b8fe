/// One error in a configuration file, as one line for the operator: `agentd.yaml:12:5: sync.pull_intervall: unknown key (did you mean
/// pull_interval?)`.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Name of the file as the caller gave it.
    package var file: String
    /// From 1; 0 when there is no place, because the file could not be read.
    package var line: Int
    /// From 1, in Unicode characters; 0 like `line`.
    package var column: Int
    /// Dotted: `sync.pull_interval`, `links[2].match`. Empty when the error concerns the file as a whole.
    package var key: String
    /// The value as written, escaped and cut at 200 bytes; `nil` when there is none or it could be a secret.
    package var value: String?
    /// Such as `unknown key` or `is not accepted`.
    package var problem: String
    package var expected: String?
    /// The known name that is most similar to the written one.
    package var nearest: String?

    package init(
        file: String, line: Int = 0, column: Int = 0, key: String = "", value: String? = nil, problem: String,
        expected: String? = nil, nearest: String? = nil
    ) {
        self.file = file
        self.line = line
        self.column = column
        self.key = key
        self.value = value
        self.problem = problem
        self.expected = expected
        self.nearest = nearest
    }

    package init(
        at position: YAMLPosition, key: String = "", value: String? = nil, problem: String, expected: String? = nil,
        nearest: String? = nil
    ) {
        self.init(
            file: position.file, line: position.line, column: position.column, key: key, value: value, problem: problem,
            expected: expected, nearest: nearest)
    }

    package var description: String {
        var text = printable(file, limit: 1_000)
        if line > 0 { text += ":\(line):\(column)" }
        text += ": "
        if !key.isEmpty { text += key + ": " }
        if let value { text += value + " " }
        text += problem
        if let expected { text += ", expected " + expected }
        if let nearest { text += " (did you mean \(nearest)?)" }
        return text
    }
}

/// All errors in a configuration, in the order of the files.
package struct ConfigurationErrors: Error, Hashable, Sendable, CustomStringConvertible {
    /// Never empty.
    package var errors: [ConfigurationError]

    /// - Precondition: At least one.
    package init(_ errors: [ConfigurationError]) {
        precondition(!errors.isEmpty)
        self.errors = errors
    }

    /// A line for each of the first hundred errors.
    package var description: String {
        let lines = errors.prefix(100).map(\.description)
        return (lines + (errors.count > 100 ? ["and \(errors.count - 100) more"] : [])).joined(separator: "\n")
    }
}

/// Makes foreign text fit for one line of a log or a terminal. Control characters, line separators and marks that change the writing
/// direction are escaped, and text beyond `limit` bytes is cut.
package func printable(_ text: String, limit: Int = 200) -> String {
    var result = ""
    var size = 0
    for scalar in text.unicodeScalars {
        var piece: String
        switch scalar {
        case "\n": piece = "\\n"
        case "\r": piece = "\\r"
        case "\t": piece = "\\t"
        case "\\": piece = "\\\\"
        default:
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate:
                piece = "\\u{" + String(scalar.value, radix: 16) + "}"
            default: piece = String(scalar)
            }
        }
        size += piece.utf8.count
        if size > limit { return result + "…" }
        result += piece
    }
    return result
}
