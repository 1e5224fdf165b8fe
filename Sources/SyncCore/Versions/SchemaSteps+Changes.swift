extension SchemaSteps {
    /// Converts a change, so that merging it and then converting gives the document that converting and then merging gives.
    ///
    /// - Parameter seen: The document that the author of the change had seen, before the conversion; `nil`: it is not known. A change that
    ///   moves a member of an object needs it to name what it replaces.
    package func convert(_ content: MutationContent, seen: JSONObject?) -> MutationContent {
        guard !isEmpty, content.action != .delete else { return content }
        var content = content, seen = seen
        for step in steps {
            step.convert(&content, seen: seen)
            seen.mutate { step.convert(&$0) }
        }
        return content
    }
}

extension Optional {
    fileprivate mutating func mutate(_ body: (inout Wrapped) -> Void) {
        guard var value = self else { return }
        body(&value)
        self = value
    }
}

extension SchemaStep {
    func convert(_ content: inout MutationContent, seen: JSONObject?) {
        // Names of operations have another form where the rules resolve them; they are resolved anew afterwards.
        for index in content.operations.indices { content.operations[index].path = [] }
        switch self {
        case .rename(let old, let new): content.exchange(old, new)
        case .fill(let field, let value): content.fill(field, value)
        case .drop(let field): content.drop(field)
        case .values(let field, let map): content.replaceValues(of: field, by: map)
        case .wrap(let field):
            if let value = content.data[field] { content.data[field] = Self.wrapped(value) }
            if let value = content.base[field] { content.base[field] = Self.wrapped(value) }
        case .unwrap(let field): content.unwrap(field)
        case .moveInto(let field, let member): content.move(field, into: member, seen: seen)
        case .moveOut(let member, let field): content.move(member, to: field)
        }
    }
}

extension MutationContent {
    fileprivate mutating func exchange(_ old: String, _ new: String) {
        data = data.exchanging(old, new)
        base = base.exchanging(old, new)
        let names = (JSONString(old), JSONString(new))
        if names.0 != names.1 { (stamps[names.0], stamps[names.1]) = (stamps[names.1], stamps[names.0]) }
        unset = unset.map { SchemaSteps.renamed($0, old, new) }
        for index in operations.indices { operations[index].field = SchemaSteps.renamed(operations[index].field, old, new) }
    }

    /// A change that removes the field gives it the value instead. One that does not concern the field stays as it is: the document has the
    /// value already. A create sets it at the beginning of time, because no device has written it: every value of another device is later.
    fileprivate mutating func fill(_ field: String, _ value: JSON) {
        let removed = unset.firstIndex { sameBytes($0, field) }
        if let removed { unset.remove(at: removed) }
        let isOperated = operations.contains { SchemaSteps.isIn($0.field, field) }
        let isMissing = action == .create && !isOperated && data[field] == nil
        if removed != nil || isMissing || data[field]?.isNull == true { data[field] = value }
        if isMissing { stamps[JSONString(field)] = .never }
        // A create that brings a deleted record back has the whole document as its base.
        let isWhole = action == .create && !base.isEmpty
        if isWhole && base[field] == nil || base[field]?.isNull == true { base[field] = value }
    }

    fileprivate mutating func drop(_ field: String) {
        removeFields([JSONString(field)])
        operations.removeAll { SchemaSteps.isIn($0.field, field) }
    }

    fileprivate mutating func replaceValues(of field: String, by map: JSONObject) {
        if let value = data[field] { data[field] = SchemaStep.mapped(value, by: map) }
        if let value = base[field] { base[field] = SchemaStep.mapped(value, by: map) }
        for index in operations.indices where sameBytes(operations[index].field, field) {
            switch operations[index].kind {
            case .add, .remove, .max, .min: operations[index].value = SchemaStep.mapped(operations[index].value, by: map)
            case .append:
                // The end of a text is no value.
                guard operations[index].value.array != nil else { continue }
                operations[index].value = SchemaStep.mapped(operations[index].value, by: map)
            case .increment: break
            }
        }
    }

    fileprivate mutating func unwrap(_ field: String) {
        if let value = base[field] { base[field] = SchemaStep.unwrapped(value) }
        guard let value = data[field] else { return }
        data[field] = SchemaStep.unwrapped(value)
        if data[field] == nil, action == .update { unset.append(field) }
    }

    // MARK: - Members of objects

    /// A write of the field becomes a write of the member, which the rule `merge` of the object keeps apart from its other members.
    fileprivate mutating func move(_ field: String, into member: SchemaStep.Member, seen: JSONObject?) {
        for index in operations.indices {
            operations[index].field = SchemaSteps.moved(
                operations[index].field, [(field, member.text), (member.text, field)])
        }
        let value = data[field], removed = unset.firstIndex { sameBytes($0, field) }
        guard value != nil || removed != nil else { return }
        // Nothing was there that could be removed.
        if value == nil, let removed, (base[field] ?? seen?[field]) == nil {
            unset.remove(at: removed)
            return
        }
        if action == .create {
            data.exchange(field, member)
            if !base.isEmpty { base.exchange(field, member) }
            moveStamp(field, to: member.field)
            return
        }
        if let removed { unset.remove(at: removed) }
        var object = data[member.field]?.object ?? [:], before = base[member.field]?.object ?? [:]
        object[member.name] = value
        before[member.name] = base[field] ?? seen?[field]
        data[field] = nil
        base[field] = nil
        (data[member.field], base[member.field]) = (.object(object), .object(before))
        moveStamp(field, to: member.field)
    }

    fileprivate mutating func move(_ member: SchemaStep.Member, to field: String) {
        for index in operations.indices {
            operations[index].field = SchemaSteps.moved(
                operations[index].field, [(field, member.text), (member.text, field)])
        }
        if action == .create {
            data.exchange(field, member)
            if !base.isEmpty { base.exchange(field, member) }
            return
        }
        if unset.contains(where: { sameBytes($0, member.field) }) { return unset.append(field) }
        guard var object = data[member.field]?.object else { return }
        let value = object[member.name], before = base[member.field]?.object
        let isChanged = before.map { $0[member.name] != value } ?? true
        object[member.name] = nil
        if var before {
            before[member.name] = nil
            base[member.field] = before.isEmpty ? nil : .object(before)
            data[member.field] = object.isEmpty && before.isEmpty ? nil : .object(object)
        } else {
            data[member.field] = object.isEmpty ? nil : .object(object)
            if object.isEmpty { unset.append(member.field) }
        }
        guard isChanged else { return }
        if let value { data[field] = value } else { unset.append(field) }
        stamps[JSONString(field)] = stamps[JSONString(member.field)]
    }

    /// Moves the time of a field to another field. The later of two times counts: a value is never older than one of its parts.
    private mutating func moveStamp(_ field: String, to other: String) {
        guard let stamp = stamps.removeValue(forKey: JSONString(field)) else { return }
        stamps[JSONString(other)] = max(stamps[JSONString(other)] ?? stamp, stamp)
    }
}
