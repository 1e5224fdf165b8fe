import SyncCore

/// The end of a transaction that was decided without the lock of the hub (``TransactionPurpose/deciding``): what it rests on, and what it
/// adds to the row of the newest commit. Its other writes were gathered by the database.
package struct Decision {
    /// The state of the hub that it has read.
    package var basis: DecisionBasis
    /// Rows that it has read. While another transaction has ended meanwhile, each of them must be as it was.
    package var facts: [RowFacts] = []
    /// It has read more than ``facts`` name, so no other transaction may have ended meanwhile.
    package var isExact = false
    /// It has read the scopes that records grant to devices.
    package var readsGrants = false
    /// It changes such scopes.
    package var changesGrants = false
    /// Number of commit numbers that it gives out: those that follow the newest one.
    package var count: Int64 = 0
    package var counters = HubCounters()
    /// The lock is waited for only ``TransactionPurpose/busyMilliseconds``.
    package var isBrief = false
}

/// The state of the hub that a decision was made in.
package struct DecisionBasis: Hashable, Sendable {
    /// Number of the newest transaction; every transaction that writes has one.
    package var log: Int64
    /// The newest commit number.
    package var head: Int64
    /// The last transaction that changed the scopes that records grant.
    package var granted: Int64
    /// Names the history, and the state of tokens, scopes, schemas and entity settings; see ``HubStore/HubRow/identity``.
    package var identity: String
}

/// A fact about one row, as a condition that is true when the fact does not hold any more.
package struct RowFact: Sendable {
    /// The condition for one set of values, `?1`, `?2`.
    package let isPast: String
    package let kinds: [ColumnKind]

    package init(_ isPast: String, _ kinds: [ColumnKind]) {
        self.isPast = isPast
        self.kinds = kinds
    }
}

/// A ``RowFact`` and its sets of values.
package struct RowFacts {
    package var fact: RowFact
    package var sets: [[DatabaseValue]]
}

extension WriteGroup {
    /// The state of rows when they were read for a decision without the lock: what is compared before its writes.
    struct Facts {
        private var sets: [Kind: [[DatabaseValue]]] = [:]
        /// Keys that were not there. Most of them are written, and fail by themselves when another hub was faster.
        private var absentKeys: [KeyName] = []
        private let spelling: SQLSpelling
        var readsGrants = false

        enum Kind: Int, CaseIterable {
            case record, uuid, key, device, replica, keeping, horizon, refusal
        }

        init(_ spelling: SQLSpelling) { self.spelling = spelling }

        mutating func add(_ kind: Kind, _ values: [DatabaseValue]) { sets[kind, default: []].append(values) }

        /// - Parameter row: `nil`: there is no such row. The payload is left out: only repeated answers show it.
        mutating func add(_ name: KeyName, _ row: HubStore.KeyRow?) {
            guard let row else { return absentKeys.append(name) }
            add(name, state: row.version * 4 + StatusColumn.number(row.status))
        }

        private mutating func add(_ name: KeyName, state: Int64) {
            add(spelling.keys.isOfUUIDs(name.key) ? .uuid : .key, [.text(name.device.text), .text(name.key.text), .int(state)])
        }

        /// - Parameter writes: The writes of the decision.
        func all(for writes: Writes?) -> [RowFacts] {
            var all = self
            for name in absentKeys where writes?.keys[name] == nil { all.add(name, state: -1) }
            return Kind.allCases.compactMap { kind in all.sets[kind].map { RowFacts(fact: fact(kind), sets: $0) } }
        }

        /// The name of a row, and then what it was: a text or a number that stands for all that decisions use of it.
        private func fact(_ kind: Kind) -> RowFact {
            switch kind {
            case .record:
                RowFact(
                    "coalesce((SELECT r.version FROM record r WHERE r.entity = ?1 AND r.id = ?2), 0) <> ?3", [.text, .text, .int])
            case .uuid: (spelling.keys.uuids ?? spelling.keys.others).fact
            case .key: spelling.keys.others.fact
            case .device:
                RowFact(
                    "coalesce((SELECT d.replica FROM device d WHERE d.id = ?1\(spelling.newestRow)), '') <> ?2", [.text, .text])
            case .replica:
                RowFact(
                    """
                    coalesce((SELECT r.max_seq || ' ' || r.acked_seq || ' ' || r.returns FROM replica r
                    WHERE r.device = ?1 AND r.id = ?2\(spelling.newestRow)), '') <> ?3
                    """, [.text, .text, .text])
            case .keeping: RowFact("(SELECT count(*) FROM device_keeping k WHERE k.device = ?1) <> ?2", [.text, .int])
            case .horizon: RowFact("coalesce((SELECT h.version FROM horizon h WHERE h.entity = ?1), 0) <> ?2", [.text, .int])
            case .refusal:
                RowFact(
                    """
                    coalesce((SELECT r.version FROM refused_create r WHERE r.device = ?1 AND r.entity = ?2 AND r.id = ?3), -1) <> ?4
                    """, [.text, .text, .text, .int])
            }
        }
    }
}

extension WriteGroup.Facts {
    /// - Parameter row: `nil`: there is no such row. The same holds below.
    mutating func add(_ name: RecordName, _ row: HubStore.RecordRow?) {
        add(.record, [.text(name.entity.text), .text(name.id.text), .int(row?.version ?? 0)])
    }

    /// The databases of the device that were asked for by name, and those with returns.
    mutating func add(_ device: DeviceID, _ view: HubStore.DeviceView) {
        add(.device, [.text(device.text), .text(view.current?.text ?? "")])
        add(.keeping, [.text(device.text), .int(view.keeps ? 1 : 0)])
        for replica in view.asked.union(view.replicas.keys).sorted() {
            let state = view.replicas[replica].map { "\($0.maxSeq) \($0.ackedSeq) \($0.returns)" } ?? ""
            add(.replica, [.text(device.text), .text(replica.text), .text(state)])
        }
    }

    mutating func add(_ seen: WriteGroup.Seen) {
        for (name, row) in seen.records { add(name, row) }
        for (name, row) in seen.keys { add(name, row) }
        for (device, view) in seen.views { add(device, view) }
        for (entity, version) in seen.horizons { add(entity, horizon: version) }
        for (name, version) in seen.refusals { add(name, version: version) }
    }

    mutating func add(_ entity: EntityName, horizon: Int64) { add(.horizon, [.text(entity.text), .int(horizon)]) }

    mutating func add(_ name: WriteGroup.RefusalName, version: Int64?) {
        add(.refusal, [.text(name.device.text), .text(name.record.entity.text), .text(name.record.id.text), .int(version ?? -1)])
    }
}
