import SyncCore
import SyncSQLite

/// One row of `record`: the hub's document, and the view of it with the open mutations.
struct MirrorRow {
    let rid: Int64
    let eid: Int64
    let id: String
    /// The version of ``base``; 0 when the hub never had the record, -1 when it belongs to an unknown history.
    var baseVersion: Int64 = 0
    private(set) var base: String?
    /// The rest of a dropped document; `nil` while the document is here, or the record does not exist.
    private(set) var stub: Stub?
    /// The view; `nil` when it equals ``base``, or there is none.
    private(set) var view: String?
    var status = RecordSnapshot.SyncStatus.synced
    /// The record does not exist in the view.
    private(set) var isDeleted = true
    /// Number of the last listing that contained the record.
    var gen: Int64 = 0
    /// Number that rises with every change of the row.
    private(set) var rev: Int64 = 0
    var createdMS: Int64
    var updatedMS: Int64
    var syncedMS: Int64?
    /// Time of the final deletion, on the age clock, milliseconds.
    var goneAge: Int64?
    /// Time of the last change of the record, on the age clock; `nil`: not known.
    private(set) var changedAge: Int64?
    var serverID: String?
    /// Number of accepted local writes and changes of ``document``; it never falls and is part of the etag.
    private(set) var edit: Int64 = 0
    /// The version as it was read or saved.
    private var knownVersion: Int64 = 0
    /// The document as it was read, to detect a change when the row is saved.
    private var knownDocument: String?
    /// The same for a document that is not kept.
    private var knownStub: UInt32?
    private var isEdited = false
    /// The stored state as indexes see it; `nil` where the record is not shown.
    private(set) var indexed: Indexed?
    /// The row is not in the table yet.
    private(set) var isNew = false
    /// The row does not match its checksum: neither ``base`` nor ``view`` can be trusted.
    private(set) var isDamaged = false

    /// Before version 10 of the schema, the last three columns are missing, before version 17 the last two.
    static let columnCount: Int32 = 19

    /// ``gen`` of a record that the hub no longer has and that is kept until an operator agrees (`Store+Snapshot.swift`).
    static let heldGen: Int64 = -1
    /// ``gen`` of a record that has left the share of this device (`Store+Revoked.swift`).
    static let revokedGen: Int64 = -2
    /// ``gen`` of a record whose base may say less than the hub's document of the same version (`Store+Versions.swift`).
    static let loweredGen: Int64 = -3

    /// - Parameter edit: First value of ``edit``; above 0 for a row that takes the number of a forgotten one.
    init(rid: Int64, eid: Int64, id: String, at wall: Timestamp, edit: Int64 = 0) {
        self.rid = rid
        self.eid = eid
        self.id = id
        self.edit = edit
        createdMS = wall.milliseconds
        updatedMS = wall.milliseconds
        isNew = true
    }

    init(_ row: SQLiteStatement, at first: Int32 = 0) {
        rid = row.int(first)
        eid = row.int(first + 1)
        id = row.text(first + 2)
        baseVersion = row.int(first + 3)
        status = RecordSnapshot.SyncStatus(rawValue: Int(clamping: row.int(first + 4))) ?? .error
        isDeleted = row.bool(first + 5)
        gen = row.int(first + 6)
        rev = row.int(first + 7)
        createdMS = row.int(first + 8)
        updatedMS = row.int(first + 9)
        syncedMS = row.optionalInt(first + 10)
        goneAge = row.optionalInt(first + 11)
        serverID = row.optionalText(first + 13)
        base = row.optionalText(first + 14)
        view = row.optionalText(first + 15)
        edit = row.int(first + 16)
        changedAge = row.optionalInt(first + 17)
        stub = row.optionalInt(first + 18).map { Stub(stored: $0) }
        isDamaged =
            MirrorRow.checksum(eid: eid, id: id, version: baseVersion) { digest in
                digest.update(field: row.bytes(first + 14))
                digest.update(field: row.bytes(first + 15))
                stub?.update(&digest)
            } != row.int(first + 12)
        rememberKnown()
        indexed = shown
    }

    /// The rest that a record keeps of a dropped document.
    struct Stub: Hashable {
        /// CRC-32C of the document, so that the etag of the record stays the same without it.
        var sum: UInt32
        /// An open mutation deletes the record.
        var isHidden = false

        init(of document: String?) {
            sum = MirrorRow.sum(of: document)
        }

        fileprivate init(stored: Int64) {
            isHidden = stored < 0
            sum = UInt32(truncatingIfNeeded: isHidden ? ~stored : stored)
        }

        fileprivate var stored: Int64 { isHidden ? ~Int64(sum) : Int64(sum) }

