import SyncCore

/// The codes of scopes in the database and in cursors: 48 bits that only a holder of the hub's secret can compute.
///
/// Two scopes may have one code. The scopes of each record are therefore compared as texts before anything of it is sent.
struct ScopeCodes {
    private var secret: [UInt8]
    private var known: [Scope: Int64] = [:]

    init(secret: [UInt8]) {
        self.secret = secret
    }

    mutating func use(_ secret: [UInt8]) {
        if secret != self.secret { self = ScopeCodes(secret: secret) }
    }

    mutating func code(_ scope: Scope) -> Int64 {
        if let code = known[scope] { return code }
        if known.count >= ScopeCodes.knownMax { known = [:] }
        let bytes = SHA256.authenticate(Array("scope/\(scope.field)/\(scope.value)".utf8), key: secret)
        let code = bytes.prefix(6).reduce(0) { $0 << 8 | Int64($1) }
        known[scope] = code
        return code
    }

    private static let knownMax = 10_000
}

/// The scopes of a record before and after a change.
struct ScopeChange {
    var before: [Scope]
    var after: [Scope]
    var isDeletion: Bool
    /// The feed has events neither for their device nor for others.
    var isInFeed: Bool
    /// The grants of the record, where its entity is a source of grants.
    var grants: [(device: DeviceID, scope: Scope)]?

    /// - Parameters:
    ///   - before: Scopes of the stored record.
    ///   - last: Its scopes right before this change; a deletion keeps them.
    init(before: [Scope], last: [Scope], data: JSONObject?, rules: EntityRules) {
        self.before = before
        after = data.map { rules.scopes(of: $0) } ?? last
        isDeletion = data == nil
        isInFeed = rules.kind != .event
    }
}

/// The place of a record in a scope.
enum ScopeState: Int64 {
    case present = 0
    case deleted = 1
    /// The record has left the scope.
    case left = 2

    /// Test of the column `record_scope.state` for records that are in the scope.
    static let isPresentInSQL = "state = \(present.rawValue)"
    /// The opposite test, as the index `record_scope_past` has it.
    static let isPastInSQL = "state <> \(present.rawValue)"
}

/// A record in the feed of a scope.
struct ScopeRow {
    var id: RecordID
    /// The commit of its last change in the scope, or of its leaving.
    var version: Int64
    var state: ScopeState
    /// The commit in which it first came there, where that was asked for.
    var since: Int64?
}

extension WriteGroup {
    struct ScopeName: Hashable, Comparable {
        var entity: EntityName
        var scope: Int64
        var id: RecordID

        static func < (a: ScopeName, b: ScopeName) -> Bool {
            (a.entity.text, a.scope, a.id.text) < (b.entity.text, b.scope, b.id.text)
        }
    }

    struct ScopeWrite {
        /// The commit in which the record first came there, as far as this group of writes knows. An earlier one in the database counts.
        var since: Int64
        var version: Int64
        var state: ScopeState

        init(version: Int64, state: ScopeState) {
            since = version
            self.version = version
            self.state = state
        }

        /// The later write of the same row, which a device may have to be told of by the first one: its own change brought the record
        /// there, and another one followed in the same group.
        func followed(by later: ScopeWrite) -> ScopeWrite {
            var both = later
            both.since = since
            return both
        }
    }
}

extension HubStore {
    // MARK: Writing

    /// Adds the rows of a record's scopes to those that will be written.
    func addScopeRows(_ change: ScopeChange, of name: RecordName, version: Int64, in layer: inout WriteGroup.Layer) {
        if let grants = change.grants, !ablations.contains(.grantsOfRecordsIgnored) { layer.writes.grants[name] = grants }
        guard change.isInFeed else { return }
        func add(_ scope: Scope, _ state: ScopeState) {
            let row = WriteGroup.ScopeName(entity: name.entity, scope: scopeCodes.code(scope), id: name.id)
            let write = WriteGroup.ScopeWrite(version: version, state: state)
            layer.writes.scopes[row] = layer.writes.scopes[row]?.followed(by: write) ?? write
        }
        for scope in change.after { add(scope, change.isDeletion ? .deleted : .present) }
        for scope in change.before where !change.after.contains(scope) && !ablations.contains(.leavingUntold) { add(scope, .left) }
    }

