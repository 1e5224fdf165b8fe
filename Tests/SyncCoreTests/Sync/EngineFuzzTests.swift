import SyncCore
import Testing

/// Random events, random answers, and the promises that hold at every step of every history.
@Suite("Engine: promises that hold whatever comes")
struct EngineFuzzTests {
    typealias Rig = EngineRig

    @Test("One job at a time, always a wake-up while there is a link, nothing sent in a pause or before its time", arguments: 0..<40)
    func walk(_ block: Int) {
        for seed in block * 10..<block * 10 + 10 {
            var walk = Walk(seed: UInt64(seed))
            for step in 0..<300 {
                walk.step()
                if let broken = walk.broken {
                    Issue.record("seed \(seed), step \(step): \(broken); \(String(describing: walk.rig.engine.phase))")
                    return
                }
            }
            #expect(walk.cycles > 0)
        }
    }

    private struct Walk {
        var rig: Rig
        var random: SeededRandom
        var broken: String?
        var cycles = 0
        private var isLinkUp = true
        private var pause: EngineMemory.Pause?
        /// The hub asked for no request before this.
        private var notBefore: Instant?
        private var lateIDs: [UInt64] = []
        private var reported = 0
        private var seq: Int64 = 0

        init(seed: UInt64) {
            rig = Rig(seed: seed)
            random = SeededRandom(seed: seed &+ 77)
            rig.start()
        }

        mutating func step() {
            switch Int.random(in: 0..<30, using: &random) {
            case 0: rig.handle(.enqueued(Priority.allCases.randomElement(using: &random) ?? .normal))
            case 1:
                let scope = SyncRequest.Scope.allCases.randomElement(using: &random) ?? .all
                rig.handle(.requested(SyncRequest(scope: scope, isForced: Bool.random(using: &random))))
            case 2 where pause == nil:
                let until = Bool.random(using: &random) ? rig.wall.advanced(by: .seconds(40)) : nil
                pause = EngineMemory.Pause(until: until, reason: "", uid: 0)
                rig.handle(.paused(EngineMemory.Pause(until: until, reason: "", uid: 0)))
            case 3, 4:
                pause = nil
                rig.handle(.resumed)
            case 5:
                isLinkUp = false
                rig.handle(.link(up: false))
            case 6, 7:
                isLinkUp = true
                rig.handle(.link(up: true))
            case 8:
                rig.wall = rig.wall.advanced(by: .seconds(Int64.random(in: -100_000...100_000, using: &random)))
                rig.handle(.clockChanged)
            case 9: rig.handle(.settings(SyncEngine.Settings()))
            case 10: rig.handle(.timer)
            case 11:
                // An answer to a call that is over.
                let id = lateIDs.randomElement(using: &random) ?? 99_999
                let before = rig.engine
                rig.handle(.answered(id, .success(Rig.push([])), sent: rig.instant))
                if rig.engine.phase != before.phase || rig.engine.pull != before.pull { broken = "a late answer was taken" }
            default: goOn()
            }
            check()
        }

        /// Answers what is under way, or lets time pass until the next wake-up.
        private mutating func goOn() {
            if let call = rig.call {
                lateIDs.append(call.id)
                answer(call)
            } else if let command = rig.command {
                store(command)
            } else if let at = rig.wakeAt {
                if at > rig.instant { rig.advance(rig.instant.duration(to: at)) }
                rig.handle(.timer)
            } else {
                rig.advance(.seconds(10))
                rig.handle(.timer)
            }
        }

        private mutating func answer(_ call: HubCall) {
            let after = random.duration(from: .milliseconds(5), to: .seconds(8))
            if Int.random(in: 0..<4, using: &random) == 0 {
                switch Int.random(in: 0..<10, using: &random) {
                case 9: rig.answer(Rig.hello(head: 3, epoch: "b000"), after: after)
                case 0: rig.answer(Rig.portal, after: after)
                case 1: rig.answer(Rig.problem(500, "internal"), after: after)
                case 2:
                    let seconds = Int64.random(in: 0...200, using: &random)
                    notBefore = rig.instant.advanced(by: after).advanced(by: .seconds(max(seconds, 1)))
                    rig.answer(Rig.problem(503, "overloaded", retryAfter: String(seconds)), after: after)
                case 3: rig.answer(Rig.problem(400, "malformed"), after: after)
                case 4: rig.answer(Rig.problem(409, "replica-regressed"), after: after)
                case 5: rig.answer(Rig.ok(Array("{\"head\":3,\"results\":[".utf8)), after: after)
                case 6: rig.answer(Rig.problem(410, "cursor-expired"), after: after)
                case 7: rig.answer(Rig.problem(413, "too-large"), after: after)
                default: rig.fail(TransportError.Code.allCases.randomElement(using: &random) ?? .broken, after: after)
                }
                return
            }
            let head = Int64.random(in: 10...20, using: &random)
            switch call.kind {
            case .hello: rig.answer(Rig.hello(head: head), after: after)
            case .pull:
                let errors = Int.random(in: 0..<6, using: &random) == 0 ? [Rig.expired(Rig.works)] : []
                let hasMore = Bool.random(using: &random)
                let page = Rig.page(Rig.works, cursor: "c\(random.next() % 4)", hasMore: hasMore)
                rig.answer(Rig.pull(errors.isEmpty ? [page] : [], errors: errors, head: head), after: after)
            case .snapshot:
                let ids = call.target.contains("after=") ? ["w-2"] : ["w-1"]
                rig.answer(Rig.snapshot(Rig.works, ids, hasMore: ids == ["w-1"]), after: after)
            case .known:
                let keys = (try? KnownMessages.readRequest(call.body)) ?? []
                rig.answer(
                    Rig.ok(KnownMessages.response(unknown: keys), epoch: Bool.random(using: &random) ? "b000" : Rig.hub), after: after)
            case .verify:
                let differs: [UInt8] = Bool.random(using: &random) ? [] : [7]
                let verdict = VerifyResponse(differs: differs, startCursor: "s1", startVersion: head)
                rig.answer(Rig.ok(VerifyMessages.response(verdict)), after: after)
            case .settle, .push:
                guard let text = try? JSONReader.read(call.body), let sent = text.object?["mutations"]?.array else { return }
                var results = sent.compactMap { $0.object?["idempotency_key"]?.text }.map { key in
                    PushResult(
                        key: MutationKey(trusted: key),
                        verdict: Bool.random(using: &random)
                            ? .accepted(version: head, serverID: nil, record: nil, merged: []) : .retry(nil, after: nil))
                }
                if Int.random(in: 0..<5, using: &random) == 0 { results.removeLast() }
                rig.answer(Rig.push(results, head: head), after: after)
            }
        }

