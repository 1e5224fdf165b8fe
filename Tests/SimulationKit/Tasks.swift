import SyncCore

/// The entity of the simulated world whose documents devices may drop: tasks that are done.
///
/// A history has minutes and the rules of products have days, so here the age is over at once, and the field alone decides. Tests of the
/// store prove the age.
enum Tasks {
    static let entity = EntityName(trusted: "tasks")

    static func rules(ofHub: Bool) -> EntityRules {
        var rules = EntityRules()
        rules.fields = ["v": .server, "c": .client, "n": .counter, "a": .append]
        rules.onDeleted = .updateWins
        if !ofHub { rules.keep = KeepRule(days: 0, when: ["done": ["yes"]]) }
        return rules
    }

    /// What the rule says, as plainly as PROTOCOL C9 says it. It shares no code with `KeepRule`.
    static func mayBeDropped(_ document: JSONObject) -> Bool { document["done"]?.text == "yes" }
}
