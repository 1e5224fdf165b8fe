import SyncCore
import Testing

/// Members of an object under `merge`, each compared by its own time.
@Suite("Times of members")
struct MemberTimesTests {
    private static let rules: EntityRules = {
        var rules = EntityRules()
        rules.fields = ["form": .merge, "form.count": .counter]
        return rules
    }()

    private typealias Sent = StampTests.Sent

    private static func edit(_ form: JSON, of base: JSON, stamps: [JSONString: HybridTime] = [:]) -> MutationContent {
        MutationContent(.update, data: ["form": form], base: ["form": base], stamps: stamps)
    }

    private static func form(_ sent: [Sent], from start: JSON = ["size": 1, "colour": "red", "count": 0]) throws -> JSON? {
        try StampTests.record(["form": start], after: sent, rules: rules).data?["form"]
    }

    @Test("The later writer of a member wins it, whatever the times of the object's other members, in every order of arrival")
    func orders() throws {
        let sent = [
            Sent(StampTests.a, Self.edit(["size": 2, "colour": "red"], of: ["size": 1, "colour": "red"]), at: 9),
            Sent(StampTests.b, Self.edit(["size": 3, "colour": "red"], of: ["size": 1, "colour": "red"]), at: 12),
            Sent(StampTests.c, Self.edit(["size": 1, "colour": "blue"], of: ["size": 1, "colour": "red"]), at: 17),
        ]
        for order in StampTests.orders(sent) {
            #expect(try Self.form(order) == ["size": 3, "colour": "blue", "count": 0], "\(order.map(\.device))")
        }
    }

