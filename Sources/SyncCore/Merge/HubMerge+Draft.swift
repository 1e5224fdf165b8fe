extension HubMerge {
    /// A record while a change is applied to it.
    struct Draft {
        var document: JSONObject
        /// Stamps of fields, also of removed ones.
        var stamps: [JSONString: VersionedRecord.Stamp] = [:]
        /// Stamps of the elements of sets, by field.
        var additions: [JSONString: [JSON: VersionedRecord.Stamp]] = [:]
        /// Fields that a person must decide.
        var undecided: [String] = []

        /// A record that is made anew.
        init(
            _ document: JSONObject, stamps: [JSONString: VersionedRecord.Stamp] = [:],
            additions: [JSONString: [JSON: VersionedRecord.Stamp]] = [:]
        ) {
            self.document = document
            self.stamps = stamps
            self.additions = additions
        }

        /// A record that exists.
        init(_ record: VersionedRecord) {
            document = record.data ?? [:]
            stamps = record.stamps
            additions = record.additions
        }
    }
}

extension HubMerge.Pass {
    /// Ends the merge with a record that exists.
    mutating func conclude(_ draft: HubMerge.Draft, over record: VersionedRecord) -> HubMerge.Outcome {
        guard draft.undecided.isEmpty else { return .conflict(fields: draft.undecided) }
        if !accepted.merged.isEmpty { accepted.isPlain = false }
        return write(draft, over: record.data)
    }

    /// The record that a create makes out of nothing, or an update out of a deleted record of which nothing was kept.
    ///
    /// - Parameter start: `nil` for a create.
    func newRecord(on start: JSONObject?) -> HubMerge.Draft {
        let document = Fold.apply(content, to: start) ?? [:]
        return HubMerge.Draft(document, stamps: newStamps(of: document), additions: newAdditions)
    }

    mutating func write(_ draft: HubMerge.Draft, over before: JSONObject? = nil) -> HubMerge.Outcome {
        var additions = draft.additions
        recordAdditions(draft.document, over: before, &additions)
        // The recorded addition of an element is dropped together with the element.
        for (name, stamps) in additions where !stamps.isEmpty {
            let path = if case .member(let path) = rules.place(of: name.text) { path } else { [name.text] }
            let present = Set((draft.document.member(at: path).value?.array ?? []).map { SetElement.key($0) })
            additions[name] = stamps.filter { present.contains($0.key) }
        }
        accepted.record = VersionedRecord(
            data: draft.document, stamp: changeStamp, exceptions: Self.withoutOldRemovals(draft.stamps, draft.document),
            additions: additions)
        return .accepted(accepted)
    }

    /// Elements that this change adds to sets of a record that was not there. A removal that had not seen them does not remove them.
    private var newAdditions: [JSONString: [JSON: VersionedRecord.Stamp]] {
        var additions: [JSONString: [JSON: VersionedRecord.Stamp]] = [:]
        for operation in content.operations where operation.kind == .add {
            additions[JSONString(operation.field), default: [:]][SetElement.key(operation.value)] = stamp(at: operation.hlc)
        }
        return additions
    }

    /// Stamps of a new record's fields that differ from the stamp of the whole. They cover fields that were written earlier, and fields
    /// that the create names as removed because a removal was merged into it: another create of the same record has not seen that removal.
    private func newStamps(of document: JSONObject) -> [JSONString: VersionedRecord.Stamp] {
        var stamps = Dictionary(content.unset.map { (JSONString($0), fieldStamp) }, uniquingKeysWith: { first, _ in first })
        guard content.hasParts || !memberStamps.isEmpty else { return stamps }
        // A name that the change does not write has no meaning: the stamp of an absent field would say that it was removed.
        for (name, hlc) in content.stamps where document[name.text] != nil || stamps[name] != nil { stamps[name] = stamp(at: hlc) }
        var members: [JSONString: MemberTimes] = [:]
        for (name, named) in memberStamps where document[name.text] != nil {
            members[name] = MemberTimes(rest: (stamps[name] ?? changeStamp).hlc, named: named)
        }
        // A removal from a set that is not there does not count as a removal of the field, which would beat older values of it.
        for operation in content.operations where document[operation.top] != nil {
            let name = JSONString(operation.top), its = stamp(at: operation.hlc)
            let isFirst = stamps[name] == nil && content.data[operation.top] == nil
            if !operation.path.isEmpty {
                let rest = isFirst ? its.hlc : (stamps[name] ?? changeStamp).hlc
                members[name, default: MemberTimes(rest: rest)].write(operation.field, at: its.hlc)
            }
            stamps[name] = isFirst || its.hlc > (stamps[name] ?? changeStamp).hlc ? its : stamps[name]
        }
        for (name, its) in members { stamps[name, default: changeStamp].memberTimes = its }
        return stamps
    }

    /// Records an addition for each element of a set that is new or has new content, also where the list was written whole.
    private mutating func recordAdditions(
        _ document: JSONObject, over before: JSONObject?, _ additions: inout [JSONString: [JSON: VersionedRecord.Stamp]]
    ) {
        let appended = content.operations.lazy.filter { $0.kind == .append }.map { JSONString($0.top) }
        let names = Set(content.data.members.map(\.name) + appended)
        guard rules.kind == .record, !names.isEmpty else { return }
        for (name, path) in rules.setPlaces where names.contains(JSONString(path[0])) {
            guard let elements = document.member(at: path).value?.array else { continue }
            let old = SetIndex(before?.member(at: path).value)
            var stamps = additions[JSONString(name)] ?? [:]
            let field = JSONString(path[0])
            let isWritten = content.data[path[0]] != nil
            fieldStamp = stamp(
                at: isWritten ? content.stamps[field] : content.operations.last { $0.kind == .append && $0.top == path[0] }?.hlc)
            defer { fieldStamp = changeStamp }
            for element in elements where !old.hasSame(element) {
                let key = SetElement.key(element)
                stamps[key] = written(over: stamps[key], isMerged: isNews(stamps[key], since: seenVersion))
            }
            additions[JSONString(name)] = stamps
        }
    }

    /// Keeps the stamps of at most ``Limits/documentFields`` absent fields, those of the newest removals. Otherwise a record whose fields
    /// come and go under ever new names would grow without limit.
    private static func withoutOldRemovals(
        _ stamps: [JSONString: VersionedRecord.Stamp], _ document: JSONObject
    ) -> [JSONString: VersionedRecord.Stamp] {
        guard stamps.count > document.count + Limits.documentFields else { return stamps }
        let removed = stamps.filter { document[$0.key.text] == nil }
        let newest = removed.sorted {
            ($0.value.version, $1.key.source) > ($1.value.version, $0.key.source)
        }
        var kept = stamps
        for (name, _) in newest.dropFirst(Limits.documentFields) { kept[name] = nil }
        return kept
    }
}
