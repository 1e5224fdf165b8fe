import SyncCore
import Testing

@Suite("A cycle with an existing backend")
struct EngineRestTests {
    private static func rig(epoch: String? = RestMapping.epoch, waiting: Set<Priority> = [.normal]) -> EngineRig {
        var settings = SyncEngine.Settings()
        settings.isRest = true
        var rig = EngineRig(settings: settings)
        rig.start(memory: EngineMemory(epoch: epoch), waiting: waiting)
        rig.begin()
        return rig
    }

    private static func answer(_ rig: inout EngineRig, _ reply: RestReply) {
        guard let call = rig.call else {
            Issue.record("no call is under way")
            return
        }
        rig.handle(.backendAnswered(call.id, reply, sent: rig.instant))
    }

    private static func answered(_ content: RestReply.Content, _ refusal: HubReply.Refusal? = nil) -> RestReply {
        var reply = RestReply(content, refusal: refusal)
        reply.wasAnswered = true
        return reply
    }

    private static func done(_ batch: ClosedRange<Int64>) -> RestReply.Content {
        .pushed(batch.map { RestResult(EngineRig.mutation($0).key, .accepted(RestRemote(id: .int($0)))) })
    }

    private static func page(_ entity: EntityName, more: Bool = false) -> StreamPage {
        StreamPage(entity: entity, cursor: more ? "{\"next\":\"/2\"}" : "{}", hasMore: more, records: [], deletions: [])
    }

