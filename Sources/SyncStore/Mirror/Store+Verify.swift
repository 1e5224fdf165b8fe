import SyncCore
import SyncSQLite

extension Store {
    /// Recomputes all data that is maintained step by step and compares it; for tests and for `doctor`. Reads every row.
    ///
    /// - Returns: Each disagreement as a sentence; empty when there is none.
    package func verify() throws(StoreError) -> [String] {
        var found = try verifyCounters()
        found += try verifyRows()
        found += try verifyReadiness()
        found += try verifyMirror()
        found += try verifyBlobTotal()
        found += try verifyIndexes()
        if staleMoves > 0 { found.append("\(staleMoves) changes of state were made on rows that had changed meanwhile") }
        return found
    }

    private func verifyCounters() throws(StoreError) -> [String] {
        var found: [String] = []
        var rows: [Ledger.Group: Int64] = [:]
        try database.each(
            """
            SELECT p.aid, p.eid, coalesce(m.priority, p.priority), coalesce(m.state, 0), count(*)
            FROM payload p LEFT JOIN mutation m ON m.seq = p.seq GROUP BY 1, 2, 3, 4
            """
        ) { row throws(StoreError) in
            guard let priority = Priority(rawValue: Int(row.int(2))), let state = MutationState(rawValue: Int(row.int(3)))
            else { return }
            rows[Ledger.Group(aid: row.int(0), eid: row.int(1), priority: priority, state: state)] = row.int(4)
        }
        var pruned: Int64 = 0
        for group in Set(rows.keys).union(ledger.counts.keys) {
            let counted = ledger.counts[group] ?? 0, present = rows[group] ?? 0
            if counted == present { continue }
            if group.state.isTerminal, counted > present {
                pruned += counted - present
            } else {
                found.append("\(counted) mutations are counted as \(group), \(present) are there")
            }
        }
        if pruned != ledger[.pruned] { found.append("\(pruned) pruned mutations, \(ledger[.pruned]) are counted") }
        let sum = ledger.counts.values.reduce(0, +)
        if sum != ledger[.enqueued] { found.append("\(ledger[.enqueued]) were enqueued, the states add up to \(sum)") }
        let open = ledger.counts.reduce(0) { $0 + ($1.key.state.isTerminal ? 0 : $1.value) }
        if open != ledger.open || open != ledger.openByApp.values.reduce(0, +) {
            found.append("\(open) mutations are open, \(ledger.open) in sum, \(ledger.openByApp) by app")
        }
        return found
    }

    private func verifyRows() throws(StoreError) -> [String] {
        var found: [String] = []
        func expectNone(_ sentence: String, _ sql: StaticString, _ values: Int64...) throws(StoreError) {
            let statement = try database.statement(sql, values.map { .int($0) })
            defer { statement.reset() }
            while try database.step(statement) { found.append("\(sentence): \(statement.int(0))") }
        }
        try expectNone(
            "a mutation without its payload",
            "SELECT seq FROM mutation WHERE NOT EXISTS (SELECT 1 FROM payload WHERE payload.seq = mutation.seq)")
        try expectNone(
            "a payload that was absorbed and has no narrow row",
            "SELECT seq FROM payload WHERE seq <= ? AND NOT EXISTS (SELECT 1 FROM mutation WHERE mutation.seq = payload.seq)",
            ledger[.absorbedSeq])
        try expectNone(
            "a narrow row that was not absorbed", "SELECT seq FROM mutation WHERE seq > ?", ledger[.absorbedSeq])
        try expectNone("a seq that is given again", "SELECT seq FROM payload WHERE seq >= ?", ledger[.nextSeq])
        try expectNone("an event id that is given again", "SELECT n FROM event WHERE n + count > ?", ledger[.nextEvent])
        try expectNone("a rid that is given again", "SELECT rid FROM record WHERE rid >= ?", ledger[.nextRecord])
        try expectNone(
            "an unanswered mutation in the acknowledged part",
            "SELECT seq FROM mutation WHERE seq <= ? AND state IN (0, 1, 4, 5)", ledger[.ackedSeq])
        try expectNone(
            "a sent mutation above the highest sent", "SELECT seq FROM mutation WHERE sent = 1 AND seq > ?",
            ledger[.maxSentSeq])
        return found
    }

