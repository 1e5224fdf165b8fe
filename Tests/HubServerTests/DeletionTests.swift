import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Testing

/// The rows of deleted records and of records that the hub refused to create.
@Suite("Deletions at the hub", .eachEngine)
struct DeletionTests {
    private static let rules: RuleBook = {
        var audits = EntityRules()
        audits.fields = ["visits": .counter, "tags": .set]
        audits.onDeleted = .updateWins
        return RuleBook(["audits": audits], isStrict: false)
    }()

    private static let first: JSON = ["title": "pump", "due": "mon", "visits": 3]

    /// A record that two know, and one of them deletes.
    private static func deleted(_ place: Hub.Place? = nil) throws -> HubBench {
        let bench = try HubBench(rules: rules, place: place)
        _ = try bench.verdict(Sent("k-1", .create, data: first, ms: 100))
        _ = try bench.verdict(Sent("t-1", .update, ops: [["field": "tags", "op": "add", "value": "x"]], base: 1, ms: 150))
        _ = try bench.verdict(Sent("d-1", .delete, base: 2, ms: 200), device: .two)
        return bench
    }

    private static let update = Sent(
        "k-2", seq: 2, .update, data: ["title": "valve"], ops: [["field": "visits", "op": "inc", "value": 1]], base: 2, ms: 300)

    @Test("A deleted record comes back whole, also after a restart of the hub, and the log of what was lost names the deletion")
    func comesBack() throws {
        let rows = try HubRows()
        do { _ = try Self.deleted(rows.place) }
        let bench = try HubBench(rules: Self.rules, place: rows.place)
        #expect(try bench.data("audits", "a-1") == nil)
        guard case .accepted(4, _, let record?, let merged) = try bench.verdict(Self.update) else {
            Issue.record("it was not accepted with the record")
            return
        }
        #expect(record.data == ["title": "valve", "due": "mon", "visits": 4, "tags": ["x"]] && merged == [])
        #expect(try bench.data("audits", "a-1") == record.data)
        let lost = try bench.hub.lostValues("audits", "a-1")
        #expect(lost.map(\.value.field) == ["$delete"] && lost.first?.value.stamp.writer == .two)
        #expect(lost.first?.json.object?["removed"] == true)
        // The history of its set came back with it: a device that has not seen the element does not remove it.
        let remove = Sent("d-2", seq: 2, .update, ops: [["field": "tags", "op": "remove", "value": "x"]], base: 1, ms: 400)
        _ = try bench.verdict(remove, device: .two)
        #expect(try bench.data("audits", "a-1")?["tags"] == ["x"])
    }

    @Test("What a device without a trusted clock changed behind the creation that brings a record back stays, also in the same push")
    func behindReturn() throws {
        let bench = try Self.deleted()
        let known: JSON = ["title": "pump", "due": "mon", "visits": 3, "tags": ["x"]]
        let create = Sent(
            "d-2", seq: 2, .create, data: ["title": "valve", "due": "mon", "visits": 3, "tags": ["x"]], base: 3, ms: 300, clock: "unsynced")
        let update = Sent("d-3", seq: 3, .update, data: ["due": "tue"], base: 2, ms: 400, clock: "unsynced")
        let results = try bench.verdicts([create.with("base", known), update], device: DeviceID(trusted: "gw-3"))
        guard case .accepted(5, _, _, let merged) = results[1].verdict else {
            Issue.record("\(results[1].verdict)")
            return
        }
        #expect(merged == [])
        #expect(try bench.data("audits", "a-1") == ["title": "valve", "due": "tue", "visits": 3, "tags": ["x"]])
        #expect(try bench.hub.lostValues("audits", "a-1").map(\.value.field) == ["$delete"])
    }

    @Test("No device is shown the values that a tombstone keeps, and they are forgotten with the deletion")
    func forgotten() throws {
        let bench = try Self.deleted()
        #expect(try bench.follow("audits").pages.flatMap(\.records).isEmpty)
        #expect(try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 10)).flatMap(\.records).isEmpty)
        bench.now = bench.now.advanced(by: .seconds(60))
        #expect(try bench.hub.collectTombstones(before: bench.now) == 1)
        guard case .accepted(_, _, let record?, let merged) = try bench.verdict(Self.update) else {
            Issue.record("it was not accepted with the record")
            return
        }
        #expect(record.data == ["title": "valve", "visits": 1] && merged == ["$rest"])
        let lost = try bench.hub.lostValues("audits", "a-1")
        #expect(lost.map(\.value.field) == ["$rest"] && lost.first?.json.object?["removed"] == false)
    }

