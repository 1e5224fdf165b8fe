import SyncCore

/// What the hub must hold, computed from nothing but its own verdicts, and what it may never do.
struct HubOracle {
    /// Of a record that exists: the tokens that were appended since it came into being.
    private(set) var lists: [RecordName: [String]] = [:]
    /// What was in such a list when its record was deleted.
    private var gone: [RecordName: Set<String>] = [:]
    private(set) var values = ValueOracle()
    /// What the rules make of every record.
    var rules = RuleModel()
    /// Who receives what, and may change it.
    var shares = ShareOracle()
    /// Who has brought which file, and which records show it.
    var files = FileOracle()
    /// The versions of schemas and forms that the hub has.
    var schemas = SchemaState()
    /// Records that were deleted and may come back whole.
    private var kept: [RecordName: Kept] = [:]
    /// Readings by id.
    private(set) var events: [RecordID: String] = [:]
    private(set) var appliedCount = 0
    /// Keys that the hub said "accepted" for.
    private(set) var applied: Set<MutationKey> = []
    /// Records that there are or were.
    private(set) var known: Set<RecordName> = []
    /// Records that were deleted at some time.
    private(set) var everDeleted: Set<RecordName> = []
    var fingerprints: [MutationKey: [UInt8]] = [:]
    /// The operations that took effect, in order.
    private var order: [Slot: [Int]] = [:]

    private struct Kept {
        var list: [String]
        /// The deletion.
        var version: Int64
        var device: Int
        var at: Timestamp
    }

    private static let book = Entities.rules(ofHub: true, .all)

    private struct Slot: Hashable {
        var agent: Int
        var record: RecordName
    }

    /// Takes an answer of the hub into account, as it left the hub.
    mutating func note(
        _ push: IncomingPush, _ response: PushResponse, from agent: SimAgent, _ operations: inout [Operation],
        byKey: [MutationKey: Int], successors: Set<MutationKey>, mayDiffer: Bool, at now: Timestamp
    ) throws(Broken) {
        guard push.items.count == response.results.count else {
            throw Broken("one result for each mutation", "\(push.items.count) mutations, \(response.results.count) results")
        }
        for (item, result) in zip(push.items, response.results) {
            guard item.key == result.key else {
                throw Broken("results in the order sent", "\(result.key) in the place of \(item.key)")
            }
            // A database that went back may have sent this with more edits in it, and cannot know that.
            let isDoubtful = mayDiffer && (byKey[item.key].map { operations[$0].isDoubtful } ?? true)
            if let known = fingerprints[item.key], known != item.fingerprint, !isDoubtful {
                throw Broken("what was sent is frozen", "the payload of \(item.key) has changed")
            }
            fingerprints[item.key] = item.fingerprint
            guard case .accepted(let version, _, _, let merged) = result.verdict, case .success(let mutation) = item.content else {
                continue
            }
            try apply(
                mutation, version: version, key: item.key, from: agent, &operations, byKey: byKey, successors: successors,
                gaveWay: mutation.content.action == .delete && merged.contains(HubMerge.wholeRecord), at: now)
        }
    }

    private mutating func apply(
        _ mutation: IncomingMutation, version: Int64, key: MutationKey, from agent: SimAgent, _ operations: inout [Operation],
        byKey: [MutationKey: Int], successors: Set<MutationKey>, gaveWay: Bool, at now: Timestamp
    ) throws(Broken) {
        appliedCount += 1
        applied.insert(key)
        known.insert(mutation.record)
        // One mutation may be several operations: those that say so by their tokens, and those whose apps were told. A
        // deletion carries no token.
        // What brings a deleted record back carries what was done to it before: that is not done again.
        let carried = (gone[mutation.record] ?? []).subtracting(lists[mutation.record] ?? [])
        var numbers = Set(tokens(of: mutation).filter { !carried.contains($0) }.compactMap { Operation.number(of: $0) })
        if let number = byKey[key] { numbers.insert(number) }
        let told = operations.filter { $0.agent == agent.index && $0.into == key && !$0.isLost }.map(\.number)
        if mutation.content.action == .delete { numbers.formUnion(told) }
        for number in numbers.sorted(by: { (operations[$0].place ?? .max) < (operations[$1].place ?? .max) }) {
            operations[number].applied += 1
            if operations[number].applied > 1 {
                throw Broken("each mutation takes effect once", "\(operations[number].token) was applied twice (\(key))")
            }
            // A decision comes when it is made, after what was asked for meanwhile.
            if !successors.contains(key) { try checkOrder(operations[number], mutation.record, operations) }
        }
        if mutation.record.entity == Entities.readings {
            events[mutation.record.id] = mutation.content.data["t"]?.text ?? ""
            return
        }
        let mayComeBack = Self.book[mutation.record.entity]?.keepsDeleted ?? false
        if gaveWay {
            guard mayComeBack, lists[mutation.record] != nil else {
                throw Broken(
                    "deletions give way to changes",
                    "\(key) gave way, and \(mutation.record) \(mayComeBack ? "is gone" : "does not come back")")
            }
            return
        }
        bringBack(mutation, version: version, by: agent.identity)
        let sight = numbers.map { operations[$0].sight }.joined()
        let members = numbers.reduce(into: ["d\(agent.index)", "d\(agent.identity)"] as Set) { $0.formUnion(operations[$1].undone) }
        try values.apply(
            mutation, version: version, from: agent.identity, members: members, existed: lists[mutation.record] != nil,
            inSightOf: sight)
        if mutation.content.action == .delete {
            everDeleted.insert(mutation.record)
            gone[mutation.record, default: []].formUnion(lists[mutation.record] ?? [])
            if mayComeBack, let list = lists[mutation.record] {
                kept[mutation.record] = Kept(list: list, version: version, device: agent.identity, at: now)
            }
            lists[mutation.record] = nil
            return
        }
        var list = lists[mutation.record] ?? []
        if let whole = mutation.content.data["a"]?.array?.compactMap(\.text) {
            // Somebody brings the record back with all that was in it; what is there already stays in front.
            let seen = mutation.content.base["a"]?.array?.compactMap(\.text) ?? []
            let isBehind = !seen.isEmpty && whole.starts(with: seen)
            list += isBehind && lists[mutation.record] != nil ? Array(whole.dropFirst(seen.count)) : whole.filter { !list.contains($0) }
        }
        for operation in mutation.content.operations where operation.kind == .append {
            list += operation.value.array?.compactMap(\.text) ?? []
        }
        lists[mutation.record] = list
    }

