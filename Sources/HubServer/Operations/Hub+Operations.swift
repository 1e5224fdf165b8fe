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
    /// A hub over the database in memory of an earlier one, as a new process is over the file of one that died: what the earlier one knew
    /// beside its rows is gone. The earlier one must not be used any more.
    ///
    /// - Parameter copy: Takes the place of all rows, made earlier by ``copy()``; `nil`: they stay.
    package convenience init(
        over earlier: Hub, restoring copy: [UInt8]? = nil, settings: Settings, random: SeededRandom
    ) throws(HubError) {
        try self.init(earlier.place, settings: settings, random: random) { () throws(DatabaseError) in
            let database = try earlier.copied()
            guard let copy else { return database }
            database.forgetStatements()
            try database.deserialize(copy)
            return database
        }
    }

    /// A hub over the database in memory of an earlier one, of which no row stays: a new hub, but for the statements that the earlier one
    /// has prepared. The earlier one must not be used any more.
    package convenience init(emptying earlier: Hub, settings: Settings, random: SeededRandom) throws(HubError) {
        try self.init(earlier.place, settings: settings, random: random) { () throws(DatabaseError) in
            let database = try earlier.copied()
            try database.removeRows()
            return database
        }
    }
}
