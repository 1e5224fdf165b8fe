import SyncCore
import Testing

/// An engine with a store and a hub in memory, for as long as a test wants: an app that changes something every ten seconds,
/// other devices that change every entity every ten seconds, and a hub whose answers the test may spoil.
///
/// It counts progress: whatever is spoiled, everything else must go on.
struct EngineWorld {
    enum Spoiled {
        case answer(HTTPResponse)
        case nothing(TransportError.Code)
    }

    var rig: EngineRig
    /// Changes the hub's answer; `nil` lets it through.
    var spoil: (HubCall, HTTPResponse) -> Spoiled? = { _, _ in nil }

    static let entities = ["orders", "sites", "works"].map { EntityName(trusted: $0) }
    static let poisoned = EntityName(trusted: "works")

    // The hub: how many records each entity's feed has, and what was pushed to it.
    private(set) var heads: [EntityName: Int] = [:]
    private(set) var accepted: [MutationKey] = []
    // The store.
    private(set) var cursors: [EntityName: Int] = [:]
    /// Entities that are listed by id; ended by their last page.
    var listings: Set<EntityName> = []
    /// Entities that are due for a comparison.
    var comparisons: Set<EntityName> = []
    private(set) var compared: [EntityName: Int] = [:]
    private var pending: [Int64] = []
    /// Mutations that failed alone, and the time from which each may go again.
    private var aside: [(seq: Int64, at: Instant)] = []
    private var inFlight: [Int64] = []
    private(set) var rejected: [Int64] = []
    private(set) var enqueued: Int64 = 0
    /// Requests by kind, and requests that asked for the poisoned entity.
    private(set) var calls: [HubCall.Kind: Int] = [:]
    private(set) var callsAboutPoison = 0
    private(set) var alarms: [EntityName: String] = [:]
    private var reportsSeen = 0
    private static let pageSize = 5

    init(seed: UInt64 = 1) {
        rig = EngineRig(seed: seed)
        for entity in Self.entities { (heads[entity], cursors[entity]) = (40, 0) }
        rig.start(memory: EngineMemory(epoch: EngineRig.hub))
    }

    /// `true` when the entity is here as the hub has it.
    func isCaughtUp(_ entity: EntityName) -> Bool { cursors[entity] == heads[entity] && !listings.contains(entity) }
    var waiting: Int { pending.count + aside.count + inFlight.count }

    /// Lets time pass, with an app and other devices at work, or without.
    mutating func run(_ duration: Duration, isBusy: Bool = true, stepsMax: Int = 60_000) {
        let end = rig.instant.advanced(by: duration)
        var work = rig.instant
        for _ in 0..<stepsMax {
            if isBusy, rig.instant >= work, rig.instant < end {
                work = rig.instant.advanced(by: .seconds(10))
                enqueued += 1
                pending.append(enqueued)
                for entity in Self.entities { heads[entity, default: 0] += 1 }
                rig.handle(.enqueued(.normal))
            }
            note()
            if let probe = rig.probe { rig.handle(.probed(probe, isGood: true)) }
            if let call = rig.call {
                answer(call)
            } else if let command = rig.command {
                answer(command)
            } else if rig.instant >= end {
                return
            } else {
                let next = min(end, isBusy ? work : end, rig.wakeAt ?? end)
                if next > rig.instant { rig.advance(rig.instant.duration(to: next)) } else { rig.advance(.milliseconds(1)) }
                rig.handle(.timer)
            }
        }
        Issue.record("more than \(stepsMax) steps")
    }

    private mutating func note() {
        for report in rig.reports.dropFirst(reportsSeen) {
            switch report {
            case .streamHeld(let entity, let detail, _): alarms[entity] = detail
            case .streamResumed(let entity): alarms[entity] = nil
            default: continue
            }
        }
        reportsSeen = rig.reports.count
    }

    // MARK: The hub

    private mutating func answer(_ call: HubCall) {
        calls[call.kind, default: 0] += 1
        if Self.isAboutPoison(call) { callsAboutPoison += 1 }
        let honest = honestAnswer(to: call)
        switch spoil(call, honest) {
        case nil: rig.answer(honest)
        case .answer(let response)?: rig.answer(response)
        case .nothing(let code)?: rig.fail(code)
        }
    }

    static func isAboutPoison(_ call: HubCall) -> Bool {
        let text = String(decoding: call.body, as: UTF8.self) + (call.query ?? "")
        let isRead = call.kind == .pull || call.kind == .snapshot || call.kind == .verify
        return isRead && (text.contains("\"works\"") || text.contains("entity=works"))
    }

