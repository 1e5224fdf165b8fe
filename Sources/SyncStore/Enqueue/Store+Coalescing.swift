import SyncCore
import SyncSQLite

// Merges an edit into the edit before it, as long as that was not sent (PROTOCOL C6). SyncCore/Outbox/Coalescing.swift computes the result.
// This file decides whether the merge is allowed, because both rows are here.

extension Store {
    /// Merges a mutation into the one before it on its record. Invariant: the app's receipt stays valid. It names the older mutation and is
    /// kept as long as that.
    ///
    /// - Parameter payload: The complete payload, not yet written.
    /// - Returns: `nil` when the mutation must stay separate. Nothing was written then.
    func coalesce(
        _ intent: EnqueueIntent, _ payload: Payload, _ record: MirrorRow
    ) throws(StoreError) -> Enqueued? {
        guard intent.rules.coalesces, !intent.rules.keepsHistory, intent.group == nil, payload.coalesces,
            payload.action != .create, payload.supersedes == nil, record.status != .synced,
            let older = try newest(of: record.rid), isOpen(older),
            var kept = try self.payload(older.seq), try mayJoin(intent, payload, older, kept),
            case () = try dateAnew(&kept), let first = kept.content(under: intent.rules), let second = payload.content(under: intent.rules),
            Self.hasNoManualField(first, second, intent.rules), !Self.mayGiveWay(first, second, kept, intent.rules),
            var outcome = Coalescing.merge(
                first, second,
                stamp: options.ablations.contains(.joinedStampsLost) ? nil : stampOfParts(kept, in: payload) ?? clock.last)
        else { return nil }
        if case .nothing = outcome {
            // If the hub may have made the record meanwhile, or other changes wait for its create, both mutations are sent.
            guard !record.isAtHub, try tied(to: older.seq).isEmpty else { return nil }
            if !options.ablations.contains(.takenBackUntold), try !isUnknownElsewhere(kept) {
                // A backend that cannot delete would keep what the create has made.
                if let rest, rest.entities[intent.mutation.entity]?.delete == nil { return nil }
                outcome = .one(MutationContent(.delete))
            }
        }
        switch outcome {
        case .nothing:
            try finalize(older, as: .cancelled, keptFor: try keptFor(older))
            return try receive(intent, payload, older, MutationKey(trusted: kept.key), as: .cancelled, record.rid)
        case .one(let content):
            guard !content.hasParts || stampOfParts(kept, in: payload) != nil else { return nil }
            let entity = intent.mutation.entity
            // The fingerprint of the key covers both requests, whatever a rebase made of the older one before.
            kept.firstDigest = kept.firstDigest.map { Fingerprint.joined($0, payload.digest(entity: entity)) }
            kept.setContent(content)
            guard kept.contentBytes <= Coalescing.bytesMax else { return nil }
            kept.action = content.action
            // Its stamp is that of the last edit; the time that it has waited counts from the first.
            (kept.hlc, kept.clock, kept.bid, kept.bootMS) = (payload.hlc, payload.clock, payload.bid, payload.bootMS)
            kept.bytes = max(kept.bytes, payload.bytes, Int64(kept.contentBytes))
            try rewrite(kept)
            if kept.action != .create { try keepEarlier(intent, for: older.seq, before: record.document) }
            try database.run("UPDATE mutation SET bytes = ? WHERE seq = ?", .int(kept.bytes), .int(older.seq))
            return try receive(intent, payload, older, MutationKey(trusted: kept.key), as: .coalesced, record.rid)
        }
    }

    private func newest(of rid: Int64) throws(StoreError) -> OutboxRow? {
        try database.first("SELECT * FROM mutation WHERE rid = ? AND state < 6 ORDER BY seq DESC LIMIT 1", .int(rid)) {
            row throws(StoreError) in OutboxRow(row)
        }
    }

