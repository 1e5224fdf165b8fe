import SyncCore

// Every final answer ever given, by the key of its mutation.
extension HubStore {
    struct KeyRow {
        var key: MutationKey
        var fingerprint: [UInt8]
        var seq: Int64?
        var status: PushResult.Original
        var version: Int64
        /// The addition to a repeated answer: the problem of a rejection, the fields of a conflict.
        var payload: String?
    }

    func key(_ device: DeviceID, _ key: MutationKey) throws(DatabaseError) -> KeyRow? {
        let name = WriteGroup.KeyName(device: device, key: key)
        if let known = group?.key(name) { return known }
        let row = try covered { () throws(DatabaseError) in
            try database.first(HubStore.keyQuery.sql, .text(device.text), .text(key.text)) { HubStore.keyRow(key, $0) }
        }
        group?.facts?.add(name, row)
        return row
    }

    private static let keyQuery = LookUp(
        "SELECT fingerprint, seq, status, version, payload FROM mutation_key WHERE device = ?1 AND key = ?2", [.text, .text])

    static func question(_ keys: [WriteGroup.KeyName]) -> Question {
        Question(keyQuery, keys.map { [.text($0.device.text), .text($0.key.text)] })
    }

    static func keyRow(_ key: MutationKey, _ row: any DatabaseRow) -> KeyRow {
        KeyRow(
            key: key, fingerprint: row.blob(0), seq: row.optionalInt(1), status: StatusColumn.status(row.int(2)),
            version: row.int(3), payload: row.optionalText(4))
    }

    /// Stores a key that was not known before.
    func put(_ device: DeviceID, _ row: KeyRow, at now: Timestamp) throws(DatabaseError) {
        let name = WriteGroup.KeyName(device: device, key: row.key)
        try change(at: now) { layer in
            layer.seen.keys.updateValue(row, forKey: name)
            layer.writes.keys[name] = row
        }
    }

    /// The fingerprint of a mutation that never arrived and must not arrive any more: it matches any content.
    static let unseen = [UInt8](repeating: 0, count: 16)

    /// Records that a newer mutation has taken effect in the place of this one.
    func putSuperseded(_ device: DeviceID, _ key: MutationKey, version: Int64, at now: Timestamp) throws(DatabaseError) {
        let name = WriteGroup.KeyName(device: device, key: key)
        let before = try self.key(device, key)
        let row = KeyRow(
            key: key, fingerprint: before?.fingerprint ?? HubStore.unseen, seq: before?.seq, status: .accepted, version: version,
            payload: nil)
        try change(at: now) { layer in
            layer.seen.keys.updateValue(row, forKey: name)
            layer.writes.superseded[name] = version
        }
    }

    /// Drops the payloads that only serve to repeat an answer in full, once the device has recorded it. The names of fields in conflict
    /// stay: a database that goes back asks again, and no other row names the fields that people must decide about.
    func prunePayloads(before: Timestamp) throws(DatabaseError) -> Int {
        try database.run(
            """
            UPDATE mutation_key SET payload = NULL
            WHERE payload IS NOT NULL AND status <> 2 AND at_ms < ? AND seq <= (
              SELECT acked_seq FROM replica JOIN device ON device.id = replica.device AND device.replica = replica.id
              WHERE replica.device = mutation_key.device)
            """, .int(before.milliseconds))
        return try database.changes()
    }

    /// Only for a test build that shows the effect.
    func forgetKeys(_ device: DeviceID, upTo seq: Int64) throws(DatabaseError) {
        try database.run("DELETE FROM mutation_key WHERE device = ? AND seq <= ?", .text(device.text), .int(seq))
        group?.forgetKeys()
    }
}

enum StatusColumn {
    static func status(_ number: Int64) -> PushResult.Original {
        switch number {
        case 1: .rejected
        case 2: .conflict
        default: .accepted
        }
    }

    static func number(_ status: PushResult.Original) -> Int64 {
        switch status {
        case .accepted: 0
        case .rejected: 1
        case .conflict: 2
        }
    }
}
