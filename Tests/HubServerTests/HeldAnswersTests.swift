import NIOCore
import SyncCore
import Testing

@testable import HubServer

/// When an answer may leave that shows a commit which only the primary may have.
@Suite("Held answers")
struct HeldAnswersTests {
    private static func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(UInt64(milliseconds) * 1_000_000) }

    private static func read(_ head: Int64, over connection: Int64 = 0) -> UnconfirmedRead {
        UnconfirmedRead(position: HubPosition(epoch: "e", opening: "o", head: head), connection: connection)
    }

    @Test("A look lets those answers leave that were read a tenth of a second before it, over the same connection")
    func looks() {
        var held = HeldAnswers<String>()
        #expect(held.isEmpty && !held.needsLook(at: Self.at(9_000)))
        held.hold("a", of: Self.read(7), at: Self.at(1_000))
        held.hold("b", of: Self.read(8), at: Self.at(1_040))
        #expect(!held.needsLook(at: Self.at(1_099)) && held.needsLook(at: Self.at(1_100)))
        #expect(held.looked(over: 0, from: Self.at(1_099)).answers.isEmpty)
        let first = held.looked(over: 0, from: Self.at(1_139))
        #expect(first.answers == ["a"] && first.newest == Self.read(7))
        #expect(held.needsLook(at: Self.at(1_140)))
        let second = held.looked(over: 0, from: Self.at(1_140))
        #expect(second.answers == ["b"] && second.newest == Self.read(8) && held.isEmpty)
    }

    @Test("A later commit of the hub lets all answers leave that show no later one, without a look")
    func confirmed() {
        var held = HeldAnswers<String>()
        for (answer, head) in [("a", 7), ("b", 9), ("c", 8)] as [(String, Int64)] {
            held.hold(answer, of: Self.read(head), at: Self.at(1_000))
        }
        #expect(held.confirmed(upTo: 6).isEmpty)
        #expect(held.confirmed(upTo: 8) == ["a", "c"])
        #expect(held.confirmed(upTo: 9) == ["b"] && held.isEmpty)
    }

    @Test("What another connection has read is given anew, however old it is, and no look of the new one lets it leave")
    func lost() {
        var held = HeldAnswers<String>()
        held.hold("a", of: Self.read(7, over: 0), at: Self.at(1_000))
        held.hold("b", of: Self.read(7, over: 1), at: Self.at(1_001))
        #expect(held.looked(over: 1, from: Self.at(5_000)).answers == ["b"])
        #expect(!held.isEmpty)
        #expect(held.lost(but: 1) == ["a"] && held.isEmpty)
        held.hold("c", of: Self.read(8, over: 1), at: Self.at(5_000))
        #expect(held.lost(but: nil) == ["c"] && held.isEmpty)
    }
}
