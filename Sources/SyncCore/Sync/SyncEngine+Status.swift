// The facts that the shell and the status read from the engine.
extension SyncEngine {
    package var settings: Settings { state.settings }

    /// The running cycle.
    package var cycle: SyncCycle? { state.cycle }

    /// State that survives a restart, as it is now.
    package var memory: EngineMemory { state.memory }

    package var replica: ReplicaID { state.marks.id }

    /// Highest `seq` that this replica has ever handed to the network.
    package var maxSentSeq: Int64 { state.marks.maxSentSeq }

    /// The kernel reports that the wall clock is synchronised; may change at any time.
    package var wallIsSynchronised: Bool {
        get { state.wallIsSynchronised }
        set { state.wallIsSynchronised = newValue }
    }

    // MARK: Schedule

    /// Time of the next planned cycle, by the present state.
    package func nextCycleAt(at moment: Moment) -> Instant? {
        state.pressure.timer.dueAt(
            state.allowance(at: moment), forced: state.allowance(at: moment, isForced: true), pulls: !state.news.isWaiting)
    }

    /// Time of the planned housekeeping, if no cycle does it before; `nil` before the start.
    package var housekeepingAt: Instant? { state.house.dueAt }

    /// Wall time of the next possible attempt, for status.
    package var retryAt: Timestamp? { state.pressure.retryAt }

    package var breaker: Breaker { state.pressure.breaker }

    package var watchdog: Watchdog { state.watchdog }

    // MARK: Policy

    /// The policy's present decision about a class of traffic.
    package func verdict(on traffic: TrafficClass, now: Timestamp) -> Verdict {
        Policy.decide(traffic, in: situation, now: now)
    }

    /// All inputs of the verdicts, as status shows them.
    package var situation: Situation { state.situation }

    package var reachability: Reachability { state.reachability }

    /// Work that waits only because of its size.
    package var withheld: WithheldWork { state.withheld }

    /// Sizes of pages and batches on the present link.
    package var pace: LinkPace { state.sizes.pace }

    // MARK: The hub

    /// `true` when the last pull read every stream to its end and nothing newer is known.
    package var isCaughtUp: Bool { state.hub.isReadToHead && state.readings.held.isEmpty }

    /// Time of the last complete pull of the entity. `nil`: neither this run nor an earlier one has a record of it.
    package func pulledAt(_ entity: EntityName) -> Timestamp? {
        [state.hub.pulledAt(entity), memory.pulledAt].compactMap { $0 }.max()
    }

    /// Newest commit number that the hub has named.
    package var seenHead: Int64? { state.hub.head }

    /// The scopes of this device have changed at the hub since the last hello. Over a metered link the next one comes with the next cycle.
    package var isShareOld: Bool { state.share.isDue }

    /// Number of databases that use our name in turns, as the hub last said; 1 is only this one.
    package var twins: Int64 { state.hub.clones }

    package var clock: ClockOffset { state.hub.clock }

    /// The verdict about the time in the hub's latest answer.
    package var hubTime: ClockOffset.Verdict { state.hub.time }

    /// Streams that are left out, with the reasons.
    package var heldStreams: StreamQuarantine { state.readings.held }

    /// Records that the hub has and could not show.
    package var leftOutRecords: LeftOutRecords { memory.leftOut }
}
