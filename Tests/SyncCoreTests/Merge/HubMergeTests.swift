import SyncCore
import Testing

/// One mutation on the hub's record, rule by rule. Device `mine` pushes, `other` was there before.
@Suite("Merge at the hub")
struct HubMergeTests {
    static let mine = DeviceID(trusted: "mine"), other = DeviceID(trusted: "other")
    static let now = Timestamp(milliseconds: 1_000_000)

    static func stamp(_ version: Int64, ms: UInt64, _ writer: DeviceID, node: String = "5") -> VersionedRecord.Stamp {
        .init(version: version, hlc: HybridTime(milliseconds: ms, counter: 0, node: node), writer: writer)
    }

    /// A record at version 10 that `other` wrote at 500 ms, with exceptions.
    static func record(_ data: JSONObject?, exceptions: [JSONString: VersionedRecord.Stamp] = [:]) -> VersionedRecord {
        VersionedRecord(data: data, stamp: stamp(10, ms: 500, other), exceptions: exceptions)
    }

    static func merge(
        _ content: MutationContent, onto record: VersionedRecord?, base: Int64 = 5, ms: UInt64 = 900,
        node: String = "5", clock: ClockTrust = .synced, by device: DeviceID = mine, rules: EntityRules = EntityRules(),
        commit: Int64 = 11, key: String = "0199c3f3-aaaa-00000002"
    ) -> HubMerge.Outcome {
        let mutation = IncomingMutation(
            record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-1")), content: content,
            baseVersion: base, hlc: HybridTime(milliseconds: ms, counter: 0, node: node), clock: clock,
            clientUpdatedAt: Timestamp(milliseconds: 1_795_208_645_120))
        let change = HubMerge.Change(device: device, key: MutationKey(trusted: key), mutation: mutation)
        return HubMerge.apply(change, to: record, rules: rules, commit: commit, now: now)
    }

    static func rules(_ strategy: FieldStrategy, of field: String = "f") -> EntityRules {
        var rules = EntityRules()
        rules.fields[field] = strategy
        return rules
    }

    // MARK: Contests

    struct Contest: Sendable, CustomStringConvertible {
        let description: String
        /// The commit that wrote the present value `1` last, and its writer.
        let version: Int64
        let writer: DeviceID
        let sent: JSON
        let base: Int64
        let isContested: Bool
    }

    @Test(
        "A field is contested when a newer commit of another device gave it another value",
        arguments: [
            Contest(description: "newer, other, different", version: 8, writer: other, sent: 2, base: 7, isContested: true),
            Contest(description: "just seen", version: 8, writer: other, sent: 2, base: 8, isContested: false),
            Contest(description: "own earlier change", version: 8, writer: mine, sent: 2, base: 0, isContested: false),
            Contest(
                description: "equal by meaning", version: 8, writer: other, sent: .number(JSONNumber(1.0)!), base: 7, isContested: false),
            Contest(description: "older history", version: 8, writer: other, sent: 2, base: -1, isContested: true),
        ])
    func contested(_ example: Contest) throws {
        let record = Self.record(["f": 1, "g": 0], exceptions: [JSONString("f"): Self.stamp(example.version, ms: 500, example.writer)])
        let outcome = Self.merge(
            MutationContent(.update, data: ["f": example.sent]), onto: record, base: example.base, rules: Self.rules(.manual))
        #expect(outcome == .conflict(fields: ["f"]) || !example.isContested)
        if case .accepted(let accepted) = outcome {
            #expect(!example.isContested)
            #expect(accepted.record?.data?["f"] == example.sent)
            #expect(accepted.isPlain)
        }
    }

    @Test("A field that others do not touch never waits for those that they do")
    func otherFields() throws {
        let outcome = Self.merge(MutationContent(.update, data: ["g": 2, "f": 2]), onto: Self.record(["f": 1]), ms: 100)
        let accepted = try #require(outcome.accepted)
        #expect(accepted.record?.data == ["f": 1, "g": 2])
        #expect(accepted.merged == ["f"])
        #expect(!accepted.isPlain)
    }

    @Test("A field that was never written is not contested, a removed field is")
    func absentFields() throws {
        let removed = Self.record(["g": 1], exceptions: [JSONString("f"): Self.stamp(8, ms: 500, Self.other)])
        let rules = Self.rules(.manual)
        #expect(Self.merge(MutationContent(.update, data: ["f": 2]), onto: removed, base: 7, rules: rules) == .conflict(fields: ["f"]))
        let never = Self.merge(MutationContent(.update, data: ["f": 2]), onto: Self.record(["g": 1]), base: 7, rules: rules)
        #expect(try #require(never.accepted).record?.data == ["g": 1, "f": 2])
    }

