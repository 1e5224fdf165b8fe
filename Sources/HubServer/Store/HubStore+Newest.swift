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
    private static let entitiesMax = 1_000

    /// Reads at once the rows that reading requests are known to need: those of their devices, the forgotten deletions of all entities,
    /// and, after a commit, the newest version of each entity.
    ///
    /// - Parameter position: The position of the present transaction.
    func readAhead(of callers: [(device: DeviceID, replica: ReplicaID?)], in position: HubPosition) throws(DatabaseError) {
        var seen = WriteGroup.Seen()
        for (device, replica) in callers { seen.views[device, default: DeviceView()].asked.formUnion(replica.map { [$0] } ?? []) }
        // Forgotten deletions change without a commit, so they are read each time.
        var questions = HubStore.questions(callers) + [Question(HubStore.horizonsQuery, [[0]])]
        let isNew = newest?.position != position
        if isNew { questions.append(Question(newestQuery, [[0]])) }
        var found = NewestVersions(at: position)
        var horizons: [EntityName: Int64] = [:]
        try database.answer(questions) { question, set, row in
            switch question {
            case 0, 1: HubStore.add(row, of: question, to: &seen.views[callers[set].device, default: DeviceView()])
            case 2: horizons[EntityName(trusted: row.text(0))] = row.int(1)
            default: found.versions[EntityName(trusted: row.text(0))] = row.int(1)
            }
        }
        if horizons.count < HubStore.entitiesMax {
            seen.horizons = horizons
            seen.knowsAllHorizons = true
        }
        if isNew {
            found.isWhole = found.versions.count < HubStore.entitiesMax
            newest = found
        }
        group?.readAhead(seen)
    }

    /// `true` when the feed of the entity surely has nothing newer than the cursor.
    func hasNothing(behind cursor: Cursor) -> Bool {
        guard group != nil, let newest else { return false }
        guard let version = newest.versions[cursor.entity] else { return newest.isWhole }
        return version < cursor.seq || version == cursor.seq && cursor.sub == nil
    }

    private static let horizonsQuery = LookUp("SELECT entity, version FROM horizon WHERE version >= ?1 LIMIT \(entitiesMax)", [.int])

    /// Takes one step in an index for each entity, however many records it has.
    private var newestQuery: LookUp {
        LookUp(
            """
            WITH RECURSIVE found(name) AS (
                SELECT min(entity) FROM record WHERE version > ?1
                UNION ALL SELECT (SELECT min(entity) FROM record WHERE entity > found.name) FROM found WHERE found.name IS NOT NULL)
            SELECT name, (SELECT max(r.version) FROM record r WHERE \(database.spelling.feedEntity(of: "r")) = found.name) AS newest
            FROM found WHERE name IS NOT NULL LIMIT \(HubStore.entitiesMax)
            """, [.int])
    }
}
