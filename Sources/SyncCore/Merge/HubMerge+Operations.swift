/// Operations, which commute and therefore need no contest (``FieldOperation``).
extension HubMerge.Pass {
    /// Applies the operations to what the assignments made of the fields.
    mutating func operate(on draft: HubMerge.Draft, of record: VersionedRecord, since version: Int64) -> HubMerge.Outcome {
        var draft = draft
        var fold = DocumentFold(draft.document)
        // The fields as they were before the change.
        var before: [JSONString: HubMerge.PresentField] = [:]
        var tooLong: Set<JSONString> = []
        // Member times of the objects whose members have operations.
        var members: [JSONString: MemberTimes] = [:]
        for operation in content.operations {
            let name = JSONString(operation.top)
            let named = JSONString(operation.field)
            let old = draft.stamps[name]
            fieldStamp = stamp(at: operation.hlc)
            let isNews = isNews(old, since: version)
            let field = fold.field(of: operation)
            guard field.fits(operation) else { return .rejected(misfit(operation, field.value)) }
            if tooLong.contains(name) { continue }
            if isNews, operation.kind == .append, FieldContest.isTooLong(operation, after: field, rules) {
                tooLong.insert(name)
                draft.undecided.append(operation.top)
                continue
            }
            let wasNothing = field.isNothing
            let isChanged = apply(operation, to: &fold, &draft.additions[named, default: [:]], since: version)
            // The last writer of the field need not have seen all earlier additions to the set.
            let key = operation.kind.isOfSet ? SetElement.key(operation.value) : Optional.none
            let isNewElement = self.isNews(key.flatMap { record.additions[named]?[$0] }, since: version)
            if isChanged, let its = record.stamp(of: operation.top), isNewElement || self.isNews(its, since: version) {
                let present = before[named] ?? HubMerge.PresentField(record, operation, its)
                before[named] = present
                reportDisplaced(by: operation, wasNothing: wasNothing, in: present, since: version)
            }
            // A removal from a set that is not there does not count as a removal of the field, which would beat older values of it.
            if field.isMissing { continue }
            draft.stamps[name] = written(over: old, isMerged: isNews)
            if !operation.path.isEmpty {
                members[name, default: old?.memberTimes ?? MemberTimes(rest: fieldStamp.hlc)].write(operation.field, at: fieldStamp.hlc)
            }
        }
        for (name, its) in members { draft.stamps[name]?.memberTimes = its }
        fieldStamp = changeStamp
        for member in fold.kept.members { accepted.kept[member.name.text] = member.value }
        draft.document = fold.result
        return conclude(draft, over: record)
    }

    /// Applies one operation to a field and updates the recorded additions of a set.
    ///
    /// - Returns: `true` when the value of the field has changed.
    private mutating func apply(
        _ operation: FieldOperation, to fold: inout DocumentFold, _ additions: inout [JSON: VersionedRecord.Stamp],
        since version: Int64
    ) -> Bool {
        guard operation.kind.isOfSet else { return fold.apply(operation).isChanged }
        let key = SetElement.key(operation.value)
        let old = additions[key]
        let isNews = isNews(old, since: version)
        switch operation.kind {
        case .remove where isNews && !ablations.contains(.removalBeatsAddition):
            reportMerged(operation.top)
            reportLoss(of: SetElement.place(of: key, in: operation.field), value: nil, writtenBy: fieldStamp)
            return false
        case .remove:
            additions[key] = nil
            return fold.apply(operation).isChanged
        case .add, .append, .increment, .max, .min:
            let replaces = old.map { isReplaced($0, isNews: isNews) } ?? true
            let change = fold.apply(operation, replaces: replaces)
            if !replaces, !change.isChanged, !change.found.contains(operation.value) {
                reportMerged(operation.top)
                reportLoss(of: SetElement.place(of: key, in: operation.field), value: operation.value, writtenBy: fieldStamp)
            }
            additions[key] = written(over: old, isMerged: isNews)
            return change.isChanged
        }
    }

    /// Returns whether an addition takes the place of an element with the same `id`. A stamp of a trusted clock is later than everything
    /// that its device had seen by then. A device that pulled before it sent had therefore not seen an element with a later stamp, whatever
    /// its base says.
    private func isReplaced(_ old: VersionedRecord.Stamp, isNews: Bool) -> Bool {
        if isLater(than: old.hlc) || old.writer == change.device { return true }
        return !isNews && change.mutation.clock != .synced
    }

    // MARK: Operations that do not fit

    /// The problem with the first operation of a create that does not fit the create's own values; `nil` if all fit.
    var misfitOfCreate: Problem? {
        if content.operations.isEmpty { return nil }
        let written = Fold.apply(MutationContent(.create, data: content.data, unset: content.unset), to: nil) ?? [:]
        return Fold.firstMisfit(of: content.operations, on: written).map { misfit(content.operations[$0.index], $0.found) }
    }

    private func misfit(_ operation: FieldOperation, _ value: JSON?) -> Problem {
        let isSum = if operation.kind == .increment, case .number? = value { true } else { false }
        let expected = isSum ? "a sum of at most \(JSONNumber.sumDigitsMax) digits" : "a value of the same kind"
        return Problem(
            "validation", status: 422, detail: Fold.misfitDetail(operation, value),
            errors: [.init("/ops/\(operation.field)", "expected \(expected)")])
    }
}

extension HubMerge {
    /// A field as the hub had it before the operations of one change.
    struct PresentField {
        let value: JSON?
        let stamp: VersionedRecord.Stamp
        let additions: [JSON: VersionedRecord.Stamp]
        /// The news in the field is an addition by an operation.
        let isNewByAddition: Bool
        private let set: SetIndex

        init(_ record: VersionedRecord, _ operation: FieldOperation, _ stamp: VersionedRecord.Stamp) {
            value = operation.target(in: record.data)
            self.stamp = stamp
            additions = record.additions[JSONString(operation.field)] ?? [:]
            isNewByAddition = additions.values.contains { $0.version == stamp.version }
            set = SetIndex(value)
        }

        var isNothing: Bool { value?.isNull ?? true }

        /// The element that the operation replaces or removes.
        func displaced(by operation: FieldOperation) -> JSON? {
            if let other = set.displaced(by: operation) { return other }
            let key = SetElement.key(operation.value)
            return operation.kind == .remove && additions[key] == nil ? set.first(key) : Optional.none
        }
    }
}
