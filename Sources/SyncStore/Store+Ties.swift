import SyncCore

// What waits for what (PROTOCOL C6). A mutation is tied to those that must be accepted before it: the ones that it names in
// `depends_on`, and the creations of its parents, as long as these are open here. Where they are not, nothing is written:
// almost no mutation has a tie, and those without pay for none.
//
// A tie ends with the one that was waited for: accepted, it lets go on; refused or given up, it takes along what was tied to
// it (`Store+TieEnds.swift`). Ties run from younger to older mutations, so nobody waits in a circle. There are three exceptions,
// and for each of them a circle is looked for: a child that was made before its parent, a tie that is handed on, and a mutation
// that takes the place of an older one in an atomic list.

/// What a mutation waits for, as found before anything is written.
struct Ties {
    /// Open mutations.
    var on: Set<Int64> = []
    /// Parents that nobody here has heard of.
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
                throw Refusal.validation("/depends_on/\(index)", "there is no mutation \(key)")
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

    /// - Returns: The mutation that answers for it now, if that is open.
    private func openDependency(_ named: Int64, _ key: MutationKey, at index: Int) throws(StoreError) -> Int64? {
        var seq = named
        while true {
            guard let row = try outboxRow(seq) else {
                // A new event has no narrow row yet; what else has none was accepted long ago.
                return seq > ledger[.absorbedSeq] ? seq : nil
            }
            switch row.state {
            case .pending, .inFlight, .conflicted, .rejected, .failed, .held: return seq
            case .done, .superseded: return nil
            case .resolved, .coalesced:
                // Always to one that was there: a chain of these has an end.
                guard let next = row.into, next != seq else { return nil }
                seq = next
            case .cancelled, .discarded, .expired:
                throw Refusal.validation("/depends_on/\(index)", "the mutation \(key) is \(row.state.name), so this could never be sent")
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
        if let creation { ties.on.insert(creation) } else if row.document == nil { ties.unmet.append(parent) }
    }

    /// The list that the mutation belongs to does not wait for itself: its members have no ties to each other. What takes the place
    /// of an older member does not wait for what waits for the list, either.
    func leaveOut(_ list: EnqueueGroup, from ties: inout Ties, isSuccessor: Bool) throws(StoreError) {
        for earlier in ties.on {
            var waitsForList = try isMember(earlier, of: list)
            if !waitsForList, isSuccessor {
                let before = try waitedFor(by: earlier)
                waitsForList = before?.contains(where: list.seqs.contains) ?? true
            }
            if waitsForList { ties.on.remove(earlier) }
        }
    }

    // MARK: - The write

    /// Writes what `seq` waits for, and lets those wait that have waited for the record it creates without knowing it.
    func tie(_ row: OutboxRow, _ payload: Payload, _ ties: Ties) throws(StoreError) {
        for earlier in ties.on.sorted() { try tie(row.seq, to: earlier) }
        for parent in ties.unmet {
            try database.run(
                "INSERT INTO unmet (eid, id, seq) VALUES (?, ?, ?)", .int(try names.entity(parent.entity, in: database)),
                .text(parent.id.text), .int(row.seq))
            ledger[.unmet] += 1
        }
        // What a list waits for is known when its last member is in; before that no circle could be seen.
        if row.group == nil { try meetChildren(of: row, payload) }
    }

    /// The same for an atomic list that is written now.
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

    /// A parent that comes after its children: those that were never sent wait for it from now on.
    private func meetChildren(of row: OutboxRow, _ payload: Payload) throws(StoreError) {
        guard payload.action == .create, row.rid != nil, ledger[.unmet] > 0 else { return }
        let children = try database.all(
            "SELECT seq FROM unmet WHERE eid = ? AND id = ?", .int(payload.eid), .text(payload.recordID.text)
        ) { row throws(StoreError) in row.int(0) }
        guard !children.isEmpty else { return }
        // Looked for once for all of them: a tie that is added below begins at a child that the parent does not wait for.
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
        // What is before the children on their records is as urgent as they are already.
        if let parent = try outboxRow(row.seq) { try raise(parent, to: urgent) }
    }

    func forgetUnmet(of seq: Int64) throws(StoreError) {
        guard ledger[.unmet] > 0 else { return }
        ledger[.unmet] -= Int64(try database.run("DELETE FROM unmet WHERE seq = ?", .int(seq)))
    }

    // MARK: - Looking

    func isTied(_ seq: Int64) throws(StoreError) -> Bool {
        guard ledger[.ties] > 0 else { return false }
        return try database.number("SELECT 1 FROM tie WHERE seq = ? LIMIT 1", .int(seq)) != nil
    }

    /// What `seq` waits for.
    func ties(of seq: Int64) throws(StoreError) -> [Int64] {
        guard ledger[.ties] > 0 else { return [] }
        return try database.all("SELECT on_seq FROM tie WHERE seq = ? ORDER BY on_seq", .int(seq)) {
            row throws(StoreError) in row.int(0)
        }
    }

    /// What waits for `seq`.
    func tied(to seq: Int64) throws(StoreError) -> [Int64] {
        guard ledger[.ties] > 0 else { return [] }
        return try database.all("SELECT seq FROM tie WHERE on_seq = ? ORDER BY seq", .int(seq)) {
            row throws(StoreError) in row.int(0)
        }
    }

    /// Links that a search for a circle follows at most. Where there are more, a circle is taken for granted: to send too
    /// early costs an answer "later" from the hub, to wait for ever costs the work.
    static let circleLinks = 1_000

    /// What `seq` waits for, directly or not, itself included; `nil` when that is more than ``circleLinks``.
    func waitedFor(by seq: Int64) throws(StoreError) -> Set<Int64>? {
        var seen: Set<Int64> = [seq]
        var work = [seq]
        while let next = work.popLast() {
            guard seen.count <= Self.circleLinks else { return nil }
            guard let row = try outboxRow(next), !row.state.isTerminal else { continue }
            var earlier = try ties(of: next)
            for member in try row.group.map(groupMembers) ?? [row] where !member.state.isTerminal {
                earlier += try ties(of: member.seq) + [member.seq]
                if let rid = member.rid, let before = try lastBlocking(of: rid, before: member.unit) { earlier.append(before) }
            }
            for found in earlier where seen.insert(found).inserted { work.append(found) }
        }
        return seen
    }
}
