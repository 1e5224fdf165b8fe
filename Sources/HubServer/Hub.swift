package import SyncCore

/// The reference hub: requests in, answers out, over a database (PROTOCOL A1-A7, A9, A10). The database is one SQLite file of its own, or a
/// server's that several hubs share as replicas of each other.
///
/// Everything is synchronous and deterministic: time comes with each call, randomness with `init`. The owner calls a hub from one thread;
/// an HTTP server, a test and the simulation drive the same code.
///
/// One call is one transaction and at most one fsync, however many requests it carries, and no answer exists before the commit. If the
/// process dies before it, nothing has happened, and the devices repeat their requests. With a shared database no state carries over from
/// one call to the next: each transaction reads the hub row anew.
package final class Hub {
    package enum Place: Sendable {
        case memory
        /// The database file; its folder must exist.
        case file(String)
        /// A database that other hubs may serve at the same time.
        case shared(any HubDatabasePlace)
    }

    package var settings: Settings
    /// Receives the cause of an answer 503, which the answer itself does not name.
    package var report: ((HubError) -> Void)?
    /// Receives news about the hub's history, once it is committed. Earlier news is kept until this is set.
    package var onNotice: ((HubNotice) -> Void)? {
        didSet {
            let untold = untold
            self.untold = []
            if let onNotice { untold.forEach(onNotice) } else { self.untold = untold }
        }
    }
    private var untold: [HubNotice] = []
    let place: Place
    var random: SeededRandom
    var store: HubStore
    /// The hub row of the database, cached. Restored when a transaction fails.
    var state: HubStore.HubRow
    /// The newest state that this process has seen, without commits that only a primary with standbys may have. Each transaction of a
    /// shared database is compared with it, and the first one after a reopening.
    var known: HubPosition
    let confirmed: ConfirmedHead
    /// The newest commit that was shown since ``takeUnconfirmed()`` and may be undone.
    var unconfirmed: UnconfirmedRead?
    /// The number of connections before the present one.
    var connection: Int64 = 0
    /// The openings of the database, as it stores them.
    var lineage: HubLineage
    /// The entities whose records are shared out.
    var scopeIndexes: [EntityName: ScopeIndex] = [:]
    /// The newest generation of the rows of scopes that ``scopeIndexes`` has.
    var scopeGeneration: Int64 = 0
    /// The mark of the versions of the documents that the rules were compared with.
    var versionMark: Int64 = 0
    /// Names the entity settings of the database that ``settings`` has; empty: those of the program.
    var entityMark = ""
    /// The settings before those of the present transaction.
    var adoption: EntityAdoption?
    /// The outcome for the entities file of the start; `nil`: there is none.
    package internal(set) var fileOutcome: EntityOutcome?
    /// The opening that this process has added; `nil`: none yet.
    var opened: String?
    /// The connection was replaced: the database's state is read anew.
    var mustReload = false
    let witness = HubWitness()
    /// Read by the readers beside this hub.
    let generation: HubGeneration
    let totals: EntityTotals
    /// `true` in a ``HubReader``: nothing may be changed.
    let onlyReads: Bool
    /// The time of the latest request.
    var latest: Timestamp?
    /// Notices to report once the present transaction is committed.
    var notices: [HubNotice] = []
    /// Unproved claims since the start, and the devices that made them.
    var claims: Int64 = 0
    var claimants: Set<DeviceID> = []
    /// The database's book of tokens, if it keeps one.
    var tokenCache = TokenCache()
    /// Tokens that were shown for the first time. They are recorded after the transaction, which may be a reading one.
    var shown: [TokenBook.Entry] = []
    /// Devices that were refused records because they would keep others, with the entity. They are recorded after the transaction.
    var keeping: [DeviceID: EntityName] = [:]
    /// Devices that the operator was told of, because records grant them more values than count.
    var overGranted: Set<DeviceID> = []
    /// Counters since the start, for `/metrics`.
    let traffic = HubTraffic()
    var housekept = HubHousekeeping()
    /// Durations of turns at the database: reading and writing for the waiting requests, including the commit.
    package var transactionTimes = DurationHistogram()
    /// The connection is given up, and could not be reopened yet.
    var isDown = false
    var reopening = Reopening()

    #if ABLATIONS
        /// For tests: called before each commit; `false` stands for a process that dies there. The hub answers 503 then.
        package var beforeCommit: (() -> Bool)?
        /// For tests: no request is decided without the lock of the hub.
        package var locksFirst = false
        /// The share of each device at its request before the present one.
        var sharesBefore: [DeviceID: DeviceAccess] = [:]
    #endif

    /// Opens the database, or creates it.
    ///
    /// - Throws: `.database` or `.foreignDatabase`; the latter leaves the file as it was.
    package convenience init(_ place: Place, settings: Settings, random: SeededRandom) throws(HubError) {
        try self.init(place, settings: settings, random: random) { () throws(DatabaseError) in try place.database.open() }
    }

    /// - Parameter open: Opens the database at this place.
    init(
        _ place: Place, settings: Settings, random: SeededRandom, opening open: () throws(DatabaseError) -> any HubDatabase
    ) throws(HubError) {
        self.place = place
        self.settings = settings
        self.random = random
        (generation, totals) = (HubGeneration(), EntityTotals())
        confirmed = ConfirmedHead()
        onlyReads = false
        do throws(DatabaseError) {
            store = HubStore(try open(), ablations: settings.ablations)
            if settings.ablations.contains(.commitUnsynced), !store.database.isShared {
                try store.database.execute("PRAGMA synchronous=NORMAL")
            }
            let loaded = try Hub.load(store, &self.random)
            (state, lineage, untold) = loaded
            known = HubPosition(loaded.row)
        } catch {
            throw HubError(error)
        }
        try applyRulesAtStart()
    }

    /// The state behind a ``HubReader``: the same settings, and a connection that only reads.
    init(readingBeside hub: Hub, _ database: any HubDatabasePlace) throws(HubError) {
        (place, settings, random, onlyReads) = (hub.place, hub.settings, hub.random, true)
        (generation, totals) = (hub.generation, hub.totals)
        (state, known, confirmed, lineage) = (hub.state, hub.known, hub.confirmed, hub.lineage)
        (scopeIndexes, scopeGeneration, versionMark) = (hub.scopeIndexes, hub.scopeGeneration, hub.versionMark)
        entityMark = hub.entityMark
        settings.tokensRead = nil
        settings.changeTokens = nil
        do throws(DatabaseError) {
            store = HubStore(try database.openForReading(mayLag: false), ablations: settings.ablations)
        } catch {
            throw HubError(error)
        }
    }

    func announce(_ notice: HubNotice) {
        if case .overGranted(let device) = notice, !overGranted.insert(device).inserted { return }
        if let onNotice { onNotice(notice) } else { untold.append(notice) }
    }

    /// Names the history that cursors and versions belong to.
    package var epoch: String { state.epoch }
    /// The newest commit number.
    package var head: Int64 { state.head }
}

extension Hub.Place {
    package var database: any HubDatabasePlace {
        switch self {
        case .memory: SQLiteDatabase.Place.memory
        case .file(let path): SQLiteDatabase.Place.file(path)
        case .shared(let place): place
        }
    }
}