    @Test("Removing a field is a change like any other")
    func unset() throws {
        let update = MutationContent(.update, unset: ["f"])
        #expect(try #require(Self.merge(update, onto: Self.record(["f": 1, "g": 2])).accepted).record?.data == ["g": 2])
        let lost = try #require(Self.merge(update, onto: Self.record(["f": 1]), ms: 100).accepted)
        #expect(lost.record?.data == ["f": 1])
        #expect(lost.merged == ["f"])
    }

    @Test("Two names that differ only in their Unicode form are two fields")
    func unicodeNames() throws {
        let record = Self.record(["é": 1, "e\u{301}": 2], exceptions: [JSONString("é"): Self.stamp(3, ms: 500, Self.other)])
        #expect(record.stamp(of: "é")?.version == 3)
        #expect(record.stamp(of: "e\u{301}")?.version == 10)
    }

    // MARK: Strategies

    struct Strategy: Sendable, CustomStringConvertible {
        let description: String
        let strategy: FieldStrategy
        let remote: JSON
        let local: JSON
        /// The local stamp is later than the remote one.
        var isLater = true
        /// `nil` means a conflict.
        let result: JSON?
    }

    static let signature = "\n\n--- mine · 2026-11-20 21:04Z [#1a483a1e] ---\n"

    @Test(
        "A contested plain value follows the strategy of its field",
        arguments: [
            Strategy(description: "lww, later", strategy: .lww, remote: "r", local: "l", result: "l"),
            Strategy(description: "lww, earlier", strategy: .lww, remote: "r", local: "l", isLater: false, result: "r"),
            Strategy(description: "server", strategy: .server, remote: "r", local: "l", result: "r"),
            Strategy(description: "client", strategy: .client, remote: "r", local: "l", isLater: false, result: "l"),
            Strategy(description: "manual", strategy: .manual, remote: "r", local: "l", result: nil),
            Strategy(description: "merge unites members", strategy: .merge, remote: ["a": 1], local: ["b": 2], result: ["a": 1, "b": 2]),
            Strategy(
                description: "merge, deeper, later leaf", strategy: .merge, remote: ["a": ["x": 1, "y": 1]], local: ["a": ["x": 2]],
                result: ["a": ["x": 2, "y": 1]]),
            Strategy(
                description: "merge, deeper, earlier leaf", strategy: .merge, remote: ["a": ["x": 1]], local: ["a": ["x": 2, "z": 3]],
                isLater: false, result: ["a": ["x": 1, "z": 3]]),
            Strategy(description: "merge takes arrays whole", strategy: .merge, remote: ["a": [1]], local: ["a": [2]], result: ["a": [2]]),
            Strategy(description: "merge of no objects", strategy: .merge, remote: 1, local: ["a": 1], isLater: false, result: 1),
            Strategy(
                description: "append keeps both texts", strategy: .append, remote: "r", local: "l", result: .string("r" + signature + "l")),
            Strategy(
                description: "append, ours goes on", strategy: .append, remote: "r", local: "r and l", isLater: false, result: "r and l"),
            Strategy(description: "append, theirs went on", strategy: .append, remote: "l and r", local: "l", result: "l and r"),
            Strategy(
                description: "append is marked already", strategy: .append, remote: "both [#1a483a1e]", local: "l",
                result: "both [#1a483a1e]"),
            Strategy(description: "append unites lists", strategy: .append, remote: [1, 2], local: [2, 3], result: [1, 2, 3]),
            Strategy(description: "append of neither", strategy: .append, remote: 1, local: "l", isLater: false, result: 1),
            Strategy(description: "set unites", strategy: .set, remote: ["a", "b"], local: ["b", "c"], result: ["a", "b", "c"]),
            Strategy(
                description: "set knows objects by id, later", strategy: .set, remote: [["id": 1, "n": 1]],
                local: [["id": 1, "n": 2]], result: [["id": 1, "n": 2]]),
            Strategy(
                description: "set knows objects by id, earlier", strategy: .set, remote: [["id": 1, "n": 1]],
                local: [["id": 1, "n": 2]], isLater: false, result: [["id": 1, "n": 1]]),
            Strategy(description: "set of no lists", strategy: .set, remote: "r", local: ["l"], result: ["l"]),
            Strategy(description: "counter is set outright", strategy: .counter, remote: 5, local: 3, result: 3),
            Strategy(description: "counter, earlier", strategy: .counter, remote: 5, local: 3, isLater: false, result: 5),
            Strategy(description: "max", strategy: .max, remote: 5, local: 7, isLater: false, result: 7),
            Strategy(description: "max, theirs", strategy: .max, remote: 7, local: 5, result: 7),
            Strategy(description: "min", strategy: .min, remote: 5, local: 7, result: 5),
            Strategy(description: "min, ours", strategy: .min, remote: 7, local: 5, isLater: false, result: 5),
            Strategy(description: "max of texts", strategy: .max, remote: "a", local: "b", isLater: false, result: "b"),
            Strategy(description: "max of different kinds", strategy: .max, remote: "a", local: 9, isLater: false, result: "a"),
        ])
    func strategies(_ example: Strategy) throws {
        let outcome = Self.merge(
            MutationContent(.update, data: ["f": example.local]), onto: Self.record(["f": example.remote]),
            ms: example.isLater ? 900 : 100, rules: Self.rules(example.strategy))
        guard let result = example.result else {
            #expect(outcome == .conflict(fields: ["f"]))
            return
        }
        let accepted = try #require(outcome.accepted)
        #expect(accepted.record?.data?["f"] == result)
        #expect(accepted.merged == (result == example.local ? [] : ["f"]))
    }

