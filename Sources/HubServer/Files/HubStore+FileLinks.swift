import SyncCore

// The table `record_file`: which records name which files. It is written in the transaction of the record, and says what a look at all
// documents would say.
extension HubStore {
    static let linkStatement = RowStatement(
        "record_file", ["digest": .text, "entity": .text, "id": .text, "shown": .int, "namer": .text],
        conflict: "ON CONFLICT(digest, entity, id) DO UPDATE SET shown = excluded.shown, namer = excluded.namer")

    private static let linkRemoval = RowStatement(removingFrom: "record_file", ["digest": .text, "entity": .text, "id": .text])
    private static let linksRemoval = RowStatement(removingFrom: "record_file", ["entity": .text, "id": .text])

    /// Adds the links that a change of a record makes and ends to the rows that will be written. A link that stays keeps its state.
    ///
    /// - Parameters:
    ///   - before: The stored row; `nil`: there is none.
    ///   - mayName: The text of the new document may name a file (``Placeholder/mayBe(in:)``), so that it is looked through.
    func addLinkChanges(
        of name: RecordName, from before: RecordRow?, to after: VersionedRecord, mayName: Bool, in layer: inout WriteGroup.Layer
    ) {
        let linked = before.flatMap { $0.mayNameFiles ? $0.whole?.linked : nil }
        let old = linked.map { Placeholder.digests(in: $0) } ?? []
        let new = mayName ? after.linked.map { Placeholder.digests(in: $0) } ?? [] : []
        for digest in old.subtracting(new) { layer.writes.links[FileLink(digest: digest, record: name)] = .gone }
        for digest in new.subtracting(old) {
            layer.writes.links[FileLink(digest: digest, record: name)] = .named(by: after.writer(of: digest))
        }
    }

    /// Lets the devices that receive a record fetch a file that it names.
    func show(_ digest: BlobDigest, in name: RecordName, at now: Timestamp) throws(DatabaseError) {
        try change(at: now) { layer in layer.writes.links[FileLink(digest: digest, record: name)] = .shown }
    }

    func write(links: [FileLink: FileLinkState]) throws(DatabaseError) {
        var rows: [[DatabaseValue]] = []
        var gone: [[DatabaseValue]] = []
        for (link, state) in links.sorted(by: { $0.key < $1.key }) {
            let name: [DatabaseValue] = [.text(link.digest.hex), .text(link.record.entity.text), .text(link.record.id.text)]
            switch state {
            case .named(let device): rows.append(name + [0, .text(device.text)])
            case .shown: rows.append(name + [1, ""])
            case .gone: gone.append(name)
            }
        }
        if !gone.isEmpty { try database.write(HubStore.linkRemoval, gone) }
        if !rows.isEmpty { try database.write(HubStore.linkStatement, rows) }
    }

    /// Ends all links of records, at once.
    func dropLinks(of names: [RecordName]) throws(DatabaseError) {
        if !names.isEmpty { try database.write(HubStore.linksRemoval, names.map(\.keyValues)) }
    }

    // MARK: Reading

    /// Some of the records that show a file to a device, without the changes that the present transaction has not written yet.
    ///
    /// Records of others are left out by the statement itself, so that a file of others and one that is not there take the same steps.
    ///
    /// - Parameters:
    ///   - scopes: The scopes of the device by entity, as codes. Two scopes may have one code, so the caller compares the texts. `nil`: the
    ///     device receives all records.
    func showing(_ digest: BlobDigest, to scopes: [(entity: EntityName, code: Int64)]?) throws(DatabaseError) -> [RecordName] {
        let name = DatabaseValue.text(digest.hex)
        var questions = [Question(HubStore.anyLinkQuery, [[name]])]
        if let scopes {
            questions = [Question(HubStore.openLinkQuery, [[name]])]
            if !scopes.isEmpty {
                questions.append(Question(scopeLinkQuery, scopes.map { [name, .text($0.entity.text), .int($0.code)] }))
            }
        }
        var found: [RecordName] = []
        try database.answer(questions) { _, _, row in
            found.append(RecordName(EntityName(trusted: row.text(0)), RecordID(trusted: row.text(1))))
        }
        return found
    }

    /// Largest number of records of one answer. One of them is enough, unless its row is damaged.
    private static let shownMax = 16
    static let anyLinkQuery = LookUp(
        "SELECT entity, id FROM record_file WHERE digest = ?1 AND shown = 1 LIMIT \(shownMax)", [.text])
    /// Records of entities without scopes.
    static let openLinkQuery = LookUp(
        """
        SELECT entity, id FROM record_file WHERE digest = ?1 AND shown = 1
        AND (SELECT i.fields FROM scope_index i WHERE i.entity = record_file.entity) IS NULL LIMIT \(shownMax)
        """, [.text])
    /// Records of one scope. The name of the entity is compared behind the look-up: a planner that knows the table as a small one would go
    /// through all links of the entity to find the file.
    static func scopeLinkQuery(_ spelling: SQLSpelling) -> LookUp {
        LookUp(
            """
            SELECT entity, id FROM record_file WHERE digest = ?1 AND \(spelling.feedEntity()) = ?2 AND shown = 1
            AND (SELECT s.state FROM record_scope s WHERE s.entity = ?2 AND s.scope = ?3 AND s.id = record_file.id) = \
            \(ScopeState.present.rawValue) LIMIT \(shownMax)
            """, [.text, .text, .int])
    }

