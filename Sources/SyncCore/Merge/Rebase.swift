/// Rebases a mutation that waits when a pull brings a new version of its record (PROTOCOL C7). It decides as the hub would decide, by the
/// same rules (``FieldContest``). So the hub finds nothing to contest later, people are asked at once where they must be, and apps see the
/// final values.
///
/// Only mutations that were never sent are rebased. A sent mutation is frozen, and the hub merges it.
package enum Rebase {
    /// One side: a mutation of this device.
    package struct Local: Sendable {
        package var record: RecordName
        package var content: MutationContent
        /// `nil` for a stamp that loses every contest, because the clock was not trusted.
        package var hlc: HybridTime?
        /// The stamp is later than everything that the device had seen by then. A stamp that was corrected afterwards need not be.
        package var hasSeenTime = true
        package var signature: FieldContest.Signature

        package init(
            record: RecordName, content: MutationContent, hlc: HybridTime?, hasSeenTime: Bool = true,
            signature: FieldContest.Signature
        ) {
            self.hasSeenTime = hasSeenTime
            self.record = record
            self.content = content
            self.hlc = hlc
            self.signature = signature
        }
    }

    /// The other side, and how much of it this device had seen.
    package struct Ground: Sendable {
        /// The hub's document that this device had seen; `nil`: none.
        package var known: JSONObject?
        /// The hub's document now; `nil`: deleted.
        package var remote: JSONObject?
        package var remoteHLC: HybridTime?
        /// Stamps of the fields whose stamp differs from `remoteHLC`.
        package var fieldHLC: [String: HybridTime]
        /// Values that earlier mutations put there and that may be at the hub already; they are no news.
        package var expected: [String: Set<JSON?>] = [:]
        /// Values of the hub that people are asked about already. A later change of the same field does not ask again.
        package var asked: [String: Set<JSON?>] = [:]
        /// Elements of sets that earlier mutations put there and that may be at the hub already.
        package var expectedElements: Set<FieldOperation.ElementName> = []
        /// The mutation was made on ``known``. For a mutation that was frozen while the record went on, its base is unknown. Then every
        /// difference is merged, and the stamps decide where a merge is impossible.
        package var isKnown = true
        /// No hub decides after this, because the server knows values only. Members of objects are therefore decided here as well.
        package var isLast = false
        /// Another device has changed the record since ``known``, also if its values do not show that.
        package var isTouched = false
        /// Fields that people decide whatever their rule says, because the hub or an open conflict has said so.
        package var disputed: Set<String> = []

        package init(known: JSONObject?, remote: JSONObject?, remoteHLC: HybridTime?, fieldHLC: [String: HybridTime] = [:]) {
            self.known = known
            self.remote = remote
            self.remoteHLC = remoteHLC
            self.fieldHLC = fieldHLC
        }

        package init(known: JSONObject?, record: HubRecord?) {
            var stamps: [String: HybridTime] = [:]
            for member in record?.fieldHLC?.members ?? [] {
                stamps[member.name.text] = member.value.text.flatMap { HybridTime($0) }
            }
            self.init(
                known: known, remote: record?.data, remoteHLC: record?.hlc.flatMap { HybridTime($0) }, fieldHLC: stamps)
        }
    }

    package enum Verdict: Hashable, Sendable {
        /// It is sent with the content in ``Outcome/content``.
        case stays
        /// Nothing is left to send.
        case isSuperseded
        /// A person must decide these fields, or the deletion (``HubMerge/wholeRecord``). The rest is decided.
        case isDisputed(ConflictKind, fields: [String])
        case isRejected(Problem)

        package var isRejected: Bool {
            if case .isRejected = self { true } else { false }
        }
    }

    package struct Outcome: Hashable, Sendable {
        package var verdict: Verdict
        package var content: MutationContent
        /// Values that a contest or a deletion discarded.
        package var lost: [Loss]

        package init(verdict: Verdict, content: MutationContent, lost: [Loss] = []) {
            self.verdict = verdict
            self.content = content
            self.lost = lost
        }
    }

    package typealias Loss = FieldContest.Loss

    /// The values of a mutation that lost at the hub. The hub names only the fields whose stored value differs from the sent one.
    ///
    /// A value that was added up is part of the record, and a discarded one is not. To find the difference, the rules decide the contest
    /// once more, with the record as the later side.
    ///
    /// - Parameter record: The record right after the mutation.
    package static func lost(of local: Local, merged: [String], in record: JSONObject, rules: EntityRules) -> [Loss] {
        let content = local.content
        let removed = Set(content.unset.map { JSONString($0) })
        // Operations by field in their order, those on members by their full name.
        let operations = Dictionary(grouping: content.operations) { JSONString($0.top) }
            .mapValues { Dictionary(grouping: $0) { JSONString($0.field) } }
        var lost: [Loss] = []
        for field in merged {
            if [HubMerge.wholeRecord, HubMerge.restOfRecord].contains(field) {
                let side: Loss.Side = field == HubMerge.wholeRecord ? .local : .remote
                lost.append(.init(field: field, side: side, value: Optional.none, strategy: rules.strategy(of: field)))
                continue
            }
            let isRemoved = removed.contains(JSONString(field))
            let isWritten = isRemoved || content.data[field] != nil
            let mine = isRemoved ? nil : content.data[field]
            if isWritten, mine != record[field] {
                let known: FieldContest.Known =
                    content.action == .create ? .value(content.base[field]) : content.base[field].map { .value($0) } ?? .unknown
                let contest = FieldContest(rules, field, localIsLater: false, signature: local.signature, known: known)
                lost += contest.decide(local: mine, remote: record[field]).lost.filter { $0.side == .local }
            }
            for operations in (operations[JSONString(field)]?.values).map({ $0.sorted { $0[0].field < $1[0].field } }) ?? [] {
                lost += Self.lost(of: operations, in: record, rules)
            }
        }
        return lost
    }

    /// - Parameter operations: Operations that are all on one field, or all on one member.
    private static func lost(of operations: [FieldOperation], in record: JSONObject, _ rules: EntityRules) -> [Loss] {
        guard let field = operations.first?.field else { return [] }
        var lost: [Loss] = []
        let present = SetIndex(operations[0].target(in: record))
        var last: [JSON: Int] = [:]
        for (index, operation) in operations.enumerated() { last[SetElement.key(operation.value)] = index }
        for (index, operation) in operations.enumerated() {
            let key = SetElement.key(operation.value)
            // A later operation of the same mutation on the element replaces this one.
            guard last[key] == index, let there = present.first(key),
                operation.kind == .remove || operation.kind == .add && there != operation.value
            else { continue }
            // A plain `nil` could mean JSON null here.
            let value = operation.kind == .add ? operation.value : Optional.none
            let place = SetElement.place(of: key, in: field)
            lost.append(.init(field: place, side: .local, value: value, strategy: rules.strategy(of: field)))
        }
        return lost
    }

    package static func decide(_ local: Local, on ground: Ground, rules: EntityRules) -> Outcome {
        var pass = Pass(local: local, ground: ground, rules: rules)
        return pass.run()
    }
}

