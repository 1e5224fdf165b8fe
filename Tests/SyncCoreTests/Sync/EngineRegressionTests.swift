import SyncCore
import Testing

/// One of the two sides went back in time (PROTOCOL A6).
@Suite("Engine: restored databases")
struct EngineRegressionTests {
    typealias Rig = EngineRig

    @Test("A hub that has seen more of us than we remember: a new replica first, then everything open is settled, then the rest")
    func regressed() throws {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        rig.answer(Rig.hello(deviceSeq: 41))
        guard case .adoptReplica(let adopted)? = rig.command else {
            Issue.record("a new replica was expected")
            return
        }
        #expect(adopted != Rig.replica)
        #expect(rig.reports.contains(.regressed(hubSeq: 41, ours: 40)))
        #expect(rig.engine.replica == Rig.replica, "not before it is written")
        rig.stored(.done)
        #expect(rig.engine.replica == adopted)
        #expect(rig.asked == "loadInFlight")
        let batch = Rig.batch(1...5)
        rig.stored(.batch(batch, retryAt: nil))
        #expect(rig.call?.kind == .settle)
        // The hub knows the new replica only by what it has just been sent: that is no regression.
        rig.answer(Rig.push(Rig.accepted(batch), deviceSeq: 5))
        #expect(rig.asked == "applyResults")
        rig.stored(.resultsApplied(Rig.summary(done: 5), next: nil))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
    }

    @Test("A page that came with the news is discarded")
    func discardsPage() {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")], deviceSeq: 41))
        #expect(rig.asked == "adoptReplica")
    }

    @Test("The body of a hello tells it as well, and so does a 409")
    func otherSigns() {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        let hello = #"{"device_id":"gw","epoch":"7f3a","head":1,"device_seq":41}"#
        rig.answer(Rig.ok(Array(hello.utf8)))
        #expect(rig.asked == "adoptReplica")

        var other = Rig.pushing(Rig.batch(1...3))
        other.answer(Rig.problem(409, "replica-regressed"))
        #expect(other.asked == "adoptReplica")
    }

    @Test("An old copy that has never heard of a hub learns whose history it settles in")
    func regressedBeforeFirst() {
        var rig = Rig()
        rig.start(memory: EngineMemory())
        rig.wake()
        rig.answer(Rig.hello(deviceSeq: 41))
        #expect(rig.asked == "adoptReplica")
        rig.stored(.done)
        rig.answer(Rig.hello())
        #expect(rig.remembered?.epoch == Rig.hub, "before anything is settled")
        rig.stored(.done)
        #expect(rig.asked == "loadInFlight")
    }

    @Test("A hub at the remembered position has not regressed")
    func rememberedPositionIsNoRegression() {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        rig.greet(deviceSeq: 40)
    }

    @Test("A replica that could not be written is not used: the next cycle finds the same and tries again")
    func adoptFails() {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        rig.answer(Rig.hello(deviceSeq: 41))
        rig.stored(.failed("disk full"))
        rig.keepHouse()
        #expect(rig.engine.replica == Rig.replica)
        rig.begin()
        #expect(rig.asked == "hello")
        rig.answer(Rig.hello(deviceSeq: 41))
        #expect(rig.asked == "adoptReplica")
    }

    @Test("The new replica is introduced to the hub in the next cycle")
    func greetsAgain() {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        rig.answer(Rig.hello(deviceSeq: 41))
        rig.stored(.done)
        rig.idleCycle()
        rig.begin()
        #expect(rig.asked == "hello")
        #expect(rig.call.map { String(decoding: $0.body, as: UTF8.self).contains(rig.engine.replica.text) } == true)
    }

    @Test("A hub that claims to know the new replica as well is not believed a second time in a cycle")
    func insaneHub() {
        var rig = Rig()
        rig.start(maxSentSeq: 40)
        rig.wake()
        rig.answer(Rig.hello(deviceSeq: 41))
        rig.stored(.done)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull(deviceSeq: 1_000_000))
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == .nonsense)
    }

    @Test("Another history of the hub stops the cycle before anything of it is used, and is reported", arguments: 0..<4)
    func epoch(_ sign: Int) {
        var rig = Rig()
        rig.start()
        rig.wake()
        switch sign {
        case 0: rig.answer(Rig.hello(epoch: "b000"))
        case 1:
            let hello = #"{"device_id":"gw","epoch":"b000","head":1}"#
            var response = Rig.ok(Array(hello.utf8))
            response.headers["Sync-Epoch"] = nil
            rig.answer(response)
        case 2:
            rig.greet()
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.streams([Rig.position(Rig.works)]))
            let body = PullMessages.response(PullResponse(epoch: "b000", head: 3, pages: []))
            var response = Rig.ok(body)
            response.headers["Sync-Epoch"] = nil
            rig.answer(response)
        default:
            rig.greet()
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.streams([Rig.position(Rig.works)]))
            var response = Rig.problem(410, "epoch-changed")
            response.headers["Sync-Epoch"] = "b000"
            rig.answer(response)
        }
        #expect(rig.reports.contains(.epochChanged(from: Rig.hub, to: "b000")))
        #expect(rig.asked == "loadSettled", "before anything else, the hub is asked what it still knows")
        #expect(rig.engine.memory.epoch == Rig.hub, "ours stays until that is dealt with")
    }

    @Test("The first hub that makes sense says whose history ours is; nonsense does not")
    func firstEpoch() {
        var rig = Rig()
        rig.start(memory: EngineMemory())
        rig.wake()
        rig.answer(Rig.ok(Array("{}".utf8), epoch: "wrong"))
        rig.keepHouse()
        #expect(rig.engine.memory.epoch == nil)
        rig.begin()
        rig.answer(Rig.hello())
        #expect(rig.remembered?.epoch == Rig.hub, "it is on flash before anything that this hub accepts")
        rig.stored(.failed("no room"))
        #expect(rig.engine.cycle == nil && rig.engine.memory.epoch == nil, "what is not on flash is not believed")
        rig.begin()
        rig.answer(Rig.hello())
        rig.stored(.done)
        rig.idleCycle()
        #expect(rig.engine.memory.epoch == Rig.hub)
    }
}
