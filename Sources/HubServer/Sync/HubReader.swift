import SyncCore
import Synchronization

/// Answers requests that only read over a connection of its own, beside the one that writes: a device that lists a million records
/// holds up no push.
///
/// It decides nothing about the hub's history and changes nothing. Whatever needs that goes to the ``Hub`` that writes: a proof that the
/// database is an older copy, the first use of a token, a damaged row that was not reported yet, a database that fails.
package final class HubReader: @unchecked Sendable {
    // Unchecked: one thread uses it, and receives it once. It shares only the generation with the writing hub.
    private let place: any HubDatabasePlace
    let hub: Hub
    private let generation: HubGeneration
    private var opened: Int64
    private var reopening = Reopening()
    /// Commits that the latest answers show and that may be undone; `nil`: none.
    private(set) var unconfirmed: UnconfirmedRead?

    /// - Throws: When the database cannot be opened a second time.
    init(beside hub: Hub, _ place: any HubDatabasePlace) throws(HubError) {
        self.place = place
        generation = hub.generation
        opened = generation.value
        self.hub = try Hub(readingBeside: hub, place)
    }

    /// - Parameter tokens: The present tokens, if the database does not keep them.
    /// - Returns: One answer for each request, in their order; `nil` when the writing hub must answer them.
    func answer(_ requests: [HubRequest], tokens: TokenBook?, at now: Timestamp) -> [HubResponse]? {
        if !hub.settings.keepsTokens { hub.settings.tokens = tokens }
        guard isOpen(at: now) else { return nil }
        do throws(DatabaseError) {
            let responses = try hub.read(requests, at: now)
            try hub.store.database.commit()
            if responses != nil { hub.rememberPosition() }
            unconfirmed = hub.takeUnconfirmed()
            return responses
        } catch {
            leave(error)
            return nil
        }
    }

    /// Asks the database for its state.
    ///
    /// - Returns: The number of the connection; `nil` when there is no answer.
    func look(at now: Timestamp) -> Int64? { sight(at: now).map { _ in hub.connection } }

    /// Counts the records of an entity whose number a page has lacked, or had from before many commits.
    func countNext(at now: Timestamp) {
        guard let entity = hub.totals.nextDue(at: now), isOpen(at: now) else { return }
        do throws(DatabaseError) {
            try hub.store.database.begin(.reading)
            if let row = try hub.store.hub() {
                hub.totals.keep(try hub.store.total(entity), of: entity, at: row.head, of: row.epoch)
            }
            try hub.store.database.commit()
        } catch {
            // Pages do without the number, which is only for displays. A count that takes too long is no fault of the connection.
            hub.totals.fail(entity, at: now)
            leave(error, isOfTime: error.kind == .busy)
        }
    }

    /// A page has lacked the number of records of an entity, or had an old one.
    var lacksTotals: Bool { hub.totals.isDue }

    /// Notes that a standby has the commit, too.
    func confirm(_ read: UnconfirmedRead) { hub.confirm(read) }

    var confirmed: ConfirmedHead { hub.confirmed }

    /// A request that asked for more than reading is no fault of the connection; after anything else it is given up.
    ///
    /// - Parameter isOfTime: A statement was stopped because it took too long, which is no fault of the connection either.
    func leave(_ error: DatabaseError, isOfTime: Bool = false) {
        do throws(DatabaseError) {
            guard error.kind == .readOnly || isOfTime else { throw error }
            try hub.store.database.rollback()
        } catch {
            hub.isDown = true
        }
    }

    /// The hub that writes has opened the database anew, and so must this one: it may be another file.
    func isOpen(at now: Timestamp) -> Bool {
        let present = generation.value
        if !hub.isDown, present == opened { return true }
        guard reopening.isDue(at: now) else { return false }
        do throws(DatabaseError) {
            hub.store = HubStore(try place.openForReading(mayLag: false), ablations: hub.settings.ablations)
            hub.isDown = false
            opened = present
            hub.connection += 1
            reopening = Reopening()
            return true
        } catch {
            hub.isDown = true
            reopening.failed(at: now)
            return false
        }
    }
}

/// Counts the openings of the database by a hub.
final class HubGeneration: Sendable {
    private let count = Atomic<Int64>(0)

    var value: Int64 { count.load(ordering: .acquiring) }

    func advance() { count.add(1, ordering: .releasing) }
}

extension Hub {
    /// A connection for ``HubReader``; `nil` for a database in memory, which has one connection.
    package func reader() throws(HubError) -> HubReader? {
        if case .memory = place { return nil }
        return try HubReader(beside: self, place.database)
    }

    /// - Returns: `nil` when the writing hub must answer. The transaction is open in both cases.
    fileprivate func read(_ requests: [HubRequest], at now: Timestamp) throws(DatabaseError) -> [HubResponse]? {
        latest = now
        try store.database.begin(.reading)
        // A device whose token is new is read by itself.
        guard let (row, seen) = try store.hub(readingFor: callers(of: requests, at: now)) else { return nil }
        if lineage.tag != row.opening { lineage = try store.lineage() }
        guard row.epoch != known.epoch || lineage.includes(known, head: row.head) else { return nil }
        state = row
        try readEntities()
        try readScopes()
        try checkVersions()
        if settings.keepsTokens { try readTokens() }
        store.openGroup(head: row.head)
        store.latestFeed = HubStore.LatestFeed()
        defer {
            store.closeGroup()
            store.latestFeed = nil
        }
        store.group?.readAhead(seen)
        var responses: [HubResponse] = []
        for request in requests { responses.append(try answer(request, at: now)) }
        guard witness.take() == nil, store.takeDamage().isEmpty else { return nil }
        return responses
    }
}