        /// A row without a stub has the checksum that it had in earlier versions.
        fileprivate func update(_ digest: inout CRC32C) { digest.update(stored) }
    }

    /// The part of a shown record that an index uses.
    struct Indexed {
        let id: String
        let document: String
        let updatedMS: Int64
    }

    private var shown: Indexed? {
        guard isKnown, let document else { return nil }
        return Indexed(id: id, document: document, updatedMS: updatedMS)
    }

    /// The document that apps see; `nil` when the record does not exist.
    var document: String? { isDeleted ? nil : view ?? base }

    /// ``document``, parsed.
    var parsedDocument: StoredJSON.Document { StoredJSON.Document(document) }

    /// ``base``, parsed.
    var parsedBase: StoredJSON.Document { StoredJSON.Document(base) }

    /// The document was dropped, and the record exists for apps: they must have it fetched to read it.
    var isNotKept: Bool { isDeleted && stub.map { !$0.isHidden } ?? false }

    /// The hub has the record, as far as it is known here, with its document here or without.
    var isAtHub: Bool { base != nil || stub != nil }

    /// Bytes of both documents.
    var documentBytes: Int { (base?.utf8.count ?? 0) + (view?.utf8.count ?? 0) }

    /// `true` when the hub has or had the record, or an open mutation creates it. A record that has left the share of this device is known
    /// only where an app has made it anew, whatever waits for a person.
    var isKnown: Bool { isRevoked ? document != nil : baseVersion != 0 || base != nil || status != .synced }

    /// The record has left the share of this device, and nothing of the hub's is left here.
    var isRevoked: Bool { gen == MirrorRow.revokedGen }

    /// No document is here, and it is not known what the hub has: the row was lost, or the deletion belongs to an older history.
    var isOfUnknownHistory: Bool { baseVersion < 0 && !isAtHub }

    /// Something of the hub's is or was here, or cannot be read.
    var isFromHub: Bool { base != nil || baseVersion != 0 || isDamaged }

    /// The hub has told of another version than the one that was read.
    var hasOtherVersion: Bool { baseVersion > 0 && baseVersion != knownVersion }

    /// The version that reads show and that conditions are compared with: a version of an older history (-1) is no version, as
    /// if the hub had never shown the record.
    var shownVersion: Int64 { max(0, baseVersion) }

    mutating func setBase(_ text: String?, version: Int64, at wall: Timestamp) {
        base = text
        stub = nil
        baseVersion = version
        // The hub shows the record again: its removal no longer waits for an operator, or it is back in the share.
        if text != nil, gen < 0 { gen = 0 }
        syncedMS = wall.milliseconds
    }

    /// Converts the hub's document into another version of its schema.
    ///
    /// - Parameter isRefetched: The hub's own document comes again, and counts although its version is known.
    /// - Returns: `false` when there is nothing to write.
    mutating func convertBase(by steps: SchemaSteps, isRefetched: Bool) -> Bool {
        // A damaged document is found by its checksum; one that cannot be read for another reason stays.
        let document = parsedBase.known.map { steps.convert($0).json }
        let changes = document.map { !sameBytes($0, base) } ?? false
        if changes, let document { rewriteBase(document) }
        let isMarked = isRefetched && base != nil && baseVersion > 0 && gen != Self.revokedGen
        if isMarked { gen = Self.loweredGen }
        return changes || isMarked || status != .synced
    }

    /// Writes the hub's document in another form. It is the same version of it, and says nothing new about the hub.
    mutating func rewriteBase(_ text: String) { base = text }

    /// The hub's document of the same version is to replace the base.
    var isLowered: Bool { gen == MirrorRow.loweredGen }

    /// Drops a base that cannot be trusted: any version of the hub is newer.
    mutating func dropBase() {
        (base, stub) = (nil, nil)
        baseVersion = -1
        isDamaged = false
    }

    /// Forgets everything that came from the hub. Version 0 is older than any version with which the record may come back.
    mutating func revoke() {
        (base, stub, baseVersion, syncedMS) = (nil, nil, 0, nil)
        gen = MirrorRow.revokedGen
        isDamaged = false
    }

    /// Drops the document and keeps a stub of it. For apps nothing has changed, so the whole etag stays: an app that asks with it has the
    /// document, and gets 304.
    ///
    /// The row is removed, and ``save(to:)`` makes it anew: SQLite joins pages where rows go, and not where they get shorter. An update
    /// would leave nearly empty pages, and no byte of the file would be free.
    ///
    /// - Precondition: Nothing is open on the record.
    mutating func dropDocument(in database: Database) throws(StoreError) {
        stub = Stub(of: base)
        (base, view, isDeleted) = (nil, nil, true)
        // Saving the row counts as a change of it.
        rev -= 1
        try database.run("DELETE FROM record WHERE rid = ?", .int(rid))
        isNew = true
    }

