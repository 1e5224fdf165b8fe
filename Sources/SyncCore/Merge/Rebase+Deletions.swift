/// A deletion on either side (PROTOCOL D4).
extension Rebase.Pass {
    /// Decides a local deletion. Changes of other devices decide about it as they would if they came after it (``afterDeletion()``). Where
    /// the deletion wins, their values are gone with the record.
    mutating func delete(_ remote: JSONObject) -> Rebase.Outcome {
        let names = remote.names + (hub.known?.names.filter { remote[$0] == nil } ?? [])
        // If the base is unknown, the hub decides, except for the fields that people were asked about.
        let changed = names.filter { field in
            (hub.isKnown || hub.disputed.contains(field)) && isNews(field, remote[field]) && !isArrival(field, remote[field])
        }
        let isAsked = changed.contains { hub.disputed.contains($0) }
        let verdict: EntityRules.AfterDeletion = changed.isEmpty && !hub.isTouched ? .rejected : rules.afterDeletion(changing: changed)
        switch isAsked ? .undecided : verdict {
        case .undecided:
            if changed.isEmpty { return outcome(.isDisputed(.deleteUpdate, fields: remote.names)) }
            let forPeople = changed.filter { isManual($0) || hub.disputed.contains($0) }
            return outcome(.isDisputed(.deleteUpdate, fields: forPeople.isEmpty || rules.onDeleted == .manual ? changed : forPeople))
        // The record comes back, unless the hub itself has asked about the deletion.
        case .comesBack where !hub.disputed.contains(HubMerge.wholeRecord):
            lose(Optional.none, of: HubMerge.wholeRecord, on: .local)
            return outcome(.isSuperseded)
        case .comesBack, .rejected: break
        }
        for member in remote.members where hub.isKnown && isNews(member.name.text, member.value) {
            lose(member.value, of: member.name.text, by: rules.strategy(of: member.name.text))
        }
        return outcome(.stays)
    }

    mutating func afterDeletion() -> Rebase.Outcome {
        let isForPeople = hub.disputed.contains(HubMerge.wholeRecord) || local.content.fields.contains { hub.disputed.contains($0) }
        let verdict = isForPeople ? .undecided : rules.afterDeletion(changing: local.content.fields)
        if verdict == .rejected { return outcome(.isRejected(HubMerge.deleted(local.record))) }
        // The hub may have kept nothing of a deleted record, so the create that brings it back carries all that is known of it, with the
        // base. Where the hub has kept more, only the difference counts.
        if local.content.action != .create {
            // Where nothing is known of the record any more, the base of the mutation still has the objects that it changes.
            let known = hub.known ?? local.content.base
            var values = local.content
            values.operations = []
            let written = Fold.apply(values, to: known) ?? [:]
            let (folded, kept) = split(local.content.operations, on: written)
            let data = Fold.apply(MutationContent(.update, operations: folded), to: written) ?? [:]
            result = MutationContent(.create, data: data, operations: kept, base: known, stamps: stamps(with: folded))
        }
        guard verdict == .comesBack else { return outcome(.isDisputed(.updateDelete, fields: [HubMerge.wholeRecord])) }
        lose(Optional.none, of: HubMerge.wholeRecord, on: .remote)
        return outcome(.stays)
    }

    /// Splits operations into those that become a difference between two documents and those that stay operations.
    ///
    /// An operation that adds up stays: it fits every later state of the record. An operation without effect stays too, because a
    /// difference would not show it. The rest becomes a difference, which also says what its author had seen.
    private func split(_ operations: [FieldOperation], on document: JSONObject) -> (folded: [FieldOperation], kept: [FieldOperation]) {
        func addsUp(_ operation: FieldOperation) -> Bool { operation.kind == .increment || operation.kind == .append }
        var last: [FieldOperation.ElementName: Int] = [:]
        for (index, operation) in operations.enumerated() where operation.kind.isOfSet { last[operation.elementName] = index }
        // Fields with both kinds, where the order counts.
        let mixed = Dictionary(grouping: operations) { JSONString($0.field) }.filter { Set($0.value.map(addsUp)).count > 1 }
        var sets: [JSONString: SetIndex] = [:]
        var (folded, kept): ([FieldOperation], [FieldOperation]) = ([], [])
        for (index, operation) in operations.enumerated() {
            let field = JSONString(operation.field)
            if mixed[field] != nil {
                folded.append(operation)
            } else if addsUp(operation) {
                kept.append(operation)
            } else if operation.kind.isOfSet {
                let end = last[operation.elementName] ?? index
                let set = sets[field] ?? SetIndex(operation.target(in: document))
                sets[field] = set
                let present = set.first(SetElement.key(operation.value))
                let makesDifference = operations[end].kind == .add ? present != operations[end].value : present != nil
                if makesDifference { folded.append(operation) } else if index == end { kept.append(operation) }
            } else {
                let value = operation.target(in: document)
                if Fold.apply(operation, to: value) != value { folded.append(operation) } else { kept.append(operation) }
            }
        }
        return (folded, kept)
    }

    /// Times of the last change of each field, where they differ from the time of the mutation.
    private func stamps(with operations: [FieldOperation]) -> [JSONString: HybridTime] {
        operations.reduce(into: local.content.stamps) { stamps, operation in
            // An operation on a member dates that member only.
            if operation.path.isEmpty {
                stamps[JSONString(operation.top)] = operation.hlc
            } else {
                stamps[JSONString(operation.field)] = operation.hlc ?? local.hlc
            }
        }
    }

    /// Returns whether the values differ only because the bytes of a file have arrived at the hub. That is no change by a device.
    private func isArrival(_ field: String, _ theirs: JSON?) -> Bool {
        guard let theirs, let known = hub.known?[field], known != theirs else { return false }
        return Placeholder.arrived(known) == Placeholder.arrived(theirs)
    }

    private func isManual(_ field: String) -> Bool { rules.strategy(of: field) == .manual }
}
