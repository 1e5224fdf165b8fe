import SyncCore
import SyncStore
import Testing

/// `ClockRule.swift` on a real database: what a wrong clock left behind stops nothing and is healed.
@Suite("A clock that was wrong")
struct ClockHealTests {
    private static let truth: Int64 = 1_795_216_800_000
    private static let year: Int64 = 31_557_600_000

    private func anchor(_ agent: TestAgent, off: Int64 = 0) -> ClockAnchor {
        ClockAnchor(difference: Self.truth.saturatingAdd(off).saturatingSubtract(agent.now.instant.nanoseconds / 1_000_000), error: .zero)
    }

    private func agent() throws -> TestAgent {
        let agent = try TestAgent { $0.clockTrust = .unsynced }
        agent.now = Moment(instant: agent.now.instant, wall: Timestamp(milliseconds: 0))
        return agent
    }

    private func stamp(_ mutation: OutgoingMutation) throws -> Int64 {
        Int64(try #require(HybridTime(mutation.hlc)).milliseconds)
    }

    @Test(
        "An anchor that makes no plausible time is not learned, and work is accepted",
        arguments: [
            253_402_300_799_000 - truth, (1 << 47) - truth, (1 << 53) - truth, .max, .min, -truth,
        ] as [Int64])
    func implausible(_ off: Int64) throws {
        let agent = try agent()
        try agent.store.learn(anchor(agent, off: off), at: agent.now)
        #expect(agent.store.anchor == nil)
        try agent.create("a")
        try agent.crash()
        try agent.create("b")
        #expect(try agent.claim().map(\.clock) == [.unsynced, .unsynced])
        try agent.store.learn(anchor(agent), at: agent.now)
        let key = try agent.create("c").key
        let sent = try #require(try agent.claim().first { $0.key == key })
        #expect(try sent.clock == .synced && stamp(sent) == Self.truth)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "A database that holds a stamp or an anchor of a wrong clock opens, accepts work and stamps with the time of now",
        arguments: [
            .max, (1 << 47 - 1) << 16, (truth + 1_000 * year) << 16, (truth + 20 * year) << 16 | 0xFFFF, 0,
        ] as [Int64], [.max, .min, 253_402_300_799_000, 0] as [Int64])
    func poisoned(_ packed: Int64, _ anchorMS: Int64) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        agent.options.clockTrust = .unsynced
        agent.store.clockTrust = .unsynced
        agent.now = Moment(instant: agent.now.instant, wall: Timestamp(milliseconds: 0))
        try agent.store.learn(anchor(agent), at: agent.now)
        try agent.create("a")
        let raw = try RawDatabase(folder.database)
        try raw.rows("UPDATE counter SET n = \(packed) WHERE name = 'clock'")
        try raw.rows("UPDATE boot SET anchor_ms = \(anchorMS)")
        try agent.crash()
        #expect(agent.store.anchor == nil)
        try agent.create("b")
        try agent.store.learn(anchor(agent), at: agent.now)
        let key = try agent.create("c").key
        let sent = try agent.claim()
        let latest = try #require(sent.first { $0.key == key })
        #expect(try stamp(latest) == Self.truth)
        try agent.crash()
        let next = try agent.create("d").key
        let after = try #require(try agent.claim().first { $0.key == next })
        #expect(try after.clock == .synced && stamp(after) - Self.truth < 60_000)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "Stamps from an hour with a wrong hub go back with the hub: new ones at once, waiting ones when sent, also over a restart",
        arguments: [
            true, false,
        ])
    func stampsOfAWrongHubGoBackWithIt(_ restarts: Bool) throws {
        let agent = try agent()
        try agent.store.learn(anchor(agent, off: 20 * Self.year), at: agent.now)
        let early = try agent.create("a").key
        agent.wait(.seconds(10))
        let late = try agent.update("a", ["title": "later"]).key
        let made = agent.now.instant
        if restarts { try agent.crash() }
        agent.wait(.seconds(50))
        let now = agent.now.instant
        try agent.store.learn(ClockAnchor(difference: Self.truth - now.nanoseconds / 1_000_000, error: .zero), at: agent.now)
        let key = try agent.create("b").key
        let sent = Dictionary(uniqueKeysWithValues: try agent.claim().map { ($0.key, $0) })
        let first = try #require(sent[early])
        #expect(try stamp(#require(sent[key])) == Self.truth)
        #expect(try first.clock == .retro && stamp(first) == Self.truth - made.duration(to: now).milliseconds - 10_000)
        if let second = sent[late] { #expect(try stamp(second) > stamp(first), "changes of one record keep their order") }
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "A wall clock beyond all plausible times is not trusted, whatever the kernel says of it",
        arguments: [.max, 1 << 47, 0, -1] as [Int64])
    func wall(_ milliseconds: Int64) throws {
        let agent = try TestAgent { $0.clockTrust = .synced }
        agent.now = Moment(instant: agent.now.instant, wall: Timestamp(milliseconds: milliseconds))
        try agent.create("a")
        #expect(try agent.claim().map(\.clock) == [.unsynced])
        #expect(try agent.store.verify() == [])
    }
}
