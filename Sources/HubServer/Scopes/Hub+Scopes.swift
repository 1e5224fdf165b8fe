import SyncCore

// The records that a device receives, and the changes that it may make (PROTOCOL A16).
extension Hub {
    /// The scopes and roles of a device as the present transaction sees them; `nil` where the hub shares nothing out.
    func share(of device: DeviceID) throws(DatabaseError) -> DeviceAccess? {
        guard settings.sharesOut else { return nil }
        if store.group?.changesGrants == true {
            // Gathered writes are not visible to the reads below until they are flushed.
            if store.isDeciding { throw store.lockNeeded("a grant that the same transaction changes") }
            try flush()
        }
        var grants: [Grants] = settings.tokens?.grants(of: device).map { [$0] } ?? []
        if !settings.access.sources.isEmpty { grants += try recordGrants(of: device).map { Grants($0) } }
        var access = settings.access
        if settings.ablations.contains(.groupsIgnored) { access.groups = [:] }
        let share = access.share(of: device, adding: grants)
        #if ABLATIONS
            if settings.ablations.contains(.grantsReadBefore) {
                defer { sharesBefore[device] = share }
                return sharesBefore[device] ?? share
            }
        #endif
        return share
    }

    /// The scopes that records grant to a device, as far as they count. The operator learns of more, once for each time that they become
    /// too many. A connection that only reads tells nothing: every device greets once a day, and that comes to the one that writes.
    private func recordGrants(of device: DeviceID) throws(DatabaseError) -> ArraySlice<Scope> {
        let granted = try store.recordGrants(of: device)
        if granted.count <= DeviceAccess.grantsMax {
            overGranted.remove(device)
        } else if !onlyReads {
            notices.append(.overGranted(device))
        }
        return granted.prefix(DeviceAccess.grantsMax)
    }

    /// The scopes of a record that is about to be written; `nil` where its entity has none, and gives no grants.
    ///
    /// - Parameter before: The stored row; `nil`: there is none.
    func scopeChange(of name: RecordName, from before: HubStore.RecordRow?, to data: JSONObject?) -> ScopeChange? {
        settings.scopeChange(of: name, before: before?.scopes ?? [], to: data)
    }

    /// Compares the rows of scopes with the rules, and makes those anew that were made under other rules. With many records of the entity
    /// this keeps all writers waiting for a while.
    func renewOldScopes() throws(HubError) {
        do throws(DatabaseError) {
            if settings.scopesOfDatabase == .adopted { return try adoptScopes() }
            if try areScopesCurrent() { return try readScopeIndexes() }
        } catch {
            throw HubError(error)
        }
        try transact { () throws(DatabaseError) in try makeScopes() }
    }

    private func areScopesCurrent() throws(DatabaseError) -> Bool {
        let indexes = try store.scopeIndexes()
        return try store.areGrants(of: settings.access.sources)
            && Set(indexes.keys).union(settings.scopedEntities).allSatisfy {
                indexes[$0]?.isCurrent(under: settings.rules[$0] ?? EntityRules()) ?? false
            }
    }

    /// Makes the rows of scopes within the present transaction, where they were made under other rules.
    func makeScopes() throws(DatabaseError) {
        if settings.scopesOfDatabase == .adopted { return try adoptScopes() }
        let indexes = try store.scopeIndexes()
        for name in Set(indexes.keys).union(settings.scopedEntities).sorted() {
            let rules = settings.rules[name] ?? EntityRules()
            guard indexes[name]?.isCurrent(under: rules) != true else { continue }
            if let index = indexes[name], index.fields == rules.scope {
                try store.renewScopes(of: name, rules, from: index)
                continue
            }
            // A forgotten option must not hand the records of one customer to another.
            guard rules.isScoped || settings.scopesOfDatabase == .dropped else {
                let scope = indexes[name]?.fields.joined(separator: ", ") ?? ""
                throw DatabaseError(
                    rulesOf: name,
                    "these settings have no scope for it, and its records are shared out by \(scope). To keep the scope, add "
                        + "scope: [\(scope)] to the entity; to end it and give all records to all devices, use --drop-scopes")
            }
            try store.buildScopes(of: name, rules)
        }
        if try !store.areGrants(of: settings.access.sources) {
            try store.buildGrants(of: settings.access.sources)
            try store.keep(settings.access.sources)
        }
        if !settings.scopedEntities.isEmpty { try store.database.require(.scopes) }
        try readScopeIndexes()
    }

