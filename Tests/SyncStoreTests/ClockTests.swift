import SyncCore
import SyncStore
import Testing

/// PROTOCOL A11, D5: stamps of a machine whose clock may be anywhere.
@Suite("Clock trust")
struct ClockTests {
    /// Wall clocks that a box without a battery may show.
    static let walls: [Int64] = [0, -1, 4_294_967_295_000, 1_000_000_000_000]
    /// The true wall time, milliseconds since 1970-01-01 UTC.
    static let truth: Int64 = 1_795_216_800_000

    private func agent(wall: Int64, trusted: ClockTrust = .unsynced) throws -> TestAgent {
        let agent = try TestAgent { $0.clockTrust = trusted }
        agent.now = Moment(instant: agent.now.instant, wall: Timestamp(milliseconds: wall))
        return agent
    }

    private func anchor(_ agent: TestAgent) -> ClockAnchor {
        ClockAnchor(difference: Self.truth - agent.now.instant.nanoseconds / 1_000_000, error: .milliseconds(20))
    }

    private func stamp(_ mutation: OutgoingMutation) throws -> Int64 {
        Int64(try #require(HybridTime(mutation.hlc)).milliseconds)
    }

    @Test("Mutations from before a known time are dated when the time is known, in their order", arguments: walls)
    func retro(_ wall: Int64) throws {
        let agent = try agent(wall: wall)
        let first = try agent.create("a").key
        agent.wait(.seconds(60))
        let second = try agent.event().key
        agent.wait(.seconds(30))
        try agent.store.learn(anchor(agent), at: agent.now)
        let third = try agent.create("b").key
        let sent = Dictionary(uniqueKeysWithValues: try agent.claim().map { ($0.key, $0) })
        #expect(sent[first]?.clock == .retro && sent[second]?.clock == .retro && sent[third]?.clock == .synced)
        #expect(try stamp(#require(sent[first])) == Self.truth - 90_000)
        #expect(try stamp(#require(sent[second])) == Self.truth - 30_000)
        #expect(try stamp(#require(sent[third])) == Self.truth)
        #expect(sent[first]?.clientUpdatedAt.milliseconds == Self.truth - 90_000)
        #expect(try agent.store.verify() == [])
    }

    struct Contest: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// When the hub's value was written, before or after ours.
        var theirs: Int64
        var knowsTime: Bool
        var isOurs: Bool
    }

    @Test(
        "A pull that contests it dates it first, if by then the time is known",
        arguments: [
            Contest(testDescription: "theirs is earlier", theirs: -120_000, knowsTime: true, isOurs: true),
            Contest(testDescription: "theirs is later", theirs: 20_000, knowsTime: true, isOurs: false),
            Contest(testDescription: "the time of ours is unknown", theirs: -120_000, knowsTime: false, isOurs: false),
        ])
    func contested(_ example: Contest) throws {
        let agent = try agent(wall: 0)
        agent.stamp = HybridTime(milliseconds: UInt64(Self.truth - 600_000), counter: 0, node: "1")
        try agent.pull([("a", 5, ["title": "old"])])
        let made = Self.truth - 30_000
        let key = try agent.update("a", ["title": "ours"]).key
        agent.wait(.seconds(30))
        if example.knowsTime { try agent.store.learn(anchor(agent), at: agent.now) }
        agent.stamp = HybridTime(milliseconds: UInt64(made + example.theirs), counter: 0, node: "1")
        try agent.pull([("a", 6, ["title": "theirs"])])
        #expect(try agent.view("a") == (example.isOurs ? #"{"title":"ours"}"# : #"{"title":"theirs"}"#))
        #expect(try agent.state(key) == (example.isOurs ? .pending : .superseded))
        #expect(try agent.store.verify() == [])
        guard example.isOurs else { return }
        let sent = try #require(try agent.claim().first)
        #expect(sent.clock == .retro && sent.clientUpdatedAt.milliseconds == made)
        #expect(try stamp(sent) == made)
    }

    @Test("A sent mutation keeps its stamp")
    func sentMutationKeepsItsStamp() throws {
        let agent = try agent(wall: 0)
        try agent.create("a")
        let sent = try agent.claim()[0]
        #expect(sent.clock == .unsynced)
        try agent.store.learn(anchor(agent), at: agent.now)
        #expect(try agent.inFlight() == [sent])
        try agent.answer(.retry(sent.key, after: .seconds(1)))
        agent.wait(.seconds(600))
        #expect(try agent.claim().map(\.hlc) == [sent.hlc])
    }

