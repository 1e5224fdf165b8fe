package import SyncCore

extension RecordQuery {
    /// `filter=field:op:value` (any number, all must hold), `sort`, `fields`, `limit`, `cursor`, `include_deleted`,
    /// `sync_status`.
    init(_ entity: EntityName, from p: inout ParameterReader) throws(Problem) {
        self.init(entity)
        var tests: [RecordFilter] = []
        for text in p.all("filter") {
            guard let test = RecordFilter(text: text) else {
                throw p.refusal("filter", "must be field:op:value with op one of " + RecordFilter.operators)
            }
            tests.append(test)
        }
        guard tests.count <= RecordFilter.testsMax else {
            throw p.refusal("filter", "may be given at most \(RecordFilter.testsMax) times")
        }
        filter = tests.count > 1 ? .all(tests) : tests.first
        if let text = try p.text("sort") {
            guard let keys = SortKey.list(text) else {
                throw p.refusal("sort", "must be 1 to \(SortKey.keysMax) fields with commas between, each with - before it to go down")
            }
            sort = keys
        }
        if let text = try p.text("fields") {
            let paths = text.split(separator: ",", omittingEmptySubsequences: false).map { FieldPath(String($0)) }
            guard paths.count <= RecordQuery.fieldsMax, !paths.contains(nil) else {
                throw p.refusal("fields", "must be 1 to \(RecordQuery.fieldsMax) fields with commas between")
            }
            fields = paths.compactMap { $0 }
        }
        if let limit = try p.integer("limit", in: 1...Int64(RecordQuery.limitMax)) { self.limit = Int(limit) }
        cursor = try p.text("cursor")
        includesDeleted = try p.flag("include_deleted") ?? false
        statuses = try p.words("sync_status", RecordSnapshot.SyncStatus.allCases.map { ($0.name, $0) }).map { Set($0) }
    }

    static let fieldsMax = 64
}

extension SortKey {
    /// `-updated_at,status`; `nil` when it is not such a list.
    static func list(_ text: String) -> [SortKey]? {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count <= keysMax else { return nil }
        var keys: [SortKey] = []
        for part in parts {
            guard let key = SortKey(text: String(part)) else { return nil }
            keys.append(key)
        }
        return keys
    }

    package init?(text: String) {
        let isDescending = text.hasPrefix("-")
        guard let path = FieldPath(isDescending ? String(text.dropFirst()) : text) else { return nil }
        self.init(path, isDescending: isDescending)
    }

    package var text: String { (isDescending ? "-" : "") + path.text }
}

extension RecordFilter {
    static var operators: String { Comparison.allCases.map(\.rawValue).joined(separator: " ") }

    /// Reads `field:op:value`, split at the first two colons.
    ///
    /// A value that is a JSON number, `true`, `false`, `null` or a string in quotes is that; anything else is text. So `7`
    /// is the number and `"7"` the text. The operand of `in` is a list with commas between, where text in quotes may hold
    /// commas itself; the operand of `prefix` is text unless it is in quotes, then what is inside them.
    package init?(text: String) {
        let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let path = FieldPath(parts[0]), let comparison = Comparison(rawValue: parts[1]) else {
            return nil
        }
        let operand: JSON?
        switch comparison {
        case .eq, .ne, .lt, .le, .gt, .ge: operand = RecordFilter.scalar(parts[2])
        case .isIn: operand = RecordFilter.list(parts[2]).map { .array($0) }
        case .prefix:
            if case .string(let text) = RecordFilter.scalar(parts[2]) { operand = .string(text) } else { operand = .string(parts[2]) }
        case .exists: operand = RecordFilter.scalar(parts[2])
        }
        guard let operand, RecordFilter.fault(comparison, operand) == nil else { return nil }
        self = .test(path, comparison, operand)
    }

    /// What is wrong with an operand, or `nil`.
    static func fault(_ comparison: Comparison, _ operand: JSON) -> String? {
        switch (comparison, operand) {
        case (_, .object): return "must not be an object"
        case (.eq, .array), (.ne, .array), (.lt, .array), (.le, .array), (.gt, .array), (.ge, .array):
            return "must not be an array"
        case (.eq, _), (.ne, _): return nil
        case (.lt, .number), (.le, .number), (.gt, .number), (.ge, .number): return nil
        case (.lt, .string), (.le, .string), (.gt, .string), (.ge, .string): return nil
        case (.lt, _), (.le, _), (.gt, _), (.ge, _): return "must be a number or a string"
        case (.isIn, .array(let elements)):
            let isPlain = elements.allSatisfy { element in
                switch element {
                case .array, .object: false
                case .null, .bool, .number, .string: true
                }
            }
            return isPlain && (1...listMax).contains(elements.count) ? nil : "must be 1 to \(listMax) plain values"
        case (.isIn, _): return "must be an array"
        case (.prefix, .string): return nil
        case (.prefix, _): return "must be a string"
        case (.exists, .bool): return nil
        case (.exists, _): return "must be true or false"
        }
    }

    private static func scalar(_ text: String) -> JSON {
        // What is not JSON is text; and a JSON array or object has no meaning here, so it is text as well.
        guard let json = try? JSONReader.read(text) else { return .string(text) }
        switch json {
        case .array, .object: return .string(text)
        case .null, .bool, .number, .string: return json
        }
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
