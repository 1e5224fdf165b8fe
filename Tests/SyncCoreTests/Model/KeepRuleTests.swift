import SyncCore
import Testing

@Suite("Documents that a device may drop")
struct KeepRuleTests {
    private static let day: Int64 = 86_400_000
    private static let rule = KeepRule(days: 90, when: ["status": ["done", "cancelled"]])

    struct Example: CustomTestStringConvertible {
        var when: [String: [String]]
        var document: JSONObject
        var isDropped: Bool

        var testDescription: String { "\(when) on \(JSON.object(document).json)" }
    }

    static let examples: [Example] = [
        Example(when: [:], document: [:], isDropped: true),
        Example(when: ["status": ["done", "cancelled"]], document: ["status": "done"], isDropped: true),
        Example(when: ["status": ["done", "cancelled"]], document: ["status": "cancelled"], isDropped: true),
        Example(when: ["status": ["done", "cancelled"]], document: ["status": "open"], isDropped: false),
        Example(when: ["status": ["done"]], document: ["status": "Done"], isDropped: false),
        Example(when: ["status": ["done"]], document: ["status": nil], isDropped: false),
        Example(when: ["status": ["done"]], document: [:], isDropped: false),
        Example(when: ["status": ["done"], "site": ["s-1"]], document: ["status": "done", "site": "s-1"], isDropped: true),
        Example(when: ["status": ["done"], "site": ["s-1"]], document: ["status": "done", "site": "s-2"], isDropped: false),
        Example(when: ["tags": ["old"]], document: ["tags": ["new", "old"]], isDropped: true),
        Example(when: ["tags": ["old"]], document: ["tags": [["old"]]], isDropped: false),
        Example(when: ["stage": ["3"]], document: ["stage": 3], isDropped: true),
        Example(when: ["stage": ["3"]], document: ["stage": 30], isDropped: false),
        Example(when: ["closed": ["true"]], document: ["closed": true], isDropped: true),
        Example(when: ["status": []], document: ["status": "done"], isDropped: false),
    ]

    @Test("An old document may go when every field has one of its values, or a list that holds one", arguments: examples)
    func matches(_ example: Example) {
        let rule = KeepRule(days: 7, when: example.when)
        #expect(rule.forgets(example.document, changedAt: 0, now: 7 * Self.day) == example.isDropped)
    }

    @Test(
        "A document stays until the last millisecond of its days",
        arguments: [(0, false), (90 * day - 1, false), (90 * day, true), (91 * day, true), (-1, false)])
    func age(_ now: Int64, isDropped: Bool) {
        #expect(Self.rule.forgets(["status": "done"], changedAt: 0, now: now) == isDropped)
        #expect(Self.rule.forgets(["status": "open"], changedAt: 0, now: now) == false)
        #expect(Self.rule.isOver(changedAt: 0, now: now) == isDropped)
    }

    @Test("Times at the ends of their range do not overflow")
    func extremes() {
        #expect(Self.rule.forgets(["status": "done"], changedAt: .min, now: .max))
        #expect(!Self.rule.forgets(["status": "done"], changedAt: .max, now: .min))
    }

    // MARK: - The time of a change

    private static let wall = Timestamp(milliseconds: 1_763_700_000_000)

    private static func stamp(_ milliseconds: Int64) -> HybridTime {
        HybridTime(milliseconds: UInt64(milliseconds), counter: 0, node: "1b2c11ab")
    }

    // Fault: a new device holds records of ten years for the whole time again.
    @Test("With a trusted time, the hub's stamp says when a record was changed")
    func stamped() {
        let tenDaysAgo = Self.stamp(Self.wall.milliseconds - 10 * Self.day)
        #expect(KeepRule.changedAt(tenDaysAgo, wall: Self.wall, age: 3 * Self.day) == -7 * Self.day)
    }

    // Fault: a clock that is wrong after a boot makes every document look old, or never old enough.
    @Test("Without a trusted time, or with a stamp that says nothing, a record counts as changed when it came")
    func unknown() {
        let old = Self.stamp(Self.wall.milliseconds - 400 * Self.day)
        #expect(KeepRule.changedAt(old, wall: nil, age: 5) == 5)
        #expect(KeepRule.changedAt(nil, wall: Self.wall, age: 5) == 5)
        // The stamp of an untrusted clock, one of 1970, and one that lies ahead.
        for milliseconds in [0, Self.day, Self.wall.milliseconds + Self.day] {
            #expect(KeepRule.changedAt(Self.stamp(milliseconds), wall: Self.wall, age: 5) == 5)
        }
    }
}
