import SyncCore

/// The values that the fields of a record must have, derived from the mutations that the hub accepted and from nothing that merging
/// is made of: who put what in, and who had seen it when taking it out.
///
/// - `tags`, a set: an element is there if somebody put it in whom no later removal had seen.
/// - `parts`, the same as a set of objects with an id.
/// - `txt`, a text: it holds every word that nobody has overwritten in sight of it.
/// - `o`, an object that is merged: a member that only one device ever wrote holds what that device wrote last.
/// - `p`, a maximum: the greatest that was ever sent since the record came into being; `q`, a minimum: the same below zero.
/// - `m`, for people: nobody overwrites what they had not seen.
struct ValueOracle {
    private struct Written {
        var version: Int64
        var device: Int
    }

    private struct Record {
        var tags: [String: [Written]] = [:]
        var words: [String: Written] = [:]
        var members: [String: (device: Int, value: JSON)] = [:]
        /// Members that stamps have decided about, which say nothing of single members: what they hold is not followed.
        var contested: Set<String> = []
        var peak: Int64?
        /// The newest version that each device has built on: whoever goes on from its own later write has seen that, too.
        var seen: [Int: Int64] = [:]
        /// Versions of `m`, newest last; `nil` stands for none.
        var disputed: [(version: Int64, device: Int, value: JSON?)] = []
    }

    private var records: [RecordName: Record] = [:]
    /// As they were when they were deleted.
    private var gone: [RecordName: Record] = [:]
    /// Every value that `m` ever had, `nil` for none, with the version that it came in.
    private(set) var history: [RecordName: [(version: Int64, value: JSON?)]] = [:]

    /// - Parameters:
    ///   - device: Who wrote it, as the hub knows it: two databases under one name are one device.
    ///   - members: Those of `o` that nobody else writes, and those that its app undoes by asking again.
    ///   - existed: Whether the hub held the record before.
    ///   - sight: The text that its author saw when it was made. In a history that began since, its base says nothing of it.
    mutating func apply(
        _ mutation: IncomingMutation, version: Int64, from device: Int, members own: Set<String>, existed: Bool, inSightOf sight: String
    ) throws(Broken) {
        let name = mutation.record
        let content = mutation.content
        if content.action == .delete {
            if let record = records.removeValue(forKey: name) { gone[name] = record }
            return
        }
        // A create knows nothing of what is there.
        let base = content.action == .create ? 0 : mutation.baseVersion
        var record = existed ? records[name] ?? Record() : Record()
        func isSeen(_ written: Written) -> Bool { written.device == device || written.version <= base }
        /// A value that a create brings back unchanged does not count where another device has created the record anew with its own value.
        func isBroughtBack(_ field: String) -> Bool {
            existed && content.action == .create && content.base[field] == content.data[field]
        }
        if let text = content.data["txt"]?.text {
            let words = Self.words(in: text), seen = Self.words(in: sight)
            let known = record.seen[device] ?? 0
            for (word, written) in record.words where !words.contains(word) {
                if isSeen(written) || written.version <= known || seen.contains(word) { record.words[word] = nil }
            }
            // The same word by word: a text of which some lines are new is merged with what is there.
            let old = existed && content.action == .create ? Self.words(in: content.base["txt"]?.text ?? "") : []
            for word in words.subtracting(old) where record.words[word] == nil {
                record.words[word] = Written(version: version, device: device)
            }
        }
        // A whole object on one that is there: of the members that it names, the rule has nothing to go by but stamps.
        if existed, content.base["o"] == nil, content.action == .create {
            for key in content.data["o"]?.object?.names ?? [] {
                record.members[key] = nil
                record.contested.insert(key)
            }
        }
        for member in content.data["o"]?.object?.members ?? [] {
            let key = member.name.text
            if content.base["o"]?.object?[key] == member.value {
                // Where the hub has no such object, it takes the whole one: then this member is as late as that.
                if record.members[key] == nil { record.contested.insert(key) }
                continue
            }
            // A member is named for the one device whose apps mean to write it; whole objects that bring a record back carry all.
            guard own.contains(key) else { continue }
            // Changed in sight of something else than what is there: the stamps decide, and those are of the whole field.
            guard !record.contested.contains(key), !existed || content.base["o"]?.object?[key] == record.members[key]?.value
            else {
                record.members[key] = nil
                record.contested.insert(key)
                continue
            }
            record.members[key] = (device, member.value)
        }
        // An app that repeats a request sends what it made of an older view: what the store had meanwhile is removed by it.
        if let whole = content.data["o"]?.object {
            for key in content.base["o"]?.object?.names ?? [] where whole[key] == nil { record.members[key] = nil }
        }
        if let tags = content.data["tags"]?.array?.compactMap(\.text) {
            // A create that brings the record back names the earlier list, and so the elements that it takes out.
            if existed, content.action == .create {
                for tag in content.base["tags"]?.array?.compactMap(\.text) ?? [] where !tags.contains(tag) { record.tags[tag] = nil }
            }
            // A list that is written as a whole does not put in elements that are there already.
            for tag in tags where record.tags[tag, default: []].isEmpty { record.tags[tag] = [Written(version: version, device: device)] }
        }
        record.seen[device] = max(record.seen[device] ?? 0, base)
        if let peak = content.data["p"]?.int, record.peak == nil || !isBroughtBack("p") { record.peak = max(record.peak ?? peak, peak) }
        for operation in content.operations {
            switch (operation.field, operation.kind) {
            case ("tags", .add):
                guard let tag = operation.value.text else { continue }
                // A device that adds an element that it has seen takes the element over, so one removal is enough afterwards.
                record.tags[tag]?.removeAll { isSeen($0) }
                record.tags[tag, default: []].append(Written(version: version, device: device))
            case ("tags", .remove): if let tag = operation.value.text { record.tags[tag]?.removeAll { isSeen($0) } }
            case ("txt", .append):
                for word in Self.words(in: operation.value.text ?? "") { record.words[word] = Written(version: version, device: device) }
            case ("p", .max): if let peak = operation.value.int { record.peak = max(record.peak ?? peak, peak) }
            default: break
            }
        }
        try note(content, of: name, base: base, version: version, device: device, existed: existed, &record)
        records[name] = record
    }

    private mutating func note(
        _ content: MutationContent, of name: RecordName, base: Int64, version: Int64, device: Int, existed: Bool,
        _ record: inout Record
    ) throws(Broken) {
        if !existed || content.data["m"] != nil { history[name, default: []].append((version, content.data["m"])) }
        guard let value = content.data["m"] else { return }
        // A create that brings the record back says what it had seen.
        let hasSeen = record.disputed.last.map { $0.value != nil && content.base["m"] == $0.value } ?? false
        if existed, !hasSeen, let last = record.disputed.last, last.device != device, last.version > base, last.value != value {
            throw Broken(
                "what people decide is never overwritten unseen",
                "\(name): version \(last.version) of m is \(last.value?.json ?? "nothing"), and \(value.json) had seen \(base)")
        }
        if let last = record.disputed.indices.last, record.disputed[last].value == value {
            // Equal is no news.
            record.disputed[last].device = device
        } else {
            record.disputed.append((version, device, value))
        }
    }

    /// The deletion has given way.
    mutating func bringBack(_ name: RecordName) { records[name] = gone[name] }

    /// A back office wrote a whole document.
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