    @Test(
        "A strategy of the record holds for every field",
        arguments: [
            (EntityRules.RecordStrategy.server, "r"), (.client, "l"), (.lww, "l"), (.fields, "l"),
        ])
    func recordStrategies(_ strategy: EntityRules.RecordStrategy, _ result: String) throws {
        var rules = Self.rules(.lww)
        rules.strategy = strategy
        let outcome = Self.merge(MutationContent(.update, data: ["f": "l"]), onto: Self.record(["f": "r"]), rules: rules)
        #expect(try #require(outcome.accepted).record?.data == ["f": .string(result)])
    }

    @Test("With the record strategy manual every contested field waits for a person, and none is written")
    func manualRecord() {
        var rules = EntityRules()
        rules.strategy = .manual
        let update = MutationContent(.update, data: ["f": 2, "new": 1, "g": 3])
        #expect(Self.merge(update, onto: Self.record(["f": 1, "g": 1]), rules: rules) == .conflict(fields: ["f", "g"]))
    }

    struct Operation: Sendable {
        let operation: FieldOperation
        let present: JSON
        let result: JSON

        init(_ kind: FieldOperation.Kind, _ value: JSON, on present: JSON, gives result: JSON) {
            operation = FieldOperation("f", kind, value)
            self.present = present
            self.result = result
        }
    }

    @Test(
        "Operations always apply, also where a plain value would lose",
        arguments: [
            Operation(.append, "!", on: "text", gives: "text!"), Operation(.append, 3, on: [1, 2], gives: [1, 2, 3]),
            Operation(.increment, 2, on: 40, gives: 42), Operation(.add, "b", on: ["a"], gives: ["a", "b"]),
            Operation(.remove, "a", on: ["a", "b"], gives: ["b"]), Operation(.max, 9, on: 7, gives: 9),
            Operation(.min, 9, on: 7, gives: 7),
        ])
    func operations(_ example: Operation) throws {
        for strategy in FieldStrategy.allCases {
            let outcome = Self.merge(
                MutationContent(.update, operations: [example.operation]), onto: Self.record(["f": example.present]), ms: 1,
                rules: Self.rules(strategy))
            let accepted = try #require(outcome.accepted)
            #expect(accepted.record?.data?["f"] == example.result)
            #expect(accepted.merged.isEmpty && accepted.isPlain)
        }
    }

    @Test(
        "An operation on a value of another kind is refused, not lost",
        arguments: [
            (FieldOperation("f", .increment, 1), "many"), (FieldOperation("f", .append, "x"), 7),
            (FieldOperation("f", .add, "x"), "x"), (FieldOperation("f", .max, 7), "x"),
        ] as [(FieldOperation, JSON)])
    func misfit(_ operation: FieldOperation, _ present: JSON) {
        let outcome = Self.merge(MutationContent(.update, operations: [operation]), onto: Self.record(["f": present]))
        #expect(outcome.problem == "validation")
    }

    @Test("The loser of a contest is reported, with its writer")
    func lost() throws {
        let update = MutationContent(.update, data: ["f": "l"])
        let wins = try #require(Self.merge(update, onto: Self.record(["f": "r"])).accepted)
        #expect(wins.lost == [LostValue(field: "f", value: "r", stamp: Self.stamp(10, ms: 500, Self.other))])
        let loses = try #require(Self.merge(update, onto: Self.record(["f": "r"]), ms: 1).accepted)
        #expect(loses.lost == [LostValue(field: "f", value: "l", stamp: Self.stamp(11, ms: 1, Self.mine))])
        #expect(try #require(Self.merge(update, onto: Self.record(["f": "r"]), base: 10).accepted).lost.isEmpty)
    }

