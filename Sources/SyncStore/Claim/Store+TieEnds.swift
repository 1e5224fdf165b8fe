package import SyncCore
import SyncSQLite

// Ends ties when the mutation that others are tied to has ended. The end is recorded with the change of state and carried out after the
// operation has written everything else, because it may affect any record.

/// The reason why a mutation ends together with one that had to come first.
enum Downfall {
    /// The hub has refused the first mutation, or another one that it depended on.
    case refused
    /// The record of the first mutation has left the share of this device.
    case revoked
    /// The first mutation was not sent in time, or ended with one that was not.
    case expired, fellWithExpired
    /// An app or a person has given the first mutation up.
    case givenUp(MutationState)
}

struct TieEnd {
    enum Kind {
        /// The mutation is at the hub, or nothing of it was left to send.
        case met
        /// The mutation will never be at the hub.
        case failed
        /// The mutation was handed to the network and did not get through.
        case returned
    }

    var seq: Int64
    var state: MutationState
    var kind: Kind
}

extension Store {
    /// - Parameter row: The row before the change of state.
    func addTieEnd(_ row: OutboxRow, now state: MutationState) {
        guard ledger[.ties] > 0 || ledger[.unmet] > 0 else { return }
        switch state {
        case .done, .superseded: transaction?.tieEnds.append(TieEnd(seq: row.seq, state: state, kind: .met))
        case .rejected, .cancelled, .expired, .discarded: transaction?.tieEnds.append(TieEnd(seq: row.seq, state: state, kind: .failed))
        case .pending, .conflicted, .failed, .held:
            if row.state == .inFlight { transaction?.tieEnds.append(TieEnd(seq: row.seq, state: state, kind: .returned)) }
        // The mutation that replaces these takes over their ties in `handOver`.
        case .inFlight, .resolved, .coalesced: break
        }
    }

    /// Releases or ends the mutations that were tied to the recorded ones, and those tied to them. However long the chain is, each record
    /// is folded once.
    func endTies() throws(StoreError) {
        while transaction?.tieEnds.isEmpty == false {
            var records = TouchedRecords()
            var unfinished: [TieEnd] = []
            while let end = transaction?.tieEnds.popLast() {
                if try !carryOut(end, &records) { unfinished.append(end) }
            }
            // Folding a record may set a damaged mutation aside, which ends further ties.
            try finish(records)
            try addFalling(unfinished)
        }
    }

    /// - Returns: `false` when a later transaction has to end the remaining tied mutations.
    private func carryOut(_ end: TieEnd, _ records: inout TouchedRecords) throws(StoreError) -> Bool {
        switch end.kind {
        case .met: if try !releaseTied(to: end.seq) { try addMet(end.seq) }
        case .failed: return try takeAlong(end, &records)
        case .returned:
            for seq in try tied(to: end.seq) { try returnTied(seq) }
        }
        return true
    }

    // MARK: - Releases and refusals beyond one transaction

    /// Releases the mutations that were tied to an accepted one, in order, up to the limit of one transaction. A record that tens of
    /// thousands of others wait for must not block the writer for all apps.
    ///
    /// - Returns: `true` when no mutation waits for it any more.
    private func releaseTied(to seq: Int64) throws(StoreError) -> Bool {
        guard ledger[.ties] > 0 else {
            try forgetUnmet(of: seq)
            return true
        }
        ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE seq = ?", .int(seq)))
        try forgetUnmet(of: seq)
        let room = max(0, Self.sliceRows - (transaction?.freed ?? 0))
        let waiting = try database.all("SELECT seq FROM tie WHERE on_seq = ? ORDER BY seq LIMIT ?", .int(seq), .int(Int64(room + 1))) {
            row throws(StoreError) in row.int(0)
        }
        let free = waiting.prefix(room)
        if let last = free.last {
            ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE on_seq = ? AND seq <= ?", .int(seq), .int(last)))
            transaction?.freed += free.count
            for seq in free { try refreshReadiness(of: seq) }
        }
        return free.count == waiting.count
    }