package enum ConflictKind: Int, Hashable, Sendable, CaseIterable {
    /// Both sides gave a field different values.
    case field = 0
    /// Deleted on this device, changed at the hub.
    case deleteUpdate = 1
    /// Changed on this device, deleted at the hub.
    case updateDelete = 2

    package var name: String {
        switch self {
        case .field: "field"
        case .deleteUpdate: "delete_update"
        case .updateDelete: "update_delete"
        }
    }

    package init?(name: String) {
        guard let found = ConflictKind.allCases.first(where: { $0.name == name }) else { return nil }
        self = found
    }
}

private struct Pass {
    let local: Rebase.Local
    let ground: Rebase.Ground
    let rules: EntityRules
    var result: MutationContent
    var lost: [Rebase.Loss] = []
    var undecided: [String] = []
    /// The names in ``undecided``, while operations are checked.
    private var asked: Set<JSONString> = []
    /// Names of fields that the result no longer contains.
    private var dropped: Set<JSONString> = []
    /// Operations that the result no longer contains.
    private var givenUp: Set<FieldOperation> = []
    /// Operations that go before those of the result, in reverse order.
    private var leading: [[FieldOperation]] = []
    /// The losses in ``lost``, for a fast lookup.
    private var told: Set<Rebase.Loss> = []
    /// Sets as the hub has them now, and as this device had seen them, for the operations on them.
    private var sets: [JSONString: (theirs: SetIndex, seen: SetIndex)] = [:]