    static let scopeStatement = RowStatement(
        "record_scope",
        ["entity": .text, "scope": .int, "id": .text, "since": .commit, "version": .commit, "state": .int, "at_ms": .int],
        conflict: """
            ON CONFLICT(entity, scope, id) DO UPDATE SET version = excluded.version, state = excluded.state, at_ms = excluded.at_ms
            """)

    static func row(_ name: WriteGroup.ScopeName, _ write: WriteGroup.ScopeWrite, _ at: DatabaseValue) -> [DatabaseValue] {
        [
            .text(name.entity.text), .int(name.scope), .text(name.id.text), .int(write.since), .int(write.version),
            .int(write.state.rawValue), at,
        ]
    }

    static let grantStatement = RowStatement(
        "record_grant", ["entity": .text, "id": .text, "device": .text, "field": .text, "value": .text],
        conflict: "ON CONFLICT(entity, id, device, field, value) DO NOTHING")

    private static let grantRemoval = RowStatement(removingFrom: "record_grant", ["entity": .text, "id": .text])

    func write(grants: [RecordName: [(device: DeviceID, scope: Scope)]]) throws(DatabaseError) {
        let grants = grants.sorted { $0.key < $1.key }
        if grants.isEmpty { return }
        try database.write(HubStore.grantRemoval, grants.map { [.text($0.key.entity.text), .text($0.key.id.text)] })
        var rows: [[DatabaseValue]] = []
        for (name, given) in grants {
            rows += given.map { device, scope in
                [.text(name.entity.text), .text(name.id.text), .text(device.text), .text(scope.field), .text(scope.value)]
            }
        }
        if !rows.isEmpty { try database.write(HubStore.grantStatement, rows) }
    }

    // MARK: Reading

    /// The scopes that records grant to a device, each once, in the order of the bytes of field and value: up to one more than count
    /// (``DeviceAccess/grantsMax``), so that the caller notices that there are more.
    func recordGrants(of device: DeviceID) throws(DatabaseError) -> [Scope] {
        group?.facts?.readsGrants = true
        let byBytes = database.spelling.byBytes
        return try covered { () throws(DatabaseError) in
            try database.all(
                "SELECT DISTINCT field\(byBytes), value\(byBytes) FROM record_grant WHERE device = ? ORDER BY 1, 2 LIMIT ?",
                .text(device.text), .int(Int64(DeviceAccess.grantsMax) + 1)
            ) { Scope($0.text(0), $0.text(1)) }
        }
    }

    /// Returns whether any record grants a scope to any device.
    func hasRecordGrants() throws(DatabaseError) -> Bool {
        try database.number("SELECT count(*) FROM (SELECT device FROM record_grant LIMIT 1) AS part") > 0
    }

    /// The rows of several scopes after a place, in the order of their commits: up to `limit`, each record once.
    ///
    /// - Parameters:
    ///   - end: The last commit.
    ///   - deletionsAfter: Records that were deleted or left the scope up to this commit are left out.
    func scopeFeed(
        _ entity: EntityName, _ scopes: [Int64], after: CursorShare.Place, upTo end: Int64 = .max, deletionsAfter: Int64, limit: Int
    ) throws(DatabaseError) -> [ScopeRow] {
        let sets = scopes.map { scope in
            [
                .text(entity.text), .int(scope), .int(after.version), .text(after.id), .int(end), .int(deletionsAfter),
                .int(Int64(limit)),
            ] as [DatabaseValue]
        }
        return try merged(Question(scopeFeedQuery, sets), limit)
    }

    /// The rows of scopes that a device has lost: of records that may have been sent up to a commit, and of those that came there later by
    /// changes of the device itself.
    func lostScopes(
        _ entity: EntityName, _ scopes: [Int64], of device: DeviceID, upTo since: Int64, after: CursorShare.Place, limit: Int
    ) throws(DatabaseError) -> [ScopeRow] {
        func question(_ query: LookUp, _ after: CursorShare.Place) -> Question {
            let sets = scopes.map {
                [.text(entity.text), .int($0), .int(after.version), .text(after.id), .int(since), .int(Int64(limit))] as [DatabaseValue]
            }
            return Question(query, sets)
        }
        let sent = try merged(question(lostScopesQuery, after), limit)
        let own = scopes.isEmpty ? [] : try commits(of: device, after: since)
        if own.isEmpty { return sent }
        var later: [ScopeRow] = []
        var place = after
        while later.count < limit {
            let found = try merged(question(laterScopesQuery, place), limit, withSince: true)
            later += found.filter { own.contains($0.version) || $0.since.map { own.contains($0) } ?? false }
            guard found.count == limit, let last = found.last else { break }
            place = CursorShare.Place(version: last.version, id: last.id.text)
        }
        return HubStore.merged(sent + later, limit)
    }

