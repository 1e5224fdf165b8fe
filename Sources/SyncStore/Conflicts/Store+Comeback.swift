import SyncCore
import SyncSQLite

// Later changes of a record that was deleted at the hub, when a person decides whether it comes back.

/// The fate of a record's later changes under a decision that brings the record back.
struct Comeback {
    typealias Carried = (row: OutboxRow, payload: Payload, content: MutationContent)

    /// Changes that go with the decision, as a part of it.
    var carried: [Carried] = []
    /// Changes that are made again behind the decision, each with its atomic list. The first of them belongs to another list than the
    /// decision, and what comes after it must not overtake it.
    var madeAgain: [(open: Store.OpenMutation, list: EnqueueGroup?)] = []
}

extension Store {
    /// Ends the later changes of a record that was deleted at the hub. A decision that brings the record back carries them, because they
    /// would reach the hub before it otherwise. It joins one atomic list at most: the disputed change's, or the first one among the later
    /// changes. Changes from the next list on are made again behind it (``makeAgain(_:in:behind:by:)``), so that each list goes as a whole.
    ///
    /// - Parameter isBack: `false`: the record stays deleted, and the changes are given up.
    func endLater(_ later: [OpenMutation], than row: OutboxRow, isBack: Bool, _ rules: EntityRules) throws(StoreError) -> Comeback {
        // Before any of them ends: a list is still one where only changes of this record are left of it.
        let lists = try later.map { open throws(StoreError) in try openList(of: open.row) }
        var own = try openList(of: row)?.seqs
        var comeback = Comeback()
        for (open, list) in zip(later, lists) where open.row.state == .pending && !open.row.isSent {
            guard let payload = open.payload, let content = payload.content(under: rules) else { continue }
            if content.action == .delete || content.action == .create { break }
            // An earlier decision of the own list may be younger than changes of other lists, and still counts before them.
            let isCarried = isBack && (list.map { $0.seqs == own ?? $0.seqs } ?? comeback.madeAgain.isEmpty)
            try finalize(open.row, as: isCarried ? .coalesced : isBack ? .resolved : .discarded, keptFor: try keptFor(open.row))
            if let group = open.row.group { try refreshReadiness(ofGroup: group) }
            if isCarried {
                comeback.carried.append((open.row, payload, content))
                if own == nil { own = list?.seqs }
            } else if isBack {
                comeback.madeAgain.append((open, list))
            }
        }
        return comeback
    }

    /// Returns whether a change is a decision that brings its record back, and has the place of a mutation before this one.
    func bringsBack(_ open: OpenMutation, before seq: Int64) throws(StoreError) -> Bool {
        guard let payload = open.payload, payload.action == .create else { return false }
        var (place, next) = (payload.seq, payload.supersedes)
        while place > seq, let older = next.flatMap({ UUIDv7.carried(in: $0) }), older < place {
            place = older
            next = try self.payload(older)?.supersedes
        }
        return place < seq
    }

    /// Returns whether an earlier change of the same record makes it, or may bring it back.
    func isMade(before row: OutboxRow) throws(StoreError) -> Bool {
        guard let rid = row.rid else { return false }
        return try database.number(
            """
            SELECT 1 FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.seq < ? AND m.state < 6 AND m.state <> 3 AND p.action = ? LIMIT 1
            """, .int(rid), .int(row.seq), .int(Int64(MutationAction.create.number))) != nil
    }

    /// Makes a later change again behind the decision that brings its record back, in its atomic list.
    ///
    /// It depends on the decision. So its list goes after that, and falls with it: without the record there is nothing to change.
    func makeAgain(
        _ open: OpenMutation, in list: EnqueueGroup?, behind decision: MutationKey, by requester: Requester
    ) throws(StoreError) {
        guard let payload = open.payload else { return }
        var mutation = try successor(of: open.row, payload, nil).mutation
        mutation.dependsOn.append(decision)
        let rules = rules[mutation.entity] ?? EntityRules()
        try keepTimes(of: [payload], in: &mutation, rules) { rules.mergesMembers(of: $0) }
        let answer = try accept(mutation, by: requester, in: list, supersedes: payload.key, deadline: open.row.ttlAge)
        if let list { try join(list, seq: answer.seq) }
        try moveLinks(of: answer.recordName, from: open.row.seq, to: answer.seq, in: mutation)
        try database.run("UPDATE mutation SET into_seq = ? WHERE seq = ?", .int(answer.seq), .int(open.row.seq))
    }

    /// Gives a decision what the disputed change and those that it carries have besides their content: the urgency, what they wait for,
    /// their files, and the wish to stay apart.
    func inherit(
        from row: OutboxRow, _ payload: Payload?, _ carried: [Comeback.Carried], by decision: inout NewMutation
    ) throws(StoreError) {
        decision.priority = carried.map(\.row.priority).reduce(row.priority, min)
        decision.dependsOn = try liveDependencies(of: payload)
        let parts = Set([row.seq] + carried.map(\.row.seq))
        for change in carried {
            for key in try liveDependencies(of: change.payload) where !decision.dependsOn.contains(key) {
                // A change that waits for a part of the decision waits for the decision itself.
                guard let seq = try seq(of: key), let before = try waitedFor(by: seq), before.isDisjoint(with: parts) else { continue }
                decision.dependsOn.append(key)
            }
        }
        let payloads = [payload].compactMap { $0 } + carried.map(\.payload)
        decision.coalesces = payloads.allSatisfy(\.coalesces)
        decision.blobs = payloads.flatMap(\.namedFiles)
    }

    /// Keeps the times of the fields that no person has decided: the mutation is as late as the decision, and they were written before.
    ///
    /// - Parameter payloads: The mutations that have written the fields.
    func keepTimes(
        of payloads: [Payload], in mutation: inout NewMutation, _ rules: EntityRules, where isKept: (String) -> Bool
    ) throws(StoreError) {
        let kept = Set((mutation.data.names + mutation.unset).filter(isKept).map { JSONString($0) })
        if kept.isEmpty { return }
        var newer = Payload(MutationContent(.update))
        newer.clock = trustedWall == nil ? .unsynced : .synced
        newer.bid = try currentBoot()
        for var payload in payloads {
            // It may have been sent before its time was known.
            if newer.clock == .synced { _ = try date(&payload) }
            guard let content = payload.content(under: rules), let whole = stampOfParts(payload, in: newer) else { continue }
            for field in Set(content.fields.map { JSONString($0) }).intersection(kept) {
                let stamp = content.stamps[field] ?? whole
                mutation.stamps[field] = max(mutation.stamps[field] ?? stamp, stamp)
            }
        }
    }

    /// The atomic list of a change that a decision carries: the decision joins it, because the rest of the list must not go without the
    /// change.
    func openList(of carried: [Comeback.Carried]) throws(StoreError) -> EnqueueGroup? {
        for seq in carried.map(\.row.seq) {
            if let row = try outboxRow(seq), let list = try openList(of: row) { return list }
        }
        return nil
    }
}

extension EntityRules {
    /// Each member of the object in this field counts by its own time.
    func mergesMembers(of field: String) -> Bool { strategy == .fields && strategy(of: field) == .merge }
}
