extension RuleBook {
    /// The order in which a new device reads all entities: reference entities first, then parents before their children, then by name. An
    /// early record finds the records that it refers to.
    package func seedOrder(of entities: some Sequence<EntityName>) -> [EntityName] {
        var order: [EntityName] = []
        var seen: Set<EntityName> = []
        let wanted = Set(entities)
        // Parents may form rings: an entity that was visited already is skipped.
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
