/// What the product owner decided for one entity. The same keys serve agent and hub.
package struct EntityRules: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// Both ways, mutable, in the mirror.
        case record
        /// Append only, device to hub; never merged, coalesced or pulled.
        case event
        /// Hub to device, read only.
        case reference
    }

    package enum RecordStrategy: String, Sendable, CaseIterable {
        /// Each field by its own rule, `lww` where none is given.
        case fields
        case lww, server, client, manual
    }

    package enum OnDeleted: String, Sendable, CaseIterable {
        case deleteWins = "delete_wins"
        case updateWins = "update_wins"
        case manual
    }

    package enum WhenFull: String, Sendable, CaseIterable {
        case reject
        case dropOldest = "drop_oldest"
    }

    package enum Durability: String, Sendable, CaseIterable {
        /// Answered after fsync.
        case flash
        /// Answered at once, on flash within a second.
        case relaxed
    }

    /// What an enqueue does about a document that is not as ``schema`` says. The hub refuses it, unless this is `off`.
    package enum Validation: String, Sendable, CaseIterable {
        case reject
        /// Accepted, and the answer says what is wrong.
        case warn
        case off
    }

    package var kind: Kind = .record
    /// Field of this entity that holds the id of a parent record, and the parent's entity.
    package var refs: [String: EntityName] = [:]
    package var priority: Priority = .normal
    package var strategy: RecordStrategy = .fields
    /// By field; a dotted name is a member of an object whose rule is `merge`.
    package var fields: [String: FieldStrategy] = [:]
    /// Shorthand: these are `manual`, whatever rule the record has.
    package var criticalFields: [String] = []
    /// Characters that a text may get by merging, by field. More than that is a matter for a person.
    package var maxLength: [String: Int] = [:]
    package var onDeleted: OnDeleted = .deleteWins
    /// What a new device gets before all other records.
    package var seedFilter = SeedFilter()
    /// In which orders the mirror keeps the records, beside that of their ids.
    package var declaredIndexes: [RecordIndex]?
    /// Keep what fields had before a change, so that the change can be taken back after it was sent.
    package var declaredUndo: Bool?
    /// How long `done` mutations are kept; `nil` means the general 7 days.
    package var retention: Duration?
    /// An unsent mutation older than this expires; `nil` means never.
    package var ttl: Duration?
    package var whenFull: WhenFull = .reject
    package var durability: Durability = .flash
    /// Unsent edits of one record become one mutation.
    package var coalesces = true
    /// Each edit counts for itself, as in an audit trail: nothing is made into one, whatever ``coalesces`` says.
    package var keepsHistory = false
    package var schema: DocumentSchema?
    package var validation: Validation = .warn
    /// An agent older than this mirrors the entity and lets nobody change it.
    package var minAgent: String?
    /// Place among the entities in a batch; `nil` means that ``refs`` says it.
    package var rank: Int?

    package init() {}

    package var indexes: [RecordIndex] { declaredIndexes ?? [] }
    package var keepsEarlierValues: Bool { declaredUndo ?? false }

    /// The rule of one field.
    package func strategy(of field: String) -> FieldStrategy {
        if !criticalFields.isEmpty, criticalFields.contains(field) { return .manual }
        return switch strategy {
        case .fields: fields[field] ?? .lww
        case .lww: .lww
        case .server: .server
        case .client: .client
        case .manual: .manual
        }
    }
}

extension EntityRules {
    /// Whether any field is decided by people when two sides have changed it.
    package var mayAskPeople: Bool {
        strategy == .manual || !criticalFields.isEmpty || (strategy == .fields && fields.values.contains(.manual))
    }

    /// Whether any field is merged member by member.
    package var mergesObjects: Bool { strategy == .fields && fields.values.contains(.merge) }

    /// What becomes of a change and a deletion of one record that have not seen each other (PROTOCOL D4).
    package enum AfterDeletion: Hashable, Sendable {
        /// The record is gone, whichever came first.
        case rejected
        /// The record is there, whichever came first.
        case comesBack
        case undecided
    }

    /// A person decides about a deletion when the entity says so, and when a field is touched that only people decide.
    ///
    /// - Parameter fields: Those that the change touches.
    package func afterDeletion(changing fields: some Sequence<String>) -> AfterDeletion {
        if onDeleted == .updateWins { return .comesBack }
        return onDeleted == .manual || fields.contains { strategy(of: $0) == .manual } ? .undecided : .rejected
    }

    /// The hub keeps the document of a deleted record, as what comes later may bring it back.
    package var keepsDeleted: Bool { kind == .record && onDeleted != .deleteWins }
}

/// How two sides that changed one field are brought together.
package enum FieldStrategy: String, Sendable, CaseIterable {
    /// The higher stamp wins.
    case lww
    /// The hub's value stays.
    case server
    /// The device's value overwrites.
    case client
    case merge, append, counter, set, max, min, manual

    /// Goes one way only: what does not beat the present value changes nothing.
    package var isExtreme: Bool { self == .max || self == .min }

    /// Something of both sides is kept, so that the order of arrival does not matter.
    package var addsUp: Bool {
        switch self {
        case .append, .counter, .set, .max, .min: true
        case .lww, .server, .client, .merge, .manual: false
        }
    }
}

/// The rules of all entities.
package struct RuleBook: Hashable, Sendable {
    package var entities: [EntityName: EntityRules]
    /// Refuse mutations of entities that are not configured.
    package var isStrict: Bool

    package init(_ entities: [EntityName: EntityRules] = [:], isStrict: Bool = false) {
        self.entities = entities
        self.isStrict = isStrict
    }

    /// - Returns: The default rules for an entity that is not configured, or `nil` when the book is strict.
    package subscript(entity: EntityName) -> EntityRules? {
        entities[entity] ?? (isStrict ? nil : EntityRules())
    }
}
