import HubServer
import SyncCore
import Testing

/// PROTOCOL A6: every key is applied at most once, and answered the same for as long as the hub lives.
@Suite("Idempotency keys and replicas", .eachEngine)
struct KeyTests {
    /// People decide about `finding`.
    private static var disputing: HubBench {
        get throws {
            var rules = EntityRules()
            rules.fields = ["finding": .manual]
            return try HubBench(rules: RuleBook(["audits": rules]))
        }
    }

    @Test("A repeated key changes nothing and shows the present record, not the one of the first answer")
    func duplicateShowsPresent() throws {
        let bench = try HubBench()
        let create = Sent("k-1", .create, data: ["n": 1])
        _ = try bench.verdict(create)
        _ = try bench.verdict(Sent("k-1", .update, data: ["n": 2], base: 1), device: .two)
        guard case .duplicate(.accepted, .record(let current)) = try bench.verdict(create) else {
            Issue.record("no duplicate")
            return
        }
        #expect(current.data == ["n": 2] && current.version == 2)
        _ = try bench.verdict(Sent("k-2", .delete, base: 2), device: .two)
        #expect(try bench.verdict(create) == .duplicate(original: .accepted, current: .deleted(version: 3)))
        #expect(bench.hub.head == 3)
    }

    @Test("A key that asks for something else is refused, and the first one stands")
    func mismatch() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        #expect(try bench.verdict(Sent("k-1", .create, data: ["n": 2])).word == "rejected idempotency-mismatch")
        #expect(try bench.verdict(Sent("k-1", .create, data: ["n": 1])).word == "duplicate")
        #expect(try bench.data("audits", "a-1") == ["n": 1])
    }

    @Test(
        "A known key with other content is answered with what became of the first, and the record as it is now",
        arguments: [
            ("accepted", false), ("rejected", true),
        ])
    func mismatchTellsOriginal(_ original: String, _ isRefused: Bool) throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", isRefused ? .update : .create, id: "a", data: ["n": 1]))
        let verdict = try bench.verdict(Sent("k-1", isRefused ? .update : .create, id: "a", data: ["n": 2]))
        guard case .rejected(let problem, let current) = verdict else {
            Issue.record("\(verdict.word)")
            return
        }
        #expect(problem.code == "idempotency-mismatch" && problem.members["original"]?.text == original)
        if case .record(let record)? = current {
            #expect(record.data == ["n": 1] && !isRefused)
        } else {
            #expect(current == .absent && isRefused)
        }
    }

    @Test("Stamps, versions and seq may differ between two attempts")
    func sameWish() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        #expect(try bench.verdict(Sent("k-1", seq: 99, .create, data: ["n": 1], base: 5, ms: 7)).word == "duplicate")
    }

    @Test("Two devices may use the same key for different things")
    func keysBelongToDevices() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, id: "a", data: ["n": 1]))
        #expect(try bench.verdict(Sent("k-1", .create, id: "b", data: ["n": 2]), device: .two).word == "accepted")
    }

    @Test("A key outlives acknowledgement, years and housekeeping; only the text of a rejection is dropped")
    func keysStay() throws {
        let bench = try HubBench()
        let good = Sent("k-1", .create, data: ["n": 1])
        let bad = Sent("k-2", seq: 2, .update, id: "none", data: ["n": 1])
        _ = try bench.verdicts([good, bad])
        _ = bench.push([], acked: 2)
        bench.now = bench.now.advanced(by: .seconds(29 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        #expect(try bench.verdicts([bad])[0].notes.problem?.code == "deleted")
        bench.now = bench.now.advanced(by: .seconds(4_000 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        #expect(try bench.verdict(good).word == "duplicate")
        let repeated = try bench.verdicts([bad])[0]
        #expect(repeated.verdict == .duplicate(original: .rejected, current: .absent))
        #expect(repeated.notes.problem == nil)
    }

    @Test("A mutation that another one answers for counts as done with it, whether it ever arrived or not")
    func answeredFor() throws {
        let bench = try Self.disputing
        _ = try bench.verdict(Sent("k-0", .create, data: ["finding": "pass"]), device: .two)
        let disputed = Sent("k-1", seq: 1, .update, data: ["finding": "fail"])
        #expect(try bench.verdict(disputed).word == "conflict")
        let decision = Sent("k-3", seq: 3, .update, data: ["finding": "fail"], base: 1).with("supersedes", ["k-2", "k-1"])
        #expect(try bench.verdict(decision).word == "accepted")
        // A database that went back asks again, or sends for the first time what was taken along, or decides once more.
        #expect(try bench.verdict(disputed).word == "duplicate")
        #expect(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 9])).word == "duplicate")
        let again = Sent("k-4", seq: 4, .update, data: ["finding": "both"], base: 2).with("supersedes", ["k-1"])
        #expect(try bench.verdict(again).word == "rejected already-decided")
        #expect(try bench.verdict(decision).word == "duplicate")
        #expect(try bench.data("audits", "a-1") == ["finding": "fail"])
    }

    @Test("A mutation that is not accepted answers for nothing")
    func answersForNothing() throws {
        let bench = try HubBench()
        let refused = Sent("k-2", seq: 2, .update, id: "none", data: ["n": 1]).with("supersedes", ["k-1"])
        #expect(try bench.verdict(refused).word.hasPrefix("rejected"))
        #expect(try bench.verdict(Sent("k-1", seq: 1, .create, data: ["n": 1])).word == "accepted")
    }

    @Test("Which fields were in dispute is never forgotten: a database that goes back asks, and nothing else tells it")
    func disputeStays() throws {
        let bench = try Self.disputing
        _ = try bench.verdict(Sent("k-0", .create, data: ["finding": "pass"]), device: .two)
        let disputed = Sent("k-1", .update, data: ["finding": "fail", "n": 1])
        #expect(try bench.verdict(disputed).word == "conflict")
        _ = bench.push([], acked: 1)
        bench.now = bench.now.advanced(by: .seconds(400 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        #expect(try bench.verdicts([disputed])[0].notes.fields == ["finding"])
    }

    @Test("The text of a rejection is kept as long as its device has not acknowledged it")
    func payloadWaitsForAck() throws {
        let bench = try HubBench()
        let bad = Sent("k-2", seq: 2, .update, id: "none", data: ["n": 1])
        _ = bench.push([bad], acked: 1)
        bench.now = bench.now.advanced(by: .seconds(400 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        #expect(try bench.verdicts([bad])[0].notes.problem?.code == "deleted")
    }

    @Test("The hub tells which keys it does not know")
    func known() throws {
        let bench = try HubBench()
        _ = try bench.verdicts([Sent("k-1", .create), Sent("k-2", seq: 2, .update, id: "none")])
        let response = bench.send("POST", "/v1/sync/known", ["keys": ["x", "k-2", "y", "k-1"]])
        // The refused one is known, and may be given again: after a restore it may be taken.
        #expect(try KnownMessages.readResponse(response.body).map(\.text) == ["x", "k-2", "y"])
        let other = bench.send("POST", "/v1/sync/known", ["keys": ["k-1"]], device: .two)
        #expect(try KnownMessages.readResponse(other.body).map(\.text) == ["k-1"])
    }

    // MARK: Databases that go back in time

    @Test("The highest seq of a replica is told with every answer")
    func deviceSeq() throws {
        let bench = try HubBench()
        #expect(bench.push([Sent("k-1", seq: 7, .create)]).headers["Sync-Device-Seq"] == "7")
        #expect(bench.push([Sent("k-2", seq: 3, .create, id: "b")]).headers["Sync-Device-Seq"] == "7")
        #expect(bench.send("POST", "/v1/sync/pull", ["streams": []]).headers["Sync-Device-Seq"] == "7")
        #expect(bench.send("POST", "/v1/sync/pull", ["streams": []], replica: "r-2").headers["Sync-Device-Seq"] == "0")
        #expect(bench.send("POST", "/v1/sync/pull", ["streams": []], replica: nil).headers["Sync-Device-Seq"] == nil)
        // The seq of a rejected mutation counts too, because the hub has seen it.
        #expect(bench.push([Sent("k-3", seq: 9, .update, id: "none")]).headers["Sync-Device-Seq"] == "9")
    }

    @Test("A database that has sent less than the hub has seen went back in time, and nothing of its push is applied")
    func regressed() throws {
        let bench = try HubBench()
        _ = bench.push([Sent("k-1", seq: 412, .create)], maxSent: 412)
        let refused = bench.push([Sent("k-2", seq: 400, .create, id: "b")], maxSent: 400)
        #expect(refused.status == 409 && refused.problem?.code == "replica-regressed")
        #expect(refused.problem?.members["max_seq"]?.int == 412)
        #expect(refused.headers["Sync-Device-Seq"] == "412")
        #expect(try bench.data("audits", "b") == nil)
        // A settle repeats old numbers and is no regression.
        #expect(bench.push([Sent("k-1", seq: 412, .create)], maxSent: 412).status == 200)
        #expect(bench.push([Sent("k-0", seq: 11, .create, id: "c")], maxSent: 413).status == 200)
        // Under a new replica the same is welcome.
        #expect(bench.push([Sent("k-2", seq: 1, .create, id: "b")], maxSent: 1, replica: "r-2").status == 200)
    }

    @Test("A new key below an acknowledged seq detects a return of a device that does not send its own position")
    func regressedByAck() throws {
        let bench = try HubBench()
        _ = bench.push([Sent("k-1", seq: 1, .create), Sent("k-2", seq: 2, .create, id: "b")])
        _ = bench.push([Sent("k-3", seq: 3, .create, id: "c")], acked: 2)
        #expect(bench.push([Sent("k-2", seq: 2, .create, id: "b")]).status == 200)
        #expect(bench.push([Sent("new", seq: 2, .create, id: "d")]).problem?.code == "replica-regressed")
        #expect(bench.push([Sent("new", seq: 3, .create, id: "d")]).status == 200)
    }

    @Test("A replica that speaks again after another one is noted: two devices may share one identity")
    func clones() throws {
        let bench = try HubBench()
        func clones() throws -> Int64? { try bench.hub.stats().devices.first?.clones }
        for (seq, replica) in ["r-1", "r-1", "r-2", "r-2"].enumerated() {
            _ = bench.push([Sent("k-\(seq)", seq: Int64(seq + 1), .create, id: "a-\(seq)")], replica: ReplicaID(trusted: replica))
        }
        #expect(try clones() == 0)
        // One that returns is told to take a new id, and the other one speaks on.
        for replica in ["r-1", "r-2", "r-1"] { _ = bench.push([], replica: ReplicaID(trusted: replica)) }
        #expect(try clones() == 2)
    }

    @Test("A push speaks for one database and says for which")
    func replicaMissing() throws {
        let bench = try HubBench()
        let refused = bench.push([Sent("k-1", .create)], replica: nil)
        #expect(refused.status == 400 && refused.problem?.code == "malformed")
        #expect(bench.hub.head == 0)
    }

    // MARK: Hubs that go back in time

    @Test("A hub restored from a backup has a new epoch: cursors are refused, keys it never saw are unknown")
    func restored() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        let backup = try bench.backUp()
        let cursor = try bench.follow("audits").cursor
        _ = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 2], base: 1))
        let epoch = bench.hub.epoch
        try bench.restore(backup)
        #expect(bench.hub.epoch != epoch && bench.hub.head == 1)
        #expect(try bench.pull([("audits", cursor)]).errors.first?.problem.code == "epoch-changed")
        let response = bench.send("POST", "/v1/sync/known", ["keys": ["k-1", "k-2"]])
        #expect(try KnownMessages.readResponse(response.body).map(\.text) == ["k-2"])
        // The device offers the unknown one again under its key, and gets the record where it was.
        #expect(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 2], base: 1)).word == "accepted")
        #expect(try bench.data("audits", "a-1") == ["n": 2])
    }

    // MARK: Rules that a test build can switch off

    @Test("Without the memory of keys a repeat is applied twice")
    func keysForgotten() throws {
        let bench = try HubBench(ablations: Ablations([.keysForgotten]))
        let counted = Sent("k-1", .update, ops: [["field": "n", "op": "inc", "value": 1]], base: 1)
        _ = try bench.verdict(Sent("k-0", .create, id: "a-1"))
        _ = try bench.verdict(counted)
        _ = bench.push([counted], acked: 2, maxSent: 2)
        #expect(try bench.data("audits", "a-1") == ["n": 2])
    }

    @Test("A duplicate that replays what was stored shows a record that is gone")
    func duplicateReplays() throws {
        let bench = try HubBench(ablations: Ablations([.duplicateReplaysStored]))
        let create = Sent("k-1", .create, data: ["n": 1])
        _ = try bench.verdict(create)
        _ = try bench.verdict(Sent("k-2", .delete, base: 1), device: .two)
        guard case .duplicate(.accepted, .record(let current)) = try bench.verdict(create) else {
            Issue.record("no stored record")
            return
        }
        #expect(current.data == ["n": 1])
    }
}
