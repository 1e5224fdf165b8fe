import SyncCore
import SyncStore
import Synchronization

/// One agent: the real engine and the real store, over SQLite in memory. When it dies, only the database and the file beside it remain.
final class SimAgent {
    let index: Int
    /// Index of the agent whose name and card this one has; its own unless it is a clone.
    let identity: Int
    let device: DeviceID
    let token: String
    private(set) var database: Database
    /// The database was never replaced by an older copy, and is no copy of another agent's.
    private(set) var hasFirstDatabase: Bool
    /// The file beside the database (`identity.json`), as of its last save.
    var marker: StoreMarker?
    private(set) var images: [Image] = []
    /// The disk was replaced by an old copy, or another copy of it exists. Unsent mutations of this agent may have been sent.
    var wentBack = false

    // The running process; `nil` while it is down.
    var store: Store?
    var engine: SyncEngine?
    /// Number of processes so far. Events for earlier ones are dropped.
    var life = 0
    var job = Job.none
    var wakeID = 0

    // The machine.
    private(set) var bootID = "boot-0"
    private var bootedAt = Instant(nanoseconds: 0)
    private var boots = 0
    /// Error of the wall clock.
    var wallError: Duration = .zero
    var linkIsUp = true
    /// The present link is metered.
    var isMetered = false
    var conditions: Conditions {
        guard linkIsUp else { return .offline }
        return isMetered ? Conditions(uplink: Uplink(name: "wwan0", isMetered: true)) : .plain
    }
    /// The rules in force: those of the agent's own files, or of the hub's settings.
    var rules: RuleBook
    /// Settings that the hub has sent, and those that it offers (``ConfigurationOffers``).
    var config = Config()
    /// Versions of the schemas of stored documents.
    var documentSchemas = SchemaNumbers()
    /// The anchor of time that the store got last.
    var toldAnchor: ClockAnchor?

    /// Place of each stream when it was checked last; see ``Simulation/checkCursors(of:)``.
    var places: [EntityName: Int64] = [:]
    /// Records whose documents a process of this agent has dropped.
    var dropped: Set<RecordName> = []

    /// Files of the agent.
    var files = FileShelf()

    /// A commit has an unknown outcome, so the store must be reopened before anything else.
    var mustReopen = false
    /// Highest number of a mutation that was checked for successors.
    var learnedSeq: Int64 = 0

    /// The app has yet to add its last change, while a cycle has claimed all its work and still runs. Such a change must also wake the
    /// engine.
    var owesWord = false
    /// The scopes that were told at the end of each listing which has held records back, since a person decided last, by entity. `nil`: some
    /// records may be held back for another reason.
    var heldUnder: [EntityName: [Set<String>]]? = [:]
    /// Failed requests of the present cycle.
    var failuresInCycle = 0

    enum Job: Equatable {
        case none, store, call(UInt64)
    }

    /// The settings of the hub, as far as a process knows them.
    struct Config {
        var inForce: Int64?
        var text: String?
        var offered: Int64?
        /// Version of settings that contradict the agent's own files.
        var refused: Int64?
        var isFetching = false
    }

    /// An old copy of the disk.
    struct Image {
        var database: Database
        var marker: StoreMarker?
        /// Number of acknowledgements, over all apps, when the copy was made.
        var acknowledgements: Int
    }

    /// - Parameter earlier: The database of an agent of another history, to be used again; `nil`: a database is made.
    init(index: Int, token: String, _ rules: RuleBook, over earlier: Database?) throws(StoreError) {
        (self.index, identity) = (index, index)
        self.rules = rules
        self.token = token
        device = DeviceID(trusted: "agent-\(index)")
        database = try Self.newDatabase(over: earlier)
        hasFirstDatabase = true
    }

    /// A database of an agent without a past.
    ///
    /// - Parameter earlier: A database of which no row stays; `nil`: a database is made.
    static func newDatabase(over earlier: Database?) throws(StoreError) -> Database {
        guard let earlier else { return try formedDatabase() }
        try earlier.becomeNew(firstRows())
        return earlier
    }

    /// A database with its tables and no rows.
    static func formedDatabase() throws(StoreError) -> Database {
        try formed.withLock { template throws(StoreError) in
            let formed = if let template { template } else { try Database.empty() }
            template = formed
            return try formed.copy()
        }
    }

    /// Made once and copied, because making the tables takes longer than the rest of a start. Other tests prove that they are right, also
    /// after each migration.
    private static let formed = Mutex<Database?>(nil)

    /// SQL of the rows of such a database, which is only read once.
    private static func firstRows() throws(StoreError) -> String {
        try rows.withLock { known throws(StoreError) -> String in
            if let known { return known }
            let rows = try formedDatabase().insertionOfRows()
            known = rows
            return rows
        }
    }

    private static let rows = Mutex<String?>(nil)

    /// A copy of another agent's card, in another machine.
    init(index: Int, cloning other: SimAgent) throws(StoreError) {
        (self.index, identity) = (index, other.identity)
        (token, device, rules) = (other.token, other.device, other.rules)
        database = try other.database.copy()
        hasFirstDatabase = false
        marker = other.marker
        (files.whole, files.parts) = (other.files.whole, other.files.parts)
        heldUnder = nil
        bootID = "boot-0 of \(index)"
    }

    func moment(at now: Instant) -> Moment {
        let wall = Timestamp(milliseconds: Simulation.epochMilliseconds + now.nanoseconds / 1_000_000)
        return Moment(instant: boot(now), wall: wall.advanced(by: wallError))
    }

    /// Time since the boot, which all processes of the boot share.
    func boot(_ now: Instant) -> Instant {
        Instant(nanoseconds: bootedAt.duration(to: now).nanoseconds + 5_000_000_000)
    }

    func world(_ boot: Instant) -> Instant {
        Instant(nanoseconds: boot.nanoseconds.saturatingAdd(bootedAt.nanoseconds - 5_000_000_000))
    }

    func reboot(at now: Instant) {
        boots += 1
        bootID = "boot-\(boots)"
        bootedAt = now
    }

    // MARK: Old images

    func takeImage(acknowledgements: Int) throws(StoreError) {
        if images.count == 3 { images.removeFirst() }
        images.append(Image(database: try database.copy(), marker: marker, acknowledgements: acknowledgements))
    }

    /// Puts an old copy in place of the disk. The copy can be used again.
    ///
    /// - Parameter withMarker: Also replaces the file beside the database.
    func install(_ image: Image, withMarker: Bool) throws(StoreError) {
        database = try image.database.copy()
        hasFirstDatabase = false
        if withMarker { marker = image.marker }
        places = [:]
        heldUnder = nil
        wentBack = true
    }
}
