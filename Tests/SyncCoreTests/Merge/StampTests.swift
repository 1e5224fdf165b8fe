import SyncCore
import Testing

/// The stamp of a field is the time and device of its last write. The time of writing counts at the hub, not that of the arrival, and also
/// for an equal value.
@Suite("Stamps of fields")
struct StampTests {
    static let rules = EntityRules()
    static let a = DeviceID(trusted: "a"), b = DeviceID(trusted: "b"), c = DeviceID(trusted: "c")

    struct Sent: Sendable {
        var device: DeviceID
        var content: MutationContent
        var ms: UInt64
        var base: Int64 = 1

        init(_ device: DeviceID, _ content: MutationContent, at ms: UInt64, base: Int64 = 1) {
            (self.device, self.content, self.ms, self.base) = (device, content, ms, base)
        }

        init(_ device: DeviceID, _ data: JSONObject, at ms: UInt64, base: Int64 = 1) {
            self.init(device, MutationContent(.update, data: data), at: ms, base: base)
        }
    }

    /// The record at version 1, by a third device at 1 ms, after these have arrived.
    static func record(_ data: JSONObject, after sent: [Sent], rules: EntityRules = rules) throws -> VersionedRecord {
        let stamp = HybridTime(milliseconds: 1, counter: 0, node: "9")
        var record = VersionedRecord(data: data, stamp: .init(version: 1, hlc: stamp, writer: DeviceID(trusted: "third")))
        for (index, next) in sent.enumerated() {
            let mutation = IncomingMutation(
                record: MergeCase.name, content: next.content, baseVersion: next.base, hlc: MergeCase.stamp(next.ms, next.device),
                clientUpdatedAt: Timestamp(milliseconds: 1_795_208_645_120))
            let change = HubMerge.Change(device: next.device, key: MutationKey(trusted: "k-\(index)"), mutation: mutation)
            let outcome = HubMerge.apply(
                change, to: record, rules: rules, commit: Int64(2 + index), now: Timestamp(milliseconds: 1_000_000))
            record = try #require(outcome.accepted).record ?? record
        }
        return record
    }

    static func orders<Element>(_ list: [Element]) -> [[Element]] {
        if list.count < 2 { return [list] }
        return list.indices.flatMap { index in
            var rest = list
            let first = rest.remove(at: index)
            return orders(rest).map { [first] + $0 }
        }
    }

