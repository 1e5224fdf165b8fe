import Testing

@testable import HubServer

@Suite("The turns of requests at a reader")
struct ReadTurnsTests {
    @Test("The kinds take turns, each with so many requests as one transaction has, and in the order in which they came")
    func turns() {
        var turns = ReadTurns<String>()
        #expect(turns.isEmpty && turns.next() == [])
        turns.add((0..<2).map { "l\($0)" }, as: .long)
        turns.add((0..<300).map { "e\($0)" }, as: .ended)
        turns.add((0..<40).map { "w\($0)" }, as: .patient)
        turns.add((0..<33).map { "s\($0)" }, as: .short)
        var taken: [[String]] = []
        while !turns.isEmpty { taken.append(turns.next()) }
        let rounds = ["s0 16", "w0 32", "e0 128", "l0 1", "s16 16", "w32 8", "e128 128", "l1 1", "s32 1", "e256 44"]
        #expect(taken.map { "\($0[0]) \($0.count)" } == rounds)
        #expect(taken[6] == (128..<256).map { "e\($0)" })
        #expect(turns.next() == [])
    }

    @Test("Quick transactions are followed by larger ones, slow ones by smaller ones, between the limits of their kind")
    func sizes() {
        var turns = ReadTurns<Int>()
        turns.add(Array(repeating: 0, count: 1_000), as: .patient)
        func sizes(_ milliseconds: [Int64]) -> [Int] {
            milliseconds.map {
                let count = turns.next().count
                turns.ended(count, after: .milliseconds($0))
                return count
            }
        }
        #expect(sizes([1, 1, 5, 20, 20, 20]) == [32, 64, 64, 64, 32, 32])
        #expect(sizes([1]) == [32])
        turns.add(Array(repeating: 0, count: 600), as: .patient)
        #expect(sizes([1, 1, 1]) == [64, 64, 64])
        _ = turns.remove(.patient)
        // The time of a transaction that is not full says nothing about a larger one.
        turns.add([1, 2], as: .patient)
        #expect(sizes([1]) == [2])
        turns.add(Array(repeating: 0, count: 40), as: .short)
        #expect(sizes([1, 1, 1]) == [16, 16, 8])
        turns.add([1, 2], as: .long)
        #expect(sizes([1, 1]) == [1, 1])
    }

    @Test("A request that comes late waits for one turn of each other kind, however many requests of them wait")
    func fairness() {
        var turns = ReadTurns<String>()
        turns.add(Array(repeating: "w", count: 10_000), as: .patient)
        turns.add(Array(repeating: "e", count: 10_000), as: .ended)
        #expect(turns.next().count == 32)
        turns.add(["s"], as: .short)
        turns.add(["l"], as: .long)
        #expect(turns.next().first == "e" && turns.next() == ["l"] && turns.next() == ["s"])
    }
}
