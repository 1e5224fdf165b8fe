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

    @Test("A damaged mark is none", arguments: ["", "x", "{}", #"{"epoch":"e"}"#, #"{"epoch":5,"head":1}"#])
    func damaged(_ text: String) {
        #expect(HubMark(reading: text) == nil)
    }
}