    @Test("An operation on a member makes no other member later")
    func operation() throws {
        let added = MutationContent(.update, operations: [FieldOperation("form.count", .increment, 1)])
        let placed = try added.placed(under: Self.rules)
        let sent = [
            Sent(StampTests.a, Self.edit(["size": 2], of: ["size": 1]), at: 9), Sent(StampTests.b, placed, at: 17),
            Sent(StampTests.c, Self.edit(["size": 3], of: ["size": 1]), at: 12),
        ]
        for order in StampTests.orders(sent) { #expect(try Self.form(order)?.object?["size"] == 3, "\(order.map(\.device))") }
    }

    @Test("A member that is removed, written again with the same value, or counted to the same, counts by its time")
    func sameAndGone() throws {
        let removed = [
            Sent(StampTests.a, Self.edit([:], of: ["size": 1]), at: 12), Sent(StampTests.b, Self.edit(["size": 2], of: ["size": 1]), at: 9),
            Sent(StampTests.c, Self.edit(["colour": "blue"], of: ["colour": "red"]), at: 17),
        ]
        for order in StampTests.orders(removed) {
            #expect(try Self.form(order) == ["colour": "blue", "count": 0], "\(order.map(\.device))")
        }
        let same = [
            Sent(StampTests.a, Self.edit(["size": 2], of: ["size": 1]), at: 9),
            Sent(StampTests.b, Self.edit(["size": 2], of: ["size": 1]), at: 12),
            Sent(StampTests.c, Self.edit(["size": 3], of: ["size": 1]), at: 10),
        ]
        for order in StampTests.orders(same) { #expect(try Self.form(order)?.object?["size"] == 2, "\(order.map(\.device))") }
        let counted = [
            Sent(StampTests.a, Self.edit(["count": 2], of: ["count": 0]), at: 9),
            Sent(StampTests.b, Self.edit(["count": 2], of: ["count": 0]), at: 12),
        ]
        for order in StampTests.orders(counted) { #expect(try Self.form(order)?.object?["count"] == 4, "\(order.map(\.device))") }
    }

    @Test("A change that names the time of a member is compared by that")
    func named() throws {
        let joined = Self.edit(
            ["size": 2, "colour": "blue"], of: ["size": 1, "colour": "red"],
            stamps: [JSONString("form.size"): MergeCase.stamp(9, StampTests.a)])
        let sent = [Sent(StampTests.a, joined, at: 17), Sent(StampTests.b, Self.edit(["size": 3], of: ["size": 1]), at: 12)]
        for order in StampTests.orders(sent) {
            let record = try StampTests.record(["form": ["size": 1, "colour": "red"]], after: order, rules: Self.rules)
            #expect(record.data == ["form": ["size": 3, "colour": "blue"]], "\(order.map(\.device))")
            // It is no field of its own.
            #expect(record.stamps.keys.map(\.text) == ["form"])
        }
    }

    @Test("A member that only the earlier of two joined edits changed keeps its time")
    func joined() throws {
        let nine = MergeCase.stamp(9, MergeCase.mine), noon = MergeCase.stamp(12, MergeCase.mine)
        let older = Self.edit(["size": 2, "colour": "red"], of: ["size": 1, "colour": "red"])
        let newer = Self.edit(["size": 2, "colour": "blue"], of: ["size": 2, "colour": "red"])
        guard case .one(let two)? = Coalescing.merge(older, newer, stamp: nine) else { throw CoalescingTests.TestFailure() }
        #expect(two.stamps == [JSONString("form.size"): nine] && two.base == ["form": ["size": 1, "colour": "red"]])
        // Once more: the third writes the first member anew, and leaves the second.
        let last = Self.edit(["size": 4, "colour": "blue"], of: ["size": 2, "colour": "blue"])
        guard case .one(let three)? = Coalescing.merge(two, last, stamp: noon) else { throw CoalescingTests.TestFailure() }
        #expect(three.stamps == [JSONString("form.colour"): noon])
        // A creation has written all it has.
        guard
            case .one(let made)? = Coalescing.merge(
                MutationContent(.create, data: ["form": ["size": 1, "colour": "red"]]),
                Self.edit(["size": 1, "colour": "blue"], of: ["size": 1, "colour": "red"]), stamp: nine)
        else { throw CoalescingTests.TestFailure() }
        #expect(made.stamps == [JSONString("form.size"): nine])
    }

    @Test("A value that a pull brought between two edits is no change of either")
    func pulledBetween() throws {
        let older = Self.edit(["size": 2, "colour": "red"], of: ["size": 1, "colour": "red"])
        let newer = Self.edit(["size": 5, "colour": "blue"], of: ["size": 2, "colour": "blue"])
        guard case .one(let two)? = Coalescing.merge(older, newer, stamp: MergeCase.stamp(9, MergeCase.mine)) else {
            throw CoalescingTests.TestFailure()
        }
        #expect(two.data == ["form": ["size": 5, "colour": "blue"]] && two.base == ["form": ["size": 1, "colour": "blue"]])
    }

    @Test(
        "A record names a bounded number of members; the oldest beyond it count with the rest, and a write around a member counts for it")
    func namedMembersAreBounded() {
        let rest = MergeCase.stamp(1, MergeCase.mine), late = MergeCase.stamp(1_000_000, MergeCase.mine)
        var times = MemberTimes(rest: rest)
        for number in 0..<MemberTimes.namedMax + 2 {
            times.write("form.m\(number)", at: MergeCase.stamp(UInt64(10 + number), MergeCase.mine))
        }
        let short = times.shortened(of: late)
        #expect(short?.named.count == MemberTimes.namedMax)
        #expect(short?.rest == MergeCase.stamp(11, MergeCase.mine) && short?.time(of: "form.m0") == short?.rest)
        var around = MemberTimes(rest: MergeCase.stamp(17, MergeCase.mine))
        around.write("form.m5", at: rest)
        #expect(around.time(of: "form.m5") == MergeCase.stamp(17, MergeCase.mine))
        times.write("form.m5", at: rest)
        #expect(times.time(of: "form.m5") == MergeCase.stamp(15, MergeCase.mine), "a time never goes back")
        times.write("form.m5", at: late)
        #expect(times.time(of: "form.m5.inner") == late)
        #expect(MemberTimes(rest: late).shortened(of: late) == nil)
    }
}
