/// The rules of each kind of value. A rule that is broken notes its fault; the next one is looked at only when faults are collected.
extension SchemaJudge {
    /// `const` and `enum`.
    mutating func fitsList(_ node: SchemaNode, _ schema: Int, _ value: JSON) -> Bool {
        if node.constant == nil, node.allowed == nil { return true }
        var isFine = true
        if let constant = node.constant, !has(constant, value) {
            fault(schema, "const", distance: 16, "must be \(constant.list[0].shown), found \(value.shown)")
            isFine = false
        }
        if isFine || goesOn, let allowed = node.allowed, !has(allowed, value) {
            fault(schema, "enum", distance: 16, "must be one of \(Self.shown(allowed.list)), found \(value.shown)")
            isFine = false
        }
        return isFine
    }

    private mutating func has(_ values: AllowedValues, _ value: JSON) -> Bool {
        guard values.mayHave(.simple(value)) else { return false }
        return spend(comparing: value) && values.contains(value)
    }

    private static func shown(_ list: [JSON]) -> String {
        let some = list.prefix(20).map(\.shown).joined(separator: ", ")
        return list.count > 20 ? some + " and \(list.count - 20) more" : some
    }

    mutating func fits(_ rules: NumberRules, _ schema: Int, _ number: JSONNumber) -> Bool {
        if passesOverPlainRules { return true }
        let value = ComparedNumber(number)
        var isFine = true
        let found = JSON.number(number)
        if let minimum = rules.minimum, value < minimum {
            fault(schema, "minimum", "must be at least \(minimum.number.source), found \(found.found)")
            isFine = false
        }
        if let maximum = rules.maximum, maximum < value {
            fault(schema, "maximum", "must be at most \(maximum.number.source), found \(found.found)")
            isFine = false
        }
        if let above = rules.above, !(above < value) {
            fault(schema, "exclusiveMinimum", "must be above \(above.number.source), found \(found.found)")
            isFine = false
        }
        if let below = rules.below, !(value < below) {
            fault(schema, "exclusiveMaximum", "must be below \(below.number.source), found \(found.found)")
            isFine = false
        }
        if let divisor = rules.divisor, spend(1 + number.source.utf8.count / 8), !divisor.divides(number) {
            fault(schema, "multipleOf", "must be a multiple of \(divisor.number.source), found \(found.found)")
            isFine = false
        }
        return isFine
    }

    mutating func fits(_ rules: TextRules, _ schema: Int, _ string: JSONString) -> Bool {
        if passesOverPlainRules { return true }
        let text = string.text
        guard spend(text.utf8.count / 64) else { return false }
        if rules.least != nil || rules.most != nil {
            let count = text.unicodeScalars.count
            if let least = rules.least, count < least {
                fault(schema, "minLength", "must have at least \(counted(least, "character")), found \(count)")
                return false
            }
            if let most = rules.most, count > most {
                fault(schema, "maxLength", "must have at most \(counted(most, "character")), found \(count)")
                return false
            }
        }
        if let pattern = rules.pattern, !matches(pattern, text) {
            fault(schema, "pattern", "must match \(pattern.source), found \(JSON.string(string).shown)")
            return false
        }
        if let format = rules.format, !format.accepts(text) {
            fault(schema, "format", "must be \(format.text), such as \(format.example), found \(JSON.string(string).shown)")
            return false
        }
        return true
    }

    mutating func fits(_ rules: ListRules, _ schema: Int, _ elements: [JSON]) -> Bool {
        var isFine = true
        if !passesOverPlainRules, !fitsAsAWhole(rules, schema, elements) {
            isFine = false
            guard goesOn else { return false }
        }
        for (index, number) in rules.prefix.enumerated() where index < elements.count {
            if nullIsMissing && elements[index].isNull { continue }
            if !judge(number, element: index, elements[index]) {
                isFine = false
                guard goesOn else { return false }
            }
        }
        guard let items = rules.items, rules.prefix.count < elements.count else { return isFine }
        for index in rules.prefix.count..<elements.count {
            if nullIsMissing && elements[index].isNull { continue }
            if !judge(items, element: index, elements[index]) {
                isFine = false
                guard goesOn else { return false }
            }
        }
        return isFine
    }

    private mutating func fitsAsAWhole(_ rules: ListRules, _ schema: Int, _ elements: [JSON]) -> Bool {
        if let least = rules.least, elements.count < least {
            fault(schema, "minItems", "must have at least \(counted(least, "element")), found \(elements.count)")
            return false
        }
        if let most = rules.most, elements.count > most {
            fault(schema, "maxItems", "must have at most \(counted(most, "element")), found \(elements.count)")
            return false
        }
        if rules.isUnique, let (first, second) = repetition(in: elements) {
            fault(schema, "uniqueItems", "must have each element once; elements \(first) and \(second) are equal")
            return false
        }
        guard let contained = rules.contains else { return true }
        let least = rules.containsLeast ?? 1
        var count = 0
        for element in elements {
            if quietly(contained, element) { count += 1 }
            if isExhausted { return false }
            if rules.containsMost == nil, count >= least { return true }
        }
        if count < least {
            fault(schema, "contains", "must have at least \(counted(least, "element")) as contains says, found \(count)")
            return false
        }
        if let most = rules.containsMost, count > most {
            fault(schema, "maxContains", "must have at most \(counted(most, "element")) as contains says, found \(count)")
            return false
        }
        return true
    }

    /// The places of two equal elements. Linear: each element is looked up among those before it.
    private mutating func repetition(in elements: [JSON]) -> (Int, Int)? {
        guard elements.count > 1 else { return nil }
        var places = [JSON: Int](minimumCapacity: elements.count)
        for (place, element) in elements.enumerated() {
            guard spend(comparing: element) else { return nil }
            if let earlier = places.updateValue(place, forKey: element) { return (earlier, place) }
        }
        return nil
    }
}

/// A number and its noun: `1 element`, `2 elements`.
private func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

extension JSON {
    /// The value as one short text for people: a text in quotes, of a longer one its beginning.
    var shown: String {
        switch self {
        case .string(let string):
            let text = string.text
            return "\"" + (text.unicodeScalars.count <= 40 ? text : String(text.unicodeScalars.prefix(40)) + "…") + "\""
        case .null, .bool, .number: return found
        case .array(let elements): return elements.isEmpty ? "[]" : kind
        case .object(let object): return object.isEmpty ? "{}" : kind
        }
    }
}
