import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Reads of a decision without the lock come together, and whatever another hub changes of them until the commit is noticed.
@Suite("Reads of decisions without the lock", .needsPostgres)
struct CoveredReadsTests {
    private typealias T = EntityTexts

    /// Two hubs over one database, with entity settings in it.
    private struct Pair {
        let rows: HubRows
        let a: HubBench
        let b: HubBench

        init(_ text: String) throws {
            rows = try HubRows(.postgres)
            (a, b) = (try HubBench(file: nil, place: rows.place), try HubBench(file: nil, place: rows.place, seed: 2))
            _ = try a.hub.apply(T.text(text))
            for hub in [a, b, a] { _ = hub.push([], device: "gw-0") }
        }

        /// Runs `act` on the first hub, and `meanwhile` when its first decision is made.
        ///
        /// - Returns: The number of decisions.
        func overtake(_ meanwhile: () throws -> Void, act: (HubBench) throws -> Void) throws -> Int {
            try withoutActuallyEscaping(meanwhile) { meanwhile in
                var outcome: Result<Void, any Error>?
                var decisions = 0
                a.hub.beforeCommit = {
                    decisions += 1
                    if outcome == nil { outcome = Result { try meanwhile() } }
                    return true
                }
                defer { a.hub.beforeCommit = nil }
                try act(a)
                try #require(outcome).get()
                return decisions
            }
        }
    }

    @Test("Entity settings that another hub applies between a decision and its commit count for it", arguments: [nil, "site"])
    func entitySettings(_ scope: String?) throws {
        let pair = try Pair(T.audits("a"))
        #expect(try pair.a.accepts("a", "k-1"))
        let decisions = try pair.overtake { () throws in
            #expect(try pair.b.hub.apply(T.text(T.audits("b", scope: scope))) == .applied(generation: 2))
        } act: {
            let isAccepted = try $0.accepts("a", "k-2")
            #expect(!isAccepted)
        }
        #expect(decisions == 2)
        #expect(try pair.a.toldConfig == T.config(T.audits("b", scope: scope)))
    }

    @Test("A hello beside other writers is decided once, unless they begin to refuse records to its device")
    func hello() throws {
        let pair = try Pair(T.audits("a"))
        func hello(_ hub: HubBench) { #expect(hub.send("POST", "/v1/sync/hello", ["device_id": "gw-1", "replica": "r-1"]).status == 200) }
        func kept() throws -> Int64 { try pair.a.hub.store.database.number("SELECT count(*) FROM device_keeping") }
        func keep() throws {
            try pair.b.hub.transact { () throws(DatabaseError) in try pair.b.hub.store.beginKeeping(.one, "audits", at: pair.b.now) }
        }
        hello(pair.a)
        let beside = try pair.overtake { () throws in
            #expect(try pair.b.verdict(Sent("k-1", .create, data: ["value": "a"]), device: .two).word == "accepted")
        } act: {
            hello($0)
        }
        #expect(beside == 1)
        try keep()
        #expect(try kept() == 1)
        hello(pair.a)
        #expect(try kept() == 0)
        let overtaken = try pair.overtake(keep) { hello($0) }
        #expect(overtaken == 2)
        #expect(try kept() == 0)
    }

    @Test("Changes of records whose creations were refused are decided in the two round trips of a group")
    func refusedCreations() throws {
        let pair = try Pair(T.audits("a"))
        let ids = (0..<20).map { "r-\($0)" }
        let creations = ids.enumerated().map { Sent("c-\($1)", seq: Int64($0 + 1), .create, id: $1, data: ["value": "b"]) }
        #expect(try pair.a.verdicts(creations).allSatisfy { $0.verdict.word.hasPrefix("rejected") })
        let changes = ids.enumerated().map { Sent("u-\($1)", seq: Int64($0 + 21), .update, id: $1, data: ["value": "a"]) }
        let before = pair.a.hub.store.database.roundTrips
        let words = try pair.a.verdicts(changes).map(\.verdict.word)
        #expect(words == Array(repeating: "rejected parent-rejected", count: 20))
        #expect(pair.a.hub.store.database.roundTrips - before == 2)
    }

    @Test("A creation that another hub refuses meanwhile refuses the change that rests on it")
    func refusedMeanwhile() throws {
        let pair = try Pair(T.audits("a"))
        let decisions = try pair.overtake { () throws in
            let word = try pair.b.verdict(Sent("c-1", .create, id: "r-1", data: ["value": "b"])).word
            #expect(word.hasPrefix("rejected"))
        } act: {
            let word = try $0.verdict(Sent("u-1", seq: 2, .update, id: "r-1", data: ["value": "a"])).word
            #expect(word == "rejected parent-rejected")
        }
        #expect(decisions == 2)
    }
}
