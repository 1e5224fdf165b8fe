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

    /// Reads at once the rows that reading requests are known to need: those of their devices, the forgotten deletions of all entities,
    /// and, after a commit, the newest version of each entity.
    ///
    /// - Parameter position: The position of the present transaction.
    func readAhead(of callers: [(device: DeviceID, replica: ReplicaID?)], in position: HubPosition) throws(DatabaseError) {
        var seen = WriteGroup.Seen(asking: callers)
        // Forgotten deletions change without a commit, so they are read each time.
        var questions = HubStore.questions(callers) + [Question(HubStore.horizonsQuery)]
        let isNew = newest?.position != position
        if isNew { questions.append(Question(newestQuery)) }
        var found = NewestVersions(at: position)
        var horizons: [EntityName: Int64] = [:]
        try database.answer(questions) { question, set, row in
            switch question {
            case ..<HubStore.questionsCount: HubStore.add(row, of: question, to: &seen.views[callers[set].device, default: DeviceView()])
            case HubStore.questionsCount: horizons[EntityName(trusted: row.text(0))] = row.int(1)
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

    private static let horizonsQuery = LookUp("SELECT entity, version FROM horizon LIMIT \(entitiesMax)")
}