        private mutating func store(_ command: StoreCommand) {
            rig.advance(random.duration(from: .zero, to: .milliseconds(200)))
            if Int.random(in: 0..<15, using: &random) == 0 { return rig.stored(.failed("disk full")) }
            let retryAt = Int.random(in: 0..<4, using: &random) == 0 ? rig.wall.advanced(by: .seconds(30)) : nil
            switch command {
            case .loadInFlight, .claim: rig.stored(.batch(batch(), retryAt: retryAt))
            case .applyResults(let results, let next, _, _):
                var summary = Rig.summary(done: Int.random(in: 0...results.count, using: &random))
                summary.retryAt = retryAt
                if Int.random(in: 0..<4, using: &random) == 0 { summary.conflicted = [Rig.works] }
                rig.stored(.resultsApplied(summary, next: next == nil ? nil : batch()))
            case .applyRest(let results, let next):
                rig.stored(.resultsApplied(Rig.summary(done: results.count), next: next == nil ? nil : batch()))
            case .loadStreams:
                let cursor = Bool.random(using: &random) ? "c1" : nil
                var sites = Rig.position(Rig.sites, cursor)
                if Int.random(in: 0..<3, using: &random) == 0 { sites.fullSync = .due }
                let works = Int.random(in: 0..<3, using: &random) == 0 ? Rig.listing(Rig.works) : Rig.position(Rig.works, cursor)
                rig.stored(.streams([sites, works]))
            case .applyPull: rig.stored(.pullApplied(PullSummary()))
            case .restartStreams, .restartShares, .adoptReplica, .setAside, .remember, .recordComparison: rig.stored(.done)
            case .applySnapshot(let page):
                let next = page.hasMore ? Rig.listing(page.entity, after: page.after?.text) : Rig.position(page.entity, "c1")
                rig.stored(.snapshotApplied(PullSummary(), next))
            case .loadSettled(let after):
                let keys = after < 3 ? [Rig.mutation(after + 1).key] : []
                rig.stored(.settled(keys, upTo: after + Int64(keys.count)))
            case .requeue(let keys): rig.stored(.requeued(keys.count))
            case .forgetHistory: rig.stored(.historyForgotten(more: Int.random(in: 0..<3, using: &random) == 0))
            case .digest: rig.stored(.digest(EntityDigest()))
            case .housekeep:
                let expiry = Bool.random(using: &random) ? rig.instant.advanced(by: .seconds(30)) : nil
                rig.stored(.housekept(more: Bool.random(using: &random), expiry: expiry))
            }
        }

        private mutating func batch() -> Batch? {
            let count = Int64.random(in: 0...3, using: &random)
            guard count > 0 else { return nil }
            seq += count
            return Rig.batch(seq - count + 1...seq)
        }

        private mutating func check() {
            // A pause that has ended once has ended, whatever the wall clock says later.
            if let until = pause?.until, until <= rig.wall { pause = nil }
            for report in rig.reports[reported...] {
                if case .cycleEnded = report { cycles += 1 }
            }
            reported = rig.reports.count
            for effect in rig.effects {
                guard case .send = effect else { continue }
                if !isLinkUp { broken = "sent without a link" }
                if let pause, pause.until.map({ $0 > rig.wall }) ?? true { broken = "sent in a pause" }
                if let notBefore, rig.instant < notBefore { broken = "sent before the hub's Retry-After" }
            }
            guard rig.underWay == nil else { return }
            if rig.engine.cycle != nil { broken = "a cycle waits for nothing" }
            let isPausedForGood = pause.map { $0.until == nil } ?? false
            if isLinkUp, !isPausedForGood, rig.wakeAt == nil { broken = "no wake-up is planned" }
        }
    }
}
