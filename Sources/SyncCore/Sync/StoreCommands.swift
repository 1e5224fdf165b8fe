/// What the engine asks of the store. Each command is one transaction that keeps the invariant named beside it; its answer
/// comes back to the engine as an event.
package enum StoreCommand: Sendable {
    /// The mutations whose outcome is unknown, in the order they were claimed, unchanged; of them those within the limits.
    case loadInFlight(BatchLimits)
    /// Takes the next batch. Invariant: a mutation is committed as sent, with the highest sent `seq`, before its bytes leave.
    case claim(BatchLimits)
    /// Records the hub's verdicts. Invariant: state, base, view, counters and journal change together. With `next`, the
    /// following batch is claimed in the same transaction, which saves an fsync. With `standing`, what the hub signed about
    /// this answer is kept in it, too: verdicts on flash never lack the proof of them.
    case applyResults([PushResult], next: BatchLimits?, standing: HubStanding? = nil)
    /// Records what became of mutations at an existing backend. Invariant: as with ``applyResults(_:next:)``, and ids, versions
    /// and attempts change with the state.
    case applyRest([RestResult], next: BatchLimits?)
    /// Entities to pull, with their cursors: reference entities first. Those that only the hub knows so far are named.
    case loadStreams(also: [EntityName] = [])
    /// Applies one answer to a pull. Invariant: a cursor is committed only together with its page.
    case applyPull(PullResponse)
    /// The hub no longer knows our cursor of these entities: start their feed again, keep what we have until the new
    /// listing is complete, then remove what it did not contain.
    case restartStreams([EntityName])
    /// This database went back in time, the hub has seen more of it than it remembers: take a new replica id, and treat
    /// every mutation that waits as possibly sent (key and payload frozen).
    case adoptReplica(ReplicaID)
    /// This one was sent alone, or with nothing but the rest of its atomic list, and the server failed over it: back to
    /// pending, with that list, to be tried later and only in a batch of its own. With `counts` it was its own fault: one
    /// attempt more, and past the limit it is parked.
    case setAside(MutationKey, Problem, counts: Bool)
    /// Small durable facts of the engine: see ``EngineMemory``.
    case remember(EngineMemory)
    /// Prune, expire, checkpoint, vacuum: a bounded slice.
    case housekeep
    /// Applies one page of a listing by id. Invariant: the place in the listing is committed only together with its page.
    case applySnapshot(SnapshotPage)
    /// Keys of the next mutations that the hub has accepted, after that `seq`.
    case loadSettled(after: Int64)
    /// The hub no longer knows these: they are in flight again, before everything else, in the order of `seq`.
    case requeue([MutationKey])
    /// Makes our versions those of an older history: a bounded slice. With the last one, every entity is listed afresh.
    case forgetHistory
    /// What of an entity the hub is asked to compare.
    case digest(EntityName)
    /// The hub has compared: these buckets differ and are listed afresh; none: all is the same.
    case noteVerified(EntityName, differs: [UInt8])
}

package enum StoreAnswer: Sendable {
    /// `retryAt`: the earliest time at which a mutation that waits for its own retry may go; `nil` when none does.
    /// With what was left where it is only for its size.
    case batch(Batch?, retryAt: Timestamp?, withheld: WithheldWork = WithheldWork())
    case resultsApplied(ResultsSummary, next: Batch?)
    case streams([StreamPosition])
    case pullApplied(PullSummary)
    case done
    /// Whether another slice is worth while, and when the first time to live of what waits is over then.
    case housekept(more: Bool, expiry: Instant? = nil)
    /// Where the stream stands now.
    case snapshotApplied(PullSummary, StreamPosition)
    /// No keys: there are no more.
    case settled([MutationKey], upTo: Int64)
    case requeued(Int)
    case historyForgotten(more: Bool)
    case digest(EntityDigest)
    /// The store could not: the text is for people. Nothing was changed.
    case failed(String)
}

