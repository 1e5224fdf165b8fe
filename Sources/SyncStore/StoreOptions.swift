package import SyncCore

/// The options of a store when it is opened.
package struct StoreOptions: Sendable {
    /// Node of the clock stamps.
    package var device: DeviceID
    /// The kernel's boot id: times of `Moment.instant` compare only within one.
    package var bootID: String
    package var rules: RuleBook
    package var capacity: StoreCapacity
    package var fileCapacity = BlobCapacity()
    /// Seed for keys, replica ids and jitter. In production it is drawn from the system.
    package var seed: UInt64
    /// Facts about the past of the database that are stored outside of it.
    package var marker: StoreMarker?
    /// Called on the store's thread after each commit that used new numbers, with the highest `seq`. The shell can then store, outside of
    /// the database, how far work was acknowledged. Must not block.
    package var recordAcknowledged: (@Sendable (Int64) -> Void)?
    /// Called on the store's thread when the disk is full. Releases the space that was reserved for this case, and returns whether there
    /// was any.
    package var releaseBallast: (@Sendable () -> Bool)?
    /// Called on the store's thread now and then, with the free bytes. Reserves that space again where there is enough.
    package var restoreBallast: (@Sendable (_ freeBytes: Int64?) -> Void)?
    package var massDelete = MassDeleteGuard()
    package var fullSync = Store.FullSyncTerms()
    package var ablations: Ablations
    /// The server is an existing backend (PROTOCOL A13); `nil`: it is a hub.
    package var rest: RestMapping?
    /// Trust in the wall clock.
    package var clockTrust: ClockTrust = .synced

    /// The same options with another marker, for an opening after the first one.
    package func with(_ marker: StoreMarker?) -> StoreOptions {
        var options = self
        options.marker = marker
        return options
    }

    package init(
        device: DeviceID, bootID: String, rules: RuleBook = RuleBook(), capacity: StoreCapacity = StoreCapacity(),
        seed: UInt64, marker: StoreMarker? = nil, ablations: Ablations = .none
    ) {
        self.device = device
        self.bootID = bootID
        self.rules = rules
        self.capacity = capacity
        self.seed = seed
        self.marker = marker
        self.ablations = ablations
    }
}

/// Limits how many records of an entity one listing, or one run of the feed, may delete. Deletions beyond that are held back until an
/// operator has checked them. A hub that is empty, newly made or read with the wrong rights must not wipe a fleet.
package struct MassDeleteGuard: Hashable, Sendable {
    /// One record in this many may be deleted.
    package var share: Int64 = 5
    /// Number of records that may always be deleted.
    package var free: Int64 = 50

    func isReached(by deleted: Int64, of all: Int64) -> Bool {
        deleted > free && deleted.multipliedReportingOverflow(by: share).partialValue > all
    }
}

/// Limits beyond which the store accepts no work. The last tenth of each is reserved for critical mutations.
package struct StoreCapacity: Hashable, Sendable {
    /// Number of open mutations.
    package var mutations = 100_000
    /// Size of the database and its WAL without free pages, bytes.
    package var bytes: Int64 = 512_000_000
    /// Space that must stay free on the file system, bytes.
    package var minFree: Int64 = 64_000_000

    package init() {}

    /// The part of a limit that ordinary work may use; the rest is for critical mutations.
    package static func ordinary(_ whole: Int64) -> Int64 { whole - whole / 10 }

    /// Bytes that must be free for ordinary work.
    package var minFreeForOrdinary: Int64 { minFree + minFree / 10 }

    package enum Limit: Sendable { case disk, queue }

    /// The limit that refuses the next ordinary mutation of any app; `nil`: there is room.
    ///
    /// - Parameters:
    ///   - open: Number of open mutations.
    ///   - bytes: Size of the database and its WAL in use, bytes.
    ///   - free: Free space on the file system, bytes; `nil` where that is not known.
    package func limit(open: Int64, bytes: Int64, free: Int64?) -> Limit? {
        if open + 1 > Self.ordinary(Int64(mutations)) || bytes >= Self.ordinary(self.bytes) { return .queue }
        if let free, free < minFreeForOrdinary { return .disk }
        return nil
    }
}

/// Facts that the shell stores beside the database (`identity.json`), so that a lost or older database is noticed.
package struct StoreMarker: Hashable, Sendable {
    package var replica: ReplicaID
    /// The highest `seq` that was ever acknowledged to an app, as far as it was stored.
    package var acknowledged: Int64

    package init(replica: ReplicaID, acknowledged: Int64) {
        self.replica = replica
        self.acknowledged = acknowledged
    }
}

/// The findings when the store was opened.
package struct StoreOpening: Hashable, Sendable {
    /// The database was just created.
    package var isNew = false
    /// The database was not closed cleanly the last time.
    package var wasUnclean = false
    /// The database was too large for a check before the first answer: run ``StoreReads/check()`` soon.
    package var needsCheck = false
    /// Number of acknowledged mutations that are missing at the end. The store has taken a new replica id in that case.
    package var lostTail: Int64 = 0
    /// The rescue from which this database was made, because the one before it could not be opened.
    package var rescue: StoreRescue?

    package init() {}
}

/// A place where a test can stop the store, as a crash or a failing disk would.
package enum CommitStage: Sendable {
    /// Nothing is committed yet; an error thrown here undoes the transaction.
    case before
    /// The transaction is on the medium, and no caller has an answer yet.
    case after
}
