/// One mutation on the hub's record (PROTOCOL A4 step 4, D1, D2, D4): the hub's only decision about content.
///
/// A field is *contested* when it changed in a commit that the device had not seen, the two values differ, and the last
/// writer was somebody else. The last condition is exact, not lenient: mutations of one record arrive in the order in which
/// their device made them, so what the device itself wrote before is never news to it, whatever its `base_version` says.
/// Contests go to the field's strategy; everything else applies as sent. Operations commute and always apply.
package enum HubMerge {
    package struct Change: Sendable {
        package var device: DeviceID
        package var key: MutationKey
        package var mutation: IncomingMutation

        package init(device: DeviceID, key: MutationKey, mutation: IncomingMutation) {
            self.device = device
            self.key = key
            self.mutation = mutation
        }
    }

    package enum Outcome: Hashable, Sendable {
        case accepted(Accepted)
        /// Nothing changes: a person must decide these fields, or about ``wholeRecord``.
        case conflict(fields: [String])
        /// Nothing changes, and never will.
        case rejected(Problem)
    }

    package struct Accepted: Hashable, Sendable {
        /// The record as it is to be written; `nil` when there is nothing to write.
        package var record: VersionedRecord?
        /// Fields whose value is not what was sent.
        package var merged: [String] = []
        /// The stamp lay too far ahead and was taken as the hub's time.
        package var isClockClamped = false
        /// The device would compute the same from the version it had seen, provided nothing newer was there.
        package var isPlain = true
    }

    /// Stands for the deletion itself among the fields of a conflict.
    package static let wholeRecord = "$delete"

    /// - Parameters:
    ///   - record: `nil` when the hub never had it, or forgot its tombstone.
    ///   - commit: The commit number that the change gets, if it changes anything.
    ///   - now: The hub's wall time: a stamp more than ``HybridClock/aheadMax`` above it is taken as `now`.
    package static func apply(
        _ change: Change, to record: VersionedRecord?, rules: EntityRules, commit: Int64, now: Timestamp
    ) -> Outcome {
        var merge = Merge(change: change, rules: rules, commit: commit, now: now)
        if rules.kind == .reference { return .rejected(merge.forbidden) }
        if rules.kind == .event { return merge.event(record) }
        switch (change.mutation.content.action, record) {
        case (.create, let record?) where !record.isDeleted: return merge.createExisting(record)
        case (.create, let tombstone): return merge.create(over: tombstone)
        case (.update, let record?) where !record.isDeleted: return merge.fields(of: record)
        case (.update, let tombstone): return merge.updateDeleted(tombstone)
        case (.delete, let record?) where !record.isDeleted: return merge.delete(record)
        case (.delete, _): return .accepted(Accepted())
        }
    }
}

/// The state of one ``HubMerge/apply(_:to:rules:commit:now:)``.
private struct Merge {
    let change: HubMerge.Change
    let rules: EntityRules
    let now: Timestamp
    /// What a field gets that this change writes.
    let stamp: VersionedRecord.Stamp
    var accepted = HubMerge.Accepted()

