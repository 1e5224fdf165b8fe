import SyncCore

/// The values that fields of records must have. They are computed from the accepted mutations alone: the writer of each value, and the
/// knowledge of each device that removed one. It shares no code with the merge.
///
/// - `tags`, a set: an element is there if no later removal had seen one of its additions.
/// - `parts`, the same as a set of objects with an id.
/// - `txt`, a text: it holds every word, except those that a device overwrote after it had seen them.
/// - `o`, an object that is merged: a member that only one device ever wrote holds what that device wrote last.
/// - `p`, a maximum: the greatest value that was sent since the record was created; `q`, a minimum: the same below zero.
/// - `m`, a manual field: no device overwrites a value that it had not seen.
struct ValueOracle {
    private struct Written {
        var version: Int64
        var device: Int
    }

    private struct Record {
        var tags: [String: [Written]] = [:]
        var words: [String: Written] = [:]
        var members: [String: (device: Int, value: JSON)] = [:]
        /// Members that stamps have decided. Their values are not followed, because the stamps belong to the whole field.
        var contested: Set<String> = []
        var peak: Int64?
        /// The newest version that each device has built on. A device that continues from its own later write has seen that version, too.
        var seen: [Int: Int64] = [:]
        /// Versions of `m`, newest last; `nil` for no value.
        var disputed: [(version: Int64, device: Int, value: JSON?)] = []
    }

    private var records: [RecordName: Record] = [:]
    /// Deleted records as of their deletion.
    private var gone: [RecordName: Record] = [:]
    /// Every past value of `m` with its version; `nil` for no value.
    private(set) var history: [RecordName: [(version: Int64, value: JSON?)]] = [:]

    /// - Parameters:
    ///   - device: The author as the hub knows it. Two databases under one name are one device.
    ///   - members: Members of `o` that only this device writes, and those that its app undoes by a repeated request.
    ///   - existed: The hub held the record before.
    ///   - sight: The text that the author saw. In a history that began later, the base does not contain it.
    mutating func apply(
        _ mutation: IncomingMutation, version: Int64, from device: Int, members own: Set<String>, existed: Bool, inSightOf sight: String
    ) throws(Broken) {
        let name = mutation.record
        let content = mutation.content
        if content.action == .delete {
            if let record = records.removeValue(forKey: name) { gone[name] = record }
            return
        }
        // A create does not know the present record.
        let base = content.action == .create ? 0 : mutation.baseVersion
        var record = existed ? records[name] ?? Record() : Record()
        func isSeen(_ written: Written) -> Bool { written.device == device || written.version <= base }
        /// A create may restore a value unchanged. It does not count if another device has created the record anew with its own value.
        func isBroughtBack(_ field: String) -> Bool {
            existed && content.action == .create && content.base[field] == content.data[field]
        }
        if let text = content.data["txt"]?.text {
            let words = Self.words(in: text), seen = Self.words(in: sight)
            let known = record.seen[device] ?? 0
            for (word, written) in record.words where !words.contains(word) {
                if isSeen(written) || written.version <= known || seen.contains(word) { record.words[word] = nil }
            }
            // The same holds for words: a text with some new lines is merged with the present one.
            let old = existed && content.action == .create ? Self.words(in: content.base["txt"]?.text ?? "") : []
            for word in words.subtracting(old) where record.words[word] == nil {
                record.words[word] = Written(version: version, device: device)
            }
        }
        // A whole object replaces an existing one without a base, so only stamps can decide its members.
        if existed, content.base["o"] == nil, content.action == .create {
            for key in content.data["o"]?.object?.names ?? [] {
                record.members[key] = nil
                record.contested.insert(key)
            }
        }
        for member in content.data["o"]?.object?.members ?? [] {
            let key = member.name.text
            if content.base["o"]?.object?[key] == member.value {
                // If the hub has no such object, it takes the whole one, and the member gets the time of the object.
                if record.members[key] == nil { record.contested.insert(key) }
                continue
            }
            // A member is named for the only device whose apps write it. Whole objects that restore a record carry all members.
            guard own.contains(key) else { continue }
            // The base differs from the present value, so stamps decide, and these belong to the whole field.
            guard !record.contested.contains(key), !existed || content.base["o"]?.object?[key] == record.members[key]?.value
            else {
                record.members[key] = nil
                record.contested.insert(key)
                continue
            }
            record.members[key] = (device, member.value)
        }
        // An app that repeats a request sends a value made from an older view, which removes what the store got meanwhile.
        if let whole = content.data["o"]?.object {
            for key in content.base["o"]?.object?.names ?? [] where whole[key] == nil { record.members[key] = nil }
        }
        if let tags = content.data["tags"]?.array?.compactMap(\.text) {
            // A create that restores the record names the earlier list, and so the elements that it removes.
            if existed, content.action == .create {
                for tag in content.base["tags"]?.array?.compactMap(\.text) ?? [] where !tags.contains(tag) { record.tags[tag] = nil }
            }
            // A list that is written as a whole does not add elements that exist already.
            for tag in tags where record.tags[tag, default: []].isEmpty { record.tags[tag] = [Written(version: version, device: device)] }
        }
        record.seen[device] = max(record.seen[device] ?? 0, base)
        if let peak = content.data["p"]?.int, record.peak == nil || !isBroughtBack("p") { record.peak = max(record.peak ?? peak, peak) }
        for operation in content.operations {
            switch (operation.field, operation.kind) {
            case ("tags", .add):
                guard let tag = operation.value.text else { continue }
                // A device that adds an element that it has seen becomes its only author, so one removal is enough afterwards.
                record.tags[tag]?.removeAll { isSeen($0) }
                record.tags[tag, default: []].append(Written(version: version, device: device))
            case ("tags", .remove): if let tag = operation.value.text { record.tags[tag]?.removeAll { isSeen($0) } }
            case ("txt", .append):
                for word in Self.words(in: operation.value.text ?? "") { record.words[word] = Written(version: version, device: device) }
            case ("p", .max): if let peak = operation.value.int { record.peak = max(record.peak ?? peak, peak) }
            default: break
            }
        }
        // The hub's value stays beside one that is restored unchanged.
        let isChange = !isBroughtBack("m") || record.disputed.last?.value == content.data["m"]
        if isChange { try recordChange(content, of: name, base: base, version: version, device: device, existed: existed, &record) }
        records[name] = record
    }

