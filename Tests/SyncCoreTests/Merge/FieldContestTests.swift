import SyncCore
import Testing

/// Two values of one field, rule by rule, with what the local side had seen.
@Suite("Contests of a field")
struct FieldContestTests {
    static let signature = FieldContest.Signature(
        author: "ines", device: DeviceID(trusted: "gw-1"), at: Timestamp(milliseconds: 1_795_208_645_120),
        key: MutationKey(trusted: "0199c3f3-aaaa-0000000b"))
    static let line = "\n\n--- ines · gw-1 · 2026-11-20 21:04Z [#ced50a3b] ---\n"

    struct Case: Sendable, CustomStringConvertible {
        let description: String
        let rule: FieldStrategy
        let known: FieldContest.Known
        let local: JSON?
        let remote: JSON?
        var isLater = false
        /// Rules of members of the field, by their dotted names.
        var members: [String: FieldStrategy] = [:]
        var maxLength: Int?
        let outcome: FieldContest.Outcome

        init(
            _ description: String, _ rule: FieldStrategy, known: FieldContest.Known = .unknown, _ local: JSON?, _ remote: JSON?,
            isLater: Bool = false, members: [String: FieldStrategy] = [:], maxLength: Int? = nil, _ outcome: FieldContest.Outcome
        ) {
            self.description = description
            self.rule = rule
            self.known = known
            self.local = local
            self.remote = remote
            self.isLater = isLater
            self.members = members
            self.maxLength = maxLength
            self.outcome = outcome
        }
    }

