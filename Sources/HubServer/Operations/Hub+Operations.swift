package import SyncCore

// Operations for an operator, and those that the simulation needs.
extension Hub {
    package func stats() throws(HubError) -> HubStats {
        try HubInspector(store).stats()
    }

    /// Values that lost a conflict, newest first.
    package func lostValues(_ entity: EntityName, _ id: RecordID? = nil, limit: Int = 100) throws(HubError) -> [LostRow] {
        do throws(DatabaseError) { return try store.lostValues(entity, id, limit: limit) } catch { throw HubError(error) }
    }

    /// A record as it is stored, for comparisons.
    package func record(_ name: RecordName) throws(HubError) -> VersionedRecord? {
        do throws(DatabaseError) { return try store.record(name)?.whole } catch { throw HubError(error) }
    }

    /// The whole database as bytes.
    package func copy() throws(HubError) -> [UInt8] {
        do throws(DatabaseError) { return try copied().serialize() } catch { throw HubError(error) }
    }

    /// Replaces an in-memory database by a copy made earlier, as an operator restores a backup.
    ///
    /// - Parameter startingEpoch: `false` simulates an operator who forgets it.
    package func restore(_ copy: [UInt8], startingEpoch: Bool = true) throws(HubError) {
        do throws(DatabaseError) { try install(copy) } catch { throw HubError(error) }
        if startingEpoch { try startEpoch() }
    }

    /// Changes a record in the name of the hub, as a back office would: reference data is created this way.
    ///
    /// - Parameter data: The complete document; `nil` deletes the record.
    /// - Returns: The commit number.
    @discardableResult
    package func publish(_ name: RecordName, _ data: JSONObject?, at now: Timestamp) throws(HubError) -> Int64 {
        try transact { () throws(DatabaseError) in
            try openIfNeeded(at: now)
            let commit = state.head + 1
            let node = DeviceID.hub
            let hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: HybridClock.node(of: node))
            let stamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: node)
            // A damaged record is replaced: this repairs one without a backup.
            let row = try store.record(name)
            let old = row?.whole
            guard let data else {
                let rules = settings.rules[name.entity] ?? EntityRules()
                let gone = old?.deleted(stamp, rules: rules) ?? VersionedRecord(deleted: stamp, keeping: nil)
                return try publish(name, gone, data: nil, over: row, at: now)
            }
            try Hub.check(data, over: old?.data, of: name)
            // A form is read before any device gets it: what its author cannot have meant is refused here, with its place.
            if let fault = settings.rules.formFault(in: data, of: name.entity) {
                throw DatabaseError(.other, doing: "publish \(name)", detail: fault.detail)
            }
            // Unchanged fields keep their stamps: only changed ones can conflict.
            var stamps = old?.stamps ?? [:]
            for member in data.members where old?.data?[member.name.text] != member.value { stamps[member.name] = stamp }
            for member in old?.data?.members ?? [] where data[member.name.text] == nil { stamps[member.name] = stamp }
            let record = VersionedRecord(data: data, stamp: stamp, exceptions: stamps, additions: old?.additions ?? [:])
            return try publish(name, record, data: data.json, over: row, at: now)
        }
    }

    private func publish(
        _ name: RecordName, _ record: VersionedRecord, data: String?, over row: HubStore.RecordRow?, at now: Timestamp
    ) throws(DatabaseError) -> Int64 {
        try store.put(
            name, record, data: data, originKey: "", scopes: scopeChange(of: name, from: row, to: record.data), at: now)
        try advance(to: record.version, adding: HubCounters())
        return record.version
    }

    /// - Throws: When a device could not read the document, or could not change it any more.
    private static func check(_ data: JSONObject, over old: JSONObject?, of name: RecordName) throws(DatabaseError) {
        let doing = "publish \(name)"
        if let fault = DocumentLimits.fault(of: MutationContent(.create, data: data), in: data, over: old) {
            throw DatabaseError(.other, doing: doing, detail: fault.detail)
        }
        let (bytes, limit) = (data.bytes.count, DocumentLimits.bytesMax(over: old?.bytes.count ?? 0))
        guard bytes <= limit else {
            throw DatabaseError(.other, doing: doing, detail: "the document has \(bytes) bytes, the limit is \(limit)")
        }
    }
}
