package import SyncCore

/// What `status` tells about the store: facts, no verdicts.
package struct StoreFacts: Hashable, Sendable {
    package var replica: ReplicaID
    package var createdAt: Timestamp
    /// Mutations by state and priority; with ``pruned`` they add up to ``enqueued``.
    package var counts: [MutationState: [Priority: Int64]]
    /// Of what is pending or in flight.
    package var waitingPriorities: Set<Priority> {
        Set([MutationState.pending, .inFlight].flatMap { (counts[$0] ?? [:]).filter { $0.value > 0 }.keys })
    }
    /// Open mutations by app.
    package var openByApp: [AppName: Int64]
    /// All that were ever accepted here. Equal to the sum of ``counts``, at every moment.
    package var enqueued: Int64
    /// Settled mutations whose rows are gone; they stay in ``counts``.
    package var pruned: Int64
    /// When the oldest mutation that still waits for the hub was enqueued.
    package var oldestWaiting: Timestamp?
    /// Payload that has still to go to the hub. Exact up to 50,000 mutations; above that from the mean of the oldest 1,000,
    /// because adding them all up would read the whole file.
    package var waitingBytes: Int64
    /// When the next delayed mutation may go, by the present wall clock.
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
    /// Answers given for `relaxed` work whose commit then failed.
    package var relaxedLost: Int64
    /// Acknowledged mutations that were missing after a restart, in all.
    package var tailLost: Int64
    /// Every mirrored entity was read to its end once.
    package var isSeeded: Bool

    package func count(_ states: MutationState...) -> Int64 {
        states.reduce(0) { $0 + (counts[$1]?.values.reduce(0, +) ?? 0) }
    }

    package var open: Int64 {
        counts.reduce(0) { $0 + ($1.key.isTerminal ? 0 : $1.value.values.reduce(0, +)) }
    }
}

/// One entity, configured or met.
package struct EntityOverview: Hashable, Sendable {
    package var name: EntityName
    /// Records in the mirror that exist in the view.
    package var records: Int64
    /// Open mutations.
    package var open: Int64
    package var lastPullAt: Timestamp?
    package var lastFullAt: Timestamp?
    /// A complete listing is under way.
    package var isListing: Bool
    /// Records that a sweep would have removed and did not, because they were suspiciously many.
    package var sweepHeld: Int64
    /// Live records that the hub had when all of it was last listed; `nil` when it did not say.
    package var seedTotal: Int64?
    /// What this device needs of it first is here, if it has such a filter (``SeedFilter``).
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
