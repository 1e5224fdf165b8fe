extension SchemaSteps {
    /// Converts a record of the hub with the stamps of its fields. Its version stays: the agents convert their copies themselves.
    package func convert(_ record: VersionedRecord) -> VersionedRecord {
        if isEmpty { return record }
        if let kept = record.kept {
            var draft = ShapeDraft(data: kept.data, stamp: record.stamp, stamps: kept.stamps, additions: kept.additions)
            for step in steps { draft.convert(by: step) }
            return VersionedRecord(
                deleted: record.stamp, keeping: .init(data: draft.data, stamps: draft.stamps, additions: draft.additions))
        }
        guard let data = record.data else { return record }
        var draft = ShapeDraft(data: data, stamp: record.stamp, stamps: record.exceptions, additions: record.additions)
        for step in steps { draft.convert(by: step) }
        return VersionedRecord(data: draft.data, stamp: record.stamp, exceptions: draft.stamps, additions: draft.additions)
    }
}

/// A record while it is converted.
private struct ShapeDraft {
    var data: JSONObject
    /// The stamp of the record.
    let stamp: VersionedRecord.Stamp
    /// The stamps of fields that have one of their own.
    var stamps: [JSONString: VersionedRecord.Stamp]
    var additions: [JSONString: [JSON: VersionedRecord.Stamp]]

    mutating func convert(by step: SchemaStep) {
        let before = data
        step.convert(&data)
        switch step {
        case .rename(let old, let new): exchange(old, new)
        case .fill(let field, _):
            // No device has written the value, so every change of the field is later, also without having seen it.
            let name = JSONString(field)
            if before[field] == nil, stamps[name] == nil { stamps[name] = .never }
        case .drop(let field):
            stamps[JSONString(field)] = nil
            additions[JSONString(field)] = nil
        case .values(let field, let map):
            guard let elements = additions[JSONString(field)] else { return }
            additions[JSONString(field)] = Dictionary(
                elements.map { (SchemaStep.mapped($0, by: map), $1) }, uniquingKeysWith: { $0.hlc < $1.hlc ? $1 : $0 })
        case .wrap, .unwrap: break
        case .moveInto(let field, let member), .moveOut(let member, let field): exchange(field, member, before)
        }
    }

    private mutating func exchange(_ old: String, _ new: String) {
        let (old, new) = (JSONString(old), JSONString(new))
        if old == new { return }
        (stamps[old], stamps[new]) = (stamps[new], stamps[old])
        (additions[old], additions[new]) = (additions[new], additions[old])
        for name in [old, new] {
            let members = stamps[name]?.members
            stamps[name]?.members = members?.renamed(old.text, new.text)
        }
    }

    /// The field and the member exchange their times. The object as a whole is as new as its newest part.
    private mutating func exchange(_ field: String, _ member: SchemaStep.Member, _ before: JSONObject) {
        let (outer, object) = (JSONString(field), JSONString(member.field))
        let written = stamps[outer] ?? (before[field] == nil ? nil : stamp)
        let around = stamps[object] ?? (before[member.field] == nil ? nil : stamp)
        let inner = before[member.field]?.object?[member.name] == nil ? nil : around
        additions[outer] = nil
        if var inner {
            inner.hlc = inner.memberTimes.time(of: member.text)
            inner.members = nil
            stamps[outer] = inner
        } else {
            stamps[outer] = nil
        }
        guard data[member.field] != nil else { return stamps[object] = around.flatMap { before[member.field] == nil ? $0 : nil } }
        guard let written else { return }
        guard var joined = around else { return stamps[object] = written }
        joined.memberTimes.write(member.text, at: written.hlc)
        // The later commit of the two counts, so that no change passes unseen.
        if written.version > joined.version {
            (joined.version, joined.writer, joined.author) = (written.version, written.writer, written.author)
        }
        joined.foreign = max(joined.foreign, written.foreign)
        joined.replaced = max(joined.replaced, written.replaced)
        stamps[object] = joined
    }
}

extension VersionedRecord.Stamp {
    /// The stamp of a value that a step filled in.
    fileprivate static var never: Self { Self(version: 0, hlc: .never, writer: .hub) }
}

extension HybridTime {
    /// The beginning of time: every write is later.
    static var never: HybridTime { HybridTime(milliseconds: 0, counter: 0, node: "0") }
}

extension MemberTimes {
    fileprivate func renamed(_ old: String, _ new: String) -> MemberTimes {
        MemberTimes(
            rest: rest,
            named: Dictionary(
                named.map { (JSONString(SchemaSteps.renamed($0.text, old, new)), $1) }, uniquingKeysWith: { max($0, $1) }))
    }
}