/// What a batch may hold. It holds at least one mutation if any is eligible, however large.
package struct BatchLimits: Hashable, Sendable {
    package var mutations: Int
    /// Bytes of payload.
    package var bytes: Int
    /// Only this priority or more urgent.
    package var leastPriority: Priority
    /// A mutation, or an atomic list, with more payload than this stays where it is.
    package var sizes: MutationSizes

    package init(mutations: Int, bytes: Int, leastPriority: Priority = .bulk, sizes: MutationSizes = MutationSizes()) {
        self.mutations = mutations
        self.bytes = bytes
        self.leastPriority = leastPriority
        self.sizes = sizes
    }
}

/// The mutations of one push request.
package struct Batch: Hashable, Sendable {
    package var mutations: [OutgoingMutation]
    /// All results up to this `seq` are durably recorded here; lets the hub drop old payloads, never keys.
    package var ackedSeq: Int64
    package var maxSentSeq: Int64

    package init(mutations: [OutgoingMutation], ackedSeq: Int64, maxSentSeq: Int64) {
        self.mutations = mutations
        self.ackedSeq = ackedSeq
        self.maxSentSeq = maxSentSeq
    }

    /// Whether no smaller batch can be made of it: a single mutation, or members of one atomic list, which go together.
    package var isOneUnit: Bool {
        guard let first = mutations.first else { return false }
        return mutations.count == 1 || first.group != nil && mutations.allSatisfy { $0.group == first.group }
    }
}

/// A mutation as it goes out. The parts of the payload are JSON text straight from the row: they are sent as they were
/// enqueued, and nothing parses them again.
package struct OutgoingMutation: Hashable, Sendable {
    package var seq: Int64
    package var key: MutationKey
    package var record: RecordName
    package var action: MutationAction
    /// An object.
    package var data: String?
    /// An array of names.
    package var unset: String?
    /// An array of `{"field","op","value"}`.
    package var operations: String?
    /// An array of keys.
    package var dependsOn: String?
    package var baseVersion: Int64
    package var hlc: String
    /// An object: the stamps of fields that were written at another time. Operations have theirs in them.
    package var fieldHLC: String?
    package var clock: ClockTrust
    package var clientUpdatedAt: Timestamp
    package var priority: Priority
    package var group: GroupID?
    /// An object: what the app had seen in the fields whose rule merges objects.
    package var base: String?
    package var author: String?
    /// The fingerprint of what was first asked for, when that is not this: see ``Fingerprint``.
    package var firstDigest: String?
    /// Mutations that it answers for: none of them may take effect beside it.
    package var supersedes: [MutationKey] = []
    /// Where it goes to an existing backend: what its request is made of.
    package var rest: RestTask?

    package init(
        seq: Int64, key: MutationKey, record: RecordName, action: MutationAction, data: String?, unset: String? = nil,
        operations: String? = nil, dependsOn: String? = nil, baseVersion: Int64, hlc: String, clock: ClockTrust,
        clientUpdatedAt: Timestamp, priority: Priority, group: GroupID? = nil, base: String? = nil, author: String? = nil,
        firstDigest: String? = nil
    ) {
        self.firstDigest = firstDigest
        self.base = base
        self.author = author
        self.seq = seq
        self.key = key
        self.record = record
        self.action = action
        self.data = data
        self.unset = unset
        self.operations = operations
        self.dependsOn = dependsOn
        self.baseVersion = baseVersion
        self.hlc = hlc
        self.clock = clock
        self.clientUpdatedAt = clientUpdatedAt
        self.priority = priority
        self.group = group
    }
}

package struct ResultsSummary: Hashable, Sendable {
    package var done = 0
    package var conflicted: [EntityName] = []
    package var rejected = 0
    package var retried = 0
    /// Results for keys that were not in flight: ignored, counted.
    package var unknown = 0
    /// The earliest time at which a mutation that waits for its own retry may go, of all in the outbox.
    package var retryAt: Timestamp?
    /// What was left where it is only for its size, when the next batch was chosen.
    package var withheld = WithheldWork()

    package init() {}
}

