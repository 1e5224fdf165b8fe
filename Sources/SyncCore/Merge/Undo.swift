/// The former values of the fields that a mutation changed, kept in case a person wants to undo it.
package struct EarlierValues: Hashable, Sendable {
    /// Former values of the changed fields.
    package private(set) var fields = JSONObject()
    /// Changed fields that did not exist before.
    package private(set) var absent: [String] = []
    /// The whole document, for a mutation that deleted the record, and for one that was under way when the hub deleted it.
    package private(set) var document: JSONObject?

    /// - Parameter document: The document as apps saw it before the mutation; `nil`: there was no record.
    package init(of content: MutationContent, before document: JSONObject?) {
        join(content, before: document)
    }

    /// Adds the former values of a later change that becomes part of the same mutation.
    package mutating func join(_ content: MutationContent, before document: JSONObject?) {
        guard let document else { return }
        if content.action == .delete {
            var whole = document
            for member in fields.members { whole[member.name.text] = member.value }
            for name in absent { whole[name] = nil }
            self.document = whole
            return
        }
        for field in content.fields where fields[field] == nil && !absent.contains(field) {
            if let value = document[field] { fields[field] = value } else { absent.append(field) }
        }
    }

    /// Adds the hub's document of a record that the hub has deleted. The first one counts, because the author of the mutation saw it.
    package mutating func join(deleted document: JSONObject) {
        self.document = self.document ?? document
    }

    package mutating func forgetDocument() { document = nil }

    package init?(_ json: JSON) {
        guard let object = json.object else { return nil }
        fields = object["was"]?.object ?? [:]
        absent = object["absent"]?.array?.compactMap(\.text) ?? []
        document = object["document"]?.object
    }

    package var json: JSON {
        var object = JSONObject()
        if !fields.isEmpty { object["was"] = .object(fields) }
        if !absent.isEmpty { object["absent"] = .list(absent) }
        if let document { object["document"] = .object(document) }
        return .object(object)
    }

    /// The values in another version of the schema.
    package func converted(by steps: SchemaSteps) -> EarlierValues {
        var changed = self
        changed.fields = JSONObject()
        for member in fields.members {
            guard let name = steps.name(of: member.name.text) else { continue }
            changed.fields[name] = steps.convert(member.name.text, member.value)
        }
        changed.absent = absent.compactMap { steps.name(of: $0) }
        changed.document = document.map { steps.convert($0) }
        return changed
    }

    func knows(_ field: String) -> Bool { fields[field] != nil || absent.contains(field) }
}

