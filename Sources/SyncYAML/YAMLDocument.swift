/// A YAML file, read strictly into nodes that know their place.
///
/// YAML is a large language, and most of its problems come from rarely used features. Only the plain part is therefore accepted: one
/// document of mappings, lists and scalars. Anchors, aliases (and with them merge keys and the billion laughs), tags, directives, a second
/// document, keys that are not text and keys given twice are refused with their place.
package struct YAMLDocument: Sendable {
    /// Enough for thousands of entities, bytes; a larger file is a generator's mistake.
    package static let maxBytes = 1_000_000
    /// The deepest place of a configuration is 4.
    static let maxDepth = 16
    static let maxNodes = 50_000

    /// `nil` when the syntax is broken. A file with only comments is an empty mapping.
    package private(set) var root: YAMLNode?
    package private(set) var errors: [ConfigurationError] = []

    package init(_ bytes: [UInt8], file: String) {
        let start = YAMLPosition(file: file, line: 1, column: 1)
        if bytes.isEmpty {
            errors = [ConfigurationError(at: start, problem: "the file is empty")]
            return
        }
        guard bytes.count <= YAMLDocument.maxBytes else {
            // The reader of a file stops after the limit, so the size of the file is not known here.
            errors = [ConfigurationError(at: start, problem: "the file is too large", expected: "at most \(YAMLDocument.maxBytes) bytes")]
            return
        }
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
        let scan = YAMLTextScan(text, file: file)
        if let refused = scan.error {
            errors = [refused]
            return
        }
        var builder = YAMLTreeBuilder(text, file: file)
        do {
            root = try builder.document() ?? YAMLNode(position: start, content: .mapping([]))
        } catch {
            errors.append(error)
            // When the last line has no end, libyaml reports a line that does not exist.
            if error.line > scan.end.line {
                errors[0].line = scan.end.line
                errors[0].column = scan.end.column
            }
        }
        errors = builder.errors + errors
    }
}

/// Finds characters that libyaml must not see: it treats a NUL as the end, and counts lines by separators that editors do not show.
private struct YAMLTextScan {
    private(set) var error: ConfigurationError?
    /// The place after the last character.
    private(set) var end: YAMLPosition

    init(_ bytes: ArraySlice<UInt8>, file: String) {
        var position = YAMLPosition(file: file, line: 1, column: 1)
        end = position
        defer { end = position }
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        var afterReturn = false
        while true {
            let scalar: Unicode.Scalar
            switch decoder.decode(&iterator) {
            case .emptyInput: return
            case .error:
                error = ConfigurationError(at: position, problem: "not UTF-8")
                return
            case .scalarValue(let value): scalar = value
            }
            switch scalar.value {
            case 0x0A where afterReturn: break
            case 0x0A, 0x0D:
                position.line += 1
                position.column = 1
            case 0x09, 0x20: position.column += 1
            case 0:
                error = ConfigurationError(at: position, problem: "a NUL byte; the file is damaged")
                return
            case 0x01..<0x20, 0x7F...0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF:
                let name = "U+" + String(scalar.value, radix: 16, uppercase: true)
                error = ConfigurationError(at: position, problem: "the invisible character " + name)
                return
            default: position.column += 1
            }
            afterReturn = scalar.value == 0x0D
        }
    }
}

/// Builds the tree from events. A forbidden feature is reported and the reading continues, so that one run names them all; broken syntax
/// and exceeded limits end it.
private struct YAMLTreeBuilder: ~Copyable {
    private(set) var errors: [ConfigurationError] = []
    private var events: YAMLEvents
    private var nodes = 0

    init(_ text: ArraySlice<UInt8>, file: String) {
        events = YAMLEvents(text, file: file)
    }

    /// - Returns: `nil` when there is no document.
    mutating func document() throws(ConfigurationError) -> YAMLNode? {
        var root: YAMLNode?
        var documents = 0
        while true {
            let event = try events.next()
            switch event.kind {
            case .streamEnd: return root
            case .documentStart(let hasDirectives):
                documents += 1
                if documents > 1 {
                    refuse(event, "a second document", expected: "one document in a file")
                    return root
                }
                if hasDirectives { refuse(event, "a directive", expected: "a file without % lines") }
            case .streamStart, .documentEnd: break
            default: root = try node(event, depth: 1)
            }
        }
    }