    @Test("Writes of an older program count: it keeps nothing, and values that were kept earlier belong to another life of the record")
    func besideOlder() throws {
        let rows = try HubRows()
        let bench = try Self.deleted(rows.place)
        // It makes the record again and deletes it, and knows nothing of the columns.
        try rows.run("UPDATE record SET version = version + 1, exceptions = NULL, additions = NULL WHERE id = 'a-1'")
        guard case .accepted(_, _, let record?, let merged) = try bench.verdict(Self.update) else {
            Issue.record("it was not accepted with the record")
            return
        }
        #expect(record.data == ["title": "valve", "visits": 1] && merged == ["$rest"])
    }

    @Test("A kept document that cannot be read is damage, not an empty record")
    func damaged() throws {
        let rows = try HubRows()
        let bench = try Self.deleted(rows.place)
        try rows.run("UPDATE record SET kept = '{' WHERE id = 'a-1'")
        guard case .retry(let problem?, _) = try bench.verdict(Self.update) else {
            Issue.record("it was decided")
            return
        }
        #expect(problem.code == "record-damaged")
    }

    @Test("A database of before is opened, and its tombstones have kept nothing")
    func migration() throws {
        let rows = try HubRows()
        do { _ = try Self.deleted(rows.place) }
        try rows.run("DROP INDEX record_deleted")
        try rows.run("ALTER TABLE horizon DROP COLUMN forgotten")
        try rows.run("ALTER TABLE record DROP COLUMN kept")
        try rows.run("ALTER TABLE record DROP COLUMN kept_version")
        try rows.run("UPDATE record SET exceptions = NULL, additions = NULL")
        for table in [
            "refused_create", "record_scope", "scope_index", "record_grant", "entity_version", "entity_settings", "record_file",
            "device_keeping", "retention_clock", "event_retention",
        ] {
            try rows.run("DROP TABLE \(table)")
        }
        try rows.run("ALTER TABLE record DROP COLUMN scopes")
        try rows.run("ALTER TABLE hub DROP COLUMN linked")
        switch Engine.current {
        case .sqlite: try rows.run("PRAGMA user_version = 5")
        case .postgres: try rows.run(KeysBefore.statements + "UPDATE hub_schema SET version = 3")
        }
        let bench = try HubBench(rules: Self.rules, place: rows.place)
        guard case .accepted(_, _, let record?, let merged) = try bench.verdict(Self.update) else {
            Issue.record("it was not accepted with the record")
            return
        }
        #expect(record.data == ["title": "valve", "visits": 1] && merged == ["$rest"])
        _ = try bench.verdict(Sent("d-3", seq: 3, .delete, base: 4, ms: 500), device: .two)
        guard case .accepted(_, _, let again?, _) = try bench.verdict(Sent("k-3", seq: 3, .update, data: ["due": "fri"], base: 4, ms: 600))
        else {
            Issue.record("it was not accepted with the record")
            return
        }
        #expect(again.data == ["title": "valve", "due": "fri", "visits": 1])
    }

