import RepetitionOracle
import SyncCore
import Testing

/// Drives an engine by hand: an event in, effects out. It keeps the promise that holds for every step: at most one store
/// command or call is under way, and none is asked for before the one before it was answered.
struct EngineRig {
    enum Job: Equatable {
        case store, call(UInt64)
    }

    var engine: SyncEngine
    var instant: Instant
    var wall: Timestamp
    /// Effects of the latest event.
    private(set) var effects: [SyncEffect] = []
    private(set) var underWay: Job?
    /// Answers are handed over as they are, also one that is behind an earlier one.
    var hubGoesBack = false
    private var job: SyncEffect?
    private(set) var reports: [SyncReport] = []
    /// The wake-up that is planned.
    private(set) var wakeAt: Instant?
    /// The probe without an answer so far.
    private(set) var probe: UInt64?
    /// The pull that waits at the hub, and its start.
    private(set) var waitingPull: HubCall?
    private(set) var waitBegan = Instant(nanoseconds: 0)
    /// Watches for requests that repeat without end, as the hub of the test would see them.
    private(set) var oracle = RepetitionOracle()

    static let hub = "7f3a"
    static let replica = ReplicaID(trusted: "replica-1")
    static let works = EntityName(trusted: "works")
    static let sites = EntityName(trusted: "sites")

    init(seed: UInt64 = 1, settings: SyncEngine.Settings = SyncEngine.Settings()) {
        engine = SyncEngine(settings: settings, replica: Self.replica, random: SeededRandom(seed: seed))
        instant = Instant(nanoseconds: 1_000_000_000_000)
        wall = Timestamp(milliseconds: 1_795_208_645_000)
    }

    var moment: Moment { Moment(instant: instant, wall: wall) }

    // MARK: Events

    @discardableResult
    mutating func handle(_ event: SyncEvent, _ place: SourceLocation = #_sourceLocation) -> [SyncEffect] {
        switch (event, underWay) {
        case (.stored, .store?): (underWay, job) = (nil, nil)
        case (.answered(let id, _, _), .call(let waiting)?) where waiting == id: (underWay, job) = (nil, nil)
        case (.backendAnswered(let id, _, _), .call(let waiting)?) where waiting == id: (underWay, job) = (nil, nil)
        case (.timer, _): wakeAt = nil
        case (.waited(let id, _, _), _): if id == waitingPull?.id { waitingPull = nil }
        case (.probed, _): probe = nil
        default: break
        }
        effects = engine.handle(event, at: moment)
        for effect in effects {
            switch effect {
            case .store:
                #expect(underWay == nil, "a store command while \(String(describing: underWay)) is under way", sourceLocation: place)
                (underWay, job) = (.store, effect)
            case .send(let call):
                #expect(underWay == nil, "a call while \(String(describing: underWay)) is under way", sourceLocation: place)
                (underWay, job) = (.call(call.id), effect)
                watch(call, place)
            case .wait(let call):
                #expect(waitingPull == nil, "two pulls wait", sourceLocation: place)
                (waitingPull, waitBegan) = (call, instant)
                watch(call, place)
            case .endWait:
                #expect(waitingPull != nil, "no pull waits", sourceLocation: place)
                waitingPull = nil
            case .probe(let id): probe = id
            case .wake(let at): wakeAt = at
            case .report(let report): reports.append(report)
            }
        }
        return effects
    }

    private mutating func watch(_ call: HubCall, _ place: SourceLocation) {
        let before = oracle.complaints.count
        oracle.saw("\(call.target) \(call.rest.map { "\($0)" } ?? "")", body: call.body, atSeconds: instant.nanoseconds / 1_000_000_000)
        if oracle.complaints.count > before {
            Issue.record("the engine repeats itself: \(oracle.complaints.last ?? "")", sourceLocation: place)
        }
    }

    /// Forgets the job under way, as if its answer never came.
    mutating func abandon() {
        (underWay, job) = (nil, nil)
    }

    mutating func advance(_ duration: Duration) {
        instant = instant.advanced(by: duration)
        wall = wall.advanced(by: duration)
    }

    /// Starts the engine and lets its spread pass.
    mutating func start(
        memory: EngineMemory = EngineMemory(epoch: EngineRig.hub), maxSentSeq: Int64 = 0, linkIsUp: Bool = true,
        waiting: Set<Priority> = [], conditions: Conditions = .plain, _ place: SourceLocation = #_sourceLocation
    ) {
        handle(
            .started(
                EngineStart(
                    memory: memory, replica: Self.replica, maxSentSeq: maxSentSeq, ackedSeq: 0, waiting: waiting,
                    conditions: linkIsUp ? conditions : .offline)), place)
    }

