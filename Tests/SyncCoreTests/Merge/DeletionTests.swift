import SyncCore
import Testing

/// A change and a deletion of one record that have not seen each other, in both orders, at the hub and in an agent's rebase.
@Suite("Deletions and changes")
struct DeletionTests {
    static let mine = HubMergeTests.mine, other = HubMergeTests.other, third = DeviceID(trusted: "third")

    static func rules(_ onDeleted: EntityRules.OnDeleted = .updateWins) -> EntityRules {
        var rules = EntityRules()
        rules.fields = ["visits": .counter, "finding": .manual, "tags": .set]
        rules.onDeleted = onDeleted
        return rules
    }

    /// At version 10, seen by all.
    static let record = HubMergeTests.record(["title": "pump", "due": "mon", "visits": 3])

    static func deleted(_ record: VersionedRecord = record, by device: DeviceID = other, rules: EntityRules = rules()) throws
        -> VersionedRecord
    {
        let outcome = HubMergeTests.merge(MutationContent(.delete), onto: record, base: 20, by: device, rules: rules, commit: 30)
        return try #require(outcome.accepted?.record)
    }

    // MARK: At the hub

    @Test("An update that had not seen the deletion brings the whole record back, counters and all, and the deletion is told to have lost")
    func wholeRecord() throws {
        let tombstone = try Self.deleted()
        #expect(tombstone.isDeleted && tombstone.stamps.isEmpty && tombstone.hubState == .deleted(version: 30))
        let content = MutationContent(.update, data: ["title": "valve"], operations: [FieldOperation("visits", .increment, 1)])
        let accepted = try #require(HubMergeTests.merge(content, onto: tombstone, base: 10, rules: Self.rules(), commit: 31).accepted)
        #expect(accepted.record?.data == ["title": "valve", "due": "mon", "visits": 4])
        #expect(accepted.merged == [] && !accepted.isPlain)
        #expect(accepted.lost == [LostValue(field: "$delete", value: nil, stamp: tombstone.stamp)])
        // Fields that it does not touch are as old as they were.
        #expect(accepted.record?.stamp(of: "due")?.version == 10 && accepted.record?.stamp(of: "title")?.version == 31)
    }

