/// Commands from the engine to the store. Each is one transaction that keeps the invariant named beside it; its answer comes back to the
/// engine as an event.
package enum StoreCommand: Sendable {
    /// Loads the mutations whose outcome is unknown, unchanged and in the order they were claimed, within the limits.
    case loadInFlight(BatchLimits)
    /// Claims the next batch. Invariant: a mutation is committed as sent, with the highest sent `seq`, before its bytes leave.
    case claim(BatchLimits)
    /// Records the hub's verdicts. Invariant: state, base, view, counters and journal change together. With `next`, the following batch is
    /// claimed in the same transaction, which saves an fsync. With `standing`, the hub's signed proof of this answer is stored in it too,
    /// so that verdicts on flash always have their proof. With `writtenUnder`, the same holds for ``EngineMemory/writtenUnder``.
    case applyResults([PushResult], next: BatchLimits?, standing: HubStanding? = nil, writtenUnder: Set<String>? = nil)
    /// Records the results of mutations at an existing backend. Invariant: as with ``applyResults(_:next:)``; ids, versions and attempts
    /// change with the state.
    case applyRest([RestResult], next: BatchLimits?)
    /// Loads the entities to pull with their cursors, reference entities first. `also` names entities that only the hub knows so far.
    case loadStreams(also: [EntityName] = [])
    /// Applies one answer to a pull. Invariant: a cursor is committed only together with its page.
    case applyPull(PullResponse)
    /// The hub no longer knows our cursor of these entities. Their feed starts again; present records stay until the new listing is
    /// complete, then those that it did not contain are removed.
    case restartStreams([EntityName])
    /// The same because the scopes of this device have changed: records that the new listing does not contain have left its share.
    case restartShares([EntityName])
    /// This database went back in time: the hub has seen more of it than it remembers. It takes a new replica id and treats every waiting
    /// mutation as possibly sent (key and payload frozen).
    case adoptReplica(ReplicaID)
    /// The server failed over a mutation that was sent alone, or with only the rest of its atomic list. It becomes pending again, with that
    /// list, and is tried later in a batch of its own. With `counts` the mutation itself was at fault: the attempt counts, and past the
    /// limit it is parked.
    case setAside(MutationKey, Problem, counts: Bool)
    /// Stores small durable facts of the engine: see ``EngineMemory``.
    case remember(EngineMemory)
    /// Does a bounded slice of housekeeping: prune, expire, checkpoint, vacuum.
    case housekeep
    /// Applies one page of a listing by id. Invariant: the position in the listing is committed only together with its page.
    case applySnapshot(SnapshotPage)
    /// Loads keys of the next mutations that the hub has accepted, after that `seq`.
    case loadSettled(after: Int64)
    /// The hub no longer knows these mutations: they are in flight again, before everything else, in the order of `seq`.
    case requeue([MutationKey])
    /// Marks a bounded slice of our versions as those of an older history. After the last slice, every entity is listed again.
    case forgetHistory
    /// Computes the digest of an entity that the hub compares with its own.
    case digest(EntityName)
    /// The hub has compared, under the scopes of this mark: these buckets differ and are listed again; if there are none, everything is
    /// equal.
    case recordComparison(EntityName, differs: [UInt8], shareMark: String?)
}

package enum StoreAnswer: Sendable {
    /// The claimed batch. `retryAt` is the earliest time at which a mutation that waits for its own retry can go; `nil` when there is none.
    /// `withheld` is the work that stays only because of its size.
    case batch(Batch?, retryAt: Timestamp?, withheld: WithheldWork = WithheldWork())
    case resultsApplied(ResultsSummary, next: Batch?)
    case streams([StreamPosition])
    case pullApplied(PullSummary)
    case done
    /// `more` is `true` when another slice is useful; `expiry` is the earliest end of a time to live among waiting mutations.
    case housekept(more: Bool, expiry: Instant? = nil)
    /// The new position of the stream.
    case snapshotApplied(PullSummary, StreamPosition)
    /// Without keys, there are no more.
    case settled([MutationKey], upTo: Int64)
    case requeued(Int)
    case historyForgotten(more: Bool)
    case digest(EntityDigest)
    /// The command failed with a text for people. Nothing was changed.
    case failed(String)
}

/// Limits of a batch. It holds at least one mutation if any is eligible, however large.
package struct BatchLimits: Hashable, Sendable {
    package var mutations: Int
    /// Size of the payload, bytes.
    package var bytes: Int
    /// Least urgent priority that is allowed.
    package var leastPriority: Priority
    /// A mutation or an atomic list with a larger payload than this is not claimed.
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
    /// All results up to this `seq` are durably recorded here. The hub may drop old payloads up to it, but never keys.
    package var ackedSeq: Int64
    package var maxSentSeq: Int64

    package init(mutations: [OutgoingMutation], ackedSeq: Int64, maxSentSeq: Int64) {
        self.mutations = mutations
        self.ackedSeq = ackedSeq
        self.maxSentSeq = maxSentSeq
    }

    /// `true` when no smaller batch can be made of it: it is a single mutation, or consists of members of one atomic list.
    package var isOneUnit: Bool {
        guard let first = mutations.first else { return false }
        return mutations.count == 1 || first.group != nil && mutations.allSatisfy { $0.group == first.group }
    }
}

