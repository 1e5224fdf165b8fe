import SyncCore

/// The versions of schemas in which one device writes and reads, by entity (PROTOCOL D7). Each view is made when it is first needed.
struct SchemaViews {
    private let schemas: SchemaNumbers
    private let rules: RuleBook
    private let ablations: Ablations
    private var made: [EntityName: Result<SchemaView, Problem>] = [:]

    init(_ schemas: SchemaNumbers, _ rules: RuleBook, ablations: Ablations = .none) {
        self.schemas = schemas
        self.rules = rules
        self.ablations = ablations
    }

    /// The view of an entity, or the reason why the device cannot be shown its records.
    subscript(entity: EntityName) -> Result<SchemaView, Problem> {
        mutating get {
            if let view = made[entity] { return view }
            let view = Result { () throws(Problem) in
                try SchemaView(schemas[entity], rules[entity] ?? EntityRules(), of: entity, ablations: ablations)
            }
            made[entity] = view
            return view
        }
    }

    /// Converts a change into the present version of its entity.
    ///
    /// - Parameter present: The record of the hub.
    /// - Throws: `schema-too-old` when the hub does not accept the version in which the change was written.
    mutating func lift(_ mutation: inout IncomingMutation, over present: JSONObject?) throws(Problem) {
        let entity = mutation.record.entity
        var view = try self[entity].get()
        if let own = mutation.schema, own != view.version { view = try SchemaView(own, rules[entity] ?? EntityRules(), of: entity) }
        if ablations.contains(.changesUnlifted) { return }
        mutation.content = view.lift(mutation.content, over: present)
    }
}