    /// Waits until the planned wake-up and fires it.
    mutating func wake(_ place: SourceLocation = #_sourceLocation) {
        guard let at = wakeAt else {
            Issue.record("no wake-up is planned", sourceLocation: place)
            return
        }
        if at > instant { advance(instant.duration(to: at)) }
        handle(.timer, place)
    }

    /// Fires wake-ups until a cycle begins. An early one may be planned from before: it finds nothing due.
    mutating func begin(_ place: SourceLocation = #_sourceLocation) {
        for _ in 0..<4 where engine.cycle == nil {
            wake(place)
            if asked == "housekeep", engine.cycle == nil { stored(.housekept(more: false), place) }
        }
        #expect(engine.cycle != nil, "no cycle began", sourceLocation: place)
    }

    mutating func stored(_ answer: StoreAnswer, _ place: SourceLocation = #_sourceLocation) {
        #expect(underWay == .store, "the store was not asked", sourceLocation: place)
        handle(.stored(answer), place)
    }

    /// Answers the call under way, `after` it was sent.
    mutating func answer(
        _ response: HTTPResponse, after: Duration = .milliseconds(50), _ place: SourceLocation = #_sourceLocation
    ) {
        guard case .call(let id)? = underWay else {
            Issue.record("no call is under way", sourceLocation: place)
            return
        }
        let sent = instant
        advance(after)
        handle(.answered(id, .success(hubGoesBack ? response : risen(response)), sent: sent), place)
    }

