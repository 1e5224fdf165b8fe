import SyncCore
import Testing

/// PROTOCOL C6: the order inside a batch.
@Suite("Batch order")
struct BatchOrderTests {
    private static let book: RuleBook = {
        var area = EntityRules(), room = EntityRules(), finding = EntityRules(), note = EntityRules()
        room.refs = ["area": EntityName(trusted: "area")]
        finding.refs = ["room": EntityName(trusted: "room"), "above": EntityName(trusted: "finding")]
        note.rank = 0
        note.refs = ["finding": EntityName(trusted: "finding")]
        area.priority = .normal
        return RuleBook([
            EntityName(trusted: "area"): area, EntityName(trusted: "room"): room, EntityName(trusted: "finding"): finding,
            EntityName(trusted: "note"): note,
        ])
    }()

    private func place(_ entity: String, _ action: MutationAction, _ seq: Int64, _ priority: Priority = .normal) -> BatchPlace {
        BatchPlace(
            priority: priority, action: action, entity: EntityName(trusted: entity), seq: seq, ranks: EntityRanks(Self.book))
    }

    @Test(
        "An entity stands below its deepest parent; its own tree does not count, and a given rank does",
        arguments: [
            ("area", 0), ("room", 1), ("finding", 2), ("note", 0), ("unknown", 0),
        ])
    func ranks(_ entity: String, _ rank: Int) {
        #expect(EntityRanks(Self.book)[EntityName(trusted: entity)] == rank)
    }

    @Test("A circle, which no configuration may have, ends all the same")
    func circle() {
        var a = EntityRules(), b = EntityRules()
        a.refs = ["b": EntityName(trusted: "b")]
        b.refs = ["a": EntityName(trusted: "a")]
        let ranks = EntityRanks(RuleBook([EntityName(trusted: "a"): a, EntityName(trusted: "b"): b]))
        #expect(ranks[EntityName(trusted: "a")] != ranks[EntityName(trusted: "b")])
    }

    struct Pair: CustomTestStringConvertible, Sendable {
        var rule: String
        var first: (String, MutationAction, Int64, Priority)
        var second: (String, MutationAction, Int64, Priority)
        var testDescription: String { rule }
    }

    @Test(
        "Each rule outranks the next",
        arguments: [
            Pair(rule: "priority before action", first: ("room", .delete, 9, .critical), second: ("area", .create, 1, .normal)),
            Pair(rule: "creates before updates", first: ("finding", .create, 9, .normal), second: ("area", .update, 1, .normal)),
            Pair(rule: "updates before deletes", first: ("finding", .update, 9, .normal), second: ("area", .delete, 1, .normal)),
            Pair(rule: "parents are created before children", first: ("area", .create, 9, .normal), second: ("room", .create, 1, .normal)),
            Pair(rule: "children are deleted before parents", first: ("room", .delete, 9, .normal), second: ("area", .delete, 1, .normal)),
            Pair(rule: "entity by entity", first: ("area", .create, 9, .normal), second: ("note", .create, 1, .normal)),
            Pair(rule: "in the order they were made", first: ("area", .create, 1, .normal), second: ("area", .create, 2, .normal)),
        ])
    func order(_ pair: Pair) {
        let first = place(pair.first.0, pair.first.1, pair.first.2, pair.first.3)
        let second = place(pair.second.0, pair.second.1, pair.second.2, pair.second.3)
        #expect(first < second)
        #expect(!(second < first))
    }
}
