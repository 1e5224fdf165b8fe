import SyncCore

/// Answers pulls of changes (PROTOCOL A3) and listings (A8); all of one request is of the same moment.
struct Feed {
    let store: HubStore
    let rules: RuleBook
    /// The scopes of the calling device; `nil` where the hub shares nothing out.
    let share: DeviceAccess?
    /// The entities whose records are shared out.
    let indexes: [EntityName: ScopeIndex]
    let ablations: Ablations
    let epoch: String
    let secret: [UInt8]
    let head: Int64
    /// The present opening of the hub's database, for signed values.
    let opening: String
    let lineage: HubLineage
    /// The calling device.
    let device: DeviceID
    /// Its agent removes every record that leaves the share (``AgentAbility/revocations``).
    let letsGo: Bool
    /// Records may grant scopes.
    let hasGrantSources: Bool
    /// The versions of the schemas in which it reads.
    var views: SchemaViews
    /// Receives a cursor that this database cannot have given out; `nil`: such cursors are not reported.
    let witness: HubWitness?
    let totals: EntityTotals
    /// Measures searches; `nil`: nothing is measured.
    let time: (any TimeSource)?
    /// All rows behind the cursors of this request, for entities with few of them.
    var rowsAhead: [EntityName: [HubStore.RecordRow]] = [:]

    // MARK: Changes

    mutating func answer(_ request: PullRequest) throws(DatabaseError) -> PullResponse {
        var response = PullResponse(epoch: epoch, head: head, pages: [])
        var room = Room(records: request.limit, bytes: request.maxBytes)
        let positions = try positions(of: request.streams)
        try readAhead(positions)
        for (stream, position) in zip(request.streams, positions) {
            switch position {
            case .failure(let problem): response.errors.append(StreamError(entity: stream.entity, problem: problem))
            case .success(let cursor):
                switch try page(cursor, isFirst: stream.cursor == nil, naming: request.namesUnreadable, &room) {
                case .success(let page): if let page { response.pages.append(page) }
                case .failure(let problem): response.errors.append(StreamError(entity: stream.entity, problem: problem))
                }
            }
        }
        if request.namesEntities { response.entities = try entities() }
        return response
    }

    private mutating func positions(of streams: [StreamPosition]) throws(DatabaseError) -> [Result<Cursor, Problem>] {
        var positions: [Result<Cursor, Problem>] = []
        for stream in streams { positions.append(try position(stream)) }
        return positions
    }

    /// Reads the news of several entities together, where a database is a round trip away. An entity with more of them is read in its turn,
    /// when the room for it is known.
    private mutating func readAhead(_ positions: [Result<Cursor, Problem>]) throws(DatabaseError) {
        guard store.database.isShared else { return }
        var cursors: [Cursor] = []
        for case .success(let cursor) in positions where hasPlainNews(cursor) { cursors.append(cursor) }
        guard cursors.count > 1, Set(cursors.map(\.entity)).count == cursors.count else { return }
        for (cursor, rows) in zip(cursors, try store.feeds(of: cursors, limit: Feed.rowsAheadMax)) where rows.count < Feed.rowsAheadMax {
            rowsAhead[cursor.entity] = rows
        }
    }

    private func hasPlainNews(_ cursor: Cursor) -> Bool { !isIdle(cursor) && scopes(of: cursor.entity) == nil }

    /// Above what comes to a device between two pulls, and below the page of a device that begins.
    private static let rowsAheadMax = 65

    /// The feed of an event entity is empty: events only travel from device to hub.
    private func isIdle(_ cursor: Cursor) -> Bool { rules[cursor.entity]?.kind == .event || store.hasNothing(behind: cursor) }

    /// The entities that a device may pull: those of the configuration and, where it is not complete, those that have records. Events only
    /// travel to the hub.
    private func entities() throws(DatabaseError) -> [EntityName] {
        var names = Set(rules.entities.keys)
        if !rules.isStrict { names.formUnion(try store.entities(atMost: EntityList.most)) }
        return Array(names.filter { rules[$0].map { $0.kind != .event } ?? false }.sorted().prefix(EntityList.most))
    }