/// The change that undoes a mutation, as far as its effect is still there.
///
/// It is an ordinary change of the present record, so the rules of its fields apply. A value that was changed since then stays: undoing a
/// mutation never overwrites a later change.
package struct Undo: Hashable, Sendable {
    package enum Reason: String, Sendable, CaseIterable {
        /// The field no longer has the value that the mutation wrote.
        case changedSince = "changed-since"
        /// The former value of the field is not known.
        case notKept = "not-kept"
        /// The rule of the field works in one direction only: appended values and raised maxima stay.
        case oneWay = "one-way"
        /// The record exists again, or no longer exists.
        case record
    }

    package struct Left: Hashable, Sendable {
        /// Name of the field; empty for the whole record.
        package var field: String
        package var reason: Reason

        package init(field: String, reason: Reason) {
            self.field = field
            self.reason = reason
        }
    }

    /// `nil`: there is nothing to undo.
    package private(set) var content: MutationContent?
    /// The fields that it undoes; empty when it undoes a change of the whole record.
    package private(set) var fields: [String] = []
    package private(set) var left: [Left] = []

    /// - Parameters:
    ///   - done: The content of the mutation.
    ///   - earlier: The former values; `nil`: none were kept.
    ///   - now: The document as apps see it; `nil`: there is no record.
    package init(_ done: MutationContent, earlier: EarlierValues?, now: JSONObject?, rules: EntityRules) {
        switch (done.action, now) {
        case (.create, nil), (.update, nil): left = [Left(field: "", reason: .record)]
        case (.create, let now?):
            let made = Fold.apply(done, to: nil) ?? [:]
            let others = Set(now.names).union(made.names).filter { now[$0] != made[$0] }
            if others.isEmpty { content = MutationContent(.delete) }
            left = others.sorted().map { Left(field: $0, reason: .changedSince) }
        case (.delete, .some): left = [Left(field: "", reason: .record)]
        case (.delete, nil):
            if let document = earlier?.document {
                content = MutationContent(.create, data: document)
            } else {
                left = [Left(field: "", reason: .notKept)]
            }
        case (.update, let now?):
            var back = MutationContent(.update)
            for member in done.data.members { takeBack(member.name.text, wrote: member.value, earlier, now, rules, &back) }
            for field in done.unset { takeBack(field, wrote: nil, earlier, now, rules, &back) }
            for operation in done.operations { takeBack(operation, earlier, now, &back) }
            if !back.isEmpty { content = back }
        }
    }

    private mutating func leave(_ field: String, _ reason: Reason) {
        if !left.contains(where: { $0.field == field }) { left.append(Left(field: field, reason: reason)) }
    }

    private mutating func takeBack(
        _ field: String, wrote: JSON?, _ earlier: EarlierValues?, _ now: JSONObject, _ rules: EntityRules, _ back: inout MutationContent
    ) {
        guard let earlier, earlier.knows(field) else { return leave(field, .notKept) }
        let before = earlier.fields[field]
        if before == wrote { return }
        if rules.strategy(of: field).isExtreme { return leave(field, .oneWay) }
        if now[field] == wrote {
            if let before { back.data[field] = before } else { back.unset.append(field) }
        } else if rules.strategy(of: field) == .merge, let mine = wrote?.object, let there = now[field]?.object {
            guard let value = members(of: field, wrote: mine, before: before?.object ?? [:], now: there) else { return }
            back.data[field] = .object(value)
        } else {
            return leave(field, .changedSince)
        }
        fields.append(field)
    }

    /// The members of a merged object that still have the written value, set back to what they were.
    private mutating func members(of field: String, wrote: JSONObject, before: JSONObject, now: JSONObject) -> JSONObject? {
        var result = now, isChanged = false
        for name in Set(wrote.names).union(before.names).sorted() where wrote[name] != before[name] {
            if now[name] == wrote[name] {
                result[name] = before[name]
                isChanged = true
            } else {
                leave("\(field).\(name)", .changedSince)
            }
        }
        return isChanged ? result : nil
    }

    private mutating func takeBack(
        _ operation: FieldOperation, _ earlier: EarlierValues?, _ now: JSONObject, _ back: inout MutationContent
    ) {
        let names = operation.path.isEmpty ? [operation.field] : operation.path
        func value(in document: JSONObject) -> JSON? { FieldPath(names)?.value(in: document) }
        var opposite = operation
        opposite.hlc = nil
        switch operation.kind {
        case .append, .max, .min: return leave(operation.field, .oneWay)
        case .increment:
            guard case .number(let number) = operation.value, case .number? = value(in: now) else {
                return leave(operation.field, .changedSince)
            }
            opposite.value = .number(number.negated)
        case .add, .remove:
            guard let earlier, earlier.knows(operation.top) else { return leave(operation.field, .notKept) }
            func has(_ document: JSONObject) -> Bool {
                value(in: document)?.array?.contains { SetElement.isSame($0, operation.value) } == true
            }
            let isAdded = operation.kind == .add
            // The operation had no effect.
            if has(earlier.fields) == isAdded { return }
            guard has(now) == isAdded else { return leave(operation.field, .changedSince) }
            opposite.kind = isAdded ? .remove : .add
        }
        back.operations.append(opposite)
        if !fields.contains(operation.field) { fields.append(operation.field) }
    }
}