    private mutating func recordChange(
        _ content: MutationContent, of name: RecordName, base: Int64, version: Int64, device: Int, existed: Bool,
        _ record: inout Record
    ) throws(Broken) {
        if !existed || content.data["m"] != nil { history[name, default: []].append((version, content.data["m"])) }
        guard let value = content.data["m"] else { return }
        // A create that restores the record states its base.
        let hasSeen = record.disputed.last.map { $0.value != nil && content.base["m"] == $0.value } ?? false
        if existed, !hasSeen, let last = record.disputed.last, last.device != device, last.version > base, last.value != value {
            throw Broken(
                "what people decide is never overwritten unseen",
                "\(name): version \(last.version) of m is \(last.value?.json ?? "nothing"), and \(value.json) had seen \(base)")
        }
        if let last = record.disputed.indices.last, record.disputed[last].value == value {
            // An equal value is no news.
            record.disputed[last].device = device
        } else {
            record.disputed.append((version, device, value))
        }
    }

    /// Restores a record whose deletion has given way.
    mutating func bringBack(_ name: RecordName) { records[name] = gone[name] }

    /// Takes in a whole document of the back office.
    mutating func publish(_ name: RecordName, _ document: JSONObject?, version: Int64) {
        guard let document else {
            records[name] = nil
            return
        }
        let office = -1
        var record = records[name] ?? Record()
        if (record.disputed.last?.value ?? nil) != document["m"] {
            record.disputed.append((version, office, document["m"]))
            history[name, default: []].append((version, document["m"]))
        }
        records[name] = record
    }

    /// Words look like `<t12>`.
    static func words(in text: String) -> Set<String> {
        Set(text.split(separator: "<").compactMap { part in part.firstIndex(of: ">").map { String(part[..<$0]) } })
    }

    func check(_ name: RecordName, _ document: JSONObject) throws(Broken) {
        guard let record = records[name] else { return }
        let tags = Set(document["tags"]?.array?.compactMap(\.text) ?? [])
        let expected = Set(record.tags.filter { !$1.isEmpty }.keys)
        guard tags == expected else {
            throw Broken("sets hold what was put in and not taken out", "\(name) holds \(tags.sorted()), expected \(expected.sorted())")
        }
        let parts = document["parts"]?.array ?? []
        guard parts.count == expected.count, expected.allSatisfy({ parts.contains(Entities.part($0)) }) else {
            throw Broken(
                "objects of a set are told apart by their ids", "\(name) holds \(JSON.array(parts).json), expected \(expected.sorted())")
        }
        let words = Self.words(in: document["txt"]?.text ?? "")
        let missing = Set(record.words.keys).subtracting(words)
        guard missing.isEmpty else {
            throw Broken("no text is lost", "\(name) has lost \(missing.sorted()) from \(document["txt"]?.json ?? "nothing")")
        }
        for (key, member) in record.members.sorted(by: { $0.key < $1.key }) {
            guard document["o"]?.object?[key] == member.value else {
                throw Broken(
                    "members of an object are merged",
                    "\(name) has \(document["o"]?.json ?? "nothing"), agent \(member.device) wrote \(key): \(member.value.json)")
            }
        }
        guard document["p"]?.int == record.peak else {
            throw Broken(
                "a maximum only rises",
                "\(name) has \(document["p"]?.json ?? "nothing"), expected \(record.peak.map { "\($0)" } ?? "nothing")")
        }
        guard document["q"]?.int == record.peak.map({ -$0 }) else {
            throw Broken(
                "a minimum only falls",
                "\(name) has \(document["q"]?.json ?? "nothing"), expected \(record.peak.map { "\(-$0)" } ?? "nothing")")
        }
    }
}
