import SyncCore
import SyncSQLite

// Reads the journal. One row holds many events; they are separated here and completed with the present facts of their mutations and
// records.
extension StoreReads {
    /// Events after an id, oldest first.
    ///
    /// - Parameters:
    ///   - limit: Largest number of events to return; a page may read more and skip those that the filter leaves out.
    package func journal(after: Int64, limit: Int, filter: JournalFilter) throws(StoreError) -> JournalPage {
        let newest = try counter(.nextEvent) - 1
        let oldest = try database.number("SELECT n FROM event ORDER BY n LIMIT 1") ?? newest + 1
        var page = JournalPage(events: [], next: min(max(after, oldest - 1), newest), oldest: oldest, newest: newest, isGapped: false)
        guard limit > 0, after < newest else { return page }
        // The row that holds the next event may begin before it.
        let start = try database.number("SELECT n FROM event WHERE n <= ? ORDER BY n DESC LIMIT 1", .int(page.next + 1)) ?? oldest
        var left = limit
        var rows = 0
        try database.each(
            "SELECT n, count, at_ms, kind, code, type, items FROM event WHERE n >= ? ORDER BY n", .int(start),
            while: { left > 0 && rows < Self.rowsMax }
        ) { statement throws(StoreError) in
            rows += 1
            try read(JournalRow(statement), after: page.next, filter, &left, &page)
        }
        return page
    }

    /// Largest number of rows read for one page: a filter that matches nothing must not occupy the reader for ever.
    private static let rowsMax = 500

    private struct JournalRow {
        var first: Int64
        var count: Int64
        var at: Timestamp
        var kind: JournalStage.Kind?
        var type: String?
        var items: String

        init(_ row: SQLiteStatement) {
            first = row.int(0)
            count = row.int(1)
            at = Timestamp(milliseconds: row.int(2))
            kind = JournalStage.Kind(kind: row.int(3), code: row.int(4))
            type = row.optionalText(5)
            items = row.text(6)
        }
    }

    private func read(
        _ row: JournalRow, after: Int64, _ filter: JournalFilter, _ left: inout Int, _ page: inout JournalPage
    ) throws(StoreError) {
        func passes(_ type: String) -> Bool { filter.types.isEmpty || filter.types.contains(type) }
        guard let kind = row.kind else {
            if row.first > after, let type = row.type, passes(type), concerns(row, filter) {
                page.events.append(JournalEvent(id: row.first, at: row.at, body: .note(type: type, json: row.items)))
                left -= 1
            }
            page.next = max(page.next, row.first)
            return
        }
        let isMutation = if case .mutation = kind { true } else { false }
        guard passes(isMutation ? "mutation" : "record") else {
            page.next = max(page.next, row.first + row.count - 1)
            return
        }
        for (offset, item) in ItemList.items(row.items).enumerated() where row.first + Int64(offset) > after {
            guard left > 0 else { return }
            page.next = row.first + Int64(offset)
            guard let (body, entity) = try body(kind, item) else {
                page.isGapped = true
                continue
            }
            guard filter.entities.isEmpty || filter.entities.contains(entity) else { continue }
            page.events.append(JournalEvent(id: page.next, at: row.at, body: body))
            left -= 1
        }
        // Damaged items are skipped, not read again and again.
        if left > 0 { page.next = max(page.next, row.first + row.count - 1) }
    }

    /// Returns whether a note passes the filter. A conflict is about one entity and is hidden from callers that may not see it. Other notes
    /// are about the agent.
    private func concerns(_ row: JournalRow, _ filter: JournalFilter) -> Bool {
        guard row.type == "conflict", !filter.entities.isEmpty else { return true }
        let entity = StoredJSON.read(row.items)?.object?["entity"]?.text.flatMap { EntityName($0) }
        return entity.map { filter.entities.contains($0) } ?? false
    }

    private func body(_ kind: JournalStage.Kind, _ item: Int64) throws(StoreError) -> (JournalEvent.Body, EntityName)? {
        switch kind {
        case .mutation(let state):
            let found = try database.first(
                """
                SELECT p.key, e.name, coalesce(p.id, p.key), m.problem, i.key FROM payload p
                LEFT JOIN mutation m ON m.seq = p.seq JOIN entity e ON e.eid = p.eid
                LEFT JOIN payload i ON i.seq = m.into_seq WHERE p.seq = ?
                """, .int(item)
            ) { row throws(StoreError) in
                MutationEvent(
                    key: MutationKey(trusted: row.text(0)), seq: item, state: state,
                    record: RecordName(EntityName(trusted: row.text(1)), RecordID(trusted: row.text(2))),
                    problem: Problem.read(stored: row.optionalText(3)),
                    into: row.optionalText(4).map { MutationKey(trusted: $0) })
            }
            return found.map { (.mutation($0), $0.record.entity) }
        case .record(let change, let source):
            let found = try database.first(
                """
                SELECT e.name, r.id, r.base_version, r.status FROM record r JOIN entity e ON e.eid = r.eid WHERE r.rid = ?
                """, .int(item)
            ) { row throws(StoreError) in
                RecordEvent(
                    record: RecordName(EntityName(trusted: row.text(0)), RecordID(trusted: row.text(1))), change: change,
                    source: source, version: max(0, row.int(2)),
                    status: RecordSnapshot.SyncStatus(rawValue: Int(clamping: row.int(3))) ?? .error)
            }
            return found.map { (.record($0), $0.record.entity) }
        }
    }
}
