// Records that a hub stores and cannot read itself (PROTOCOL A3, A8).
//
// One damaged record must not keep a device from all others of its entity. But a device that gets a page without it treats it as deleted (a
// listing), or believes that it has its newest content (a feed). A page therefore leaves a damaged record out only if it can list it in
// `unreadable`, and only for a caller that sends `unreadable: named` and so understands it. The record then stays unchanged on the device,
// and is reported. Other callers get no page. A hub that supports this sends `unreadable` in its hello.
//
// No state is needed for later: a record that is published again has a new version and comes through the feed, a hub that is restored has a
// new history, and a record that was repaired by hand differs in the weekly comparison.
package enum UnreadableRecords {
    package static let capability = "unreadable"
    /// Value of the member and of the query parameter `unreadable`.
    static let named = "named"

    static func write(_ ids: [RecordID], to writer: inout JSONWriter) {
        guard !ids.isEmpty else { return }
        writer.name("unreadable")
        writer.array { writer in
            for id in ids { writer.string(id.text) }
        }
    }

    static func read(_ json: JSON?, _ place: String) throws(ReplyError) -> [RecordID] {
        var ids: [RecordID] = []
        for (index, json) in try ReplyReader.list(json, place).enumerated() {
            guard let id = json.text.flatMap({ RecordID($0) }) else { throw ReplyError("\(place)/\(index)", "a record id") }
            ids.append(id)
        }
        return ids
    }
}

/// The records of all entities that are known to be left out, for people.
package struct LeftOutRecords: Hashable, Sendable {
    private var ids: [EntityName: Set<RecordID>] = [:]
    private var count = 0
    /// Largest number of names; more would add no information.
    static let idsMax = 1_000

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// The stored form, `{"works":["w-1","w-7"]}`. An unreadable part counts as absent: the weekly comparison reports the records again.
    package var json: JSONObject {
        var object = JSONObject()
        for (entity, ids) in ids.sorted(by: { $0.key < $1.key }) { object[entity.text] = .array(ids.sorted().map { .string($0.text) }) }
        return object
    }

    package init(_ json: JSONObject) {
        for member in json.members {
            guard let entity = EntityName(member.name.text) else { continue }
            let known = (member.value.array ?? []).compactMap { $0.text.flatMap { RecordID($0) } }
            _ = replace(entity, Set(known))
        }
    }

    /// Forgets the records of entities that are not synced any more.
    ///
    /// - Returns: `true` when something has changed.
    package mutating func keep(only entities: Set<EntityName>) -> Bool {
        let gone = ids.keys.filter { !entities.contains($0) }
        for entity in gone { _ = replace(entity, []) }
        return !gone.isEmpty
    }

    /// A text for people: `2 of works (w-1, w-7), 1 of sites (s-2)`.
    package var sentence: String {
        ids.sorted { $0.key < $1.key }.map { entity, ids in
            let shown = ids.sorted().prefix(8).map(\.text).joined(separator: ", ")
            return "\(ids.count) of \(entity) (\(shown)\(ids.count > 8 ? ", …" : ""))"
        }.joined(separator: ", ")
    }

    /// Records the result of reading a section of the feed.
    ///
    /// - Returns: `true` when something has changed.
    package mutating func record(_ page: StreamPage) -> Bool {
        var known = ids[page.entity] ?? []
        guard !known.isEmpty || !page.unreadable.isEmpty else { return false }
        for item in page.records { known.remove(item.id) }
        for item in page.deletions { known.remove(item.id) }
        return replace(page.entity, known.union(page.unreadable))
    }

    /// Records a page of a listing: within its range, only the records that it names are left out.
    ///
    /// - Parameters:
    ///   - before: The last id of the page before this one.
    ///   - buckets: The requested buckets; `nil` means all.
    /// - Returns: `true` when something has changed.
    package mutating func record(_ page: SnapshotPage, after before: RecordID?, only buckets: [UInt8]?) -> Bool {
        let known = ids[page.entity] ?? []
        guard !known.isEmpty || !page.unreadable.isEmpty else { return false }
        let end = page.hasMore ? page.after : nil
        let elsewhere = known.filter { id in
            before.map { id <= $0 } ?? false || end.map { id > $0 } ?? false
                || buckets.map { !$0.contains(EntityDigest.bucket(of: id)) } ?? false
        }
        return replace(page.entity, elsewhere.union(page.unreadable))
    }

    private mutating func replace(_ entity: EntityName, _ new: Set<RecordID>) -> Bool {
        let old = ids[entity] ?? []
        let new = Set(new.sorted().prefix(Self.idsMax - (count - old.count)))
        guard new != old else { return false }
        ids[entity] = new.isEmpty ? nil : new
        count += new.count - old.count
        return true
    }
}
