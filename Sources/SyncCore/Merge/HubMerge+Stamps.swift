/// The last writer of a value, and whether the author of the change had seen that value.
extension HubMerge.Pass {
    /// The stamp of a part of the change.
    ///
    /// - Parameter hlc: `nil` for a part that was made together with the whole.
    func stamp(at hlc: HybridTime?) -> VersionedRecord.Stamp {
        var stamp = changeStamp
        if let hlc { stamp.hlc = hlc }
        return stamp
    }

    func isNews(_ old: VersionedRecord.Stamp?, since version: Int64) -> Bool {
        guard let old else { return false }
        if ablations.contains(.mergeForgotten), old.writer == change.device { return false }
        return old.isNews(to: change.device, since: version)
    }

    func isLater(than other: HybridTime) -> Bool { isTimed && fieldStamp.hlc > other }

    /// The new stamp of a field. A stamp never goes back: its value was written with the earlier one in sight, or has beaten it.
    func written(over old: VersionedRecord.Stamp?, isMerged: Bool = false) -> VersionedRecord.Stamp {
        var new = fieldStamp
        if isMerged, let old { new.foreign = old.others(than: change.device) }
        if let old {
            new.hlc = max(old.hlc, fieldStamp.hlc)
            let others = old.writer == change.device ? old.replaced : old.version
            new.replaced = others > seenVersion ? others : 0
        }
        return new
    }

    /// The stamp of a value that was written again by an author who had not seen the present one. The later of the two writes counts as the
    /// writer, and the write of the other is news to each device that has not seen it.
    func writtenAgain(over old: VersionedRecord.Stamp?, since version: Int64) -> VersionedRecord.Stamp? {
        // The removal of an absent field counts as a write as well.
        guard var old else { return fieldStamp }
        let isNews = isNews(old, since: version)
        guard isNews, !isLater(than: old.hlc) else { return written(over: old, isMerged: isNews) }
        old.version = fieldStamp.version
        if old.writer != change.device { old.foreign = fieldStamp.version }
        return old
    }

    // MARK: Members

    /// The member times of a field that this change writes.
    func memberTimes(of field: JSONString) -> MemberTimes { MemberTimes(rest: fieldStamp.hlc, named: memberStamps[field] ?? [:]) }

    /// Updates the member times of a field. Members that this change has written get the later of their old and their new time; the others
    /// keep theirs.
    ///
    /// - Parameter stamps: The stamps of all fields, with the field's new one.
    func updateMemberTimes(
        of field: JSONString, written: [String], over old: VersionedRecord.Stamp?, _ stamps: inout [JSONString: VersionedRecord.Stamp]
    ) {
        let mine = memberTimes(of: field)
        var times = old?.memberTimes ?? mine
        for place in written { times.write(place, at: mine.time(of: place)) }
        stamps[field]?.memberTimes = times
    }
}