    /// The commits after another one in which a change of the device was accepted.
    private func commits(of device: DeviceID, after version: Int64) throws(DatabaseError) -> Set<Int64> {
        var found: Set<Int64> = []
        try database.read(database.spelling.keys.commits, [.text(device.text), .int(version)]) { row in
            found.insert(row.int(0))
            return true
        }
        return found
    }

    private func merged(_ question: Question, _ limit: Int, withSince: Bool = false) throws(DatabaseError) -> [ScopeRow] {
        var found: [ScopeRow] = []
        if question.sets.isEmpty { return [] }
        try database.answer([question]) { _, _, row in
            found.append(HubStore.scopeRow(row))
            if withSince { found[found.count - 1].since = row.int(3) }
        }
        return HubStore.merged(found, limit)
    }

    private static func scopeRow(_ row: any DatabaseRow) -> ScopeRow {
        ScopeRow(id: RecordID(trusted: row.text(0)), version: row.int(1), state: ScopeState(rawValue: row.int(2)) ?? .left)
    }

    /// Each scope gave its first rows in order. Beyond the last row that all of them could give, rows of other scopes might be missing, so
    /// the result ends after `limit` rows.
    static func merged(_ rows: [ScopeRow], _ limit: Int) -> [ScopeRow] {
        // One record may have several rows in one commit. The row that says that it is there counts.
        let sorted = rows.sorted { a, b in
            if a.version != b.version { return a.version < b.version }
            return a.id == b.id ? a.state.rawValue < b.state.rawValue : a.id < b.id
        }
        var merged: [ScopeRow] = []
        for row in sorted {
            if let last = merged.indices.last, merged[last].id == row.id, merged[last].version == row.version {
                // The device may have the record since it came into the other scope.
                if let since = row.since { merged[last].since = min(since, merged[last].since ?? since) }
                continue
            }
            if merged.count == limit { break }
            merged.append(row)
        }
        return merged
    }

    /// Ids of the live records of several scopes after an id, in order, each once.
    func scopeListing(_ entity: EntityName, _ scopes: [Int64], after: RecordID?, limit: Int) throws(DatabaseError) -> [RecordID] {
        var found: Set<RecordID> = []
        let sets = scopes.map { [.text(entity.text), .int($0), .text(after?.text ?? ""), .int(Int64(limit))] as [DatabaseValue] }
        if sets.isEmpty { return [] }
        try database.answer([Question(HubStore.scopeListingQuery, sets)]) { _, _, row in found.insert(RecordID(trusted: row.text(0))) }
        return Array(found.sorted().prefix(limit))
    }

    static let scopeListingQuery = LookUp(
        "SELECT id FROM record_scope WHERE entity = ?1 AND scope = ?2 AND id > ?3 AND \(ScopeState.isPresentInSQL) ORDER BY id LIMIT ?4",
        [.text, .int, .text, .int])

    /// The rows of records by name, in the order of the names; without those that do not exist.
    func records(_ entity: EntityName, _ ids: [RecordID]) throws(DatabaseError) -> [RecordID: RecordRow] {
        var found: [RecordID: RecordRow] = [:]
        if ids.isEmpty { return [:] }
        let names = ids.map { RecordName(entity, $0) }
        try database.answer([HubStore.question(names)]) { _, set, row in found[ids[set]] = record(names[set], from: row) }
        return found
    }

    /// Id and version of each live record of several scopes, each record once.
    func versions(_ entity: EntityName, in scopes: [Int64], _ body: (RecordID, Int64) -> Void) throws(DatabaseError) {
        var seen: Set<RecordID> = []
        for scope in scopes {
            try database.stream(
                "SELECT id, version FROM record_scope WHERE entity = ? AND scope = ? AND \(ScopeState.isPresentInSQL)",
                [.text(entity.text), .int(scope)]
            ) { row in
                let id = RecordID(trusted: row.text(0))
                if scopes.count == 1 || seen.insert(id).inserted { body(id, row.int(1)) }
                return true
            }
        }
    }