    private mutating func node(_ event: YAMLEvents.Event, depth: Int) throws(ConfigurationError) -> YAMLNode {
        nodes += 1
        if depth > YAMLDocument.maxDepth { throw tooMuch(event, "nested deeper than \(YAMLDocument.maxDepth) levels") }
        if nodes > YAMLDocument.maxNodes { throw tooMuch(event, "more than \(YAMLDocument.maxNodes) values") }
        var node = YAMLNode(position: event.position, content: .refused)
        switch event.kind {
        case .scalar(let text, let isPlain): node.content = .scalar(text, isPlain: isPlain)
        case .sequenceStart: node.content = .sequence(try elements(depth: depth))
        case .mappingStart: node.content = .mapping(try members(depth: depth))
        case .alias: refuse(event, "an alias (*)", expected: "the value written out")
        case .streamStart, .streamEnd, .documentStart, .documentEnd, .sequenceEnd, .mappingEnd:
            // libyaml gives these only at their own places.
            throw tooMuch(event, "unexpected structure")
        }
        if event.hasAnchor { refuse(event, "an anchor (&)", expected: "a value without one") }
        if event.hasTag {
            refuse(event, "a tag (!)", expected: "a value without one")
            node.content = .refused
        }
        return node
    }

    private mutating func elements(depth: Int) throws(ConfigurationError) -> [YAMLNode] {
        var elements: [YAMLNode] = []
        while true {
            let event = try events.next()
            if case .sequenceEnd = event.kind { return elements }
            elements.append(try node(event, depth: depth + 1))
        }
    }

    private mutating func members(depth: Int) throws(ConfigurationError) -> [YAMLMember] {
        var members: [YAMLMember] = []
        var places: [[UInt8]: Int] = [:]
        while true {
            let event = try events.next()
            if case .mappingEnd = event.kind { return members }
            let keyNode = try node(event, depth: depth + 1)
            let value = try node(try events.next(), depth: depth + 1)
            guard let key = key(keyNode) else { continue }
            if let line = places[Array(key.utf8)] {
                let problem = "the key \(keyText(key)) is given twice"
                errors.append(
                    ConfigurationError(at: keyNode.position, problem: problem, expected: "it only in line \(line)"))
                continue
            }
            places[Array(key.utf8)] = keyNode.position.line
            members.append(YAMLMember(key: key, position: keyNode.position, value: value))
        }
    }

    /// The text of a key, or `nil` for an invalid one, which is reported.
    private mutating func key(_ node: YAMLNode) -> String? {
        let problem: String
        switch node.content {
        case .refused: return nil
        case .scalar(let text, let isPlain):
            if isPlain, text == "<<" {
                problem = "a merge key (<<)"
            } else if text.isEmpty {
                problem = "a value without a key"
            } else if text.utf8.count > 256 || text.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 }) {
                problem = "the key \(printable(text, limit: 40))"
            } else {
                return text
            }
        case .sequence, .mapping: problem = node.shown + " as a key"
        }
        errors.append(
            ConfigurationError(at: node.position, problem: problem, expected: "a key of at most 256 bytes in one line"))
        return nil
    }

    private mutating func refuse(_ event: YAMLEvents.Event, _ problem: String, expected: String) {
        errors.append(ConfigurationError(at: event.position, problem: problem, expected: expected))
    }

    private func tooMuch(_ event: YAMLEvents.Event, _ problem: String) -> ConfigurationError {
        ConfigurationError(at: event.position, problem: problem)
    }
}

/// A key as one part of a dotted path; it is quoted when its characters would make the path ambiguous.
package func keyText(_ key: String) -> String {
    let isSimple = key.utf8.allSatisfy { byte in
        (byte >= 97 && byte <= 122) || (byte >= 65 && byte <= 90) || (byte >= 48 && byte <= 57) || byte == 95
            || byte == 45
    }
    return isSimple && !key.isEmpty ? key : "\"" + printable(key, limit: 100) + "\""
}
