import SyncCore

/// The entity of the simulated world whose documents devices may drop: tasks that are done. Where records are shared out as well, orders
/// that are done go, too.
///
/// A history has minutes and the rules of products have days, so here the age is over at once, and the field alone decides. Tests of the
/// store prove the age.
enum Tasks {
    static let entity = EntityName(trusted: "tasks")
    static let rule = KeepRule(days: 0, when: ["done": ["yes"]])

    /// The entities of which devices drop documents.
    static func dropped(_ extras: Entities.Extras) -> [EntityName] {
        extras.keeps ? extras.sharesOut ? [Shares.orders, entity] : [entity] : []
    }

    static func rules(ofHub: Bool) -> EntityRules {
        var rules = EntityRules()
        rules.fields = ["v": .server, "c": .client, "n": .counter, "a": .append]
        rules.onDeleted = .updateWins
        if !ofHub { rules.keep = rule }
        return rules
    }

    /// What the rule says, as plainly as PROTOCOL C9 says it. It shares no code with `KeepRule`.
    static func mayBeDropped(_ document: JSONObject) -> Bool { document["done"]?.text == "yes" }
}