    static let cases: [Case] = [
        Case("lww, the earlier loses", .lww, "l", "r", .remote),
        Case("lww, the later wins", .lww, "l", "r", isLater: true, .local),
        Case("lww, a removal is a value", .lww, nil, "r", isLater: true, .local),
        Case("server keeps theirs, also against a later one", .server, "l", "r", isLater: true, .remote),
        Case("client keeps ours, also an earlier one", .client, "l", "r", .local),
        Case("manual asks", .manual, "l", "r", isLater: true, .undecided),

        Case("counter: both differences count", .counter, known: .value(5), 7, 6, .both(8)),
        Case("counter: down as well", .counter, known: .value(5), 2, 6, .both(3)),
        Case("counter: from nothing", .counter, known: .value(nil), 2, 6, .both(8)),
        Case("counter: exact beyond 2^53", .counter, known: .value(0), 1, number("9007199254740993"), .both(number("9007199254740994"))),
        Case("counter: exact decimals", .counter, known: .value(number("0.1")), number("0.3"), number("0.1"), .local),
        Case("counter: no number there", .counter, known: .value(5), 7, "six", .remote),
        Case("counter: nothing known", .counter, 7, 6, isLater: true, .local),
        Case("counter: too long to add", .counter, known: .value(0), number("1e999999999"), 1, isLater: true, .local),

        Case("append: an addition goes behind theirs", .append, known: .value("a"), "a1", "a2", .both("a21")),
        Case("append: two rewrites both stay", .append, known: .value("a"), "b", "c", .both(.string("c" + line + "b"))),
        Case("append: of two first texts both stay", .append, known: .value(nil), "b", "c", .both(.string("c" + line + "b"))),
        Case("append: ours goes on from theirs", .append, "c and more", "c", .local),
        Case("append: theirs goes on from ours", .append, "c", "c and more", .remote),
        Case("append: marked already", .append, "b", .string("c" + line + "b"), isLater: true, .remote),
        Case("append: too long asks", .append, known: .value("a"), "a1234", "a5678", maxLength: 8, .undecided),
        Case("append: just fits", .append, known: .value("a"), "a1234", "a567", maxLength: 8, .both("a5671234")),
        Case("append: characters count, not bytes", .append, known: .value("ä"), "äö", "äü", maxLength: 3, .both("äüö")),
        Case("append: lists grow", .append, known: .value([1]), [1, 2], [1, 3], .both([1, 3, 2])),
        Case("append: rewritten lists unite", .append, known: .value([1]), [4], [1, 3], .both([3, 4])),
        Case("append: of two kinds the later", .append, "b", [1], isLater: true, .local),

        Case("set: additions unite", .set, known: .value(["a"]), ["a", "b"], ["a", "c"], .both(["a", "c", "b"])),
        Case("set: a removal counts", .set, known: .value(["a", "b"]), ["a"], ["a", "b", "c"], .both(["a", "c"])),
        Case("set: what was never seen stays", .set, known: .value(["a"]), [], ["a", "c"], .both(["c"])),
        Case(
            "set: objects by id, the later content", .set, known: .value([["id": 1]]), [["id": 1, "n": 2]], [["id": 1, "n": 3]],
            isLater: true, .local),
        Case("set: objects by id, theirs is later", .set, known: .value([["id": 1]]), [["id": 1, "n": 2]], [["id": 1, "n": 3]], .remote),
        Case("set: 1.10 and 1.1 are one", .set, known: .value([]), [number("1.10")], [number("1.1")], .remote),

        Case("max", .max, 9, 7, .local), Case("max, theirs", .max, 7, 9, isLater: true, .remote),
        Case("min", .min, 7, 9, .local), Case("min of texts", .min, "b", "a", isLater: true, .remote),
        Case("max of what cannot be compared", .max, 9, "z", isLater: true, .local),
        Case("max against a removal", .max, nil, 9, .remote),

        Case(
            "merge: each its own member", .merge, known: .value(["a": 1, "b": 1]), ["a": 2, "b": 1], ["a": 1, "b": 3],
            .both(["a": 2, "b": 3])),
        Case(
            "merge: a removed member stays removed", .merge, known: .value(["a": 1, "b": 1]), ["a": 1], ["a": 2, "b": 1], .both(["a": 2])),
        Case("merge: removed here, changed there, the later", .merge, known: .value(["a": 1]), [:], ["a": 2], .remote),
        Case("merge: without a known object nothing is removed", .merge, ["b": 1], ["a": 1], .both(["a": 1, "b": 1])),
        Case(
            "merge: deeper", .merge, known: .value(["o": ["x": 1, "y": 1]]), ["o": ["x": 2, "y": 1]], ["o": ["x": 1, "y": 2]],
            .both(["o": ["x": 2, "y": 2]])),
        Case(
            "merge: a leaf of both, the earlier loses", .merge, known: .value(["a": 1]), ["a": 2, "n": 1], ["a": 3],
            .both(["a": 3, "n": 1])),
        Case("merge: lists are leaves", .merge, known: .value(["l": [1]]), ["l": [1, 2]], ["l": [1, 3]], isLater: true, .local),
        Case(
            "merge: a member has a rule of its own", .merge, known: .value(["n": 1, "t": ["a"]]), ["n": 3, "t": ["a", "b"]],
            ["n": 2, "t": ["a", "c"]], members: ["f.n": .counter, "f.t": .set], .both(["n": 4, "t": ["a", "c", "b"]])),
        Case(
            "merge: a member that people decide", .merge, known: .value(["v": 1]), ["v": 2], ["v": 3], members: ["f.v": .manual], .undecided
        ),
        Case(
            "merge: a member that only one changed needs no decision", .merge, known: .value(["v": 1, "w": 1]), ["v": 2, "w": 1],
            ["v": 1, "w": 2], members: ["f.v": .manual], .both(["v": 2, "w": 2])),
        Case("merge: no objects", .merge, known: .value(["a": 1]), ["a": 2], 7, .remote),
    ]

    @Test("A contest ends as the rule of its field says", arguments: cases)
    func decides(_ example: Case) {
        var rules = EntityRules()
        rules.fields = ["f": example.rule]
        for (name, rule) in example.members { rules.fields[name] = rule }
        if let limit = example.maxLength { rules.maxLength["f"] = limit }
        let contest = FieldContest(
            rules, "f", localIsLater: example.isLater, signature: Self.signature, known: example.known)
        #expect(contest.decide(local: example.local, remote: example.remote).outcome == example.outcome)
    }

    struct Loser: Sendable, CustomStringConvertible {
        let description: String
        let rule: FieldStrategy
        var known = FieldContest.Known.unknown
        let local: JSON?
        let remote: JSON?
        var isLater = false
        var members: [String: FieldStrategy] = [:]
        let lost: [FieldContest.Loss]
    }

    static func loss(_ field: String, _ side: FieldContest.Loss.Side, _ value: JSON?, _ rule: FieldStrategy) -> FieldContest.Loss {
        .init(field: field, side: side, value: value, strategy: rule)
    }

