package import SyncCore

// What an operator asks for, and what the simulation needs.
extension Hub {
    package func stats() throws(HubError) -> HubStats {
        try HubInspector(store).stats()
    }

    /// Values that lost a contest, newest first.
    package func lostValues(_ entity: EntityName, _ id: RecordID? = nil, limit: Int = 100) throws(HubError) -> [LostRow] {
        do throws(DatabaseError) { return try store.lostValues(entity, id, limit: limit) } catch { throw HubError(error) }
    }

    /// The whole database as bytes.
    package func copy() throws(HubError) -> [UInt8] {
        do throws(DatabaseError) { return try copied().serialize() } catch { throw HubError(error) }
    }

    /// Replaces an in-memory database by a copy made earlier, as an operator restores a backup.
    ///
    /// - Parameter startingEpoch: `false` only to see what happens when an operator forgets it.
    package func restore(_ copy: [UInt8], startingEpoch: Bool = true) throws(HubError) {
        do throws(DatabaseError) { try install(copy) } catch { throw HubError(error) }
        if startingEpoch { try startEpoch() }
    }

    /// Changes a record in the name of the hub, as a back office would: reference data comes into being this way.
    ///
    /// - Parameter data: The whole document; `nil` deletes the record.
    /// - Returns: The commit number.
    @discardableResult
    package func publish(_ name: RecordName, _ data: JSONObject?, at now: Timestamp) throws(HubError) -> Int64 {
        try transact { () throws(DatabaseError) in
            try openIfNeeded(at: now)
            let commit = state.head + 1
            let node = DeviceID(trusted: "hub")
            let hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: HybridClock.node(of: node))
            let stamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: node)
            let old = try store.record(name)?.record
            // Fields that stay as they were keep their stamps: only what changed can be contested.
            var stamps = (data == nil ? [:] : old?.stamps) ?? [:]
            for member in data?.members ?? [] where old?.data?[member.name.text] != member.value { stamps[member.name] = stamp }
            for member in old?.data?.members ?? [] where data?[member.name.text] == nil { stamps[member.name] = stamp }
            let record = VersionedRecord(data: data, stamp: stamp, exceptions: stamps, additions: old?.additions ?? [:])
            try store.put(name, record, data: data?.json, originKey: "", at: now)
            try advance(to: commit, adding: HubCounters())
            return commit
        }
    }
}
