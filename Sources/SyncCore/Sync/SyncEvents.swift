/// Inputs of the engine.
package enum SyncEvent: Sendable {
    /// The store is open; this is its state. It is the first event and comes once.
    case started(EngineStart)
    /// A commit added mutations: the most urgent priority, and the earliest expiry, if there is one. At most once for a commit.
    case enqueued(Priority, expiry: Instant? = nil)
    /// An operator or an app requests a cycle now.
    case requested(SyncRequest)
    case paused(EngineMemory.Pause)
    case resumed
    /// Links, power or budgets have changed.
    case conditions(Conditions)
    case settings(SyncEngine.Settings)
    /// The token or the certificate has changed since the last call.
    case credentialsChanged
    /// The machine was suspended, or the wall clock stepped.
    case clockChanged
    /// The time of an earlier ``SyncEffect/wake(at:)`` has come.
    case timer
    /// The answer to the one running store command.
    case stored(StoreAnswer)
    /// The answer to the one running call; `sent` is when it left.
    case answered(UInt64, Result<HTTPResponse, TransportError>, sent: Instant)
    /// The answer to a call that asks an existing backend (``HubCall/rest``).
    case backendAnswered(UInt64, RestReply, sent: Instant)
    /// The content of a good answer to ``SyncEffect/wait(_:)`` begins to arrive.
    case newsBegan(UInt64)
    /// The answer to ``SyncEffect/wait(_:)``. `sent` is when it left.
    case waited(UInt64, Result<HTTPResponse, TransportError>, sent: Instant)
    /// The answer to ``SyncEffect/probe(_:)``: whether the hub answered.
    case probed(UInt64, isGood: Bool)
}

/// Effects that the engine asks for. The shell performs them in this order and reports back by events.
package enum SyncEffect: Sendable {
    case store(StoreCommand)
    case send(HubCall)
    /// Send a pull that waits at the hub for news. Calls of cycles may run at the same time.
    case wait(HubCall)
    /// Give the waiting pull up.
    case endWait
    /// Find out with the smallest possible request whether the hub works again (PROTOCOL E4). The number comes back with the answer.
    case probe(UInt64)
    /// Send ``SyncEvent/timer`` at that time, or as soon as possible when it has passed. It replaces the earlier request.
    case wake(at: Instant)
    case report(SyncReport)
}

extension SyncEffect {
    /// `true` when the effect has an answer.
    var isJob: Bool {
        switch self {
        case .store, .send: true
        case .wait, .endWait, .probe, .wake, .report: false
        }
    }
}

package struct EngineStart: Hashable, Sendable {
    package var memory: EngineMemory
    package var replica: ReplicaID
    package var maxSentSeq: Int64
    package var ackedSeq: Int64
    /// Priorities of waiting and in-flight mutations.
    package var waiting: Set<Priority>
    package var conditions: Conditions
    /// Earliest end of a time to live among waiting mutations.
    package var expiry: Instant?
    /// The anchor that an earlier process of this boot stored.
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
    /// Overrides backoff, the cost of the link, the battery and time windows, but never the server's `Retry-After`, a pause or a budget
    /// that is used up. An open breaker makes a probe at once.
    package var isForced: Bool

    package init(scope: Scope = .all, isForced: Bool = false) {
        self.scope = scope
        self.isForced = isForced
    }
}

/// An event for status, journal and log. One line for each change of state.
package enum SyncReport: Hashable, Sendable {
    case cycleBegan(session: String)
    case cycleEnded(CycleOutcome)
    case reachability(from: Reachability, to: Reachability, cause: String, HubFault?)
    /// The hub is still not reachable, for this reason now.
    case fault(HubFault)
    /// This database had gone back in time; it has a new replica id and settles everything again.
    case regressed(hubSeq: Int64, ours: Int64)
    /// The hub has another history than before: it was restored from a backup, or created anew.
    case epochChanged(from: String, to: String)
    /// In one history, the hub was at commit `said` and is at `now`: its database was replaced by an older copy. It is asked again. With
    /// `isHealing` it did not begin a new history, and this device offers it alone what it does not know.
    case hubWentBack(said: Int64, now: Int64, isHealing: Bool)
    /// The agent now follows that history of the hub. It lacked `requeued` accepted mutations, which are offered again.
    case historyAdopted(epoch: String, requeued: Int)
    /// An entity was compared by digests; `differing` of its 256 buckets differ and are listed again.
    case compared(EntityName, differing: Int)
    /// Number of databases that use our name in turns; 1: only this one.
    case twins(Int64)
    /// The hub no longer knows our cursors; these entities are listed again.
    case streamsRestarted([EntityName])
    /// A sweep would have removed suspiciously many records; nothing was removed.
    case massDelete([EntityName])
    /// The content of this stream cannot be used: it is left out, and asked again later. `isAlarm`: a person should look.
    case streamHeld(EntityName, detail: String, isAlarm: Bool)
    /// A stream that was left out was read again.
    case streamResumed(EntityName)
    /// Records that the hub has and cannot read: all known ones, or none any more.
    case recordsLeftOut(LeftOutRecords)
    /// One mutation keeps failing alone.
    case setAside(MutationKey, detail: String)
    /// The state of the breaker changed: the hub has failed for long, is on trial, or works again (PROTOCOL G3).
    case breaker(from: Breaker.State, to: Breaker.State)
    /// The hub's time is not believed (`ClockRule.swift`), or agrees again.
    case hubTime(ClockOffset.Verdict)
    /// Work waited, nothing held it back, and there was no attempt for five minutes. The text describes the state, for people.
    case stalled(String)
}

package struct CycleOutcome: Hashable, Sendable {
    package var session: String
    /// The error; `nil` when the cycle reached its end.
    package var error: String?
    package var errorKind: HubReply.Kind?
    package var pushed = 0
    package var rejected = 0
    package var pulled = 0
    /// The cycle should have pulled, but there was no entity to ask for.
    package var hadNoStreams = false
    package var bytesUp = 0
    package var bytesDown = 0
    package var duration: Duration = .zero
    /// The request that the cycle served; `nil` if none was made.
    package var request: SyncRequest?
    /// The reason why a part of its work is left to the next cycle; `nil` if nothing is. A caller that waits for this cycle waits for
    /// that one.
    package var interruption: Interruption?

    /// A reason that ends a cycle, or a part of it, without a failure.
    package enum Interruption: Hashable, Sendable {
        /// The versions of the schemas changed while it ran. The next cycle begins at once, with the request of this one.
        case schemasChanged
        /// The hub has newer schemas, and offers the settings that bring them. Nothing was read. When the settings are here, the next
        /// cycle reads.
        case schemasOffered
        /// The answer to the pull that waited for news is on its way. The next cycle begins with it, reads what came after it, and serves
        /// the request of this one.
        case newsArriving
        /// It had no time or requests left for the read that it owes. The next cycle serves its request.
        case readOwed
    }

    package init(session: String, request: SyncRequest? = nil) {
        self.session = session
        self.request = request
    }
}
