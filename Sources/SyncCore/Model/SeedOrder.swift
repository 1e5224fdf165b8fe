extension RuleBook {
    /// The order in which a new device reads all entities: reference entities first, then parents before their children, then by name. An
    /// early record finds the records that it refers to.
    package func seedOrder(of entities: some Sequence<EntityName>) -> [EntityName] {
        let wanted = Set(entities)
        let byName = wanted.sorted()
        let references = Set(byName.filter { self[$0]?.kind == .reference })
        var order: [EntityName] = []
        var seen: Set<EntityName> = []
        // Parents may form rings: an entity that was visited already is skipped.
        func visit(_ entity: EntityName) {
            guard wanted.contains(entity), seen.insert(entity).inserted else { return }
            if let refs = self[entity]?.refs, !refs.isEmpty { for parent in Set(refs.values).sorted() { visit(parent) } }
            order.append(entity)
        }
        for entity in byName where references.contains(entity) { visit(entity) }
        for entity in byName { visit(entity) }
        return order.filter { references.contains($0) } + order.filter { !references.contains($0) }
    }
}
