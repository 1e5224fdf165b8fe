/// Rules of objects, and rules that combine other schemas.
extension SchemaJudge {
    mutating func fits(_ rules: ObjectRules, _ schema: Int, _ object: JSONObject) -> Bool {
        var isFine = true
        if !passesOverPlainRules, !hasRequired(rules, schema, object) { isFine = false }
        guard isFine || goesOn else { return false }
        if !fitsMembers(rules, schema, object) { isFine = false }
        guard isFine || goesOn else { return false }
        if rules.least != nil || rules.most != nil, !fitsCount(rules, schema, object) { isFine = false }
        for dependency in rules.dependentNames where isPresent(dependency.name, in: object) {
            for name in dependency.needed where !isPresent(name, in: object) {
                guard isFine || goesOn else { return false }
                fault(
                    schema, "dependentRequired", at: name, "is required where there is \(dependency.name.text.prefix(60))")
                isFine = false
            }
        }
        for dependency in rules.dependentSchemas where isPresent(dependency.name, in: object) {
            guard isFine || goesOn else { return false }
            if !conditionally(dependency.schema, .object(object)) { isFine = false }
        }
        return isFine
    }

    mutating func isPresent(_ name: JSONString, in object: JSONObject) -> Bool {
        guard spend(), let value = object[name] else { return false }
        return !(nullIsMissing && value.isNull)
    }

    private mutating func hasRequired(_ rules: ObjectRules, _ schema: Int, _ object: JSONObject) -> Bool {
        var isFine = true
        for name in rules.required where !isPresent(name, in: object) {
            fault(schema, "required", at: name, "is required")
            isFine = false
            guard goesOn else { break }
        }
        return isFine
    }

    private mutating func fitsCount(_ rules: ObjectRules, _ schema: Int, _ object: JSONObject) -> Bool {
        let count = nullIsMissing ? object.members.reduce(0) { $0 + ($1.value.isNull ? 0 : 1) } : object.count
        guard spend(object.count) else { return false }
        if let least = rules.least, count < least {
            fault(schema, "minProperties", "must have at least \(least) member\(least == 1 ? "" : "s"), found \(count)")
            return false
        }
        if let most = rules.most, count > most {
            fault(schema, "maxProperties", "must have at most \(most) member\(most == 1 ? "" : "s"), found \(count)")
            return false
        }
        return true
    }

    /// `properties`, `patternProperties`, `additionalProperties` and `propertyNames`.
    mutating func fitsMembers(_ rules: ObjectRules, _ schema: Int, _ object: JSONObject) -> Bool {
        var isFine = true
        // A condition names one member of many: then the members are looked up.
        if !rules.looksAtAll, rules.properties.count < object.count {
            for name in rules.properties {
                guard spend(), let value = object[name], let number = rules.members[name]?.schema else { continue }
                if nullIsMissing && value.isNull { continue }
                if !judge(number, member: name, value) {
                    isFine = false
                    guard goesOn else { return false }
                }
            }
            return isFine
        }
        for member in object.members {
            guard spend() else { return false }
            if nullIsMissing && member.value.isNull { continue }
            if !fits(rules, schema, member) {
                isFine = false
                guard goesOn else { return false }
            }
        }
        return isFine
    }

    private mutating func fits(_ rules: ObjectRules, _ schema: Int, _ member: JSONObject.Member) -> Bool {
        var isFine = true
        var isNamed = false
        if let number = rules.members[member.name]?.schema {
            isNamed = true
            if !judge(number, member: member.name, member.value) { isFine = false }
        }
        if !rules.looksAtAll || passesOverPlainRules && !isFine { return isFine }
        for rule in rules.patterns where matches(rule.pattern, member.name.text) {
            isNamed = true
            guard isFine || goesOn else { return false }
            if !judge(rule.schema, member: member.name, member.value) { isFine = false }
        }
        guard isFine || goesOn else { return false }
        if !isNamed, let additional = rules.additional {
            if nodes[additional].verdict == false {
                if passesOverPlainRules { return isFine }
                let near = isQuick ? nil : nearestName(to: member.name.text, among: rules.properties.map(\.text))
                fault(
                    schema, "additionalProperties", at: member.name, distance: 4,
                    "is not a known member" + (near.map { "; did you mean \($0)?" } ?? ""))
                return false
            }
            if !judge(additional, member: member.name, member.value) { isFine = false }
        }
        guard isFine || goesOn else { return false }
        if let names = rules.names, !passesOverPlainRules, !quietly(names, .string(member.name)) {
            fault(schema, "propertyNames", at: member.name, distance: 4, "has a name that propertyNames does not allow")
            isFine = false
        }
        return isFine
    }

    // MARK: - Combinations

    mutating func fits(_ parts: CombinedRules, _ schema: Int, _ value: JSON) -> Bool {
        var isFine = true
        if let target = parts.target, !judge(target, value) { isFine = false }
        for part in parts.allOf {
            guard isFine || goesOn else { return false }
            if !judge(part, value) { isFine = false }
        }
        guard isFine || goesOn else { return false }
        if !parts.anyOf.isEmpty, !fitsAny(parts.anyOf, schema, value) { isFine = false }
        guard isFine || goesOn else { return false }
        if !parts.oneOf.isEmpty, !fitsOne(parts.oneOf, schema, value) { isFine = false }
        guard isFine || goesOn else { return false }
        if let not = parts.not, quietly(not, value), !isExhausted {
            let title = nodes[not].title.map { " (\($0.prefix(60)))" } ?? ""
            fault(schema, "not", "must not fit the schema in not\(title)")
            isFine = false
        }
        guard isFine || goesOn else { return false }
        if let condition = parts.condition {
            let branch = quietly(condition, value) ? parts.then : parts.otherwise
            if let branch, !conditionally(branch, value) { isFine = false }
        }
        return isFine && !isExhausted
    }

    private mutating func fitsAny(_ schemas: [Int], _ schema: Int, _ value: JSON) -> Bool {
        if isQuick {
            for number in schemas {
                if conditionally(number, value) { return true }
                if isExhausted { return false }
            }
            return false
        }
        let tries = tryEach(schemas, value)
        if !tries.fitting.isEmpty || isExhausted { return !isExhausted }
        let beginning =
            schemas.count == 1
            ? "must fit the schema in anyOf; " : "must fit at least one of the \(schemas.count) schemas in anyOf; "
        let closest = closest(schemas, tries.closest, tries.faults)
        fault(schema, "anyOf", beginning + closest)
        return false
    }

    private mutating func fitsOne(_ schemas: [Int], _ schema: Int, _ value: JSON) -> Bool {
        if isQuick {
            var count = 0
            for number in schemas {
                if conditionally(number, value) { count += 1 }
                if isExhausted || count > 1 { return false }
            }
            return count == 1
        }
        let tries = tryEach(schemas, value)
        if tries.fitting.count == 1 || isExhausted { return !isExhausted }
        guard tries.fitting.isEmpty else {
            let numbers = tries.fitting.prefix(5).map { String($0 + 1) }.joined(separator: " and ")
            fault(
                schema, "oneOf",
                "must fit exactly one of the \(schemas.count) schemas in oneOf, and fits numbers \(numbers)")
            return false
        }
        let closest = closest(schemas, tries.closest, tries.faults)
        fault(schema, "oneOf", "must fit exactly one of the \(schemas.count) schemas in oneOf; " + closest)
        return false
    }
}
