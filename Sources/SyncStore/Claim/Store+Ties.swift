import SyncCore
import SyncSQLite

// Ties: which mutation waits for which (PROTOCOL C6). A mutation is tied to those that must be accepted before it: the ones that it names
// in `depends_on`, and the creates of its parents. A tie is written only while such a mutation is open on this device. Almost no mutation
// has a tie, and one without a tie costs nothing.
//
// A tie ends with the mutation that was waited for. After an acceptance the tied mutations go on; after a rejection or an abandonment they
// end as well (`Store+TieEnds.swift`). Ties run from younger to older mutations, so there are no circles. Three cases are exceptions and
// check for a circle: a child that was made before its parent, a tie that is handed on, and a mutation that takes the place of an older one
// in an atomic list.

/// The ties of a mutation, found before anything is written.
struct Ties {
    /// Open mutations that must be accepted first.
    var on: Set<Int64> = []
    /// Parents that are unknown on this device.
    var unmet: [UnmetParent] = []

    var isEmpty: Bool { on.isEmpty && unmet.isEmpty }
}

struct UnmetParent: Hashable {
    var entity: EntityName
    var id: RecordID
}

extension Store {
    // MARK: - Before the write

    /// - Throws: `.refused` when the mutation depends on one that will never be accepted.
    func findTies(of mutation: NewMutation, _ rules: EntityRules) throws(StoreError) -> Ties {
        var ties = Ties()
        for (index, key) in mutation.dependsOn.enumerated() {
            guard let seq = try seq(of: key) else {
                throw StoreProblem.validation("/depends_on/\(index)", "there is no mutation \(key)")
            }
            if let open = try openDependency(seq, key, at: index) { ties.on.insert(open) }
        }
        for (field, entity) in rules.refs {
            guard let id = mutation.data[field]?.text.flatMap({ RecordID($0) }),
                entity != mutation.entity || id != mutation.recordID
            else { continue }
            try addParent(UnmetParent(entity: entity, id: id), to: &ties)
        }
        return ties
    }

    /// - Returns: The mutation that replaces it now, if that one is open.
    private func openDependency(_ named: Int64, _ key: MutationKey, at index: Int) throws(StoreError) -> Int64? {
        var seq = named
        while true {
            guard let row = try outboxRow(seq) else {
                // A new event has no narrow row yet. Any other mutation without a row was accepted long ago.
                return seq > ledger[.absorbedSeq] ? seq : nil
            }
            switch row.state {
            case .pending, .inFlight, .conflicted, .rejected, .failed, .held: return seq
            case .done, .superseded: return nil
            case .resolved, .coalesced:
                guard let next = row.replacement else { return nil }
                seq = next
            case .cancelled, .discarded, .expired:
                throw StoreProblem.validation(
                    "/depends_on/\(index)", "the mutation \(key) is \(row.state.name), so this could never be sent")
            }
        }
    }

    private func addParent(_ parent: UnmetParent, to ties: inout Ties) throws(StoreError) {
        guard let eid = names.entities[parent.entity], let row = try MirrorRow.find(database, eid: eid, id: parent.id.text) else {
            return ties.unmet.append(parent)
        }
        let creation = try database.number(
            """
            SELECT m.seq FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 AND p.action = 0 ORDER BY m.seq DESC LIMIT 1
            """, .int(row.rid))
        if let creation {
            ties.on.insert(creation)
        } else if row.document == nil, !row.isNotKept {
            ties.unmet.append(parent)
        }
    }

    /// Removes the ties to the mutation's own atomic list: its members have no ties to each other. The successor of an older member does
    /// not wait either for mutations that wait for the list.
    func leaveOut(_ list: EnqueueGroup, from ties: inout Ties, isSuccessor: Bool) throws(StoreError) {
        // With the decisions that have joined the list, which may be all that is left of it.
        let members = isSuccessor && !ties.on.isEmpty ? Set(try groupMembers(list.seqs).map(\.seq)) : []
        for earlier in ties.on {
            var waitsForList = try isMember(earlier, of: list)
            if !waitsForList, isSuccessor {
                let before = try waitedFor(by: earlier)
                waitsForList = before.map { !$0.isDisjoint(with: members) } ?? true
            }
            if waitsForList { ties.on.remove(earlier) }
        }
    }

    // MARK: - The write

    /// Writes the ties of a mutation. Mutations that waited for the record it creates, without knowing the create, are tied to it.
    func tie(_ row: OutboxRow, _ payload: Payload, _ ties: Ties) throws(StoreError) {
        for earlier in ties.on.sorted() { try tie(row.seq, to: earlier) }
        for parent in ties.unmet {
            try database.run(
                "INSERT INTO unmet (eid, id, seq) VALUES (?, ?, ?)", .int(try names.entity(parent.entity, in: database)),
                .text(parent.id.text), .int(row.seq))
            ledger[.unmet] += 1
        }
        // The ties of a list are complete with its last member; before that, no circle could be seen.
        if row.group == nil { try meetChildren(of: row, payload) }
    }