    /// What comes to a deleted record without having seen its deletion finds all of it.
    private mutating func bringBack(_ mutation: IncomingMutation, version: Int64, by device: Int) {
        guard mutation.content.action != .delete, lists[mutation.record] == nil, let kept = kept.removeValue(forKey: mutation.record) else {
            return
        }
        // A version that is not reached yet belongs to another history.
        let base = mutation.baseVersion >= version ? -1 : mutation.baseVersion
        let isUnseen = kept.version > base && kept.device != device
        guard mutation.content.action == .update || !mutation.content.base.isEmpty || isUnseen else { return }
        lists[mutation.record] = kept.list
        values.bringBack(mutation.record)
    }

    /// The hub has forgotten deletions.
    mutating func forget(before: Timestamp) {
        kept = kept.filter { $0.value.at >= before }
        rules.forget(before: before)
        shares.forget(before: before)
    }

    private func tokens(of mutation: IncomingMutation) -> [String] {
        let appended = mutation.content.operations.flatMap { $0.kind == .append ? $0.value.array?.compactMap(\.text) ?? [] : [] }
        // What brings a record back carries all of it: what was added to what it had seen.
        let seen = mutation.content.base["a"]?.array ?? []
        let whole = (mutation.content.data["a"]?.array ?? []).filter { !seen.contains($0) }.compactMap(\.text)
        let isNew = mutation.content.data["t"] != mutation.content.base["t"]
        return appended + whole + [isNew ? mutation.content.data["t"]?.text : nil].compactMap { $0 }
    }

    /// Of one device, mutations of one record take effect in the order in which its database took them.
    private mutating func checkOrder(_ operation: Operation, _ record: RecordName, _ operations: [Operation]) throws(Broken) {
        // One that a restored database knows nothing of may still arrive from the network, whenever; and what it did keep may
        // come after that, for it cannot know.
        if operation.isLost || operation.isDoubtful { return }
        let slot = Slot(agent: operation.agent, record: record)
        guard let place = operation.place else {
            throw Broken("what is sent is committed", "\(operation.token) of \(record) is in no database")
        }
        let later = order[slot, default: []].first { !operations[$0].isLost && operations[$0].place.map { $0 > place } ?? false }
        if later != nil { throw Broken("order per record and device", "\(operation.token) of \(record) comes too late") }
        order[slot, default: []].append(operation.number)
    }

    mutating func publish(_ name: RecordName, _ document: JSONObject?, version: Int64, at now: Timestamp) {
        if let rules = Self.book[name.entity], rules.kind == .record {
            self.rules.publish(name, document, version: version, rules, at: now)
            shares.note(name, document, at: now)
            if name.entity == Shares.orders { files.publish(name, document) }
        }
        if name.entity == Entities.works { values.publish(name, document, version: version) }
    }

    /// Compares with what the hub really holds.
    func check(_ observed: [RecordName: JSONObject]) throws(Broken) {
        for (record, document) in observed.sorted(by: { $0.key < $1.key })
        where Entities.counted.contains(record.entity) {
            let list = document["a"]?.array?.compactMap(\.text) ?? []
            guard let expected = lists[record] else {
                throw Broken("deleted is deleted", "the hub has \(record), which was deleted: \(document.json)")
            }
            guard list == expected else {
                throw Broken("lists hold what was appended", "\(record) holds \(list), expected \(expected)")
            }
            try values.check(record, document)
            guard (document["n"]?.int ?? 0) == Int64(list.count) else {
                throw Broken("counters count", "\(record) counts \(document["n"]?.json ?? "nothing") for \(list.count): \(document.json)")
            }
        }
        for record in lists.keys.sorted() where observed[record] == nil {
            throw Broken("accepted is there", "the hub has lost \(record)")
        }
    }
}
