import SyncCore
import SyncSQLite

extension Store {
    /// Appends a new event without any other write.
    func appendEvent(_ intent: EnqueueIntent) throws(StoreError) -> Enqueued {
        try complete(&intent.payload, intent)
        try intent.payload.insert(into: database)
        count(intent.payload)
        return answer(intent, intent.payload, record: nil)
    }

    /// Writes the outbox row, the view and the status.
    func write(_ intent: EnqueueIntent) throws(StoreError) -> Enqueued {
        try prepareForChange()
        try drop(intent.dropped)
        var payload = intent.payload
        try complete(&payload, intent)
        var record = intent.record
        if record == nil, !intent.isEvent {
            record = MirrorRow(
                rid: ledger.next(.nextRecord), eid: payload.eid, id: payload.recordID.text, at: now.wall)
        }
        if let merged = try mergeIntoSent(intent, payload, record) { return merged }
        if let record, !record.isNew, let merged = try coalesce(intent, payload, record) { return merged }
        try payload.insert(into: database)
        var row = OutboxRow(
            seq: payload.seq, priority: intent.priority, eid: payload.eid, aid: payload.aid, rid: record?.rid,
            bytes: payload.bytes)
        row.group = intent.group?.seqs
        row.ttlAge = payload.ttlAge
        let hasOthers = record.map { $0.status != .synced } ?? false
        var waitsBehind = false
        if hasOthers, let record { waitsBehind = try firstBlocking(of: record.rid) != nil }
        // The readiness of an atomic list is decided for the whole list with its last member.
        row.isReady = intent.group == nil && !waitsBehind && intent.ties.on.isEmpty
        try row.insert(into: database)
        try keepEarlier(intent, for: payload.seq, before: record?.document)
        count(payload)
        ledger[.absorbedSeq] = payload.seq
        journal.add(.mutation(.pending), payload.seq)
        if !intent.ties.isEmpty || ledger[.unmet] > 0 { try tie(row, payload, intent.ties) }
        if intent.chain > 1 { chains.record(intent.chain, of: payload.seq) }
        if let older = payload.supersedes.flatMap({ UUIDv7.carried(in: $0) }) { try handOver(from: older, to: row.seq) }
        if waitsBehind || !intent.ties.on.isEmpty { try raisePriorities(before: row) }
        guard var record else {
            return answer(intent, payload, record: nil, state: try rejectIfDoomed(payload.seq, intent) ?? .pending)
        }
        record.setView(intent.document)
        switch payload.action {
        case .delete: record.hideStub(true)
        // Made anew over its open deletion: the last of the two decides, as it does when the row is read again.
        case .create: record.hideStub(false)
        case .update: break
        }
        record.countEdit()
        if record.status == .synced { record.status = .pending }
        record.goneAge = nil
        record.updatedMS = now.wall.milliseconds
        try save(&record)
        journal.add(.record(record.isDeleted ? .delete : .upsert, .local), record.rid)
        if record.status == .conflict { try refreshLocalSides(of: record.rid, record.document) }
        if let present = try rejectIfDoomed(payload.seq, intent) {
            let shown = try MirrorRow.find(database, rid: record.rid)
            return answer(intent, payload, record: shown, pending: try openKeys(of: record.rid), state: present)
        }
        let keys = hasOthers ? try openKeys(of: record.rid) : [MutationKey(trusted: payload.key)]
        return answer(intent, payload, record: record, pending: keys)
    }

    private func complete(_ payload: inout Payload, _ intent: EnqueueIntent) throws(StoreError) {
        let mutation = intent.mutation
        payload.eid = try names.entity(mutation.entity, in: database)
        payload.aid = try names.app(intent.requester.app, in: database)
        payload.bid = try currentBoot()
        payload.seq = ledger.next(.nextSeq)
        payload.key = UUIDv7.make(at: now.wall, carrying: payload.seq, using: &random)
        payload.gid = intent.group.map { $0.id ?? payload.key }
        stamp(&payload)
        payload.bootMS = now.instant.nanoseconds / 1_000_000
        // Rounded as it will be read again, because the row's checksum covers these values.
        payload.createdMS = now.wall.milliseconds.asStored
        if payload.supersedes != nil {
            payload.ttlAge = intent.deadline
        } else if intent.priority != .critical, let ttl = mutation.ttl ?? intent.rules.ttl {
            payload.ttlAge = age.saturatingAdd(max(0, ttl.milliseconds))
        }
    }

    private func count(_ payload: Payload) {
        ledger.add(
            1, to: Ledger.Group(aid: payload.aid, eid: payload.eid, priority: payload.priority, state: .pending))
        ledger[.enqueued] += 1
    }

    func answer(
        _ intent: EnqueueIntent, _ payload: Payload, record: MirrorRow?, pending: [MutationKey] = [],
        state: MutationState = .pending
    ) -> Enqueued {
        let name = RecordName(intent.mutation.entity, payload.recordID)
        var answer = Enqueued(
            key: MutationKey(trusted: payload.key), seq: payload.seq, state: state,
            record: record.map { RecordSnapshot($0, name, pending: pending) }, recordName: name, isRepeat: false,
            durability: intent.mutation.durability ?? intent.rules.durability)
        answer.warnings = intent.warnings
        answer.form = intent.unjudged
        answer.kept = intent.kept
        return answer
    }

    func currentBoot() throws(StoreError) -> Int64 {
        if let boot { return boot }
        let text = SQLiteValue.text(options.bootID)
        try database.run("INSERT INTO boot (name) VALUES (?) ON CONFLICT DO NOTHING", text)
        let found = try database.number("SELECT bid FROM boot WHERE name = ?", text) ?? 0
        boot = found
        return found
    }

    func openKeys(of rid: Int64) throws(StoreError) -> [MutationKey] { try reads.openKeys(of: rid) }
}

extension RecordSnapshot {
    init(_ row: MirrorRow, _ name: RecordName, pending: [MutationKey]) {
        self.init(
            name: name, serverID: row.serverID, version: row.shownVersion, status: row.status, isDeleted: row.isDeleted,
            view: row.document, base: row.base, syncedAt: row.syncedMS.map { Timestamp(milliseconds: $0) },
            createdAt: Timestamp(milliseconds: row.createdMS), updatedAt: Timestamp(milliseconds: row.updatedMS), pending: pending,
            etag: row.etag)
        isNotKept = row.isNotKept
    }
}