    /// Through settle and pull, to the claim.
    private static func pull(_ rig: inout EngineRig) {
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([EngineRig.position(EngineRig.works)]))
        answer(&rig, answered(.pulled(PullResponse(epoch: nil, head: 0, pages: [page(EngineRig.works)]))))
        rig.stored(.pullApplied(PullSummary()))
    }

    @Test("There is no hello: settle, lists, then two mutations at a time until nothing is left")
    func cycle() {
        var rig = Self.rig()
        #expect(rig.asked == "loadInFlight")
        Self.pull(&rig)
        guard case .claim(let limits)? = rig.command else {
            Issue.record("\(String(describing: rig.asked))")
            return
        }
        #expect(limits.mutations == Limits.restParallel)
        rig.stored(.batch(EngineRig.batch(1...2), retryAt: nil))
        guard case .push(let batch)? = rig.call?.rest else {
            Issue.record("no question")
            return
        }
        #expect(batch.mutations.count == 2 && rig.call?.body == [])
        Self.answer(&rig, Self.answered(Self.done(1...2)))
        #expect(rig.asked == "applyRest")
        rig.stored(.resultsApplied(EngineRig.summary(done: 2), next: EngineRig.batch(3...3)))
        Self.answer(&rig, Self.answered(Self.done(3...3)))
        rig.stored(.resultsApplied(EngineRig.summary(done: 1), next: nil))
        rig.stored(.housekept(more: false))
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.outcome?.error == nil && rig.outcome?.pushed == 3)
        #expect(rig.engine.reachability == .online && rig.engine.isCaughtUp)
    }

    @Test("Right after a pull another cycle asks for no list again")
    func freshness() {
        var rig = Self.rig()
        Self.pull(&rig)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        if rig.asked == "remember" { rig.stored(.done) }
        rig.handle(.enqueued(.normal))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
    }

    @Test("Known outcomes are recorded before a refusal ends the cycle")
    func partial() {
        var rig = Self.rig()
        Self.pull(&rig)
        rig.stored(.batch(EngineRig.batch(1...2), retryAt: nil))
        let refusal = HubReply.Refusal(.transport(.broken), "reset")
        Self.answer(&rig, Self.answered(Self.done(1...1), refusal))
        guard case .applyRest(let results, nil)? = rig.command else {
            Issue.record("\(String(describing: rig.asked))")
            return
        }
        #expect(results.count == 1)
        rig.stored(.resultsApplied(EngineRig.summary(done: 1), next: nil))
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.outcome?.error == "reset" && rig.outcome?.pushed == 1)
    }

    @Test("With nothing known at all the cycle ends, and everything stays in flight")
    func nothing() {
        var rig = Self.rig()
        Self.pull(&rig)
        rig.stored(.batch(EngineRig.batch(1...1), retryAt: nil))
        Self.answer(&rig, RestReply(.pushed([]), refusal: HubReply.Refusal(.transport(.timedOut), "silence")))
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.outcome?.error == "silence" && rig.engine.reachability == .degraded)
    }

    @Test("A failure counts for a mutation only when another one got through in between")
    func counting() {
        var rig = Self.rig()
        Self.pull(&rig)
        rig.stored(.batch(EngineRig.batch(1...2), retryAt: nil))
        func failure(_ seq: Int64) -> RestResult {
            RestResult(EngineRig.mutation(seq).key, .unsure(Problem("failed-alone", status: 500, detail: "no"), after: nil, counts: true))
        }
        func counts(_ rig: EngineRig) -> [Bool] {
            guard case .applyRest(let results, _)? = rig.command else { return [] }
            return results.compactMap { if case .unsure(_, _, let counts) = $0.verdict { counts } else { nil } }
        }
        let good = RestResult(EngineRig.mutation(2).key, .accepted(RestRemote()))
        Self.answer(&rig, Self.answered(.pushed([failure(1), good])))
        #expect(counts(rig) == [false], "the first failure says nothing")
        rig.stored(.resultsApplied(EngineRig.summary(done: 1), next: EngineRig.batch(1...3)))
        let other = RestResult(EngineRig.mutation(3).key, .accepted(RestRemote()))
        Self.answer(&rig, Self.answered(.pushed([other, failure(1)])))
        #expect(counts(rig) == [true])
        rig.stored(.resultsApplied(EngineRig.summary(done: 1), next: EngineRig.batch(1...1)))
        Self.answer(&rig, Self.answered(.pushed([failure(1)])))
        #expect(counts(rig) == [false], "nothing got through since")
    }

    @Test("A list that fails holds back neither the others nor the push, and is seen")
    func lists() {
        var rig = Self.rig()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([EngineRig.position(EngineRig.sites), EngineRig.position(EngineRig.works)]))
        let error = StreamError(entity: EngineRig.sites, problem: Problem("list", status: 500, detail: "broken"))
        let response = PullResponse(epoch: nil, head: 0, pages: [Self.page(EngineRig.works, more: true)], errors: [error])
        Self.answer(&rig, Self.answered(.pulled(response)))
        rig.stored(.pullApplied(PullSummary()))
        guard case .pull(let streams)? = rig.call?.rest else {
            Issue.record("the next page is asked for")
            return
        }
        #expect(streams.map(\.entity) == [EngineRig.works] && streams.first?.cursor == "{\"next\":\"/2\"}")
        Self.answer(&rig, Self.answered(.pulled(PullResponse(epoch: nil, head: 0, pages: [Self.page(EngineRig.works)]))))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim" && !rig.engine.isCaughtUp)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.engine.memory.lastError == "sites was not read: broken")
    }

    @Test("The first backend's history is on flash before anything of it; that of a hub is moved, without a question")
    func history() {
        var fresh = Self.rig(epoch: nil)
        #expect(fresh.remembered?.epoch == RestMapping.epoch)
        fresh.stored(.done)
        #expect(fresh.asked == "loadInFlight")
        var moved = Self.rig(epoch: EngineRig.hub)
        #expect(moved.asked == "loadSettled")
        moved.stored(.settled([EngineRig.mutation(1).key], upTo: 1))
        #expect(moved.asked == "forgetHistory")
        moved.stored(.historyForgotten(more: false))
        #expect(moved.remembered?.epoch == RestMapping.epoch)
        moved.stored(.done)
        #expect(moved.asked == "loadInFlight")
    }
}

@Suite("Several exchanges at once")
struct RestReplyTests {
    private static let key = MutationKey(trusted: "k-1")
    private static let failure = RestResult.Verdict.unsure(Problem("failed-alone", status: 500, detail: "no"), after: nil, counts: true)
    private static let broken = HubReply.Refusal(.failed, "500", status: 500)

    @Test("A backend that fails over one mutation and takes another goes on; one that fails over all, or is silent, waits")
    func refusals() {
        func reply(_ ends: [(RestResult.Verdict?, HubReply.Refusal?)]) -> HubReply.Kind? {
            RestReply.pushed(ends.map { (Self.key, $0.0, $0.1) }).refusal?.kind
        }
        #expect(reply([(Self.failure, Self.broken), (.accepted(RestRemote()), nil)]) == nil)
        #expect(reply([(Self.failure, Self.broken), (Self.failure, Self.broken)]) == .failed)
        #expect(reply([(Self.failure, Self.broken)]) == .failed)
        #expect(
            reply([(nil, HubReply.Refusal(.transport(.timedOut), "silence")), (.accepted(RestRemote()), nil)]) == .transport(.timedOut))
        #expect(reply([(.notSent, HubReply.Refusal(.auth, "401")), (.accepted(RestRemote()), nil)]) == .auth)
    }
}
