import HubServer
import SyncCore
import Testing

@Suite("Groups", .eachEngine)
struct GroupTests {
    @Test("A group takes one commit number, so that no page of the feed can split it")
    func oneCommit() throws {
        let bench = try HubBench()
        let results = try bench.verdicts([
            Sent("k-0", .create, id: "a-0"), Sent("k-1", seq: 2, .create, id: "a-1", group: "g"),
            Sent("k-2", seq: 3, .create, "responses", id: "r-1", dependsOn: ["k-1"], group: "g"),
            Sent("k-3", seq: 4, .update, id: "a-1", data: ["n": 2], group: "g"), Sent("k-4", seq: 5, .create, id: "a-4"),
        ])
        #expect(results.map(\.verdict) == [1, 2, 2, 2, 3].map { .accepted(version: $0, serverID: nil, record: nil, merged: []) })
        #expect(try bench.data("audits", "a-1") == ["n": 2])
    }

    @Test(
        "A dependency on the mutation itself, or on a later one of its group, is rejected with the place; elsewhere it may come later"
    )
    func circles() throws {
        let bench = try HubBench()
        let itself = try bench.verdict(Sent("k-1", .create, id: "a-1", dependsOn: ["k-1"]))
        guard case .rejected(let problem, _) = itself else {
            Issue.record("\(itself.word)")
            return
        }
        #expect(problem.code == "validation" && problem.errors.map(\.pointer) == ["/depends_on/0"])
        let circle = try bench.verdicts([
            Sent("c-1", seq: 2, .create, id: "c-1", dependsOn: ["c-2"], group: "g"),
            Sent("c-2", seq: 3, .create, id: "c-2", dependsOn: ["c-1"], group: "g"),
        ])
        #expect(circle.map(\.verdict.word) == ["rejected validation", "rejected parent-rejected"])
        let loose = [
            Sent("d-1", seq: 4, .create, id: "d-1", dependsOn: ["d-2"]), Sent("d-2", seq: 5, .create, id: "d-2"),
        ]
        #expect(try bench.verdicts(loose).map(\.verdict.word) == ["retry dependency-missing", "accepted"])
        #expect(try bench.verdicts([loose[0]]).map(\.verdict.word) == ["accepted"])
        // A key of the same group that was accepted before is no circle.
        let repeated = try bench.verdicts([
            Sent("e-1", seq: 6, .create, id: "e-1", dependsOn: ["d-2"], group: "h"),
            Sent("d-2", seq: 5, .create, id: "d-2").with("group", "h"),
        ])
        #expect(repeated.first?.verdict.word.hasPrefix("rejected") == false)
    }

    struct Failure: Sendable, CustomStringConvertible {
        let description: String
        let bad: Sent
        let verdict: String
        let others: String
    }

    @Test(
        "All of a group or nothing: the others share the fate of the one that failed",
        arguments: [
            Failure(
                description: "rejected", bad: Sent("bad", seq: 3, .update, id: "none", group: "g"), verdict: "rejected deleted",
                others: "rejected group-rejected"),
            Failure(
                description: "unreadable", bad: Sent("bad", seq: 3, .create, id: "b", group: "g").with("data", 5),
                verdict: "rejected validation", others: "rejected group-rejected"),
            Failure(
                description: "conflict", bad: Sent("bad", seq: 3, .update, id: "shared", data: ["finding": "mine"], base: 1, group: "g"),
                verdict: "conflict", others: "retry blocked-by-earlier"),
            Failure(
                description: "waits", bad: Sent("bad", seq: 3, .create, id: "b", dependsOn: ["never"], group: "g"),
                verdict: "retry dependency-missing", others: "retry blocked-by-earlier"),
            Failure(
                description: "depends on itself", bad: Sent("bad", seq: 3, .create, id: "b", dependsOn: ["bad"], group: "g"),
                verdict: "rejected validation", others: "rejected group-rejected"),
        ])
    func atomicity(_ example: Failure) throws {
        for place in 0...2 {
            let bench = try HubBench(rules: PushTests.manual)
            _ = try bench.verdict(Sent("o-1", .create, id: "shared", data: ["finding": "a"]), device: .two)
            _ = try bench.verdict(Sent("o-2", seq: 2, .update, id: "shared", data: ["finding": "b"], base: 1), device: .two)
            var group = [Sent("k-1", seq: 1, .create, id: "a-1", group: "g"), Sent("k-2", seq: 2, .create, id: "a-2", group: "g")]
            group.insert(example.bad, at: place)
            let after = Sent("k-9", seq: 9, .create, id: "a-9")
            let words = try bench.verdicts(group + [after]).map(\.verdict.word)
            var expected = [example.others, example.others]
            expected.insert(example.verdict, at: place)
            #expect(words == expected + ["accepted"])
            #expect(try bench.data("audits", "a-1") == nil && bench.data("audits", "a-2") == nil)
            #expect(try bench.data("audits", "shared") == ["finding": "b"])
            #expect(bench.hub.head == 3)

            // The answer was lost. A group that failed may not go through in part.
            let again = try bench.verdicts(group).map(\.verdict.word)
            #expect(again == expected.map { $0.hasPrefix("retry") ? $0 : "duplicate" })
            #expect(bench.hub.head == 3)
        }
    }

    @Test("A group whose answer was lost is answered as duplicates")
    func repeated() throws {
        let bench = try HubBench()
        let group = [Sent("k-1", .create, id: "a-1", group: "g"), Sent("k-2", seq: 2, .create, id: "a-2", group: "g")]
        _ = try bench.verdicts(group)
        #expect(try bench.verdicts(group).map(\.verdict.word) == ["duplicate", "duplicate"])
        #expect(bench.hub.head == 1)
    }

    @Test("Mutations before and after a failed group on the same record keep their order")
    func orderAround() throws {
        let bench = try HubBench()
        let words = try bench.verdicts([
            Sent("k-1", .create, id: "a", data: ["n": 1]), Sent("k-2", seq: 2, .update, id: "a", data: ["n": 2], group: "g"),
            Sent("k-3", seq: 3, .create, id: "b", dependsOn: ["never"], group: "g"), Sent("k-4", seq: 4, .update, id: "a", data: ["n": 4]),
        ]).map(\.verdict.word)
        #expect(words == ["accepted", "retry blocked-by-earlier", "retry dependency-missing", "retry blocked-by-earlier"])
        #expect(try bench.data("audits", "a") == ["n": 1])
    }
}