    #if ABLATIONS
        /// Returns whether a record is in one of the scopes, or was.
        func wasEver(_ name: RecordName, in codes: [Int64]) throws(DatabaseError) -> Bool {
            for code in codes {
                let found = try database.first(
                    "SELECT 1 FROM record_scope WHERE entity = ? AND scope = ? AND id = ?", .text(name.entity.text), .int(code),
                    .text(name.id.text)
                ) { _ in true }
                if found != nil { return true }
            }
            return false
        }
    #endif

    /// The state of a link with the changes of the present transaction; `nil`: the record does not name the file.
    func link(_ link: FileLink) throws(DatabaseError) -> FileLinkState? {
        if let changed = group?.link(link) { return changed }
        return try database.first(
            "SELECT shown, namer FROM record_file WHERE digest = ? AND entity = ? AND id = ?", .text(link.digest.hex),
            .text(link.record.entity.text), .text(link.record.id.text)
        ) { $0.int(0) == 1 ? .shown : .named(by: DeviceID(trusted: $0.text(1))) }
    }

    /// The files that a record names, by the table; the value is `true` for those that its devices may fetch.
    func links(of name: RecordName) throws(DatabaseError) -> [BlobDigest: Bool] {
        var found: [BlobDigest: Bool] = [:]
        try database.read(
            "SELECT digest, shown FROM record_file WHERE entity = ? AND id = ?", name.keyValues
        ) { row in
            if let digest = BlobDigest(hex: row.text(0)) { found[digest] = row.int(1) == 1 }
            return true
        }
        return found
    }

    /// The records that name a file and do not show it yet, in which this device has put its digest; `isWaiting` for those that wait for
    /// its bytes.
    func unshown(_ digest: BlobDigest, namedBy device: DeviceID) throws(DatabaseError) -> [(name: RecordName, isWaiting: Bool)] {
        try database.all(HubStore.unshownStatement, .text(digest.hex), .text(device.text)) {
            (RecordName(EntityName(trusted: $0.text(0)), RecordID(trusted: $0.text(1))), $0.int(2) > 0)
        }
    }

    static let unshownStatement = """
        SELECT entity, id, (SELECT count(*) FROM blob_wait w WHERE w.digest = f.digest AND w.entity = f.entity AND w.record_id = f.id)
        FROM record_file f WHERE digest = ? AND namer = ? AND shown = 0 ORDER BY entity, id
        """

    /// Makes the links of records anew that changed after a commit, in pages.
    ///
    /// - Parameters:
    ///   - after: The commit. 0, or less in a database that was edited by hand, means all records.
    ///   - proven: Tells which of the files that a record names its devices may fetch.
    func relink(
        after: Int64, proven: (RecordName, VersionedRecord) throws(DatabaseError) -> Set<BlobDigest>
    ) throws(DatabaseError) {
        if after <= 0 { try database.run("DELETE FROM record_file") }
        for entity in try entities(atMost: .max) {
            var place = (version: max(0, after), id: "")
            while true {
                let page = try database.all(
                    """
                    SELECT id, version, coalesce(data, kept, '') FROM record\(database.spelling.byFeed)
                    WHERE \(database.spelling.feedEntity()) = ? AND (version, id) > (?, ?) ORDER BY version, id LIMIT ?
                    """, .text(entity.text), .int(place.version), .text(place.id), .int(Int64(HubStore.linkPage))
                ) { (id: RecordID(trusted: $0.text(0)), version: $0.int(1), mayName: Placeholder.mayBe(in: $0.text(2))) }
                for row in page where row.mayName || after > 0 {
                    let name = RecordName(entity, row.id)
                    guard let record = try record(name)?.whole else { continue }
                    try relink(name, record, proven: try proven(name, record))
                }
                guard page.count == HubStore.linkPage, let last = page.last else { break }
                place = (last.version, last.id.text)
            }
        }
    }

    /// Makes the links of a record anew. One that is shown stays so.
    private func relink(_ name: RecordName, _ record: VersionedRecord, proven: Set<BlobDigest>) throws(DatabaseError) {
        let old = try links(of: name)
        let new = record.linked.map { Placeholder.digests(in: $0) } ?? []
        var changes: [FileLink: FileLinkState] = [:]
        for digest in old.keys where !new.contains(digest) { changes[FileLink(digest: digest, record: name)] = .gone }
        for digest in new {
            let isShown = old[digest] == true || proven.contains(digest)
            guard old[digest] != isShown else { continue }
            changes[FileLink(digest: digest, record: name)] = isShown ? .shown : .named(by: record.writer(of: digest))
        }
        try write(links: changes)
    }

    private static let linkPage = 500
}