    init(local: Rebase.Local, ground: Rebase.Ground, rules: EntityRules) {
        self.local = local
        self.ground = ground
        self.rules = rules
        result = local.content
    }

    mutating func run() -> Rebase.Outcome {
        switch (local.content.action, ground.remote) {
        case (.delete, nil): return outcome(.isSuperseded)
        case (.delete, let remote?): return delete(remote)
        case (_, nil): return afterDeletion()
        case (_, let remote?): return merge(remote)
        }
    }

    private func outcome(_ verdict: Rebase.Verdict) -> Rebase.Outcome {
        Rebase.Outcome(verdict: verdict, content: result, lost: lost)
    }

    // MARK: Deletions

    /// Decides a local deletion. Changes of other devices decide about it as they would if they came after it (``afterDeletion()``). Where
    /// the deletion wins, their values are gone with the record.
    private mutating func delete(_ remote: JSONObject) -> Rebase.Outcome {
        let names = remote.names + (ground.known?.names.filter { remote[$0] == nil } ?? [])
        // If the base is unknown, the hub decides, except for the fields that people were asked about.
        let changed = names.filter { field in
            (ground.isKnown || ground.disputed.contains(field)) && isNews(field, remote[field]) && !isArrival(field, remote[field])
        }
        let isAsked = changed.contains { ground.disputed.contains($0) }
        let verdict: EntityRules.AfterDeletion = changed.isEmpty && !ground.isTouched ? .rejected : rules.afterDeletion(changing: changed)
        switch isAsked ? .undecided : verdict {
        case .undecided:
            if changed.isEmpty { return outcome(.isDisputed(.deleteUpdate, fields: remote.names)) }
            let forPeople = changed.filter { isManual($0) || ground.disputed.contains($0) }
            return outcome(.isDisputed(.deleteUpdate, fields: forPeople.isEmpty || rules.onDeleted == .manual ? changed : forPeople))
        // The record comes back, unless the hub itself has asked about the deletion.
        case .comesBack where !ground.disputed.contains(HubMerge.wholeRecord):
            lose(Optional.none, of: HubMerge.wholeRecord, on: .local)
            return outcome(.isSuperseded)
        case .comesBack, .rejected: break
        }
        for member in remote.members where ground.isKnown && isNews(member.name.text, member.value) {
            lose(member.value, of: member.name.text, by: rules.strategy(of: member.name.text))
        }
        return outcome(.stays)
    }

