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
