package import SyncCore

/// The agent's durable memory: outbox and mirror in one SQLite file.
///
/// The store is synchronous and single-threaded; ``StoreWriter`` gives it a thread. Each operation is one transaction, or joins the open
/// one (``begin(at:)``), and leaves no changes when it throws. A store may be dropped at any moment, as in a crash, and another one opened
/// on the same ``Database``.
package final class Store {
    package let database: Database
    package let options: StoreOptions
    /// Limits of accepted work; they may change at any time.
    package var capacity: StoreCapacity
    /// Limits of files that records from the hub make wanted; they may change at any time.
    package var fileCapacity: BlobCapacity
    /// The findings at the start.
    package internal(set) var opening = StoreOpening()
    /// The rule book. It may change at any time (``use(_:at:)``) and applies to mutations that are enqueued later.
    package internal(set) var rules: RuleBook {
        didSet {
            ranks = EntityRanks(rules)
            // Another rule judges every record, at once.
            if rules.entities.compactMapValues(\.keep) != oldValue.entities.compactMapValues(\.keep) { sweep.documents = DocumentSweep() }
        }
    }
    /// Free bytes of the file system, as last measured; `nil` means unknown.
    package var freeBytes: Int64?
    /// Mutations wait for the files that they show (`blobs.gate: before`).
    package var gatesBlobs = false
    /// Description of the requests of an existing backend (PROTOCOL A13); `nil`: the server is a hub.
    package var rest: RestMapping?
    /// The schedule of full comparisons with the hub; it may change at any time.
    package var fullSync: FullSyncTerms
    /// The turn of this device in that schedule (``turn(of:)``).
    let turn: Int64
    /// Trust in the wall clock: `synced` when it is known to be right. It counts as long as there is no anchor.
    package var clockTrust: ClockTrust = .synced
    /// The relation between this boot's clock and the hub's time.
    package internal(set) var anchor: ClockAnchor?
    /// Called before and after each commit; for tests.
    package var gate: ((CommitStage) throws(StoreError) -> Void)?

    package internal(set) var replica: ReplicaID
    var ages: AgeClock
    var clock: HybridClock
    var random: SeededRandom
    var ledger: Ledger
    /// A mutation up to this `seq` that waits unsent may have been sent from a newer copy of this database (`Store+Doubt.swift`).
    var doubtfulSeq: Int64 = 0
    /// The highest `seq` that the newest batch states as sent.
    var statedSeq: Int64 = 0
    var names: Names
    /// Row of this boot in the table `boot`; `nil` until it is needed.
    var boot: Int64?
    var journal = JournalStage()
    var transaction: Transaction?
    /// Records whose base is damaged, to be fetched again.
    var damagedRecords: Set<Int64> = []
    /// Files whose records leave the share with the present pull.
    var leaving = LeavingFiles()
    /// Positions of the slow sweeps of housekeeping.
    var sweep = HousekeepingSweep()
    var tidiness = Tidiness.done
    var chains = ChainLengths()
    var indexes: RecordIndexes
    var forms: FormCache
    /// Number of changes of state that came too late (``move(_:to:)``), since the start.
    var staleMoves = 0
    /// Mutations are left that end with one that was refused or given up (``goOnFalling(at:)``).
    package internal(set) var isFalling = false
    /// The order of entities in a batch, from ``rules``.
    var ranks: EntityRanks
    var rulesToUse: RulesToUse?

    /// Creates the schema in `database` or brings it up to date, and continues where the last run ended.
    ///
    /// - Throws: `.foreignFile`, `.newerSchema`, `.notADatabase`: the file was not touched. `.lostDatabase`: the marker names a database
    ///   and this one is new. `.corrupt`: SQLite's check failed. `.notDurable`.
    package init(_ database: Database, _ options: StoreOptions, at now: Moment) throws(StoreError) {
        self.database = database
        self.options = options
        forms = FormCache(ablations: options.ablations)
        self.rules = options.rules
        ranks = EntityRanks(options.rules)
        self.capacity = options.capacity
        self.fileCapacity = options.fileCapacity
        self.fullSync = options.fullSync
        turn = Self.turn(of: options.device)
        self.rest = options.rest
        let start = try OpeningSequence(database: database, options: options, now: now).run()
        self.replica = start.replica
        self.ages = start.ages
        self.clock = start.clock
        self.ledger = start.ledger
        self.names = start.names
        self.opening = start.opening
        self.random = start.random
        indexes = try RecordIndexes.load(from: database)
        clockTrust = options.clockTrust
        markAllDoubtful()
        try loadAnchor(at: now)
        isFalling = try !fallingTies().isEmpty
        sweep.leavesTraces = try MetaTable(database).text(MetaTable.traces) == "1"
        try markInUse(at: now)
    }

    /// The highest `seq` that is in use.
    package var lastSeq: Int64 { ledger[.nextSeq] - 1 }

    package var reads: StoreReads { StoreReads(database: database) }
}
