import SyncCore
import Testing

private typealias Rig = EngineRig

/// A hub that went back within one history, as the engine finds it out (PROTOCOL A6).
@Suite("Engine: a hub behind its word")
struct EngineHistoryTests {
    private static func memory(head: Int64 = 20, seq: Int64 = 5) -> EngineMemory {
        var memory = EngineMemory(epoch: Rig.hub)
        memory.standing = HubStanding(
            epoch: Rig.hub, replica: Rig.replica, head: head, seq: seq, receipt: "abc")
        return memory
    }

    /// Started, with its first greeting under way.
    private static func greeting(_ memory: EngineMemory) -> EngineRig {
        var rig = Rig()
        rig.hubGoesBack = true
        rig.start(memory: memory, maxSentSeq: 900)
        rig.wake()
        return rig
    }

    @Test("Greetings and pushes show the newest receipt of this history, and of no other")
    func shown() {
        #expect(Self.greeting(Self.memory()).call?.receipt == "abc")
        var other = Self.memory()
        other.epoch = "b000"
        #expect(Self.greeting(other).call?.receipt == nil)
    }

    @Test("A receipt of the hub is stored with its verdicts, and is never older than the known one")
    func kept() throws {
        var rig = Rig.pushing(Rig.batch(1...2))
        var response = Rig.push(Rig.accepted(Rig.batch(1...2)), head: 12, deviceSeq: 2)
        response.headers[HubHeader.receipt] = "xyz"
        rig.answer(response)
        guard case .applyResults(_, _, let standing?, _)? = rig.command else {
            Issue.record("the verdicts were to be recorded with a receipt")
            return
        }
        #expect(standing.head == 12 && standing.seq == 2 && standing.receipt == "xyz" && standing.epoch == Rig.hub)
        #expect(rig.engine.memory.standing == standing)
    }

    // Fault: an older copy of the hub, which another device brought to the same head, put its own receipt in the place of the proof.
    @Test("A pull shows a receipt that the hub has not seen again, and the one of its page takes that one's place; other pulls show none")
    func unseen() throws {
        func page(_ cursor: String, _ receipt: String, head: Int64) -> HTTPResponse {
            var response = Rig.pull([Rig.page(Rig.works, cursor: cursor, hasMore: true)], head: head)
            response.headers[HubHeader.receipt] = receipt
            return response
        }
        var rig = Self.greeting(Self.memory(head: 10, seq: 0))
        rig.answer(Rig.hello())
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        for (head, shown, receipt) in [(Int64(11), nil, "r1"), (12, "r1", "r2"), (13, "r2", "r3")] as [(Int64, String?, String)] {
            #expect(rig.call?.kind == .pull && rig.call?.receipt == shown)
            rig.answer(page("c\(head)", receipt, head: head))
            guard case .applyPull(let stored)? = rig.command else {
                Issue.record("the page was to be stored, not \(rig.asked ?? "nothing")")
                return
            }
            #expect(stored.standing?.head == head && stored.standing?.receipt == receipt)
            rig.stored(.pullApplied(PullSummary()))
        }
    }

    // Fault: a device listed afresh after the hub had gone back, so its cursors were gone, and the receipt of its last page was unknown.
    @Test("A listing shows the receipt, because its beginning has no cursor, also one that the hub has seen again")
    func listing() throws {
        var rig = Self.greeting(Self.memory(head: 10, seq: 0))
        rig.answer(Rig.hello())
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.listing(Rig.works)]))
        #expect(rig.call?.kind == .snapshot && rig.call?.receipt == "abc")
    }

    @Test(
        "A head below one that was seen is not believed: the hub is greeted with its receipt, and one that begins a new history is healed")
    func tellsHub() {
        var rig = Rig.settled()
        rig.hubGoesBack = true
        rig.handle(.requested(SyncRequest()))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull(head: 9))
        #expect(rig.asked == "hello", "nothing of the answer was used")
        #expect(rig.reports.contains(.hubWentBack(said: 10, now: 9, isHealing: false)))
        rig.answer(Rig.hello(head: 9, epoch: "b000"))
        #expect(rig.asked == "loadSettled")
        #expect(rig.reports.contains(.epochChanged(from: Rig.hub, to: "b000")))
    }

    @Test(
        "A hub that reads no receipts: this device alone asks what is known, forgets its versions and lists afresh, and then believes the hub"
    )
    func healsAlone() {
        var rig = Self.greeting(Self.memory())
        rig.answer(Rig.hello(deviceSeq: 4, head: 20))
        #expect(rig.asked == "hello", "a seq below the one that was acknowledged is asked about once more")
        rig.answer(Rig.hello(deviceSeq: 4, head: 20))
        #expect(rig.asked == "loadSettled")
        let key = Rig.mutation(5).key
        rig.stored(.settled([key], upTo: 5))
        rig.answer(Rig.ok(KnownMessages.response(unknown: [key]), deviceSeq: 4, head: 20))
        rig.stored(.requeued(1))
        rig.stored(.settled([], upTo: 5))
        #expect(rig.asked == "forgetHistory")
        rig.stored(.historyForgotten(more: false))
        #expect(rig.remembered?.standing?.head == 20 && rig.remembered?.standing?.seq == 4, "a still older copy would be noticed")
        #expect(rig.remembered?.epoch == Rig.hub)
        rig.stored(.done)
        #expect(rig.asked == "loadInFlight")
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull(head: 20, deviceSeq: 4))
        #expect(rig.asked == "applyPull", "the hub is believed again")
    }

    @Test("A hub that says one thing and then another makes no device list everything again and again")
    func bounded() {
        var rig = Self.greeting(Self.memory())
        rig.answer(Rig.hello(head: 19))
        rig.answer(Rig.hello(head: 19))
        #expect(rig.asked == "loadSettled")
        rig.stored(.failed("disk full"))
        rig.keepHouse()
        rig.begin()
        rig.answer(Rig.hello(head: 19))
        rig.answer(Rig.hello(head: 19))
        #expect(rig.asked == "loadInFlight", "within 10 minutes it is believed, and told")
        #expect(rig.engine.memory.standing == nil)
        #expect(rig.reports.last { if case .hubWentBack = $0 { true } else { false } } == .hubWentBack(said: 20, now: 19, isHealing: false))
    }

    @Test("A commit number that only one of header and body names is not what the hub is held to")
    func wrongNumber() {
        var rig = Rig.pushing(Rig.batch(1...1))
        var response = Rig.push(Rig.accepted(Rig.batch(1...1)), head: 11)
        response.headers[HubHeader.head] = String(Int64(1) << 53)
        rig.answer(response)
        #expect(rig.engine.memory.standing?.head == 11)
    }

    @Test("Two new histories within one cycle are gone through soon: the next attempt comes within 15 seconds")
    func twoHistories() {
        var rig = Self.greeting(Self.memory())
        rig.answer(Rig.hello(epoch: "b000"))
        rig.stored(.settled([Rig.mutation(1).key], upTo: 5))
        rig.answer(Rig.ok(KnownMessages.response(unknown: []), epoch: "c000"))
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == .gone)
        #expect(rig.untilWake.map { $0 <= .seconds(15) } == true)
        rig.begin()
        rig.answer(Rig.hello(epoch: "c000"))
        #expect(rig.asked == "loadSettled")
    }
}
