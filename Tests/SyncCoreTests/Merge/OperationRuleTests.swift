import SyncCore
import Testing

/// Effects of operations, and of lists that are written whole, under the rules of their fields: at the hub, and in the view of the agent.
@Suite("Operations under rules")
struct OperationRuleTests {
    static let mine = HubMergeTests.mine, other = HubMergeTests.other

    static func rules(_ fields: [String: FieldStrategy]) -> EntityRules {
        var rules = EntityRules()
        rules.fields = fields
        return rules
    }

    static func op(_ kind: FieldOperation.Kind, _ value: JSON, _ field: String = "f") -> FieldOperation {
        FieldOperation(field, kind, value)
    }

    struct Step {
        var content: MutationContent
        var device = OperationRuleTests.mine
        var base: Int64

        init(_ content: MutationContent, _ device: DeviceID = OperationRuleTests.mine, base: Int64) {
            (self.content, self.device, self.base) = (content, device, base)
        }
    }

    /// One after the other, as versions 11, 12, …
    static func after(_ steps: [Step], onto start: VersionedRecord? = nil, _ rules: EntityRules) throws -> HubMerge.Accepted {
        var record = start
        var last: HubMerge.Accepted?
        for (index, step) in steps.enumerated() {
            let content = try step.content.placed(under: rules)
            let outcome = HubMergeTests.merge(
                content, onto: record, base: step.base, by: step.device, rules: rules, commit: 11 + Int64(index),
                key: "0199c3f3-aaaa-0000001\(index)")
            let accepted = try #require(outcome.accepted, "\(outcome)")
            record = accepted.record ?? record
            last = accepted
        }
        var result = try #require(last)
        result.record = record
        return result
    }

    // MARK: Sets

    @Test("An element of a list that was written whole counts as added by it, also against a create")
    func listsAdd() throws {
        let rules = Self.rules(["f": .set])
        let created = Step(MutationContent(.create, data: ["f": ["x", "y"]]), Self.other, base: 0)
        let removal = MutationContent(.update, operations: [Self.op(.remove, "x")])
        for unseen in [removal, MutationContent(.create, operations: [Self.op(.remove, "x")])] {
            let kept = try Self.after([created, Step(unseen, base: 0)], rules)
            #expect(kept.record?.data == ["f": ["x", "y"]] && kept.merged == ["f"] && !kept.isPlain)
            #expect(kept.lost.map(\.field) == ["f[x]"] && kept.lost.map(\.value) == [nil] && kept.lost.map(\.stamp.writer) == [Self.mine])
        }
        let seen = try Self.after([created, Step(removal, base: 11)], rules)
        #expect(seen.record?.data == ["f": ["y"]] && seen.merged.isEmpty && seen.lost.isEmpty)
        // Only the new elements of a list that replaces another one count as added.
        let over = Step(MutationContent(.update, data: ["f": ["x", "z"]]), Self.other, base: 11)
        let old = try Self.after([created, over, Step(removal, base: 11)], rules)
        #expect(old.record?.data == ["f": ["z"]])
        let new = try Self.after([created, over, Step(MutationContent(.update, operations: [Self.op(.remove, "z")]), base: 11)], rules)
        #expect(new.record?.data == ["f": ["x", "z"]] && new.merged == ["f"])
    }

