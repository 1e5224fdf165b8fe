package import SyncCore

extension HubInspector {
    /// Reads all that decides whether a device receives a record, as one moment has it.
    ///
    /// - Parameters:
    ///   - tokens: The book of tokens and grants where a file has it; `nil`: the database has it.
    ///   - reader: Reads the entity settings in force.
    /// - Throws: `.badEntities` when this program cannot read the settings.
    package func deliveryFacts(
        of name: RecordName, to device: DeviceID, tokens: TokenBook?, reader: EntityReader, at now: Timestamp
    ) throws(HubError) -> DeliveryFacts {
        let found = try reading { (_) throws(DatabaseError) -> Result<DeliveryFacts, HubError> in
            let newest = try store.newestEntities()
            // Without settings the grants of records are those that the database was made with.
            var (rules, access) = (RuleBook(), AccessBook())
            if let newest {
                switch reader(newest.text, "generation \(newest.number)") {
                case .success(let entities): (rules, access) = (entities.rules, entities.access)
                case .failure(let fault):
                    return .failure(
                        HubError(.badEntities, doing: "use generation \(newest.number) of the entity settings", detail: fault.detail))
                }
            } else {
                access.sources = try store.grantSources()
            }
            var book = tokens ?? TokenBook()
            if tokens == nil { book.apply(try store.tokens(after: -1)) }
            var facts = DeliveryFacts(device, name)
            try store.add(to: &facts, rules, at: now)
            try store.add(to: &facts, access, generation: newest?.number ?? 0, book)
            try store.addStanding(to: &facts, access, book, at: now)
            facts.namesOfDevices = Set(
                facts.scopes.map(\.value).filter { value in
                    DeviceID(value).map { id in access.devices[id] != nil || book.entries.contains { $0.device == id } } ?? false
                })
            return .success(facts)
        }
        return try found.get()
    }
}

extension HubStore {
    /// Largest number of entities without settings that are looked through for one that was probably meant.
    private static let namesMax = 1_000

    /// Adds what concerns the record.
    fileprivate func add(to facts: inout DeliveryFacts, _ rules: RuleBook, at now: Timestamp) throws(DatabaseError) {
        let name = facts.record
        let its = rules.entities[name.entity] ?? EntityRules()
        facts.entity.scope = try scopeIndexes()[name.entity]?.fields
        (facts.entity.kind, facts.entity.keep) = (its.kind, its.keep)
        guard let row = try record(name) else {
            facts.stored = .absent(forgetsDeletions: try horizon(name.entity) > 0)
            if rules.entities[name.entity] != nil || facts.entity.scope != nil { return }
            let known = try entities(atMost: HubStore.namesMax)
            facts.entity.isKnown = known.contains(name.entity)
            let names = Set(known).union(rules.entities.keys).map(\.text).sorted()
            facts.entity.near = nearestName(to: name.entity.text, among: names).flatMap { EntityName($0) }
            return
        }
        facts.scopes = row.scopes
        switch row.content {
        case .failure(let damage): facts.stored = .damaged(version: row.version, detail: damage.detail)
        case .success(let record):
            let change = DeliveryFacts.Change(
                version: row.version, at: try changedAt(name) ?? now, writer: record.stamp.writer, author: record.stamp.author)
            facts.stored = record.isDeleted ? .deleted(change) : .present(change)
            if let document = record.data, let keep = its.keep {
                let changedAt = Int64(clamping: record.stamp.hlc.milliseconds)
                facts.mayBeDropped = keep.forgets(document, changedAt: changedAt, now: now.milliseconds)
            }
        }
    }

    /// The time of a record's last change, or of its deletion, on the hub's clock.
    private func changedAt(_ name: RecordName) throws(DatabaseError) -> Timestamp? {
        try database.first(
            "SELECT updated_at_ms FROM record WHERE entity = ? AND id = ?", .text(name.entity.text), .text(name.id.text)
        ) { Timestamp(milliseconds: $0.int(0)) }
    }

    /// Adds the scopes and roles of the device: the share by the rule that requests are answered by, and the place of each grant.
    fileprivate func add(
        to facts: inout DeliveryFacts, _ access: AccessBook, generation: Int64, _ book: TokenBook
    ) throws(DatabaseError) {
        let device = facts.device
        var further = book.grants(of: device).map { [$0] } ?? []
        var ofRecords: Set<Scope> = []
        if !access.sources.isEmpty {
            ofRecords = Set(try recordGrants(of: device).prefix(DeviceAccess.grantsMax))
            further += ofRecords.map { Grants($0) }
        }
        facts.share = access.share(of: device, adding: further)
        facts.grants = DeliveryFacts.Grant.rights(access.devices[device] ?? Grants(), .settings(generation: generation), access.groups)
        for grant in book.grantHistory(of: device) where grant.revokedAt == nil {
            facts.grants += DeliveryFacts.Grant.rights(Grants([grant.kind]), .command(grant), access.groups)
        }
        facts.takenBack = book.grantHistory(of: device).filter { grant in
            if grant.revokedAt == nil { return false }
            let rights = DeliveryFacts.Grant.rights(Grants([grant.kind]), .command(grant), access.groups)
            return rights.contains { right in
                if case .scope(let scope) = right.right { facts.scopes.contains(scope) } else { false }
            }
        }
        if ofRecords.isEmpty { return }
        for grant in try grantsByRecords(to: device) where ofRecords.contains(grant.scope) {
            facts.grants.append(DeliveryFacts.Grant(.scope(grant.scope), .record(grant.record)))
        }
    }

    /// Adds what the hub knows of the device itself.
    fileprivate func addStanding(
        to facts: inout DeliveryFacts, _ access: AccessBook, _ book: TokenBook, at now: Timestamp
    ) throws(DatabaseError) {
        let id = facts.device
        let seen = try devices(id, at: now).first
        (facts.lastSeen, facts.keepingEntity) = (seen?.lastSeen, seen?.keepingEntity)
        let its = book.entries.filter { $0.device == id }
        switch TokenState(its.filter { $0.use == .device }, at: now) {
        case .valid: facts.standing = .admitted
        case .revoked: facts.standing = .revoked
        case .ended(let end): facts.standing = .expired(end)
        case .none where seen != nil: facts.standing = .admitted
        case .none where its.isEmpty && access.devices[id] == nil && facts.grants.isEmpty:
            let known = Set(try devices(nil, at: now).map(\.id)).union(book.entries.map(\.device)).union(access.devices.keys)
            let near = nearestName(to: id.text, among: known.map(\.text).sorted())
            facts.standing = .unknown(near: near.flatMap { DeviceID($0) })
        case .none:
            let offers = its.filter { $0.use == .enrolment && $0.revokedAt == nil && !$0.isOver(at: now) }
            facts.standing = .noToken(enrolment: offers.compactMap(\.endsAt).max())
        }
    }
}
