/// A record of the hub with the facts that merging needs: the last writer, time and commit of each field.
///
/// Most fields of most records were last written together with the record, so only the exceptions are kept. An absent field has a stamp
/// only if it was removed; a field that never existed has none.
package struct VersionedRecord: Hashable, Sendable {
    package struct Stamp: Hashable, Sendable {
        /// The commit number of the change.
        package var version: Int64
        /// Orders `lww` contests. The milliseconds are zero for a writer whose clock was not trusted, so it loses every contest.
        package var hlc: HybridTime
        package var writer: DeviceID
        /// The person or app that wrote it, if the app said so.
        package var author: String?
        /// Last commit of another device whose values are part of this value and that the writer had not seen; 0 when the value is the
        /// writer's alone. It is news to every device with an older base, the writer included.
        package var foreign: Int64
        /// Last commit of another device whose value this one replaced and that the writer had not seen; 0 when there is none. The value is
        /// the writer's alone, but a deletion by the writer has not seen everything either.
        package var replaced: Int64
        /// Member times of an object under `merge`; `nil`: all its members were written with the field.
        package var members: MemberTimes?

        package init(
            version: Int64, hlc: HybridTime, writer: DeviceID, author: String? = nil, foreign: Int64 = 0, replaced: Int64 = 0,
            members: MemberTimes? = nil
        ) {
            self.replaced = replaced
            self.members = members
            self.version = version
            self.hlc = hlc
            self.writer = writer
            self.author = author
            self.foreign = foreign
        }

        /// Returns whether a device that had seen `base` does not know what was written with this stamp. A device's own write is no news to
        /// it, whatever its `base` says: mutations of one record arrive in the order in which their device made them.
        func isNews(to device: DeviceID, since base: Int64) -> Bool {
            // The base of another history is below zero. A value that is the writer's alone is no news to the writer in that case either.
            version > base && (writer != device || foreign > max(0, base))
        }

        /// The same test for a change that removes the field: values of others that the device itself has replaced count as well.
        func isUnseen(by device: DeviceID, since base: Int64) -> Bool {
            isNews(to: device, since: base) || (version > base && replaced > max(0, base))
        }

        package var memberTimes: MemberTimes {
            get { members ?? MemberTimes(rest: hlc) }
            set { members = newValue.shortened(of: hlc) }
        }

        /// Last commit of others that goes into a value which `device` merges with this one.
        func others(than device: DeviceID) -> Int64 { writer == device ? foreign : version }
    }

    /// The content that a tombstone keeps of its record.
    package struct Kept: Hashable, Sendable {
        package var data: JSONObject
        /// Stamps of all fields that have one, removed fields included. The tombstone's own stamp is that of the deletion.
        package var stamps: [JSONString: Stamp]
        package var additions: [JSONString: [JSON: Stamp]]

        package init(data: JSONObject, stamps: [JSONString: Stamp], additions: [JSONString: [JSON: Stamp]] = [:]) {
            self.data = data
            self.stamps = stamps
            self.additions = additions
        }
    }

    /// The document; `nil` for a deleted record (its tombstone).
    package private(set) var data: JSONObject?
    /// The stamp of the record's last change.
    package private(set) var stamp: Stamp
    /// Stamps of fields that differ from `stamp`, and of fields that were removed. The keys are `JSONString`, because `String` treats two
    /// names as equal that differ only in their Unicode normalisation.
    package private(set) var exceptions: [JSONString: Stamp]
    /// Elements that operations added to sets, with their stamps, by field. They reveal an addition that a removal had not seen.
    package private(set) var additions: [JSONString: [JSON: Stamp]]
    /// The content of a deleted record, where a change that had not seen the deletion may bring it back.
    package private(set) var kept: Kept?

    // Invariant: a tombstone has no exceptions; an exception of a field that the document has differs from `stamp`.
    package init(
        data: JSONObject?, stamp: Stamp, exceptions: [JSONString: Stamp] = [:], additions: [JSONString: [JSON: Stamp]] = [:]
    ) {
        self.data = data
        self.stamp = stamp
        self.exceptions = data == nil ? [:] : exceptions.filter { $1 != stamp || data?[$0.text] == nil }
        self.additions = data == nil ? [:] : additions.filter { !$1.isEmpty }
    }

    /// Makes a tombstone.
    package init(deleted stamp: Stamp, keeping kept: Kept?) {
        self.init(data: nil, stamp: stamp)
        self.kept = kept
    }

    /// The tombstone of the record under the rules of its entity.
    package func deleted(_ stamp: Stamp, rules: EntityRules) -> VersionedRecord {
        let kept = data.map { Kept(data: $0, stamps: stamps, additions: additions) }
        return VersionedRecord(deleted: stamp, keeping: rules.keepsDeleted ? kept : nil)
    }

    /// The record as it was when it was deleted; `nil` where nothing was kept.
    package var beforeDeletion: VersionedRecord? {
        kept.map { VersionedRecord(data: $0.data, stamp: stamp, exceptions: $0.stamps, additions: $0.additions) }
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

    /// The record as devices see it. The stamps of fields are listed where they differ from the record's, and of removed fields always:
    /// without a stamp a device takes an absent field for one that was never written.
    ///
    /// - Parameter named: Selects the fields whose last writer is named, where that differs from the record's last writer.
    /// - Returns: `nil` for a tombstone.
    package func hubRecord(naming named: (String) -> Bool = { _ in false }) -> HubRecord? {
        guard let data else { return nil }
        var fields: JSONObject = [:]
        var origins: JSONObject = [:]
        let exceptions = exceptions.sorted { precedesInBytes($0.key.text, $1.key.text) }
        for (name, its) in exceptions {
            let field = name.text
            if its.hlc != stamp.hlc || data[field] == nil { fields[field] = .string(its.hlc.description) }
            if (its.writer, its.author) != (stamp.writer, stamp.author), named(field) { origins[field] = its.origin }
        }
        return HubRecord(
            version: stamp.version, data: data, hlc: stamp.hlc.description, fieldHLC: fields.isEmpty ? nil : fields,
            fieldOrigins: origins.isEmpty ? nil : origins)
    }

    package var hubState: HubState {
        hubRecord().map { .record($0) } ?? .deleted(version: stamp.version)
    }

    /// The same state for a conflict over these fields, with the writers of all of them.
    package func hubState(disputing fields: [String]) -> HubState {
        guard var record = hubRecord() else { return .deleted(version: stamp.version) }
        var origins: JSONObject = [:]
        for field in fields { origins[field] = stamp(of: field)?.origin }
        if fields.contains(HubMerge.wholeRecord) { origins[HubMerge.wholeRecord] = stamp.origin }
        record.fieldOrigins = origins.isEmpty ? nil : origins
        return .record(record)
    }
}

extension VersionedRecord.Stamp {
    /// `{"device":"gw-3","author":"tom"}`
    var origin: JSON {
        var object: JSONObject = ["device": .string(writer.text)]
        if let author { object["author"] = .string(author) }
        return .object(object)
    }
}

extension DeviceID {
    /// Stands for the hub as a writer: for its back office, and for files that have arrived.
    package static var hub: DeviceID { DeviceID(trusted: "hub") }
}
