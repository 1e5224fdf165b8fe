/// Applies one mutation to the hub's record (PROTOCOL A4 step 4, D1, D2, D4). No other part of the hub decides about content.
///
/// A field is *contested* when three conditions hold: it changed in a commit that the device had not seen, the two values differ, and the
/// present value is not just what the device itself wrote before. The third condition is exact, not lenient. The mutations of one record
/// arrive in the order in which their device made them, so a device's own value is never news to it, whatever its `base_version` says. The
/// result of a merge is news (``VersionedRecord/Stamp/foreign``); otherwise a second change would undo the merge.
///
/// The strategy of the field decides a contest; everything else applies as sent. Operations commute and always apply. In a set, an addition
/// beats a removal that had not seen it, so the order of arrival does not matter. A list that is written whole adds each element that is
/// new in it.
package enum HubMerge {
    package struct Change: Sendable {
        package var device: DeviceID
        package var key: MutationKey
        package var mutation: IncomingMutation
        var author: String? { mutation.author }

        package init(device: DeviceID, key: MutationKey, mutation: IncomingMutation) {
            self.device = device
            self.key = key
            self.mutation = mutation
        }
    }

    package enum Outcome: Hashable, Sendable {
        case accepted(Accepted)
        /// Nothing changes: a person must decide these fields, or the fate of the record (``wholeRecord``).
        case conflict(fields: [String])
        /// Nothing changes now, and the same mutation will never be accepted.
        case rejected(Problem)
    }

    package struct Accepted: Hashable, Sendable {
        /// The record as it is to be written; `nil` when there is nothing to write.
        package var record: VersionedRecord?
        /// Fields whose stored value differs from the value that was sent.
        package var merged: [String] = []
        /// Values that stay because the change's `max` or `min` does not beat them, by the name that the change uses.
        package var kept: JSONObject = [:]
        /// The stamp lay too far ahead and was replaced by the hub's time.
        package var isClockClamped = false
        /// The device would compute the same result from the version it had seen, provided nothing newer was there.
        package var isPlain = true
        /// Values that a contest or a deletion discarded, for the audit trail.
        package var lost: [LostValue] = []
    }

    /// Stands for the deletion itself among the fields of a conflict, the merged fields and the lost values.
    package static let wholeRecord = "$delete"

    /// Stands for the fields of a deleted record that a change could not bring back, because they were not kept.
    package static let restOfRecord = "$rest"

    /// - Precondition: The operations are placed (``MutationContent/placed(under:)``).
    /// - Parameters:
    ///   - record: The hub's record; `nil` when the hub never had it, or has forgotten its tombstone.
    ///   - commit: The commit number that the change gets, if it changes anything.
    ///   - now: The hub's wall time. A stamp more than ``HybridClock/aheadMax`` above it counts as `now`.
    package static func apply(
        _ change: Change, to record: VersionedRecord?, rules: EntityRules, commit: Int64, now: Timestamp,
        ablations: Ablations = .none
    ) -> Outcome {
        var merge = Merge(change: change, rules: rules, commit: commit, now: now, ablations: ablations)
        if rules.kind == .reference { return .rejected(merge.forbidden) }
        if rules.kind == .event { return merge.event(record) }
        switch (change.mutation.content.action, record) {
        case (.create, let record?) where !record.isDeleted: return merge.createExisting(record)
        case (.create, let tombstone): return merge.create(over: tombstone)
        case (.update, let record?) where !record.isDeleted: return merge.fields(of: record)
        case (.update, let tombstone): return merge.updateDeleted(tombstone)
        case (.delete, let record?) where !record.isDeleted: return merge.delete(record)
        case (.delete, nil) where change.mutation.baseVersion == 0: return merge.deleteUnknown()
        case (.delete, _): return .accepted(Accepted())
        }
    }
}

/// The state of one ``HubMerge/apply(_:to:rules:commit:now:)``.
private struct Merge {
    private(set) var change: HubMerge.Change
    var rules: EntityRules
    let now: Timestamp
    let ablations: Ablations
    /// The stamp of the change as a whole.
    let own: VersionedRecord.Stamp
    /// The stamp of the field that is being decided. A part of the change may have been made earlier than the whole.
    private(set) var stamp: VersionedRecord.Stamp
    /// Write times of members of merged objects that differ from the time of their field, by field and dotted name.
    private var memberStamps: [JSONString: [JSONString: HybridTime]] = [:]
    var accepted = HubMerge.Accepted()
    /// The names in ``HubMerge/Accepted/merged``, for a fast lookup.
    private var mergedNames: Set<JSONString> = []
    /// The values in ``HubMerge/Accepted/lost``, for a fast lookup.
    private var told: Set<LostValue> = []

