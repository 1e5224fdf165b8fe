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
            var found: KeyRow?
            try database.answer(KeyQuestions([name], in: database.spelling.keys).questions) { _, _, row in found = HubStore.keyRow(key, row)
            }
            return found
        }
        group?.facts?.add(name, row)
        return row
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
            key: key, fingerprint: before?.fingerprint ?? HubStore.unseen,
            seq: before == nil ? UUIDv7.carried(in: key.text) : before?.seq, status: .accepted, version: version, payload: nil)
        try change(at: now) { layer in
            layer.seen.keys.updateValue(row, forKey: name)
            layer.writes.superseded[name] = row
        }
    }

    /// Drops the payloads that only serve to repeat an answer in full, once the device has recorded it (``KeyTables/prunable``).
    func prunePayloads(before: Timestamp) throws(DatabaseError) -> Int {
        var count = 0
        for statement in database.spelling.keys.pruning {
            try database.run(statement, .int(before.milliseconds))
            count += try database.changes()
        }
        return count
    }

    /// Only for a test build that shows the effect.
    func forgetKeys(_ device: DeviceID, upTo seq: Int64) throws(DatabaseError) {
        for statement in database.spelling.keys.forgetting { try database.run(statement, .text(device.text), .int(seq)) }
        group?.forgetKeys()
    }
}

/// Keys to look up, by the tables that have them (``KeyTables``).
struct KeyQuestions {
    let questions: [Question]
    /// The keys of each question, in the order of its sets.
    let names: [[WriteGroup.KeyName]]

    init(_ keys: some Sequence<WriteGroup.KeyName>, in tables: KeyTables) {
        let ofUUIDs = tables.uuids?.lookUps ?? []
        var names = Array(repeating: [WriteGroup.KeyName](), count: ofUUIDs.count + 1)
        var parts: [DeviceID: Int] = [:]
        for name in keys {
            guard tables.isOfUUIDs(name.key) else {
                names[ofUUIDs.count].append(name)
                continue
            }
            let part = parts[name.device] ?? KeyTables.part(of: name.device, in: ofUUIDs.count)
            parts[name.device] = part
            names[part].append(name)
        }
        self.names = names
        questions = zip(ofUUIDs + tables.others.lookUps, names).map { lookUp, names in
            Question(lookUp, names.map { [.text($0.device.text), .text($0.key.text)] })
        }
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