    @Test("A deletion that had not seen a change gives way: it is accepted, with the record as it is, also when it is repeated")
    func givesWay() throws {
        let bench = try HubBench(rules: Self.rules)
        _ = try bench.verdict(Sent("k-1", .create, data: Self.first, ms: 100))
        _ = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["title": "valve"], base: 1, ms: 200))
        let delete = Sent("d-1", .delete, base: 1, ms: 300)
        guard case .accepted(2, _, let record?, ["$delete"]) = try bench.verdict(delete, device: .two) else {
            Issue.record("it did not give way")
            return
        }
        #expect(record.data == ["title": "valve", "due": "mon", "visits": 3])
        #expect(bench.hub.head == 2, "nothing was written")
        guard case .duplicate(.accepted, .record(let again)) = try bench.verdict(delete, device: .two) else {
            Issue.record("the repeat is no duplicate with the record")
            return
        }
        #expect(again == record)
        let lost = try bench.hub.lostValues("audits", "a-1")
        #expect(lost.map(\.value.field) == ["$delete"] && lost.first?.value.stamp.writer == .two)
        // Now it knows.
        guard case .accepted(3, _, nil, []) = try bench.verdict(Sent("d-2", seq: 2, .delete, base: 2, ms: 400), device: .two) else {
            Issue.record("it is not deleted")
            return
        }
    }

    @Test("A record that the back office deletes comes back as well, and its later writes begin a new record")
    func publish() throws {
        let bench = try HubBench(rules: Self.rules)
        _ = try bench.verdict(Sent("k-1", .create, data: Self.first, ms: 100))
        try bench.hub.publish(RecordName("audits", "a-1"), nil, at: bench.now)
        _ = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["title": "valve"], base: 1, ms: 300))
        #expect(try bench.data("audits", "a-1") == ["title": "valve", "due": "mon", "visits": 3])
        try bench.hub.publish(RecordName("audits", "a-1"), nil, at: bench.now)
        try bench.hub.publish(RecordName("audits", "a-1"), ["title": "office"], at: bench.now)
        #expect(try bench.data("audits", "a-1") == ["title": "office"])
    }

    // MARK: Records that were never made

    private static func code(_ verdict: PushResult.Verdict) -> String {
        if case .rejected(let problem, _) = verdict { problem.code } else { "\(verdict)" }
    }

    /// A create that no hub accepts: the value cannot be added to.
    private static func refusedCreate(_ key: String, seq: Int64, group: String? = nil) -> Sent {
        Sent(key, seq: seq, .create, data: ["visits": "x"], ops: [["field": "visits", "op": "inc", "value": 1]], group: group)
    }

    @Test(
        "Changes of a record that the hub refused to create are refused with it, in the same push and later",
        arguments: [
            MutationAction.update, .delete,
        ])
    func refused(_ action: MutationAction) throws {
        let bench = try HubBench(rules: Self.rules)
        func edit(_ key: String, _ seq: Int64) -> Sent { Sent(key, seq: seq, action, data: action == .update ? ["n": 1] : nil, ms: 200) }
        let together = try bench.verdicts([Self.refusedCreate("k-1", seq: 1), edit("k-2", 2)]).map { Self.code($0.verdict) }
        #expect(together == ["validation", "parent-rejected"])
        #expect(Self.code(try bench.verdict(edit("k-3", 3))) == "parent-rejected")
        // Another device was refused nothing.
        if action == .delete {
            guard case .accepted = try bench.verdict(edit("o-1", 1), device: .two) else {
                Issue.record("it is not accepted")
                return
            }
        }
        // The next try is judged by itself, and so is what follows it.
        let again = try bench.verdicts([Sent("k-4", seq: 4, .create, data: ["n": 0]), edit("k-5", 5)])
        #expect(again.allSatisfy { if case .accepted = $0.verdict { true } else { false } }, "\(again)")
    }

    @Test("A record that was made and deleted after the refusal is deleted, and not refused")
    func refusedBefore() throws {
        var rules = EntityRules()
        rules.fields = ["visits": .counter]
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        _ = try bench.verdict(Self.refusedCreate("k-1", seq: 1))
        _ = try bench.verdict(Sent("k-2", seq: 2, .create, data: ["n": 0]))
        _ = try bench.verdict(Sent("d-1", .delete, base: 1, ms: 300), device: .two)
        #expect(Self.code(try bench.verdict(Sent("k-3", seq: 3, .update, data: ["n": 1]))) == "deleted")
        // With the deletion the refusal is forgotten.
        bench.now = bench.now.advanced(by: .seconds(60))
        try bench.hub.collectTombstones(before: bench.now)
        #expect(Self.code(try bench.verdict(Sent("k-4", seq: 4, .update, data: ["n": 1]))) == "deleted")
    }

    @Test("The same below a list that was refused, and below a parent")
    func refusedBelow() throws {
        var children = EntityRules()
        children.refs = ["audit": "audits"]
        var rules = Self.rules
        rules.entities["children"] = children
        let bench = try HubBench(rules: rules)
        let list = [
            Sent("k-1", seq: 1, .create, id: "a-2", data: ["n": 1], group: "g"), Self.refusedCreate("k-2", seq: 2, group: "g"),
        ]
        let below = [
            Sent("k-3", seq: 3, .update, id: "a-2", data: ["n": 2]),
            Sent("k-4", seq: 4, .create, "children", id: "c-1", data: ["audit": "a-2"]),
            Sent("k-5", seq: 5, .update, "children", id: "c-1", data: ["n": 1]),
        ]
        let codes = try bench.verdicts(list + below).map { Self.code($0.verdict) }
        #expect(codes == ["group-rejected", "validation", "parent-rejected", "parent-rejected", "parent-rejected"])
        let later = [
            Sent("k-6", seq: 6, .update, id: "a-2", data: ["n": 2]), Sent("k-7", seq: 7, .update, "children", id: "c-1", data: ["n": 1]),
        ]
        #expect(try bench.verdicts(later).map { Self.code($0.verdict) } == ["parent-rejected", "parent-rejected"])
    }
}
