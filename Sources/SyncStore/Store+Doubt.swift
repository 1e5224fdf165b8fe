import SyncCore

// The file of the database may be an older copy that somebody put back. Then what waits in it may have been sent since, and
// the hub may know its key with the content of that time. Nothing on this device tells; the hub does, with its first answer
// to a push: it refuses one whose `max_sent_seq` is below what it has seen of this replica.
//
// Until then a mutation that waited at the start takes no edits in: under its key must go what may have gone before. An
// edit gets a mutation of its own, so each start costs one more mutation for each record that is edited before the hub
// answers.

extension Store {
    /// Called when the database was opened: everything in it is in doubt.
    func doubtWhatWaits() { doubtfulSeq = opening.isNew ? 0 : ledger[.nextSeq] - 1 }

    /// The hub has answered a push, so it has seen nothing of this replica above what that push stated as sent. What is
    /// below it was sent, or waits for something else and stays in doubt.
    ///
    /// An existing backend knows no replicas and proves nothing.
    func noteAnswered() {
        guard rest == nil, statedSeq > 0 else { return }
        doubtfulSeq = min(doubtfulSeq, statedSeq)
    }

    func isDoubtful(_ seq: Int64) -> Bool {
        seq <= doubtfulSeq && !options.ablations.contains(.coalescedInDoubt)
    }
}

// MARK: - A key that the hub knows with other content

extension Store {
    /// Whether the hub has refused a key that it had accepted with more content than this mutation has. That happens when
    /// an older copy of the database was put back: the mutation had taken in edits after the copy was made and before it
    /// was sent. A key is made with the first content and later content only adds to it, so a mutation that has its first
    /// content alone is part of what the hub has.
    func isContained(_ row: OutboxRow, in problem: Problem) throws(StoreError) -> Bool {
        guard problem.code == Self.keyIsOther, problem.members["original"]?.text == "accepted", row.rid != nil else { return false }
        // A rescue may have lost the receipts of edits that the mutation has taken in.
        let salvaged = try MetaTable(database).text(MetaTable.salvagedSeq).flatMap { Int64($0) } ?? 0
        guard row.seq > salvaged else { return false }
        return try parts(of: row.seq).isEmpty
    }

    /// What a retry sends anew of a refused mutation.
    ///
    /// - Returns: `nil` for all of its content. Where the hub has accepted its key with the first content, the edits that
    ///   it has taken in since: the first content must not be applied twice.
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

    /// Whether the hub will refuse whatever answers for this mutation, because it has decided its key, or the key of one
    /// before it, in a life of this database that nobody here remembers. A person who retries it decides anew.
    func isDecidedElsewhere(_ row: OutboxRow) -> Bool {
        let code = Problem.read(stored: row.problem)?.code
        return code == Self.keyIsOther || code == Self.isDone
    }

    /// What a retry says where the hub has accepted what it answers for (`already-decided`): the values again, since a person has
    /// decided for them, and without the operations that the hub has done already.
    func withoutWhatIsDone(
        _ content: MutationContent, of payload: Payload, _ problem: Problem?, _ rules: EntityRules
    ) throws(StoreError) -> MutationContent {
        guard problem?.code == Self.isDone else { return content }
        var content = content
        var payload = payload
        // The answer names one of them, and each holds what the one before it asked for.
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

    /// Edits that went into a mutation, in their order. Their receipts stay as long as it is open.
    private func parts(of seq: Int64) throws(StoreError) -> [Int64] {
        try database.all("SELECT seq FROM mutation WHERE into_seq = ? AND state = 9 ORDER BY seq", .int(seq)) {
            row throws(StoreError) in row.int(0)
        }
    }
}
