/// Two mutations of one record that stand one after the other made into one, before anything of them was sent (PROTOCOL
/// C6). A form that is edited ten times without a link costs one mutation then, and one version at the hub.
///
/// What results does to any document what the two would have done one after the other; that holds field by field, because
/// folding one mutation sets, removes and operates in this order, and no field looks at another:
///
/// | older \ newer | sets or removes the field | only operates on it |
/// |---|---|---|
/// | sets or removes it | the newer | the older, then the newer's operations |
/// | operates on it | the newer | both, in their order |
///
/// `inc` adds up, appended lists are joined, an element is put into a set once, an extremum takes the place of a lesser
/// one. Appended text stays in pieces: what two pieces mean depends on what the field holds at the hub.
///
/// The value that an app had seen (``MutationContent/base``) is the one that was there before the older of the two: what
/// both did is brought together with the hub's document as one change.
///
/// What results is as late as the newer of the two; what is left in it of the older one keeps the older one's stamp
/// (``MutationContent/stamps``, ``FieldOperation/hlc``). So who wrote a field last is decided as if both had gone by themselves.
package enum Coalescing {
    /// A mutation that would grow beyond this stays as it is: it is sent again as a whole after a lost answer, and costs as
    /// much as one of its own then.
    package static let bytesMax = 64 << 10

    package enum Outcome: Hashable, Sendable {
        case one(MutationContent)
        /// A record that was to be created, and now it is not. Where the hub may have one of that id all the same, this is a deletion.
        case nothing
    }

    /// - Parameter stamp: That of the older one; `nil` where nobody asks for stamps.
    /// - Returns: `nil` for what has to stay two: whatever follows a deletion, and a creation that follows anything.
    package static func merge(_ older: MutationContent, _ newer: MutationContent, stamp: HybridTime? = nil) -> Outcome? {
        switch (older.action, newer.action) {
        // A creation says of an object that it knew of none: what others had put in there would count as its own.
        case (.create, .update) where hasSeenMore(newer, than: older): nil
        case (.create, .update): .one(overlay(older, newer, stamp))
        // What the older does to a member goes onto whatever is there; what had been seen before it of the whole is not known.
        case (.update, .update) where older.operations.contains(where: { !$0.path.isEmpty && newer.data[$0.top] != nil }): nil
        case (.update, .update): .one(overlay(older, newer, stamp))
        case (.update, .delete): .one(MutationContent(.delete))
        case (.create, .delete): .nothing
        case (.delete, _), (_, .create): nil
        }
    }

    /// Whether an object that is merged held something that the creation before has not put there.
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
        // A name that is set and removed by one mutation ends up removed: folding removes last.
        merged.unset += newer.unset
        merged.base = base(older, newer)
        var last: [JSONString: Int] = [:]
        for (index, operation) in merged.operations.enumerated() { last[JSONString(operation.field)] = index }
        for operation in newer.operations { append(operation, to: &merged.operations, &last) }
        return merged
    }

    /// Of an object that both write and that is merged, the members that only the older one has changed keep its time.
    private static func keepMembers(
        of older: MutationContent, _ newer: MutationContent, _ assigned: Set<String>, _ stamp: HybridTime,
        in stamps: inout [JSONString: HybridTime]
    ) {
        var named = memberStamps(of: older)
        for (field, times) in named where assigned.contains(field) {
            for name in times.keys { stamps[name] = newer.stamps[name] }
        }
        // Only a field under `merge` says what it was made of (``WireForm/bases(_:seen:rules:)``).
        for member in newer.base.members {
            let field = member.name.text
            guard let first = older.data[field]?.object, let last = newer.data[field]?.object else { continue }
            let times = MemberTimes(rest: older.stamps[member.name] ?? stamp, named: named.removeValue(forKey: field) ?? [:])
            for place in unchanged(from: first, to: last, since: older.base[field]?.object ?? [:], at: field, depth: 1) {
                stamps[JSONString(place)] = times.time(of: place)
            }
        }
    }

    /// The stamps that are of no field but of a member, by their field.
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

    /// - Returns: The dotted names of the members that are the same in both, and were something else before.
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

    /// Of an object that both change: what the older one has not changed others may have, before the newer one was made.
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

    /// - Returns: One operation that does what the two do one after the other, whatever the field holds; `nil` if there is
    ///   none.
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
        default: return nil
        }
        return joined
    }
}

extension MutationContent {
    /// The same with the stamp of the mutation at each of its parts that has none of its own.
    fileprivate func stamped(_ stamp: HybridTime?) -> MutationContent {
        guard let stamp else { return self }
        var result = self
        for name in data.names + unset where stamps[JSONString(name)] == nil { result.stamps[JSONString(name)] = stamp }
        for index in operations.indices where operations[index].hlc == nil { result.operations[index].hlc = stamp }
        return result
    }

    /// Whether a part of it was made at another time than the whole.
    package var hasParts: Bool { !stamps.isEmpty || operations.contains { $0.hlc != nil } }
}