    mutating func position(_ stream: StreamPosition) throws(DatabaseError) -> Result<Cursor, Problem> {
        if let refusal = refusal(of: stream.entity) { return .failure(refusal) }
        guard let text = stream.cursor else {
            var cursor = beginning(stream.entity)
            (cursor.seq, cursor.live) = (0, head)
            return .success(cursor)
        }
        let cursor: Cursor
        do throws(Cursor.Refusal) {
            cursor = try Cursor.read(text, secret: secret, epoch: epoch, from: device)
        } catch {
            switch error {
            case .otherEpoch: return .failure(Feed.resync("epoch-changed", "the cursor belongs to another history of this hub"))
            case .unreadable: return .failure(Feed.resync("cursor-expired", "the cursor cannot be read"))
            }
        }
        if let witness, !lineage.includes(cursor.position, head: head) {
            witness.found = HubEvidence(cause: .cursor, position: cursor.position, device: device)
            return .failure(Feed.resync("epoch-changed", "the hub's database was replaced by an older copy"))
        }
        guard cursor.entity == stream.entity else {
            return .failure(Feed.resync("cursor-expired", "the cursor belongs to another entity"))
        }
        if cursor.seen < (try store.horizon(stream.entity)) { return .failure(try expiry(of: cursor)) }
        return placed(cursor)
    }

    static func resync(_ code: String, _ detail: String) -> Problem {
        Problem(code, status: 410, detail: detail, members: ["resync": "snapshot"])
    }

    /// The space that is left in this answer.
    struct Room {
        var records: Int
        var bytes: Int
    }

    /// - Returns: `nil` when there is nothing new, and the device has a cursor already.
    private mutating func page(
        _ cursor: Cursor, isFirst: Bool, naming: Bool, _ room: inout Room
    ) throws(DatabaseError) -> Result<StreamPage?, Problem> {
        if cursor.share?.isChanging == true { return try changedShare(cursor, naming: naming, &room) }
        var end = beginning(cursor.entity)
        let rows = isIdle(cursor) ? [] : try rows(after: cursor, limit: rowsLookedAt(cursor.entity, room))
        if isKept(rows) { return .failure(Feed.agentTooOld) }
        guard !rows.isEmpty else {
            guard isFirst else { return .success(nil) }
            return .success(
                StreamPage(entity: cursor.entity, cursor: text(end), hasMore: false, records: [], deletions: []))
        }
        // For a device that cannot be told, the stream stops before a damaged record: with a cursor behind it the device would believe that
        // it has the record.
        let isWhole = naming ? rows[...] : rows.prefix { $0.isWhole }
        if isWhole.isEmpty { return .failure(Feed.damaged(RecordName(cursor.entity, rows[0].id))) }
        let count = reserve(isWhole, in: &room)
        let hasMore = count < rows.count
        if hasMore {
            // Pages of other streams filled the answer: this stream keeps its cursor.
            end = cursor
            if count > 0 {
                end.opening = opening
                end.seq = rows[count - 1].version
                end.sub = rows[count].version == end.seq ? rows[count - 1].id : nil
                if end.seq >= end.live { end.live = 0 }
            }
        }
        return .success(
            page(
                rows.prefix(count), end, hasMore: hasMore, total: isFirst && hasMore ? try total(of: cursor.entity) : nil))
    }

    mutating func page(_ rows: ArraySlice<HubStore.RecordRow>, _ end: Cursor, hasMore: Bool, total: Int64? = nil) -> StreamPage {
        let deletions = rows.compactMap { row -> StreamPage.Deletion? in
            if row.isRevoked { return StreamPage.Deletion(id: row.id, version: row.version, reason: "revoked") }
            guard let record = row.whole, record.isDeleted else { return nil }
            return StreamPage.Deletion(
                id: row.id, version: row.version, hlc: record.stamp.hlc.description, originDevice: record.stamp.writer.text,
                originAuthor: record.stamp.author)
        }
        var page = StreamPage(
            entity: end.entity, cursor: text(end), hasMore: hasMore, records: shown(rows, of: end.entity),
            deletions: deletions, total: total)
        page.unreadable = rows.filter { !$0.isWhole }.map(\.id)
        return page
    }

    /// The number of live records; `nil`: it is not counted yet.
    private func total(of entity: EntityName) throws(DatabaseError) -> Int64? {
        if let scopes = scopes(of: entity) { return try store.scopeTotals(entity, scopes.codes).present }
        if let known = totals.records(of: entity, at: head, of: epoch) { return known }
        let few = try store.total(entity, upTo: EntityTotals.exactMax)
        if few <= EntityTotals.exactMax { return few }
        if totals.isServed {
            totals.demand(entity)
            return nil
        }
        let count = try store.total(entity)
        totals.keep(count, of: entity, at: head, of: epoch)
        return count
    }

    /// A damaged row says nothing about its record, not even that it does not exist.
    static func damaged(_ name: RecordName) -> Problem {
        Problem(
            "record-damaged", status: 503, detail: "the hub's copy of \(name) cannot be read; an operator has to restore it",
            retryAfter: 300)
    }

