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
        /// Who that was, if the app said.
        package var author: String?
        /// The value holds what others wrote as well, up to this commit, and the writer had not seen that: whoever has seen
        /// less finds news in it, the writer too. 0 when it is the writer's alone.
        package var foreign: Int64
        /// The value took the place of what others wrote, up to this commit, and the writer had not seen that. It is the writer's
        /// alone all the same, but a deletion by the writer has not seen everything either. 0 when there was no such thing.
        package var replaced: Int64
        /// Of an object under `merge`; `nil`: all its members were written with the field.
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

        /// Whether a device that had seen `base` does not know what was written with this stamp. What it wrote itself is no
        /// news, whatever its `base` says: mutations of one record arrive in the order in which their device made them.
        func isNews(to device: DeviceID, since base: Int64) -> Bool {
            // A base of another history is below zero, and a value that is the writer's alone holds no news for it then either.
            version > base && (writer != device || foreign > max(0, base))
        }

        /// The same for what does away with the field: what the device itself has put in the place of others' values counts as well.
        func isUnseen(by device: DeviceID, since base: Int64) -> Bool {
            isNews(to: device, since: base) || (version > base && replaced > max(0, base))
        }

        package var memberTimes: MemberTimes {
            get { members ?? MemberTimes(rest: hlc) }
            set { members = newValue.shortened(of: hlc) }
        }

        /// The commit up to which a value that `device` merges with this one holds what others wrote.
        func others(than device: DeviceID) -> Int64 { writer == device ? foreign : version }
    }

    /// What a tombstone keeps of its record.
    package struct Kept: Hashable, Sendable {
        package var data: JSONObject
        /// Of all fields that have one, those that were removed included: the tombstone's own stamp is the deletion's.
        package var stamps: [JSONString: Stamp]
        package var additions: [JSONString: [JSON: Stamp]]

        package init(data: JSONObject, stamps: [JSONString: Stamp], additions: [JSONString: [JSON: Stamp]] = [:]) {
            self.data = data
            self.stamps = stamps
            self.additions = additions
        }
    }

    /// `nil` for a deleted record (its tombstone).
    package private(set) var data: JSONObject?
    /// The record's last change.
    package private(set) var stamp: Stamp
    /// Fields whose stamp differs from `stamp`, and fields that were removed. The keys are `JSONString`, because `String`
    /// would take two names for one that differ only in their Unicode normalisation.
    package private(set) var exceptions: [JSONString: Stamp]
    /// By field: elements of its set that an operation put in, and when. They tell an addition that a removal had not seen.
    package private(set) var additions: [JSONString: [JSON: Stamp]]
    /// The document of a deleted record, where a change that had not seen the deletion may bring it back.
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

    /// A tombstone.
    package init(deleted stamp: Stamp, keeping kept: Kept?) {
        self.init(data: nil, stamp: stamp)
        self.kept = kept
    }

    /// The tombstone of a record, as the rules of its entity want it.
    package func deleted(_ stamp: Stamp, rules: EntityRules) -> VersionedRecord {
        let kept = data.map { Kept(data: $0, stamps: stamps, additions: additions) }
        return VersionedRecord(deleted: stamp, keeping: rules.keepsDeleted ? kept : nil)
    }

    /// The record as it was when it was deleted; `nil` where nothing was kept of it.
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

    /// As devices see it. Only fields whose stamp differs from the record's are listed.
    ///
    /// - Parameter named: Fields of which it is told who wrote them last, where that is not who wrote the record last.
    /// - Returns: `nil` for a tombstone.
    package func hubRecord(naming named: (String) -> Bool = { _ in false }) -> HubRecord? {
        guard let data else { return nil }
        var fields: JSONObject = [:]
        var origins: JSONObject = [:]
        let exceptions = exceptions.sorted { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }
        for (name, its) in exceptions {
            let field = name.text
            if its.hlc != stamp.hlc { fields[field] = .string(its.hlc.description) }
            if (its.writer, its.author) != (stamp.writer, stamp.author), named(field) { origins[field] = its.origin }
        }
        return HubRecord(
            version: stamp.version, data: data, hlc: stamp.hlc.description, fieldHLC: fields.isEmpty ? nil : fields,
            fieldOrigins: origins.isEmpty ? nil : origins)
    }

    package var hubState: HubState {
        hubRecord().map { .record($0) } ?? .deleted(version: stamp.version)
    }

    /// The same for a conflict over these fields: with the writers of all of them.
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
    /// Stands for the hub among those who write: its back office, and the files that have arrived.
    package static var hub: DeviceID { DeviceID(trusted: "hub") }
}