/// A mutation as it is sent. The parts of the payload are JSON text straight from the row: they are sent as they were enqueued and are not
/// parsed again.
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
    /// An object with the stamps of fields that were written at another time. Operations contain their own stamps.
    package var fieldHLC: String?
    package var clock: ClockTrust
    package var clientUpdatedAt: Timestamp
    package var priority: Priority
    package var group: GroupID?
    /// An object with the base of the fields whose rule merges objects.
    package var base: String?
    package var author: String?
    /// The fingerprint of the first request, when the content has changed since: see ``Fingerprint``.
    package var firstDigest: String?
    /// Keys of mutations that this one replaces: none of them may take effect beside it.
    package var supersedes: [MutationKey] = []
    /// The data of its request, where the server is an existing backend.
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
    /// Number of results for keys that were not in flight; they are ignored.
    package var unknown = 0
    /// Commits of the hub that these results brought and that left nothing to pull: one for each accepted mutation whose record was not
    /// shown, or for its atomic list, if its version is newer than the one that the mirror had of the record.
    package var commits = 0
    /// Earliest time at which any mutation of the outbox that waits for its own retry can go.
    package var retryAt: Timestamp?
    /// Work that stayed only because of its size when the next batch was chosen.
    package var withheld = WithheldWork()
    /// Files to be offered to the hub once more, because it has accepted changes that show them.
    package var offers: [UploadJob] = []

    package init() {}
}

package struct StreamPosition: Hashable, Sendable {
    package var entity: EntityName
    package var cursor: String?
    /// A listing by id is running: its next page comes before the feed.
    package var listing: Listing?
    /// The records that this device needs first of a new entity are not all here yet.
    package var seed: Seed?
    /// Other records refer to records of this entity.
    package var isReference = false
    package var fullSync = FullSync.notDue

    package struct Seed: Hashable, Sendable {
        /// The last listed id.
        package var after: RecordID?

        package init(after: RecordID? = nil) {
            self.after = after
        }
    }

    package struct Listing: Hashable, Sendable {
        /// The last listed id.
        package var after: RecordID?
        /// Buckets that are listed; `nil` means all.
        package var buckets: [UInt8]?

        package init(after: RecordID? = nil, buckets: [UInt8]? = nil) {
            self.after = after
            self.buckets = buckets
        }
    }

    /// Urgency of a full comparison with the hub, by the time since the last one.
    package enum FullSync: Hashable, Sendable {
        case notDue
        /// Due as soon as the link and the power cost nothing.
        case due
        /// Due in any case.
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
    /// Number of records that were already here in that version or a newer one.
    package var unchanged = 0
    /// Entities whose sweep would have removed suspiciously many records; nothing was removed.
    package var massDeletes: [EntityName] = []
    /// Number of files that the records show and that are wanted from the hub now.
    package var wantedFiles = 0
    /// Downloads of files that only records showed which have left the share of this device.
    package var cutDownloads: [CutDownload] = []
    /// Fetched files that only records showed which have left the share of this device. Their rows say that the bytes are gone, and the
    /// bytes are to be removed now.
    package var droppedFiles: [BlobDigest] = []

    package init() {}
}

/// State of the engine that must survive a restart.
package struct EngineMemory: Hashable, Sendable {
    /// The hub's history that our cursors and versions belong to; `nil` before the first contact.
    package var epoch: String?
    /// Earliest wall time of the next request (persisted `Retry-After`).
    package var notBefore: Timestamp?
    /// Number of consecutive failed cycles.
    package var failures: Int
    /// The breaker was open: the hub had failed for so long that only probes were sent.
    package var isBreakerOpen: Bool
    /// A pause by an operator, or by the agent itself in safe mode, until a time or without an end.
    package var pause: Pause?
    package var lastSuccess: Timestamp?
    /// Time at which everything mirrored was last asked for and read to the hub's head. It is written with the rest, never alone.
    package var pulledAt: Timestamp?
    package var lastError: String?
    package var lastErrorAt: Timestamp?
    /// Name of the server that ``failures``, ``notBefore`` and ``lastError`` belong to; `nil`: an earlier version did not store it.
    package var server: String?
    /// Entities that the hub offers to this device; `nil`: it has not named them.
    package var hubEntities: [EntityName]?
    /// The scopes and roles of this device by the last hello; `nil`: the hub knows no scopes, or has not been greeted yet.
    package var share: DeviceShare?
    /// The hub's mark of the scopes that its last answer was made under; `nil`: it sends none.
    package var shareMark: String?
    /// The mark under which all streams were last read to their end; `nil`: none, or they were read under several.
    package var readUnder: String?
    /// The marks under which verdicts were recorded since then: those other than ``readUnder``, and those of verdicts that have shown a
    /// record. A verdict shows it by the scopes of its moment. A pull under still other scopes takes away only what its cursor knows.
    /// Also the marks of pulls under other scopes that have not come to their end.
    package var writtenUnder: Set<String> = []
    /// The state of the present history that the hub may not fall behind; `nil` before its first answer to a push.
    package var standing: HubStanding?
    /// Records that the hub has and could not show.
    package var leftOut = LeftOutRecords()
    /// The new history of the hub that this database is moving to, with the progress.
    package var healing: Healing?

    package struct Healing: Hashable, Sendable {
        package var epoch: String
        /// The hub was asked about every accepted mutation up to this `seq`.
        package var askedSeq: Int64 = 0
        /// Number of mutations that the hub did not know.
        package var requeued: Int = 0
        /// The state of the hub when it answered; `nil` before its first answer.
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

        private static let safeMode = "safe mode: the agent died "

        /// The pause with which the agent itself begins after several deaths in a row.
        package static func safeMode(deaths: Int, until: Timestamp) -> Pause {
            Pause(until: until, reason: "\(safeMode)\(deaths) times in a row", uid: 0)
        }

        /// `true` for a pause by the agent itself. Its words tell, because the database and the local API have no other mark for it.
        package var isSafeMode: Bool { uid == 0 && reason.hasPrefix(Self.safeMode) }
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
