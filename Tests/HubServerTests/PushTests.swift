import HubServer
import SyncCore
import Testing

/// PROTOCOL A4, sentence by sentence.
@Suite("Push", .eachEngine)
struct PushTests {
    @Test("A create is accepted, gets a commit number, and is in the feed")
    func create() throws {
        let bench = try HubBench()
        let verdict = try bench.verdict(Sent("k-1", .create, data: ["status": "open"]))
        #expect(verdict == .accepted(version: 1, serverID: nil, record: nil, merged: []))
        #expect(try bench.data("audits", "a-1") == ["status": "open"])
        #expect(bench.hub.head == 1)
    }

    @Test("Results have the length and the order of the mutations, whatever became of each")
    func orderOfResults() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("known", .create, id: "a-9", data: ["n": 1]))
        let results = try bench.verdicts([
            Sent("k-1", seq: 2, .create, data: ["n": 1]), Sent("k-2", seq: 3, .update, id: "none", data: ["n": 1]),
            Sent("known", .create, id: "a-9", data: ["n": 1]), Sent("k-3", seq: 4, .update, data: ["n": 2], dependsOn: ["never"]),
            Sent("k-4", seq: 5, .create, id: "a-2").with("hlc", "broken"),
        ])
        #expect(results.map(\.key.text) == ["k-1", "k-2", "known", "k-3", "k-4"])
        #expect(
            results.map { $0.verdict.word } == [
                "accepted", "rejected deleted", "duplicate", "retry dependency-missing", "rejected validation",
            ])
    }

    @Test("One bad mutation does not stop the others, and is consumed: the key answers the same for ever")
    func poison() throws {
        let bench = try HubBench()
        let bad = Sent("bad", seq: 2, .create, id: "b").with("data", "text")
        let results = try bench.verdicts([Sent("k-1", .create, id: "a"), bad, Sent("k-3", seq: 3, .create, id: "c")])
        #expect(results.map(\.verdict.word) == ["accepted", "rejected validation", "accepted"])
        #expect(results[1].verdict.problem?.errors.first?.pointer == "/mutations/1/data")
        let again = try bench.verdicts([bad])[0]
        #expect(again.verdict == .duplicate(original: .rejected, current: .absent))
        #expect(again.notes.problem?.code == "validation")
    }

    @Test("A strict hub rejects entities that it does not know")
    func unknownEntity() throws {
        let bench = try HubBench(rules: RuleBook(["audits": EntityRules()], isStrict: true))
        #expect(try bench.verdict(Sent("k-1", .create, "audits")).word == "accepted")
        #expect(try bench.verdict(Sent("k-2", seq: 2, .create, "other")).word == "rejected unknown-entity")
    }

    @Test("Devices cannot write reference data")
    func reference() throws {
        var rules = EntityRules()
        rules.kind = .reference
        let bench = try HubBench(rules: RuleBook(["templates": rules]))
        #expect(try bench.verdict(Sent("k-1", .create, "templates", id: "t")).word == "rejected forbidden")
        try bench.hub.publish(RecordName("templates", "t"), ["title": "A"], at: bench.now)
        #expect(try bench.data("templates", "t") == ["title": "A"])
    }

    @Test("A document that would grow beyond its limit is rejected, and the record stays as it was")
    func documentLimit() throws {
        let bench = try HubBench()
        let text = JSON.string(String(repeating: "x", count: 120_000))
        #expect(try bench.verdict(Sent("k-1", .create, data: ["a": text])).word == "accepted")
        #expect(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["b": text], base: 1)).word == "accepted")
        #expect(try bench.verdict(Sent("k-3", seq: 3, .update, data: ["c": text], base: 2)).word == "rejected too-large")
        #expect(try bench.data("audits", "a-1")?.names == ["a", "b"])
    }

    // MARK: Facts that the device must be told

    @Test("A create followed by updates in one batch costs no document in the answer, whatever base they name")
    func ownBatch() throws {
        let bench = try HubBench()
        let results = try bench.verdicts([
            Sent("k-1", seq: 1, .create, data: ["n": 1]), Sent("k-2", seq: 2, .update, data: ["n": 2]),
            Sent("k-3", seq: 3, .update, data: ["m": 1], ops: [["field": "n", "op": "inc", "value": 5]]),
        ])
        #expect(results.map(\.verdict) == [1, 2, 3].map { .accepted(version: $0, serverID: nil, record: nil, merged: []) })
        #expect(try bench.data("audits", "a-1") == ["n": 7, "m": 1])
    }

    @Test("Own changes of an earlier batch are no contest, but the document comes along: the device may have forgotten them")
    func ownEarlierBatch() throws {
        var rules = EntityRules()
        rules.strategy = .manual
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1, "old": true]))
        let verdict = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 2]))
        #expect(verdict.record?.data == ["n": 2, "old": true])
        #expect(try bench.verdict(Sent("k-3", seq: 3, .update, data: ["n": 3], base: 2)).record == nil)
    }

    @Test("Changes of others since the base come along, also when nothing was contested")
    func othersChanged() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        _ = try bench.verdict(Sent("k-1", .update, data: ["theirs": 2], base: 1, ms: 200, node: "0000000b"), device: .two)
        let verdict = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["ours": 3], base: 1))
        #expect(verdict == .accepted(version: 3, serverID: nil, record: verdict.record, merged: []))
        #expect(verdict.record?.data == ["n": 1, "theirs": 2, "ours": 3])
        #expect(verdict.record?.hlc == Sent.hlc(100))
        #expect(verdict.record?.fieldHLC == ["theirs": .string(Sent.hlc(200, "0000000b"))])
    }

    @Test("A field that lost is named, and the winning document comes along")
    func lost() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        _ = try bench.verdict(Sent("k-1", .update, data: ["n": 2], base: 1, ms: 900), device: .two)
        let verdict = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 3], base: 1, ms: 500))
        #expect(verdict.record?.data == ["n": 2])
        #expect(verdict == .accepted(version: 3, serverID: nil, record: verdict.record, merged: ["n"]))
    }

    @Test("A version that this history has not reached belongs to another one: everything of others is contested")
    func foreignBase() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1], ms: 900), device: .two)
        let verdict = try bench.verdict(Sent("k-2", .update, data: ["n": 2], base: 90_211, ms: 500))
        #expect(verdict.record?.data == ["n": 1])
    }

    @Test("A stamp too far ahead is taken as the hub's time: the answer says so and shows the result")
    func clamped() throws {
        let bench = try HubBench()
        let far = UInt64(bench.now.milliseconds + 300_001)
        let result = try bench.verdicts([Sent("k-1", .create, data: ["n": 1], ms: far)])[0]
        #expect(result.notes.isClockClamped)
        #expect(
            result.verdict.record?.hlc == HybridTime(milliseconds: UInt64(bench.now.milliseconds), counter: 0, node: "0000000a").description
        )
        let near = try bench.verdicts([Sent("k-2", seq: 2, .create, id: "a-2", ms: far - 1)])[0]
        #expect(!near.notes.isClockClamped && near.verdict.record == nil)
    }

    // MARK: Conflicts and order

    static var manual: RuleBook {
        var rules = EntityRules()
        rules.fields["finding"] = .manual
        return RuleBook(["audits": rules])
    }

    @Test("A contested manual field is a conflict: nothing is applied, and the present record comes along")
    func conflict() throws {
        let bench = try HubBench(rules: Self.manual)
        _ = try bench.verdict(Sent("k-1", .create, data: ["finding": "a"]))
        _ = try bench.verdict(Sent("k-1", .update, data: ["finding": "b"], base: 1), device: .two)
        let verdict = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["finding": "c", "n": 1], base: 1))
        guard case .conflict(let fields, .record(let current)) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(fields == ["finding"])
        #expect(current.data == ["finding": "b"] && current.version == 2)
        #expect(try bench.data("audits", "a-1") == ["finding": "b"])
        #expect(bench.hub.head == 2)
    }

    @Test("Mutations after a conflict on the same record wait, those of other records go on")
    func blocked() throws {
        let bench = try HubBench(rules: Self.manual)
        _ = try bench.verdict(Sent("k-1", .create, data: ["finding": "a"]))
        _ = try bench.verdict(Sent("k-1", .update, data: ["finding": "b"], base: 1), device: .two)
        let batch = [
            Sent("k-2", seq: 2, .update, data: ["finding": "c"], base: 1), Sent("k-3", seq: 3, .update, data: ["n": 1], base: 1),
            Sent("k-4", seq: 4, .create, id: "a-2"),
        ]
        #expect(try bench.verdicts(batch).map(\.verdict.word) == ["conflict", "retry blocked-by-earlier", "accepted"])
        // The answer was lost: the same again. The waiting mutation still waits.
        #expect(try bench.verdicts(batch).map(\.verdict.word) == ["duplicate", "retry blocked-by-earlier", "duplicate"])
        let again = try bench.verdicts([batch[0]])[0]
        #expect(again.notes.fields == ["finding"])
        // A person decided: the conflict gets a successor under a new key, and the one that waited goes through.
        let resolved = [Sent("k-5", seq: 5, .update, data: ["finding": "c"], base: 2), batch[1]]
        #expect(try bench.verdicts(resolved).map(\.verdict.word) == ["accepted", "accepted"])
    }

    @Test("A mutation after a rejection on the same record does not wait")
    func rejectionDoesNotBlock() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        let results = try bench.verdicts([
            Sent("k-2", seq: 2, .update, data: ["n": 1], base: 1).with("clock", "broken"),
            Sent("k-3", seq: 3, .update, data: ["n": 2], base: 1),
        ])
        #expect(results.map(\.verdict.word) == ["rejected validation", "accepted"])
    }

    // MARK: Dependencies

    @Test("A mutation waits for what it depends on, and is rejected with it")
    func dependencies() throws {
        let bench = try HubBench(rules: Self.manual)
        let child = Sent("child", seq: 9, .create, "responses", id: "r-1", dependsOn: ["parent"])
        #expect(try bench.verdict(child).word == "retry dependency-missing")
        // A retry is no verdict: the same key goes through later.
        #expect(try bench.verdicts([Sent("parent", .create), child]).map(\.verdict.word) == ["accepted", "accepted"])

        let rejected = Sent("bad", seq: 10, .create, id: "b").with("data", 5)
        let orphan = Sent("orphan", seq: 11, .create, "responses", id: "r-2", dependsOn: ["parent", "bad"])
        #expect(try bench.verdicts([rejected, orphan]).map(\.verdict.word) == ["rejected validation", "rejected parent-rejected"])
        // The parent is in an earlier batch, or the device asks again.
        let late = Sent("late", seq: 12, .create, "responses", id: "r-3", dependsOn: ["bad"])
        #expect(try bench.verdict(late).word == "rejected parent-rejected")
        #expect(try bench.verdict(orphan).word == "duplicate")
    }

    @Test("A key of another device is no dependency")
    func foreignDependency() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("parent", .create), device: .two)
        #expect(try bench.verdict(Sent("child", .create, id: "a-2", dependsOn: ["parent"])).word == "retry dependency-missing")
    }

    @Test("The child of a parent that was not created in this batch shares its fate")
    func parents() throws {
        var rules = EntityRules()
        rules.refs = ["audit_id": "audits"]
        let bench = try HubBench(rules: RuleBook(["responses": rules]))
        let child = Sent("child", seq: 2, .create, "responses", id: "r-1", data: ["audit_id": "a-1"])
        let waiting = [Sent("parent", .create, dependsOn: ["never"]), child]
        #expect(try bench.verdicts(waiting).map(\.verdict.word) == ["retry dependency-missing", "retry dependency-missing"])
        let rejected = [Sent("bad", seq: 3, .create).with("clock", 1), child]
        #expect(try bench.verdicts(rejected).map(\.verdict.word) == ["rejected validation", "rejected parent-rejected"])
        // A parent that this hub has never heard of may well live elsewhere.
        let other = Sent("other", seq: 4, .create, "responses", id: "r-2", data: ["audit_id": "unknown"])
        #expect(try bench.verdict(other).word == "accepted")
    }

    // MARK: Deletes and creates again (A7, D4)

    @Test("Deletes are tombstones, also of what was never sent; deleting again is done already")
    func deletes() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        #expect(try bench.verdict(Sent("k-2", seq: 2, .delete, base: 1)) == .accepted(version: 2, serverID: nil, record: nil, merged: []))
        #expect(try bench.verdict(Sent("k-3", seq: 3, .delete, base: 2)) == .accepted(version: 2, serverID: nil, record: nil, merged: []))
        #expect(bench.hub.head == 2)
        #expect(
            try bench.verdict(Sent("k-4", seq: 4, .delete, id: "never")) == .accepted(version: 3, serverID: nil, record: nil, merged: []))
        #expect(try bench.hub.record(RecordName(EntityName(trusted: "audits"), RecordID(trusted: "never")))?.isDeleted == true)
        // One that says it has seen the record had it from another history, which has ended.
        #expect(
            try bench.verdict(Sent("k-5", seq: 5, .delete, id: "elsewhere", base: 3))
                == .accepted(version: 0, serverID: nil, record: nil, merged: []))
        #expect(bench.hub.head == 3)
    }

    @Test("An update of a deleted record is rejected with the tombstone, and an undelete brings the record back")
    func undelete() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1, "old": 1]))
        _ = try bench.verdict(Sent("k-1", .delete, base: 1), device: .two)
        let verdict = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 2], base: 1))
        #expect(verdict.word == "rejected deleted")
        if case .rejected(_, let current) = verdict { #expect(current == .deleted(version: 2)) }
        #expect(try bench.verdict(Sent("k-3", seq: 3, .create, data: ["n": 3], base: 2)).word == "accepted")
        #expect(try bench.data("audits", "a-1") == ["n": 3])
    }

    @Test("A delete beside a change of a manual field by another device is a conflict about the deletion")
    func deleteUpdate() throws {
        let bench = try HubBench(rules: Self.manual)
        _ = try bench.verdict(Sent("k-1", .create, data: ["finding": "a"]))
        _ = try bench.verdict(Sent("k-1", .update, data: ["finding": "b"], base: 1), device: .two)
        guard case .conflict(let fields, .record) = try bench.verdict(Sent("k-2", seq: 2, .delete, base: 1)) else {
            Issue.record("no conflict")
            return
        }
        #expect(fields == ["$delete"])
    }

    // MARK: Events

    @Test("Events are stored and counted, and never travel back")
    func events() throws {
        var rules = EntityRules()
        rules.kind = .event
        let bench = try HubBench(rules: RuleBook(["readings": rules]))
        let results = try bench.verdicts([
            Sent("k-1", .create, "readings", id: "e-1", data: ["v": 1]),
            Sent("k-2", seq: 2, .create, "readings", id: "e-2", data: ["v": 2]),
            Sent("k-3", seq: 3, .update, "readings", id: "e-1", data: ["v": 3]),
        ])
        #expect(results.map(\.verdict.word) == ["accepted", "accepted", "rejected validation"])
        #expect(
            try bench.verdict(Sent("k-1", .create, "readings", id: "e-1", data: ["v": 1]))
                == .duplicate(original: .accepted, current: .absent))
        let page = try #require(try bench.pull([("readings", nil)]).pages.first)
        #expect(page.records.isEmpty && !page.hasMore)
        #expect(try bench.pull([("readings", page.cursor)]).pages.isEmpty)
        #expect(try bench.hub.stats().entities.map(\.records) == [2])
    }

    // MARK: Limits

    @Test("More than 500 mutations are too large, 500 are taken")
    func batchLimit() throws {
        let bench = try HubBench()
        let mutations = (1...501).map { Sent("k-\($0)", seq: Int64($0), .create, id: "a-\($0)") }
        let refused = bench.push(mutations)
        #expect(refused.status == 413 && refused.problem?.code == "too-large")
        #expect(bench.hub.head == 0)
        #expect(try bench.verdicts(Array(mutations.dropLast())).allSatisfy { $0.verdict.word == "accepted" })
        #expect(bench.hub.head == 500)
    }

    // MARK: Turns

    /// Requests of two devices in one turn, which change the same records.
    private static func turn(_ pushes: Int, of size: Int, spoiling spoiled: Set<Int> = []) -> [HubRequest] {
        (0..<pushes).map { push in
            let mutations = (0..<size).map { place in
                let number = push * size + place
                // Each record is made by the first push and changed by all others.
                return Sent(
                    "k-\(number)", seq: Int64(number + 1), push == 0 ? .create : .update, id: "a-\(place)", data: ["n": .int(Int64(push))],
                    base: -1)
            }
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: push % 2 == 0 ? .one : .two, replica: "r-1").write(to: &headers)
            let body: JSON =
                spoiled.contains(push) ? "nonsense" : ["acked_seq": 0, "mutations": .array(mutations.map { .object($0.json) })]
            return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
        }
    }

    @Test(
        "A turn of many pushes is the same as each of them alone, also where it goes in several groups",
        arguments: [(6, 3), (5, 500), (64, 20)])
    func turns(_ pushes: Int, _ size: Int) throws {
        let requests = Self.turn(pushes, of: size, spoiling: [2])
        let (together, apart) = (try HubBench(), try HubBench())
        let answers = together.hub.handle(requests, at: together.now)
        let singles = requests.map { apart.hub.handle($0, at: apart.now) }
        #expect(answers.map(\.status) == (0..<pushes).map { $0 == 2 ? 400 : 200 })
        for (answer, single) in zip(answers, singles) { #expect(answer.body == single.body) }
        #expect(together.hub.head == apart.hub.head && together.hub.head >= Int64(size))
        for id in ["a-0", "a-\(size - 1)"] {
            #expect(try together.data("audits", RecordID(trusted: id)) == apart.data("audits", RecordID(trusted: id)))
        }
        #expect(try together.hub.stats().counters == apart.hub.stats().counters)
        #expect(try together.hub.stats().keys == Int64((pushes - 1) * size))
        // All of it once more: no verdict is given twice.
        let again = together.hub.handle(requests, at: together.now)
        #expect(again.map(\.status) == answers.map(\.status) && together.hub.head == apart.hub.head)
    }
}
