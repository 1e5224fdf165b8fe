import SyncCore

/// The number of the newest commit, and everything else whose change may give a device another answer.
struct HubSight: Equatable, Sendable {
    var head: Int64
    /// Epoch, opening, book of tokens, rows of scopes and settings of entities. A change of one of them may concern every device.
    var frame: [String]

    init(head: Int64, frame: [String] = []) {
        (self.head, self.frame) = (head, frame)
    }

    init(_ row: HubStore.HubRow) {
        self.init(head: row.head, frame: [row.epoch, row.opening, String(row.tokens), String(row.scopes), row.entities])
    }
}

/// The subject of a pull that had no news.
struct PullInterest: Sendable {
    struct Stream: Sendable {
        var entity: EntityName
        /// Codes of the scopes by which the device receives the records; `nil`: it receives all of them.
        var scopes: [Int64]?
    }

    var device: DeviceID
    /// The state that the answer was made from.
    var sight: HubSight
    var streams: [Stream]
}

/// Changes since a commit that may be news for waiting pulls.
struct HubChanges: Sendable {
    /// The newest version of each changed entity.
    var entities: [EntityName: Int64] = [:]
    /// The same for each changed scope of an entity whose records are shared out.
    var scopes: [EntityName: [Int64: Int64]] = [:]
    /// Records that give grants have changed, so every device may have other scopes now.
    var mayChangeShares = false

    /// Returns whether there may be news for a pull.
    func concern(_ interest: PullInterest) -> Bool {
        if mayChangeShares { return true }
        return interest.streams.contains { stream in
            guard let newest = entities[stream.entity], newest > interest.sight.head else { return false }
            guard let codes = stream.scopes, let changed = scopes[stream.entity] else { return true }
            return codes.contains { changed[$0].map { $0 > interest.sight.head } ?? false }
        }
    }
}

extension Feed {
    /// - Parameter sight: The state of the present transaction.
    func interest(of streams: [StreamPosition], _ sight: HubSight) -> PullInterest {
        var known: [Int64] = []
        return PullInterest(
            device: device, sight: sight,
            streams: streams.map { stream in
                guard let codes = scopes(of: stream.entity)?.codes else { return PullInterest.Stream(entity: stream.entity) }
                // Most entities have the same scope fields, and many devices wait: equal lists share their memory.
                if codes != known { known = codes }
                return PullInterest.Stream(entity: stream.entity, scopes: known)
            })
    }
}

extension HubReader {
    /// Reads the present state in one statement; `nil` when the database cannot be read at the moment.
    func sight(at now: Timestamp) -> HubSight? {
        guard isOpen(at: now) else { return nil }
        do throws(DatabaseError) {
            return try hub.store.hub().map { HubSight($0) }
        } catch {
            leave(error)
            return nil
        }
    }

    /// Reads the changes after a commit, all of one moment and for all waiting pulls.
    ///
    /// - Parameter scopes: Called with the changed entities whose records are shared out. It returns the scopes that are asked for.
    /// - Returns: `nil` when the database cannot be read at the moment, or is another one than before.
    func changes(
        after known: HubSight, at now: Timestamp, scopes: ([EntityName]) -> [EntityName: Set<Int64>]
    ) -> (changes: HubChanges, sight: HubSight)? {
        guard isOpen(at: now) else { return nil }
        do throws(DatabaseError) {
            try hub.store.database.begin(.reading)
            let found = try hub.changes(after: known, scopes: scopes)
            try hub.store.database.commit()
            return found
        } catch {
            leave(error)
            return nil
        }
    }
}

extension Hub {
    fileprivate func changes(
        after known: HubSight, scopes: ([EntityName]) -> [EntityName: Set<Int64>]
    ) throws(DatabaseError) -> (changes: HubChanges, sight: HubSight)? {
        guard let row = try store.hub() else { return nil }
        var changes = HubChanges()
        try store.database.answer([Question(store.newestQuery, [[""]])]) { _, _, row in
            let version = row.int(1)
            if version > known.head { changes.entities[EntityName(trusted: row.text(0))] = version }
        }
        changes.mayChangeShares = settings.access.sources.contains { changes.entities[$0.entity] != nil }
        let shared = changes.entities.keys.filter { scopeIndexes[$0] != nil }
        for entity in shared { changes.scopes[entity] = [:] }
        let asked = scopes(shared.sorted()).flatMap { entity, codes in codes.sorted().map { (entity: entity, code: $0) } }
        if !asked.isEmpty {
            let sets = asked.map { [.text($0.entity.text), .int($0.code), .int(known.head)] as [DatabaseValue] }
            try store.database.answer([Question(store.newestInScopeQuery, sets)]) { _, set, row in
                changes.scopes[asked[set].entity]?[asked[set].code] = row.int(0)
            }
        }
        return (changes, HubSight(row))
    }
}