    private mutating func honestAnswer(to call: HubCall) -> HTTPResponse {
        let head = Int64(heads.values.reduce(0, +) + accepted.count)
        switch call.kind {
        case .hello:
            let hello = HelloResponse(
                device: DeviceID(trusted: "gw"), epoch: EngineRig.hub, head: head, time: nil, deviceSeq: 0,
                capabilities: [VerifyMessages.capability], spread: .zero)
            return EngineRig.ok(HelloMessages.response(hello), head: head)
        case .pull:
            let request = (try? PullMessages.readRequest(call.body)) ?? PullRequest(streams: [], limit: 1, maxBytes: 1, maxSentSeq: 0)
            let pages = request.streams.map { stream -> StreamPage in
                let from = stream.cursor.flatMap { Int($0.dropFirst()) } ?? 0
                let to = min(heads[stream.entity] ?? 0, from + Self.pageSize)
                var page = EngineRig.page(stream.entity, cursor: "c\(to)", hasMore: to < heads[stream.entity] ?? 0)
                page.records = (from..<max(from, to)).map { EngineRig.record("r-\($0)", version: Int64($0) + 1) }
                return page
            }
            return EngineRig.pull(pages, head: head)
        case .snapshot:
            let entity = Self.entities.first { call.query?.contains("entity=\($0)") == true } ?? Self.poisoned
            return EngineRig.snapshot(entity, ["a-1", "a-2"], start: "c\(heads[entity] ?? 0)", version: head)
        case .verify:
            return EngineRig.ok(VerifyMessages.response(VerifyResponse(differs: [], startCursor: "c1", startVersion: head)), head: head)
        case .known: return EngineRig.ok(KnownMessages.response(unknown: []), head: head)
        case .push, .settle:
            let text = String(decoding: call.body, as: UTF8.self)
            let batch = batch(inFlight.filter { text.contains("\"key-\($0)\"") })
            return EngineRig.push(EngineRig.accepted(batch, from: head + 1), head: head + Int64(batch.mutations.count))
        }
    }

    // MARK: The store

    private func batch(_ seqs: [Int64]) -> Batch {
        Batch(mutations: seqs.map { EngineRig.mutation($0) }, ackedSeq: 0, maxSentSeq: 1_000_000)
    }

    private mutating func claim(_ limits: BatchLimits) -> Batch? {
        if pending.isEmpty, let due = aside.firstIndex(where: { $0.at <= rig.instant }) {
            inFlight = [aside.remove(at: due).seq]
        } else {
            inFlight = Array(pending.prefix(limits.mutations))
            pending.removeFirst(inFlight.count)
        }
        return inFlight.isEmpty ? nil : batch(inFlight)
    }

    private mutating func answer(_ command: StoreCommand) {
        switch command {
        case .loadInFlight(let limits):
            let seqs = Array(inFlight.prefix(limits.mutations))
            // The mutations that go over the wire are those that the answer to a settle is about.
            rig.stored(.batch(seqs.isEmpty ? nil : batch(seqs), retryAt: nil))
        case .claim(let limits): rig.stored(.batch(claim(limits), retryAt: nil))
        case .applyResults(let results, let next, _, _):
            var summary = EngineRig.summary()
            for result in results {
                guard let seq = inFlight.first(where: { EngineRig.mutation($0).key == result.key }) else { continue }
                inFlight.removeAll { $0 == seq }
                if case .rejected = result.verdict {
                    rejected.append(seq)
                    summary.rejected += 1
                } else {
                    accepted.append(result.key)
                    summary.done += 1
                    if case .accepted = result.verdict { summary.commits += 1 }
                }
            }
            rig.stored(.resultsApplied(summary, next: next.flatMap { inFlight.isEmpty ? claim($0) : nil }))
        case .setAside(let key, _, _):
            let seq = inFlight.first { EngineRig.mutation($0).key == key }
            inFlight.removeAll { $0 == seq }
            if let seq { aside.append((seq, rig.instant.advanced(by: .seconds(60)))) }
            rig.stored(.done)
        case .loadStreams:
            let streams = Self.entities.map { entity -> StreamPosition in
                if listings.contains(entity) { return EngineRig.listing(entity) }
                var position = EngineRig.position(entity, cursors[entity].flatMap { $0 == 0 ? nil : "c\($0)" })
                if comparisons.contains(entity) { position.fullSync = .overdue }
                return position
            }
            rig.stored(.streams(streams))
        case .applyPull(let response):
            var summary = PullSummary()
            for page in response.pages {
                summary.upserts += page.records.count
                cursors[page.entity] = Int(page.cursor.dropFirst()) ?? cursors[page.entity]
            }
            rig.stored(.pullApplied(summary))
        case .applySnapshot(let page):
            listings.remove(page.entity)
            cursors[page.entity] = Int(page.startCursor.dropFirst()) ?? 0
            rig.stored(.snapshotApplied(PullSummary(), EngineRig.position(page.entity, page.startCursor)))
        case .restartStreams(let entities), .restartShares(let entities):
            listings.formUnion(entities)
            rig.stored(.done)
        case .digest: rig.stored(.digest(EntityDigest()))
        case .recordComparison(let entity, _, _):
            comparisons.remove(entity)
            compared[entity, default: 0] += 1
            rig.stored(.done)
        case .housekeep: rig.stored(.housekept(more: false))
        case .remember, .adoptReplica: rig.stored(.done)
        case .loadSettled(let seq): rig.stored(.settled([], upTo: seq))
        case .requeue: rig.stored(.requeued(0))
        case .forgetHistory: rig.stored(.historyForgotten(more: false))
        case .applyRest: Issue.record("there is no backend here")
        }
    }
}