    private func verifyReadiness() throws(StoreError) -> [String] {
        let rows = try database.all("SELECT * FROM mutation WHERE state < 6 ORDER BY seq") { row throws(StoreError) in
            OutboxRow(row)
        }
        var found: [String] = []
        var before: [Int64: [OutboxRow]] = [:]
        var ties: [Int64: [Int64]] = [:]
        try database.each("SELECT seq, on_seq FROM tie") { row throws(StoreError) in ties[row.int(0), default: []].append(row.int(1)) }
        func isFree(_ row: OutboxRow, except group: ClosedRange<Int64>?) -> Bool {
            let older = row.rid.flatMap { before[$0] } ?? []
            return row.state == .pending && row.nextAge == nil && ties[row.seq] == nil
                && !older.contains { $0.state != .rejected && $0.seq < (group?.lowerBound ?? row.seq) }
        }
        for row in rows { if let rid = row.rid { before[rid, default: []].append(row) } }
        found += try verifyTies(ties, rows)
        for row in rows {
            var expected = isFree(row, except: row.group)
            if let group = row.group {
                let members = rows.filter { $0.group == group }
                let waiting = members.filter { $0.state == .pending }
                expected =
                    waiting.first?.seq == row.seq && waiting.allSatisfy { isFree($0, except: group) }
                    && !members.contains { $0.state.blocksItsRecord }
            }
            if expected != row.isReady {
                found.append("mutation \(row.seq) is \(row.isReady ? "" : "not ")marked as ready: \(circumstances(of: row, before, ties))")
            }
            let urgent = row.rid.flatMap { before[$0] }?.first { $0.seq < row.seq && $0.state == .pending && $0.priority > row.priority }
            if row.state == .pending, let urgent {
                found.append("mutation \(urgent.seq) is less urgent than \(row.seq), which waits for it")
            }
        }
        return found
    }

    /// The facts that decide whether a mutation is ready, in one line.
    private func circumstances(of row: OutboxRow, _ before: [Int64: [OutboxRow]], _ ties: [Int64: [Int64]]) -> String {
        let members = row.group.map { group in before.values.joined().filter { $0.group == group } } ?? [row]
        return members.sorted { $0.seq < $1.seq }.map { member in
            let older = (member.rid.flatMap { before[$0] } ?? []).filter { $0.seq < member.seq }.map { "\($0.seq) \($0.state.name)" }
            let delay = member.nextAge.map { ", delayed until \($0)" } ?? ""
            return "\(member.seq) \(member.state.name)\(delay), behind \(older), tied to \(ties[member.seq] ?? [])"
        }.joined(separator: "; ")
    }

    /// Checks that ties are between open mutations, or are about to end, and that a mutation is at least as urgent as those that wait for
    /// it.
    private func verifyTies(_ ties: [Int64: [Int64]], _ rows: [OutboxRow]) throws(StoreError) -> [String] {
        var found: [String] = []
        let open = Dictionary(uniqueKeysWithValues: rows.map { ($0.seq, $0) })
        let met = Set(try metTies())
        let falling = Set(try fallingTies().map(\.seq))
        let count = ties.values.reduce(0) { $0 + $1.count }
        if count != ledger[.ties] { found.append("\(count) ties, \(ledger[.ties]) are counted") }
        for (seq, earlier) in ties.sorted(by: { $0.key < $1.key }) {
            guard let row = open[seq] else {
                found.append("mutation \(seq) waits for \(earlier), and is settled")
                continue
            }
            for other in earlier {
                // A file that is not at the server yet.
                if other < 0, try reads.blob(BlobID(-other)).map({ $0.state != .uploaded }) == true { continue }
                guard let waited = open[other] else {
                    // A new event has no narrow row yet.
                    if other <= ledger[.absorbedSeq], !met.contains(other), !falling.contains(other) {
                        found.append("mutation \(seq) waits for \(other), which is settled")
                    }
                    continue
                }
                if waited.state == .rejected, !falling.contains(other) {
                    found.append("mutation \(seq) waits for \(other), which was refused")
                }
                if row.isUnsettled, waited.isUnsettled, waited.priority > row.priority {
                    found.append("mutation \(other) is less urgent than \(seq), which is tied to it")
                }
            }
        }
        return found
    }

    private func verifyMirror() throws(StoreError) -> [String] {
        var found: [String] = []
        for row in try database.all("SELECT * FROM record", read: { row throws(StoreError) in MirrorRow(row) }) {
            let name = "\(names.entity(row.eid))/\(row.id)"
            if row.isDamaged {
                found.append("record \(name) does not have its checksum")
                continue
            }
            let expected = try fold(row)
            if !sameBytes(expected, row.document) {
                found.append("record \(name) shows \(row.document ?? "nothing") instead of \(expected ?? "nothing")")
            }
            if row.stub != nil, row.base != nil || row.goneAge != nil || row.baseVersion == 0 {
                found.append("record \(name) has a stub beside what replaces it")
            }
            if let stub = row.stub, try stub.isHidden != isDeleted(row.rid, before: .max) {
                found.append("record \(name) has a stub that is \(stub.isHidden ? "" : "not ")hidden by a deletion")
            }
            let status = try self.status(of: row.rid)
            if status != row.status { found.append("record \(name) is \(row.status.name) instead of \(status.name)") }
            if row.status == .synced, row.view != nil { found.append("record \(name) is clean and keeps a view") }
        }
        return found
    }
}
