package import SyncCore

/// Facts about the store that `status` reports, without judgement.
package struct StoreFacts: Hashable, Sendable {
    package var replica: ReplicaID
    package var createdAt: Timestamp
    /// Mutations by state and priority; with ``pruned`` they add up to ``enqueued``.
    package var counts: [MutationState: [Priority: Int64]]
    /// The priorities of pending and in-flight mutations.
    package var waitingPriorities: Set<Priority> {
        Set([MutationState.pending, .inFlight].flatMap { (counts[$0] ?? [:]).filter { $0.value > 0 }.keys })
    }
    /// Open mutations by app.
    package var openByApp: [AppName: Int64]
    /// Number of mutations that were ever accepted here; always equal to the sum of ``counts``.
    package var enqueued: Int64
    /// Number of settled mutations whose rows are gone; they stay in ``counts``.
    package var pruned: Int64
    /// Time at which the oldest mutation that still waits for the hub was enqueued.
    package var oldestWaiting: Timestamp?
    /// Size of the payload that has still to go to the hub, bytes. Exact up to 50,000 mutations. Above that it is estimated from the mean
    /// of the oldest 1,000, because adding them all up would read the whole file.
    package var waitingBytes: Int64
    /// Time at which the next delayed mutation can go, by the present wall clock.
    package var nextAttempt: Timestamp?
    package var lastSeq: Int64
    package var maxSentSeq: Int64
    package var ackedSeq: Int64
    /// Bytes in use, free pages not counted.
    package var bytes: Int64
    package var fileBytes: Int64
    package var walBytes: Int64
    package var freePages: Int64
    package var schema: Int64
    package var sqlite: String
    /// Number of answers to `relaxed` work whose commit then failed.
    package var relaxedLost: Int64
    /// Total number of acknowledged mutations that were missing after a restart.
    package var tailLost: Int64
    /// Every mirrored entity was read to its end at least once.
    package var isSeeded: Bool

    package func count(_ states: MutationState...) -> Int64 {
        states.reduce(0) { $0 + (counts[$1]?.values.reduce(0, +) ?? 0) }
    }

    package var open: Int64 {
        counts.reduce(0) { $0 + ($1.key.isTerminal ? 0 : $1.value.values.reduce(0, +)) }
    }
}

/// One entity that is configured or known.
package struct EntityOverview: Hashable, Sendable {
    package var name: EntityName
    /// Records in the mirror that exist in the view.
    package var records: Int64
    /// Records whose documents this device has dropped; not among ``records``.
    package var notKept: Int64 = 0
    /// Open mutations.
    package var open: Int64
    package var lastPullAt: Timestamp?
    package var lastFullAt: Timestamp?
    /// A complete listing is under way.
    package var isListing: Bool
    /// Number of records that a sweep held back because there were suspiciously many.
    package var sweepHeld: Int64
    /// Number of live records at the hub when the entity was last listed completely; `nil` when the hub did not say.
    package var seedTotal: Int64?
    /// The records that this device needs first are here, if the entity has such a filter (``SeedFilter``).
    package var isSeeded: Bool

    package init(
        name: EntityName, records: Int64, open: Int64, lastPullAt: Timestamp?, lastFullAt: Timestamp?, isListing: Bool, sweepHeld: Int64,
        seedTotal: Int64?, isSeeded: Bool
    ) {
        (self.name, self.records, self.open) = (name, records, open)
        (self.lastPullAt, self.lastFullAt, self.isListing) = (lastPullAt, lastFullAt, isListing)
        (self.sweepHeld, self.seedTotal, self.isSeeded) = (sweepHeld, seedTotal, isSeeded)
    }
}
