/// A record of the hub with what merging needs: who changed which field last, when, and in which commit.
///
/// Most fields of most records were last written together with the record, so only the exceptions are kept. A field that
/// the document lacks has a stamp only when it was removed; one that never existed has none.
package struct VersionedRecord: Hashable, Sendable {
    package struct Stamp: Hashable, Sendable {
        /// The commit number of the change.
        package var version: Int64
        /// Orders `lww` contests. Zero milliseconds for a writer whose clock was not trusted: it loses every contest.
        package var hlc: HybridTime
        package var writer: DeviceID

        package init(version: Int64, hlc: HybridTime, writer: DeviceID) {
            self.version = version
            self.hlc = hlc
            self.writer = writer
        }
    }

    /// `nil` for a deleted record (its tombstone).
    package private(set) var data: JSONObject?
    /// The record's last change.
    package private(set) var stamp: Stamp
    /// Fields whose stamp differs from `stamp`, and fields that were removed. The keys are `JSONString`, because `String`
    /// would take two names for one that differ only in their Unicode normalisation.
    package private(set) var exceptions: [JSONString: Stamp]

    // Invariant: a tombstone has no exceptions; an exception of a field that the document has differs from `stamp`.
    package init(data: JSONObject?, stamp: Stamp, exceptions: [JSONString: Stamp] = [:]) {
        self.data = data
        self.stamp = stamp
        self.exceptions = data == nil ? [:] : exceptions.filter { $1 != stamp || data?[$0.text] == nil }
    }

    package var version: Int64 { stamp.version }
    package var isDeleted: Bool { data == nil }

    /// - Returns: `nil` for a field that never existed, and for every field of a tombstone.
    package func stamp(of field: String) -> Stamp? {
        exceptions[JSONString(field)] ?? (data?[field] == nil ? nil : stamp)
    }

    /// The stamps of all fields that have one.
    package var stamps: [JSONString: Stamp] {
        var all = exceptions
        for member in data?.members ?? [] where all[member.name] == nil { all[member.name] = stamp }
        return all
    }

    /// As devices see it. Only fields whose stamp differs from the record's are listed.
    ///
    /// - Returns: `nil` for a tombstone.
    package var hubRecord: HubRecord? {
        guard let data else { return nil }
        var fields: JSONObject = [:]
        let exceptions = exceptions.sorted { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }
        for (field, its) in exceptions where its.hlc != stamp.hlc {
            fields[field.text] = .string(its.hlc.description)
        }
        return HubRecord(
            version: stamp.version, data: data, hlc: stamp.hlc.description, fieldHLC: fields.isEmpty ? nil : fields)
    }

    package var hubState: HubState {
        hubRecord.map { .record($0) } ?? .deleted(version: stamp.version)
    }
}
