import SyncCore

/// The content that the hub must have, computed from its verdicts alone, and the rules that it may never break.
struct HubOracle {
    /// The tokens that were appended to an existing record since it was created.
    private(set) var lists: [RecordName: [String]] = [:]
    /// The tokens of the list of a deleted record, as of its deletion.
    private var gone: [RecordName: Set<String>] = [:]
    private(set) var values = ValueOracle()
    /// The state of every record by the merge rules.
    var rules = RuleModel()
    /// The devices that receive each record, and those that may change it.
    var shares = ShareOracle()
    /// The devices that brought each file, and the records that show it.
    var files = FileOracle()
    /// The versions of schemas and forms that the hub has.
    var schemas = SchemaState()
    /// Records that were deleted and may come back whole.
    private var kept: [RecordName: Kept] = [:]
    /// Readings, by their ids.
    private(set) var events: [RecordID: String] = [:]
    private(set) var appliedCount = 0
    /// Keys that the hub accepted.
    private(set) var applied: Set<MutationKey> = []
    /// Records that exist or existed.
    private(set) var known: Set<RecordName> = []
    /// Records that were deleted at some time.
    private(set) var everDeleted: Set<RecordName> = []
    var fingerprints: [MutationKey: [UInt8]] = [:]
    /// The operations that took effect, in order.
    private var order: [Slot: [Int]] = [:]

    private struct Kept {
        var list: [String]
        /// The version of the deletion.
        var version: Int64
        var device: Int
        var at: Timestamp
    }

    private static let book = Entities.rules(ofHub: true, .all)

    private struct Slot: Hashable {
        var agent: Int
        var record: RecordName
    }

    /// Takes the content of an answer into account, in the order in which answers leave the hub.
    mutating func recordVerdicts(
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
            // A database that went back may have sent this mutation with more edits in it, and cannot know that.
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
        // One mutation may stand for several operations: those whose tokens it carries, and those whose apps were told so. A deletion
        // carries no token. A create over a deleted record carries the tokens that the record had before; they do not take effect again.
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
            // A decision is sent when it is made, after changes that were enqueued meanwhile.
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
            // A device restores the record with its whole list; elements that are there already stay in front.
            let seen = mutation.content.base["a"]?.array?.compactMap(\.text) ?? []
            let isBehind = !seen.isEmpty && whole.starts(with: seen)
            list += isBehind && lists[mutation.record] != nil ? Array(whole.dropFirst(seen.count)) : whole.filter { !list.contains($0) }
        }
        for operation in mutation.content.operations where operation.kind == .append {
            list += operation.value.array?.compactMap(\.text) ?? []
        }
        lists[mutation.record] = list
    }

    /// A change that had not seen the deletion restores the whole record.
    private mutating func bringBack(_ mutation: IncomingMutation, version: Int64, by device: Int) {
        guard mutation.content.action != .delete, lists[mutation.record] == nil, let kept = kept.removeValue(forKey: mutation.record) else {
            return
        }
        // A base version above the head belongs to another history.
        let base = mutation.baseVersion >= version ? -1 : mutation.baseVersion
        let isUnseen = kept.version > base && kept.device != device
        guard mutation.content.action == .update || !mutation.content.base.isEmpty || isUnseen else { return }
        lists[mutation.record] = kept.list
        values.bringBack(mutation.record)
    }

    /// Forgets deletions that the hub has forgotten.
    mutating func forget(before: Timestamp) {
        kept = kept.filter { $0.value.at >= before }
        rules.forget(before: before)
        shares.forget(before: before)
    }

    private func tokens(of mutation: IncomingMutation) -> [String] {
        let appended = mutation.content.operations.flatMap { $0.kind == .append ? $0.value.array?.compactMap(\.text) ?? [] : [] }
        // A create that restores a record carries its whole list, so the difference to its base was added.
        let seen = mutation.content.base["a"]?.array ?? []
        let whole = (mutation.content.data["a"]?.array ?? []).filter { !seen.contains($0) }.compactMap(\.text)
        let isNew = mutation.content.data["t"] != mutation.content.base["t"]
        return appended + whole + [isNew ? mutation.content.data["t"]?.text : nil].compactMap { $0 }
    }

    /// Checks that mutations of one record by one device take effect in the order in which its database took them.
    private mutating func checkOrder(_ operation: Operation, _ record: RecordName, _ operations: [Operation]) throws(Broken) {
        // A lost operation is unknown to the restored database, so the network may still deliver it at any time. Mutations that the
        // database kept may come after it, because the database cannot know of it.
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
            let document = name.entity == Shares.orders ? files.settled(name, document) : document
            self.rules.publish(name, document, version: version, rules, at: now)
            shares.recordDocument(name, document, at: now)
            if name.entity == Shares.orders { files.publish(name, document) }
        }
        if name.entity == Entities.works { values.publish(name, document, version: version) }
    }

    /// Compares the computed content with the hub's own.
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
