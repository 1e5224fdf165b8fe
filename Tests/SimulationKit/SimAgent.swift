import SyncCore
import SyncStore
import Synchronization

/// One agent: the real engine on the real store, over SQLite in memory. It dies and comes back as the world decides; what
/// is left then is the database, and what stood beside it.
final class SimAgent {
    let index: Int
    /// The one whose name and card it has; itself, if it is no clone.
    let identity: Int
    let device: DeviceID
    let token: String
    var database: Database
    /// The file beside the database (`identity.json`), as far as it was written.
    var marker: StoreMarker?
    private(set) var images: [Image] = []
    /// Its disk was replaced by an old copy at some time, or there is another copy of it: what it holds as unsent may have been
    /// sent.
    var wentBack = false

    // The running process; `nil` while it is down.
    var store: Store?
    var engine: SyncEngine?
    /// Counts processes: what was meant for an earlier one is dropped.
    var life = 0
    var job = Job.none
    var wakeID = 0

    // The machine.
    private(set) var bootID = "boot-0"
    private var bootedAt = Instant(nanoseconds: 0)
    private var boots = 0
    /// How wrong the wall clock is.
    var wallError: Duration = .zero
    var linkIsUp = true
    /// The link that it has costs something.
    var isMetered = false
    var conditions: Conditions {
        guard linkIsUp else { return .offline }
        return isMetered ? Conditions(uplink: Uplink(name: "wwan0", isMetered: true)) : .plain
    }
    /// The rules that it works by: those of its own files, or what the hub has sent.
    var rules: RuleBook
    /// What the hub has sent, and offers (``ConfigurationOffers``).
    var config = Config()
    /// The versions of the schemas of its documents.
    var documentSchemas = SchemaNumbers()
    /// The anchor of time that its store was given last.
    var toldAnchor: ClockAnchor?

    /// Where each stream stood when it was looked at last; see ``Simulation/checkCursors(of:)``.
    var places: [EntityName: Int64] = [:]
    /// Records whose documents one of its processes has dropped.
    var dropped: Set<RecordName> = []

    /// Its files.
    var files = FileShelf()

    /// A commit of unknown outcome: the store is opened anew before anything else.
    var mustReopen = false
    /// The mutations up to this one have been looked at for such that take the place of others.
    var learnedSeq: Int64 = 0

    /// Its app will say its very last word when a cycle has taken all it takes and is not over yet: work that arrives then
    /// must wake somebody, too.
    var owesWord = false
    /// Answers of the present cycle that were none.
    var failuresInCycle = 0

    enum Job: Equatable {
        case none, store, call(UInt64)
    }

    /// The settings of the hub, as far as a process knows them.
    struct Config {
        var inForce: Int64?
        var text: String?
        var offered: Int64?
        /// It did not fit what the agent's own files say.
        var refused: Int64?
        var isFetching = false
    }

    /// An old copy of the disk.
    struct Image {
        var database: Database
        var marker: StoreMarker?
        /// Acknowledgements that all apps of the world had been given when it was made.
        var acknowledgements: Int
    }

    init(index: Int, token: String, _ rules: RuleBook) throws(StoreError) {
        (self.index, identity) = (index, index)
        self.rules = rules
        self.token = token
        device = DeviceID(trusted: "agent-\(index)")
        database = try Self.formedDatabase()
    }

    /// One that has its tables, and nothing in them.
    static func formedDatabase() throws(StoreError) -> Database {
        try formed.withLock { template throws(StoreError) in
            let formed = if let template { template } else { try Database.empty() }
            template = formed
            return try formed.copy()
        }
    }

    /// To make the tables takes longer than all the rest of a start, so it is done once: that they are made right, and from
    /// those of each earlier version, is what other tests are about.
    private static let formed = Mutex<Database?>(nil)

    /// A copy of another one's card, in a machine of its own.
    init(index: Int, cloning other: SimAgent) throws(StoreError) {
        (self.index, identity) = (index, other.identity)
        (token, device, rules) = (other.token, other.device, other.rules)
        database = try other.database.copy()
        marker = other.marker
        (files.whole, files.parts) = (other.files.whole, other.files.parts)
        bootID = "boot-0 of \(index)"
    }

    func moment(at now: Instant) -> Moment {
        let wall = Timestamp(milliseconds: Simulation.epochMilliseconds + now.nanoseconds / 1_000_000)
        return Moment(instant: boot(now), wall: wall.advanced(by: wallError))
    }

    /// Time since the boot, which every process of that boot shares.
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

    /// Puts an old image in place of the disk. The image itself stays good for another time.
    ///
    /// - Parameter withMarker: Whether what stands beside the database is as old as the database.
    func install(_ image: Image, withMarker: Bool) throws(StoreError) {
        database = try image.database.copy()
        if withMarker { marker = image.marker }
        places = [:]
        wentBack = true
    }
}
