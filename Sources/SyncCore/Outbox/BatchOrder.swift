/// The order of mutations inside one batch (PROTOCOL C6): by priority; creates before updates before deletes; parents before children, for
/// deletes children before parents; by entity; and then in the order in which they were made.
///
/// The hub applies a batch from front to back, so a mutation that must be there first is further in front. If this order contradicts that
/// of a record, or a dependency, as when a record is deleted and made again, the later mutation waits for the next batch. So the place of a
/// mutation follows from itself alone, without comparing it with others.
package struct BatchPlace: Hashable, Comparable, Sendable {
    package var priority: Priority
    package var step: Step
    /// Rank of the entity, lowest first; see ``EntityRanks``.
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
        // A deleted parent must not have children any more.
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

/// The depth of each entity below its parents: 0 without parents, otherwise one more than the deepest parent.
package struct EntityRanks: Hashable, Sendable {
    private let ranks: [EntityName: Int]

    /// Computes the ranks; a rank in the book is used unchanged. Circles, which the configuration refuses, end at some depth.
    package init(_ book: RuleBook) {
        var ranks: [EntityName: Int] = [:]
        func rank(of entity: EntityName, _ above: Set<EntityName>) -> Int {
            if let known = ranks[entity] { return known }
            let rules = book.entities[entity]
            // A tree of records of one entity has no ranks inside; its order is that of its dependencies.
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