    /// Within one history a hub's head only rises, whatever number a test did not care about.
    private func risen(_ response: HTTPResponse) -> HTTPResponse {
        let facts = HubHeaders(reading: response.headers, now: wall)
        let known = engine.memory.standing?.head ?? 0
        guard let head = facts.head, head < known, facts.epoch == engine.memory.epoch else { return response }
        var response = response
        response.headers[HubHeader.head] = String(known)
        let body = String(decoding: response.body, as: UTF8.self)
        response.body = Array(
            body.split(separator: #""head":\#(head)"#, omittingEmptySubsequences: false).joined(separator: #""head":\#(known)"#).utf8)
        return response
    }

    mutating func fail(
        _ code: TransportError.Code = .unreachable, _ traffic: Traffic = Traffic(), after: Duration = .milliseconds(50),
        _ place: SourceLocation = #_sourceLocation
    ) {
        guard case .call(let id)? = underWay else {
            Issue.record("no call is under way", sourceLocation: place)
            return
        }
        let sent = instant
        advance(after)
        let error = TransportError(code, doing: "reach the hub", detail: code.rawValue, traffic: traffic)
        handle(.answered(id, .failure(error), sent: sent), place)
    }

    // MARK: Effects

    /// The one job under way.
    var call: HubCall? {
        if case .send(let call)? = job { call } else { nil }
    }

    var command: StoreCommand? {
        if case .store(let command)? = job { command } else { nil }
    }

    /// A word for the job under way: `hello`, `settle`, `pull`, `push`, or the store command's name; `nil` for none.
    var asked: String? {
        if let call { return call.kind.rawValue }
        guard let command else { return nil }
        switch command {
        case .loadInFlight: return "loadInFlight"
        case .claim: return "claim"
        case .applyResults: return "applyResults"
        case .applyRest: return "applyRest"
        case .loadStreams: return "loadStreams"
        case .applyPull: return "applyPull"
        case .restartStreams: return "restartStreams"
        case .restartShares: return "restartShares"
        case .adoptReplica: return "adoptReplica"
        case .setAside: return "setAside"
        case .remember: return "remember"
        case .housekeep: return "housekeep"
        case .applySnapshot: return "applySnapshot"
        case .loadSettled: return "loadSettled"
        case .requeue: return "requeue"
        case .forgetHistory: return "forgetHistory"
        case .digest: return "digest"
        case .recordComparison: return "recordComparison"
        }
    }

    var remembered: EngineMemory? {
        if case .remember(let memory)? = command { memory } else { nil }
    }

    var outcome: CycleOutcome? {
        for report in reports.reversed() { if case .cycleEnded(let outcome) = report { return outcome } }
        return nil
    }

    /// Time until the planned wake-up.
    var untilWake: Duration? { wakeAt.map { instant.duration(to: $0) } }

    /// Nothing but housekeeping is planned.
    var sleeps: Bool { wakeAt == nil || wakeAt == engine.housekeepingAt }

    // MARK: Whole stretches

    /// Lets time pass in which no cycle may begin: housekeeping is all that comes of it.
    mutating func pass(_ duration: Duration, _ place: SourceLocation = #_sourceLocation) {
        advance(duration)
        handle(.timer, place)
        if asked == "housekeep", engine.cycle == nil { stored(.housekept(more: false), place) }
    }

    /// From a due cycle to its first `loadInFlight`, greeting first if that is due.
    mutating func greet(deviceSeq: Int64? = nil, head: Int64 = 10, _ place: SourceLocation = #_sourceLocation) {
        #expect(asked == "hello", sourceLocation: place)
        answer(Self.hello(deviceSeq: deviceSeq, head: head), place)
        #expect(asked == "loadInFlight", sourceLocation: place)
    }

    /// Ends the cycle that stands at its housekeeping or before it, nothing being left to do.
    mutating func keepHouse(_ place: SourceLocation = #_sourceLocation) {
        if asked == "housekeep" { stored(.housekept(more: false), place) }
        if asked == "remember" { stored(.done, place) }
        #expect(engine.cycle == nil, "the cycle goes on: \(String(describing: engine.phase))", sourceLocation: place)
    }

    /// From a read that brought nothing that can be used to the end of the cycle: nothing of it is stored, and the push comes.
    mutating func goOnWithoutIt(_ place: SourceLocation = #_sourceLocation) {
        if case .applyPull(let response)? = command {
            #expect(response.pages.isEmpty, "a page is applied", sourceLocation: place)
            stored(.pullApplied(PullSummary()), place)
        }
        if asked == "loadStreams" { stored(.streams([]), place) }
        #expect(asked == "claim", "the push does not come", sourceLocation: place)
        stored(.batch(nil, retryAt: nil), place)
        keepHouse(place)
    }

    /// One whole cycle from its beginning, without work on either side.
    mutating func idleCycle(head: Int64 = 10, _ place: SourceLocation = #_sourceLocation) {
        if asked == "hello" { answer(Self.hello(head: head), place) }
        // Twice where not everything may be settled: then the engine looks whether anything is left in flight.
        for _ in 0..<2 where asked == "loadInFlight" { stored(.batch(nil, retryAt: nil), place) }
        if asked == "loadStreams" { stored(.streams([Self.position(Self.works)]), place) }
        if asked == "pull" {
            answer(Self.pull(head: head), place)
            stored(.pullApplied(PullSummary()), place)
        }
        if asked == "claim" { stored(.batch(nil, retryAt: nil), place) }
        keepHouse(place)
    }

    /// A started engine after its first whole cycle, greeted and caught up, with the next pull planned.
    static func settled(
        seed: UInt64 = 1, settings: SyncEngine.Settings = SyncEngine.Settings(),
        memory: EngineMemory = EngineMemory(epoch: EngineRig.hub), maxSentSeq: Int64 = 0
    ) -> EngineRig {
        var rig = EngineRig(seed: seed, settings: settings)
        rig.start(memory: memory, maxSentSeq: maxSentSeq)
        rig.wake()
        rig.idleCycle()
        return rig
    }

    /// A settled engine whose batch is with the hub.
    static func pushing(
        _ batch: Batch, seed: UInt64 = 1, settings: SyncEngine.Settings = SyncEngine.Settings(),
        memory: EngineMemory = EngineMemory(epoch: EngineRig.hub)
    ) -> EngineRig {
        var rig = EngineRig.settled(seed: seed, settings: settings, memory: memory)
        rig.handle(.enqueued(.normal))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.batch(batch, retryAt: nil))
        #expect(rig.asked == "push")
        return rig
    }
}

extension SyncEvent {
    /// The link comes or goes, and nothing else is known of it.
    static func link(up: Bool) -> SyncEvent { .conditions(up ? .plain : .offline) }
}

// MARK: - Answers of the hub

extension EngineRig {
    static func headers(deviceSeq: Int64? = nil, head: Int64? = 10, epoch: String = hub) -> HTTPHeaders {
        var headers: HTTPHeaders = ["Content-Type": "application/json"]
        HubHeaders(epoch: epoch, head: head, deviceSeq: deviceSeq).write(to: &headers)
        return headers
    }

    static func ok(_ body: [UInt8], deviceSeq: Int64? = nil, head: Int64? = 10, epoch: String = hub) -> HTTPResponse {
        HTTPResponse(status: 200, headers: headers(deviceSeq: deviceSeq, head: head, epoch: epoch), body: body)
    }

    static func hello(
        deviceSeq: Int64? = nil, head: Int64 = 10, epoch: String = hub, capabilities: [String] = []
    ) -> HTTPResponse {
        let offered = JSON.list(capabilities).json
        let text = #"{"device_id":"gw","epoch":"\#(epoch)","head":\#(head),"device_seq":\#(deviceSeq ?? 0),"capabilities":\#(offered)}"#
        return ok(Array(text.utf8), deviceSeq: deviceSeq, head: head, epoch: epoch)
    }

