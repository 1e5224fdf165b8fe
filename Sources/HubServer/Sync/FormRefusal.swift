import SyncCore

/// The refusal of a change that the form of its record does not allow (PROTOCOL A12).
///
/// A form judges also where it is outside of the share of the device: the record was begun when it was inside. A form that is not here
/// judges nothing: its author has taken it away, and the work of a device is not lost for that.
enum FormRefusal {
    /// - Returns: `nil` when there is no fault.
    static func problem(_ verdict: FormVerdict, of record: RecordName, besideOthers: Bool) -> Problem? {
        SchemaRefusal.problem(verdict.all, of: record, besideOthers: besideOthers)
    }

    /// The record of a form, as it is after the changes of the batch so far.
    static func source(_ record: VersionedRecord?) -> FormCache.Source? {
        guard let record, let data = record.data else { return nil }
        return FormCache.Source(mark: "\(record.version) \(record.stamp)") { data }
    }
}
