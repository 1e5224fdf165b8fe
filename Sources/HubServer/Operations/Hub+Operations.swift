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
}