    @Test("A removal of an element that its author may not have seen, because its writer is unknown, is reported")
    func oldListsTold() throws {
        let record = VersionedRecord(data: ["f": ["x", "y"]], stamp: HubMergeTests.stamp(10, ms: 500, Self.other))
        let accepted = try Self.after(
            [Step(MutationContent(.update, operations: [Self.op(.remove, "x")]), base: 5)], onto: record, Self.rules([:]))
        #expect(accepted.record?.data == ["f": ["y"]])
        #expect(
            accepted.lost.map(\.field) == ["f[x]"] && accepted.lost.map(\.value) == ["x"]
                && accepted.lost.map(\.stamp.writer) == [Self.other])
    }

    @Test("A plain list on a set takes out what its device had seen, and what is new there stays")
    func plainLists() throws {
        let rules = Self.rules(["f": .set])
        let created = Step(MutationContent(.create, data: ["f": ["a", "b"]]), Self.other, base: 0)
        let added = Step(MutationContent(.update, operations: [Self.op(.add, "c")]), Self.other, base: 11)
        let list = Step(MutationContent(.update, data: ["f": ["b", "d"]]), base: 11)
        let blind = try Self.after([created, added, list], rules)
        #expect(blind.record?.data == ["f": ["b", "c", "d"]])
        #expect(blind.merged == ["f"] && blind.lost.isEmpty)
        // With what it came from, it takes out of that, whatever is there by now, and nothing else.
        let based = Step(MutationContent(.update, data: ["f": ["b", "d"]], base: ["f": ["a", "b"]]), base: 11)
        let known = try Self.after([created, added, based], rules)
        #expect(known.record?.data == ["f": ["b", "c", "d"]] && known.merged == ["f"] && known.lost.isEmpty)
        let late = Step(MutationContent(.update, data: ["f": ["b", "d"]], base: ["f": ["a", "b"]]), base: 12)
        #expect(try Self.after([created, added, late], rules).record?.data == ["f": ["b", "c", "d"]])
        // Elements that the author had seen are removed without being listed as lost.
        let seen = try Self.after([created, added, Step(MutationContent(.update, data: ["f": ["b", "d"]]), base: 12)], rules)
        #expect(seen.record?.data == ["f": ["b", "d"]] && seen.merged.isEmpty && seen.lost.isEmpty)
    }

    @Test("A device that removes an element of a list has not seen the element that replaced it meanwhile")
    func changedElement() {
        let (old, new): (JSON, JSON) = (["id": 1, "n": 1], ["id": 1, "n": 2])
        let contest = FieldContest(
            Self.rules(["f": .set]), "f", localIsLater: true, signature: FieldContestTests.signature, known: .value([old]))
        let decision = contest.decide(local: [], remote: [new])
        #expect(decision.outcome == .remote)
        #expect(decision.lost.map(\.field) == ["f[1]"] && decision.lost.map(\.side) == [.local])
        #expect(contest.decide(local: [], remote: [old]).outcome == .local)
    }

    @Test("Each element of a set is there once, the first of each key, and the device is told")
    func duplicatesFolded() throws {
        let rules = Self.rules(["f": .set, "form": .merge, "form.marks": .set])
        let twice: JSON = ["a", ["id": 1, "n": 1], "a", ["id": 1, "n": 2]]
        let data: JSONObject = ["f": twice, "form": ["marks": twice, "x": 1]]
        let once: JSON = ["a", ["id": 1, "n": 1]]
        for content in [MutationContent(.create, data: data), MutationContent(.update, data: data)] {
            let start = content.action == .create ? nil : HubMergeTests.record(["g": 1])
            let accepted = try Self.after([Step(content, base: 10)], onto: start, rules)
            #expect(accepted.record?.data?["f"] == once && accepted.record?.data?["form"] == ["marks": once, "x": 1])
            #expect(Set(accepted.merged) == ["f", "form"] && !accepted.isPlain)
        }
        #expect(MutationContent(.update, data: ["f": once]).withSetsFolded(under: rules).data == ["f": once])
    }

    // MARK: Extremes

    @Test("A value that does not beat what max or min has changes nothing, and that is said", arguments: [FieldStrategy.max, .min])
    func extremesKept(_ strategy: FieldStrategy) throws {
        let rules = Self.rules(["f": strategy])
        let (kind, worse, better): (FieldOperation.Kind, JSON, JSON) = strategy == .max ? (.max, 1, 9) : (.min, 9, 1)
        let record = HubMergeTests.record(["f": 7])
        for base: Int64 in [10, 5] {
            let operated = try Self.after(
                [Step(MutationContent(.update, operations: [Self.op(kind, worse)]), base: base)], onto: record, rules)
            #expect(operated.record?.data == ["f": 7] && operated.kept == ["f": 7])
            let plain = try Self.after([Step(MutationContent(.update, data: ["f": worse]), base: base)], onto: record, rules)
            #expect(plain.record?.data == ["f": 7] && plain.kept == ["f": 7] && plain.merged == ["f"])
            for content in [MutationContent(.update, data: ["f": better]), MutationContent(.update, operations: [Self.op(kind, better)])] {
                let taken = try Self.after([Step(content, base: base)], onto: record, rules)
                #expect(taken.record?.data == ["f": better] && taken.kept.isEmpty && taken.merged.isEmpty)
            }
            let same = try Self.after([Step(MutationContent(.update, operations: [Self.op(kind, 7)]), base: base)], onto: record, rules)
            #expect(same.kept.isEmpty)
        }
        let created = try Self.after([Step(MutationContent(.create, data: ["f": worse]), base: 0)], onto: record, rules)
        #expect(created.record?.data == ["f": 7] && created.kept == ["f": 7])
        // A value of another type cannot be merged: it replaces the present one.
        #expect(
            try Self.after([Step(MutationContent(.update, data: ["f": "seven"]), base: 10)], onto: record, rules).record?.data == [
                "f": "seven"
            ])
        #expect(
            Fold.kept(by: MutationContent(.update, operations: [Self.op(kind, worse), Self.op(kind, 8)]), on: ["f": 7])
                == (strategy == .max ? [:] : ["f": 7]))
    }

    @Test("Removed and raised in one mutation, a max begins anew; an unseen later value stays all the same")
    func extremesReset() throws {
        let rules = Self.rules(["f": .max])
        let reset = MutationContent(.update, unset: ["f"], operations: [Self.op(.max, 1)])
        let alone = try Self.after([Step(reset, base: 10)], onto: HubMergeTests.record(["f": 7]), rules)
        #expect(alone.record?.data == ["f": 1] && alone.kept.isEmpty && alone.merged.isEmpty && alone.isPlain)
        #expect(Fold.apply(reset, to: ["f": 7]) == ["f": 1] && Fold.kept(by: reset, on: ["f": 7]).isEmpty)
        // Later than what it had not seen: that is told. Earlier: that stays, and this is told.
        let over = try Self.after([Step(reset, base: 5)], onto: HubMergeTests.record(["f": 7]), rules)
        #expect(over.record?.data == ["f": 1] && over.lost.map(\.value) == [7])
        let under = HubMergeTests.merge(reset, onto: HubMergeTests.record(["f": 7]), base: 5, ms: 100, rules: rules).accepted
        #expect(under?.record?.data == ["f": 7] && under?.kept == ["f": 7] && under?.merged == ["f"])
    }

    // MARK: Members

    static let memberRules = rules([
        "mg": .merge, "mg.c": .counter, "mg.t": .append, "mg.s": .set, "mg.hi": .max, "mg.in": .merge, "mg.in.c": .counter, "mg.w": .lww,
    ])

    struct Member: Sendable, CustomTestStringConvertible {
        var operation: FieldOperation
        var before: JSONObject
        var after: JSONObject
        var testDescription: String { "\(operation.field) on \(JSON.object(before).json)" }
    }

    @Test(
        "An operation on a member changes that and nothing else, the same in the view and at the hub",
        arguments: [
            Member(operation: op(.increment, 2, "mg.c"), before: ["mg": ["c": 1, "x": 5]], after: ["mg": ["c": 3, "x": 5]]),
            Member(operation: op(.increment, 2, "mg.c"), before: ["n": 1], after: ["n": 1, "mg": ["c": 2]]),
            Member(operation: op(.increment, 2, "mg.c"), before: ["mg": nil, "n": 1], after: ["mg": ["c": 2], "n": 1]),
            Member(operation: op(.increment, 2, "mg.c"), before: ["mg": ["c": nil]], after: ["mg": ["c": 2]]),
            Member(operation: op(.append, " b", "mg.t"), before: ["mg": ["t": "a"]], after: ["mg": ["t": "a b"]]),
            Member(operation: op(.add, "b", "mg.s"), before: ["mg": ["s": ["a"]]], after: ["mg": ["s": ["a", "b"]]]),
            Member(operation: op(.remove, "a", "mg.s"), before: ["mg": ["s": ["a"]]], after: ["mg": ["s": []]]),
            Member(operation: op(.remove, "a", "mg.s"), before: ["n": 1], after: ["n": 1]),
            Member(operation: op(.max, 9, "mg.hi"), before: ["mg": ["hi": 7]], after: ["mg": ["hi": 9]]),
            Member(operation: op(.increment, 1, "mg.in.c"), before: ["mg": ["a": 1]], after: ["mg": ["a": 1, "in": ["c": 1]]]),
            // No part of the name is merged: a field of that name.
            Member(operation: op(.increment, 1, "other.c"), before: ["other": ["c": 1]], after: ["other": ["c": 1], "other.c": 1]),
        ])
    func members(_ example: Member) throws {
        let content = try MutationContent(.update, operations: [example.operation]).placed(under: Self.memberRules)
        #expect(Fold.apply(content, to: example.before)?.json == example.after.json)
        let accepted = try Self.after([Step(content, base: 10)], onto: HubMergeTests.record(example.before), Self.memberRules)
        #expect(accepted.record?.data?.json == example.after.json && accepted.isPlain)
        let create = try MutationContent(.create, data: example.before, operations: [example.operation]).placed(under: Self.memberRules)
        #expect(try Self.after([Step(create, base: 0)], Self.memberRules).record?.data?.json == example.after.json)
    }

    @Test(
        "An operation that the rule of a member does not have is refused with its place",
        arguments: [
            op(.max, 1, "mg.c"), op(.increment, 1, "mg.none"), op(.append, "x", "mg.w"), op(.increment, 1, "mg.in.d"),
            op(.increment, 1, "mg.w.c"),
            op(.increment, 1, "mg."), op(.increment, 1, "mg" + String(repeating: ".in", count: 20)),
        ])
    func membersRefused(_ operation: FieldOperation) throws {
        let content = MutationContent(.update, operations: [Self.op(.increment, 1, "n"), operation])
        let problem = #expect(throws: Problem.self) { try content.placed(under: Self.memberRules) }
        #expect(problem?.code == "validation" && problem?.status == 422 && problem?.errors.map(\.pointer) == ["/ops/1/field"])
        var manual = Self.memberRules
        manual.criticalFields = ["mg.c"]
        #expect(throws: Problem.self) { try MutationContent(.update, operations: [Self.op(.increment, 1, "mg.c")]).placed(under: manual) }
    }

    @Test("A member of something that is no object is refused, not lost; so is one beside an operation on the whole")
    func membersMisfit() throws {
        let content = try MutationContent(.update, operations: [Self.op(.increment, 1, "mg.c")]).placed(under: Self.memberRules)
        #expect(Fold.firstMisfit(of: content.operations, on: ["mg": 5])?.found == 5)
        #expect(Fold.apply(content, to: ["mg": 5]) == ["mg": 5])
        let outcome = HubMergeTests.merge(content, onto: HubMergeTests.record(["mg": 5]), base: 10, rules: Self.memberRules)
        guard case .rejected(let problem) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(problem.code == "validation")
        let both = MutationContent(.update, operations: [Self.op(.max, 5, "mg"), Self.op(.increment, 1, "mg.c")])
        #expect(throws: Problem.self) { try both.placed(under: Self.memberRules) }
    }

    @Test("Two sides that operate on members of one object both take effect, and a set in it remembers who added")
    func membersConcurrent() throws {
        let created = Step(MutationContent(.create, data: ["mg": ["c": 1, "s": ["a"]]]), Self.other, base: 0)
        let theirs = Step(
            MutationContent(.update, operations: [Self.op(.increment, 10, "mg.c"), Self.op(.add, "b", "mg.s")]), Self.other, base: 11)
        let ours = MutationContent(
            .update, operations: [Self.op(.increment, 2, "mg.c"), Self.op(.remove, "b", "mg.s"), Self.op(.max, 3, "mg.hi")])
        let both = try Self.after([created, theirs, Step(ours, base: 11)], Self.memberRules)
        #expect(both.record?.data == ["mg": ["c": 13, "s": ["a", "b"], "hi": 3]])
        #expect(both.merged == ["mg"] && both.lost.map(\.field) == ["mg.s[b]"])
        let list = try Self.after(
            [created, Step(MutationContent(.update, operations: [Self.op(.remove, "a", "mg.s")]), base: 0)], Self.memberRules)
        #expect(list.record?.data == ["mg": ["c": 1, "s": ["a"]]] && list.merged == ["mg"])
        let lower = try Self.after([created, Step(ours, base: 11), Step(ours, base: 12)], Self.memberRules)
        #expect(lower.kept.isEmpty)
        let beaten = Step(MutationContent(.update, operations: [Self.op(.max, 1, "mg.hi")]), base: 12)
        #expect(try Self.after([created, Step(ours, base: 11), beaten], Self.memberRules).kept == ["mg.hi": 3])
    }

    @Test("With nothing concurrent, the view and the hub are the same to the byte", arguments: 0..<80)
    func foldIsHub(_ seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        let rules = Self.rules([
            "mg": .merge, "mg.c": .counter, "mg.s": .set, "mg.hi": .max, "mg.in": .merge, "mg.in.c": .counter, "s": .set, "peak": .max,
            "n": .counter,
        ])
        let object: JSON = Bool.random(using: &random) ? ["c": 1, "z": 0] : JSON.null
        var document: JSONObject = ["s": [1], "mg": object]
        var record = VersionedRecord(data: document, stamp: HubMergeTests.stamp(10, ms: 500, Self.other))
        for version: Int64 in 11...30 {
            var operations: [FieldOperation] = []
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let value = JSON.int(Int.random(in: 0...4, using: &random))
                operations.append(
                    [
                        Self.op(.increment, value, "mg.c"), Self.op(.add, value, "mg.s"), Self.op(.remove, value, "mg.s"),
                        Self.op(.max, value, "mg.hi"),
                        Self.op(.increment, value, "mg.in.c"), Self.op(.add, value, "s"), Self.op(.remove, value, "s"),
                        Self.op(.max, value, "peak"),
                        Self.op(.increment, value, "n"),
                    ].randomElement(using: &random) ?? Self.op(.increment, 1, "n"))
            }
            var content = MutationContent(.update, operations: operations)
            if Bool.random(using: &random) { content.unset = ["peak"] }
            content = try content.placed(under: rules)
            let before = document
            document = try #require(Fold.apply(content, to: document))
            let device = Bool.random(using: &random) ? Self.mine : Self.other
            let accepted = try #require(
                HubMergeTests.merge(
                    content, onto: record, base: version - 1, ms: UInt64(version) * 100, by: device, rules: rules, commit: version
                ).accepted)
            record = try #require(accepted.record)
            #expect(record.data?.json == document.json && accepted.isPlain)
            #expect(accepted.kept == Fold.kept(by: content, on: before))
        }
    }

    // MARK: Rebase

    @Test("A waiting removal gives way to an addition that a pull brings, and is told; what this device put there itself goes")
    func removalGivesWay() {
        let removal = MutationContent(.update, operations: [Self.op(.remove, "x"), Self.op(.remove, "y")])
        let outcome = RebaseTests.decide(removal, known: ["f": ["y"]], remote: ["f": ["y", "x"]], fields: ["f": .set])
        #expect(outcome.verdict == .stays && outcome.content.operations == [Self.op(.remove, "y")])
        #expect(outcome.lost == [.init(field: "f[x]", side: .local, value: nil, strategy: .set)])
        let alone = MutationContent(.update, operations: [Self.op(.remove, "x")])
        #expect(RebaseTests.decide(alone, known: ["f": []], remote: ["f": ["x"]], fields: ["f": .set]).verdict == .isSuperseded)
        let own = RebaseTests.decide(alone, known: ["f": []], remote: ["f": ["x"]], fields: ["f": .set]) {
            $1.expectedElements = [alone.operations[0].elementName]
        }
        #expect(own.verdict == .stays && own.content == alone && own.lost.isEmpty)
        // Other content under the same id was not seen either.
        let byID = MutationContent(.update, operations: [Self.op(.remove, ["id": 1])])
        let changed = RebaseTests.decide(byID, known: ["f": [["id": 1, "n": 1]]], remote: ["f": [["id": 1, "n": 2]]], fields: ["f": .set])
        #expect(changed.verdict == .isSuperseded && changed.lost.map(\.field) == ["f[1]"])
        let created = MutationContent(.create, data: ["g": 1], operations: [Self.op(.remove, "x")])
        let met = RebaseTests.decide(created, known: nil, remote: ["f": ["x"], "g": 1], fields: ["f": .set])
        #expect(met.content.operations.isEmpty && met.lost.map(\.field) == ["f[x]"])
    }

    @Test("A waiting operation on a member goes onto the member as it is now")
    func membersRebased() throws {
        let content = try MutationContent(.update, operations: [Self.op(.increment, 1, "mg.c"), Self.op(.remove, "a", "mg.s")]).placed(
            under: Self.memberRules)
        let outcome = RebaseTests.decide(
            content, known: ["mg": ["c": 1]], remote: ["mg": ["c": 5, "s": ["a"]]], fields: Self.memberRules.fields)
        #expect(outcome.verdict == .stays && outcome.content.operations == [content.operations[0]])
        #expect(Fold.apply(outcome.content, to: ["mg": ["c": 5, "s": ["a"]]]) == ["mg": ["c": 6, "s": ["a"]]])
        #expect(outcome.lost.map(\.field) == ["mg.s[a]"])
        let same = RebaseTests.decide(content, known: ["mg": ["c": 1]], remote: ["mg": ["c": 1, "z": 1]], fields: Self.memberRules.fields)
        #expect(same.verdict == .stays && same.content == content && same.lost.isEmpty)
        let disputed = RebaseTests.decide(content, known: ["mg": ["c": 1]], remote: ["mg": ["c": 2]], fields: Self.memberRules.fields) {
            $1.disputed = ["mg"]
        }
        #expect(disputed.verdict == .isDisputed(.field, fields: ["mg"]))
    }

    @Test("A member that was counted does not go into a later value of the whole object, which has seen it; a later count does")
    func membersCoalesced() throws {
        let counted = try MutationContent(.update, operations: [Self.op(.increment, 1, "mg.c")]).placed(under: Self.memberRules)
        let whole = MutationContent(.update, data: ["mg": ["c": 5]], base: ["mg": ["c": 2]])
        #expect(Coalescing.merge(counted, whole) == nil)
        #expect(
            Coalescing.merge(whole, counted)
                == .one(MutationContent(.update, data: whole.data, operations: counted.operations, base: whole.base)))
        let twice = try MutationContent(.update, operations: [Self.op(.increment, 2, "mg.c")]).placed(under: Self.memberRules)
        #expect(Coalescing.merge(counted, counted) == .one(twice))
    }

    // MARK: Sentences

    @Test("A sum that cannot be written down says what it would need, and a list is appended element by element")
    func sums() {
        let (large, small) = ((try? JSONReader.read("1e300")) ?? .null, (try? JSONReader.read("1e-300")) ?? .null)
        let sum = Self.op(.increment, small)
        #expect(!Fold.fits(sum, large))
        #expect(
            Fold.misfitDetail(sum, large)
                == "the sum of what f holds and of what is to be added would have 601 digits, the limit is 400")
        #expect(Fold.misfitDetail(sum, "text") == "f holds a string, which inc of a number cannot change")
        #expect(Fold.apply(Self.op(.append, [1, [2]]), to: [0]) == [0, 1, [2]])
        #expect(
            Fold.apply(Self.op(.append, [[2, 3]]), to: [0]) == [0, [2, 3]] && Fold.apply(Self.op(.append, [[2, 3]]), to: nil) == [[2, 3]])
    }
}
