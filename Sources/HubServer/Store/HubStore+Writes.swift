import SyncCore

// Writing of rows: those of all requests of a transaction together, one statement for each table.
extension HubStore {
    /// - Parameter basis: The state of the hub, for a decision without its lock.
    func openGroup(head: Int64, deciding basis: DecisionBasis? = nil) {
        group = WriteGroup(head: head, in: database.spelling, basis: basis)
    }

    func closeGroup() { group = nil }

    /// Changes rows: with the other rows of the group, or at once without a group.
    func change(at now: Timestamp, _ body: (inout WriteGroup.Layer) -> Void) throws(DatabaseError) {
        guard group == nil else {
            group?.change(at: now, body)
            return
        }
        var layer = WriteGroup.Layer()
        layer.writes.at = now
        body(&layer)
        try write(layer.writes)
    }

    /// Leaves the advance of the newest commit number to the group of the transaction.
    ///
    /// - Returns: `false` when there is no group.
    func deferAdvance(to head: Int64, adding counted: HubCounters) -> Bool {
        guard group != nil else { return false }
        group?.request.writes.head = head
        group?.request.writes.counters.add(counted)
        return true
    }

    /// Writes the changes of the group's requests so far, except the hub's own row.
    ///
    /// - Returns: The written changes.
    func flush() throws(DatabaseError) -> WriteGroup.Writes? {
        guard let writes = group?.takeWrites() else { return nil }
        if let head = writes.head { group?.head = head }
        try write(writes)
        return writes
    }

    /// Rows are written in the order of their keys. The same requests therefore make the same rows, and two hubs that write the same rows
    /// wait for each other without a deadlock.
    private func write(_ writes: WriteGroup.Writes) throws(DatabaseError) {
        let at = DatabaseValue.int(writes.at.milliseconds)
        try write(Rows.device, writes.devices.inOrder.map { HubStore.row($0.key, $0.value) })
        try write(Rows.replica, writes.replicas.inOrder.map { HubStore.row($0.key, $0.value) })
        try write(Rows.record, writes.records.inOrder.map(\.value))
        try write(keys: writes.keys, at) { $0.adding }
        try write(keys: writes.superseded, at) { $0.superseding }
        try write(
            Rows.refusal,
            writes.refusals.inOrder.map { name, version in
                [.text(name.device.text), .text(name.record.entity.text), .text(name.record.id.text), .int(version), at]
            })
        try write(HubStore.scopeStatement, writes.scopes.inOrder.map { HubStore.row($0.key, $0.value, at) })
        if !writes.grants.isEmpty { try write(grants: writes.grants) }
        if !writes.links.isEmpty { try write(links: writes.links) }
        guard !writes.losses.isEmpty else { return }
        try write(Rows.loss, writes.losses)
        try database.run("DELETE FROM lost_value WHERE n <= (SELECT max(n) FROM lost_value) - ?", .int(HubStore.lostValuesMax))
    }

    private func write(_ statement: RowStatement, _ rows: [[DatabaseValue]]) throws(DatabaseError) {
        if !rows.isEmpty { try database.write(statement, rows) }
    }

    private static func row(_ device: DeviceID, _ write: WriteGroup.DeviceWrite) -> [DatabaseValue] {
        [
            .text(device.text), .int(write.seen.milliseconds), .int(write.seen.milliseconds), DatabaseValue(write.replica?.text),
            DatabaseValue(write.agent), DatabaseValue(write.platform), DatabaseValue(write.config), .int(write.counters.applied),
            .int(write.counters.duplicates), .int(write.counters.conflicts), .int(write.counters.rejected),
            .int(write.counters.retried), DatabaseValue(write.waiting?.count), DatabaseValue(write.waiting?.at.milliseconds),
        ]
    }