    static let losers: [Loser] = [
        Loser(description: "the whole value", rule: .lww, local: "l", remote: "r", lost: [loss("f", .local, "l", .lww)]),
        Loser(description: "a removal", rule: .lww, local: "l", remote: nil, isLater: true, lost: [loss("f", .remote, nil, .lww)]),
        Loser(description: "nothing while people decide", rule: .manual, local: "l", remote: "r", lost: []),
        Loser(
            description: "a member, each side one", rule: .merge, known: .value(["a": 1, "b": 1]), local: ["a": 2, "b": 2],
            remote: ["a": 3, "b": 3], isLater: true, members: ["f.b": .server],
            lost: [loss("f.a", .remote, 3, .lww), loss("f.b", .local, 2, .server)]),
        Loser(
            description: "a member of a member", rule: .merge, known: .value(["o": ["x": 1]]), local: ["o": ["x": 2]],
            remote: ["o": ["x": 3]],
            lost: [loss("f.o.x", .local, 2, .lww)]),
        Loser(
            description: "the removal of a member", rule: .merge, known: .value(["a": 1]), local: [:], remote: ["a": 2],
            lost: [loss("f.a", .local, nil, .lww)]),
        Loser(
            description: "no member while people decide about another", rule: .merge, known: .value(["a": 1, "v": 1]),
            local: ["a": 2, "v": 2],
            remote: ["a": 3, "v": 3], members: ["f.v": .manual], lost: []),
        Loser(
            description: "an element, by its id", rule: .set, known: .value([["id": "t-1"]]), local: [["id": "t-1", "n": 2]],
            remote: [["id": "t-1", "n": 3], "x"], lost: [loss("f[t-1]", .local, ["id": "t-1", "n": 2], .set)]),
        Loser(
            description: "the removal of an element that it had not seen so", rule: .set, known: .value([["id": 1, "n": 1]]), local: [],
            remote: [["id": 1, "n": 2]], lost: [loss("f[1]", .local, nil, .set)]),
        Loser(
            description: "the removal of an element that the other side changed", rule: .set, known: .value([["id": 1, "n": 1]]),
            local: [["id": 1, "n": 2]], remote: [], lost: [loss("f[1]", .remote, nil, .set)]),
        Loser(description: "no element of a union", rule: .set, known: .value(["a"]), local: ["a", "b"], remote: ["a", "c"], lost: []),
        Loser(
            description: "of two kinds, the earlier", rule: .append, local: "text", remote: [1], lost: [loss("f", .local, "text", .append)]),
        Loser(
            description: "a text that had become shorter", rule: .append, known: .value("abc"), local: "a", remote: "abcd",
            lost: [loss("f", .local, "a", .append)]),
        Loser(description: "no text that the other one goes on", rule: .append, known: .value("a"), local: "ab", remote: "abc", lost: []),
        Loser(description: "no count that adds up", rule: .counter, known: .value(5), local: 7, remote: 6, lost: []),
        Loser(
            description: "a count that is none", rule: .counter, known: .value(5), local: 7, remote: "six",
            lost: [loss("f", .local, 7, .counter)]),
        Loser(description: "the smaller one", rule: .max, local: 7, remote: 9, isLater: true, lost: [loss("f", .local, 7, .max)]),
        Loser(
            description: "what cannot be compared", rule: .min, local: 7, remote: "z", isLater: true, lost: [loss("f", .remote, "z", .min)]),
    ]

    @Test("The losing value of a contest is reported, and nothing else", arguments: losers)
    func tellsLosers(_ example: Loser) {
        var rules = EntityRules()
        rules.fields = ["f": example.rule].merging(example.members) { first, _ in first }
        let contest = FieldContest(rules, "f", localIsLater: example.isLater, signature: Self.signature, known: example.known)
        #expect(contest.decide(local: example.local, remote: example.remote).lost == example.lost)
    }

    @Test("Objects nested deeper than eight levels are taken whole")
    func depth() {
        func nest(_ levels: Int, _ value: JSONObject) -> JSON {
            (0..<levels).reduce(JSON.object(value)) { inner, _ in ["o": inner] }
        }
        var rules = EntityRules()
        rules.fields = ["f": .merge]
        let contest = FieldContest(rules, "f", localIsLater: true, signature: Self.signature)
        #expect(contest.decide(local: nest(7, ["l": 1]), remote: nest(7, ["r": 1])).outcome == .both(nest(7, ["l": 1, "r": 1]).sorted))
        #expect(contest.decide(local: nest(8, ["l": 1]), remote: nest(8, ["r": 1])).outcome == .local)
    }

    static func number(_ text: String) -> JSON {
        (try? JSONReader.read(text)) ?? .null
    }
}

extension JSON {
    /// Equality does not look at the order of members; this only says so where a test reads better with it.
    fileprivate var sorted: JSON { self }
}
