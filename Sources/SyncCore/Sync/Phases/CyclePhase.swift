/// A phase of a cycle, with the step that waits for an answer. ``SyncEngine`` hands the answers to it.
package enum CyclePhase: Hashable, Sendable {
    case greeting(GreetPhase)
    /// A new identity is written: of this database, or of the hub's history.
    case adopting(AdoptPhase)
    case settling(SettlePhase)
    case healing(HealPhase)
    /// The state of the reads outlives the phase, because pushes may come between them: see ``SyncEngine/pull``.
    case pulling
    case pushing(PushPhase)
    case settingAside(SetAsidePhase)
    case closing(ClosePhase)
}

/// The phase in which a cycle goes on after an answer.
enum NextPhase {
    /// The phase has asked for something and waits for the answer.
    case wait
    case greet
    case settle
    /// Everything is settled: pull if that is needed and allowed, otherwise push.
    case pullOrPush
    /// Load the streams and read.
    case pull
    case push
    /// The hub has this other history.
    case heal(to: String)
    /// The hub has seen mutations of ours up to this `seq`, more than this database remembers.
    case adoptReplica(seen: Int64)
    /// The first history ever.
    case learnHistory(String)
    /// This database has moved to the hub's new history.
    case adoptHistory
    /// The hub cannot process this batch, which cannot be halved.
    case setAside(Batch, HubReply.Refusal)
    /// The cycle is complete, or goes on later.
    case keepHouse
    /// The cycle ends without housekeeping.
    case close
    /// The cycle is over.
    case done
}

/// One run through the phases: what concerns more than one of them.
package struct SyncCycle: Hashable, Sendable {
    package let session: String
    package let began: Instant
    /// The versions of the schemas that it began with.
    let schemas: SchemaNumbers
    package internal(set) var scope: SyncRequest.Scope
    package internal(set) var outcome: CycleOutcome
    /// An operator or an app requested it, or requested the one before, which failed.
    package let isRequested: Bool
    /// An operator or an app requested this one.
    let isAskedFor: Bool
    /// An operator ordered to ignore cost, battery and windows.
    package let isForced: Bool
    /// The periodic pull was due. A metered link is used for a pull only then.
    var pullIsDue = false
    /// It finds out whether the hub works again: one push of a few mutations.
    var isTrial: Bool
    /// It pulls because the scopes of this device have changed.
    var pullsShare = false
    /// It reads when nothing is left to push: it has pushed first, or began with an answer that may be older than its request.
    var owesPull = false
    /// Entities whose conflicts need one more pull in this cycle; there is never a third round.
    var conflicted: Set<EntityName> = []
    var hasPulledForConflicts = false
    /// The hub has answered in this cycle.
    var wasAnswered = false
    var hasAdoptedReplica = false
    /// This database is being moved to a new history of the hub.
    var isHealing = false
    var healed = 0
    /// The hub was behind its former state, and was greeted with its receipt.
    var hasShownReceipt = false
    /// The headers of the latest good answer.
    var facts = HubHeaders()

    init(session: String, began: Instant, _ orders: NextCycle, isTrial: Bool, schemas: SchemaNumbers) {
        self.schemas = schemas
        self.session = session
        self.began = began
        scope = orders.request?.scope ?? .all
        outcome = CycleOutcome(session: session, request: orders.request)
        isRequested = orders.isRequested
        isAskedFor = orders.request != nil
        isForced = orders.request?.isForced ?? false
        self.isTrial = isTrial
    }
}