    private mutating func afterDeletion() -> Rebase.Outcome {
        let isForPeople = ground.disputed.contains(HubMerge.wholeRecord) || local.content.fields.contains { ground.disputed.contains($0) }
        let verdict = isForPeople ? .undecided : rules.afterDeletion(changing: local.content.fields)
        if verdict == .rejected { return outcome(.isRejected(HubMerge.deleted(local.record))) }
        // The hub may have kept nothing of a deleted record, so the create that brings it back carries all that is known of it, with the
        // base. Where the hub has kept more, only the difference counts.
        if local.content.action != .create {
            // Where nothing is known of the record any more, the base of the mutation still has the objects that it changes.
            let known = ground.known ?? local.content.base
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
        guard let theirs, let known = ground.known?[field], known != theirs else { return false }
        return Placeholder.arrived(known) == Placeholder.arrived(theirs)
    }

    private mutating func lose(_ value: JSON?, of field: String, on side: Rebase.Loss.Side) {
        lost.append(.init(field: field, side: side, value: value, strategy: rules.strategy(of: field)))
    }

    // MARK: Fields

    private mutating func merge(_ remote: JSONObject) -> Rebase.Outcome {
        // A create of a record that exists by now changes that record, as if it had known every field to be absent.
        if result.action == .create {
            result.action = .update
            result.base = [:]
        }
        for member in local.content.data.members where !local.content.unset.contains(member.name.text) {
            decide(member.name.text, member.value, remote)
        }
        for field in local.content.unset { decide(field, nil, remote) }
        assemble()
        if local.content.action == .create { sayDifferences(remote) }
        asked = Set(undecided.map { JSONString($0) })
        for operation in local.content.operations { check(operation, remote) }
        if !givenUp.isEmpty { result.operations.removeAll { givenUp.contains($0) } }
        if !undecided.isEmpty { return outcome(.isDisputed(.field, fields: undecided)) }
        // An update that was empty from the start was meant to touch the record, so it stays. Where a change wins over a deletion, an
        // update that has become empty still counts as a change: it is sent without content, as the hub would have accepted it.
        let isOver = result.isEmpty && !local.content.isEmpty && (ground.isLast || !rules.keepsDeleted)
        return outcome(isOver ? .isSuperseded : .stays)
    }

    private mutating func decide(_ field: String, _ value: JSON?, _ remote: JSONObject) {
        let theirs = remote[field]
        // When two counts are equal, both were counted.
        let isCount = isKnown && rules.strategy(of: field) == .counter && value != seen?[field]
        // A create that brings a record back asks only for the differences from its base.
        if local.content.action == .create, let before = local.content.base[field], before == value, theirs != nil {
            return drop(field)
        }
        if value == theirs, !isCount, !isMore(field, value) {
            if !countsAgain(field, value, theirs) { drop(field) }
            return
        }
        // Members are compared by their own times, which only the hub knows. What a create says of them applies to an empty object.
        if local.content.action == .create, rules.strategy(of: field) == .merge, !ground.isLast, !ground.disputed.contains(field),
            value?.object != nil, theirs?.object != nil, !isOwn(field, theirs)
        {
            // A create that brings the record back sends the base of its members.
            result.base[field] = local.content.base[field] ?? seen?[field] ?? .object([:])
            return
        }
        // Without news nothing is left to decide. A change member by member applies to any present value: the fold and the hub do that.
        let isMerged = local.content.action == .update && local.content.base[field] != nil
        guard isNews(field, theirs), !isMerged || ground.isLast || ground.disputed.contains(field) else { return }
        let strategy = ground.disputed.contains(field) ? .manual : rules.strategy(of: field)
        let known: FieldContest.Known = isKnown ? .value(seen?[field]) : .unknown
        var rules = rules
        if strategy == .manual { rules.criticalFields.append(field) }
        let contest = FieldContest(
            rules, field, localIsLater: isLater(field) || isOwn(field, theirs), signature: local.signature, known: known)
        let decision = contest.decide(local: value, remote: theirs)
        for loss in decision.lost where loss.side == .local || !isOwn(field, theirs) {
            told.insert(loss)
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
                leading.append(operations.stamped(local.content.stamps[JSONString(field)]))
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
        guard ground.isLast, isKnown, rules.strategy(of: field) == .merge, value?.object != nil, value != seen?[field] else { return false }
        let contest = FieldContest(
            rules, field, localIsLater: false, signature: local.signature, known: .value(local.content.base[field] ?? seen?[field]))
        return contest.decide(local: value, remote: value).outcome.isBoth
    }

    /// Returns whether a value that equals the hub's is still sent: as the later write of the field, or for its spelling.
    private func countsAgain(_ field: String, _ value: JSON?, _ theirs: JSON?) -> Bool {
        // A hub without stamps would learn nothing from it, and a question to people is settled.
        guard ground.fieldHLC[field] ?? ground.remoteHLC != nil, !ground.disputed.contains(field) else { return false }
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
        if !dropped.isEmpty { result.unset.removeAll { dropped.contains(JSONString($0)) } }
        if !leading.isEmpty { result.operations = leading.reversed().flatMap { $0 } + result.operations }
    }

    /// Turns the rest of a create into an update. Its author has not seen the values that this device wrote before it deleted the record.
    /// So where a rule has an operation, a plain value must not overwrite those values as if they had been seen. Operations that were added
    /// to the create since (``Coalescing``) come after the difference, as they came after the value. An object is sent as a change of the
    /// present one, or of an empty one.
    private mutating func sayDifferences(_ remote: JSONObject) {
        let undecided = Set(undecided.map { JSONString($0) })
        result = WireForm.of(result, seen: remote, rules: rules, alsoBesideOperations: true) { field in
            undecided.contains(JSONString(field)) || ground.expected[field]?.contains(remote[field]) == true
        }
        for member in WireForm.bases(result, seen: remote, rules: rules).members
        where !undecided.contains(member.name) && result.base[member.name.text] == nil {
            result.base[member.name.text] = member.value
        }
    }

    /// Operations commute, so they stay, with two exceptions. A text that would become too long asks a person. A removal of an element that
    /// this device had not seen in its present form is dropped, because the hub would assume that it had.
    private mutating func check(_ operation: FieldOperation, _ remote: JSONObject) {
        let field = operation.top
        guard !asked.contains(JSONString(field)) else { return }
        if ground.disputed.contains(field) { return ask(field) }
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
            if operation.kind == .remove, isKnown, !ground.expectedElements.contains(operation.elementName),
                let element = set.theirs.first(SetElement.key(operation.value)), !set.seen.hasSame(element)
            {
                givenUp.insert(operation)
                let loss = Rebase.Loss(field: place, side: .local, value: nil, strategy: strategy)
                if told.insert(loss).inserted { lost.append(loss) }
                return
            }
            // Where the field has a later stamp, the element may have one too. Then the hub decides, and reports the loss.
            if let element = set.theirs.displaced(by: operation), !set.seen.hasSame(element),
                operation.kind == .remove || ground.isLast || isLater(field, at: operation.hlc)
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

    private mutating func lose(_ value: JSON?, of field: String, by strategy: FieldStrategy) {
        let loss = Rebase.Loss(field: field, side: .remote, value: value, strategy: strategy)
        // Two operations on one element remove it once.
        if told.insert(loss).inserted { lost.append(loss) }
    }

    private mutating func ask(_ field: String) {
        asked.insert(JSONString(field))
        undecided.append(field)
    }

    private mutating func set(_ operation: FieldOperation, _ theirs: JSON?) -> (theirs: SetIndex, seen: SetIndex) {
        let name = JSONString(operation.field)
        if let known = sets[name] { return known }
        let made = (theirs: SetIndex(theirs), seen: SetIndex(isKnown ? operation.target(in: seen) : Optional.none))
        sets[name] = made
        return made
    }

    private mutating func drop(_ field: String) {
        result.data[field] = nil
        result.base[field] = nil
        result.stamps[JSONString(field)] = nil
        dropped.insert(JSONString(field))
    }

    /// `true` when ``seen`` is the state that the author saw. It always is for a create: its base holds the state before the deletion, or
    /// there was no record.
    private var isKnown: Bool { ground.isKnown || local.content.action == .create }

    /// The document that the author of the mutation saw. For a create it is the state before the deletion.
    private var seen: JSONObject? { local.content.action == .create ? local.content.base : ground.known }

    private func isManual(_ field: String) -> Bool { rules.strategy(of: field) == .manual }

    private func isNews(_ field: String, _ value: JSON?) -> Bool {
        guard ground.isKnown else {
            switch rules.strategy(of: field) {
            // A field that the hub has not called a conflict is none.
            case .manual: return ground.disputed.contains(field)
            case .server: return !isLater(field)
            default: return true
            }
        }
        // A later write of the same value wins, and its author may have seen no other value.
        if value == seen?[field] { return rules.strategy(of: field) == .lww && isWrittenLater(field, value) }
        // A create after a deletion adds to fields that add up and to objects, whichever device wrote them (``HubMerge``).
        let strategy = rules.strategy(of: field)
        if local.content.action == .create, value != nil, strategy.addsUp || strategy == .merge { return true }
        return [ground.expected, ground.asked].allSatisfy { $0[field]?.contains(value) != true }
    }

    /// Returns whether an earlier mutation of this device wrote the value.
    private func isOwn(_ field: String, _ theirs: JSON?) -> Bool {
        local.content.action == .create && ground.isKnown && ground.expected[field]?.contains(theirs) == true
    }

    /// Returns whether the hub's stamp of the field is later than ours. A device with a trusted clock stamps later than everything that it
    /// has seen.
    private func isWrittenLater(_ field: String, _ value: JSON?) -> Bool {
        // An absent field without a stamp has no writer.
        let other = ground.fieldHLC[field] ?? (value == nil ? nil : ground.remoteHLC)
        guard let mine = stamp(of: field), local.hasSeenTime, let theirs = other else { return false }
        return theirs > mine
    }

    private func stamp(of field: String) -> HybridTime? {
        local.hlc.map { local.content.stamps[JSONString(field)] ?? $0 }
    }

    /// - Parameter part: The stamp of an operation that has its own.
    private func isLater(_ field: String, at part: HybridTime? = nil) -> Bool {
        guard let whole = stamp(of: field) else { return false }
        let mine = part ?? whole
        // A hub without stamps leaves this device's time as the only one.
        guard let theirs = ground.fieldHLC[field] ?? ground.remoteHLC else { return true }
        return mine > theirs
    }
}
