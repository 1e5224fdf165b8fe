/// Merges two consecutive mutations of one record into one, before any part of them was sent (PROTOCOL C6). A form that is edited ten times
/// without a link then costs one mutation, and one version at the hub.
///
/// The result has the same effect on any document as the two in sequence. That holds field by field, because a mutation sets, removes and
/// operates in this order, and no field depends on another:
///
/// | older \ newer | sets or removes the field | only operates on it |
/// |---|---|---|
/// | sets or removes it | the newer | the older, then the newer's operations |
/// | operates on it | the newer | both, in their order |
///
/// `inc` is summed, appended lists are joined, an element is added to a set once, and an extremum replaces a lesser one. Appended text
/// stays in pieces, because the meaning of two pieces depends on the field's value at the hub.
///
/// The base (``MutationContent/base``) is the value before the older of the two: both changes are merged with the hub's document as one.
///
/// The result has the stamp of the newer mutation. Parts of the older one keep their own stamp (``MutationContent/stamps``,
/// ``FieldOperation/hlc``). So the last writer of a field is decided as if both had been sent separately.
package enum Coalescing {
    /// Size beyond which mutations are not merged, bytes: after a lost answer, a mutation is sent again as a whole, and then costs as much
    /// as a separate one.
    package static let bytesMax = 64 << 10

    package enum Outcome: Hashable, Sendable {
        case one(MutationContent)
        /// A record that was to be created and is not any more. Where the hub may have one of that id all the same, the result is a
        /// deletion.
        case nothing
    }

    /// - Parameter stamp: The stamp of the older mutation; `nil` where stamps are not needed.
    /// - Returns: `nil` when the two must stay separate: for every mutation after a deletion, and for a create after any other.
    package static func merge(_ older: MutationContent, _ newer: MutationContent, stamp: HybridTime? = nil) -> Outcome? {
        switch (older.action, newer.action) {
        // A create implies an empty object before it: members that others have added would count as its own.
        case (.create, .update) where hasSeenMore(newer, than: older): nil
        case (.create, .update): .one(overlay(older, newer, stamp))
        // The older mutation's operation on a member applies to any present value; the base of the whole object before it is not known.
        case (.update, .update) where older.operations.contains(where: { !$0.path.isEmpty && newer.data[$0.top] != nil }): nil
        case (.update, .update): .one(overlay(older, newer, stamp))
        case (.update, .delete): .one(MutationContent(.delete))
        case (.create, .delete): .nothing
        case (.delete, _), (_, .create): nil
        }
    }

    /// Returns whether a merged object contained members that the create before has not set.
    private static func hasSeenMore(_ newer: MutationContent, than older: MutationContent) -> Bool {
        newer.base.members.contains { member in
            let field = member.name.text
            let hasOperations = older.operations.contains { $0.top == field }
            let made = hasOperations ? Fold.apply(older, to: nil)?[field] : older.data[field]
            return (made ?? .object([:])) != member.value
        }
    }

    private static func overlay(_ older: MutationContent, _ newer: MutationContent, _ stamp: HybridTime?) -> MutationContent {
        var merged = older.stamped(stamp)
        let assigned = Set(newer.data.names + newer.unset)
        merged.operations.removeAll { assigned.contains($0.top) }
        merged.unset.removeAll { assigned.contains($0) }
        for name in assigned { merged.stamps[JSONString(name)] = newer.stamps[JSONString(name)] }
        if let stamp { keepMembers(of: older, newer, assigned, stamp, in: &merged.stamps) }
        for field in newer.unset { merged.data[field] = nil }
        for member in newer.data.members { merged.data[member.name.text] = member.value }
        // A name that one mutation both sets and removes is removed: folding removes last.
        merged.unset += newer.unset
        merged.base = base(older, newer)
        var last: [JSONString: Int] = [:]
        for (index, operation) in merged.operations.enumerated() { last[JSONString(operation.field)] = index }
        for operation in newer.operations { append(operation, to: &merged.operations, &last) }
        return merged
    }

    /// Keeps the time of the older mutation for members of a merged object that only it has changed, when both write the object.
    private static func keepMembers(
        of older: MutationContent, _ newer: MutationContent, _ assigned: Set<String>, _ stamp: HybridTime,
        in stamps: inout [JSONString: HybridTime]
    ) {
        var named = memberStamps(of: older)
        for (field, times) in named where assigned.contains(field) {
            for name in times.keys { stamps[name] = newer.stamps[name] }
        }
        // Only a field under `merge` has a base (``WireForm/bases(_:seen:rules:)``).
        for member in newer.base.members {
            let field = member.name.text
            guard let first = older.data[field]?.object, let last = newer.data[field]?.object else { continue }
            let times = MemberTimes(rest: older.stamps[member.name] ?? stamp, named: named.removeValue(forKey: field) ?? [:])
            for place in unchanged(from: first, to: last, since: older.base[field]?.object ?? [:], at: field, depth: 1) {
                stamps[JSONString(place)] = times.time(of: place)
            }
        }
    }

    /// The stamps of members, grouped by their field.
    private static func memberStamps(of content: MutationContent) -> [String: [JSONString: HybridTime]] {
        var named: [String: [JSONString: HybridTime]] = [:]
        for (name, time) in content.stamps where content.data[name.text] == nil && !content.unset.contains(name.text) {
            var field = Substring(name.text)
            while let dot = field.lastIndex(of: ".") {
                field = field[..<dot]
                if content.data[String(field)]?.object != nil { named[String(field), default: [:]][name] = time }
            }
        }
        return named
    }

    /// - Returns: The dotted names of the members that are equal in both, and had another value before.
    private static func unchanged(
        from first: JSONObject, to last: JSONObject, since base: JSONObject, at path: String, depth: Int
    ) -> [String] {
        var places: [String] = []
        let names = first.names + base.names.filter { first[$0] == nil }
        for name in names where first[name] != base[name] {
            let place = "\(path).\(name)"
            if first[name] == last[name] {
                places.append(place)
            } else if let inner = first[name]?.object, let other = last[name]?.object, depth < ThreeWay.depthMax {
                places += unchanged(from: inner, to: other, since: base[name]?.object ?? [:], at: place, depth: depth + 1)
            }
        }
        return places
    }

    private static func base(_ older: MutationContent, _ newer: MutationContent) -> JSONObject {
        var base = older.base
        for field in newer.unset where older.action == .update { base[field] = nil }
        let touched = Set(older.fields)
        for member in newer.base.members where older.action == .update {
            let field = member.name.text
            if !touched.contains(field) {
                base[field] = member.value
            } else if let first = older.base[field]?.object, let written = older.data[field]?.object, let seen = member.value.object {
                base[field] = .object(self.base(first, written, seen, depth: 1))
            }
        }
        return base
    }

    /// The base of an object that both change: others may have changed the parts that the older one left alone before the newer one was
    /// made.
    private static func base(_ first: JSONObject, _ written: JSONObject, _ seen: JSONObject, depth: Int) -> JSONObject {
        var base = first
        for name in seen.names + first.names.filter({ seen[$0] == nil }) {
            if written[name] == first[name] {
                base[name] = seen[name]
            } else if let first = first[name]?.object, let written = written[name]?.object, let seen = seen[name]?.object,
                depth < ThreeWay.depthMax
            {
                base[name] = .object(self.base(first, written, seen, depth: depth + 1))
            }
        }
        return base
    }

    /// - Parameter last: The place of the last operation on each field.
    private static func append(
        _ operation: FieldOperation, to operations: inout [FieldOperation], _ last: inout [JSONString: Int]
    ) {
        let name = JSONString(operation.field)
        if let place = last[name], let joined = join(operations[place], operation) {
            operations[place] = joined
        } else {
            last[name] = operations.count
            operations.append(operation)
        }
    }

    /// - Returns: One operation with the effect of the two in sequence, whatever the field contains; `nil` if there is none.
    private static func join(_ first: FieldOperation, _ second: FieldOperation) -> FieldOperation? {
        guard first.kind == second.kind else { return nil }
        var joined = first
        joined.hlc = second.hlc
        switch (first.kind, first.value, second.value) {
        case (.increment, .number(let a), .number(let b)):
            guard let sum = a.adding(b) else { return nil }
            joined.value = .number(sum)
        case (.append, .array(let a), .array(let b)): joined.value = .array(a + b)
        case (.add, _, _), (.remove, _, _):
            guard first.value == second.value else { return nil }
        case (.max, .number, .number), (.min, .number, .number), (.max, .string, .string), (.min, .string, .string):
            joined.value = Fold.apply(second, to: first.value) ?? first.value
        case (.increment, _, _), (.append, _, _), (.max, _, _), (.min, _, _): return nil
        }
        return joined
    }
}

extension MutationContent {
    /// The same content with the stamp of the mutation at each part without one of its own.
    fileprivate func stamped(_ stamp: HybridTime?) -> MutationContent {
        guard let stamp else { return self }
        var result = self
        for name in data.names + unset where stamps[JSONString(name)] == nil { result.stamps[JSONString(name)] = stamp }
        for index in operations.indices where operations[index].hlc == nil { result.operations[index].hlc = stamp }
        return result
    }

    /// `true` when a part of it was made at another time than the whole.
    package var hasParts: Bool { !stamps.isEmpty || operations.contains { $0.hlc != nil } }
}