    @Test("An earlier boot that never knew the time stays unsynced; one that did is dated", arguments: [true, false])
    func earlierBoot(_ knew: Bool) throws {
        let agent = try agent(wall: 0)
        let first = try agent.create("a").key
        agent.wait(.seconds(10))
        let anchored = anchor(agent)
        if knew { try agent.store.learn(anchored, at: agent.now) }
        agent.options.bootID = "boot-2"
        agent.now = Moment(instant: Instant(nanoseconds: 1_000_000_000), wall: Timestamp(milliseconds: 0))
        agent.store = try Store(agent.database, agent.options, at: agent.now)
        #expect(agent.store.anchor == nil)
        try agent.store.learn(anchor(agent), at: agent.now)
        let sent = try agent.claim()[0]
        #expect(sent.key == first && sent.clock == (knew ? .retro : .unsynced))
        if knew { #expect(try stamp(sent) == Self.truth - 10_000) }
    }

    @Test("A restart in the same boot still knows the time")
    func restart() throws {
        let agent = try agent(wall: 0)
        try agent.store.learn(anchor(agent), at: agent.now)
        try agent.crash()
        try agent.create("a")
        let sent = try agent.claim()[0]
        #expect(sent.clock == .synced)
        #expect(try stamp(sent) == Self.truth + 1_000)
    }

    @Test("A clock in 2106 does not carry ours away; stamps never go back, restarts and steps included")
    func staysOnTheGround() throws {
        let agent = try agent(wall: 4_294_967_295_000)
        var last = HybridTime(milliseconds: 0, counter: 0, node: "00000000")
        func next(_ id: String) throws {
            let key = try agent.create(id).key
            let sent = try #require(try agent.claim().first { $0.key == key })
            let stamp = try #require(HybridTime(sent.hlc))
            #expect((last.milliseconds, last.counter) < (stamp.milliseconds, stamp.counter), "\(id)")
            last = stamp
        }
        try next("a")
        try next("b")
        #expect(last.milliseconds < UInt64(Self.truth))
        try agent.store.learn(anchor(agent), at: agent.now)
        try next("c")
        try agent.crash()
        try next("d")
        // The wall clock is put right, and then wrong again.
        agent.now = Moment(instant: agent.now.instant, wall: Timestamp(milliseconds: Self.truth))
        try next("e")
        agent.now = Moment(instant: agent.now.instant, wall: Timestamp(milliseconds: 0))
        try next("f")
        #expect(last.milliseconds < UInt64(Self.truth) + 60_000)
        // The next boot, without an anchor: nothing is older than what was.
        agent.options.bootID = "boot-2"
        agent.store = try Store(agent.database, agent.options, at: agent.now)
        try next("g")
    }

    @Test(
        "The hub's stamps are taken into account, at most five minutes ahead, and not without a clock",
        arguments: [
            (60_000, 60_000), (3_600_000, 300_000),
        ] as [(Int64, Int64)])
    func observed(_ ahead: Int64, _ taken: Int64) throws {
        for isKnown in [true, false] {
            let agent = try agent(wall: 0)
            if isKnown { try agent.store.learn(anchor(agent), at: agent.now) }
            let stamp = HybridTime(milliseconds: UInt64(Self.truth + ahead), counter: 3, node: "aaaaaaaa")
            var page = TestAgent.page([("x", 5, ["v": 1])])
            page.pages[0].records[0].record.hlc = stamp.description
            _ = try agent.store.applyPull(page, at: agent.now)
            try agent.create("a")
            let sent = try agent.claim()[0]
            #expect(try self.stamp(sent) == (isKnown ? Self.truth + taken : 0))
        }
    }

    @Test("A synchronized wall clock needs no hub")
    func trustedWall() throws {
        let agent = try agent(wall: Self.truth, trusted: .synced)
        try agent.create("a")
        let sent = try agent.claim()[0]
        #expect(sent.clock == .synced)
        #expect(try stamp(sent) == Self.truth)
    }
}
