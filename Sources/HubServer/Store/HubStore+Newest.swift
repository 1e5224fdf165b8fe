import SyncCore

/// The newest version of each entity, read from the database at one commit.
///
/// Most pulls bring nothing. With these versions the feed of an entity is not read for a cursor that is already at its newest change.
struct NewestVersions {
    /// The commit of the versions.
    let position: HubPosition
    fileprivate var versions: [EntityName: Int64] = [:]
    /// There is no other entity with a record.
    fileprivate var isWhole = false

    fileprivate init(at position: HubPosition) {
        self.position = position
    }
}

extension HubStore {
    /// Largest number of remembered entities; the feed of others is read.
    static let entitiesMax = 1_000

    /// Reads at once the row of the hub and the rows that reading requests are known to need: those of their devices, the forgotten
    /// deletions of all entities, and, after a commit, the newest version of each entity.
    ///
    /// - Returns: `nil`: there is no hub.
    func hub(
        readingFor callers: [(device: DeviceID, replica: ReplicaID?)]
    ) throws(DatabaseError) -> (row: HubRow, seen: WriteGroup.Seen)? {
        var seen = WriteGroup.Seen(asking: callers)
        let others = HubStore.questionsCount
        // Forgotten deletions change without a commit, so they are read each time.
        let questions =
            questions(callers) + [
                Question(hubQuery), Question(HubStore.horizonsQuery),
                Question(newestQuery, [[.text(newest.map { HubStore.text($0.position) } ?? "")]]),
            ]
        var hub: HubRow?
        var versions: [EntityName: Int64] = [:]
        var horizons: [EntityName: Int64] = [:]
        try database.answer(questions) { question, set, row in
            switch question {
            case ..<others: HubStore.add(row, of: question, to: &seen.views[callers[set].device, default: DeviceView()])
            case others: hub = HubStore.hubRow(row)
            case others + 1: horizons[EntityName(trusted: row.text(0))] = row.int(1)
            default: versions[EntityName(trusted: row.text(0))] = row.int(1)
            }
        }
        if horizons.count < HubStore.entitiesMax {
            seen.horizons = horizons
            seen.knowsAllHorizons = true
        }
        guard let hub = try checked(hub) else { return nil }
        let position = HubPosition(epoch: hub.epoch, opening: hub.opening, head: hub.head)
        if newest?.position != position {
            var found = NewestVersions(at: position)
            found.versions = versions
            found.isWhole = versions.count < HubStore.entitiesMax
            newest = found
        }
        return (hub, seen)
    }

    private static func text(_ position: HubPosition) -> String { "\(position.epoch) \(position.opening) \(position.head)" }

    /// The newest version of each entity, unless the database is at the position `?1`: a server then takes no step of it (a one-time
    /// filter).
    static func newestQuery(_ spelling: SQLSpelling) -> LookUp {
        LookUp(
            """
            \(withEntities) SELECT name, \(newestVersion(spelling)) AS newest FROM found WHERE name IS NOT NULL AND ?1 <> (
            SELECT hub.epoch || ' ' || coalesce((SELECT tag FROM lineage WHERE n = (SELECT max(n) FROM lineage)), '') || ' ' || c.head
            FROM hub CROSS JOIN (\(spelling.keepsLog ? CommitLog.newest : "SELECT * FROM hub")) AS c) LIMIT \(entitiesMax)
            """, [.text])
    }

    /// `true` when the feed of the entity surely has nothing newer than the cursor.
    func hasNothing(behind cursor: Cursor) -> Bool {
        guard group != nil, let newest else { return false }
        guard let version = newest.versions[cursor.entity] else { return newest.isWhole }
        return version < cursor.seq || version == cursor.seq && cursor.sub == nil
    }

    private static let horizonsQuery = LookUp("SELECT entity, version FROM horizon LIMIT \(entitiesMax)")
}