    private static let metKey = "ties_met"

    /// Accepted mutations with remaining ties. Invariant: an open tie to a settled mutation is listed here; otherwise it would never end.
    func metTies() throws(StoreError) -> [Int64] {
        guard ledger[.ties] > 0 else { return [] }
        return (try MetaTable(database).text(Self.metKey) ?? "").split(separator: ",").compactMap { Int64($0) }
    }

    private func addMet(_ seq: Int64) throws(StoreError) {
        let met = try metTies()
        if !met.contains(seq) { try keepMet(met + [seq]) }
    }

    private func keepMet(_ seqs: [Int64]) throws(StoreError) {
        try MetaTable(database).set(Self.metKey, seqs.map { String($0) }.joined(separator: ","))
    }

    /// Releases the next part of what earlier transactions left. `retryAt` is now as long as there is any.
    func releaseMet() throws(StoreError) {
        let met = try metTies()
        guard !met.isEmpty else { return }
        var left: [Int64] = []
        for seq in met where try !releaseTied(to: seq) { left.append(seq) }
        if left != met { try keepMet(left) }
    }

    /// Ends the mutations that were tied to one that will never be accepted, in order, up to the limit of one transaction. Undoing tens of
    /// thousands of changes at once would block the writer for all apps. The remaining ones stay tied, so they are not sent.
    ///
    /// - Returns: `true` when no mutation is tied to it any more.
    private func takeAlong(_ end: TieEnd, _ records: inout TouchedRecords) throws(StoreError) -> Bool {
        guard ledger[.ties] > 0 else {
            try forgetUnmet(of: end.seq)
            return true
        }
        ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE seq = ?", .int(end.seq)))
        try forgetUnmet(of: end.seq)
        let room = max(0, Self.sliceRows - (transaction?.freed ?? 0))
        let waiting = try database.all(
            "SELECT seq FROM tie WHERE on_seq = ? ORDER BY seq LIMIT ?", .int(end.seq), .int(Int64(room + 1))
        ) { row throws(StoreError) in row.int(0) }
        let falling = waiting.prefix(room)
        if let last = falling.last {
            ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE on_seq = ? AND seq <= ?", .int(end.seq), .int(last)))
            transaction?.freed += falling.count
            try rejectTied(Array(falling), to: end, &records)
        }
        return falling.count == waiting.count
    }

    private static let fallingKey = "ties_falling"

    /// Refused or abandoned mutations with remaining tied ones. The state is stored with them, because their rows may be pruned meanwhile.
    /// The last one comes first: the ties of an ended mutation are handled before those of the next, so the list stays short.
    func fallingTies() throws(StoreError) -> [TieEnd] {
        (try MetaTable(database).text(Self.fallingKey) ?? "").split(separator: ",").compactMap { entry in
            let parts = entry.split(separator: ":")
            guard parts.count == 2, let seq = Int64(parts[0]), let state = Int(parts[1]).flatMap({ MutationState(rawValue: $0) })
            else { return nil }
            return TieEnd(seq: seq, state: state, kind: .failed)
        }
    }

    /// - Parameter ends: The ends in the order in which they occurred.
    private func addFalling(_ ends: [TieEnd]) throws(StoreError) {
        guard !ends.isEmpty else { return }
        // The latest state counts: a refused change may be given up while tied mutations are still being ended.
        let noted = Set(ends.map(\.seq))
        try keepFalling(try fallingTies().filter { !noted.contains($0.seq) } + ends)
    }

    private func keepFalling(_ ends: [TieEnd]) throws(StoreError) {
        let text = ends.map { "\($0.seq):\($0.state.rawValue)" }.joined(separator: ",")
        try MetaTable(database).set(Self.fallingKey, text)
        isFalling = !ends.isEmpty
    }

