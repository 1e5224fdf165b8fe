/// Fields that a change sets or removes, merged with a record that exists.
extension HubMerge.Pass {
    /// - Parameter isBlind: The device had seen nothing of the record, so every field counts as known to be absent.
    mutating func merge(into record: VersionedRecord, isBlind: Bool = false) -> HubMerge.Outcome {
        let version = isBlind ? 0 : seenVersion
        var draft = HubMerge.Draft(record)
        for (name, value) in assignments + (isBlind ? removalsOfCreate(from: draft.document) : []) {
            let field = name.text
            fieldStamp = stamp(at: content.stamps[name])
            let edit = FieldEdit(
                name: name, value: value, present: draft.document[field], old: draft.stamps[name],
                known: content.base[field], strategy: rules.strategy(of: field), isBlind: isBlind, seenVersion: version)
            apply(edit, of: record, &draft)
        }
        fieldStamp = changeStamp
        guard content.operations.isEmpty else { return operate(on: draft, of: record, since: version) }
        return conclude(draft, over: record)
    }

    /// One field that the change sets or removes, beside the hub's present value of it.
    private struct FieldEdit {
        let name: JSONString
        /// `nil` removes the field.
        let value: JSON?
        let present: JSON?
        /// The stamp of the present value.
        let old: VersionedRecord.Stamp?
        /// The value that the author sent along as seen; `nil` when it sent none.
        let known: JSON?
        let strategy: FieldStrategy
        let isBlind: Bool
        /// The version of the record that counts as seen by the author.
        let seenVersion: Int64

        var field: String { name.text }

        /// Both values are objects that are merged member by member.
        var areMembers: Bool { strategy == .merge && (known != nil || isBlind) && value?.object != nil && present?.object != nil }

        /// The rule of the field merges the change even if the present value is no news to its author.
        ///
        /// A merged object was not written as a whole, so its last writer does not matter. The writer does not matter either for a field
        /// that moves in one direction only, nor for a set whose author sent the value that it had seen.
        var isMerged: Bool {
            switch strategy {
            case .merge: known != nil || isBlind
            case .max: Fold.extreme(.max, value, present) != nil
            case .min: Fold.extreme(.min, value, present) != nil
            case .set: known != nil && (isBlind || known != present)
            case .lww, .server, .client, .append, .counter, .manual: known != nil && isBlind
            }
        }
    }

    /// Applies one edit: it repeats the present value, replaces it, or is decided by a contest.
    private mutating func apply(_ edit: FieldEdit, of record: VersionedRecord, _ draft: inout HubMerge.Draft) {
        if edit.isBlind, let known = edit.known {
            // A create that brings a record back asks only for the differences from its base, also where another device has removed the
            // field meanwhile. The rest keeps its stamps: a write of it would be news to the changes that the same device has made behind
            // the create. Only a value that its author spelled otherwise is a difference here.
            if edit.old != nil, let value = edit.value, known == value, value != edit.present || value.isSpelled(as: known) {
                // The device assumes that the field is there.
                accepted.isPlain = false
                return
            }
            // A value that equals what the author had seen is no news, whichever device wrote it.
            if known == edit.present, edit.strategy != .merge { return replace(edit, &draft) }
        }
        if repeatsPresent(edit, &draft) { return }
        // A create over an existing record starts fresh and replaces the device's own values. A field that adds up is merged with them.
        let isNews = isNews(edit.old, since: edit.seenVersion) || (edit.isBlind && edit.old != nil && edit.strategy.addsUp)
        guard isNews || edit.isMerged else { return replace(edit, &draft) }
        contest(edit, isNews: isNews, of: record, &draft)
    }

    /// Handles an edit to the value that is there already.
    ///
    /// - Returns: `false` when the values differ, or merge to more than each of them.
    private mutating func repeatsPresent(_ edit: FieldEdit, _ draft: inout HubMerge.Draft) -> Bool {
        guard edit.present == edit.value else { return false }
        // When two counts are equal, both were counted, also inside an object.
        if edit.isBlind, edit.strategy == .counter, edit.value != edit.known { return false }
        let members = edit.areMembers ? repeatedMembers(edit) : nil
        if members?.outcome.isBoth == true { return false }
        if let value = edit.value, isKeptAsWritten(edit) { draft.document[edit.field] = value }
        if !ablations.contains(.writtenAgainForgotten) { draft.stamps[edit.name] = writtenAgain(over: edit.old, since: edit.seenVersion) }
        if let members { updateMemberTimes(of: edit.name, written: members.written, over: edit.old, &draft.stamps) }
        return true
    }

    /// The result of writing an object that is there already: the members that it writes again, and whether counts in it add up.
    private func repeatedMembers(_ edit: FieldEdit) -> FieldContest.Decision {
        let contest = FieldContest(rules, edit.field, localIsLater: false, signature: signature, known: .value(edit.known))
        return contest.decide(local: edit.value, remote: edit.value)
    }

