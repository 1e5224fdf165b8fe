package import SyncCore

extension HubInspector {
    /// The entities whose records the database shares out, by name, whatever settings were read last.
    package func scopedEntities() throws(HubError) -> [EntityName] {
        try reading { (_) throws(DatabaseError) in try store.scopeIndexes().keys.sorted() }
    }
}