    /// - Parameter isHidden: An open mutation deletes the record.
    mutating func hideStub(_ isHidden: Bool) { stub?.isHidden = isHidden }

    /// Marks a change at that time on the age clock. A change of earlier than the last one does not make a record older.
    mutating func markChanged(at age: Int64) { changedAge = max(changedAge ?? age, age) }

    mutating func setView(_ text: String?) {
        isDeleted = text == nil
        view = sameBytes(text, base) ? nil : text
    }

    static func find(_ database: Database, eid: Int64, id: String) throws(StoreError) -> MirrorRow? {
        try database.first(
            """
            SELECT * FROM record WHERE eid = ? AND id = ?
            """, .int(eid), .text(id)
        ) { row throws(StoreError) in MirrorRow(row) }
    }

    static func find(_ database: Database, rid: Int64) throws(StoreError) -> MirrorRow? {
        try database.first(
            """
            SELECT * FROM record WHERE rid = ?
            """, .int(rid)
        ) { row throws(StoreError) in MirrorRow(row) }
    }

    /// Counts an accepted local write: its author must see another etag even if the document is the same.
    mutating func countEdit() { isEdited = true }

    mutating func save(to database: Database) throws(StoreError) {
        rev += 1
        if isEdited || !isDocumentKnown { edit += 1 }
        isEdited = false
        rememberKnown()
        let sum = MirrorRow.checksum(eid: eid, id: id, version: baseVersion) { digest in
            digest.update(field: base)
            digest.update(field: view)
            stub?.update(&digest)
        }
        if isNew {
            try database.run(
                """
                INSERT INTO record (rid, eid, id, base_version, status, deleted, gen, rev, created_ms, updated_ms, synced_ms,
                    gone_age, sum, server_id, base, view, edit, changed_age, stub)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                .int(rid), .int(eid), .text(id), .int(baseVersion), .int(status.rawValue), .bool(isDeleted), .int(gen),
                .int(rev), .int(createdMS), .int(updatedMS), .optional(syncedMS), .optional(goneAge), .int(sum),
                .optional(serverID), .optional(base), .optional(view), .int(edit), .optional(changedAge), .optional(stub?.stored))
            isNew = false
        } else {
            try database.run(
                """
                UPDATE record SET base_version = ?, status = ?, deleted = ?, gen = ?, rev = ?, updated_ms = ?, synced_ms = ?,
                    gone_age = ?, sum = ?, server_id = ?, base = ?, view = ?, edit = ?, changed_age = ?, stub = ? WHERE rid = ?
                """,
                .int(baseVersion), .int(status.rawValue), .bool(isDeleted), .int(gen), .int(rev), .int(updatedMS),
                .optional(syncedMS), .optional(goneAge), .int(sum), .optional(serverID), .optional(base), .optional(view),
                .int(edit), .optional(changedAge), .optional(stub?.stored), .int(rid))
        }
        indexed = shown
    }

    private mutating func rememberKnown() {
        (knownDocument, knownVersion) = (document, baseVersion)
        knownStub = isNotKept ? stub?.sum : nil
    }

    /// The document is the one that was read or saved. One that is not kept is compared by its checksum.
    private var isDocumentKnown: Bool {
        if knownStub == nil, !isNotKept { return sameBytes(document, knownDocument) }
        guard knownStub != nil || knownDocument != nil, isNotKept || document != nil else { return false }
        return (knownStub ?? Self.sum(of: knownDocument)) == documentSum
    }

    /// CRC-32C of the document that apps see, also of one that is not kept.
    fileprivate var documentSum: UInt32 { isNotKept ? stub?.sum ?? 0 : Self.sum(of: document) }

    private static func sum(of document: String?) -> UInt32 {
        var digest = CRC32C()
        digest.update(field: document)
        return digest.value
    }

    static func checksum(eid: Int64, id: String, version: Int64, documents: (inout CRC32C) -> Void) -> Int64 {
        var digest = CRC32C()
        digest.update(eid)
        digest.update(version)
        digest.update(field: id)
        documents(&digest)
        return Int64(digest.value)
    }
}

extension MirrorRow {
    /// The record's entity tag (RFC 9110, section 8.8.3): `"17.4.9f3ac1d2-12.41"`.
    ///
    /// The part before the hyphen is what apps may base a write on: the row's number, ``edit``, and the checksum of the document that apps
    /// see, so that an older copy of the database cannot use the tag of another document again. The part after it covers the rest that a
    /// reader may wait for: the hub's version and ``rev``. ``EntityTags`` compares the first part alone.
    var etag: String {
        "\"\(rid).\(edit).\(String(documentSum, radix: 16))-\(baseVersion).\(rev)\""
    }
}