package struct StreamPosition: Hashable, Sendable {
    package var entity: EntityName
    package var cursor: String?
    /// A listing by id is under way: its next page comes before anything of the feed.
    package var listing: Listing?
    /// What this device needs of a new entity before the rest is not all here yet.
    package var seed: Seed?
    /// Other records refer to these.
    package var isReference = false
    package var fullSync = FullSync.notDue

    package struct Seed: Hashable, Sendable {
        /// The last id that was listed.
        package var after: RecordID?

        package init(after: RecordID? = nil) {
            self.after = after
        }
    }

    package struct Listing: Hashable, Sendable {
        /// The last id that was listed.
        package var after: RecordID?
        /// Only these; `nil` means all.
        package var buckets: [UInt8]?

        package init(after: RecordID? = nil, buckets: [UInt8]? = nil) {
            self.after = after
            self.buckets = buckets
        }
    }

    /// Whether all of it is to be compared with the hub again, just because it was long ago.
    package enum FullSync: Hashable, Sendable {
        case notDue
        /// When that costs nothing.
        case due
        /// In any case.
        case overdue
    }

    package init(entity: EntityName, cursor: String?) {
        self.entity = entity
        self.cursor = cursor
    }
}

package struct PullSummary: Hashable, Sendable {
    package var upserts = 0
    package var deletions = 0
    /// Records that were already here in that version or a newer one.
    package var unchanged = 0
    /// An entity whose sweep would have removed suspiciously much; nothing was removed.
    package var massDeletes: [EntityName] = []

    package init() {}
}

/// What the engine must still know after a restart.
package struct EngineMemory: Hashable, Sendable {
    /// The hub's history that our cursors and versions belong to; `nil` before the first contact.
    package var epoch: String?
    /// No request before this wall time (persisted `Retry-After`).
    package var notBefore: Timestamp?
    /// Consecutive failed cycles.
    package var failures: Int
    /// The hub had failed for so long that only probes were sent.
    package var isBreakerOpen: Bool
    /// Paused by an operator, until then or for good.
    package var pause: Pause?
    package var lastSuccess: Timestamp?
    /// When everything that is mirrored was last asked for and read to the hub's head. Written with the rest, never for itself.
    package var pulledAt: Timestamp?
    package var lastError: String?
    package var lastErrorAt: Timestamp?
    /// Names the server that ``failures``, ``notBefore`` and ``lastError`` are of; `nil`: an earlier version did not say.
    package var server: String?
    /// The entities that the hub has for this device; `nil`: it has not said.
    package var hubEntities: [EntityName]?
    /// What the hub may not fall behind in the present history; `nil` before its first answer to a push.
    package var standing: HubStanding?
    /// Records that the hub has and could not show.
    package var leftOut = LeftOutRecords()
    /// The hub's new history that this database is being moved to, and how far that has come.
    package var healing: Healing?

    package struct Healing: Hashable, Sendable {
        package var epoch: String
        /// The hub was asked about every accepted mutation up to this `seq`.
        package var askedSeq: Int64 = 0
        /// Mutations that it did not know.
        package var requeued: Int = 0
        /// How far the hub was when it answered; `nil` before its first answer.
        package var standing: HubStanding?

        package init(epoch: String, askedSeq: Int64 = 0, requeued: Int = 0, standing: HubStanding? = nil) {
            self.epoch = epoch
            self.askedSeq = askedSeq
            self.requeued = requeued
            self.standing = standing
        }
    }

    package struct Pause: Hashable, Sendable {
        package var until: Timestamp?
        package var reason: String
        package var uid: UInt32

        package init(until: Timestamp?, reason: String, uid: UInt32) {
            self.until = until
            self.reason = reason
            self.uid = uid
        }
    }

    package init(
        epoch: String? = nil, notBefore: Timestamp? = nil, failures: Int = 0, pause: Pause? = nil,
        lastSuccess: Timestamp? = nil, lastError: String? = nil, lastErrorAt: Timestamp? = nil, isBreakerOpen: Bool = false
    ) {
        self.isBreakerOpen = isBreakerOpen
        self.epoch = epoch
        self.notBefore = notBefore
        self.failures = failures
        self.pause = pause
        self.lastSuccess = lastSuccess
        self.lastError = lastError
        self.lastErrorAt = lastErrorAt
    }
}
