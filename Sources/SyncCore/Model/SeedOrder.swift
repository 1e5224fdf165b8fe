extension RuleBook {
    /// The order in which a device that knows nothing learns everything: what it looks things up in first, then parents
    /// before their children, then by name. Whoever reads a record early finds what it refers to.
    package func seedOrder(of entities: some Sequence<EntityName>) -> [EntityName] {
        var order: [EntityName] = []
        var seen: Set<EntityName> = []
        let wanted = Set(entities)
        // Rings are possible among parents: whoever is on the way already is not visited again.
        func visit(_ entity: EntityName) {
            guard wanted.contains(entity), seen.insert(entity).inserted else { return }
            for parent in Set((self[entity]?.refs ?? [:]).values).sorted() { visit(parent) }
            order.append(entity)
        }
        let isReference = { (entity: EntityName) in self[entity]?.kind == .reference }
        for entity in wanted.filter(isReference).sorted() { visit(entity) }
        for entity in wanted.sorted() { visit(entity) }
        let references = order.filter(isReference)
        return references + order.filter { !isReference($0) }
    }
}
