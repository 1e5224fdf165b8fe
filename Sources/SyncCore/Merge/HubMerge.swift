/// Applies one mutation to the hub's record (PROTOCOL A4 step 4, D1, D2, D4). No other part of the hub decides about content.
///
/// A field is *contested* when three conditions hold: it changed in a commit that the device had not seen, the two values differ, and the
/// present value is not just what the device itself wrote before. The third condition loses nothing: the mutations of one record arrive in
/// the order in which their device made them, so a device's own value is never news to it, whatever its `base_version` says. The result of
/// a merge is news (``VersionedRecord/Stamp/foreign``); otherwise a second change would undo the merge.
///
/// The strategy of the field decides a contest; everything else applies as sent. Operations commute and always apply. In a set, an addition
/// beats a removal that had not seen it, so the order of arrival does not matter. A list that is written whole adds each element that is
/// new in it.
///
/// A change carries its *base*, which is what its author had seen: `base_version`, the version of the record on the device, and `base`, the
/// values there of some fields (``MutationContent/base``).
///
/// One ``Pass`` merges one change. Its extensions are, by subject, the set and removed values, the operations, the deletions, the stamps
/// (who wrote a value last), the losses (what is reported as discarded) and the draft (the record that is written).
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
        if rules.kind == .reference { return .rejected(readOnly(change.mutation.record.entity)) }
        var pass = Pass(change: change, rules: rules, commit: commit, now: now, ablations: ablations)
        if rules.kind == .event { return pass.createEvent(over: record) }
        switch (change.mutation.content.action, record) {
        case (.create, let record?) where !record.isDeleted: return pass.createExisting(record)
        case (.create, let tombstone): return pass.create(over: tombstone)
        case (.update, let record?) where !record.isDeleted: return pass.merge(into: record)
        case (.update, let tombstone): return pass.updateDeleted(tombstone)
        case (.delete, let record?) where !record.isDeleted: return pass.delete(record)
        case (.delete, nil) where change.mutation.baseVersion == 0: return pass.deleteUnknown()
        case (.delete, _): return .accepted(Accepted())
        }
    }

    /// The record is gone and its entity lets deletions win. The values of the change stay in the agent's list of rejections.
    package static func deleted(_ record: RecordName) -> Problem {
        Problem("deleted", status: 410, detail: "\(record) does not exist any more")
    }

    private static func readOnly(_ entity: EntityName) -> Problem {
        Problem("forbidden", status: 403, detail: "\(entity) is reference data, which devices only read")
    }
}