    /// Ties waiting children to the members of an atomic list that is written now.
    func meetChildren(ofGroup seqs: ClosedRange<Int64>) throws(StoreError) {
        guard ledger[.unmet] > 0 else { return }
        for member in try groupMembers(seqs) {
            if let payload = try payload(member.seq) { try meetChildren(of: member, payload) }
        }
    }

    func tie(_ seq: Int64, to earlier: Int64) throws(StoreError) {
        let added = try database.run(
            "INSERT INTO tie (seq, on_seq) VALUES (?, ?) ON CONFLICT DO NOTHING", .int(seq), .int(earlier))
        ledger[.ties] += Int64(added)
    }

    /// Ties children that came before their parent, and were never sent, to the parent's create.
    private func meetChildren(of row: OutboxRow, _ payload: Payload) throws(StoreError) {
        guard payload.action == .create, row.rid != nil, ledger[.unmet] > 0 else { return }
        let children = try database.all(
            "SELECT seq FROM unmet WHERE eid = ? AND id = ?", .int(payload.eid), .text(payload.recordID.text)
        ) { row throws(StoreError) in row.int(0) }
        guard !children.isEmpty else { return }
        // Searched once for all children: a tie that is added below begins at a child that the parent does not wait for.
        let before = try waitedFor(by: row.seq)
        var urgent = Priority.bulk
        for child in children {
            try forgetUnmet(of: child)
            guard let waiting = try outboxRow(child), waiting.state == .pending, !waiting.isSent,
                waiting.group == nil || waiting.group != row.group, let before, !before.contains(child)
            else { continue }
            try tie(child, to: row.seq)
            if let group = waiting.group { try refreshReadiness(ofGroup: group) } else { try setReady(child, false, was: waiting.isReady) }
            urgent = min(urgent, waiting.priority)
        }
        // The mutations before the children on their records already have at least this urgency.
        if let parent = try outboxRow(row.seq) { try raise(parent, to: urgent) }
    }

    func forgetUnmet(of seq: Int64) throws(StoreError) {
        guard ledger[.unmet] > 0 else { return }
        ledger[.unmet] -= Int64(try database.run("DELETE FROM unmet WHERE seq = ?", .int(seq)))
    }

    // MARK: - Queries

    func isTied(_ seq: Int64) throws(StoreError) -> Bool {
        guard ledger[.ties] > 0 else { return false }
        return try database.number("SELECT 1 FROM tie WHERE seq = ? LIMIT 1", .int(seq)) != nil
    }

    /// Mutations that `seq` waits for.
    func ties(of seq: Int64) throws(StoreError) -> [Int64] {
        guard ledger[.ties] > 0 else { return [] }
        return try database.all("SELECT on_seq FROM tie WHERE seq = ? ORDER BY on_seq", .int(seq)) {
            row throws(StoreError) in row.int(0)
        }
    }

    /// Mutations that wait for `seq`.
    func tied(to seq: Int64) throws(StoreError) -> [Int64] {
        guard ledger[.ties] > 0 else { return [] }
        return try database.all("SELECT seq FROM tie WHERE on_seq = ? ORDER BY seq", .int(seq)) {
            row throws(StoreError) in row.int(0)
        }
    }

    /// The youngest blocking mutation of the record before `seq`, which waits for those before it. A decision that has joined an older list
    /// does not wait for all of them, so the next one is found as well.
    private func blocking(_ rid: Int64, before seq: Int64) throws(StoreError) -> [Int64] {
        var found: [Int64] = []
        var next = try lastBlocking(of: rid, before: seq)
        while let last = next {
            found.append(last)
            next = try outboxRow(last)?.hasJoined == true ? try lastBlocking(of: rid, before: last) : nil
        }
        return found
    }

    /// Largest number of links that a search for a circle follows. Beyond that, a circle is assumed: sending too early costs one "later"
    /// from the hub, waiting for ever costs the work.
    static let circleLinks = 1_000

    /// Mutations that `seq` waits for, directly or indirectly, itself included; `nil` when there are more than ``circleLinks``.
    func waitedFor(by seq: Int64) throws(StoreError) -> Set<Int64>? {
        var seen: Set<Int64> = [seq]
        var work = [seq]
        while let next = work.popLast() {
            guard seen.count <= Self.circleLinks else { return nil }
            guard let row = try outboxRow(next), !row.state.isTerminal else { continue }
            var earlier = try ties(of: next)
            for member in try row.group.map(groupMembers) ?? [row] where !member.state.isTerminal {
                earlier += try ties(of: member.seq) + [member.seq]
                if let rid = member.rid { earlier += try blocking(rid, before: member.unit) }
            }
            for found in earlier where seen.insert(found).inserted { work.append(found) }
        }
        return seen
    }
}
