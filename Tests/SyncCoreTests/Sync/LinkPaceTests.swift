import SyncCore
import Testing

@Suite("Sizes by the link's pace")
struct LinkPaceTests {
    @Test(
        "The first slow answer sets the size to what goes in ten seconds",
        arguments: [
            // 9.6, 40 and 64 kbit/s without compression.
            (bytesPerSecond: 1_200, expected: 12_000), (5_000, 50_000), (6_000, 60_000),
            // So slow that only the floor is left.
            (100, TransferSizer.smallest),
        ])
    func slow(_ bytesPerSecond: Int, _ expected: Int) {
        var sizer = TransferSizer(largest: 1 << 20)
        sizer.moved(64 << 10, in: .milliseconds((64 << 10) * 1_000 / bytesPerSecond))
        #expect(abs(sizer.bytes - expected) <= expected / 1_000 + 1)
        // The size stays there: the next requests take just as long as they should.
        let settled = sizer.bytes
        for _ in 0..<20 { sizer.moved(sizer.bytes, in: .milliseconds(sizer.bytes * 1_000 / bytesPerSecond)) }
        #expect(abs(sizer.bytes - settled) <= settled / 50)
    }

    @Test("On a fast link it grows to the largest size with the third answer")
    func fast() {
        var sizer = TransferSizer(largest: 1 << 20)
        for expected in [256 << 10, 1 << 20, 1 << 20] {
            sizer.moved(sizer.bytes, in: .milliseconds(300))
            #expect(sizer.bytes == expected)
        }
    }

    @Test("A transfer without evidence changes nothing: a few bytes, and a page that was not full")
    func silent() {
        var sizer = TransferSizer(largest: 1 << 20)
        sizer.moved(200, in: .seconds(30))
        sizer.moved(20_000, in: .milliseconds(10))
        #expect(sizer.bytes == TransferSizer.first)
    }

    @Test("A transfer that broke while it moved quarters its direction, and quick answers bring it back")
    func broken() {
        var pace = LinkPace()
        var traffic = Traffic()
        traffic.up = 700
        pace.broke(.broken, isReading: true, traffic)
        pace.broke(.broken, isReading: false, traffic)
        pace.broke(.unreachable, isReading: true, traffic)
        #expect(pace == LinkPace())
        traffic.down = 30_000
        pace.broke(.broken, isReading: true, traffic)
        #expect(pace.down.bytes == 16 << 10)
        #expect(pace.up.bytes == TransferSizer.first)
        for _ in 0..<5 { pace.broke(.timedOut, isReading: true, traffic) }
        #expect(pace.down.bytes == TransferSizer.smallest)
        pace.down.moved(pace.down.bytes, in: .seconds(1))
        #expect(pace.down.bytes == 16 << 10)
        traffic.up = 30_000
        pace.broke(.timedOut, isReading: false, traffic)
        #expect(pace.up.bytes == 16 << 10)
    }

    @Test("A request has the time that its content needs on a line of 9.6 kbit/s, twice over")
    func time() {
        #expect(LinkPace.timeLimit(for: 0) == .seconds(120))
        #expect(LinkPace.timeLimit(for: Limits.documentBytes) >= .seconds(2 * Limits.documentBytes / 1_200))
    }

    // MARK: In the engine

    private static func asked(_ rig: EngineRig) throws -> Int {
        #expect(rig.asked == "pull")
        return Int(try JSONReader.read(try #require(rig.call).body).object?["max_bytes"]?.int ?? 0)
    }

    /// A settled engine whose first page is under way.
    private static func pulling() -> EngineRig {
        var rig = EngineRig.settled()
        rig.handle(.requested(SyncRequest()))
        rig.begin()
        for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
        rig.stored(.streams([EngineRig.position(EngineRig.works)]))
        return rig
    }

    private static func page(bytes: Int) -> HTTPResponse {
        let noise: JSONObject = ["noise": .string(String(repeating: "x", count: bytes))]
        let record = StreamPage.Record(id: RecordID(trusted: "w-1"), record: HubRecord(version: 9, data: noise))
        return EngineRig.pull([EngineRig.page(EngineRig.works, cursor: "c2", hasMore: true, records: [record])])
    }

    @Test("A slow page is followed by one that takes ten seconds, and the link's return does not forget that")
    func slowPage() throws {
        var rig = Self.pulling()
        #expect(try Self.asked(rig) == TransferSizer.first)
        #expect(try #require(rig.call).timeLimit > .seconds(300))
        rig.answer(Self.page(bytes: 60_000), after: .seconds(50))
        rig.stored(.pullApplied(PullSummary()))
        // Half a minute is over, and what waits here has its turn before the next page.
        #expect(rig.asked == "claim")
        let next = rig.engine.pace.down.bytes
        #expect((12_000..<12_200).contains(next))
        rig.handle(.link(up: false))
        rig.handle(.link(up: true))
        #expect(rig.engine.pace.down.bytes == next)
    }

    @Test("A page that breaks on its way is asked for again, a quarter as large")
    func brokenPage() throws {
        var rig = Self.pulling()
        var traffic = Traffic()
        traffic.down = 20_000
        rig.fail(.broken, traffic, after: .seconds(15))
        #expect(rig.engine.pace.down.bytes == TransferSizer.first / 4)
    }

    @Test("A sync that failed over a connection that had died asks the hub with its next attempt, and not only itself")
    func askedAgain() {
        var rig = Self.pulling()
        rig.fail(.broken)
        rig.stored(.done)
        #expect(rig.engine.cycle == nil)
        rig.begin()
        #expect(rig.engine.cycle?.isRequested == true)
        // A read failed, so what waits here goes first.
        for _ in 0..<3 where rig.asked == "loadInFlight" || rig.asked == "claim" { rig.stored(.batch(nil, retryAt: nil)) }
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([EngineRig.position(EngineRig.works)]))
        rig.answer(EngineRig.pull())
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.engine.memory.failures == 0)
        // No request is owed any more, and streams that are known to be fresh are not asked for again.
        rig.handle(.enqueued(.normal))
        rig.begin()
        #expect(rig.engine.cycle?.isRequested == false)
        for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
        #expect(rig.asked == "claim")
    }
}