    @Test("A lost element of a set has the element's writer; a lost removal has no value")
    func lostElements() throws {
        let rules = Self.rules(.set)
        func put(_ n: Int, _ kind: FieldOperation.Kind = .add) -> MutationContent {
            MutationContent(.update, operations: [FieldOperation("f", kind, kind == .add ? ["id": 1, "n": .int(n)] : ["id": 1])])
        }
        let there = try #require(
            Self.merge(put(1), onto: Self.record(["f": []]), base: 10, ms: 600, by: Self.other, rules: rules).accepted?.record)
        let theirs = Self.stamp(11, ms: 600, Self.other)
        let wins = try #require(Self.merge(put(2), onto: there, base: 10, rules: rules, commit: 12).accepted)
        #expect(wins.lost == [LostValue(field: "f[1]", value: ["id": 1, "n": 1], stamp: theirs)])
        let loses = try #require(Self.merge(put(2), onto: there, base: 10, ms: 550, rules: rules, commit: 12).accepted)
        #expect(loses.lost == [LostValue(field: "f[1]", value: ["id": 1, "n": 2], stamp: Self.stamp(12, ms: 550, Self.mine))])
        let removal = try #require(Self.merge(put(0, .remove), onto: there, base: 10, rules: rules, commit: 12).accepted)
        #expect(removal.lost == [LostValue(field: "f[1]", value: nil, stamp: Self.stamp(12, ms: 900, Self.mine))])
        #expect(try #require(Self.merge(put(2), onto: there, base: 11, rules: rules, commit: 12).accepted).lost.isEmpty, "it was seen")
        // The device has put something else into the set since, without having seen the element.
        let another = MutationContent(.update, operations: [FieldOperation("f", .add, ["id": 2])])
        let both = try #require(Self.merge(another, onto: there, base: 10, ms: 700, rules: rules, commit: 12).accepted?.record)
        #expect(both.stamp(of: "f")?.writer == Self.mine)
        let blind = try #require(Self.merge(put(2), onto: both, base: 10, rules: rules, commit: 13).accepted)
        #expect(blind.lost == [LostValue(field: "f[1]", value: ["id": 1, "n": 1], stamp: theirs)])
        #expect(try #require(Self.merge(put(2), onto: both, base: 12, rules: rules, commit: 13).accepted).lost.isEmpty)
    }

    @Test("A deletion tells what it takes with it that its device had not seen")
    func lostWithRecord() throws {
        let record = VersionedRecord(
            data: ["f": 1, "g": 2], stamp: Self.stamp(3, ms: 1, Self.mine),
            exceptions: [JSONString("g"): Self.stamp(10, ms: 500, Self.other)])
        let accepted = try #require(Self.merge(MutationContent(.delete), onto: record, base: 9).accepted)
        #expect(accepted.lost == [LostValue(field: "g", value: 2, stamp: Self.stamp(10, ms: 500, Self.other))])
    }

    @Test(
        "A text that would become too long is a conflict, as a value and as an addition",
        arguments: [
            MutationContent(.update, data: ["f": "local"]),
            MutationContent(.update, operations: [FieldOperation("f", .append, " and more")]),
        ])
    func tooLong(_ content: MutationContent) {
        var rules = Self.rules(.append)
        rules.maxLength["f"] = 12
        #expect(Self.merge(content, onto: Self.record(["f": "remote"]), rules: rules) == .conflict(fields: ["f"]))
        #expect(Self.merge(content, onto: Self.record(["f": "remote"]), base: 10, rules: rules).accepted != nil, "no other device wrote")
    }

    @Test("With what the app had seen, objects are merged member by member, contested or not", arguments: [5, 10] as [Int64])
    func mergeWithBase(_ base: Int64) throws {
        let content = MutationContent(.update, data: ["f": ["a": 2]], base: ["f": ["a": 1, "b": 1]])
        let accepted = try #require(
            Self.merge(content, onto: Self.record(["f": ["a": 1, "b": 1, "c": 3]]), base: base, rules: Self.rules(.merge)).accepted)
        #expect(accepted.record?.data == ["f": ["a": 2, "c": 3]])
    }

    @Test("A second change by the same device does not undo what was merged into its first")
    func mergeIsNews() throws {
        let rules = Self.rules(.append)
        let first = try #require(
            Self.merge(MutationContent(.update, data: ["f": "l1"]), onto: Self.record(["f": "r"]), rules: rules).accepted?.record)
        let second = MutationContent(.update, data: ["f": "l2"])
        let kept = try #require(
            Self.merge(second, onto: first, rules: rules, commit: 12, key: "0199c3f3-aaaa-00000003").accepted?.record?.data?["f"]?.text)
        #expect(kept.hasPrefix("r\n") && kept.hasSuffix("l2"))
        // Once it has seen the other one, its word counts.
        let seen = Self.merge(second, onto: first, base: 10, rules: rules, commit: 12)
        #expect(try #require(seen.accepted).record?.data == ["f": "l2"])
    }

    @Test("An addition to a set beats a removal that had not seen it, whichever arrives first; one that was seen goes")
    func additionsWin() throws {
        let rules = Self.rules(.set)
        let add = MutationContent(.update, operations: [FieldOperation("f", .add, "x")])
        let remove = MutationContent(.update, operations: [FieldOperation("f", .remove, "x")])
        func after(_ steps: [(MutationContent, DeviceID, Int64)]) throws -> JSONObject? {
            var record = VersionedRecord(data: ["f": ["x"]], stamp: Self.stamp(10, ms: 1, DeviceID(trusted: "third")))
            for (index, step) in steps.enumerated() {
                let outcome = Self.merge(step.0, onto: record, base: step.2, by: step.1, rules: rules, commit: 11 + Int64(index))
                record = try #require(outcome.accepted?.record)
            }
            return record.data
        }
        #expect(try after([(add, Self.mine, 10), (remove, Self.other, 10)]) == ["f": ["x"]])
        #expect(try after([(remove, Self.other, 10), (add, Self.mine, 10)]) == ["f": ["x"]])
        #expect(try after([(add, Self.mine, 10), (remove, Self.other, 11)]) == ["f": []])
        #expect(try after([(add, Self.mine, 10), (remove, Self.mine, 10)]) == ["f": []])
        #expect(try after([(add, Self.mine, -1), (remove, Self.mine, -1)]) == ["f": []], "both rest on another history")
        #expect(try after([(add, Self.other, 10), (add, Self.mine, 10), (remove, Self.mine, 10)]) == ["f": ["x"]])
        #expect(try after([(add, Self.other, 10), (add, Self.mine, 10), (remove, Self.mine, 11)]) == ["f": []])
    }

    @Test("An element that others put in stays, whatever its author did with its own of that name in one go")
    func ownAdditionGoes() throws {
        let rules = Self.rules(.set)
        let remove = FieldOperation("f", .remove, "x"), add = FieldOperation("f", .add, "x")
        for own in [[remove], [add, remove], [add, remove, add, remove]] {
            let isCreated = own.count == 2
            let theirs = MutationContent(isCreated ? .create : .update, data: ["g": 1], operations: [add])
            var record = try #require(
                Self.merge(theirs, onto: isCreated ? nil : Self.record(["g": 1]), base: 10, by: Self.other, rules: rules, commit: 26)
                    .accepted?.record)
            let create = MutationContent(.create, data: ["f": ["y"]])
            record = try #require(Self.merge(create, onto: record, base: 22, rules: rules, commit: 28).accepted?.record)
            #expect(record.data?["f"] == ["x", "y"])
            record = try #require(
                Self.merge(MutationContent(.update, operations: own), onto: record, base: 0, rules: rules, commit: 30).accepted?.record)
            #expect(record.data?["f"] == ["x", "y"], "\(own.map(\.kind))")
        }
    }

    @Test("Removing a missing element from a set does not contradict another device that adds it")
    func removedFromNothing() throws {
        let remove = MutationContent(.update, operations: [FieldOperation("f", .remove, "x")])
        let record = try #require(Self.merge(remove, onto: Self.record(["g": 1]), by: Self.other, rules: Self.rules(.set)).accepted?.record)
        #expect(record.stamp(of: "f") == nil)
        let older = MutationContent(.create, data: ["f": ["y"]])
        let accepted = try #require(Self.merge(older, onto: record, base: 0, ms: 100, rules: Self.rules(.set), commit: 12).accepted)
        #expect(accepted.record?.data == ["g": 1, "f": ["y"]])
    }

    @Test("A change that brings a deleted record back is merged with its former values, not added to them once more")
    func broughtBack() throws {
        var rules = EntityRules()
        rules.fields = ["n": .counter, "a": .append, "m": .manual]
        let create = MutationContent(
            .create, data: ["n": 4, "a": "xy", "m": 1, "s": "same"], base: ["n": 3, "a": "x", "m": 1, "s": "same"])
        let there = Self.record(["n": 5, "a": "xz", "m": 2, "s": "theirs"])
        let accepted = try #require(Self.merge(create, onto: there, base: 9, rules: rules).accepted)
        #expect(accepted.record?.data == ["n": 6, "a": "xzy", "m": 2, "s": "theirs"])
        // Also over what the device itself has written since, which it need not know any more.
        let operations = MutationContent(
            .create, data: ["n": 3, "s": "same"], operations: [FieldOperation("n", .increment, 1)], base: ["n": 3, "s": "same"])
        let own = try #require(
            Self.merge(
                operations, onto: VersionedRecord(data: ["n": 5, "s": "mine"], stamp: Self.stamp(10, ms: 500, Self.mine)), base: 9,
                rules: rules
            ).accepted)
        #expect(own.record?.data == ["n": 6, "s": "mine"] && !own.isPlain)
    }

    // MARK: Clocks

    @Test(
        "The higher of two stamps wins; of equal ones that of the higher node",
        arguments: [
            (501 as UInt64, "1", true), (499, "9", false), (500, "6", true), (500, "4", false), (500, "5", false),
        ])
    func ties(_ ms: UInt64, _ node: String, _ wins: Bool) throws {
        let outcome = Self.merge(MutationContent(.update, data: ["f": "l"]), onto: Self.record(["f": "r"]), ms: ms, node: node)
        #expect(try #require(outcome.accepted).record?.data == ["f": wins ? "l" : "r"])
    }

    @Test("A stamp from an unsynced clock loses, now and against everything that comes")
    func unsynced() throws {
        let late = Self.merge(
            MutationContent(.update, data: ["f": "l"]), onto: Self.record(["f": "r"]), ms: 4_000_000_000, clock: .unsynced)
        #expect(try #require(late.accepted).record?.data == ["f": "r"])

        let first = Self.merge(MutationContent(.create, data: ["f": "u"]), onto: nil, base: 0, ms: 4_000_000_000, clock: .unsynced)
        let stored = try #require(first.accepted?.record)
        let second = Self.merge(MutationContent(.update, data: ["f": "s"]), onto: stored, base: 0, ms: 1, by: Self.other)
        #expect(try #require(second.accepted).record?.data == ["f": "s"])
    }

    @Test("A retroactively corrected stamp counts like a synced one")
    func retro() throws {
        let outcome = Self.merge(MutationContent(.update, data: ["f": "l"]), onto: Self.record(["f": "r"]), clock: .retro)
        #expect(try #require(outcome.accepted).record?.data == ["f": "l"])
    }

    @Test("A stamp more than five minutes ahead is taken as the hub's time, and the answer says so")
    func clamped() throws {
        let edge = try #require(Self.merge(MutationContent(.create, data: ["f": 1]), onto: nil, base: 0, ms: 1_300_000).accepted)
        #expect(!edge.isClockClamped && edge.record?.stamp.hlc.milliseconds == 1_300_000)
        let over = try #require(Self.merge(MutationContent(.create, data: ["f": 1]), onto: nil, base: 0, ms: 1_300_001).accepted)
        #expect(over.isClockClamped && !over.isPlain)
        #expect(over.record?.stamp.hlc == HybridTime(milliseconds: 1_000_000, counter: 0, node: "5"))
    }

    @Test("The stamp of a field never goes back, whichever order the changes come in")
    func stampsRise() throws {
        // Seen by its writer, so not contested, but with a slower clock.
        let outcome = Self.merge(MutationContent(.update, data: ["f": 2]), onto: Self.record(["f": 1]), base: 10, ms: 100)
        #expect(try #require(outcome.accepted?.record).stamp(of: "f")?.hlc.milliseconds == 500)
        // The same value again, later: that is the last word on the field, and its author had not seen the other one's.
        let equal = try #require(Self.merge(MutationContent(.update, data: ["f": 1]), onto: Self.record(["f": 1])).accepted?.record)
        let its = try #require(equal.stamp(of: "f"))
        #expect(its.version == 11 && its.hlc.milliseconds == 900 && its.writer == Self.mine && its.foreign == 10)
        // Earlier than what is there and without having seen it: that stays the other one's, and has been written again all the same.
        let late = try #require(Self.merge(MutationContent(.update, data: ["f": 1]), onto: Self.record(["f": 1]), ms: 100).accepted?.record)
        let kept = try #require(late.stamp(of: "f"))
        #expect(kept.version == 11 && kept.hlc.milliseconds == 500 && kept.writer != Self.mine && kept.foreign == 11)
    }

    // MARK: Creates and deletes

    @Test("A create makes the record of its fields and operations")
    func create() throws {
        let content = MutationContent(.create, data: ["f": 1], operations: [FieldOperation("n", .increment, 2)])
        let accepted = try #require(Self.merge(content, onto: nil, base: 0).accepted)
        #expect(accepted.record == VersionedRecord(data: ["f": 1, "n": 2], stamp: Self.stamp(11, ms: 900, Self.mine)))
        #expect(accepted.isPlain)
    }

    @Test("A create of what the same device made with the same content changes nothing")
    func createAgain() throws {
        let own = VersionedRecord(data: ["f": 1, "n": 2], stamp: Self.stamp(10, ms: 500, Self.mine))
        let content = MutationContent(.create, data: ["f": 1], operations: [FieldOperation("n", .increment, 2)])
        #expect(try #require(Self.merge(content, onto: own, base: 0).accepted).record == nil)
    }

    @Test("A create of a record that another device made is merged as if neither had known the other")
    func createOverOther() throws {
        let content = MutationContent(.create, data: ["f": "l", "g": "l"])
        let later = try #require(Self.merge(content, onto: Self.record(["f": "r", "h": "r"]), base: 99).accepted)
        #expect(later.record?.data == ["f": "l", "h": "r", "g": "l"])
        let earlier = try #require(Self.merge(content, onto: Self.record(["f": "r"]), base: 0, ms: 1).accepted)
        #expect(earlier.record?.data == ["f": "r", "g": "l"])
        #expect(earlier.merged == ["f"])
    }

    @Test("A create of what the same device made sets values anew, and adds to what adds up")
    func createOverOwn() throws {
        var rules = EntityRules()
        rules.fields = ["n": .counter, "p": .max, "tags": .set]
        let own = VersionedRecord(data: ["f": "old", "n": 2, "p": 9, "tags": ["a"]], stamp: Self.stamp(10, ms: 500, Self.mine))
        let content = MutationContent(.create, data: ["f": "new", "n": 3, "p": 4, "tags": ["b"]])
        let accepted = try #require(Self.merge(content, onto: own, base: 0, rules: rules).accepted)
        #expect(accepted.record?.data == ["f": "new", "n": 5, "p": 9, "tags": ["a", "b"]])
        #expect(accepted.merged == ["n", "p", "tags"])
    }

    @Test(
        "A create over an object keeps the members that others added, also where the same device wrote it last", arguments: [mine, other])
    func createOverObject(_ writer: DeviceID) throws {
        let own = VersionedRecord(data: ["f": ["mine": 1, "theirs": 1]], stamp: Self.stamp(10, ms: 500, writer))
        let content = MutationContent(.create, data: ["f": ["mine": 2]])
        let later = try #require(Self.merge(content, onto: own, base: 0, rules: Self.rules(.merge)).accepted)
        #expect(later.record?.data == ["f": ["mine": 2, "theirs": 1]])
        #expect(later.merged == ["f"] && !later.isPlain)
        // A value of the same device that a create finds is older, whatever the clock said.
        let unsynced = try #require(Self.merge(content, onto: own, base: 0, clock: .unsynced, rules: Self.rules(.merge)).accepted)
        #expect((unsynced.record ?? own).data == ["f": ["mine": writer == Self.mine ? 2 : 1, "theirs": 1]])
    }

    struct Deletion: Sendable, CustomStringConvertible {
        enum Result: Sendable { case deletes, conflict }
        let description: String
        let base: Int64
        let changed: String
        let writer: DeviceID
        let result: Result
    }

    @Test(
        "A delete wins, unless another device changed a manual field meanwhile",
        arguments: [
            Deletion(description: "seen", base: 10, changed: "finding", writer: other, result: .deletes),
            Deletion(description: "manual field changed", base: 9, changed: "finding", writer: other, result: .conflict),
            Deletion(description: "other field changed", base: 9, changed: "note", writer: other, result: .deletes),
            Deletion(description: "own change", base: 0, changed: "finding", writer: mine, result: .deletes),
        ])
    func delete(_ example: Deletion) throws {
        let name = JSONString(example.changed)
        let record = VersionedRecord(
            data: ["finding": 1, "note": 1], stamp: Self.stamp(3, ms: 1, Self.mine),
            exceptions: [name: Self.stamp(10, ms: 500, example.writer)])
        let outcome = Self.merge(
            MutationContent(.delete), onto: record, base: example.base, ms: 1, rules: Self.rules(.manual, of: "finding"))
        switch example.result {
        case .conflict: #expect(outcome == .conflict(fields: ["$delete"]))
        case .deletes: #expect(try #require(outcome.accepted).record == VersionedRecord(data: nil, stamp: Self.stamp(11, ms: 1, Self.mine)))
        }
    }

    @Test("Deleting what is not there is done already", arguments: [nil, record(nil)])
    func deleteMissing(_ record: VersionedRecord?) throws {
        #expect(try #require(Self.merge(MutationContent(.delete), onto: record).accepted).record == nil)
    }

    struct Gone: Sendable, CustomStringConvertible {
        enum Result: Sendable { case rejected, conflict, comesBack }
        let description: String
        var action = MutationAction.update
        var field = "note"
        var onDeleted = EntityRules.OnDeleted.deleteWins
        var base: Int64 = 5
        var deletedBy = other
        let result: Result
    }

    @Test(
        "The entity's rule decides about a change of a deleted record",
        arguments: [
            Gone(description: "delete wins", result: .rejected),
            Gone(description: "delete wins, also when it was seen", base: 10, result: .rejected),
            Gone(description: "update wins", onDeleted: .updateWins, result: .comesBack),
            Gone(description: "manual", onDeleted: .manual, result: .conflict),
            Gone(description: "a manual field is touched", field: "finding", result: .conflict),
            Gone(description: "update wins over a manual field", field: "finding", onDeleted: .updateWins, result: .comesBack),
            Gone(description: "undelete", action: .create, base: 10, result: .comesBack),
            Gone(description: "undelete of an own deletion", action: .create, base: 0, deletedBy: mine, result: .comesBack),
            Gone(description: "create without knowing", action: .create, base: 0, result: .rejected),
            Gone(description: "create without knowing, update wins", action: .create, onDeleted: .updateWins, base: 0, result: .comesBack),
            Gone(description: "create without knowing, manual", action: .create, onDeleted: .manual, base: 0, result: .conflict),
        ])
    func deleted(_ example: Gone) throws {
        var rules = Self.rules(.manual, of: "finding")
        rules.onDeleted = example.onDeleted
        let tombstone = VersionedRecord(data: nil, stamp: Self.stamp(10, ms: 500, example.deletedBy))
        let content = MutationContent(example.action, data: [example.field: 2])
        let outcome = Self.merge(content, onto: tombstone, base: example.base, rules: rules)
        switch example.result {
        case .rejected: #expect(outcome.problem == "deleted")
        case .conflict: #expect(outcome == .conflict(fields: ["$delete"]))
        case .comesBack:
            let accepted = try #require(outcome.accepted)
            #expect(accepted.record == VersionedRecord(data: [example.field: 2], stamp: Self.stamp(11, ms: 900, Self.mine)))
            // A device that updates has an older document below its change, which the hub has no more.
            #expect(accepted.isPlain == (example.action == .create))
        }
    }

    @Test("An update of a record whose tombstone is forgotten is treated like one of a deleted record")
    func forgotten() {
        #expect(Self.merge(MutationContent(.update, data: ["f": 1]), onto: nil).problem == "deleted")
    }

    // MARK: Kinds

    @Test("Events are created and nothing else, and never merged")
    func events() throws {
        var rules = EntityRules()
        rules.kind = .event
        let create = MutationContent(.create, data: ["v": 1])
        let stored = try #require(Self.merge(create, onto: nil, base: 0, rules: rules).accepted?.record)
        #expect(try #require(Self.merge(create, onto: stored, base: 0, by: Self.other, rules: rules).accepted).record == nil)
        let different = MutationContent(.create, data: ["v": 2])
        #expect(Self.merge(different, onto: stored, base: 0, rules: rules).problem == "validation")
        #expect(Self.merge(MutationContent(.update, data: ["v": 2]), onto: stored, rules: rules).problem == "validation")
        #expect(Self.merge(MutationContent(.delete), onto: stored, rules: rules).problem == "validation")
    }

    @Test("Devices never write reference data", arguments: MutationAction.allCases)
    func reference(_ action: MutationAction) {
        var rules = EntityRules()
        rules.kind = .reference
        #expect(Self.merge(MutationContent(action), onto: Self.record(["f": 1]), base: 10, rules: rules).problem == "forbidden")
    }

    // MARK: Convergence

    @Test("Concurrent changes of several devices give the same record in whatever order they arrive")
    func orderDoesNotMatter() throws {
        var random = SeededRandom(seed: 20_26)
        for _ in 0..<300 {
            let devices = (0..<4).map { DeviceID(trusted: "d-\($0)") }
            // Each device changes what it saw at version 10, once; stamps are different.
            let changes = devices.enumerated().map { index, device in
                (
                    device,
                    MutationContent(
                        .update, data: ["f": .int(Int(random.next() % 3)), "s": [.int(Int(random.next() % 5))]],
                        operations: [
                            FieldOperation("t", random.next() % 2 == 0 ? .add : .remove, .int(Int(random.next() % 3))),
                            FieldOperation("n", .increment, .int(Int(random.next() % 9))),
                            FieldOperation("m", .max, .int(Int(random.next() % 99))),
                        ]),
                    UInt64(501 + index * 7) + random.next() % 7
                )
            }
            var rules = EntityRules()
            rules.fields = ["s": .set, "t": .set, "n": .counter, "m": .max]
            var outcomes: Set<JSONObject> = []
            for _ in 0..<6 {
                var record = Self.record(["f": 9, "s": [], "t": [0, 1, 2], "n": 0])
                for (index, (device, content, ms)) in changes.shuffled(using: &random).enumerated() {
                    let outcome = Self.merge(
                        content, onto: record, base: 10, ms: ms, by: device, rules: rules, commit: 11 + Int64(index))
                    record = try #require(outcome.accepted?.record)
                }
                var data = try #require(record.data)
                for set in ["s", "t"] { data[set] = .array((data[set]?.array ?? []).sorted { ($0.int ?? 0) < ($1.int ?? 0) }) }
                outcomes.insert(data)
            }
            #expect(outcomes.count == 1)
        }
    }
}

extension HubMerge.Outcome {
    var accepted: HubMerge.Accepted? {
        if case .accepted(let accepted) = self { accepted } else { nil }
    }

    var problem: String? {
        if case .rejected(let problem) = self { problem.code } else { nil }
    }
}
