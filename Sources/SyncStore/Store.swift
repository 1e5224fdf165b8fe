package import SyncCore

/// The agent's durable memory: outbox and mirror in one SQLite file.
///
/// Synchronous and single-threaded; ``StoreWriter`` gives it a thread. Each operation is one transaction, or joins the one
/// that is open (``begin(at:)``), and leaves nothing behind when it throws. A store may be thrown away at any moment, as a
/// crash would, and another one opened on the same ``Database``.
package final class Store {
    package let database: Database
    package let options: StoreOptions
    /// Where to stop taking work; may change at any time.
    package var capacity: StoreCapacity
    /// What was found at the start.
    package internal(set) var opening = StoreOpening()
    /// May change at any time; what is enqueued later follows it.
    package var rules: RuleBook {
        didSet { ranks = EntityRanks(rules) }
    }
    /// Free bytes of the file system, as last measured; `nil` means unknown.
    package var freeBytes: Int64?
    /// Mutations wait for the files that they show (`blobs.gate: before`).
    package var gatesBlobs = false
    /// How the requests of an existing backend look (PROTOCOL A13); `nil`: the server is a hub.
    package var rest: RestMapping?
    /// When everything is compared with the hub; may change at any time.
    package var fullSync: FullSyncTerms
    /// Whether the wall clock is known to be right (`synced`) or not. Counts as long as there is no anchor.
    package var clockTrust: ClockTrust = .synced
    /// How the time of this boot relates to the hub's.
    package internal(set) var anchor: ClockAnchor?
    /// Called before and after each commit; for tests.
    package var gate: ((CommitStage) throws(StoreError) -> Void)?

    package internal(set) var replica: ReplicaID
    var ages: AgeClock
    var clock: HybridClock
    var random: SeededRandom
    var ledger: Ledger
    /// Up to here a mutation that waits unsent may have been sent from a newer copy of this database (`Store+Doubt.swift`).
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
    /// Where the slow sweeps of housekeeping go on.
    var sweep = HousekeepingSweep()
    var tidiness = Tidiness.done
    var chains = ChainLengths()
    var indexes: RecordIndexes
    /// Changes of state that came too late (``move(_:to:)``), since the start.
    var staleMoves = 0
    /// Something is left that falls with a mutation that was refused or given up (``goOnFalling(at:)``).
    package internal(set) var isFalling = false
    /// By ``rules``.
    var ranks: EntityRanks

    /// Opens or makes the schema in `database`, brings it up to date, and takes up where the last life ended.
    ///
    /// - Throws: `.foreignFile`, `.newerSchema`, `.notADatabase`: the file was not touched. `.lostDatabase`: the marker
    ///   speaks of a database and this one is new. `.corrupt`: SQLite's check failed. `.notDurable`.
    package init(_ database: Database, _ options: StoreOptions, at now: Moment) throws(StoreError) {
        self.database = database
        self.options = options
        self.rules = options.rules
        ranks = EntityRanks(options.rules)
        self.capacity = options.capacity
        self.fullSync = options.fullSync
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
        doubtWhatWaits()
        try loadAnchor(at: now)
        isFalling = try !fallingTies().isEmpty
        try takeUp(at: now)
    }

    /// The highest `seq` that was given out.
    package var lastSeq: Int64 { ledger[.nextSeq] - 1 }

    package var reads: StoreReads { StoreReads(database: database) }
}
