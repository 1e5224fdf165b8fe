package import SyncCore

// Values that lost a conflict, and records that cannot be read.
extension HubStore {
    /// Newest first, of one record, of a whole entity, or of all.
    func lostValues(_ entity: EntityName?, _ id: RecordID?, limit: Int) throws(DatabaseError) -> [LostRow] {
        try database.all(
            """
            SELECT id, field, value, version, hlc, writer, author, at_ms, entity FROM lost_value
            WHERE (CAST(?1 AS TEXT) IS NULL OR entity = ?1) AND (CAST(?2 AS TEXT) IS NULL OR id = ?2) ORDER BY n DESC LIMIT ?3
            """, DatabaseValue(entity?.text), DatabaseValue(id?.text), .int(Int64(limit))
        ) {
            let text = $0.optionalText(2)
            // For people only: an unreadable value is shown as its text, and marked as such.
            let value = text.flatMap { try? JSONReader.read($0, limits: .stored) }
            let stamp = VersionedRecord.Stamp(
                version: $0.int(3), hlc: HybridTime($0.text(4)) ?? HybridTime(milliseconds: 0, counter: 0, node: "0"),
                writer: DeviceID(trusted: $0.text(5)), author: $0.optionalText(6))
            return LostRow(
                record: RecordName(EntityName(trusted: $0.text(8)), RecordID(trusted: $0.text(0))),
                value: LostValue(field: $0.text(1), value: value ?? text.map { .string($0) }, stamp: stamp),
                at: Timestamp(milliseconds: $0.int(7)), isUnreadable: text != nil && value == nil)
        }
    }

    /// Number of newest values that are kept: the trail for people must not outgrow the data.
    static let lostValuesMax: Int64 = 100_000

    func keep(_ lost: LostValue, of name: RecordName, at now: Timestamp) throws(DatabaseError) {
        let row: [DatabaseValue] = [
            .text(name.entity.text), .text(name.id.text), .text(lost.field), DatabaseValue(lost.value?.json),
            .int(lost.stamp.version), .text(lost.stamp.hlc.description), .text(lost.stamp.writer.text),
            DatabaseValue(lost.stamp.author), .int(now.milliseconds),
        ]
        try change(at: now) { layer in layer.writes.losses.append(row) }
    }
}

/// A value that lost a conflict at the hub.
package struct LostRow: Hashable, Sendable {
    package var record: RecordName
    package var value: LostValue
    package var at: Timestamp
    /// The stored value is not JSON: ``value`` is its text.
    package var isUnreadable = false

    package init(record: RecordName, value: LostValue, at: Timestamp, isUnreadable: Bool = false) {
        self.record = record
        self.value = value
        self.at = at
        self.isUnreadable = isUnreadable
    }

    /// A lost removal has no `value`.
    package var json: JSON {
        var object: JSONObject = [
            "kind": "lost", "at": .string(at.description), "entity": .string(record.entity.text), "id": .string(record.id.text),
            "field": .string(value.field), "removed": .bool(value.value == nil && value.field != HubMerge.restOfRecord),
            "device": .string(value.stamp.writer.text),
            "author": .optional(value.stamp.author), "version": .int(value.stamp.version),
            "hlc": .string(value.stamp.hlc.description),
        ]
        object["value"] = value.value
        if isUnreadable { object["unreadable"] = true }
        return .object(object)
    }
}

/// Records that the hub stores and cannot read itself.
package struct DamagedRecords: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        package var record: RecordName
        package var version: Int64
        /// The error in the record.
        package var detail: String

        package var json: JSON {
            [
                "kind": "damaged", "entity": .string(record.entity.text), "id": .string(record.id.text), "version": .int(version),
                "damaged": .string(detail),
            ]
        }
    }

    package var count: Int64 = 0
    /// The first of them by name, up to the requested number.
    package var first: [Row] = []

    package init() {}

    package var json: JSON { ["records": .int(count), "first": .array(first.map(\.json))] }
}
