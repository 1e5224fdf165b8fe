import SyncCore
import Testing

/// A waiting mutation and a newer document of the hub: one test for each sentence of PROTOCOL C7 and D4.
@Suite("Rebase")
struct RebaseTests {
    static let record = RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-1"))

    static func stamp(_ ms: UInt64) -> HybridTime { HybridTime(milliseconds: ms, counter: 0, node: "5") }

    static func decide(
        _ content: MutationContent, known: JSONObject?, remote: JSONObject?, at ms: UInt64? = 900, remoteMS: UInt64 = 500,
        fields: [String: FieldStrategy] = [:], change: (inout EntityRules, inout Rebase.HubSide) -> Void = { _, _ in }
    ) -> Rebase.Outcome {
        var rules = EntityRules()
        rules.fields = fields
        var hubSide = Rebase.HubSide(known: known, remote: remote, remoteHLC: stamp(remoteMS))
        change(&rules, &hubSide)
        let local = Rebase.Local(
            record: record, content: content, hlc: ms.map(stamp), signature: FieldContestTests.signature)
        return Rebase.decide(local, against: hubSide, rules: rules)
    }

    static func update(_ data: JSONObject, _ operations: [FieldOperation] = []) -> MutationContent {
        MutationContent(.update, data: data, operations: operations)
    }

    @Test("A field that the hub did not change stays, whatever else it changed")
    func uncontested() {
        let outcome = Self.decide(Self.update(["f": 2]), known: ["f": 1, "g": 1], remote: ["f": 1, "g": 9], fields: ["f": .manual])
        #expect(outcome == .init(verdict: .stays, content: Self.update(["f": 2])))
    }

    @Test("A value that equals the hub's stays behind an earlier change of its field, and is dropped otherwise", arguments: [true, false])
    func overwritten(isBehind: Bool) {
        let content = MutationContent(.update, data: ["c": 3], unset: ["w"])
        let outcome = Self.decide(content, known: ["c": 1], remote: ["c": 3], at: 400, fields: ["c": .client]) { _, hubSide in
            hubSide.isTouched = true
            if isBehind { hubSide.overwritten = [JSONString("c"), JSONString("w")] }
        }
        #expect(outcome.verdict == (isBehind ? .stays : .isSuperseded))
        #expect(outcome.content.data == (isBehind ? ["c": 3] : [:]) && outcome.content.unset == (isBehind ? ["w"] : []))
    }

    @Test("A create that brings a record back names the former values, whatever was learned while it was under way")
    func broughtBack() {
        let content = MutationContent(.create, data: ["n": 6, "a": ["x", "y"]], base: ["n": 1, "a": ["x"]])
        let outcome = Self.decide(
            content, known: ["n": 3, "a": ["z"]], remote: ["n": 3, "a": ["z"]], fields: ["n": .counter, "a": .append]
        ) { $1.isKnown = false }
        #expect(outcome.verdict == .stays && outcome.content.data.names.isEmpty)
        #expect(Set(outcome.content.operations) == [FieldOperation("n", .increment, 5), FieldOperation("a", .append, ["y"])])
    }

    @Test("A change that brings an unknown record back names the members of an object that its author had seen")
    func broughtBackUnknown() {
        let content = MutationContent(.update, data: ["o": ["x": 1, "b": 2]], base: ["o": ["x": 1]])
        let outcome = Self.decide(content, known: nil, remote: nil, fields: ["o": .merge]) { rules, _ in rules.onDeleted = .updateWins }
        #expect(outcome.content == MutationContent(.create, data: ["o": ["x": 1, "b": 2]], base: ["o": ["x": 1]]))
        // Another device has made the record anew and changed that member.
        let later = Self.decide(outcome.content, known: nil, remote: ["o": ["x": 9]], fields: ["o": .merge])
        #expect(later.content == MutationContent(.update, data: ["o": ["x": 1, "b": 2]], base: ["o": ["x": 1]]))
    }

    @Test("A create that brings a record back says only its differences, when the record is there again without a field")
    func broughtBackWithRemovals() {
        let content = MutationContent(.create, data: ["same": 1, "lost": 1, "new": 2], base: ["same": 1, "lost": 1, "new": 1, "gone": 1])
        // The removal of one field has a stamp; the other one was not kept with the deletion.
        let outcome = Self.decide(content, known: nil, remote: ["new": 1, "gone": 1, "other": 1]) { $1.fieldHLC["same"] = Self.stamp(500) }
        #expect(outcome.verdict == .stays)
        #expect(outcome.content == MutationContent(.update, data: ["lost": 1, "new": 2], unset: ["gone"]))
        // Another device has changed the field that the create removes, and later.
        let contested = Self.decide(content, known: nil, remote: ["same": 1, "lost": 1, "new": 1, "gone": 7]) {
            $1.fieldHLC["gone"] = Self.stamp(950)
        }
        #expect(contested.content == MutationContent(.update, data: ["new": 2]))
    }

