/// The report about fields that were merged and values that were discarded.
extension HubMerge.Pass {
    mutating func reportMerged(_ field: String) {
        if mergedNames.insert(JSONString(field)).inserted { accepted.merged.append(field) }
    }

    mutating func reportLoss(of field: String, value: JSON?, writtenBy stamp: VersionedRecord.Stamp) {
        var stamp = stamp
        stamp.members = nil
        let lost = LostValue(field: field, value: value, stamp: stamp)
        reportedLosses.insert(lost)
        accepted.lost.append(lost)
    }

    /// Reports what a contest discarded.
    ///
    /// - Parameters:
    ///   - old: The stamp of the former value; `nil`: its loss is not reported.
    ///   - additions: The stamps of the elements of a set, by key.
    mutating func reportLosses(
        _ losses: [FieldContest.Loss], writtenBy old: VersionedRecord.Stamp?, _ additions: [JSON: VersionedRecord.Stamp]
    ) {
        for loss in losses {
            switch loss.side {
            case .local: reportLoss(of: loss.field, value: loss.value, writtenBy: fieldStamp)
            case .remote:
                guard var its = loss.value.flatMap({ additions[SetElement.key($0)] }) ?? old else { continue }
                // The time of a member is known; its writer is known only for the whole field.
                if its.members != nil { its.hlc = its.memberTimes.time(of: loss.field) }
                reportLoss(of: loss.field, value: loss.value, writtenBy: its)
            }
        }
    }

    /// Reports a value that an operation removes or changes although its author had not seen it: an element of a set, or an absent value
    /// that the operation fills.
    ///
    /// The writer of an element is known from its addition. An element that has none (it predates the recorded additions, or came with a
    /// whole list under another rule) is as new as its field, unless the news in the field is an addition. A member may be older than its
    /// field, so only a recorded addition is reported for it.
    mutating func reportDisplaced(
        by operation: FieldOperation, wasNothing: Bool, in present: HubMerge.PresentField, since version: Int64
    ) {
        let field = operation.field
        let lost: LostValue
        if let element = present.displaced(by: operation) {
            var writer = present.stamp
            if let addition = present.additions[SetElement.key(element)], isNews(addition, since: version) {
                writer = addition
            } else if present.isNewByAddition || !operation.path.isEmpty || !isNews(present.stamp, since: version) {
                return
            }
            lost = LostValue(field: SetElement.place(of: element, in: field), value: element, stamp: writer)
        } else if present.isNothing, wasNothing, operation.path.isEmpty, isNews(present.stamp, since: version) {
            lost = LostValue(field: field, value: present.value, stamp: present.stamp)
        } else {
            return
        }
        // Two operations on one element remove it once.
        if reportedLosses.insert(lost).inserted { accepted.lost.append(lost) }
    }
}