    func readScopeIndexes() throws(DatabaseError) {
        scopeIndexes = try store.scopeIndexes()
        scopeGeneration = try store.database.number("SELECT coalesce(max(generation), 0) FROM scope_index")
    }

    /// Reads which entities have scopes after another replica has changed them.
    func readScopes() throws(DatabaseError) {
        if state.scopes != scopeGeneration { try adoptScopes() }
    }

    private func adoptScopes() throws(DatabaseError) {
        try readScopeIndexes()
        if settings.scopesOfDatabase == .adopted { settings.access.sources = try store.grantSources() }
        for (name, index) in scopeIndexes {
            // The rows are those of the other replica's fields, so its fields count.
            var rules = settings.rules[name] ?? EntityRules()
            guard rules.scope != index.fields else { continue }
            rules.declaredScope = index.fields
            settings.rules.entities[name] = rules
        }
        for name in settings.rules.entities.keys where scopeIndexes[name] == nil { settings.rules.entities[name]?.declaredScope = nil }
    }

    /// A text that changes whenever the scopes or roles of the device do.
    func mark(of share: DeviceAccess) -> String {
        let text = "\(scopeGeneration) \(JSON.object(share.told.json).json)"
        return Base64URL.encode(Array(SHA256.authenticate(Array(text.utf8), key: state.secret).prefix(6)))
    }
}

extension Hub.Settings {
    fileprivate var scopedEntities: [EntityName] { rules.entities.filter { $1.isScoped }.map(\.key) }

    static func shareOut(_ rules: RuleBook) -> Bool {
        rules.entities.values.contains { $0.isScoped || $0.write != .scope || !$0.fieldRights.isEmpty }
    }

    /// - Parameter last: The last scopes of a record that is deleted, if the database does not have them yet.
    func scopeChange(of name: RecordName, before: [Scope], last: [Scope]? = nil, to data: JSONObject?) -> ScopeChange? {
        let rules = rules[name.entity] ?? EntityRules()
        let sources = access.sources.filter { $0.entity == name.entity }
        guard rules.isScoped || !sources.isEmpty else { return nil }
        var change = ScopeChange(before: before, last: last ?? before, data: data, rules: rules)
        if !sources.isEmpty { change.grants = data.map { data in sources.flatMap { $0.grants(of: data) } } ?? [] }
        return change
    }
}

extension HubStore {
    /// The sources that the present grants of records were made from; none when the text is damaged: then the grants are made anew.
    func grantSources() throws(DatabaseError) -> [GrantSource] { try grantIndex().sources }

    /// Returns whether the present grants of records were made from all of these sources.
    func areGrants(of sources: [GrantSource]) throws(DatabaseError) -> Bool {
        let index = try grantIndex()
        return index.sources == sources && (index.isWhole || !HubStore.haveOneEntity(sources))
    }

    private func grantIndex() throws(DatabaseError) -> (sources: [GrantSource], isWhole: Bool) {
        try database.all("SELECT fields FROM scope_index WHERE entity = ''") { row in
            let parts = (try? JSONReader.read(row.text(0)))?.array ?? []  // The grants are made anew.
            return (parts.compactMap { HubStore.source($0) }, parts.contains { $0.int == HubStore.wholeMark })
        }.first ?? ([], false)
    }

    func keep(_ sources: [GrantSource]) throws(DatabaseError) {
        let mark: [JSON] = HubStore.haveOneEntity(sources) ? [.int(HubStore.wholeMark)] : []
        let text = JSON.array(sources.map { JSON.list([$0.entity.text, $0.device, $0.scope]) } + mark).json
        try database.run(
            """
            INSERT INTO scope_index(entity, fields, generation) VALUES('', ?1, 0)
            ON CONFLICT(entity) DO UPDATE SET fields = excluded.fields
            """, .text(text))
    }

    /// Stands behind the sources where several have one entity. Earlier programs made the grants of the last of them alone; they did not
    /// write the mark, and skip it.
    private static let wholeMark: Int64 = 1

    private static func haveOneEntity(_ sources: [GrantSource]) -> Bool { Set(sources.map(\.entity)).count < sources.count }

    private static func source(_ json: JSON) -> GrantSource? {
        let parts = (json.array ?? []).compactMap(\.text)
        guard parts.count == 3, let entity = EntityName(parts[0]) else { return nil }
        return GrantSource(entity: entity, device: parts[1], scope: parts[2])
    }
}