    init(change: HubMerge.Change, rules: EntityRules, commit: Int64, now: Timestamp, ablations: Ablations) {
        self.ablations = ablations
        self.change = change
        self.rules = rules
        self.now = now
        var hlc = change.mutation.hlc
        let limit = UInt64(clamping: now.advanced(by: HybridClock.aheadMax).milliseconds)
        if change.mutation.clock == .unsynced {
            hlc = HybridTime(milliseconds: 0, counter: 0, node: hlc.node)
        } else if hlc.milliseconds > limit {
            hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: hlc.node)
            accepted.isClockClamped = true
            accepted.isPlain = false
        }
        own = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: change.device, author: change.author)
        stamp = own
        clampParts(limit)
        guard rules.kind == .record else { return }
        takeMemberStamps()
        if ablations.contains(.lesserLetThrough) { makeValues(of: [.max, .min]) }
        if ablations.contains(.countsAsValues) { makeValues(of: [.increment]) }
        var folded: [String] = []
        self.change.mutation.content = content.withSetsFolded(under: rules, &folded)
        if !folded.isEmpty { accepted.isPlain = false }
        for field in folded { noteMerged(field) }
    }

    /// Applies the rules of the whole stamp to the stamps of parts. They are dropped if the clock was not trusted, and replaced by the
    /// hub's time if they lie too far ahead.
    private mutating func clampParts(_ limit: UInt64) {
        func clamped(_ hlc: HybridTime?) -> HybridTime? {
            guard let hlc, change.mutation.clock != .unsynced else { return nil }
            return hlc.milliseconds > limit ? HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: hlc.node) : hlc
        }
        guard content.hasParts else { return }
        var parts = content
        parts.stamps = parts.stamps.compactMapValues { clamped($0) }
        for index in parts.operations.indices { parts.operations[index].hlc = clamped(parts.operations[index].hlc) }
        if change.mutation.clock != .unsynced, parts != content {
            accepted.isClockClamped = true
            accepted.isPlain = false
        }
        change.mutation.content = parts
    }

    private mutating func takeMemberStamps() {
        guard rules.mergesObjects, !content.stamps.isEmpty else { return }
        for (name, hlc) in content.stamps {
            guard case .member(let path) = rules.place(of: name.text) else { continue }
            change.mutation.content.stamps[name] = nil
            // A name that the change does not write has no meaning.
            if content.data.member(at: path).value == nil, content.base.member(at: path).value == nil { continue }
            memberStamps[JSONString(path[0]), default: [:]][name] = hlc
        }
    }

    private func stamp(at hlc: HybridTime?) -> VersionedRecord.Stamp {
        var stamp = own
        if let hlc { stamp.hlc = hlc }
        return stamp
    }

    /// Turns operations into plain values, for rules that an ablation switches off.
    private mutating func makeValues(of kinds: [FieldOperation.Kind]) {
        for operation in content.operations where kinds.contains(operation.kind) && operation.path.isEmpty {
            change.mutation.content.data[operation.field] = operation.value
            rules.overrule([operation.field])
        }
        change.mutation.content.operations.removeAll { kinds.contains($0.kind) && $0.path.isEmpty }
    }

    var content: MutationContent { change.mutation.content }
    var base: Int64 { change.mutation.baseVersion }

    // MARK: Existing records

    /// - Parameter isBlind: The device had seen nothing of the record, so every field counts as known to be absent.
    mutating func fields(of record: VersionedRecord, isBlind: Bool = false) -> HubMerge.Outcome {
        let base = isBlind ? 0 : self.base
        var document = record.data ?? [:]
        var stamps = record.stamps
        var undecided: [String] = []
        for (name, value) in assignments + (isBlind ? removalsOfCreate(from: document) : []) {
            let field = name.text
            let present = document[field]
            let old = stamps[name]
            stamp = stamp(at: content.stamps[name])
            let hasBase = content.base[field] != nil
            let areMembers = rules.strategy(of: field) == .merge && (hasBase || isBlind) && value?.object != nil && present?.object != nil
            let same = areMembers && present == value ? sameMembers(value, in: field) : nil
            // When two counts are equal, both were counted, also inside an object.
            let isCount = isBlind && rules.strategy(of: field) == .counter && value != content.base[field]
            if present == value, !isCount, same?.outcome.isBoth != true {
                if let value, isKeptAsWritten(field, over: old, since: base) { document[field] = value }
                if !ablations.contains(.writtenAgainForgotten) { stamps[name] = writtenAgain(over: old, since: base) }
                if let same { noteMembers(same.written, of: name, over: old, &stamps) }
                continue
            }
            // A create over an existing record starts fresh and replaces the device's own values. A field that adds up is merged with them.
            let isNews = isNews(old, since: base) || (isBlind && old != nil && rules.strategy(of: field).addsUp)
            // A whole list without a base removes from a set the elements that its device had seen there.
            let seen = isBlind || content.base[field] != nil ? nil : seenElements(field, value, present, record, since: base)
            let known: FieldContest.Known =
                content.base[field].map { .value($0) } ?? (isBlind ? .value(nil) : seen.map { .value(.array($0)) } ?? .unknown)
            // A merged object was not written as a whole, so its last writer does not matter. The writer does not matter either for a field
            // that moves in one direction only, nor for a set whose author sent the base.
            let isMerged =
                switch rules.strategy(of: field) {
                case .merge: hasBase || isBlind
                case .max: isOrdered(.max, value, present)
                case .min: isOrdered(.min, value, present)
                case .set: hasBase && (isBlind || content.base[field] != present)
                case .lww, .server, .client, .append, .counter, .manual: hasBase && isBlind
                }
            // A create that brings a record back asks only for the differences from its base, also where another device has removed the
            // field meanwhile.
            if isBlind, old != nil, value != nil, content.base[field] == value {
                // The device assumes that the field is there.
                accepted.isPlain = false
                continue
            }
            // A value that equals what the author had seen is no news, whichever device wrote it.
            if isBlind, let seen = content.base[field], seen == present, rules.strategy(of: field) != .merge {
                document[field] = value
                stamps[name] = written(over: old)
                continue
            }
            guard isNews || isMerged else {
                document[field] = value
                stamps[name] = written(over: old)
                continue
            }
            // A value of the same device that a create finds was written before the create.
            let isByArrival = ablations.contains(.membersByArrival) && rules.strategy(of: field) == .merge
            let isFirst = (isBlind && !isNews) || isByArrival
            let localIsLater = old.map { isLater(than: $0.hlc) || isFirst } ?? true
            var contest = FieldContest(rules, field, localIsLater: localIsLater, signature: signature, known: known)
            if areMembers, !isFirst, let old, !ablations.contains(.membersByField) {
                contest.members = isTimed ? MemberOrder(mine: memberTimes(of: name), theirs: old.memberTimes) : nil
            }
            let decision = contest.decide(local: value, remote: present)
            // For a value that is no news, only a member can lose: it is compared with what the app had seen.
            let isTold = isNews || (hasBase && rules.strategy(of: field) == .merge)
            lose(decision.lost, writtenBy: isTold ? old : nil, record.additions[name] ?? [:])
            switch decision.outcome {
            case .local:
                document[field] = value
                stamps[name] = written(over: old)
            case .remote:
                noteMerged(field)
                if rules.strategy(of: field).isExtreme, let present { accepted.kept[field] = present }
            case .both(let united):
                if united != value { noteMerged(field) }
                document[field] = united
                stamps[name] = written(over: old, isMerged: united != value)
            case .undecided: undecided.append(field)
            }
            if areMembers { noteMembers(decision.written, of: name, over: old, &stamps) }
        }
        stamp = own
        guard content.operations.isEmpty else { return operate(on: document, stamps, undecided, of: record, since: base) }
        return conclude(document, stamps, undecided, record.additions, over: record)
    }

    private func isOrdered(_ kind: FieldOperation.Kind, _ value: JSON?, _ present: JSON?) -> Bool {
        Fold.extreme(kind, value, present) != nil
    }

    /// The elements of a set that a whole list replaces and whose addition its device had seen. An element from before additions were
    /// recorded is not among them, so it stays.
    ///
    /// - Returns: `nil` where the value is no list on a set, or the field holds no news.
    private func seenElements(
        _ field: String, _ value: JSON?, _ present: JSON?, _ record: VersionedRecord, since base: Int64
    ) -> [JSON]? {
        guard rules.strategy(of: field) == .set, value?.array != nil, let present = present?.array,
            isNews(record.stamp(of: field), since: base)
        else { return nil }
        let additions = record.additions[JSONString(field)] ?? [:]
        return present.filter { element in
            additions[SetElement.key(element)].map { !isNews($0, since: base) } ?? false
        }
    }

    /// Applies the operations to what the assignments made of the fields.
    private mutating func operate(
        on document: JSONObject, _ stamps: [JSONString: VersionedRecord.Stamp], _ undecided: [String],
        of record: VersionedRecord, since base: Int64
    ) -> HubMerge.Outcome {
        var (stamps, undecided, additions) = (stamps, undecided, record.additions)
        var fold = DocumentFold(document)
        // The fields as they were before the change.
        var before: [JSONString: PresentField] = [:]
        var tooLong: Set<JSONString> = []
        // Member times of the objects whose members have operations.
        var members: [JSONString: MemberTimes] = [:]
        for operation in content.operations {
            let name = JSONString(operation.top)
            let named = JSONString(operation.field)
            let old = stamps[name]
            stamp = stamp(at: operation.hlc)
            let isNews = isNews(old, since: base)
            let field = fold.field(of: operation)
            guard field.fits(operation) else { return .rejected(misfit(operation, field.value)) }
            if tooLong.contains(name) { continue }
            if isNews, operation.kind == .append, FieldContest.isTooLong(operation, after: field, rules) {
                tooLong.insert(name)
                undecided.append(operation.top)
                continue
            }
            let wasNothing = field.isNothing
            let isChanged = apply(operation, to: &fold, &additions[named, default: [:]], base)
            // The last writer of the field need not have seen all earlier additions to the set.
            let key = operation.kind.isOfSet ? SetElement.key(operation.value) : Optional.none
            let isNewElement = self.isNews(key.flatMap { record.additions[named]?[$0] }, since: base)
            if isChanged, let its = record.stamp(of: operation.top), isNewElement || self.isNews(its, since: base) {
                let present = before[named] ?? PresentField(record, operation, its)
                before[named] = present
                displace(operation, wasNothing: wasNothing, in: present, since: base)
            }
            // A removal from a set that is not there does not count as a removal of the field, which would beat older values of it.
            if field.isMissing { continue }
            stamps[name] = written(over: old, isMerged: isNews)
            if !operation.path.isEmpty {
                members[name, default: old?.memberTimes ?? MemberTimes(rest: stamp.hlc)].write(operation.field, at: stamp.hlc)
            }
        }
        for (name, its) in members { stamps[name]?.memberTimes = its }
        stamp = own
        for member in fold.kept.members { accepted.kept[member.name.text] = member.value }
        return conclude(fold.result, stamps, undecided, additions, over: record)
    }

    private mutating func conclude(
        _ document: JSONObject, _ stamps: [JSONString: VersionedRecord.Stamp], _ undecided: [String],
        _ additions: [JSONString: [JSON: VersionedRecord.Stamp]], over record: VersionedRecord
    ) -> HubMerge.Outcome {
        guard undecided.isEmpty else { return .conflict(fields: undecided) }
        if !accepted.merged.isEmpty { accepted.isPlain = false }
        return write(document, stamps, additions, over: record.data)
    }

    /// Applies one operation to a field and updates the recorded additions of a set.
    ///
    /// - Returns: `true` when the value of the field has changed.
    private mutating func apply(
        _ operation: FieldOperation, to fold: inout DocumentFold, _ additions: inout [JSON: VersionedRecord.Stamp], _ base: Int64
    ) -> Bool {
        guard operation.kind.isOfSet else { return fold.apply(operation).isChanged }
        let key = SetElement.key(operation.value)
        let old = additions[key]
        let isNews = isNews(old, since: base)
        switch operation.kind {
        case .remove where isNews && !ablations.contains(.removalBeatsAddition):
            noteMerged(operation.top)
            lose(nil, of: SetElement.place(of: key, in: operation.field), writtenBy: stamp)
            return false
        case .remove:
            additions[key] = nil
            return fold.apply(operation).isChanged
        case .add, .append, .increment, .max, .min:
            let replaces = old.map { isReplaced($0, isNews: isNews) } ?? true
            let change = fold.apply(operation, replaces: replaces)
            if !replaces, !change.isChanged, !change.found.contains(operation.value) {
                noteMerged(operation.top)
                lose(operation.value, of: SetElement.place(of: key, in: operation.field), writtenBy: stamp)
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

    private mutating func noteMerged(_ field: String) {
        if mergedNames.insert(JSONString(field)).inserted { accepted.merged.append(field) }
    }

    /// Reports a value that an operation removes or changes although its author had not seen it: an element of a set, or an absent value
    /// that the operation fills.
    ///
    /// The writer of an element is known from its addition. An element that has none (it predates the recorded additions, or came with a
    /// whole list under another rule) is as new as its field, unless the news in the field is an addition. A member may be older than its
    /// field, so only a recorded addition is reported for it.
    private mutating func displace(
        _ operation: FieldOperation, wasNothing: Bool, in present: PresentField, since base: Int64
    ) {
        let field = operation.field
        let lost: LostValue
        if let element = present.displaced(by: operation) {
            var writer = present.stamp
            if let addition = present.additions[SetElement.key(element)], isNews(addition, since: base) {
                writer = addition
            } else if present.isNewByAddition || !operation.path.isEmpty || !isNews(present.stamp, since: base) {
                return
            }
            lost = LostValue(field: SetElement.place(of: element, in: field), value: element, stamp: writer)
        } else if present.isNothing, wasNothing, operation.path.isEmpty, isNews(present.stamp, since: base) {
            lost = LostValue(field: field, value: present.value, stamp: present.stamp)
        } else {
            return
        }
        // Two operations on one element remove it once.
        if told.insert(lost).inserted { accepted.lost.append(lost) }
    }

    /// - Parameters:
    ///   - old: The stamp of the former value; `nil`: its loss is not reported.
    ///   - additions: The stamps of the elements of a set, by key.
    private mutating func lose(
        _ losses: [FieldContest.Loss], writtenBy old: VersionedRecord.Stamp?, _ additions: [JSON: VersionedRecord.Stamp]
    ) {
        for loss in losses {
            switch loss.side {
            case .local: lose(loss.value, of: loss.field, writtenBy: stamp)
            case .remote:
                guard var its = loss.value.flatMap({ additions[SetElement.key($0)] }) ?? old else { continue }
                // The time of a member is known; its writer is known only for the whole field.
                if its.members != nil { its.hlc = its.memberTimes.time(of: loss.field) }
                lose(loss.value, of: loss.field, writtenBy: its)
            }
        }
    }

    private mutating func lose(_ value: JSON?, of field: String, writtenBy stamp: VersionedRecord.Stamp) {
        var stamp = stamp
        stamp.members = nil
        let lost = LostValue(field: field, value: value, stamp: stamp)
        told.insert(lost)
        accepted.lost.append(lost)
    }

    /// The problem with the first operation of a create that does not fit the create's own values; `nil` if all fit.
    private var misfitOfCreate: Problem? {
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

    /// Handles a create of a record that exists. From the same device with the same content it is the earlier create under a new key, after
    /// a restored database lost the old one. Otherwise both are merged field by field, as if neither side had known the other.
    mutating func createExisting(_ record: VersionedRecord) -> HubMerge.Outcome {
        let isOwn = record.stamps.values.allSatisfy { $0.writer == change.device }
        if isOwn, let data = record.data, Fold.apply(content, to: nil)?.isSpelled(as: data) == true { return .accepted(accepted) }
        return fields(of: record, isBlind: true)
    }

    /// Unseen changes of other devices decide about the deletion as they would if they came after it (``updateDeleted(_:)``).
    mutating func delete(_ record: VersionedRecord) -> HubMerge.Outcome {
        let changed = record.stamps.filter { name, its in
            its.isUnseen(by: change.device, since: base) && !isArrival(of: record.data?[name.text], its)
        }
        // A change that left all fields as they were counts as well.
        let isTouched = record.stamp.writer != .hub && record.stamp.isNews(to: change.device, since: base)
        if !changed.isEmpty || isTouched {
            switch rules.afterDeletion(changing: changed.keys.map(\.text)) {
            case .undecided: return .conflict(fields: [HubMerge.wholeRecord])
            case .comesBack where ablations.contains(.unseenDeletionWins): break
            case .comesBack where ablations.contains(.givingWayUntold): return .accepted(accepted)
            case .comesBack:
                accepted.isPlain = false
                noteMerged(HubMerge.wholeRecord)
                var gone = stamp
                gone.version = record.version
                lose(nil, of: HubMerge.wholeRecord, writtenBy: gone)
                return .accepted(accepted)
            case .rejected: break
            }
        }
        for member in record.data?.members ?? [] {
            if let its = changed[member.name], its.isNews(to: change.device, since: base) {
                lose(member.value, of: member.name.text, writtenBy: its)
            }
        }
        accepted.record = record.deleted(stamp, rules: rules)
        return .accepted(accepted)
    }

    // MARK: Deleted records

    /// Handles the deletion of a record that the device made and deleted before the record was ever sent. Devices that create a record with
    /// the same id have not seen the deletion, as if both had been sent.
    mutating func deleteUnknown() -> HubMerge.Outcome {
        accepted.record = VersionedRecord(deleted: stamp, keeping: nil)
        return .accepted(accepted)
    }

    /// A create over a tombstone makes the record anew when the device knew of the deletion or deleted the record itself. A create that
    /// carries what its author had seen of the record is an update that brings it back. A create that knew nothing of a deletion that gives
    /// way counts as the same. Both of these are merged with what the tombstone has kept.
    mutating func create(over tombstone: VersionedRecord?) -> HubMerge.Outcome {
        let isUnseen = tombstone?.stamp.isNews(to: change.device, since: base) ?? false
        if isUnseen {
            switch rules.afterDeletion(changing: content.fields) {
            case .undecided: return .conflict(fields: [HubMerge.wholeRecord])
            case .rejected: return .rejected(HubMerge.deleted(change.mutation.record))
            case .comesBack: break
            }
        }
        let bringsBack = isUnseen || !content.base.isEmpty
        if let tombstone, bringsBack {
            giveWay(tombstone)
            if let record = tombstone.beforeDeletion { return bringBack(record) }
        }
        if let misfit = misfitOfCreate { return .rejected(misfit) }
        let document = Fold.apply(content, to: nil) ?? [:]
        return write(document, ownStamps(of: document), ownAdditions)
    }

    mutating func updateDeleted(_ tombstone: VersionedRecord?) -> HubMerge.Outcome {
        switch rules.afterDeletion(changing: content.fields) {
        case .undecided: return .conflict(fields: [HubMerge.wholeRecord])
        case .rejected: return .rejected(HubMerge.deleted(change.mutation.record))
        case .comesBack:
            if let tombstone { giveWay(tombstone) }
            accepted.isPlain = false
            if let record = tombstone?.beforeDeletion, !ablations.contains(.deletedForgotten) {
                let outcome = fields(of: record)
                // No fields of a deleted record can be shown, so the person decides about the whole record.
                if case .conflict = outcome { return .conflict(fields: [HubMerge.wholeRecord]) }
                return outcome
            }
            // The document is not kept: the record comes back with the content of this change.
            if let misfit = misfitOfCreate { return .rejected(misfit) }
            noteMerged(HubMerge.restOfRecord)
            lose(nil, of: HubMerge.restOfRecord, writtenBy: tombstone?.stamp ?? stamp)
            let document = Fold.apply(content, to: [:]) ?? [:]
            return write(document, ownStamps(of: document), ownAdditions)
        }
    }

    /// Returns whether the hub itself wrote the value because the bytes of a file have arrived. That is no change by a device.
    private func isArrival(of value: JSON?, _ stamp: VersionedRecord.Stamp) -> Bool {
        stamp.writer == .hub && value.map { Placeholder.isArrived(in: $0) } ?? false
    }

    private mutating func giveWay(_ tombstone: VersionedRecord) {
        lose(nil, of: HubMerge.wholeRecord, writtenBy: tombstone.stamp)
    }

    /// Merges a create with what a tombstone has kept.
    private mutating func bringBack(_ record: VersionedRecord) -> HubMerge.Outcome {
        accepted.isPlain = false
        var merge = self
        let outcome = merge.fields(of: record, isBlind: true)
        // The author has decided against the deletion, and the deleted values cannot be shown for a decision. The create wins; the loss is
        // reported.
        if case .conflict(let fields) = outcome {
            merge = self
            merge.rules.overrule(fields)
            defer { self = merge }
            return merge.fields(of: record, isBlind: true)
        }
        self = merge
        return outcome
    }

    // MARK: Events

    mutating func event(_ record: VersionedRecord?) -> HubMerge.Outcome {
        let entity = change.mutation.record.entity
        guard content.action == .create else {
            return .rejected(
                Problem("validation", status: 422, detail: "\(entity) holds events: they are created, never changed or deleted"))
        }
        if let misfit = misfitOfCreate { return .rejected(misfit) }
        let document = Fold.apply(content, to: nil) ?? [:]
        guard let record else { return write(document, [:]) }
        if record.data == document { return .accepted(accepted) }
        return .rejected(
            Problem("validation", status: 422, detail: "\(change.mutation.record) exists with other content, and events are never merged"))
    }

    // MARK: Parts

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

    /// Elements that this change adds to sets of a record that was not there. A removal that had not seen them does not remove them.
    private var ownAdditions: [JSONString: [JSON: VersionedRecord.Stamp]] {
        var additions: [JSONString: [JSON: VersionedRecord.Stamp]] = [:]
        for operation in content.operations where operation.kind == .add {
            additions[JSONString(operation.field), default: [:]][SetElement.key(operation.value)] = stamp(at: operation.hlc)
        }
        return additions
    }

    /// Stamps of a new record's fields that differ from the stamp of the whole. They cover fields that were written earlier, and fields
    /// that the create names as removed because a removal was merged into it: another create of the same record has not seen that removal.
    private func ownStamps(of document: JSONObject) -> [JSONString: VersionedRecord.Stamp] {
        var stamps = Dictionary(content.unset.map { (JSONString($0), stamp) }, uniquingKeysWith: { first, _ in first })
        guard content.hasParts || !memberStamps.isEmpty else { return stamps }
        // A name that the change does not write has no meaning: the stamp of an absent field would say that it was removed.
        for (name, hlc) in content.stamps where document[name.text] != nil || stamps[name] != nil { stamps[name] = stamp(at: hlc) }
        var members: [JSONString: MemberTimes] = [:]
        for (name, named) in memberStamps where document[name.text] != nil {
            members[name] = MemberTimes(rest: (stamps[name] ?? own).hlc, named: named)
        }
        // A removal from a set that is not there does not count as a removal of the field, which would beat older values of it.
        for operation in content.operations where document[operation.top] != nil {
            let name = JSONString(operation.top), its = stamp(at: operation.hlc)
            let isFirst = stamps[name] == nil && content.data[operation.top] == nil
            if !operation.path.isEmpty {
                let rest = isFirst ? its.hlc : (stamps[name] ?? own).hlc
                members[name, default: MemberTimes(rest: rest)].write(operation.field, at: its.hlc)
            }
            stamps[name] = isFirst || its.hlc > (stamps[name] ?? own).hlc ? its : stamps[name]
        }
        for (name, its) in members { stamps[name, default: own].memberTimes = its }
        return stamps
    }

    private mutating func write(
        _ document: JSONObject, _ stamps: [JSONString: VersionedRecord.Stamp],
        _ additions: [JSONString: [JSON: VersionedRecord.Stamp]] = [:], over before: JSONObject? = nil
    ) -> HubMerge.Outcome {
        var additions = additions
        noteWritten(document, over: before, &additions)
        // The recorded addition of an element is dropped together with the element.
        for (name, stamps) in additions where !stamps.isEmpty {
            let path = if case .member(let path) = rules.place(of: name.text) { path } else { [name.text] }
            let present = Set((document.member(at: path).value?.array ?? []).map { SetElement.key($0) })
            additions[name] = stamps.filter { present.contains($0.key) }
        }
        accepted.record = VersionedRecord(
            data: document, stamp: own, exceptions: Merge.withoutOldRemovals(stamps, document), additions: additions)
        return .accepted(accepted)
    }

    /// Records an addition for each element of a set that is new or has new content, also where the list was written whole.
    private mutating func noteWritten(
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
            stamp = stamp(at: isWritten ? content.stamps[field] : content.operations.last { $0.kind == .append && $0.top == path[0] }?.hlc)
            defer { stamp = own }
            for element in elements where !old.hasSame(element) {
                let key = SetElement.key(element)
                stamps[key] = written(over: stamps[key], isMerged: isNews(stamps[key], since: base))
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

    /// The new stamp of a field. A stamp never goes back: its value was written with the earlier one in sight, or has beaten it.
    private func written(over old: VersionedRecord.Stamp?, isMerged: Bool = false) -> VersionedRecord.Stamp {
        var new = stamp
        if isMerged, let old { new.foreign = old.others(than: change.device) }
        if let old {
            new.hlc = max(old.hlc, stamp.hlc)
            let others = old.writer == change.device ? old.replaced : old.version
            new.replaced = others > base ? others : 0
        }
        return new
    }

    /// The stamp of a value that was written again by an author who had not seen the present one. The later of the two writes counts as the
    /// writer, and the write of the other is news to each device that has not seen it.
    private func writtenAgain(over old: VersionedRecord.Stamp?, since base: Int64) -> VersionedRecord.Stamp? {
        // The removal of an absent field counts as a write as well.
        guard var old else { return stamp }
        guard isNews(old, since: base), !isLater(than: old.hlc) else { return written(over: old, isMerged: isNews(old, since: base)) }
        old.version = stamp.version
        if old.writer != change.device { old.foreign = stamp.version }
        return old
    }

    /// Returns whether a value that equals the present one is stored with the spelling of the change. People are never asked about that.
    private mutating func isKeptAsWritten(_ field: String, over old: VersionedRecord.Stamp?, since base: Int64) -> Bool {
        guard let old, isNews(old, since: base) else { return true }
        let isKept =
            switch rules.strategy(of: field) {
            case .server: false
            case .client: true
            case .lww, .manual, .merge, .append, .counter, .set, .max, .min: isLater(than: old.hlc)
            }
        if !isKept { accepted.isPlain = false }
        return isKept
    }

    private func isNews(_ old: VersionedRecord.Stamp?, since base: Int64) -> Bool {
        guard let old else { return false }
        if ablations.contains(.mergeForgotten), old.writer == change.device { return false }
        return old.isNews(to: change.device, since: base)
    }

    private func isLater(than other: HybridTime) -> Bool { isTimed && stamp.hlc > other }

    private var isTimed: Bool { change.mutation.clock != .unsynced }

    // MARK: Members

    /// The result of writing an object that is there already: the members that it writes again, and whether counts in it add up.
    private func sameMembers(_ value: JSON?, in field: String) -> FieldContest.Decision {
        let contest = FieldContest(rules, field, localIsLater: false, signature: signature, known: .value(content.base[field]))
        return contest.decide(local: value, remote: value)
    }

    /// The member times of a field that this change writes.
    private func memberTimes(of field: JSONString) -> MemberTimes { MemberTimes(rest: stamp.hlc, named: memberStamps[field] ?? [:]) }

    /// Updates the member times of a field. Members that this change has written get the later of their old and their new time; the others
    /// keep theirs.
    ///
    /// - Parameter stamps: The stamps of all fields, with the field's new one.
    private func noteMembers(
        _ written: [String], of field: JSONString, over old: VersionedRecord.Stamp?, _ stamps: inout [JSONString: VersionedRecord.Stamp]
    ) {
        let mine = memberTimes(of: field)
        var times = old?.memberTimes ?? mine
        for place in written { times.write(place, at: mine.time(of: place)) }
        stamps[field]?.memberTimes = times
    }

    private var signature: FieldContest.Signature {
        .init(author: change.author, device: change.device, at: change.mutation.clientUpdatedAt ?? now, key: change.key)
    }

    var forbidden: Problem {
        Problem("forbidden", status: 403, detail: "\(change.mutation.record.entity) is reference data, which devices only read")
    }
}

/// A field as the hub had it before the operations of one change.
private struct PresentField {
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

    func displaced(by operation: FieldOperation) -> JSON? {
        if let other = set.displaced(by: operation) { return other }
        let key = SetElement.key(operation.value)
        return operation.kind == .remove && additions[key] == nil ? set.first(key) : Optional.none
    }
}

extension EntityRules {
    /// Lets the device's value win on these fields.
    fileprivate mutating func overrule(_ names: [String]) {
        strategy = .fields
        criticalFields.removeAll { names.contains($0) }
        for name in names {
            fields[name] = .client
            maxLength[name] = nil
        }
    }
}

extension HubMerge {
    /// The record is gone and its entity lets deletions win. The values of the change stay in the agent's list of rejections.
    package static func deleted(_ record: RecordName) -> Problem {
        Problem("deleted", status: 410, detail: "\(record) does not exist any more")
    }
}

/// A value that lost a contest, with its writer: no value is dropped without a trace.
package struct LostValue: Hashable, Sendable {
    /// The name in the form of ``FieldContest/Loss``.
    package var field: String
    /// `nil` when a removal lost.
    package var value: JSON?
    /// For a member: the last writer of its field, with the time of the member. For an element that several devices have added: the last
    /// addition.
    package var stamp: VersionedRecord.Stamp

    package init(field: String, value: JSON?, stamp: VersionedRecord.Stamp) {
        self.field = field
        self.value = value
        self.stamp = stamp
    }
}