    /// Number of rows of several scopes that are present, and of those that are not. A record of two scopes counts twice.
    func scopeTotals(_ entity: EntityName, _ scopes: [Int64]) throws(DatabaseError) -> (present: Int64, past: Int64) {
        var totals: (present: Int64, past: Int64) = (0, 0)
        for scope in scopes {
            let counted = try database.first(
                """
                SELECT coalesce(sum(CASE WHEN \(ScopeState.isPresentInSQL) THEN 1 ELSE 0 END), 0), \
                coalesce(sum(CASE WHEN \(ScopeState.isPresentInSQL) THEN 0 ELSE 1 END), 0)
                FROM record_scope WHERE entity = ? AND scope = ?
                """, .text(entity.text), .int(scope)
            ) { (present: $0.int(0), past: $0.int(1)) }
            totals.present += counted?.present ?? 0
            totals.past += counted?.past ?? 0
        }
        return totals
    }

    // MARK: The index

    /// Scope fields of the entities whose rows are complete, and the generation of those rows.
    func scopeIndexes() throws(DatabaseError) -> [EntityName: ScopeIndex] {
        var found: [EntityName: ScopeIndex] = [:]
        try database.read("SELECT entity, fields, generation FROM scope_index WHERE entity <> ''", []) { row in
            found[EntityName(trusted: row.text(0))] = ScopeIndex(row.text(1), generation: row.int(2))
            return true
        }
        return found
    }

    /// Makes the rows of an entity's scopes anew from its records. A deleted record without a document has those of its last scopes whose
    /// fields are scope fields now: changes of it are told that it is deleted, and not that it never was the device's.
    ///
    /// - Parameter rules: Without scope fields the entity has no scopes any more.
    func buildScopes(of entity: EntityName, _ rules: EntityRules) throws(DatabaseError) {
        let generation = try database.number("SELECT coalesce(max(generation), 0) + 1 FROM scope_index")
        try database.run("DELETE FROM record_scope WHERE entity = ?", .text(entity.text))
        var after = ""
        while true {
            let page = try database.all(
                "SELECT id, version, data, kept, updated_at_ms, scopes FROM record WHERE entity = ? AND id > ? ORDER BY id LIMIT ?",
                .text(entity.text), .text(after), .int(Int64(HubStore.buildPage))
            ) {
                (
                    id: RecordID(trusted: $0.text(0)), version: $0.int(1), data: $0.optionalText(2), kept: $0.optionalText(3),
                    at: $0.int(4), scopes: $0.optionalText(5)
                )
            }
            var rows: [[DatabaseValue]] = []
            for record in page {
                // A damaged document names no scope: no device receives it until it is restored.
                let document = (record.data ?? record.kept).flatMap { try? JSONReader.read($0, limits: .stored).object }
                var scopes = ScopesColumn(document.map { rules.scopes(of: $0) } ?? [])
                // A damaged text names no scope.
                if record.data == nil, record.kept == nil, let last = record.scopes.flatMap({ try? ScopesColumn(reading: $0) }) {
                    scopes = last.under(rules)
                }
                try database.run(
                    "UPDATE record SET scopes = ? WHERE entity = ? AND id = ?", DatabaseValue(scopes.text), .text(entity.text),
                    .text(record.id.text))
                let state = record.data == nil ? ScopeState.deleted : .present
                for scope in scopes.present where rules.kind != .event {
                    let name = WriteGroup.ScopeName(entity: entity, scope: scopeCodes.code(scope), id: record.id)
                    rows.append(HubStore.row(name, WriteGroup.ScopeWrite(version: record.version, state: state), .int(record.at)))
                }
            }
            if !rows.isEmpty { try database.write(HubStore.scopeStatement, rows) }
            guard page.count == HubStore.buildPage, let last = page.last else { break }
            after = last.id.text
        }
        if rules.scope.isEmpty {
            try database.run("DELETE FROM scope_index WHERE entity = ?", .text(entity.text))
            // No number is given twice: by it other hubs, and the cursors of devices, tell the rows of one time from those of another.
            try database.run(
                """
                INSERT INTO scope_index(entity, fields, generation) VALUES('', '[]', ?1)
                ON CONFLICT(entity) DO UPDATE SET generation = excluded.generation
                """, .int(generation))
        } else {
            try database.run(
                """
                INSERT INTO scope_index(entity, fields, generation) VALUES(?1, ?2, ?3)
                ON CONFLICT(entity) DO UPDATE SET fields = excluded.fields, generation = excluded.generation
                """, .text(entity.text), .text(ScopeIndex.text(of: rules)), .int(generation))
        }
    }

