import SyncCore
import SyncSQLite

// Keeps an atomic list together (PROTOCOL A4, D): all of it takes effect at the hub in one commit, or none. When members are in dispute,
// the others wait until all disputes are decided. A decision is a new mutation with a new key and joins the list in the place of the
// disputed one, so the rest of the list goes together. It is ready when the list is, whatever was enqueued on its record since: a decision
// does not set fields that a later change has written (`Store+Conflicts.swift`).

/// The fate of an atomic list after a decision about one of its members.
package struct AtomicListFate: Hashable, Sendable {
    /// Number of changes that continue, in one commit.
    package var goOn = 0
    /// Number of changes that wait, disputed ones included.
    package var wait = 0
    /// Number of changes that were given up.
    package var letGo = 0
    /// Names of the list's conflicts that are still to be decided, such as `c-13`.
    package var waitsFor: [String] = []

    package init(goOn: Int = 0, wait: Int = 0, letGo: Int = 0, waitsFor: [String] = []) {
        (self.goOn, self.wait, self.letGo, self.waitsFor) = (goOn, wait, letGo, waitsFor)
    }
}

extension Store {
    /// Returns whether a mutation that is accepted into a list need not wait for `seq`, because that is in the same list.
    func isMember(_ seq: Int64, of group: EnqueueGroup) throws(StoreError) -> Bool {
        if group.seqs.contains(seq) { return true }
        return try outboxRow(seq)?.group == group.seqs
    }

    /// The list that a decision about this mutation must join, if any other part of it is still open.
    func openList(of row: OutboxRow) throws(StoreError) -> EnqueueGroup? {
        // An existing backend has no lists.
        guard rest == nil, let group = row.group else { return nil }
        let others = try groupMembers(group).filter { $0.seq != row.seq && !$0.state.isTerminal }
        guard let other = others.first else { return nil }
        let priority = others.map(\.priority).min() ?? row.priority
        var name = try payload(row.seq)?.gid
        if name == nil { name = try payload(other.seq)?.gid }
        return name.map { EnqueueGroup(seqs: group, priority: min(priority, row.priority), id: $0) }
    }

    /// Adds a decision to its list, with the fate of the list: where the hub has refused another member, the decision waits with the rest
    /// for a retry.
    func join(_ list: EnqueueGroup, seq: Int64) throws(StoreError) {
        try meetChildren(ofGroup: list.seqs)
        if try groupMembers(list.seqs).contains(where: { $0.state == .rejected }), var row = try outboxRow(seq), row.state == .pending {
            row.problem = Self.groupRejected.stored
            try move(row, to: .rejected)
            if let rid = row.rid { try restatus(rid, foldAgain: true) }
        }
        try refreshReadiness(ofGroup: list.seqs)
    }

    static let groupRejected = Problem(
        Problem.groupRejected, status: 409, detail: "another mutation of its atomic list was rejected")

    /// Gives up a whole atomic list, with the mutations that depend on it.
    ///
    /// - Throws: `.refused` with `validation` where there is no list, or `already-sent` while a part of it is in flight.
    func giveUpList(
        of row: OutboxRow, _ conflict: ConflictRow, _ decision: ConflictDecision, uid: UInt32
    ) throws(StoreError) {
        guard let group = row.group else {
            throw StoreProblem.validation("/whole", "the disputed change belongs to no atomic list; to drop it, choose remote")
        }
        guard decision.scope == .all(.remote) else {
            throw StoreProblem.validation("/whole", "to drop the whole list, choose remote for all fields")
        }
        let members = try groupMembers(group).filter { !$0.state.isTerminal }
        for member in members where member.state == .inFlight {
            throw StoreProblem.alreadySent(MutationKey(trusted: try payload(member.seq)?.key ?? "\(member.seq)"), member.state)
        }
        var ended = conflict
        ended.state = .resolved
        ended.closedAge = age
        var entry: JSONObject = ["uid": .int(Int64(uid)), "choice": "remote", "whole": true]
        if let author = decision.author { entry["author"] = .string(author) }
        if let comment = decision.comment { entry["comment"] = .string(comment) }
        ended.addEvent("resolved", at: now.wall, entry)
        try ended.update(in: database)
        addToJournal(ended)
        var records = TouchedRecords()
        for member in members {
            try finalize(member, as: .discarded, keptFor: try keptFor(member))
            try closeConflict(ofSeq: member.seq, "discarded", uid: uid)
            if let rid = member.rid {
                try touch(rid, &records)
                records[rid]?.needsFold = true
            }
        }
        for member in members {
            let parent = try payload(member.seq)?.key ?? "\(member.seq)"
            for follower in try followers(of: member, in: records) {
                try rejectAlong(follower, with: parent, .givenUp(.discarded), &records)
            }
        }
        try finish(records)
    }

    /// The fate of a list in its present state.
    func listFate(_ group: ClosedRange<Int64>) throws(StoreError) -> AtomicListFate {
        var fate = AtomicListFate()
        var open = 0
        var isHeldUp = false
        for member in try groupMembers(group) {
            switch member.state {
            case .pending, .inFlight:
                open += 1
                for name in try disputes(before: member, of: group) where !fate.waitsFor.contains(name) { fate.waitsFor.append(name) }
            case .conflicted:
                open += 1
                isHeldUp = true
                if let conflict = try openConflict(ofSeq: member.seq) { fate.waitsFor.append(conflict.name) }
            case .failed, .held, .rejected:
                open += 1
                isHeldUp = true
            case .discarded: fate.letGo += 1
            case .done, .resolved, .coalesced, .cancelled, .superseded, .expired: break
            }
        }
        if isHeldUp || !fate.waitsFor.isEmpty { fate.wait = open } else { fate.goOn = open }
        return fate
    }

    /// The open conflicts of older mutations of a member's record. The list waits for them as for its own.
    private func disputes(before member: OutboxRow, of group: ClosedRange<Int64>) throws(StoreError) -> [String] {
        guard let rid = member.rid, ledger.count(.conflicted) > 0 else { return [] }
        return try database.all(
            "SELECT * FROM conflict WHERE rid = ? AND state < 2 AND seq < ? ORDER BY cid", .int(rid), .int(group.lowerBound)
        ) { row throws(StoreError) in ConflictRow(row).name }
    }
}
