package import SyncCore

/// What a store is told when it is opened.
package struct StoreOptions: Sendable {
    /// Node of the clock stamps.
    package var device: DeviceID
    /// The kernel's boot id: times of `Moment.instant` compare only within one.
    package var bootID: String
    package var rules: RuleBook
    package var capacity: StoreCapacity
    /// For keys, replica ids and jitter. Drawn from the system in production.
    package var seed: UInt64
    /// What is known from outside the database about its past.
    package var marker: StoreMarker?
    /// Called on the store's thread after each commit that gave out numbers, with the highest `seq`: so that the shell can
    /// write down, outside of the database, how far it was acknowledged. Must not block.
    package var noteAcknowledged: (@Sendable (Int64) -> Void)?
    /// Called on the store's thread when the disk is full: gives back the room that was kept for this moment, and says
    /// whether there was any.
    package var releaseBallast: (@Sendable () -> Bool)?
    /// Called on the store's thread with the free bytes, now and then: makes that room again where there is enough.
    package var restoreBallast: (@Sendable (_ freeBytes: Int64?) -> Void)?
    package var massDelete = MassDeleteGuard()
    package var fullSync = Store.FullSyncTerms()
    package var ablations: Ablations
    /// The server is an existing backend (PROTOCOL A13); `nil`: it is a hub.
    package var rest: RestMapping?
    /// Whether the wall clock is known to be right.
    package var clockTrust: ClockTrust = .synced

    /// With another marker, for an opening after the first one.
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

/// What one listing, or one run of the feed, may delete of an entity without being asked: more than that is held back until
/// an operator has looked at it. A hub that is empty, made anew or seen with the wrong rights must not wipe a fleet.
package struct MassDeleteGuard: Hashable, Sendable {
    /// One in so many.
    package var share: Int64 = 5
    /// So many at any rate.
    package var free: Int64 = 50

    package init() {}

    func isReached(by deleted: Int64, of all: Int64) -> Bool {
        deleted > free && deleted.multipliedReportingOverflow(by: share).partialValue > all
    }
}

/// Where the store stops taking work. The last tenth of each is reserved for critical mutations.
package struct StoreCapacity: Hashable, Sendable {
    /// Open mutations.
    package var mutations = 100_000
    /// Bytes of the database and its WAL, free pages not counted.
    package var bytes: Int64 = 512_000_000
    /// Bytes that must stay free on the file system.
    package var minFree: Int64 = 64_000_000

    package init() {}

    /// What of it ordinary work may use up; the rest is for critical mutations.
    package static func ordinary(_ whole: Int64) -> Int64 { whole - whole / 10 }

    /// Bytes that must be free for ordinary work.
    package var minFreeForOrdinary: Int64 { minFree + minFree / 10 }

    package enum Limit: Sendable { case disk, queue }

    /// Which limit refuses the next ordinary mutation, whoever it is of; `nil`: there is room.
    ///
    /// - Parameters:
    ///   - open: Mutations that are open.
    ///   - bytes: Of the database and its WAL in use.
    ///   - free: Bytes that are free on the file system; `nil` where that is not known.
    package func limit(open: Int64, bytes: Int64, free: Int64?) -> Limit? {
        if open + 1 > Self.ordinary(Int64(mutations)) || bytes >= Self.ordinary(self.bytes) { return .queue }
        if let free, free < minFreeForOrdinary { return .disk }
        return nil
    }
}

/// What the shell keeps beside the database (`identity.json`), so that a lost or an older database is noticed.
package struct StoreMarker: Hashable, Sendable {
    package var replica: ReplicaID
    /// The highest `seq` that was ever acknowledged to an app, as far as it was written down.
    package var acknowledged: Int64

    package init(replica: ReplicaID, acknowledged: Int64) {
        self.replica = replica
        self.acknowledged = acknowledged
    }
}

/// What was found when the store was opened.
package struct StoreOpening: Hashable, Sendable {
    /// The database was made now.
    package var isNew = false
    /// It was not closed in good order the last time.
    package var wasUnclean = false
    /// The database was too large to be checked before the first answer: run ``StoreReads/check()`` soon.
    package var needsCheck = false
    /// Acknowledged mutations that are missing at the end. The store has taken a new replica id then.
    package var lostTail: Int64 = 0
    /// The database before this one could not be opened, and this one was made of what could be read of it.
    package var rescue: StoreRescue?

    package init() {}
}

/// A place where a test can stop the store, as a crash or a failing disk would.
package enum CommitStage: Sendable {
    /// Nothing is committed yet; an error thrown here undoes the transaction.
    case before
    /// The transaction is on the medium, and nobody knows yet.
    case after
}
