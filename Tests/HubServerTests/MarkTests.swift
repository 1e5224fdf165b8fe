import HubServer
import SyncCore
import Testing

@Suite("Mark of a database")
struct MarkTests {
    @Test("An older copy in the place of a database shows by the mark; the same one and another hub's do not")
    func older() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        let copy = try bench.hub.copy()
        _ = try bench.verdict(Sent("k-2", seq: 2, .create, id: "b"))
        let mark = try #require(HubMark(reading: bench.hub.mark.text))
        #expect(mark == bench.hub.mark && mark.head == 2 && !mark.opening.isEmpty)
        #expect(!bench.hub.isOlder(than: mark))
        _ = try bench.verdict(Sent("k-3", seq: 3, .create, id: "c"))
        #expect(!bench.hub.isOlder(than: mark))
        try bench.hub.restore(copy, startingEpoch: false)
        #expect(bench.hub.isOlder(than: mark))
        try bench.hub.startEpoch()
        #expect(!bench.hub.isOlder(than: mark))
        let other = try HubBench(seed: 2)
        #expect(!other.hub.isOlder(than: mark))
    }

    @Test(
        "A second copy, older than the first and from before its new history, shows by the mark, too; a stale mark of an earlier history does not"
    )
    func again() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        let oldest = try bench.hub.copy()
        _ = try bench.verdict(Sent("k-2", seq: 2, .create, id: "b"))
        let older = try bench.hub.copy()
        _ = try bench.verdict(Sent("k-3", seq: 3, .create, id: "c"))
        let first = bench.hub.mark
        try bench.hub.restore(older, startingEpoch: false)
        #expect(bench.hub.isOlder(than: first))
        try bench.hub.startEpoch(.mark)
        #expect(!bench.hub.isOlder(than: first), "its devices hear of the new history in any case")
        let second = bench.hub.mark
        try bench.hub.restore(oldest, startingEpoch: false)
        #expect(bench.hub.isOlder(than: second), "the history that the mark names is unknown there")
    }

    @Test("An older copy whose commit numbers have caught up shows by the mark")
    func caughtUp() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        let copy = try bench.hub.copy()
        _ = try bench.verdict(Sent("k-2", seq: 2, .create, id: "b"))
        let mark = bench.hub.mark
        try bench.hub.restore(copy, startingEpoch: false)
        for seq in 2...4 as ClosedRange<Int64> { _ = try bench.verdict(Sent("n-\(seq)", seq: seq, .create, id: "n-\(seq)")) }
        #expect(bench.hub.head > mark.head && bench.hub.isOlder(than: mark))
    }

    @Test("A mark of an earlier version, without an opening, is compared by its commit number as before")
    func earlierVersion() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        let text = #"{"epoch":"\#(bench.hub.epoch)","head":2}"#
        #expect(bench.hub.isOlder(than: try #require(HubMark(reading: text))))
        #expect(!bench.hub.isOlder(than: HubMark(epoch: bench.hub.epoch, head: 1)))
        #expect(!bench.hub.isOlder(than: HubMark(epoch: "other", head: 9)))
    }

    @Test("A damaged mark is none", arguments: ["", "x", "{}", #"{"epoch":"e"}"#, #"{"epoch":5,"head":1}"#])
    func damaged(_ text: String) {
        #expect(HubMark(reading: text) == nil)
    }
}
