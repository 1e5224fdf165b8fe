/// A guarantee of a hub that an existing backend cannot give, as far as the mapping shows. `agentctl doctor` reports it, and it is in the
/// manual.
package struct RestWeakness: Hashable, Sendable, CustomStringConvertible {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A create whose answer is lost is parked for a person.
        case creationParked
        /// A change whose answer is lost is parked for a person.
        case changeParked
        /// A change may overwrite what another writer has just written.
        case unconditional
        /// Counts, texts to append and sets are sent as plain values.
        case operationsAsValues
        /// Changes of others are found by their time alone.
        case listedByTime
        /// Every pull lists everything.
        case listedWhole
        /// Deletions by others are noticed only with the next complete listing.
        case lateDeletions
        /// No data of the backend is read.
        case notListed
    }

    package var entity: EntityName
    package var kind: Kind

    package init(_ entity: EntityName, _ kind: Kind) {
        self.entity = entity
        self.kind = kind
    }

    package static func list(_ mapping: RestMapping, _ rules: RuleBook) -> [RestWeakness] {
        mapping.entities.sorted { $0.key < $1.key }.flatMap { name, entity in
            kinds(entity, rules[name] ?? EntityRules(), hasKey: mapping.key(of: name) != nil).map { RestWeakness(name, $0) }
        }
    }

    private static func kinds(_ entity: RestEntity, _ rules: EntityRules, hasKey: Bool) -> [Kind] {
        var kinds: [Kind] = []
        if let create = entity.create, !hasKey, !create.isIdempotent, entity.lookup == nil { kinds.append(.creationParked) }
        if let update = entity.update {
            if !hasKey, !update.isIdempotent, entity.read == nil { kinds.append(.changeParked) }
            if !update.ifMatch {
                kinds.append(.unconditional)
                if rules.fields.values.contains(where: \.addsUp) { kinds.append(.operationsAsValues) }
            }
        }
        guard rules.kind != .event else { return kinds }
        guard let list = entity.list else { return kinds + [.notListed] }
        kinds.append(list.cursorFrom == nil ? .listedWhole : .listedByTime)
        if list.cursorFrom != nil, list.deleted == nil { kinds.append(.lateDeletions) }
        return kinds
    }

    package var description: String {
        switch kind {
        case .creationParked: "\(entity): a creation whose answer is lost is parked (held: outcome-unknown)"
        case .changeParked: "\(entity): a change whose answer is lost is parked (held: outcome-unknown)"
        case .unconditional: "\(entity): a change may overwrite what another client wrote a moment before"
        case .operationsAsValues: "\(entity): counts, appended texts and sets are sent as plain values (as with strategy client)"
        case .listedByTime:
            "\(entity): changes of others are found by their time, with an overlap; one that shows later is found by the weekly listing"
        case .listedWhole: "\(entity): every pull lists everything"
        case .lateDeletions: "\(entity): deletions of others are found by the weekly listing only"
        case .notListed: "\(entity): nothing of others comes here"
        }
    }

    /// The configuration key that would remove the weakness; `nil`: only a hub would.
    package var remedy: String? {
        switch kind {
        case .creationParked: "map lookup and client_id, or idempotency if the backend knows such a header"
        case .changeParked: "map read, or idempotency if the backend knows such a header"
        case .unconditional, .operationsAsValues: "set update.if_match if the backend honours If-Match"
        case .listedWhole: "map list.cursor_from if the backend can list by time of change"
        case .lateDeletions: "map list.deleted if the backend shows what was deleted"
        case .notListed: "map list"
        case .listedByTime: nil
        }
    }

    /// `true` when a person may have to act, or data may be lost, because of it.
    package var isGrave: Bool {
        switch kind {
        case .creationParked, .changeParked, .unconditional, .operationsAsValues: true
        case .listedByTime, .listedWhole, .lateDeletions, .notListed: false
        }
    }
}