    @Test("The same value written again later is the last word, in every order of arrival")
    func writtenAgain() throws {
        // b writes what is there already, after a has changed it; c knows of neither.
        let sent = [Sent(Self.a, ["f": 2], at: 9), Sent(Self.b, ["f": 1], at: 12), Sent(Self.c, ["f": 3], at: 10)]
        for order in Self.orders(sent) {
            let record = try Self.record(["f": 1], after: order)
            #expect(record.data == ["f": 1] && record.stamp(of: "f")?.hlc.milliseconds == 12, "\(order.map(\.device))")
        }
        // Two that write the same, and one between them.
        let same = [Sent(Self.a, ["f": 2], at: 9), Sent(Self.b, ["f": 2], at: 12), Sent(Self.c, ["f": 3], at: 10)]
        for order in Self.orders(same) { #expect(try Self.record(["f": 1], after: order).data == ["f": 2], "\(order.map(\.device))") }
    }

    @Test("A device that wrote an equal value earlier finds the later one's value new when it continues from its own")
    func goesOn() throws {
        for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1]] {
            let sent = [Sent(Self.a, ["f": 2], at: 9), Sent(Self.b, ["f": 2], at: 12), Sent(Self.a, ["f": 3], at: 10)]
            #expect(try Self.record(["f": 1], after: order.map { sent[$0] }).data == ["f": 2], "\(order)")
        }
    }

    struct Respelled: Sendable {
        var rule: FieldStrategy
        var old: String
        var new: String
        /// `true` when the spelling stays of a device that had not seen the other's: with the earlier, or with the later stamp.
        var isKept: (earlier: Bool, later: Bool)
    }

    @Test(
        "A value that means the same is stored as it was spelled last",
        arguments: [
            Respelled(rule: .lww, old: "1.5", new: "1.50", isKept: (false, true)),
            Respelled(rule: .lww, old: "0", new: "-0", isKept: (false, true)),
            Respelled(rule: .manual, old: "1.5", new: "1.50", isKept: (false, true)),
            Respelled(rule: .server, old: "1.5", new: "1.50", isKept: (false, false)),
            Respelled(rule: .client, old: "1.5", new: "1.50", isKept: (true, true)),
            Respelled(rule: .lww, old: #"{"a":1.0,"b":[1.0]}"#, new: #"{"a":1,"b":[1]}"#, isKept: (false, true)),
        ])
    func respelled(_ example: Respelled) throws {
        let rules = HubMergeTests.rules(example.rule)
        let (old, new) = (try JSONReader.read(example.old), try JSONReader.read(example.new))
        let seen = try Self.record(["f": old], after: [Sent(Self.a, ["f": new], at: 5)], rules: rules)
        #expect(seen.data?["f"]?.json == example.new && seen.version == 2)
        for (ms, isKept) in [(4, example.isKept.earlier), (6, example.isKept.later)] as [(UInt64, Bool)] {
            // b has spelled it as a has, and a changes it back without having seen that.
            let record = try Self.record(
                ["f": new], after: [Sent(Self.b, ["f": new], at: 5), Sent(Self.a, ["f": old], at: ms)], rules: rules)
            #expect(record.data?["f"]?.json == (isKept ? example.old : example.new))
        }
    }

    @Test("A member that is spelled anew is stored so, beside what others change")
    func respelledMember() throws {
        let rules = HubMergeTests.rules(.merge)
        let old = try JSONReader.read(#"{"a":1.0,"b":1}"#), new = try JSONReader.read(#"{"a":1,"b":1}"#)
        let mine = Sent(Self.a, MutationContent(.update, data: ["f": new], base: ["f": old]), at: 5)
        let theirs = Sent(
            Self.b, MutationContent(.update, data: ["f": try JSONReader.read(#"{"a":1.0,"b":2}"#)], base: ["f": old]), at: 4)
        #expect(try Self.record(["f": old], after: [mine], rules: rules).data?["f"]?.json == #"{"a":1,"b":1}"#)
        for order in Self.orders([mine, theirs]) {
            #expect(try Self.record(["f": old], after: order, rules: rules).data?["f"]?.json == #"{"a":1,"b":2}"#)
        }
    }

    // Fault: the stamp was left out where the removal was the record's last write. A device took the field for one that was never written,
    // kept the value of an earlier creation over the removal, and dropped its own later value.
    @Test("A removed field has its stamp in what devices get, so they decide about it as the hub does", arguments: [90, 900])
    func removed(_ ms: UInt64) throws {
        let removal = Sent(Self.a, MutationContent(.update, unset: ["f"]), at: 800)
        let creation = MutationContent(.create, data: ["f": 2, "h": 2])
        let held = try Self.record(["f": 1, "g": 1], after: [removal]).hubRecord()
        #expect(held?.data == ["g": 1] && held?.fieldHLC?["f"]?.text == MergeCase.stamp(800, Self.a).description)
        let local = Rebase.Local(
            record: MergeCase.name, content: creation, hlc: MergeCase.stamp(ms, Self.b), signature: FieldContestTests.signature)
        let rebased = Rebase.decide(local, against: .init(known: nil, record: held), rules: Self.rules)
        let hub = try Self.record(["f": 1, "g": 1], after: [removal, Sent(Self.b, creation, at: ms, base: 0)])
        #expect(rebased.content.data["h"] == 2 && hub.data?["h"] == 2)
        #expect(rebased.content.data["f"] == (ms > 800 ? 2 : nil) && hub.data?["f"] == (ms > 800 ? 2 : nil))
    }

    @Test("A deletion has not seen what its own device has written over without having seen it")
    func deletionAfterReplacing() throws {
        var rules = EntityRules()
        rules.onDeleted = .updateWins
        let own = [Sent(Self.a, ["f": 3], at: 10), Sent(Self.a, MutationContent(.delete), at: 11)]
        let theirs = Sent(Self.b, ["f": 2], at: 9)
        for order in [[theirs] + own, [own[0], theirs, own[1]], own + [theirs]] {
            let record = try Self.record(["f": 1, "g": 1], after: order, rules: rules)
            #expect(!record.isDeleted && record.data?["f"] == 3, "\(order.map(\.device))")
        }
        // Seen before the deletion, it goes.
        let seen = try Self.record(
            ["f": 1], after: [theirs, own[0], Sent(Self.a, MutationContent(.delete), at: 11, base: 3)], rules: rules)
        #expect(seen.isDeleted)
        // A change of the same device after it counts no less.
        let twice = [theirs, own[0], Sent(Self.a, ["f": 4], at: 11), Sent(Self.a, MutationContent(.delete), at: 12)]
        #expect(try !Self.record(["f": 1], after: twice, rules: rules).isDeleted)
    }
}