    private func rows(after cursor: Cursor, limit: Int) throws(DatabaseError) -> [HubStore.RecordRow] {
        if let rows = rowsAhead[cursor.entity] { return rows }
        let after = cursor.placeInFeed
        guard let scopes = scopes(of: cursor.entity) else {
            return try store.feed(cursor.entity, after: after, deletionsAfter: cursor.live, limit: limit)
        }
        let codes = ablations.contains(.cursorsBelieved) ? cursor.share?.held ?? scopes.codes : scopes.codes
        return try sharedRows(cursor.entity, codes, after: after, deletionsAfter: cursor.live, limit: limit)
    }

    /// Reserves room for the rows that go into the page, and returns their number. A page ends at the end of a commit, up to twice as far
    /// as requested; a commit larger than that is split.
    func reserve(_ rows: ArraySlice<HubStore.RecordRow>, in room: inout Room) -> Int {
        let (records, bytes) = (room.records, room.bytes)
        guard records > 0, bytes > 0 else { return 0 }
        var size = 0
        var count = 0
        while count < rows.count {
            let isFull = count >= records || size >= bytes
            let isInsideCommit = count > 0 && rows[count].version == rows[count - 1].version
            if isFull, !isInsideCommit || count >= 2 * records || size >= 2 * bytes { break }
            size += rows[count].size + Feed.overhead
            count += 1
        }
        room.records -= count
        room.bytes -= size
        return count
    }

    /// Bytes of a record beside its document: id, version, stamp, origin.
    private static let overhead = 160

    // MARK: Listings

    /// - Parameter device: The calling device: a seed filter may name it.
    /// - Returns: A problem when a record of the page is damaged and the device cannot be told: it would treat the record as deleted.
    mutating func answer(_ request: SnapshotRequest, for device: DeviceID) throws(DatabaseError) -> Result<SnapshotPage, Problem> {
        if let refusal = refusal(of: request.entity) { return .failure(refusal) }
        if try isKept(request) { return .failure(Feed.agentTooOld) }
        let start = beginning(request.entity)
        let isEvent = rules[request.entity]?.kind == .event
        let found = isEvent ? Listed() : try listing(request, for: device)
        // A page of large documents ends early; at least one record is always on it.
        var size = 0
        let fitting = found.rows.prefix { row in
            size += row.size + Feed.overhead
            return size - row.size - Feed.overhead < request.maxBytes
        }
        let rows = Array(fitting.prefix(request.limit))
        let unreadable = rows.filter { !$0.isWhole }.map(\.id)
        if let id = unreadable.first, !request.namesUnreadable { return .failure(Feed.damaged(RecordName(request.entity, id))) }
        let isCut = found.rows.count > rows.count
        var page = SnapshotPage(
            entity: request.entity, startCursor: text(start), startVersion: head,
            records: shown(rows[...], of: request.entity),
            after: isCut ? rows.last?.id : found.searchedTo ?? rows.last?.id, hasMore: isCut || found.searchedTo != nil,
            total: request.after == nil && isCut && !request.isSeed ? try total(of: request.entity) : nil)
        page.unreadable = unreadable
        if request.after == nil, !request.isSeed, request.buckets == nil { page.deletedTotal = try deletedTotal(of: request.entity) }
        if !page.hasMore, !request.isSeed { page.share = try toldShare(of: request.entity) }
        return .success(page)
    }

    private func deletedTotal(of entity: EntityName) throws(DatabaseError) -> Int64 {
        guard let scopes = scopes(of: entity) else { return try store.deletedTotal(entity) }
        return try store.scopeTotals(entity, scopes.codes).past
    }

    private mutating func shown(_ rows: ArraySlice<HubStore.RecordRow>, of entity: EntityName) -> [StreamPage.Record] {
        // Refused before.
        guard case .success(let view) = views[entity] else { return [] }
        let rules = rules[entity] ?? EntityRules()
        return rows.compactMap { record($0, view, rules) }
    }

    /// The reason why the device cannot be shown the records of an entity.
    private mutating func refusal(of entity: EntityName) -> Problem? {
        if case .failure(let problem) = views[entity] { problem } else { nil }
    }

    private func record(_ row: HubStore.RecordRow, _ view: SchemaView, _ rules: EntityRules) -> StreamPage.Record? {
        guard !row.isRevoked, let record = row.whole else { return nil }
        return view.lower(record).hubRecord(naming: { rules.strategy(of: view.present(of: $0)) == .manual }).map {
            StreamPage.Record(
                id: row.id, record: $0, originDevice: record.stamp.writer.text, originKey: row.originKey,
                originAuthor: record.stamp.author)
        }
    }
}

extension Cursor {
    /// The last record that was sent. `~` sorts above every character of an id: everything of the commit was sent.
    var placeInFeed: (version: Int64, id: String) { (seq, sub?.text ?? "~") }
}

extension HubStore.RecordRow {
    /// `nil` when the row is damaged.
    var whole: VersionedRecord? {
        if case .success(let record) = content { record } else { nil }
    }

    var isWhole: Bool { whole != nil }
}
