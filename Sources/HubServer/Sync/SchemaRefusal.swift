import SyncCore

extension EntityRules {
    /// The schema by which the hub judges changes; `nil` when there is none, or when it was switched off.
    var enforcedSchema: DocumentSchema? { validation == .off ? nil : schema }
}

/// The refusal of a change that breaks the schema of its entity (PROTOCOL A12).
enum SchemaRefusal {
    /// - Parameter besideOthers: The device had not seen the record that its change was merged with. Its change may be right alone, so the
    ///   text says that the record has changed.
    /// - Returns: `nil` when there is no fault.
    static func problem(_ faults: [Problem.Pointer], of record: RecordName, besideOthers: Bool = false) -> Problem? {
        guard let first = faults.first else { return nil }
        let others = besideOthers ? "; the record at the hub is newer than the one that the change was made on" : ""
        return Problem("validation", status: 422, detail: "\(record): \(first.pointer) \(first.detail)\(others)", errors: faults)
    }
}
