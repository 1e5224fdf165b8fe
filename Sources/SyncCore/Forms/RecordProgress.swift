/// The progress of a record by its form, as the mirror has both.
package struct RecordProgress: Hashable, Sendable {
    package enum Found: Hashable, Sendable {
        /// The record names no form, or its entity has none.
        case unnamed
        case judged(FormSettings.Name, FormProgress)
        /// - Parameter reason: A sentence for people.
        case unjudged(FormSettings.Name, FormVerdict.Unjudged, reason: String)
    }

    package var record: RecordName
    /// `false`: the record exists, and its document is not kept on this device.
    package var isKept = true
    /// The record says that it is complete (``CompleteRule``).
    package var saysComplete = false
    package var found = Found.unnamed

    package init(record: RecordName) {
        self.record = record
    }
}