    @Test("Additions to a create that brings a record back come after its differences, when the record is there again")
    func broughtBackAndEdited() {
        let content = MutationContent(
            .create, data: ["n": 2, "a": ["x", "y"]],
            operations: [FieldOperation("n", .increment, 1), FieldOperation("a", .append, ["z"])], base: ["n": 1, "a": ["x"]])
        for (remote, isKnown) in [(["n": 1, "a": ["x"]], true), (["n": 7, "a": ["o"]], false)] as [(JSONObject, Bool)] {
            let outcome = Self.decide(content, known: ["n": 1, "a": ["x"]], remote: remote, fields: ["n": .counter, "a": .append]) {
                $1.isKnown = isKnown
            }
            #expect(outcome.verdict == .stays && outcome.content.action == .update && outcome.content.data.names.isEmpty)
            let n = outcome.content.operations.filter { $0.field == "n" }, a = outcome.content.operations.filter { $0.field == "a" }
            #expect(n == [FieldOperation("n", .increment, 1), FieldOperation("n", .increment, 1)])
            #expect(a == [FieldOperation("a", .append, ["y"]), FieldOperation("a", .append, ["z"])])
        }
    }

    @Test("Equal values are no contest, and go only where they are the later word on the field")
    func equal() {
        let outcome = Self.decide(Self.update(["f": 2, "g": 3]), known: ["f": 1], remote: ["f": 2], fields: ["f": .manual])
        #expect(outcome == .init(verdict: .stays, content: Self.update(["g": 3])))
        #expect(
            Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 2]) == .init(verdict: .stays, content: Self.update(["f": 2])))
        #expect(Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 2], at: 100).verdict == .isSuperseded)
        #expect(Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 2], at: nil).verdict == .isSuperseded)
        // The hub tells no stamps.
        let unstamped = Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 2]) { $1.remoteHLC = nil }
        #expect(unstamped.verdict == .isSuperseded)
    }

    @Test("A device that writes a value again, later than another device's change, keeps it, as a later change would")
    func writtenAgain() {
        // Another device has written the same 1 again.
        let earlier = Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 1], at: 100)
        #expect(earlier.verdict == .isSuperseded)
        #expect(earlier.lost == [.init(field: "f", side: .local, value: 2, strategy: .lww)])
        #expect(Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 1]).content == Self.update(["f": 2]))
        // A stamp that was found out afterwards, or is not trusted, says nothing about what had been seen.
        for at in [100, nil] as [UInt64?] {
            let local = Rebase.Local(
                record: Self.record, content: Self.update(["f": 2]), hlc: at.map(Self.stamp), hasSeenTime: false,
                signature: FieldContestTests.signature)
            let hubSide = Rebase.HubSide(known: ["f": 1], remote: ["f": 1], remoteHLC: Self.stamp(500))
            #expect(Rebase.decide(local, against: hubSide, rules: EntityRules()).verdict == .stays)
        }
    }

    @Test("A new spelling of a value is sent, unless another device has spelled it later")
    func respelled() {
        let (old, new, other) = (FieldContestTests.number("1.5"), FieldContestTests.number("1.50"), FieldContestTests.number("1.500"))
        func sent(_ known: JSON, _ remote: JSON, at ms: UInt64) -> String {
            JSON.object(Self.decide(Self.update(["f": new]), known: ["f": known], remote: ["f": remote], at: ms).content.data).json
        }
        #expect(sent(old, old, at: 900) == #"{"f":1.50}"#)
        #expect(sent(old, other, at: 900) == #"{"f":1.50}"#)
        #expect(sent(old, other, at: 100) == "{}")
    }

    @Test("The later of two values stays, and the other is kept for the audit trail")
    func lastWriter() {
        let wins = Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 3])
        #expect(wins.verdict == .stays && wins.content == Self.update(["f": 2]))
        #expect(wins.lost == [.init(field: "f", side: .remote, value: 3, strategy: .lww)])
        let loses = Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 3], at: 100)
        #expect(loses.verdict == .isSuperseded)
        #expect(loses.lost == [.init(field: "f", side: .local, value: 2, strategy: .lww)])
    }

    @Test("A stamp from an unsynced clock loses, a field's own stamp counts before the record's")
    func stamps() {
        #expect(Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 3], at: nil).verdict == .isSuperseded)
        let later = Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: ["f": 3], at: 900) { _, hubSide in
            hubSide.fieldHLC["f"] = Self.stamp(901)
        }
        #expect(later.verdict == .isSuperseded)
    }

    @Test("A removal of a field is a change like any other")
    func unset() {
        let content = MutationContent(.update, unset: ["f"])
        #expect(Self.decide(content, known: ["f": 1], remote: ["f": 3]).content == content)
        #expect(Self.decide(content, known: ["f": 1], remote: ["f": 3], at: 1).verdict == .isSuperseded)
        #expect(Self.decide(content, known: ["f": 1], remote: [:], at: 1).verdict == .isSuperseded)
    }

    @Test("Operations stay, whatever the hub has")
    func operations() {
        let content = Self.update([:], [FieldOperation("n", .increment, 2)])
        #expect(Self.decide(content, known: ["n": 1], remote: ["n": 9], at: 1, fields: ["n": .counter]).content == content)
    }

    @Test("A rewritten text is put behind the other one, as an addition that goes on commuting")
    func append() {
        let outcome = Self.decide(Self.update(["t": "mine"]), known: ["t": "old"], remote: ["t": "theirs"], fields: ["t": .append])
        #expect(outcome.verdict == .stays)
        #expect(outcome.content == Self.update([:], [FieldOperation("t", .append, .string(FieldContestTests.line + "mine"))]))
    }

    @Test("A count that is the same as the other one was counted as well, in a create of what exists by now")
    func equalCounts() {
        let outcome = Self.decide(
            MutationContent(.create, data: ["n": 1, "f": 2]), known: nil, remote: ["n": 1, "f": 2], at: 100, fields: ["n": .counter])
        #expect(outcome == .init(verdict: .stays, content: Self.update([:], [FieldOperation("n", .increment, 1)])))
    }

    @Test("A create adds to what adds up, also where a frozen mutation of this device put it there")
    func createOverOwn() {
        let outcome = Self.decide(
            MutationContent(.create, data: ["p": 5, "f": 2]), known: ["p": 9, "f": 1], remote: ["p": 9, "f": 1], fields: ["p": .max]
        ) { _, hubSide in
            hubSide.expected = ["p": [9], "f": [1]]
        }
        #expect(outcome.content == Self.update(["f": 2]))
    }

    @Test("A create adds to an object, also to one that a frozen mutation of this device put there, and says what is there")
    func createOverOwnObject() {
        for (ms, isOwn) in [(900, true), (100, true), (900, false), (100, false)] as [(UInt64, Bool)] {
            let outcome = Self.decide(
                MutationContent(.create, data: ["o": ["mine": 2]]), known: nil, remote: ["o": ["mine": 1, "theirs": 1]], at: ms,
                fields: ["o": .merge]
            ) { _, hubSide in
                if isOwn { hubSide.expected = ["o": [["mine": 1, "theirs": 1]]] }
            }
            #expect(outcome.verdict == .stays && outcome.content.action == .update)
            // Only the hub knows the times of members that other devices wrote. It gets the written members with an empty base.
            #expect(outcome.content.data == ["o": isOwn ? ["mine": 2, "theirs": 1] : ["mine": 2]])
            #expect(outcome.content.base == ["o": isOwn ? ["mine": 1, "theirs": 1] : [:]])
        }
    }

    @Test(
        "The rest of a create names the former members of its objects as its base, or an empty one",
        arguments: [
            ["o": ["mine": 1, "theirs": 1]], [:],
        ] as [JSONObject])
    func createSaysObject(_ there: JSONObject) {
        let content = MutationContent(.create, data: ["o": ["mine": 2, "theirs": 1], "f": 1], base: there)
        let outcome = Self.decide(content, known: nil, remote: there, fields: ["o": .merge])
        #expect(outcome.verdict == .stays && outcome.content.action == .update && outcome.content.data == content.data)
        #expect(outcome.content.base == ["o": there["o"] ?? [:]])
    }

    @Test("The rest of a create is sent as operations, so that it undoes nothing that this device sent before")
    func createGoesAsDifference() {
        let content = MutationContent(.create, data: ["p": 5, "n": 2, "tags": ["a"], "f": 1])
        let outcome = Self.decide(
            content, known: nil, remote: ["x": 1], fields: ["p": .max, "n": .counter, "tags": .set])
        #expect(outcome.content.action == .update)
        #expect(outcome.content.data == ["f": 1])
        #expect(
            outcome.content.operations == [
                FieldOperation("p", .max, 5), FieldOperation("n", .increment, 2), FieldOperation("tags", .add, "a"),
            ])
        #expect(Fold.apply(outcome.content, to: ["p": 9, "n": 1, "tags": ["b"]]) == ["p": 9, "n": 3, "tags": ["b", "a"], "f": 1])
    }

    @Test("The operation after a value stays behind it")
    func valueAndOperation() {
        let content = Self.update(["t": "mine"], [FieldOperation("t", .append, " and more")])
        let outcome = Self.decide(content, known: ["t": "old"], remote: ["t": "theirs"], fields: ["t": .append])
        #expect(Fold.apply(outcome.content, to: ["t": "theirs"]) == ["t": .string("theirs" + FieldContestTests.line + "mine and more")])
    }

    @Test("A text that would become too long asks a person, as a value and as an addition")
    func tooLong() {
        for content in [Self.update(["t": "mine"]), Self.update([:], [FieldOperation("t", .append, "123456789")])] {
            let outcome = Self.decide(content, known: ["t": "old"], remote: ["t": "old and theirs"], fields: ["t": .append]) { rules, _ in
                rules.maxLength["t"] = 20
            }
            #expect(outcome.verdict == .isDisputed(.field, fields: ["t"]))
        }
    }

    @Test("An element of a set that goes over what the hub has there tells of it; one that this device had seen is no loss")
    func lostElement() {
        let known: JSONObject = ["t": [["id": 1, "n": 1]]]
        func lost(_ operation: FieldOperation, _ remote: JSON) -> [Rebase.Loss] {
            Self.decide(Self.update([:], [operation]), known: known, remote: ["t": remote], fields: ["t": .set]).lost
        }
        let change = FieldOperation("t", .add, ["id": 1, "n": 2]), removal = FieldOperation("t", .remove, ["id": 1])
        #expect(lost(change, [["id": 1, "n": 3]]) == [.init(field: "t[1]", side: .remote, value: ["id": 1, "n": 3], strategy: .set)])
        #expect(lost(removal, [["id": 1, "n": 3]]) == [.init(field: "t[1]", side: .local, value: nil, strategy: .set)])
        #expect(lost(change, [["id": 1, "n": 1], "x"]).isEmpty && lost(removal, [["id": 1, "n": 1], "x"]).isEmpty)
        #expect(lost(change, []) == [.init(field: "t[1]", side: .remote, value: nil, strategy: .set)])
    }

    @Test("A delete tells what it takes with it that is news")
    func lostWithRecord() {
        let outcome = Self.decide(MutationContent(.delete), known: ["f": 1, "g": 1], remote: ["f": 1, "g": 2])
        #expect(outcome.verdict == .stays)
        #expect(outcome.lost == [.init(field: "g", side: .remote, value: 2, strategy: .lww)])
    }

    @Test("Only the fields that people decide are in dispute; the others are decided at once")
    func dispute() {
        let outcome = Self.decide(
            Self.update(["v": 2, "f": 2, "g": 2]), known: ["v": 1, "f": 1, "g": 1], remote: ["v": 3, "f": 3, "g": 1], at: 100,
            fields: ["v": .manual]
        ) { $1.fieldHLC["g"] = Self.stamp(50) }
        #expect(outcome.verdict == .isDisputed(.field, fields: ["v"]))
        #expect(outcome.content == Self.update(["v": 2, "g": 2]))
        #expect(outcome.lost.map(\.field) == ["f"])
    }

    @Test("A value that a frozen mutation wrote is no news")
    func expected() {
        let content = Self.update(["v": 3])
        let outcome = Self.decide(content, known: ["v": 1], remote: ["v": 2], fields: ["v": .manual]) { _, hubSide in
            hubSide.expected["v"] = [2]
        }
        #expect(outcome == .init(verdict: .stays, content: content))
    }

    @Test("A create of what exists by now changes it field by field, as if it had known nothing of it")
    func create() {
        let content = MutationContent(.create, data: ["a": 1, "b": 1, "v": 1])
        let outcome = Self.decide(content, known: nil, remote: ["a": 1, "v": 2], at: 100, fields: ["v": .manual])
        #expect(outcome.verdict == .isDisputed(.field, fields: ["v"]))
        #expect(outcome.content == Self.update(["b": 1, "v": 1]))
        #expect(Self.decide(content, known: nil, remote: ["a": 1, "b": 1, "v": 1], at: 100).verdict == .isSuperseded)
    }

    struct Deleted: Sendable {
        var onDeleted = EntityRules.OnDeleted.deleteWins
        var field = "f"
        let verdict: Rebase.Verdict
    }

    @Test(
        "A change of what the hub deleted goes by the entity's choice",
        arguments: [
            Deleted(verdict: .isRejected(HubMerge.deleted(record))),
            Deleted(onDeleted: .updateWins, verdict: .stays),
            Deleted(onDeleted: .manual, verdict: .isDisputed(.updateDelete, fields: ["$delete"])),
            Deleted(field: "v", verdict: .isDisputed(.updateDelete, fields: ["$delete"])),
            Deleted(onDeleted: .updateWins, field: "v", verdict: .stays),
        ])
    func deletedThere(_ example: Deleted) {
        let outcome = Self.decide(
            Self.update([example.field: 2]), known: ["f": 1, "v": 1, "g": 1], remote: nil, fields: ["v": .manual]
        ) { rules, _ in rules.onDeleted = example.onDeleted }
        #expect(outcome.verdict == example.verdict)
        if case .isRejected = example.verdict {
            #expect(outcome.content == Self.update([example.field: 2]))
        } else {
            // The hub has nothing of it any more: what brings it back carries all of it.
            var whole: JSONObject = ["f": 1, "v": 1, "g": 1]
            whole[example.field] = 2
            #expect(outcome.content == MutationContent(.create, data: whole, base: ["f": 1, "v": 1, "g": 1]))
        }
    }

    @Test("A change that brings a record back has the differences as values, and keeps operations that add up or make no difference")
    func broughtBackInParts() {
        let known: JSONObject = ["n": 5, "tags": ["red", "old"], "p": 7, "q": 2, "l": ["w"], "mixed": 1]
        func op(_ field: String, _ kind: FieldOperation.Kind, _ value: JSON) -> FieldOperation { FieldOperation(field, kind, value) }
        let kept = [
            op("n", .increment, 1), op("tags", .add, "old"), op("tags", .remove, "gone"), op("q", .min, 3), op("l", .append, ["x"]),
        ]
        let folded = [
            op("tags", .remove, "red"), op("tags", .add, "gone"), op("p", .max, 9), op("mixed", .increment, 1), op("mixed", .max, 1),
        ]
        let outcome = Self.decide(
            Self.update(["t": 1], [folded[0], kept[0], folded[1], kept[1], kept[2], folded[2], kept[3], kept[4], folded[3], folded[4]]),
            known: known, remote: nil, fields: ["n": .counter, "tags": .set, "p": .max, "q": .min, "l": .append]
        ) { rules, _ in rules.onDeleted = .updateWins }
        var data = known
        (data["t"], data["tags"], data["p"], data["mixed"]) = (1, ["old"], 9, 2)
        #expect(outcome.verdict == .stays)
        #expect(outcome.content == MutationContent(.create, data: data, operations: kept, base: known))
    }

    @Test("A delete wins, unless the hub has a new value that only people may overrule")
    func deletedHere() {
        let delete = MutationContent(.delete)
        let fields: [String: FieldStrategy] = ["v": .manual]
        #expect(Self.decide(delete, known: ["f": 1, "v": 1], remote: ["f": 2, "v": 1], fields: fields).verdict == .stays)
        #expect(
            Self.decide(delete, known: ["f": 1, "v": 1], remote: ["f": 1, "v": 2], fields: fields).verdict
                == .isDisputed(.deleteUpdate, fields: ["v"]))
        #expect(Self.decide(delete, known: ["v": 1], remote: [:], fields: fields).verdict == .isDisputed(.deleteUpdate, fields: ["v"]))
        #expect(Self.decide(delete, known: ["v": 1], remote: nil, fields: fields).verdict == .isSuperseded)
    }

    @Test("An update that was empty from the start was asked for and stays")
    func empty() {
        #expect(Self.decide(Self.update([:]), known: ["f": 1], remote: ["f": 2]).verdict == .stays)
    }

    @Test("Fields that a person was asked about stay in dispute, whatever their rule, until they are equal")
    func disputedAgain() {
        func again(_ remote: JSONObject) -> Rebase.Verdict {
            Self.decide(Self.update(["f": 2]), known: ["f": 1], remote: remote) { _, hubSide in hubSide.disputed = ["f"] }.verdict
        }
        #expect(again(["f": 3]) == .isDisputed(.field, fields: ["f"]))
        #expect(again(["f": 2]) == .isSuperseded)
        #expect(again(["f": 1]) == .stays)
    }

    @Test("The agent decides as the hub would", arguments: 0..<200 as Range<UInt64>)
    func sameAsHub(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func value(_ kind: FieldStrategy) -> JSON {
            let n = Int(random.next() % 4)
            return switch kind {
            case .append: .string(["a", "ab", "b", "abc"][n])
            case .set: .array((0...n).map { .int($0 * 7 % 5) })
            case .merge: ["x": .int(n), "y": .int(Int(random.next() % 3))]
            default: .int(n)
            }
        }
        var rules = EntityRules()
        let kinds = FieldStrategy.allCases
        for (index, kind) in kinds.enumerated() { rules.fields["f\(index)"] = kind }
        var base: JSONObject = [:], remote: JSONObject = [:], wrote: JSONObject = [:]
        for (index, kind) in kinds.enumerated() {
            base["f\(index)"] = value(kind)
            remote["f\(index)"] = random.next() % 2 == 0 ? base["f\(index)"] : value(kind)
            if random.next() % 3 > 0 { wrote["f\(index)"] = value(kind) }
        }
        let (mine, theirs) = (Self.stamp(1 + random.next() % 9), HybridTime(milliseconds: 1 + random.next() % 9, counter: 0, node: "6"))
        let seen = Fold.apply(MutationContent(.create, data: base), to: nil) ?? [:]
        var content = MutationContent(.update, data: wrote)
        content.base = WireForm.bases(content, seen: seen, rules: rules)
        content = WireForm.of(content, seen: seen, rules: rules)

        // At the hub: another device's change of the base in commit 2, then this device's change that had seen commit 1.
        let other = DeviceID(trusted: "other"), device = DeviceID(trusted: "gw-1")
        let first = VersionedRecord.Stamp(version: 1, hlc: HybridTime(milliseconds: 0, counter: 0, node: "1"), writer: other)
        let second = VersionedRecord.Stamp(version: 2, hlc: theirs, writer: other)
        var stamps: [JSONString: VersionedRecord.Stamp] = [:]
        for member in base.members where remote[member.name.text] == member.value { stamps[member.name] = first }
        let there = VersionedRecord(data: remote, stamp: second, exceptions: stamps)
        func push(_ content: MutationContent, base: Int64) -> HubMerge.Outcome {
            let mutation = IncomingMutation(
                record: Self.record, content: content, baseVersion: base, hlc: mine,
                clientUpdatedAt: FieldContestTests.signature.at, author: FieldContestTests.signature.author)
            return HubMerge.apply(
                .init(device: device, key: FieldContestTests.signature.key, mutation: mutation), to: there, rules: rules,
                commit: 3, now: Timestamp(milliseconds: 1_000))
        }
        let hub = push(content, base: 1)
        let local = Rebase.Local(record: Self.record, content: content, hlc: mine, signature: FieldContestTests.signature)
        let rebased = Rebase.decide(local, against: .init(known: base, record: there.hubRecord()), rules: rules)
        switch (hub, rebased.verdict) {
        case (.conflict(let fields), .isDisputed(.field, let disputed)): #expect(Set(fields) == Set(disputed), "seed \(seed)")
        case (.accepted(let accepted), .stays):
            // Sent after the pull, there is nothing left to contest, and the record is the same.
            guard case .accepted(let again) = push(rebased.content, base: 2) else {
                Issue.record("seed \(seed): the hub contests what was rebased")
                return
            }
            #expect(again.record?.data == accepted.record?.data, "seed \(seed)")
            #expect(again.lost.isEmpty || content.base.isEmpty == false)
            // And the view shows it at once, but for members that both changed.
            if content.base.isEmpty { #expect(Fold.apply(rebased.content, to: remote) == accepted.record?.data, "seed \(seed)") }
        case (.accepted(let accepted), .isSuperseded): #expect(accepted.record?.data == remote, "seed \(seed)")
        default: Issue.record("seed \(seed): the hub says \(hub), the agent \(rebased.verdict)")
        }
    }
}
