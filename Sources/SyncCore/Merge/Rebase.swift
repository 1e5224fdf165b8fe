/// What a pull makes of a mutation that waits for the same record (PROTOCOL C7). It is decided as the hub would decide it,
/// by the same rules (``FieldContest``); so the hub finds nothing to contest later, people are asked at once where they must
/// be, and what apps see is right.
///
/// Only mutations that were never sent are rebased. What was sent is frozen, and the hub merges it.
package enum Rebase {
    /// One side: a mutation of this device.
    package struct Local: Sendable {
        package var record: RecordName
        package var content: MutationContent
        /// `nil` for a stamp that loses every contest: the clock was not trusted.
        package var hlc: HybridTime?
        /// The stamp is later than all that had been seen by then; one that was found out afterwards need not be.
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

    /// The other side, and what this device had seen of it.
    package struct Ground: Sendable {
        /// The hub's document before; `nil`: none.
        package var known: JSONObject?
        /// The hub's document now; `nil`: deleted.
        package var remote: JSONObject?
        package var remoteHLC: HybridTime?
        /// Of the fields whose stamp differs from `remoteHLC`.
        package var fieldHLC: [String: HybridTime]
        /// Values that mutations before this one put there and that may be at the hub already: no news.
        package var expected: [String: Set<JSON?>] = [:]
        /// Values of the hub that people are asked about already: a later change of the same field does not ask again.
        package var asked: [String: Set<JSON?>] = [:]
        /// Elements of sets that mutations before this one put there, and that may be at the hub already.
        package var expectedElements: Set<FieldOperation.ElementName> = []
        /// The mutation was made on ``known``. Of one that was frozen while the record went on, nobody can tell any more what
        /// it had seen: then whatever differs is brought together, and where that cannot be, the stamps decide.
        package var isKnown = true
        /// No hub decides after this: the server knows values only. So members of objects are decided here as well.
        package var isLast = false
        /// Another device has changed the record since ``known``, whether its values show that or not.
        package var isTouched = false
        /// Fields that people decide about whatever their rule says: the hub, or an open conflict, has said so.
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
        /// It goes as ``Outcome/content`` says.
        case stays
        /// Nothing is left to send.
        case isSuperseded
        /// A person must decide these fields, or about the deletion (``HubMerge/wholeRecord``). The rest is decided.
        case isDisputed(ConflictKind, fields: [String])
        case isRejected(Problem)

        package var isRejected: Bool {
            if case .isRejected = self { true } else { false }
        }
    }

    package struct Outcome: Hashable, Sendable {
        package var verdict: Verdict
        package var content: MutationContent
        /// Values that a contest or a deletion threw away.
        package var lost: [Loss]

        package init(verdict: Verdict, content: MutationContent, lost: [Loss] = []) {
            self.verdict = verdict
            self.content = content
            self.lost = lost
        }
    }

    package typealias Loss = FieldContest.Loss

    /// What of a mutation has lost at the hub, which said which fields of it have another value than was sent.
    ///
    /// What was added up is in the record, and what was thrown away is not. So the rules that merged it find the difference:
    /// they are asked once more, as if the record were what somebody had written later.
    ///
    /// - Parameter record: As it was right after the mutation.
    package static func lost(of local: Local, merged: [String], in record: JSONObject, rules: EntityRules) -> [Loss] {
        let content = local.content
        let removed = Set(content.unset.map { JSONString($0) })
        // By field, in their order; those on members by what they name.
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

    /// - Parameter operations: All on one field, or on one member.
    private static func lost(of operations: [FieldOperation], in record: JSONObject, _ rules: EntityRules) -> [Loss] {
        guard let field = operations.first?.field else { return [] }
        var lost: [Loss] = []
        let present = SetIndex(operations[0].target(in: record))
        var last: [JSON: Int] = [:]
        for (index, operation) in operations.enumerated() { last[SetElement.key(operation.value)] = index }
        for (index, operation) in operations.enumerated() {
            let key = SetElement.key(operation.value)
            // What the mutation itself did to the element later counts.
            guard last[key] == index, let there = present.first(key),
                operation.kind == .remove || operation.kind == .add && there != operation.value
            else { continue }
            // Not `nil`, which could mean the JSON null there.
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
    /// Both sides gave a field another value.
    case field = 0
    /// Deleted here, changed there.
    case deleteUpdate = 1
    /// Changed here, deleted there.
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
    /// Of ``undecided``, while operations are checked.
    private var asked: Set<JSONString> = []
    /// Names of fields that are no part of the result any more.
    private var dropped: Set<JSONString> = []
    /// Operations that are no part of the result any more.
    private var givenUp: Set<FieldOperation> = []
    /// Operations that go before those of the result, the last ones first.
    private var leading: [[FieldOperation]] = []
    /// Of ``lost``.
    private var told: Set<Rebase.Loss> = []
    /// Sets as the hub has them now, and as they were seen, for the operations on them.
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

    /// What others changed meanwhile decides about the deletion as it would if it came after it (``afterDeletion()``). Where the
    /// deletion wins, what they wrote is gone with the record.
    private mutating func delete(_ remote: JSONObject) -> Rebase.Outcome {
        let names = remote.names + (ground.known?.names.filter { remote[$0] == nil } ?? [])
        // Of what it had seen nobody can tell, so the hub decides but for what was asked about.
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
        // Unless the hub itself asks.
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
        // The hub may have nothing of a deleted record any more, so what brings it back carries all that is known of it, and says
        // what that was: where the hub has kept more, only the difference counts.
        if local.content.action != .create {
            // Where nothing is known of the record any more, its author had still seen the objects that it changes.
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

    /// What of a change becomes the difference between what a record was and what it shall be, and what stays an operation.
    ///
    /// What adds up stays: it fits whatever somebody else makes of the record meanwhile. So does what makes no difference, which nobody
    /// would see otherwise. The rest says by the difference that its author had seen what it changes.
    private func split(_ operations: [FieldOperation], on document: JSONObject) -> (folded: [FieldOperation], kept: [FieldOperation]) {
        func addsUp(_ operation: FieldOperation) -> Bool { operation.kind == .increment || operation.kind == .append }
        var last: [FieldOperation.ElementName: Int] = [:]
        for (index, operation) in operations.enumerated() where operation.kind.isOfSet { last[operation.elementName] = index }
        // Their order counts.
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

    /// When each field was changed last, where that is not when the mutation was made.
    private func stamps(with operations: [FieldOperation]) -> [JSONString: HybridTime] {
        operations.reduce(into: local.content.stamps) { stamps, operation in
            // An operation on a member dates that member, and none beside it.
            if operation.path.isEmpty {
                stamps[JSONString(operation.top)] = operation.hlc
            } else {
                stamps[JSONString(operation.field)] = operation.hlc ?? local.hlc
            }
        }
    }

    /// That the bytes of a file are at the hub is nobody's change.
    private func isArrival(_ field: String, _ theirs: JSON?) -> Bool {
        guard let theirs, let known = ground.known?[field], known != theirs else { return false }
        return Placeholder.arrived(known) == Placeholder.arrived(theirs)
    }

    private mutating func lose(_ value: JSON?, of field: String, on side: Rebase.Loss.Side) {
        lost.append(.init(field: field, side: side, value: value, strategy: rules.strategy(of: field)))
    }

    // MARK: Fields

    private mutating func merge(_ remote: JSONObject) -> Rebase.Outcome {
        // A create of what exists by now changes what is there, as if it had known every field to be absent.
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
        // An update that was empty from the start is somebody's wish to touch the record, and where a change wins over a deletion one
        // that comes to nothing is a change all the same: it goes without content, as the hub would have taken it.
        let isOver = result.isEmpty && !local.content.isEmpty && (ground.isLast || !rules.keepsDeleted)
        return outcome(isOver ? .isSuperseded : .stays)
    }

    private mutating func decide(_ field: String, _ value: JSON?, _ remote: JSONObject) {
        let theirs = remote[field]
        // Of two counts that are the same, each was counted.
        let isCount = isKnown && rules.strategy(of: field) == .counter && value != seen?[field]
        // Of what a create brings back, only what differs from what was there before was ever asked for.
        if local.content.action == .create, let before = local.content.base[field], before == value, theirs != nil {
            return drop(field)
        }
        if value == theirs, !isCount, !isMore(field, value) {
            if !countsAgain(field, value, theirs) { drop(field) }
            return
        }
        // Members are compared by their own times, which only the hub knows: what a creation says of them it says of an empty object.
        if local.content.action == .create, rules.strategy(of: field) == .merge, !ground.isLast, !ground.disputed.contains(field),
            value?.object != nil, theirs?.object != nil, !isOwn(field, theirs)
        {
            // What brings the record back says what it had seen of them.
            result.base[field] = local.content.base[field] ?? seen?[field] ?? .object([:])
            return
        }
        // Nothing new, or a change member by member, which goes onto whatever is there: the fold and the hub do that.
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
            // As a difference to what is there now, so that it still commutes with what comes later.
            if let operations = WireForm.operations(strategy, field, from: theirs, to: united) {
                // An operation of its own on the same field comes after its value (``Coalescing``).
                leading.append(operations.stamped(local.content.stamps[JSONString(field)]))
            } else {
                result.data[field] = united
                result.stamps[JSONString(field)] = local.content.stamps[JSONString(field)]
                if strategy == .merge, let theirs { result.base[field] = theirs }
            }
        case .undecided: undecided.append(field)
        }
    }

    /// Whether two equal objects come to more than each, because of two counts that are the same each was counted. A hub finds that
    /// out by itself.
    private func isMore(_ field: String, _ value: JSON?) -> Bool {
        guard ground.isLast, isKnown, rules.strategy(of: field) == .merge, value?.object != nil, value != seen?[field] else { return false }
        let contest = FieldContest(
            rules, field, localIsLater: false, signature: local.signature, known: .value(local.content.base[field] ?? seen?[field]))
        return contest.decide(local: value, remote: value).outcome.isBoth
    }

    /// Whether a value that the hub has already still goes there: as the later word on the field, or for its spelling.
    private func countsAgain(_ field: String, _ value: JSON?, _ theirs: JSON?) -> Bool {
        // A hub that stamps nothing would learn nothing by it, and what people were asked about is settled.
        guard ground.fieldHLC[field] ?? ground.remoteHLC != nil, !ground.disputed.contains(field) else { return false }
        // Somebody else has spelled it anew as well.
        let isNews = if let theirs, let seen = seen?[field], isKnown { !theirs.isSpelled(as: seen) } else { true }
        let isRespelled = if let value, let theirs { !value.isSpelled(as: theirs) } else { false }
        switch rules.strategy(of: field) {
        case .lww: return isLater(field) || (isRespelled && !isNews)
        // Of what people decide, no stamp does.
        case .manual: return isRespelled && !isNews
        case .merge:
            // An object without what it was made of would go over the members that others change.
            guard local.content.action == .update else { return false }
            // Its members count by their own times, which the hub knows.
            if let base = local.content.base[field], base != value { return true }
            return isLater(field) || (isRespelled && !isNews)
        case .client: return isLater(field) || isRespelled
        case .server: return !isNews && (isLater(field) || isRespelled)
        // What adds up is no matter of when.
        case .counter, .append, .set, .max, .min: return false
        }
    }

    /// Puts what the decisions about single fields have left into the result, once for all of them.
    private mutating func assemble() {
        if !dropped.isEmpty { result.unset.removeAll { dropped.contains(JSONString($0)) } }
        if !leading.isEmpty { result.operations = leading.reversed().flatMap { $0 } + result.operations }
    }

    /// What is left of a create goes as a change from now on. It has not seen what this device itself changed before it
    /// deleted the record, so where a rule has an operation, its value must not go over that as one that had. What was added
    /// to the create since (``Coalescing``) comes after the difference, as it came after the value. An object goes as a change of
    /// what is there, or of none.
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

    /// Operations commute, so they stay. Only a text that would become too long asks a person; and of a set, the hub takes
    /// this device to have seen the element as it is there now, so a removal of one that it had not seen must not go.
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
            // Where the field has a later stamp the element may have, too: then the hub decides, and tells.
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
        // What comes on top of nothing undoes that.
        if theirs?.isNull ?? true, isKnown, operation.kind != .remove { lose(theirs, of: operation.field, by: strategy) }
    }

    private mutating func lose(_ value: JSON?, of field: String, by strategy: FieldStrategy) {
        let loss = Rebase.Loss(field: field, side: .remote, value: value, strategy: strategy)
        // Two operations on one element do away with it once.
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

    /// Of what a create brings back, what there was before it was deleted.
    /// Of a create that is always known: it says what was there before, or there was nothing.
    private var isKnown: Bool { ground.isKnown || local.content.action == .create }

    private var seen: JSONObject? { local.content.action == .create ? local.content.base : ground.known }

    private func isManual(_ field: String) -> Bool { rules.strategy(of: field) == .manual }

    private func isNews(_ field: String, _ value: JSON?) -> Bool {
        guard ground.isKnown else {
            switch rules.strategy(of: field) {
            // What the hub has not called a conflict is none.
            case .manual: return ground.disputed.contains(field)
            case .server: return !isLater(field)
            default: return true
            }
        }
        // Whoever wrote it again later than this was made has the last word, and may have seen no other value.
        if value == seen?[field] { return rules.strategy(of: field) == .lww && isWrittenLater(field, value) }
        // Who makes the record anew after deleting it adds to what adds up, and to an object, whoever wrote that (``HubMerge``).
        let strategy = rules.strategy(of: field)
        if local.content.action == .create, value != nil, strategy.addsUp || strategy == .merge { return true }
        return [ground.expected, ground.asked].allSatisfy { $0[field]?.contains(value) != true }
    }

    /// Whether a mutation before this one put it there.
    private func isOwn(_ field: String, _ theirs: JSON?) -> Bool {
        local.content.action == .create && ground.isKnown && ground.expected[field]?.contains(theirs) == true
    }

    /// What a device whose clock is trusted has seen is never later than what it makes then.
    private func isWrittenLater(_ field: String, _ value: JSON?) -> Bool {
        // A field that is not there and has no stamp of its own was written by nobody.
        let other = ground.fieldHLC[field] ?? (value == nil ? nil : ground.remoteHLC)
        guard let mine = stamp(of: field), local.hasSeenTime, let theirs = other else { return false }
        return theirs > mine
    }

    private func stamp(of field: String) -> HybridTime? {
        local.hlc.map { local.content.stamps[JSONString(field)] ?? $0 }
    }

    /// - Parameter part: Of an operation that has a stamp of its own.
    private func isLater(_ field: String, at part: HybridTime? = nil) -> Bool {
        guard let whole = stamp(of: field) else { return false }
        let mine = part ?? whole
        // A hub that stamps nothing leaves ours as the only word on when.
        guard let theirs = ground.fieldHLC[field] ?? ground.remoteHLC else { return true }
        return mine > theirs
    }
}
