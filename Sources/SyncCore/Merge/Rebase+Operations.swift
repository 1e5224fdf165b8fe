/// Operations of the mutation (``FieldOperation``).
extension Rebase.Pass {
    /// Operations commute, so they stay, with two exceptions. A text that would become too long asks a person. A removal of an element that
    /// this device had not seen in its present form is dropped, because the hub would assume that it had.
    mutating func check(_ operation: FieldOperation, _ remote: JSONObject) {
        let field = operation.top
        guard !undecidedNames.contains(JSONString(field)) else { return }
        if hub.disputed.contains(field) { return ask(field) }
        guard isNews(field, remote[field]) else { return }
        let theirs = operation.target(in: remote)
        if !operation.path.isEmpty, isKnown, theirs == operation.target(in: seen) { return }
        let strategy = rules.strategy(of: operation.field)
        switch operation.kind {
        case .append where rules.maxLength[operation.field] != nil:
            let text = Fold.apply(operation, to: theirs)
            if FieldContest.isTooLong(text, operation.field, rules) { return ask(field) }
        case .add, .remove:
            let place = SetElement.place(of: operation.value, in: operation.field)
            let set = set(operation, theirs)
            if operation.kind == .remove, isKnown, !hub.expectedElements.contains(operation.elementName),
                let element = set.theirs.first(SetElement.key(operation.value)), !set.seen.hasSame(element)
            {
                droppedOperations.insert(operation)
                let loss = Rebase.Loss(field: place, side: .local, value: nil, strategy: strategy)
                if reportedLosses.insert(loss).inserted { lost.append(loss) }
                return
            }
            // Where the field has a later stamp, the element may have one too. Then the hub decides, and reports the loss.
            if let element = set.theirs.displaced(by: operation), !set.seen.hasSame(element),
                operation.kind == .remove || hub.isLast || isLater(field, at: operation.hlc)
            {
                lose(element, of: place, by: strategy)
            }
            if operation.kind == .add, theirs?.array != nil, !set.theirs.has(operation.value), set.seen.has(operation.value) {
                lose(nil, of: place, by: strategy)
            }
        case .append, .increment, .max, .min: break
        }
        // An operation on a removed field undoes the removal.
        if theirs?.isNull ?? true, isKnown, operation.kind != .remove { lose(theirs, of: operation.field, by: strategy) }
    }

    private mutating func ask(_ field: String) {
        undecidedNames.insert(JSONString(field))
        undecided.append(field)
    }

    private mutating func set(_ operation: FieldOperation, _ theirs: JSON?) -> (theirs: SetIndex, seen: SetIndex) {
        let name = JSONString(operation.field)
        if let known = sets[name] { return known }
        let made = (theirs: SetIndex(theirs), seen: SetIndex(isKnown ? operation.target(in: seen) : Optional.none))
        sets[name] = made
        return made
    }
}
