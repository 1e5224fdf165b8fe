import SyncCore

/// The stamps of fields as JSON: `{"notes":[90102,"0199c3f2a1b4-0007-9f2c11ab","gw-17"]}`. Optional parts follow: the author; the commits
/// up to which it includes, and has replaced, the values of other writers; the time of most members of an object that is merged, and the
/// times of the others by name. The stamps of additions are `{"tags":[["urgent",90102,…]]}`. NULL when there are none.
///
/// Commit numbers that a decision without the lock of the hub gives out are preliminary. They stand between two characters U+0001, which
/// JSON text does not contain, and the database writes the final ones in their places (``ColumnKind/stamps``).
enum StampColumn {
    /// - Parameter head: Commit numbers above it are preliminary; `nil`: none is.
    static func text(_ exceptions: [JSONString: VersionedRecord.Stamp], preliminaryAbove head: Int64? = nil) -> String? {
        if exceptions.isEmpty { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            for (field, stamp) in exceptions.sorted(by: { precedesInBytes($0.key.text, $1.key.text) }) {
                writer.name(field)
                writer.array { write(stamp, to: &$0, head) }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    static func text(_ additions: [JSONString: [JSON: VersionedRecord.Stamp]], preliminaryAbove head: Int64? = nil) -> String? {
        if additions.isEmpty { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            for (field, stamps) in additions.sorted(by: { precedesInBytes($0.key.text, $1.key.text) }) {
                writer.name(field)
                writer.array { writer in
                    for (element, stamp) in stamps.sorted(by: { $0.key.json < $1.key.json }) {
                        writer.array { writer in
                            writer.value(element)
                            write(stamp, to: &writer, head)
                        }
                    }
                }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static func write(_ stamp: VersionedRecord.Stamp, to writer: inout JSONWriter, _ head: Int64?) {
        func write(commit: Int64) {
            if let head, commit > head { writer.raw("\u{1}\(commit)\u{1}") } else { writer.int(commit) }
        }
        write(commit: stamp.version)
        writer.string(stamp.hlc.description)
        writer.string(stamp.writer.text)
        // Each part needs those before it; empty parts at the end are left out.
        let parts = stamp.members != nil || stamp.replaced > 0 ? 3 : stamp.foreign > 0 ? 2 : stamp.author != nil ? 1 : 0
        if parts > 0 { if let author = stamp.author { writer.string(author) } else { writer.null() } }
        if parts > 1 { write(commit: stamp.foreign) }
        if parts > 2 { write(commit: stamp.replaced) }
        guard let members = stamp.members else { return }
        writer.string(members.rest.description)
        writer.object { writer in
            for (place, time) in members.named.sorted(by: { precedesInBytes($0.key.text, $1.key.text) }) {
                writer.name(place)
                writer.string(time.description)
            }
        }
    }

    private static func members(_ parts: ArraySlice<JSON>) -> MemberTimes? {
        guard let rest = parts.first?.text.flatMap({ HybridTime($0) }), let named = parts.last?.object else { return nil }
        let times = named.members.compactMap { member in member.value.text.flatMap { HybridTime($0) }.map { (member.name, $0) } }
        return MemberTimes(rest: rest, named: Dictionary(times, uniquingKeysWith: { first, _ in first }))
    }

    static func exceptions(_ text: String) throws(RecordDamage) -> [JSONString: VersionedRecord.Stamp] {
        guard let object = try StoredColumn.json("exceptions", text).object else { throw RecordDamage("exceptions is no object") }
        var result: [JSONString: VersionedRecord.Stamp] = [:]
        for member in object.members {
            guard let stamp = stamp(member.value.array?[...] ?? []) else { throw RecordDamage("exceptions has no stamp for a field") }
            result[member.name] = stamp
        }
        return result
    }

    static func additions(_ text: String) throws(RecordDamage) -> [JSONString: [JSON: VersionedRecord.Stamp]] {
        guard let object = try StoredColumn.json("additions", text).object else { throw RecordDamage("additions is no object") }
        var result: [JSONString: [JSON: VersionedRecord.Stamp]] = [:]
        for member in object.members {
            for row in member.value.array ?? [] {
                guard let parts = row.array, let element = parts.first, let stamp = stamp(parts.dropFirst()) else {
                    throw RecordDamage("additions has no stamp for an element")
                }
                result[member.name, default: [:]][element] = stamp
            }
        }
        return result
    }

    private static func stamp(_ parts: ArraySlice<JSON>) -> VersionedRecord.Stamp? {
        let parts = Array(parts)
        guard parts.count >= 3, let version = parts[0].int, let hlc = parts[1].text.flatMap({ HybridTime($0) }),
            let writer = parts[2].text
        else { return nil }
        return .init(
            version: version, hlc: hlc, writer: DeviceID(trusted: writer),
            author: parts.count > 3 ? parts[3].text : nil, foreign: parts.count > 4 ? parts[4].int ?? 0 : 0,
            replaced: parts.count > 5 ? parts[5].int ?? 0 : 0, members: parts.count > 7 ? members(parts[6...7]) : nil)
    }
}

/// The error in a column of a record that cannot be read.
struct RecordDamage: Error, Hashable {
    var detail: String

    init(_ detail: String) {
        self.detail = detail
    }
}

enum StoredColumn {
    /// JSON that this hub checked before it stored it, read without the limits of input.
    static func json(_ column: String, _ text: String) throws(RecordDamage) -> JSON {
        do throws(JSONError) {
            return try JSONReader.read(text, limits: .stored)
        } catch {
            throw RecordDamage("\(column) is no JSON: \(error)")
        }
    }
}