    /// Ends the next part of what earlier transactions left. The store's thread repeats it as long as there is any.
    ///
    /// - Returns: `true` when there is more.
    @discardableResult
    func takeAlongFalling() throws(StoreError) -> Bool {
        guard isFalling else { return false }
        let ends = try fallingTies()
        try keepFalling([])
        transaction?.tieEnds += ends
        try endTies()
        return isFalling
    }

    /// Does the same in a transaction of its own, or as a part of the open one.
    package func goOnFalling(at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try takeAlongFalling()
        }
    }

    /// Removes the ties of a mutation in both directions.
    private func untie(_ seq: Int64) throws(StoreError) {
        guard ledger[.ties] > 0 else { return try forgetUnmet(of: seq) }
        ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE seq = ?", .int(seq)))
        ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE on_seq = ?", .int(seq)))
        try forgetUnmet(of: seq)
    }

    func refreshReadiness(of seq: Int64) throws(StoreError) {
        guard let row = try outboxRow(seq), row.state == .pending else { return }
        if let group = row.group {
            try refreshReadiness(ofGroup: group)
        } else if let rid = row.rid {
            try refreshReadiness(ofRecord: rid)
        } else {
            let isTied = try isTied(seq)
            try setReady(seq, row.nextAge == nil && !isTied, was: row.isReady)
        }
    }

    /// Rejects the mutations that were to come after one that was refused or given up (PROTOCOL C5). Their values wait in the same list and
    /// can be retried together with it.
    private func rejectTied(_ waiting: [Int64], to end: TieEnd, _ records: inout TouchedRecords) throws(StoreError) {
        guard !waiting.isEmpty else { return }
        let parent = try payload(end.seq)?.key ?? "\(end.seq)"
        let ended = try outboxRow(end.seq)
        // If another device has created the record, the refused create was unnecessary: the record exists, and its children need no more.
        var isThere = false
        if let rid = ended?.rid { isThere = try MirrorRow.find(database, rid: rid)?.isAtHub == true }
        let downfall: Downfall =
            switch end.state {
            case .expired: .expired
            case .rejected:
                switch Problem.read(stored: ended?.problem)?.code {
                case Self.parentExpired?: .fellWithExpired
                case Problem.revoked?: .revoked
                default: .refused
                }
            case .pending, .inFlight, .conflicted, .failed, .held, .done, .resolved, .discarded, .coalesced, .cancelled, .superseded:
                .givenUp(end.state)
            }
        for seq in waiting {
            guard let row = try outboxRow(seq) else { continue }
            if isThere, try !names(seq, parent) {
                try refreshReadiness(of: seq)
                continue
            }
            try rejectAlong(row, with: parent, downfall, &records)
        }
    }

    /// Rejects a new mutation at once if it depends on one that the hub has refused. It waits for a person in the same list and is retried
    /// together with that one.
    ///
    /// - Returns: Its new state; `nil` when it depends on no such mutation.
    func rejectIfDoomed(_ seq: Int64, _ intent: EnqueueIntent) throws(StoreError) -> MutationState? {
        var ends: [TieEnd] = []
        for earlier in intent.ties.on.sorted() where try outboxRow(earlier)?.state == .rejected {
            ends.append(TieEnd(seq: earlier, state: .rejected, kind: .failed))
        }
        guard !ends.isEmpty else { return nil }
        // An atomic list is rejected when it is complete.
        guard intent.group == nil else {
            transaction?.tieEnds += ends
            return nil
        }
        // Only this mutation, also if thousands of earlier ones are still to be ended.
        var records = TouchedRecords()
        for end in ends {
            ledger[.ties] -= Int64(try database.run("DELETE FROM tie WHERE seq = ? AND on_seq = ?", .int(seq), .int(end.seq)))
            try rejectTied([seq], to: end, &records)
        }
        try finish(records)
        try endTies()
        return try outboxRow(seq)?.state
    }

    /// Rejects a mutation that the hub holds back for one that will never come: an earlier history of the hub had it, and the present one
    /// has refused it. It is treated as if it had been tied.
    func fallWithDependencies(of seq: Int64) throws(StoreError) {
        guard let text = try payload(seq)?.depends else { return }
        for key in try presentDependencies(text) {
            guard let earlier = try self.seq(of: MutationKey(trusted: key)), let row = try outboxRow(earlier) else { continue }
            switch row.state {
            case .rejected, .discarded, .cancelled, .expired:
                try tie(seq, to: earlier)
                transaction?.tieEnds.append(TieEnd(seq: earlier, state: row.state, kind: .failed))
            case .pending, .inFlight, .conflicted, .failed, .held, .done, .resolved, .coalesced, .superseded: continue
            }
        }
    }

    /// Returns whether a mutation names another one in its `depends_on`, or one that the other has replaced.
    private func names(_ seq: Int64, _ key: String) throws(StoreError) -> Bool {
        guard let text = try payload(seq)?.depends else { return false }
        return try presentDependencies(text).contains(key)
    }

    /// Rejects a waiting mutation with the rest of its atomic list, and the mutations of a record that it was to create.
    ///
    /// A member in dispute stays with the person, and its decision joins what was rejected. Where other members have expired it ends as
    /// well, because their rows are removed after a while.
    func rejectAlong(
        _ row: OutboxRow, with parent: String, _ downfall: Downfall, _ records: inout TouchedRecords
    ) throws(StoreError) {
        var work = [row]
        while let next = work.popLast() {
            for member in try next.group.map(groupMembers) ?? [next] {
                // Read again, because another mutation may have ended it already.
                guard var member = try outboxRow(member.seq) else { continue }
                if member.state == .conflicted, case .expired = downfall {
                    try endDispute(of: member.seq, MutationState.expired.name)
                } else if member.state != .pending {
                    continue
                }
                member.problem = Self.fallen(with: parent, downfall).stored
                try move(member, to: .rejected)
                guard let rid = member.rid else { continue }
                try touch(rid, &records)
                records[rid]?.needsFold = true
                work += try followers(of: member, in: records)
            }
        }
    }

    static let parentRejected = "parent-rejected"
    static let parentExpired = "parent-expired"

    static func fallen(with parent: String, _ downfall: Downfall) -> Problem {
        let (code, fate) =
            switch downfall {
            case .refused: (parentRejected, "was refused by the hub")
            case .revoked: (parentRejected, "was set aside, because its record left the share of this device")
            case .expired: (parentExpired, "expired before it was sent")
            case .fellWithExpired: (parentExpired, "was rejected with a change that expired before it was sent")
            case .givenUp(let state): (parentRejected, "is \(state.name)")
            }
        return Problem(
            code, status: 409, detail: "the mutation \(parent), which has to come first, \(fate)",
            members: ["parent": .string(parent)])
    }

    /// Returns the mutations to the queue that were sent together with one that did not get through, and those behind them on the same
    /// record. They must not be settled before it.
    private func returnTied(_ seq: Int64) throws(StoreError) {
        guard let row = try outboxRow(seq), row.state == .inFlight, !options.ablations.contains(.tiesIgnored) else { return }
        for member in try row.group.map(groupMembers) ?? [row] {
            // Read again: a mutation that was in flight behind another member has been returned already.
            guard let member = try outboxRow(member.seq), member.state == .inFlight else { continue }
            try move(member, to: .pending)
            if let rid = member.rid { try returnLater(of: rid, after: member.seq) }
        }
        try refreshReadiness(of: seq)
    }

    /// Returns mutations to the queue that wait for a file (`blobs.gate: before`), after a rescue has put everything that waited in flight.
    /// Otherwise the hub would get them before their files. Atomic lists return as a whole, and so does what must not overtake a returned
    /// mutation. Key and payload stay frozen, so a mutation that did arrive is recognised.
    func returnGated() throws(StoreError) {
        guard ledger[.ties] > 0, !options.ablations.contains(.tiesIgnored) else { return }
        var work = try database.all("SELECT DISTINCT seq FROM tie WHERE on_seq < 0 ORDER BY seq") { row throws(StoreError) in row.int(0) }
        var returned: [Int64] = []
        while let seq = work.popLast() {
            guard let found = try outboxRow(seq), found.state == .inFlight else { continue }
            for member in try found.group.map(groupMembers) ?? [found] where member.state == .inFlight {
                try move(member, to: .pending)
                returned.append(member.seq)
                work += try tied(to: member.seq)
                if let next = try nextInFlight(behind: member) { work.append(next) }
            }
        }
        for seq in returned { try refreshReadiness(of: seq) }
    }

    /// The next mutation of its record that is in flight; that one is asked for the one behind it.
    private func nextInFlight(behind row: OutboxRow) throws(StoreError) -> Int64? {
        guard let rid = row.rid else { return nil }
        return try database.number(
            "SELECT seq FROM mutation WHERE rid = ? AND seq > ? AND state < 6 AND state = 1 ORDER BY seq LIMIT 1", .int(rid), .int(row.seq))
    }

    /// Moves the ties of an older mutation to the newer one that replaces it.
    func handOver(from older: Int64, to newer: Int64) throws(StoreError) {
        guard ledger[.ties] > 0 else { return }
        var freed: [Int64] = []
        let waiting = try tied(to: older)
        guard !waiting.isEmpty else { return try untie(older) }
        let before = try waitedFor(by: newer)
        for seq in waiting {
            // The newer one follows the earlier mutations of its record, so those cannot wait for it.
            guard let before, !before.contains(seq) else { freed.append(seq); continue }
            // A mutation that is tied to both keeps its tie to the newer one; the other tie is removed with those of the older.
            try database.run("UPDATE OR IGNORE tie SET on_seq = ? WHERE seq = ? AND on_seq = ?", .int(newer), .int(seq), .int(older))
        }
        try untie(older)
        for seq in freed { try refreshReadiness(of: seq) }
        for seq in try tied(to: newer) {
            if let row = try outboxRow(seq) { try raisePriorities(before: row) }
        }
    }

    // MARK: - On the wire

    /// The dependencies that the hub is told. They leave out mutations that the hub will never see because nothing of them was left to
    /// send. They also leave out mutations that this one does not wait for here; otherwise each of the two would wait for the other.
    ///
    /// - Returns: `nil` when nothing is left.
    func sentDependencies(of seq: Int64, _ text: String) throws(StoreError) -> String? {
        let waits = Set(try ties(of: seq))
        let list = try outboxRow(seq)?.group
        var keys: [String] = []
        for key in try presentDependencies(text) {
            guard let earlier = UUIDv7.carried(in: key), let row = try outboxRow(earlier), try payload(earlier)?.key == key else {
                keys.append(key)
                continue
            }
            // Members of one list do not wait for each other; their order says which comes first.
            let isBefore = row.state.isTerminal || waits.contains(earlier) || (list != nil && list == row.group && earlier < seq)
            if row.state == .superseded || !isBefore { continue }
            keys.append(key)
        }
        return keys.isEmpty ? nil : JSON.list(keys).json
    }

    /// The keys that a mutation depends on, as the hub knows them: a replaced mutation has the key of its replacement.
    func presentDependencies(_ text: String) throws(StoreError) -> [String] {
        var keys: [String] = []
        // Only rows with a correct checksum come here, and the text is a list of keys that this program wrote.
        for key in (StoredJSON.read(text)?.array ?? []).compactMap(\.text) {
            var present = key
            var next = UUIDv7.carried(in: key)
            while let seq = next, let into = try outboxRow(seq)?.replacement, let key = try payload(into)?.key {
                (present, next) = (key, into)
            }
            keys.append(present)
        }
        return keys
    }
}
