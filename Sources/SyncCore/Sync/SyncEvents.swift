/// What the engine is told.
package enum SyncEvent: Sendable {
    /// The store is open; this is what it remembers. First event, once.
    case started(EngineStart)
    /// A commit added mutations; the most urgent of them, and when the first of them expires, if any can. At most once a commit.
    case enqueued(Priority, expiry: Instant? = nil)
    /// An operator or an app wants a cycle now.
    case requested(SyncRequest)
    case paused(EngineMemory.Pause)
    case resumed
    /// Links, power or budgets are not as they were.
    case conditions(Conditions)
    case settings(SyncEngine.Settings)
    /// The token, or the certificate, is another one than at the last call.
    case credentialsChanged
    /// The machine was suspended, or the wall clock stepped.
    case clockChanged
    /// The time of an earlier ``SyncEffect/wake(at:)`` has come.
    case timer
    /// The answer to the one store command under way.
    case stored(StoreAnswer)
    /// The answer to the one call under way; `sent` is when it left.
    case answered(UInt64, Result<HTTPResponse, TransportError>, sent: Instant)
    /// The answer to a call that asks an existing backend (``HubCall/rest``).
    case backendAnswered(UInt64, RestReply, sent: Instant)
    /// The answer to ``SyncEffect/probe(_:)``: whether it was the hub that answered.
    case probed(UInt64, isGood: Bool)
}

/// What the engine wants done. The shell does them in this order and reports back by events.
package enum SyncEffect: Sendable {
    case store(StoreCommand)
    case send(HubCall)
    /// Find out with the smallest request there is whether the hub is back (PROTOCOL E4). The number comes back with the
    /// answer.
    case probe(UInt64)
    /// Send ``SyncEvent/timer`` at that time, or as soon as possible when it has passed. Replaces the earlier wish.
    case wake(at: Instant)
    case report(SyncReport)
}

extension SyncEffect {
    /// Something that is answered.
    var isJob: Bool {
        switch self {
        case .store, .send: true
        case .probe, .wake, .report: false
        }
    }
}

package struct EngineStart: Hashable, Sendable {
    package var memory: EngineMemory
    package var replica: ReplicaID
    package var maxSentSeq: Int64
    package var ackedSeq: Int64
    /// Priorities of what waits or is in flight.
    package var waiting: Set<Priority>
    package var conditions: Conditions
    /// When the first time to live of what waits is over.
    package var expiry: Instant?
    /// What an earlier process of this boot knew of the time.
    package var anchor: ClockAnchor?

    package init(
        memory: EngineMemory, replica: ReplicaID, maxSentSeq: Int64, ackedSeq: Int64, waiting: Set<Priority>,
        conditions: Conditions, expiry: Instant? = nil, anchor: ClockAnchor? = nil
    ) {
        self.anchor = anchor
        self.expiry = expiry
        self.memory = memory
        self.replica = replica
        self.maxSentSeq = maxSentSeq
        self.ackedSeq = ackedSeq
        self.waiting = waiting
        self.conditions = conditions
    }
}

package struct SyncRequest: Hashable, Sendable {
    package enum Scope: String, Hashable, Sendable, CaseIterable { case all, push, pull, full }

    package var scope: Scope
    /// Overrides backoff, the cost of the link, the battery and time windows; never the server's `Retry-After`, a pause or
    /// a budget that is used up. An open breaker is answered with a probe at once.
    package var isForced: Bool

    package init(scope: Scope = .all, isForced: Bool = false) {
        self.scope = scope
        self.isForced = isForced
    }
}

/// Something that happened, for status, events and the log. One line per state change.
package enum SyncReport: Hashable, Sendable {
    case cycleBegan(session: String)
    case cycleEnded(CycleOutcome)
    case reachability(from: Reachability, to: Reachability, cause: String, HubFault?)
    /// The hub is not reached, as before; this is why now.
    case fault(HubFault)
    /// Our database had gone back in time; it has a new replica id and settles everything again.
    case regressed(hubSeq: Int64, ours: Int64)
    /// The hub has another history than before: restored from a backup, or created anew.
    case epochChanged(from: String, to: String)
    /// In one history, the hub was at commit `said` and is at `now`: its database was replaced by an older copy. It is asked
    /// again; with `isHealing` it did not begin a new history, and what it does not know is offered to it by us alone.
    case hubWentBack(said: Int64, now: Int64, isHealing: Bool)
    /// That history is ours now; so many accepted mutations were not known to it and are offered again.
    case historyAdopted(epoch: String, requeued: Int)
    /// An entity was compared from afar; so many of its 256 parts differ and are listed afresh.
    case compared(EntityName, differing: Int)
    /// So many databases speak in turns under our name; 1: only we do.
    case twins(Int64)
    /// The hub no longer knows our cursors; these entities are listed afresh.
    case streamsRestarted([EntityName])
    /// A sweep would have removed suspiciously many records; nothing was removed.
    case massDelete([EntityName])
    /// What came of this stream cannot be used: it is left out, and asked for again later. `isAlarm`: a person should look.
    case streamHeld(EntityName, detail: String, isAlarm: Bool)
    /// A stream that was left out has been read again.
    case streamResumed(EntityName)
    /// Records that the hub has and cannot read: all that are known, or none any more.
    case recordsLeftOut(LeftOutRecords)
    /// One mutation keeps failing alone.
    case setAside(MutationKey, detail: String)
    /// The hub has failed for long, may be back, is back (PROTOCOL G3).
    case breaker(from: Breaker.State, to: Breaker.State)
    /// The hub's time is not believed (`ClockRule.swift`), or agrees again.
    case hubTime(ClockOffset.Verdict)
    /// Work waited, nothing kept it back, and nothing was tried for five minutes. What that stood at, for people.
    case stalled(String)
}

package struct CycleOutcome: Hashable, Sendable {
    package var session: String
    /// `nil` when the cycle reached its end.
    package var error: String?
    package var errorKind: HubReply.Kind?
    package var pushed = 0
    package var rejected = 0
    package var pulled = 0
    /// It meant to pull, and there was no entity to ask for.
    package var hadNoStreams = false
    package var bytesUp = 0
    package var bytesDown = 0
    package var duration: Duration = .zero

    package init(session: String) {
        self.session = session
    }
}