    /// Adapts the rows to the kind of their entity, whose scope fields are the same. Events have none.
    func renewScopes(of entity: EntityName, _ rules: EntityRules, from index: ScopeIndex) throws(DatabaseError) {
        if rules.kind == .event {
            try database.run("DELETE FROM record_scope WHERE entity = ?", .text(entity.text))
        } else {
            var areWrong = index.form == .events
            if !areWrong { areWrong = try hasWrongCodes(entity) }
            if areWrong { return try buildScopes(of: entity, rules) }
        }
        try database.run(
            "UPDATE scope_index SET fields = ? WHERE entity = ?", .text(ScopeIndex.text(of: rules)), .text(entity.text))
    }

    /// Returns whether rows have the code of another scope. Earlier programs took canonically equivalent values for one scope or for two,
    /// by what they had in memory. Each code has the right number of rows, or some are wrong.
    private func hasWrongCodes(_ entity: EntityName) throws(DatabaseError) -> Bool {
        var expected: [Int64: Int64] = [:]
        try database.stream(
            "SELECT scopes FROM record WHERE entity = ? AND data IS NOT NULL AND scopes IS NOT NULL", [.text(entity.text)]
        ) { row in
            let text = row.text(0)
            if text.utf8.allSatisfy({ $0 < 0x80 }) { return true }
            // A damaged text names no scope, as in the rows that are made anew.
            for scope in (try? ScopesColumn(reading: text))?.present ?? [] where !scope.value.utf8.allSatisfy({ $0 < 0x80 }) {
                expected[scopeCodes.code(scope), default: 0] += 1
            }
            return true
        }
        for (code, count) in expected.sorted(by: { $0.key < $1.key }) {
            let found = try database.first(
                "SELECT count(*) FROM record_scope WHERE entity = ? AND scope = ? AND \(ScopeState.isPresentInSQL)", .text(entity.text),
                .int(code)
            ) { $0.int(0) }
            if found != count { return true }
        }
        return false
    }

    private static let buildPage = 1_000

    /// Makes the grants of an entity's records anew.
    func buildGrants(of sources: [GrantSource]) throws(DatabaseError) {
        try database.run("DELETE FROM record_grant WHERE entity <> ''")
        // A write replaces all grants of a record, so those of all sources with its entity come together.
        for (entity, sources) in Dictionary(grouping: sources, by: \.entity).sorted(by: { $0.key < $1.key }) {
            var after: RecordID?
            while true {
                let page = try listing(entity, after: after, limit: HubStore.buildPage)
                var grants: [RecordName: [(device: DeviceID, scope: Scope)]] = [:]
                for row in page {
                    grants[RecordName(entity, row.id)] = row.whole?.data.map { data in sources.flatMap { $0.grants(of: data) } } ?? []
                }
                try write(grants: grants)
                guard page.count == HubStore.buildPage else { break }
                after = page.last?.id
            }
        }
    }
}

/// The state of the rows of an entity's scopes.
struct ScopeIndex: Hashable, Sendable {
    var fields: [String]
    /// Changes whenever the rows are made anew.
    var generation: Int64
    /// `nil`: an earlier program has made the rows.
    var form: Form?

    /// The entities that the rows are for. Stands behind the fields as a number, which earlier programs skip.
    enum Form: Int64 {
        /// There are no rows.
        case events = 0
        case records = 1

        init(of rules: EntityRules) { self = rules.kind == .event ? .events : .records }
    }

    /// Without fields when the text is damaged: then the rows are made anew.
    init(_ text: String, generation: Int64) {
        let parts = (try? JSONReader.read(text))?.array ?? []  // The rows are made anew.
        fields = parts.compactMap(\.text)
        form = parts.last?.int.flatMap { Form(rawValue: $0) }
        self.generation = generation
    }

    static func text(of rules: EntityRules) -> String {
        JSON.array(rules.scope.map { .string($0) } + [.int(Form(of: rules).rawValue)]).json
    }

    /// Returns whether the rows are those of an entity with these rules.
    func isCurrent(under rules: EntityRules) -> Bool { fields == rules.scope && form == Form(of: rules) }
}
