/// Fields that the mutation sets or removes.
extension Rebase.Pass {
    mutating func merge(_ remote: JSONObject) -> Rebase.Outcome {
        // A create of a record that exists by now changes that record, as if it had known every field to be absent.
        if result.action == .create {
            result.action = .update
            result.base = [:]
        }
        for member in local.content.data.members where !local.content.unset.contains(member.name.text) {
            decide(member.name.text, member.value, remote)
        }
        for field in local.content.unset { decide(field, nil, remote) }
        for field in removalsOfCreate(from: remote) {
            result.unset.append(field)
            decide(field, nil, remote)
        }
        assemble()
        if local.content.action == .create { expressAsDifferences(remote) }
        undecidedNames = Set(undecided.map { JSONString($0) })
        for operation in local.content.operations { check(operation, remote) }
        if !droppedOperations.isEmpty { result.operations.removeAll { droppedOperations.contains($0) } }
        if !undecided.isEmpty { return outcome(.isDisputed(.field, fields: undecided)) }
        // An update that was empty from the start was meant to touch the record, so it stays. Where a change wins over a deletion, an
        // update that has become empty still counts as a change: it is sent without content, as the hub would have accepted it.
        let isOver = result.isEmpty && !local.content.isEmpty && (hub.isLast || !rules.keepsDeleted)
        return outcome(isOver ? .isSuperseded : .stays)
    }

    /// A create that brings a record back removes the fields of its base that it does not carry any more.
    private func removalsOfCreate(from remote: JSONObject) -> [String] {
        guard local.content.action == .create, !local.content.base.isEmpty else { return [] }
        let touched = Set(local.content.fields.map { JSONString($0) })
        return local.content.base.names.filter { !touched.contains(JSONString($0)) && remote[$0] != nil }
    }

    private mutating func decide(_ field: String, _ value: JSON?, _ remote: JSONObject) {
        let theirs = remote[field]
        // When two counts are equal, both were counted.
        let isCount = isKnown && rules.strategy(of: field) == .counter && value != seen?[field]
        // A create that brings a record back asks only for the differences from its base, also where the field was removed meanwhile. A
        // field that is not there and has no stamp was not kept.
        if local.content.action == .create, let before = local.content.base[field], before == value,
            theirs != nil || hub.fieldHLC[field] != nil
        {
            return drop(field)
        }
        if value == theirs, !isCount, !isMore(field, value) {
            if !hub.overwritten.contains(JSONString(field)), !countsAgain(field, value, theirs) { drop(field) }
            return
        }
        // Members are compared by their own times, which only the hub knows. The members of a create apply to an empty object.
        if local.content.action == .create, rules.strategy(of: field) == .merge, !hub.isLast, !hub.disputed.contains(field),
            value?.object != nil, theirs?.object != nil, !isOwn(field, theirs)
        {
            // A create that brings the record back sends the base of its members.
            result.base[field] = local.content.base[field] ?? seen?[field] ?? .object([:])
            return
        }
        contest(field, value, theirs)
    }

    /// Lets the strategy of the field decide between two values.
    private mutating func contest(_ field: String, _ value: JSON?, _ theirs: JSON?) {
        // Without news nothing is left to decide. A change member by member applies to any present value: the fold and the hub do that.
        let isMerged = local.content.action == .update && local.content.base[field] != nil
        guard isNews(field, theirs), !isMerged || hub.isLast || hub.disputed.contains(field) else { return }
        let strategy = hub.disputed.contains(field) ? .manual : rules.strategy(of: field)
        let known: FieldContest.Known = isKnown ? .value(seen?[field]) : .unknown
        var rules = rules
        if strategy == .manual { rules.criticalFields.append(field) }
        let contest = FieldContest(
            rules, field, localIsLater: isLater(field) || isOwn(field, theirs), signature: local.signature, known: known)
        let decision = contest.decide(local: value, remote: theirs)
        for loss in decision.lost where loss.side == .local || !isOwn(field, theirs) {
            reportedLosses.insert(loss)
            lost.append(loss)
        }
        switch decision.outcome {
        case .local:
            if strategy == .merge, let theirs { result.base[field] = theirs }
        case .remote: drop(field)
        case .both(let united):
            drop(field)
            // Sent as a difference from the present value, so that it still commutes with later changes.
            if let operations = WireForm.operations(strategy, field, from: theirs, to: united) {
                // An operation that the app sent on the same field comes after its value (``Coalescing``).
                leadingOperations.append(operations.stamped(local.content.stamps[JSONString(field)]))
            } else {
                result.data[field] = united
                result.stamps[JSONString(field)] = local.content.stamps[JSONString(field)]
                if strategy == .merge, let theirs { result.base[field] = theirs }
            }
        case .undecided: undecided.append(field)
        }
    }

