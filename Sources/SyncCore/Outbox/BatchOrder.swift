/// The order of mutations inside one batch (PROTOCOL C6): by priority; creates before updates before deletes; parents
/// before children, for deletes children before parents; entity by entity; and then in the order in which they were made.
///
/// The hub applies a batch from front to back, so whatever has to be there first stands further in front. Where this order
/// contradicts that of a record, or a dependency, as when a record is deleted and made anew, the later one waits for the
/// next batch. So the place of a mutation is known from itself alone, and nothing has to be sorted out between them.
package struct BatchPlace: Hashable, Comparable, Sendable {
    package var priority: Priority
    package var step: Step
    /// Entities further in front first; see ``EntityRanks``.
    package var rank: Int
    package var entity: EntityName
    package var seq: Int64

    package enum Step: Int, Sendable, Comparable {
        case create, update, delete

        package static func < (left: Step, right: Step) -> Bool { left.rawValue < right.rawValue }
    }

    package init(priority: Priority, action: MutationAction, entity: EntityName, seq: Int64, ranks: EntityRanks) {
        self.priority = priority
        switch action {
        case .create: step = .create
        case .update: step = .update
        case .delete: step = .delete
        }
        // Whoever is deleted must not have children any more.
        rank = action == .delete ? -ranks[entity] : ranks[entity]
        self.entity = entity
        self.seq = seq
    }

    package static func < (left: BatchPlace, right: BatchPlace) -> Bool {
        if left.priority != right.priority { return left.priority < right.priority }
        if left.step != right.step { return left.step < right.step }
        if left.rank != right.rank { return left.rank < right.rank }
        if left.entity != right.entity { return left.entity < right.entity }
        return left.seq < right.seq
    }
}

/// How deep each entity stands below the others: 0 without parents, one more than the deepest parent otherwise.
package struct EntityRanks: Hashable, Sendable {
    private let ranks: [EntityName: Int]

    /// A rank that the book gives counts as it is. Circles, which the configuration refuses, end at some depth.
    package init(_ book: RuleBook) {
        var ranks: [EntityName: Int] = [:]
        func rank(of entity: EntityName, _ above: Set<EntityName>) -> Int {
            if let known = ranks[entity] { return known }
            let rules = book.entities[entity]
            // A tree of records of one entity has no rank of its own inside; its order is that of its dependencies.
            let parents = Set(rules?.refs.values.map { $0 } ?? []).subtracting(above).subtracting([entity])
            let deepest = parents.map { rank(of: $0, above.union([entity])) }.max()
            let found = rules?.rank ?? deepest.map { $0 + 1 } ?? 0
            ranks[entity] = found
            return found
        }
        for entity in book.entities.keys.sorted() { _ = rank(of: entity, []) }
        self.ranks = ranks
    }

    package subscript(entity: EntityName) -> Int { ranks[entity] ?? 0 }
}
