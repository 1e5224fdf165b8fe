import SyncCore
import SyncSQLite

/// Converts everything that the database has of an entity into another version of its schema.
struct DocumentConversion {
    let eid: Int64
    let entity: EntityName
    let steps: SchemaSteps
    /// The hub's documents are fetched again: their copies here may say less.
    let isRefetched: Bool

    private static let page: Int64 = 500

    /// - Precondition: In a transaction that is prepared for changes, under the new rules.
    func run(in store: Store) throws(StoreError) {
        // The changes come first: what their authors had seen is in the documents before the conversion.
        let ablations = store.options.ablations
        if !steps.isEmpty, !ablations.contains(.openWorkUnlifted) {
            try convertChanges(store)
            try convertEarlierValues(store)
            try convertLinks(store)
        }
        try convertRecords(store)
        if !steps.isEmpty { try convertConflicts(store) }
        try store.endDelays(ofEntity: eid)
    }

    // MARK: - Changes

    private func convertChanges(_ store: Store) throws(StoreError) {
        var last = Int64.min
        while true {
            let page = try store.database.all(
                "SELECT * FROM payload WHERE eid = ? AND seq > ? ORDER BY seq LIMIT ?", .int(eid), .int(last), .int(Self.page)
            ) { row throws(StoreError) in (seq: row.int(0), payload: Payload.isSound(row, at: 0) ? Payload(row, at: 0) : nil) }
            for item in page {
                // A damaged one stays as it is: it is held, and a person sees it.
                guard let payload = item.payload else { continue }
                try convert(payload, store)
            }
            guard page.count == Int(Self.page), let end = page.last else { return }
            last = end.seq
        }
    }

    private func convert(_ payload: Payload, _ store: Store) throws(StoreError) {
        guard let content = payload.content(under: nil) else { return }
        let seen = try steps.movesMembers ? MirrorRow.find(store.database, eid: eid, id: payload.recordID.text)?.parsedBase.known : nil
        let converted = steps.convert(content, seen: seen)
        var changed = payload
        if converted != content {
            changed.setContent(converted)
            // The hub recognises the mutation by its first form, in which it may have been sent.
            if payload.firstDigest == nil, !store.options.ablations.contains(.firstFormForgotten) {
                changed.firstDigest = payload.digest(entity: entity)
            }
        }
        guard changed.contentDiffers(from: payload) else { return }
        try store.rewrite(changed)
    }

    private func convertEarlierValues(_ store: Store) throws(StoreError) {
        let rows = try store.database.all(
            "SELECT u.seq, u.before FROM undo_value u JOIN payload p ON p.seq = u.seq WHERE p.eid = ? AND u.before IS NOT NULL", .int(eid)
        ) { row throws(StoreError) in (seq: row.int(0), text: row.text(1)) }
        for row in rows {
            guard let values = StoredJSON.read(row.text).flatMap({ EarlierValues($0) }) else { continue }
            try store.database.run(
                "UPDATE undo_value SET before = ? WHERE seq = ?", .text(values.converted(by: steps).json.json), .int(row.seq))
        }
    }

    /// The fields that show files.
    private func convertLinks(_ store: Store) throws(StoreError) {
        let rows = try store.database.all("SELECT bid, id, field, seq FROM blob_link WHERE entity = ?", .text(entity.text)) {
            row throws(StoreError) in (bid: row.int(0), id: row.text(1), field: row.text(2), seq: row.int(3))
        }
        let changed = rows.filter { row in steps.name(of: row.field).map { !sameBytes($0, row.field) } ?? true }
        for row in changed {
            try store.database.run(
                "DELETE FROM blob_link WHERE bid = ? AND entity = ? AND id = ? AND field = ?", .int(row.bid), .text(entity.text),
                .text(row.id), .text(row.field))
        }
        for row in changed {
            guard let name = steps.name(of: row.field) else { continue }
            try store.database.run(
                "INSERT INTO blob_link (bid, entity, id, field, seq) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", .int(row.bid),
                .text(entity.text), .text(row.id), .text(name), .int(row.seq))
        }
    }

    // MARK: - Records

    private func convertRecords(_ store: Store) throws(StoreError) {
        var last = Int64.min
        while true {
            let page = try store.database.all(
                "SELECT * FROM record WHERE eid = ? AND rid > ? ORDER BY rid LIMIT ?", .int(eid), .int(last), .int(Self.page)
            ) { row throws(StoreError) in MirrorRow(row) }
            var records = TouchedRecords()
            for var row in page where !row.isDamaged {
                let steps = store.options.ablations.contains(.basesUnlifted) ? [] : steps
                guard row.convertBase(by: steps, isRefetched: isRefetched) else { continue }
                var touched = TouchedRecords.Touched(row: row)
                touched.needsFold = true
                touched.source = .remote
                // The content is as old as before.
                touched.changedAge = row.changedAge
                records[row.rid] = touched
            }
            try store.finish(records)
            guard page.count == Int(Self.page), let end = page.last else { return }
            last = end.rid
        }
    }

    // MARK: - Conflicts

    private func convertConflicts(_ store: Store) throws(StoreError) {
        let open = try store.database.all("SELECT * FROM conflict WHERE eid = ? AND state < 3 ORDER BY cid", .int(eid)) {
            row throws(StoreError) in ConflictRow(row)
        }
        var records = TouchedRecords()
        for var conflict in open where !conflict.isDamaged {
            let sides = conflict.sides.compactMap { steps.convert($0) }
            // Where every disputed field was dropped, nothing is left to decide.
            if sides.isEmpty, !conflict.sides.isEmpty {
                records.moot.append(.init(cid: conflict.cid, isEmpty: false))
                continue
            }
            guard sides != conflict.sides else { continue }
            conflict.sides = sides
            conflict.addEvent("converted", at: store.now.wall)
            try conflict.update(in: store.database)
        }
        try store.finish(records)
    }
}

extension SchemaSteps {
    var movesMembers: Bool {
        steps.contains { step in
            switch step {
            case .moveInto, .moveOut: true
            case .rename, .fill, .drop, .values, .wrap, .unwrap: false
            }
        }
    }

    /// - Returns: `nil` when the field was dropped.
    fileprivate func convert(_ side: ConflictSide) -> ConflictSide? {
        guard let name = name(of: side.field) else { return nil }
        func value(_ value: ConflictSide.Value) -> ConflictSide.Value {
            var changed = value
            changed.value = convert(side.field, value.value)
            return changed
        }
        return ConflictSide(name, base: convert(side.field, side.base), local: value(side.local), remote: value(side.remote))
    }
}