    /// Returns whether two equal objects merge to more than each of them, because two equal counts in them were both counted. A hub finds
    /// that out itself, so only a server without merging needs it.
    private func isMore(_ field: String, _ value: JSON?) -> Bool {
        guard hub.isLast, isKnown, rules.strategy(of: field) == .merge, value?.object != nil, value != seen?[field] else { return false }
        let contest = FieldContest(
            rules, field, localIsLater: false, signature: local.signature, known: .value(local.content.base[field] ?? seen?[field]))
        return contest.decide(local: value, remote: value).outcome.isBoth
    }

    /// Returns whether a value that equals the hub's is still sent: as the later write of the field, or for its spelling.
    private func countsAgain(_ field: String, _ value: JSON?, _ theirs: JSON?) -> Bool {
        // A hub without stamps would learn nothing from it, and a question to people is settled.
        guard hub.fieldHLC[field] ?? hub.remoteHLC != nil, !hub.disputed.contains(field) else { return false }
        // The other side has respelled the value as well.
        let isNews = if let theirs, let seen = seen?[field], isKnown { !theirs.isSpelled(as: seen) } else { true }
        let isRespelled = if let value, let theirs { !value.isSpelled(as: theirs) } else { false }
        switch rules.strategy(of: field) {
        case .lww: return isLater(field) || (isRespelled && !isNews)
        // In a field that people decide, stamps do not count.
        case .manual: return isRespelled && !isNews
        case .merge:
            // An object without its base would overwrite the members that other devices change.
            guard local.content.action == .update else { return false }
            // Its members count by their own times, which the hub knows.
            if let base = local.content.base[field], base != value { return true }
            return isLater(field) || (isRespelled && !isNews)
        case .client: return isLater(field) || isRespelled
        case .server: return !isNews && (isLater(field) || isRespelled)
        // In a field that adds up, the time does not matter.
        case .counter, .append, .set, .max, .min: return false
        }
    }

    /// Brings the decisions about single fields into the result, once for all of them.
    private mutating func assemble() {
        if !droppedFields.isEmpty { result.unset.removeAll { droppedFields.contains(JSONString($0)) } }
        if !leadingOperations.isEmpty { result.operations = leadingOperations.reversed().flatMap { $0 } + result.operations }
    }

    /// Turns the rest of a create into an update. Its author has not seen the values that this device wrote before it deleted the record.
    /// So where a rule has an operation, a plain value must not overwrite those values as if they had been seen. Operations that were added
    /// to the create since (``Coalescing``) come after the difference, as they came after the value. An object is sent as a change of the
    /// present one, or of an empty one.
    private mutating func expressAsDifferences(_ remote: JSONObject) {
        let undecided = Set(undecided.map { JSONString($0) })
        result = WireForm.of(result, seen: remote, rules: rules, alsoBesideOperations: true) { field in
            undecided.contains(JSONString(field)) || hub.expected[field]?.contains(remote[field]) == true
        }
        for member in WireForm.bases(result, seen: remote, rules: rules).members
        where !undecided.contains(member.name) && result.base[member.name.text] == nil {
            result.base[member.name.text] = member.value
        }
    }

    private mutating func drop(_ field: String) {
        result.data[field] = nil
        result.base[field] = nil
        result.stamps[JSONString(field)] = nil
        droppedFields.insert(JSONString(field))
    }
}
