import SyncCore

/// The entity whose documents devices may drop: tasks that are done. In histories with scopes, devices also drop orders that are done.
///
/// The age of the rule is over at once, because products use days and a history lasts minutes. Only the field decides here. Tests of the
/// store cover the age.
enum Tasks {
    static let entity = EntityName(trusted: "tasks")
    static let rule = KeepRule(days: 0, when: ["done": ["yes"]])

    /// Entities of which devices drop documents.
    static func dropped(_ extras: Entities.Extras) -> [EntityName] {
        guard extras.keeps else { return [] }
        if extras.hasSharesAlone { return [Shares.orders] }
        return extras.sharesOut ? [Shares.orders, entity] : [entity]
    }

    static func rules(ofHub: Bool) -> EntityRules {
        var rules = EntityRules()
        rules.fields = ["v": .server, "c": .client, "n": .counter, "a": .append]
        rules.onDeleted = .updateWins
        if !ofHub { rules.keep = rule }
        return rules
    }

    /// Applies the rule as plainly as PROTOCOL C9 states it. It shares no code with `KeepRule`.
    static func mayBeDropped(_ document: JSONObject) -> Bool { document["done"]?.text == "yes" }
}
