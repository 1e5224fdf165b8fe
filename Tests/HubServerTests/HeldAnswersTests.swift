import NIOCore
import NIOPosix
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
        let confirmed = ConfirmedHead()
        func free() -> [String] { held.confirmed { confirmed.includes($0) } }
        #expect(free().isEmpty)
        confirmed.raise(to: Self.read(6).position)
        #expect(free().isEmpty)
        confirmed.raise(to: HubPosition(epoch: "e", opening: "of another line", head: 99))
        #expect(free().isEmpty)
        confirmed.raise(to: Self.read(8).position)
        confirmed.raise(to: Self.read(7).position)
        #expect(free() == ["a", "c"])
        confirmed.raise(to: Self.read(9).position)
        #expect(free() == ["b"] && held.isEmpty)
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

    // MARK: The keeper

    private enum End: Equatable { case released, givenUp }

    /// What becomes of an answer at a keeper, and the commits that it has confirmed.
    ///
    /// - Parameters:
    ///   - connection: The connection that answers the look; `nil`: there is no answer.
    ///   - head: A commit of the hub itself.
    private static func end(
        look connection: Int64?, confirming head: Int64? = nil, stopping: Bool = false
    ) async throws -> (end: End, confirmed: [UnconfirmedRead], looks: Int) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let promise = loop.makePromise(of: End.self)
        // Everything but the promise belongs to the loop.
        nonisolated(unsafe) var (confirmed, looks): ([UnconfirmedRead], Int) = ([], 0)
        try await loop.submit {
            let own = ConfirmedHead()
            let keeper = AnswerKeeper(on: loop, own) {
                looks += 1
                return connection
            } confirm: {
                confirmed.append($0)
            }
            keeper.hold(
                AnswerKeeper.Batch {
                    promise.succeed(.released)
                } giveUp: {
                    promise.succeed(.givenUp)
                }, of: read(7))
            if let head { own.raise(to: read(head).position) }
            if stopping { keeper.stop() }
        }.get()
        let end = try await promise.futureResult.get()
        let result = try await loop.submit { (end, confirmed, looks) }.get()
        try await group.shutdownGracefully()
        return result
    }

    @Test("A keeper releases an answer after a look, without one after a commit of the hub, and gives it up when the connection is lost")
    func keeper() async throws {
        let looked = try await Self.end(look: 0)
        #expect(looked.end == .released && looked.confirmed == [Self.read(7)] && looked.looks == 1)
        let own = try await Self.end(look: nil, confirming: 7)
        #expect(own.end == .released && own.confirmed.isEmpty && own.looks == 0)
        for lost in [nil, 1] as [Int64?] {
            let outcome = try await Self.end(look: lost, confirming: 6)
            #expect(outcome.end == .givenUp && outcome.confirmed.isEmpty && outcome.looks == 1)
        }
        let stopped = try await Self.end(look: 0, stopping: true)
        #expect(stopped.end == .givenUp && stopped.looks == 0)
    }
}
