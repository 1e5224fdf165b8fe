import SyncCore
import SyncSQLite

// Faults that a test build can cause on purpose (SyncCore/Ablation.swift).

extension Store {
    /// `keyPerAttempt`: the same mutation gets another key.
    func renewKey(of payload: inout Payload) throws(StoreError) {
        payload.id = payload.recordID.text
        payload.key = UUIDv7.make(at: Timestamp(milliseconds: payload.createdMS), carrying: payload.seq, using: &random)
        try rewrite(payload)
    }

    /// `sentPayloadRewritten`: an update is merged into the newest mutation of its record, although that was already sent.
    func mergeIntoSent(
        _ intent: EnqueueIntent, _ payload: Payload, _ record: MirrorRow?
    ) throws(StoreError) -> Enqueued? {
        guard options.ablations.contains(.sentPayloadRewritten), payload.action == .update, var record,
            let newest = try database.first(
                "SELECT * FROM mutation WHERE rid = ? AND state < 6 AND state <> 3 ORDER BY seq DESC LIMIT 1",
                .int(record.rid), read: { row throws(StoreError) in OutboxRow(row) }),
            newest.state == .pending, newest.isSent, var older = try self.payload(newest.seq), older.action != .delete,
            var content = older.content(under: intent.rules), let added = payload.content(under: intent.rules)
        else { return nil }
        for member in added.data.members { content.data[member.name.text] = member.value }
        content.operations += added.operations
        older.setContent(content)
        try rewrite(older)
        record.setView(intent.document)
        try save(&record)
        // The number stays unused: no caller will ask for this mutation again.
        ledger[.absorbedSeq] = payload.seq
        ledger[.enqueued] += 1
        ledger.add(1, to: Ledger.Group(aid: payload.aid, eid: payload.eid, priority: payload.priority, state: .coalesced))
        ledger[.pruned] += 1
        let name = RecordName(intent.mutation.entity, payload.recordID)
        return Enqueued(
            key: MutationKey(trusted: older.key), seq: older.seq, state: .coalesced,
            record: RecordSnapshot(record, name, pending: []), recordName: name, isRepeat: false,
            durability: intent.rules.durability)
    }
}
