extension Rebase {
    /// The state of one ``Rebase/decide(_:against:rules:)``.
    struct Pass {
        let local: Rebase.Local
        let hub: Rebase.HubSide
        let rules: EntityRules
        var result: MutationContent
        var lost: [Rebase.Loss] = []
        /// Fields that a person must decide.
        var undecided: [String] = []
        /// The names in ``undecided``, while operations are checked.
        var undecidedNames: Set<JSONString> = []
        /// Names of fields that the result no longer contains.
        var droppedFields: Set<JSONString> = []
        /// Operations that the result no longer contains.
        var droppedOperations: Set<FieldOperation> = []
        /// Operations that go before those of the result, in reverse order.
        var leadingOperations: [[FieldOperation]] = []
        /// The losses in ``lost``, for a fast lookup.
        var reportedLosses: Set<Rebase.Loss> = []
        /// Sets as the hub has them now, and as this device had seen them, for the operations on them.
        var sets: [JSONString: (theirs: SetIndex, seen: SetIndex)] = [:]

        init(local: Rebase.Local, hub: Rebase.HubSide, rules: EntityRules) {
            self.local = local
            self.hub = hub
            self.rules = rules
            result = local.content
        }

        mutating func run() -> Rebase.Outcome {
            switch (local.content.action, hub.remote) {
            case (.delete, nil): return outcome(.isSuperseded)
            case (.delete, let remote?): return delete(remote)
            case (_, nil): return afterDeletion()
            case (_, let remote?): return merge(remote)
            }
        }

        func outcome(_ verdict: Rebase.Verdict) -> Rebase.Outcome {
            Rebase.Outcome(verdict: verdict, content: result, lost: lost)
        }
    }
}

extension Rebase.Pass {
    // MARK: The state that the author had seen

    /// `true` when ``seen`` is the state that the author saw. It always is for a create: its base holds the state before the deletion, or
    /// there was no record.
    var isKnown: Bool { hub.isKnown || local.content.action == .create }

    /// The document that the author of the mutation saw. For a create it is the state before the deletion.
    var seen: JSONObject? { local.content.action == .create ? local.content.base : hub.known }

    func isNews(_ field: String, _ value: JSON?) -> Bool {
        guard hub.isKnown else {
            switch rules.strategy(of: field) {
            // A field that the hub has not called a conflict is none.
            case .manual: return hub.disputed.contains(field)
            case .server: return !isLater(field)
            case .lww, .client, .append, .counter, .set, .max, .min, .merge: return true
            }
        }
        // A later write of the same value wins, and its author may have seen no other value.
        if value == seen?[field] { return rules.strategy(of: field) == .lww && isWrittenLater(field, value) }
        // A create after a deletion adds to fields that add up and to objects, whichever device wrote them (``HubMerge``).
        let strategy = rules.strategy(of: field)
        if local.content.action == .create, value != nil, strategy.addsUp || strategy == .merge { return true }
        return [hub.expected, hub.asked].allSatisfy { $0[field]?.contains(value) != true }
    }

    /// Returns whether an earlier mutation of this device wrote the value.
    func isOwn(_ field: String, _ theirs: JSON?) -> Bool {
        local.content.action == .create && hub.isKnown && hub.expected[field]?.contains(theirs) == true
    }

    /// Returns whether the hub's stamp of the field is later than ours. A device with a trusted clock stamps later than everything that it
    /// has seen.
    private func isWrittenLater(_ field: String, _ value: JSON?) -> Bool {
        // An absent field without a stamp has no writer.
        let other = hub.fieldHLC[field] ?? (value == nil ? nil : hub.remoteHLC)
        guard let mine = stamp(of: field), local.hasSeenTime, let theirs = other else { return false }
        return theirs > mine
    }

    func stamp(of field: String) -> HybridTime? {
        local.hlc.map { local.content.stamps[JSONString(field)] ?? $0 }
    }

    /// - Parameter part: The stamp of an operation that has its own.
    func isLater(_ field: String, at part: HybridTime? = nil) -> Bool {
        guard let whole = stamp(of: field) else { return false }
        let mine = part ?? whole
        // A hub without stamps leaves this device's time as the only one.
        guard let theirs = hub.fieldHLC[field] ?? hub.remoteHLC else { return true }
        return mine > theirs
    }

    // MARK: Losses

    mutating func lose(_ value: JSON?, of field: String, on side: Rebase.Loss.Side) {
        lost.append(.init(field: field, side: side, value: value, strategy: rules.strategy(of: field)))
    }

    mutating func lose(_ value: JSON?, of field: String, by strategy: FieldStrategy) {
        let loss = Rebase.Loss(field: field, side: .remote, value: value, strategy: strategy)
        // Two operations on one element remove it once.
        if reportedLosses.insert(loss).inserted { lost.append(loss) }
    }
}