    @Test(
        "A create that says what had been seen is the same update, whether its author had pulled the deletion or not",
        arguments: [10, 30] as [Int64])
    func rebased(_ base: Int64) throws {
        // Another device changed it before it was deleted, and neither had seen the other.
        var changed = Self.record
        let change = MutationContent(.update, data: ["due": "fri"], operations: [FieldOperation("visits", .increment, 2)])
        changed = try #require(HubMergeTests.merge(change, onto: changed, base: 10, by: Self.third, rules: Self.rules()).accepted?.record)
        let tombstone = try Self.deleted(changed)
        let content = MutationContent(
            .create, data: ["title": "valve", "visits": 4], base: ["title": "pump", "due": "mon", "visits": 3])
        let accepted = try #require(
            HubMergeTests.merge(content, onto: tombstone, base: base, ms: 950, rules: Self.rules(), commit: 31).accepted)
        #expect(accepted.record?.data == ["title": "valve", "visits": 6], "due was removed later than it was changed")
        #expect(accepted.lost.map(\.field) == ["$delete", "due"] && !accepted.isPlain)
        var kept = content
        kept.data["due"] = "mon"
        let untouched = try #require(HubMergeTests.merge(kept, onto: tombstone, base: base, rules: Self.rules(), commit: 31).accepted)
        #expect(untouched.record?.data == ["title": "valve", "due": "fri", "visits": 6])
    }

    /// Brings the deleted record back by a create of `mine`, which changes the title only and sends the rest as it had seen it.
    private static func returned(_ old: VersionedRecord, size: JSON? = nil, clock: ClockTrust) throws -> VersionedRecord {
        let known = old.data ?? [:]
        var create = MutationContent(.create, data: known, base: known)
        create.data["title"] = "valve"
        if let size { create.data["size"] = size }
        let outcome = HubMergeTests.merge(create, onto: try deleted(old), base: 30, clock: clock, rules: rules(), commit: 31)
        return try #require(outcome.accepted?.record)
    }

    @Test(
        "A create that brings a record back contests no change that its device made behind it",
        arguments: [ClockTrust.synced, .retro, .unsynced])
    func behind(_ clock: ClockTrust) throws {
        let old = HubMergeTests.record(["title": "pump", "due": "mon", "finding": "ok", "tags": ["x"], "visits": 3])
        let back = try Self.returned(old, clock: clock)
        #expect(back.stamp(of: "title")?.version == 31)
        for field in ["due", "finding", "tags", "visits"] { #expect(back.stamp(of: field) == old.stamp(of: field), "\(field)") }
        func next(_ content: MutationContent, base: Int64 = 10, by device: DeviceID = Self.mine) -> HubMerge.Accepted? {
            HubMergeTests.merge(
                content, onto: back, base: base, ms: 950, clock: clock, by: device, rules: Self.rules(), commit: 32
            ).accepted
        }
        let content = MutationContent(.update, data: ["title": "valves", "due": "tue", "finding": "leak", "tags": [], "visits": "many"])
        let accepted = try #require(next(content))
        #expect(accepted.record?.data == content.data && accepted.merged == [] && accepted.lost == [])
        #expect(try #require(next(MutationContent(.delete))).record?.isDeleted == true)
        // No other device has a rival in a field that the create left as it was.
        let other = try #require(next(MutationContent(.update, data: ["due": "wed", "finding": "dry"]), by: Self.third))
        #expect(other.record?.data?["due"] == "wed" && other.record?.data?["finding"] == "dry" && other.lost == [])
    }

    @Test("A value that another device wrote before the deletion, unseen, contests the changes behind the create as it would an update")
    func behindUnseen() throws {
        let change = MutationContent(.update, data: ["due": "fri"])
        let changed = try #require(
            HubMergeTests.merge(change, onto: Self.record, base: 10, by: Self.third, rules: Self.rules()).accepted?.record)
        // The author of the create had seen the former value, and wrote the same one as the other device, or none.
        for due: JSON in ["mon", "fri"] {
            let create = MutationContent(
                .create, data: ["title": "valve", "due": due, "visits": 3], base: ["title": "pump", "due": "mon", "visits": 3])
            let back = try #require(
                HubMergeTests.merge(
                    create, onto: try Self.deleted(changed), base: 30, clock: .unsynced, rules: Self.rules(), commit: 31
                ).accepted?.record)
            #expect(back.data?["due"] == "fri")
            let next = HubMergeTests.merge(
                MutationContent(.update, data: ["due": "tue"]), onto: back, base: 10, clock: .unsynced, rules: Self.rules(), commit: 32)
            #expect(next.accepted?.merged == ["due"])
        }
    }

    @Test("A create that brings a record back keeps a value that its author has spelled otherwise, as a write of its own")
    func respelled() throws {
        let old = HubMergeTests.record(["title": "pump", "size": try JSONReader.read("1.5")])
        let back = try Self.returned(old, size: try JSONReader.read("1.50"), clock: .unsynced)
        #expect(back.data?["size"]?.json == "1.50" && back.stamp(of: "size")?.writer == Self.mine)
    }

    @Test("A create that has seen the deletion begins a new record; one that knew nothing of it meets the old record")
    func anew() throws {
        let tombstone = try Self.deleted()
        let content = MutationContent(.create, data: ["title": "new"])
        let knew = try #require(HubMergeTests.merge(content, onto: tombstone, base: 30, rules: Self.rules(), commit: 31).accepted)
        #expect(knew.record?.data == ["title": "new"] && knew.lost.isEmpty && knew.isPlain)
        let own = try #require(
            HubMergeTests.merge(content, onto: Self.deleted(by: Self.mine), base: 0, rules: Self.rules(), commit: 31).accepted)
        #expect(own.record?.data == ["title": "new"])
        let blind = try #require(HubMergeTests.merge(content, onto: tombstone, base: 0, rules: Self.rules(), commit: 31).accepted)
        #expect(blind.record?.data == ["title": "new", "due": "mon", "visits": 3])
        #expect(blind.lost.map(\.field).contains("$delete") && !blind.isPlain)
    }

    struct Order: Sendable, CustomTestStringConvertible {
        enum Result: Sendable { case deleted, changed, asked }
        var onDeleted: EntityRules.OnDeleted
        var field = "title"
        var result: Result
        var testDescription: String { "\(onDeleted.rawValue), \(field)" }
    }

    static let orders = [
        Order(onDeleted: .deleteWins, result: .deleted), Order(onDeleted: .deleteWins, field: "finding", result: .asked),
        Order(onDeleted: .updateWins, result: .changed), Order(onDeleted: .updateWins, field: "finding", result: .changed),
        Order(onDeleted: .manual, result: .asked), Order(onDeleted: .manual, field: "finding", result: .asked),
    ]

    @Test("The entity's rule decides alike in both orders of arrival", arguments: orders)
    func bothOrders(_ example: Order) throws {
        let rules = Self.rules(example.onDeleted)
        let update = MutationContent(.update, data: [example.field: "mine"])
        func push(_ content: MutationContent, by device: DeviceID, onto record: VersionedRecord, _ commit: Int64) -> HubMerge.Outcome {
            HubMergeTests.merge(content, onto: record, base: 10, by: device, rules: rules, commit: commit)
        }
        let changed = try #require(push(update, by: Self.mine, onto: Self.record, 11).accepted?.record)
        let deletedLast = push(MutationContent(.delete), by: Self.third, onto: changed, 12)
        let gone = try #require(push(MutationContent(.delete), by: Self.third, onto: Self.record, 11).accepted?.record)
        let changedLast = push(update, by: Self.mine, onto: gone, 12)
        switch example.result {
        case .asked:
            #expect(deletedLast == .conflict(fields: ["$delete"]))
            #expect(changedLast == .conflict(fields: ["$delete"]))
        case .deleted:
            let accepted = try #require(deletedLast.accepted)
            #expect(accepted.record?.isDeleted == true && accepted.lost.map(\.field) == [example.field])
            #expect(changedLast.problem == "deleted")
        case .changed:
            let accepted = try #require(deletedLast.accepted)
            #expect(accepted.record == nil && accepted.merged == ["$delete"] && !accepted.isPlain)
            #expect(accepted.lost.map(\.field) == ["$delete"] && accepted.lost.map(\.stamp.writer) == [Self.third])
            let whole = try #require(changedLast.accepted)
            #expect(whole.record?.data == changed.data)
            #expect(whole.lost.map(\.field) == ["$delete"] && whole.lost.map(\.stamp.writer) == [Self.third])
        }
        // A device that had seen the change deletes the record, whatever the rule is.
        let seen = HubMergeTests.merge(MutationContent(.delete), onto: changed, base: 11, by: Self.third, rules: rules, commit: 12)
        #expect(seen.accepted?.record?.isDeleted == true && seen.accepted?.lost.isEmpty == true)
    }

    @Test("A change that left everything as it was keeps the record as well, and a device's own changes never do")
    func untouched() throws {
        var touched = Self.record
        touched = try #require(
            HubMergeTests.merge(MutationContent(.update), onto: touched, base: 10, by: Self.third, rules: Self.rules()).accepted?.record)
        #expect(
            HubMergeTests.merge(MutationContent(.delete), onto: touched, base: 10, rules: Self.rules(), commit: 12).accepted?.merged == [
                "$delete"
            ])
        let own = HubMergeTests.merge(MutationContent(.delete), onto: touched, base: 10, by: Self.third, rules: Self.rules(), commit: 12)
        #expect(own.accepted?.record?.isDeleted == true)
    }

    static let waiting: JSON = [
        "$blob": .string("sha256:" + String(repeating: "a", count: 64)), "size": 1, "type": "image/jpeg", "state": "pending",
    ]

    @Test("The arrival of a file is no change by a device; a write of the back office is one")
    func files() throws {
        var arrived = Self.waiting.object ?? [:]
        arrived["state"] = "uploaded"
        func hub(_ value: JSON) -> VersionedRecord {
            VersionedRecord(
                data: ["title": "pump", "photo": value], stamp: HubMergeTests.stamp(11, ms: 600, .hub),
                exceptions: [JSONString("title"): HubMergeTests.stamp(10, ms: 500, Self.other)])
        }
        func delete(_ record: VersionedRecord) -> HubMerge.Accepted? {
            HubMergeTests.merge(MutationContent(.delete), onto: record, base: 10, rules: Self.rules(), commit: 12).accepted
        }
        #expect(delete(hub(.object(arrived)))?.record?.isDeleted == true)
        #expect(delete(hub("replaced"))?.merged == ["$delete"])
        let rebased = RebaseTests.decide(MutationContent(.delete), known: ["photo": Self.waiting], remote: ["photo": .object(arrived)]) {
            rules, _ in
            rules.onDeleted = .updateWins
        }
        #expect(rebased.verdict == .stays)
    }

    @Test("A record whose document is forgotten comes back with the fields of the change, and the answer says so")
    func forgotten() throws {
        let tombstone = VersionedRecord(deleted: HubMergeTests.stamp(10, ms: 500, Self.other), keeping: nil)
        for record in [tombstone, nil] {
            let accepted = try #require(
                HubMergeTests.merge(
                    MutationContent(.update, data: ["title": "valve"]), onto: record, rules: Self.rules()
                ).accepted)
            #expect(accepted.record?.data == ["title": "valve"] && accepted.merged == ["$rest"])
            #expect(accepted.lost.map(\.field) == (record == nil ? ["$rest"] : ["$delete", "$rest"]))
        }
    }

    @Test("Where a deletion wins, nothing is kept")
    func nothingKept() throws {
        #expect(try Self.deleted(rules: Self.rules(.deleteWins)).kept == nil)
        #expect(try Self.deleted(rules: Self.rules(.manual)).kept?.data == Self.record.data)
    }

    @Test(
        "A manual field that was changed before the deletion is asked about once; the device that brings the record back decides"
    )
    func people() throws {
        let change = MutationContent(.update, data: ["finding": "theirs"])
        let changed = try #require(
            HubMergeTests.merge(change, onto: Self.record, base: 10, by: Self.third, rules: Self.rules()).accepted?.record)
        let tombstone = try Self.deleted(changed)
        let mine = MutationContent(.update, data: ["finding": "mine"])
        #expect(HubMergeTests.merge(mine, onto: tombstone, base: 10, rules: Self.rules(), commit: 31) == .conflict(fields: ["$delete"]))
        let decided = MutationContent(
            .create, data: ["title": "pump", "due": "mon", "visits": 3, "finding": "mine"],
            base: ["title": "pump", "due": "mon", "visits": 3])
        let accepted = try #require(HubMergeTests.merge(decided, onto: tombstone, base: 30, rules: Self.rules(), commit: 31).accepted)
        #expect(accepted.record?.data?["finding"] == "mine")
        #expect(accepted.lost.map(\.field) == ["$delete", "finding"] && accepted.lost.last?.value == "theirs")
    }

    // MARK: In an agent

    @Test("A deletion that waits when a pull brings a change goes by the same rule", arguments: orders)
    func rebase(_ example: Order) {
        let known: JSONObject = ["title": "pump", "finding": "ok"]
        var remote = known
        remote[example.field] = "theirs"
        let outcome = RebaseTests.decide(MutationContent(.delete), known: known, remote: remote) { rules, _ in
            rules = Self.rules(example.onDeleted)
        }
        switch example.result {
        case .deleted:
            #expect(outcome.verdict == .stays && outcome.lost.map(\.field) == [example.field])
        case .changed:
            #expect(outcome.verdict == .isSuperseded)
            #expect(outcome.lost == [.init(field: "$delete", side: .local, value: nil, strategy: .lww)])
        case .asked: #expect(outcome.verdict == .isDisputed(.deleteUpdate, fields: [example.field]))
        }
        let seen = RebaseTests.decide(MutationContent(.delete), known: known, remote: known) { rules, _ in
            rules = Self.rules(example.onDeleted)
        }
        #expect(seen == .init(verdict: .stays, content: MutationContent(.delete)))
        // The version that it had seen is not known any more, so the hub has to decide.
        let unknown = RebaseTests.decide(MutationContent(.delete), known: known, remote: remote) { rules, hubSide in
            rules = Self.rules(example.onDeleted)
            hubSide.isKnown = false
        }
        #expect(unknown == .init(verdict: .stays, content: MutationContent(.delete)))
    }

    @Test("Values that gave way at the hub are reported from its answer")
    func told() {
        let local = Rebase.Local(
            record: RebaseTests.record, content: MutationContent(.delete), hlc: nil, signature: FieldContestTests.signature)
        #expect(Rebase.lost(of: local, merged: ["$delete"], in: ["title": 1], rules: Self.rules()).map(\.field) == ["$delete"])
    }

    /// Returns the document after these changes, one after the other. A refused one changes nothing.
    private static func left(_ contents: [MutationContent], on record: VersionedRecord?, base: Int64, _ rules: EntityRules) -> JSONObject? {
        var present = record
        for (index, content) in contents.enumerated() {
            let outcome = HubMergeTests.merge(
                content, onto: present, base: base, rules: rules, commit: 11 + Int64(index), key: "0199c3f3-aaaa-0000000\(index)")
            if case .accepted(let accepted) = outcome, let changed = accepted.record { present = changed }
        }
        return present?.data
    }

    @Test(
        "Where deletions win, a creation and a deletion leave what the deletion alone leaves; where they may give way, they do not",
        arguments: [
            EntityRules.OnDeleted.deleteWins, .updateWins,
        ])
    func createdAndDeleted(_ onDeleted: EntityRules.OnDeleted) {
        var rules = EntityRules()
        rules.onDeleted = onDeleted
        let pair = [MutationContent(.create, data: ["f": 2]), MutationContent(.delete)]
        var differ = 0
        for record in [nil, HubMergeTests.record(["f": 1, "g": 1]), HubMergeTests.record(nil)] {
            for base: Int64 in [0, 10] {
                let both = Self.left(pair, on: record, base: base, rules)
                if both != Self.left([pair[1]], on: record, base: base, rules) { differ += 1 }
                if onDeleted == .deleteWins { #expect(both == nil) }
            }
        }
        #expect(differ == (onDeleted == .deleteWins ? 0 : 1))
    }
}