    private static func row(_ name: WriteGroup.ReplicaName, _ write: WriteGroup.ReplicaWrite) -> [DatabaseValue] {
        [
            .text(name.device.text), .text(name.replica.text), .int(write.maxSeq), .int(write.ackedSeq), .int(write.returns),
            .int(write.seen.milliseconds), .int(write.seen.milliseconds),
        ]
    }

    private func write(
        keys rows: [WriteGroup.KeyName: KeyRow], _ at: DatabaseValue, _ statement: (KeyTables.Statements) -> RowStatement
    ) throws(DatabaseError) {
        let tables = database.spelling.keys
        let rows = rows.inOrder
        for statements in [tables.uuids, tables.others].compactMap({ $0 }) {
            let isOfUUIDs = statements === tables.uuids
            let own = rows.filter { tables.isOfUUIDs($0.key.key) == isOfUUIDs }
            try write(statement(statements), own.map { HubStore.row($0.key, $0.value, at, isBare: statements.isBare) })
        }
    }

    private static func row(
        _ name: WriteGroup.KeyName, _ row: KeyRow, _ at: DatabaseValue, isBare: Bool
    ) -> [DatabaseValue] {
        let hasTime = row.payload != nil || !isBare
        return [
            .text(name.device.text), .text(name.key.text), .blob(row.fingerprint), hasTime ? DatabaseValue(row.seq) : .null,
            .int(StatusColumn.number(row.status)), .int(row.version), DatabaseValue(row.payload), hasTime ? at : .null,
        ]
    }

    /// The writing statements, each with the form of its rows.
    private enum Rows {
        static let device = RowStatement(
            "device", key: ["id": .text],
            merging: [
                "first_seen_ms": (.int, .former), "last_seen_ms": (.int, .larger), "replica": (.text, .latter), "agent": (.text, .latter),
                "platform": (.text, .latter), "config_seen": (.int, .latter), "applied": (.int, .sum), "duplicates": (.int, .sum),
                "conflicts": (.int, .sum), "rejected": (.int, .sum), "retried": (.int, .sum), "waiting": (.int, .latter),
                "waiting_at_ms": (.int, .latter),
            ])
        static let replica = RowStatement(
            "replica", key: ["device": .text, "id": .text],
            merging: [
                "max_seq": (.int, .larger), "acked_seq": (.int, .larger), "returns": (.int, .sum), "first_seen_ms": (.int, .former),
                "last_seen_ms": (.int, .larger),
            ])
        static let record = RowStatement(
            "record",
            [
                "entity": .text, "id": .text, "version": .commit, "data": .text, "hlc": .text, "writer": .text, "exceptions": .stamps,
                "origin_key": .text, "updated_at_ms": .int, "author": .text, "additions": .stamps, "kept": .text,
                "kept_version": .commit,
                "scopes": .text,
            ],
            conflict: """
                ON CONFLICT(entity, id) DO UPDATE SET version = excluded.version, data = excluded.data, hlc = excluded.hlc,
                writer = excluded.writer, exceptions = excluded.exceptions, origin_key = excluded.origin_key,
                updated_at_ms = excluded.updated_at_ms, author = excluded.author, additions = excluded.additions,
                kept = excluded.kept, kept_version = excluded.kept_version, scopes = excluded.scopes
                """)
        static let refusal = RowStatement(
            "refused_create", ["device": .text, "entity": .text, "id": .text, "version": .commit, "at_ms": .int],
            conflict: "ON CONFLICT(device, entity, id) DO UPDATE SET version = excluded.version, at_ms = excluded.at_ms")
        static let loss = RowStatement(
            "lost_value",
            [
                "entity": .text, "id": .text, "field": .text, "value": .text, "version": .commit, "hlc": .text, "writer": .text,
                "author": .text, "at_ms": .int,
            ])
    }
}

extension Dictionary where Key: Comparable {
    /// The elements in the order of their keys. Keys are sorted alone, because they are much smaller.
    fileprivate var inOrder: [Element] {
        keys.sorted().compactMap { key in index(forKey: key).map { self[$0] } }
    }
}