    /// Returns whether a value that equals the present one is stored with the spelling of the change. People are never asked about that.
    private mutating func isKeptAsWritten(_ edit: FieldEdit) -> Bool {
        guard let old = edit.old, isNews(old, since: edit.seenVersion) else { return true }
        let isKept =
            switch edit.strategy {
            case .server: false
            case .client: true
            case .lww, .manual, .merge, .append, .counter, .set, .max, .min: isLater(than: old.hlc)
            }
        if !isKept { accepted.isPlain = false }
        return isKept
    }

    private func replace(_ edit: FieldEdit, _ draft: inout HubMerge.Draft) {
        draft.document[edit.field] = edit.value
        draft.stamps[edit.name] = written(over: edit.old)
    }

    /// Lets the strategy of the field decide.
    private mutating func contest(_ edit: FieldEdit, isNews: Bool, of record: VersionedRecord, _ draft: inout HubMerge.Draft) {
        let (name, old) = (edit.name, edit.old)
        let isByArrival = ablations.contains(.membersByArrival) && edit.strategy == .merge
        // A value of the same device that a create finds was written before the create.
        let isFirst = (edit.isBlind && !isNews) || isByArrival
        let localIsLater = old.map { isLater(than: $0.hlc) || isFirst } ?? true
        var contest = FieldContest(rules, edit.field, localIsLater: localIsLater, signature: signature, known: seenValue(edit, record))
        if edit.areMembers, !isFirst, let old, !ablations.contains(.membersByField) {
            contest.members = isTimed ? MemberOrder(mine: memberTimes(of: name), theirs: old.memberTimes) : nil
        }
        let decision = contest.decide(local: edit.value, remote: edit.present)
        // For a value that is no news, only a member can lose: it is compared with what the app had seen.
        let isReported = isNews || (edit.known != nil && edit.strategy == .merge)
        reportLosses(decision.lost, writtenBy: isReported ? old : nil, record.additions[name] ?? [:])
        switch decision.outcome {
        case .local: replace(edit, &draft)
        case .remote:
            reportMerged(edit.field)
            if edit.strategy.isExtreme, let present = edit.present { accepted.kept[edit.field] = present }
        case .both(let united):
            if united != edit.value { reportMerged(edit.field) }
            draft.document[edit.field] = united
            draft.stamps[name] = written(over: old, isMerged: united != edit.value)
        case .undecided: draft.undecided.append(edit.field)
        }
        if edit.areMembers { updateMemberTimes(of: name, written: decision.written, over: old, &draft.stamps) }
    }

    // MARK: Values that the author had seen

    private func seenValue(_ edit: FieldEdit, _ record: VersionedRecord) -> FieldContest.Known {
        if let known = edit.known { return .value(known) }
        if edit.isBlind { return .value(nil) }
        // A whole list without a base removes from a set the elements that its device had seen there.
        return seenElements(edit, record).map { .value(.array($0)) } ?? .unknown
    }

    /// The elements of a set that a whole list replaces and whose addition its device had seen. An element from before additions were
    /// recorded is not among them, so it stays.
    ///
    /// - Returns: `nil` where the value is no list on a set, or the field holds no news.
    private func seenElements(_ edit: FieldEdit, _ record: VersionedRecord) -> [JSON]? {
        guard edit.strategy == .set, edit.value?.array != nil, let present = edit.present?.array,
            isNews(record.stamp(of: edit.field), since: edit.seenVersion)
        else { return nil }
        let additions = record.additions[edit.name] ?? [:]
        return present.filter { element in
            additions[SetElement.key(element)].map { !isNews($0, since: edit.seenVersion) } ?? false
        }
    }

    // MARK: The fields of a change

    /// The fields that are set, and those that are removed (`nil`). A name in both is removed, as in ``Fold``.
    private var assignments: [(name: JSONString, value: JSON?)] {
        let removed = Set(content.unset.map { JSONString($0) })
        let set = content.data.members.filter { removed.isEmpty || !removed.contains($0.name) }
        return set.map { ($0.name, $0.value) } + content.unset.map { (JSONString($0), nil) }
    }

    /// Fields that a create removes when it brings a record back: it carries all that is left of what its author had seen.
    private func removalsOfCreate(from document: JSONObject) -> [(name: JSONString, value: JSON?)] {
        let operated = Set(content.operations.map { JSONString($0.field) })
        let removed = content.base.members.filter { member in
            let field = member.name.text
            return content.data[field] == nil && !operated.contains(member.name) && !content.unset.contains(field) && document[field] != nil
        }
        return removed.map { ($0.name, nil) }
    }
}
