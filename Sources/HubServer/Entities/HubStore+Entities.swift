import SyncCore

// The rows of entity settings.
extension HubStore {
    /// A text that changes whenever other settings count, as a part of the query of the hub's row; NULL: there are none.
    static let entityMark = """
        (SELECT CAST(generation AS TEXT) || ' ' || digest FROM entity_settings
          WHERE generation = (SELECT max(generation) FROM entity_settings))
        """

    func newestEntities() throws(DatabaseError) -> EntityGeneration? {
        try database.first(
            "SELECT \(HubStore.entityColumns), text FROM entity_settings ORDER BY generation DESC LIMIT 1"
        ) { HubStore.generation($0, text: $0.text(5)) }
    }

    func entities(_ generation: Int64) throws(DatabaseError) -> EntityGeneration? {
        try database.first(
            "SELECT \(HubStore.entityColumns), text FROM entity_settings WHERE generation = ?", .int(generation)
        ) { HubStore.generation($0, text: $0.text(5)) }
    }

    /// All kept generations, the newest first, without their texts.
    func entityHistory() throws(DatabaseError) -> [EntityGeneration] {
        try database.all("SELECT \(HubStore.entityColumns) FROM entity_settings ORDER BY generation DESC") {
            HubStore.generation($0, text: "")
        }
    }

    private static let entityColumns = "generation, applied_at_ms, applied_by, digest, file_digest"

    private static func generation(_ row: any DatabaseRow, text: String) -> EntityGeneration {
        EntityGeneration(
            number: row.int(0), appliedAt: Timestamp(milliseconds: row.int(1)), appliedBy: row.text(2), digest: row.text(3),
            fileDigest: row.optionalText(4), text: text)
    }

    func put(_ generation: EntityGeneration) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO entity_settings(generation, applied_at_ms, applied_by, digest, file_digest, text)
            VALUES(?1, ?2, ?3, ?4, ?5, ?6)
            """, .int(generation.number), .int(generation.appliedAt.milliseconds), .text(generation.appliedBy), .text(generation.digest),
            DatabaseValue(generation.fileDigest), .text(generation.text))
        try database.run("DELETE FROM entity_settings WHERE generation <= ?", .int(generation.number - Int64(EntityGeneration.keptMax)))
    }

    /// Notes that the file of this digest is not newer than the generation.
    func keepFileDigest(_ digest: String, under generation: Int64) throws(DatabaseError) {
        try database.run("UPDATE entity_settings SET file_digest = ? WHERE generation = ?", .text(digest), .int(generation))
    }
}

extension EntityGeneration {
    /// The text of ``HubStore/entityMark``.
    var mark: String { "\(number) \(digest)" }
}
