extension SchemaSteps {
    /// Converts a document.
    package func convert(_ document: JSONObject) -> JSONObject {
        var document = document
        for step in steps { step.convert(&document) }
        return document
    }

    /// Converts the value of one field, as if it stood alone in a document.
    ///
    /// - Returns: The fields that it becomes: none when it is dropped.
    package func convert(_ field: String, _ old: JSON?) -> JSON? {
        guard let old else { return nil }
        var name = field, value = old
        for step in steps {
            var alone: JSONObject = [name: value]
            if case .fill = step, !value.isNull { continue }
            step.convert(&alone)
            guard let next = SchemaSteps([step]).name(of: name), let converted = alone.at(next) else { return nil }
            (name, value) = (next, converted)
        }
        return value
    }
}

extension SchemaStep {
    func convert(_ document: inout JSONObject) {
        switch self {
        case .rename(let old, let new): document = document.exchanging(old, new)
        case .fill(let field, let value): if (document[field] ?? .null).isNull { document[field] = value }
        case .drop(let field): document[field] = nil
        case .values(let field, let map): if let value = document[field] { document[field] = Self.mapped(value, by: map) }
        case .wrap(let field): if let value = document[field] { document[field] = Self.wrapped(value) }
        case .unwrap(let field): if let value = document[field] { document[field] = Self.unwrapped(value) }
        case .moveInto(let field, let member), .moveOut(let member, let field): document.exchange(field, member)
        }
    }

    static func wrapped(_ value: JSON) -> JSON {
        value.isNull || value.array != nil ? value : .array([value])
    }

    /// - Returns: `nil` for an empty list.
    static func unwrapped(_ value: JSON) -> JSON? {
        guard let elements = value.array else { return value }
        return elements.first
    }
}

extension JSONObject {
    /// The same members, of which two have exchanged their names.
    func exchanging(_ first: String, _ second: String) -> JSONObject {
        guard !sameBytes(first, second), self[first] != nil || self[second] != nil else { return self }
        return JSONObject(
            uniqueMembers: members.map { member in
                if member.name.means(first) { return Member(name: JSONString(second), value: member.value) }
                if member.name.means(second) { return Member(name: JSONString(first), value: member.value) }
                return member
            })
    }

    /// Exchanges a field and a member of an object. An object that has no member left goes, and one that is missing is made. Where there is
    /// another value in the place of the object, nothing changes.
    mutating func exchange(_ field: String, _ member: SchemaStep.Member) {
        let outer = self[field], object = self[member.field]
        if let object, !object.isNull, object.object == nil { return }
        var inner = object?.object ?? [:]
        let value = inner[member.name]
        guard outer != nil || value != nil else { return }
        inner[member.name] = outer
        self[field] = value
        self[member.field] = inner.isEmpty ? nil : .object(inner)
    }

    /// The value at the name of a field, or of a member as `position.lat` where no field has that name.
    func at(_ name: String) -> JSON? {
        if let value = self[name] { return value }
        guard let dot = name.utf8.firstIndex(of: UInt8(ascii: ".")) else { return nil }
        return self[String(name[..<dot])]?.object?[String(name[name.index(after: dot)...])]
    }
}