    static func pull(
        _ pages: [StreamPage] = [], errors: [StreamError] = [], head: Int64 = 10, deviceSeq: Int64? = nil,
        entities: [EntityName]? = nil
    ) -> HTTPResponse {
        var response = PullResponse(epoch: hub, head: head, pages: pages, errors: errors)
        response.entities = entities
        return ok(PullMessages.response(response), deviceSeq: deviceSeq, head: head)
    }

    static func page(
        _ entity: EntityName, cursor: String, hasMore: Bool = false, records: [StreamPage.Record] = []
    ) -> StreamPage {
        StreamPage(entity: entity, cursor: cursor, hasMore: hasMore, records: records, deletions: [])
    }

    static func record(_ id: String, version: Int64) -> StreamPage.Record {
        StreamPage.Record(id: RecordID(trusted: id), record: HubRecord(version: version, data: ["v": .int(version)]))
    }

    static func expired(_ entity: EntityName) -> StreamError {
        StreamError(entity: entity, problem: Problem("cursor-expired", status: 410, detail: "too old"))
    }

    static func push(_ results: [PushResult], head: Int64 = 11, deviceSeq: Int64? = nil) -> HTTPResponse {
        ok(PushMessages.response(head: head, results: results), deviceSeq: deviceSeq, head: head)
    }

    static func accepted(_ batch: Batch, from version: Int64 = 11) -> [PushResult] {
        batch.mutations.enumerated().map { index, mutation in
            PushResult(
                key: mutation.key,
                verdict: .accepted(version: version + Int64(index), serverID: nil, record: nil, merged: []))
        }
    }

    static func problem(_ status: Int, _ code: String, retryAfter: String? = nil, isHubs: Bool = true) -> HTTPResponse {
        var headers: HTTPHeaders = ["Content-Type": "application/problem+json"]
        if isHubs { HubHeaders(epoch: hub, head: 10).write(to: &headers) }
        headers["Retry-After"] = retryAfter
        return HTTPResponse(
            status: status, headers: headers,
            body: Problem(code, status: status, detail: "\(code) it is").json(prefix: Problem.hubPrefix).bytes)
    }

    static let portal = HTTPResponse(
        status: 200, headers: ["Content-Type": "text/html"], body: Array("<html>Welcome</html>".utf8))

    // MARK: Answers of the store

    static func position(_ entity: EntityName, _ cursor: String? = "c1") -> StreamPosition {
        StreamPosition(entity: entity, cursor: cursor)
    }

    /// One that is listed by id.
    static func listing(_ entity: EntityName, after: String? = nil, buckets: [UInt8]? = nil) -> StreamPosition {
        var position = StreamPosition(entity: entity, cursor: nil)
        position.listing = StreamPosition.Listing(after: after.map { RecordID(trusted: $0) }, buckets: buckets)
        return position
    }

    /// An answer of the hub: a page of a listing.
    static func snapshot(
        _ entity: EntityName, _ ids: [String], hasMore: Bool = false, start: String = "s1", version: Int64 = 10,
        epoch: String = hub
    ) -> HTTPResponse {
        let page = SnapshotPage(
            entity: entity, startCursor: start, startVersion: version, records: ids.map { record($0, version: 1) },
            after: ids.last.map { RecordID(trusted: $0) }, hasMore: hasMore)
        return ok(SnapshotMessages.response(page), head: version, epoch: epoch)
    }

    static func mutation(_ seq: Int64) -> OutgoingMutation {
        OutgoingMutation(
            seq: seq, key: MutationKey(trusted: "key-\(seq)"), record: RecordName(works, RecordID(trusted: "w-\(seq)")),
            action: .update, data: #"{"a":\#(seq)}"#, baseVersion: 1, hlc: "0199c3f2a1b4-0000-9f2c11ab", clock: .synced,
            clientUpdatedAt: Timestamp(milliseconds: 0), priority: .normal)
    }

    /// Members of one atomic list.
    static func list(_ seqs: ClosedRange<Int64>) -> Batch {
        var batch = batch(seqs)
        for index in batch.mutations.indices { batch.mutations[index].group = GroupID(trusted: "list-\(seqs.lowerBound)") }
        return batch
    }

    static func batch(_ seqs: ClosedRange<Int64>) -> Batch {
        Batch(mutations: seqs.map { mutation($0) }, ackedSeq: seqs.lowerBound - 1, maxSentSeq: seqs.upperBound)
    }

    /// - Parameter commits: Commits of our own; `nil`: one for each mutation that is done.
    static func summary(
        done: Int = 0, rejected: Int = 0, retried: Int = 0, conflicted: [EntityName] = [], commits: Int? = nil
    ) -> ResultsSummary {
        var summary = ResultsSummary()
        summary.done = done
        summary.commits = commits ?? done
        summary.rejected = rejected
        summary.retried = retried
        summary.conflicted = conflicted
        return summary
    }
}