    init(change: HubMerge.Change, rules: EntityRules, commit: Int64, now: Timestamp) {
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
        stamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: change.device)
    }

    var content: MutationContent { change.mutation.content }
    var base: Int64 { change.mutation.baseVersion }

    // MARK: Records that are there

    mutating func fields(of record: VersionedRecord, base: Int64? = nil) -> HubMerge.Outcome {
        let base = base ?? self.base
        var document = record.data ?? [:]
        var stamps = record.stamps
        var undecided: [String] = []
        for (name, value) in assignments {
            let field = name.text
            let present = document[field]
            let old = stamps[name]
            if present == value {
                // Nothing to decide and no news for others, so the field keeps its version. The later stamp stands for it.
                if let old { stamps[name] = .init(version: old.version, hlc: max(old.hlc, stamp.hlc), writer: stamp.writer) }
                continue
            }
            var result = value
            if let old, old.version > base, old.writer != change.device {
                let contest = FieldContest(
                    strategy: rules.strategy(of: field), localIsLater: isLater(than: old.hlc), signature: signature)
                switch contest.decide(local: value, remote: present) {
                case .local: break
                case .remote:
                    accepted.merged.append(field)
                    continue
                case .both(let united):
                    if united != value { accepted.merged.append(field) }
                    result = united
                case .undecided:
                    undecided.append(field)
                    continue
                }
            }
            document[field] = result
            stamps[name] = written(over: old)
        }
        guard undecided.isEmpty else { return .conflict(fields: undecided) }
        for operation in content.operations {
            let name = JSONString(operation.field)
            document[operation.field] = Fold.apply(operation, to: document[operation.field])
            stamps[name] = written(over: stamps[name])
        }
        if !accepted.merged.isEmpty { accepted.isPlain = false }
        return write(document, stamps)
    }

    /// A create of something that exists: by the same device and with the same content it is an old acquaintance under a
    /// new key (the key was lost with a restored database); otherwise both are brought together field by field, as if
    /// neither had known the other.
    mutating func createExisting(_ record: VersionedRecord) -> HubMerge.Outcome {
        let isOwn = record.stamps.values.allSatisfy { $0.writer == change.device }
        if isOwn, Fold.apply(content, to: nil) == record.data { return .accepted(accepted) }
        return fields(of: record, base: 0)
    }

    mutating func delete(_ record: VersionedRecord) -> HubMerge.Outcome {
        let changed = record.stamps.filter { $1.version > base && $1.writer != change.device }
        if changed.keys.contains(where: { rules.strategy(of: $0.text) == .manual }) {
            return .conflict(fields: [HubMerge.wholeRecord])
        }
        accepted.record = VersionedRecord(data: nil, stamp: stamp)
        return .accepted(accepted)
    }

    // MARK: Records that are gone

    /// A create over a tombstone is an undelete when the device knew of the deletion or deleted the record itself.
    mutating func create(over tombstone: VersionedRecord?) -> HubMerge.Outcome {
        if let tombstone, tombstone.version > base, tombstone.stamp.writer != change.device, rules.onDeleted != .updateWins {
            return isForPeople ? .conflict(fields: [HubMerge.wholeRecord]) : .rejected(deleted)
        }
        return write(Fold.apply(content, to: nil) ?? [:], [:])
    }

    mutating func updateDeleted(_ tombstone: VersionedRecord?) -> HubMerge.Outcome {
        guard rules.onDeleted == .updateWins else {
            return isForPeople ? .conflict(fields: [HubMerge.wholeRecord]) : .rejected(deleted)
        }
        // The hub has dropped the old document: the record comes back with what this change carries.
        accepted.isPlain = false
        return write(Fold.apply(content, to: [:]) ?? [:], [:])
    }

    /// A person decides about a deletion when the entity says so, and when a field is touched that only people decide.
    private var isForPeople: Bool {
        let touched = content.data.names + content.unset + content.operations.map(\.field)
        return rules.onDeleted == .manual || touched.contains { rules.strategy(of: $0) == .manual }
    }

    // MARK: Events

    mutating func event(_ record: VersionedRecord?) -> HubMerge.Outcome {
        let entity = change.mutation.record.entity
        guard content.action == .create else {
            return .rejected(
                Problem("validation", status: 422, detail: "\(entity) holds events: they are created, never changed or deleted"))
        }
        let document = Fold.apply(content, to: nil) ?? [:]
        guard let record else { return write(document, [:]) }
        if record.data == document { return .accepted(accepted) }
        return .rejected(
            Problem("validation", status: 422, detail: "\(change.mutation.record) exists with other content, and events are never merged"))
    }

    // MARK: Parts

    /// What is set and what is removed (`nil`). A name that is both ends up removed, as when folding.
    private var assignments: [(name: JSONString, value: JSON?)] {
        let removed = Set(content.unset.map { JSONString($0) })
        let set = content.data.members.filter { removed.isEmpty || !removed.contains($0.name) }
        return set.map { ($0.name, $0.value) } + content.unset.map { (JSONString($0), nil) }
    }

    private mutating func write(_ document: JSONObject, _ stamps: [JSONString: VersionedRecord.Stamp]) -> HubMerge.Outcome {
        accepted.record = VersionedRecord(data: document, stamp: stamp, exceptions: stamps)
        return .accepted(accepted)
    }

    /// A stamp never goes back: the value that it stands for was written with the earlier one in sight, or has beaten it.
    private func written(over old: VersionedRecord.Stamp?) -> VersionedRecord.Stamp {
        var new = stamp
        if let old { new.hlc = max(old.hlc, stamp.hlc) }
        return new
    }

    private func isLater(than other: HybridTime) -> Bool {
        change.mutation.clock != .unsynced && stamp.hlc > other
    }

    private var signature: FieldContest.Signature {
        .init(device: change.device, at: change.mutation.clientUpdatedAt ?? now, key: change.key)
    }

    var forbidden: Problem {
        Problem("forbidden", status: 403, detail: "\(change.mutation.record.entity) is reference data, which devices only read")
    }

    private var deleted: Problem {
        Problem("deleted", status: 410, detail: "\(change.mutation.record) does not exist any more")
    }
}
