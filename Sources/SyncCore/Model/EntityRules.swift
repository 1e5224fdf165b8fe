/// The product owner's rules for one entity. The agent and the hub use the same keys.
package struct EntityRules: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// Synchronised in both directions, mutable, and in the mirror.
        case record
        /// Append only, from device to hub; never merged, coalesced or pulled.
        case event
        /// From hub to device, read only.
        case reference
    }

    package enum RecordStrategy: String, Sendable, CaseIterable {
        /// Each field by its own rule, `lww` where there is none.
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
        /// Answered after the fsync.
        case flash
        /// Answered at once, on flash within a second.
        case relaxed
    }

    /// The treatment of a document that violates ``schema`` at enqueue. The hub refuses it, unless this is `off`.
    package enum Validation: String, Sendable, CaseIterable {
        case reject
        /// Accepted; the answer lists the violations.
        case warn
        case off
    }

    package var kind: Kind = .record
    /// Parent entity by the field of this entity that holds the parent's id.
    package var refs: [String: EntityName] = [:]
    package var priority: Priority = .normal
    package var strategy: RecordStrategy = .fields
    /// Rule by field; a dotted name is a member of an object whose rule is `merge`.
    package var fields: [String: FieldStrategy] = [:]
    /// Shorthand: these fields are `manual`, whatever rule the record has.
    package var criticalFields: [String] = []
    /// Largest length of a text after merging, characters, by field. Beyond that, a person decides.
    package var maxLength: [String: Int] = [:]
    package var onDeleted: OnDeleted = .deleteWins
    /// Fields whose values name the scopes of a record (``Scope``).
    package var declaredScope: [String]?
    package var declaredWrite: WriteRight?
    /// Rights to change single fields, by field.
    package var fieldRights: [String: FieldRight] = [:]
    /// Selects the records that a new device gets before all others.
    package var seedFilter = SeedFilter()
    /// Orders in which the mirror keeps the records, besides the order of their ids.
    package var declaredIndexes: [RecordIndex]?
    /// Keep the former values of fields, so that a change can be undone after it was sent.
    package var declaredUndo: Bool?
    /// Selects the documents that a device may drop; `nil`: none.
    package var keep: KeepRule?
    /// Time after which the hub removes an accepted event; `nil`: never. Only for events, and only the hub goes by it.
    package var keepEvents: Duration?
    /// When the files that the records show come to this device.
    package var declaredFiles: FileFetch?
    /// Retention of `done` mutations; `nil` means the general 7 days.
    package var retention: Duration?
    /// Age at which an unsent mutation expires; `nil` means never.
    package var ttl: Duration?
    package var whenFull: WhenFull = .reject
    package var durability: Durability = .flash
    /// Unsent edits of one record are merged into one mutation.
    package var coalesces = true
    /// Each edit counts for itself, as in an audit trail: edits are never merged, whatever ``coalesces`` says.
    package var keepsHistory = false
    package var schema: DocumentSchema?
    /// The versions of ``schema``, which is the present one of them; `nil`: it has none.
    package var versions: SchemaVersions? {
        didSet { if let versions { schema = versions.schema } }
    }
    /// The version in which apps of this device write and read, unless they say another one; `nil`: the present one.
    package var appVersion: Int?
    package var validation: Validation = .warn
    /// The fields by which a record names the form that it is judged by.
    package var form: FormSettings?
    /// Selects the records that may lack nothing of their form.
    package var complete: CompleteRule?
    /// Oldest agent that may change the entity; an older one mirrors it read-only.
    package var minAgent: String?
    /// Place among the entities in a batch; `nil` means that it follows from ``refs``.
    package var rank: Int?

    package init() {}

    package var indexes: [RecordIndex] { declaredIndexes ?? [] }
    /// Empty: every device receives the records.
    package var scope: [String] { declaredScope ?? [] }
    package var write: WriteRight { declaredWrite ?? .scope }
    package var keepsEarlierValues: Bool { declaredUndo ?? false }
    package var files: FileFetch { declaredFiles ?? .onDemand }

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
    /// `true` when people decide any field that two sides have changed.
    package var mayAskPeople: Bool {
        strategy == .manual || !criticalFields.isEmpty || (strategy == .fields && fields.values.contains(.manual))
    }

    /// `true` when any field is merged member by member.
    package var mergesObjects: Bool { strategy == .fields && fields.values.contains(.merge) }

    /// The result of a change and a deletion of one record that have not seen each other (PROTOCOL D4).
    package enum AfterDeletion: Hashable, Sendable {
        /// The record is deleted, whichever came first.
        case rejected
        /// The record stays, whichever came first.
        case comesBack
        case undecided
    }

    /// Decides between a change and a deletion. A person decides when the entity says so, and when the change touches a field that people
    /// decide.
    ///
    /// - Parameter fields: The fields that the change touches.
    package func afterDeletion(changing fields: some Sequence<String>) -> AfterDeletion {
        if onDeleted == .updateWins { return .comesBack }
        return onDeleted == .manual || fields.contains { strategy(of: $0) == .manual } ? .undecided : .rejected
    }

    /// `true` when the hub keeps the document of a deleted record, because a later change may bring it back.
    package var keepsDeleted: Bool { kind == .record && onDeleted != .deleteWins }
}

/// The rules of an entity for one field.
package struct FieldSettings: Hashable, Sendable {
    package var strategy: FieldStrategy?
    package var right: FieldRight?

    package init(strategy: FieldStrategy? = nil, right: FieldRight? = nil) {
        self.strategy = strategy
        self.right = right
    }
}

extension EntityRules {
    /// ``fields`` and ``fieldRights`` together.
    package var fieldSettings: [String: FieldSettings] {
        get {
            fields.mapValues { FieldSettings(strategy: $0) }
                .merging(fieldRights.mapValues { FieldSettings(right: $0) }) { FieldSettings(strategy: $0.strategy, right: $1.right) }
        }
        set {
            fields = newValue.compactMapValues(\.strategy)
            fieldRights = newValue.compactMapValues(\.right)
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
