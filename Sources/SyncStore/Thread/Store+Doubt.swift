import SyncCore
import SyncSQLite

// The database file may be an older copy that was put back. Then the mutations that wait in it may have been sent since, and the hub may
// know their keys with later content. This device cannot tell. The hub can, with its first answer to a push: it refuses one whose
// `max_sent_seq` is below what it has seen of this replica.
//
// Until then, no edit is merged into a mutation that waited at the start: its key must carry the content that may have been sent before. An
// edit gets a mutation of its own, so each start costs one more mutation for each record that is edited before the hub answers.

extension Store {
    /// Marks everything in the database as doubtful. Called when it was opened.
    func markAllDoubtful() { doubtfulSeq = opening.isNew ? 0 : ledger[.nextSeq] - 1 }

    /// Ends the doubt about mutations above the ones stated as sent. The hub has answered a push, so it has seen nothing of this replica
    /// above the `seq` that the push stated. Mutations below it were sent, or wait for something else and stay doubtful.
    ///
    /// An existing backend knows no replicas and proves nothing.
    func markAnswered() {
        guard rest == nil, statedSeq > 0 else { return }
        doubtfulSeq = min(doubtfulSeq, statedSeq)
    }

    func isDoubtful(_ seq: Int64) -> Bool {
        seq <= doubtfulSeq && !options.ablations.contains(.coalescedInDoubt)
    }
}

// MARK: - A key that the hub knows with other content

extension Store {
    /// Returns whether the hub has refused a key that it had accepted with more content than this mutation has. That happens when an older
    /// copy of the database was put back: edits were merged into the mutation after the copy was made and before it was sent. A key is made
    /// with the first content and later edits only add to it, so a mutation with its first content alone is part of what the hub has.
    func isContained(_ row: OutboxRow, in problem: Problem) throws(StoreError) -> Bool {
        guard problem.code == Self.keyIsOther, problem.members["original"]?.text == "accepted", row.rid != nil else { return false }
        // A rescue may have lost the receipts of edits that were merged into the mutation.
        let salvaged = try MetaTable(database).text(MetaTable.salvagedSeq).flatMap { Int64($0) } ?? 0
        guard row.seq > salvaged else { return false }
        return try parts(of: row.seq).isEmpty
    }

    /// The content that a retry of a refused mutation sends.
    ///
    /// - Returns: `nil` for all of its content. Where the hub has accepted its key with the first content, only the edits that were merged
    ///   into it since: the first content must not be applied twice.
    func unsentContent(of row: OutboxRow, _ rules: EntityRules) throws(StoreError) -> MutationContent? {
        guard let problem = Problem.read(stored: row.problem), problem.code == Self.keyIsOther,
            problem.members["original"]?.text == "accepted"
        else { return nil }
        var content: MutationContent?
        for seq in try parts(of: row.seq) {
            guard let part = try payload(seq)?.content(under: rules) else { return nil }
            guard let before = content else {
                content = part
                continue
            }
            guard case .one(let both)? = Coalescing.merge(before, part) else { return nil }
            content = both
        }
        return content
    }

    /// Returns whether the hub will refuse every replacement of this mutation, because it has decided its key, or the key of one before it,
    /// in a run of this database that is lost here. A person who retries it makes a new decision.
    func isDecidedElsewhere(_ row: OutboxRow) -> Bool {
        let code = Problem.read(stored: row.problem)?.code
        return code == Self.keyIsOther || code == Self.isDone
    }

    /// The content of a retry where the hub has already accepted the mutation (`already-decided`). The values are sent again, because a
    /// person has decided for them; operations that the hub has applied already are left out.
    func withoutWhatIsDone(
        _ content: MutationContent, of payload: Payload, _ problem: Problem?, _ rules: EntityRules
    ) throws(StoreError) -> MutationContent {
        guard problem?.code == Self.isDone else { return content }
        var content = content
        var payload = payload
        // The answer names one of the keys, and each mutation holds the content of the one before it.
        while let older = payload.supersedes.flatMap({ UUIDv7.carried(in: $0) }), older < payload.seq, let past = try self.payload(older) {
            let done = past.content(under: rules) ?? MutationContent(.update)
            content.operations.removeAll { operation in
                done.operations.contains { ($0.field, $0.kind, $0.value) == (operation.field, operation.kind, operation.value) }
            }
            for field in done.data.names where rules.strategy(of: field).addsUp && content.data[field] == done.data[field] {
                content.data[field] = nil
                content.base[field] = nil
            }
            payload = past
        }
        return content
    }

    private static let keyIsOther = "idempotency-mismatch"
    private static let isDone = "already-decided"

    /// Edits that were merged into a mutation, in their order. Their receipts stay as long as it is open.
    private func parts(of seq: Int64) throws(StoreError) -> [Int64] {
        try database.all("SELECT seq FROM mutation WHERE into_seq = ? AND state = 9 ORDER BY seq", .int(seq)) {
            row throws(StoreError) in row.int(0)
        }
    }
}
