/// Deletions, and changes of deleted records (PROTOCOL D4).
extension HubMerge.Pass {
    /// Unseen changes of other devices decide about the deletion as they would if they came after it (``updateDeleted(_:)``).
    mutating func delete(_ record: VersionedRecord) -> HubMerge.Outcome {
        let changed = record.stamps.filter { name, its in
            its.isUnseen(by: change.device, since: seenVersion) && !isArrival(of: record.data?[name.text], its)
        }
        // A change that left all fields as they were counts as well.
        let isTouched = record.stamp.writer != .hub && record.stamp.isNews(to: change.device, since: seenVersion)
        if !changed.isEmpty || isTouched {
            switch rules.afterDeletion(changing: changed.keys.map(\.text)) {
            case .undecided: return .conflict(fields: [HubMerge.wholeRecord])
            case .comesBack where ablations.contains(.unseenDeletionWins): break
            case .comesBack where ablations.contains(.givingWayUntold): return .accepted(accepted)
            case .comesBack:
                accepted.isPlain = false
                reportMerged(HubMerge.wholeRecord)
                var gone = fieldStamp
                gone.version = record.version
                reportLoss(of: HubMerge.wholeRecord, value: nil, writtenBy: gone)
                return .accepted(accepted)
            case .rejected: break
            }
        }
        for member in record.data?.members ?? [] {
            if let its = changed[member.name], its.isNews(to: change.device, since: seenVersion) {
                reportLoss(of: member.name.text, value: member.value, writtenBy: its)
            }
        }
        accepted.record = record.deleted(fieldStamp, rules: rules)
        return .accepted(accepted)
    }

    /// Handles the deletion of a record that the device made and deleted before the record was ever sent. Devices that create a record with
    /// the same id have not seen the deletion, as if both had been sent.
    mutating func deleteUnknown() -> HubMerge.Outcome {
        accepted.record = VersionedRecord(deleted: fieldStamp, keeping: nil)
        return .accepted(accepted)
    }

    /// A create over a tombstone makes the record anew when the device knew of the deletion or deleted the record itself. A create that
    /// carries what its author had seen of the record is an update that brings it back. A create that knew nothing of a deletion that gives
    /// way counts as the same. Both of these are merged with what the tombstone has kept.
    mutating func create(over tombstone: VersionedRecord?) -> HubMerge.Outcome {
        let isUnseen = tombstone?.stamp.isNews(to: change.device, since: seenVersion) ?? false
        if isUnseen {
            switch rules.afterDeletion(changing: content.fields) {
            case .undecided: return .conflict(fields: [HubMerge.wholeRecord])
            case .rejected: return .rejected(HubMerge.deleted(change.mutation.record))
            case .comesBack: break
            }
        }
        let bringsBack = isUnseen || !content.base.isEmpty
        if let tombstone, bringsBack {
            reportLostDeletion(tombstone)
            if let record = tombstone.beforeDeletion { return bringBack(record) }
        }
        if let misfit = misfitOfCreate { return .rejected(misfit) }
        return write(newRecord(on: nil))
    }

    mutating func updateDeleted(_ tombstone: VersionedRecord?) -> HubMerge.Outcome {
        switch rules.afterDeletion(changing: content.fields) {
        case .undecided: return .conflict(fields: [HubMerge.wholeRecord])
        case .rejected: return .rejected(HubMerge.deleted(change.mutation.record))
        case .comesBack:
            if let tombstone { reportLostDeletion(tombstone) }
            accepted.isPlain = false
            if let record = tombstone?.beforeDeletion, !ablations.contains(.deletedForgotten) {
                let outcome = merge(into: record)
                // No fields of a deleted record can be shown, so the person decides about the whole record.
                if case .conflict = outcome { return .conflict(fields: [HubMerge.wholeRecord]) }
                return outcome
            }
            // The document is not kept: the record comes back with the content of this change.
            if let misfit = misfitOfCreate { return .rejected(misfit) }
            reportMerged(HubMerge.restOfRecord)
            reportLoss(of: HubMerge.restOfRecord, value: nil, writtenBy: tombstone?.stamp ?? fieldStamp)
            return write(newRecord(on: [:]))
        }
    }

    /// Merges a create with what a tombstone has kept.
    private mutating func bringBack(_ record: VersionedRecord) -> HubMerge.Outcome {
        accepted.isPlain = false
        var pass = self
        let outcome = pass.merge(into: record, isBlind: true)
        // The author has decided against the deletion, and the deleted values cannot be shown for a decision. The create wins; the loss is
        // reported.
        if case .conflict(let fields) = outcome {
            pass = self
            pass.rules.overrule(fields)
            defer { self = pass }
            return pass.merge(into: record, isBlind: true)
        }
        self = pass
        return outcome
    }

    /// Returns whether the hub itself wrote the value because the bytes of a file have arrived. That is no change by a device.
    private func isArrival(of value: JSON?, _ stamp: VersionedRecord.Stamp) -> Bool {
        stamp.writer == .hub && value.map { Placeholder.isArrived(in: $0) } ?? false
    }

    private mutating func reportLostDeletion(_ tombstone: VersionedRecord) {
        reportLoss(of: HubMerge.wholeRecord, value: nil, writtenBy: tombstone.stamp)
    }
}
