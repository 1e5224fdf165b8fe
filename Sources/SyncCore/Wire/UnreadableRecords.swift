// Records that a hub has and cannot read itself (PROTOCOL A3, A8).
//
// One damaged record must not keep a device from all others of its entity. But a device that is shown a page without it takes
// it for deleted (a listing), or believes that it has its newest content (a feed). So a page leaves a damaged record out only
// where it can say so, in `unreadable`, and only for who asks with `unreadable: named` and so knows what that means: the record
// stays as it is on the device, and is told. Whoever does not ask gets no page, as ever. A hub that can do so says
// `unreadable` in its hello.
//
// Nothing has to be remembered for the time after: a record that is published anew has a new version and comes through the
// feed, a hub that is restored has a new history, and what was mended by hand differs in the weekly comparison.
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

/// What is known to be left out, of all entities: for people.
package struct LeftOutRecords: Hashable, Sendable {
    private var ids: [EntityName: Set<RecordID>] = [:]
    private var count = 0
    /// More names would say nothing new.
    static let idsMax = 1_000

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// As it is kept, `{"works":["w-1","w-7"]}`. What does not read there is none: the weekly comparison tells of it again.
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

    /// Forgets what is of entities that are not read any more.
    ///
    /// - Returns: Whether something is known otherwise than before.
    package mutating func keep(only entities: Set<EntityName>) -> Bool {
        let gone = ids.keys.filter { !entities.contains($0) }
        for entity in gone { _ = replace(entity, []) }
        return !gone.isEmpty
    }

    /// For people: `2 of works (w-1, w-7), 1 of sites (s-2)`.
    package var sentence: String {
        ids.sorted { $0.key < $1.key }.map { entity, ids in
            let shown = ids.sorted().prefix(8).map(\.text).joined(separator: ", ")
            return "\(ids.count) of \(entity) (\(shown)\(ids.count > 8 ? ", …" : ""))"
        }.joined(separator: ", ")
    }

    /// A stretch of the feed was read.
    ///
    /// - Returns: Whether something is known otherwise than before.
    package mutating func note(_ page: StreamPage) -> Bool {
        var known = ids[page.entity] ?? []
        guard !known.isEmpty || !page.unreadable.isEmpty else { return false }
        for item in page.records { known.remove(item.id) }
        for item in page.deletions { known.remove(item.id) }
        return replace(page.entity, known.union(page.unreadable))
    }

    /// A page of a listing was read: of its stretch, only what it names is left out.
    ///
    /// - Parameters:
    ///   - before: The last id of the page before this one.
    ///   - buckets: Those that were asked for; `nil` means all.
    /// - Returns: Whether something is known otherwise than before.
    package mutating func note(_ page: SnapshotPage, after before: RecordID?, only buckets: [UInt8]?) -> Bool {
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