    /// Returns whether no part of it was sent, also not in an earlier run of this database, and it is independent of other mutations.
    private func isOpen(_ older: OutboxRow) -> Bool {
        guard older.group == nil, older.state == .pending, !isDoubtful(older.seq) else { return false }
        return !older.isSent || options.ablations.contains(.sentCoalesced)
    }

    private func mayJoin(
        _ intent: EnqueueIntent, _ payload: Payload, _ older: OutboxRow, _ kept: Payload
    ) throws(StoreError) -> Bool {
        // A deadline belongs to its own change. With different deadlines, one change would expire too late or the other too early.
        guard kept.coalesces, kept.aid == payload.aid, kept.priority == payload.priority, kept.author == payload.author,
            kept.blobs == nil, payload.blobs == nil, kept.ttlAge == payload.ttlAge || options.ablations.contains(.deadlinesJoined)
        else { return false }
        // A tie of the newer one may lead back to the older one through others.
        let known = Set(try ties(of: older.seq) + [older.seq])
        return intent.ties.unmet.isEmpty && intent.ties.on.isSubset(of: known)
    }

    /// Returns whether neither change touches a field that people decide: those are shown as they were asked for.
    private static func hasNoManualField(_ first: MutationContent, _ second: MutationContent, _ rules: EntityRules) -> Bool {
        [first, second].allSatisfy { content in
            let touched = content.data.names + content.unset + content.operations.map(\.field)
            return !touched.contains { rules.strategy(of: $0) == .manual }
        }
    }

    /// Returns whether a deletion may give way at the hub. Then it must not absorb the change before it. This concerns entities where
    /// changes win, and cases where a person may be asked, as for every deletion beside a change of a field that people decide. Only for an
    /// id that was made up here it is certain that no other device has changed the record; an id that an app chose may be in use at the
    /// hub.
    private static func mayGiveWay(
        _ first: MutationContent, _ second: MutationContent, _ kept: Payload, _ rules: EntityRules
    ) -> Bool {
        guard second.action == .delete, !(first.action == .create && kept.id == nil) else { return false }
        return rules.onDeleted != .deleteWins || rules.mayAskPeople
    }

    /// Returns whether the record of this create is unknown to every other side: its id was made up here, or the backend gives its own ids
    /// and has given none.
    private func isUnknownElsewhere(_ kept: Payload) throws(StoreError) -> Bool {
        if kept.id == nil { return true }
        guard let entity = rest?.entities[names.entity(kept.eid)], entity.clientID == nil else { return false }
        return try backendName(of: kept.recordID.text, kept.eid) == nil
    }

    /// Writes the receipt of the newer mutation, and the present record.
    private func receive(
        _ intent: EnqueueIntent, _ payload: Payload, _ older: OutboxRow, _ key: MutationKey, as state: MutationState, _ rid: Int64
    ) throws(StoreError) -> Enqueued {
        try payload.insert(into: database)
        var row = OutboxRow(
            seq: payload.seq, priority: intent.priority, eid: payload.eid, aid: payload.aid, rid: rid, bytes: payload.bytes)
        row.state = state
        row.into = older.seq
        // The receipt stays until the older one is settled.
        var keptFor = try keptFor(older)
        // Where the answer to a repeated request is not "done", it must come from the row.
        if payload.appKey != nil { keptFor = max(keptFor, Self.appKeysKeptFor) }
        row.pruneAge = state == .coalesced ? .max : pruneAge(eid: payload.eid, keptFor: keptFor)
        try row.insert(into: database)
        ledger.add(1, to: row.ledgerGroup)
        ledger[.enqueued] += 1
        ledger[.absorbedSeq] = payload.seq
        journal.add(.mutation(state), payload.seq)
        var records = TouchedRecords()
        try touch(rid, &records)
        records[rid]?.needsFold = true
        records[rid]?.row.countEdit()
        try finish(records)
        let present = try MirrorRow.find(database, rid: rid)
        var answer = answer(intent, payload, record: present, pending: try openKeys(of: rid), state: state)
        answer.into = key
        return answer
    }
}
