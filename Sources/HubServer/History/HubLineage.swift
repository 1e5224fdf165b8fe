package import SyncCore

/// The line of a hub's database: each opening of it and each beginning of a new history, with the newest commit at that time.
///
/// An older copy of a database gives out the commit numbers of the original a second time, and looks the same from outside. Each process
/// that writes to the database therefore first adds an opening with a random name, and everything that the hub signs names the opening and
/// the commit (``HubPosition``). A point outside this line was signed by a database that was ahead of this one or on another branch, even
/// when the commit numbers have caught up since.
package struct HubLineage: Sendable, Hashable {
    /// The reason for an entry.
    package enum Cause: String, Sendable, CaseIterable {
        /// The database was made.
        case created
        /// A process began to write to it. The history goes on.
        case opened
        /// A receipt of a history that this database does not know; the entry is not part of this line. The next entry begins a history
        /// because of it.
        case elsewhere
        // All other causes begin a new history.
        /// An operator asked for it: `--new-epoch`, or a restore.
        case requested
        /// The mark beside the database was of a newer state.
        case mark
        /// A device showed a cursor or a receipt that this database does not know and that was signed with its secret.
        case cursor, receipt
        /// This process had seen a newer state of the database before.
        case witnessed
        /// The row of the hub was missing, or its commit number lower than that of a record.
        case repaired

        package var beginsHistory: Bool { ![.created, .opened, .elsewhere].contains(self) }
    }

    package struct Entry: Sendable, Hashable {
        package var n: Int64
        package var epoch: String
        /// Name of the opening: 8 hexadecimal digits.
        package var tag: String
        /// The newest commit when this was added.
        package var head: Int64
        /// Unknown when no request had told the time yet.
        package var at: Timestamp?
        package var cause: Cause
        /// The device that showed the evidence.
        package var device: DeviceID?
    }

    /// The newest ones, oldest first; at most ``entriesMax``.
    package var entries: [Entry] = []

    static let entriesMax: Int64 = 1_000

    init(_ entries: [Entry] = []) {
        self.entries = entries
    }

    /// The present opening; empty before the first one.
    var tag: String { entries.last?.tag ?? "" }

    /// Returns whether this database can have been at that point.
    ///
    /// - Parameter head: The newest commit now.
    func includes(_ position: HubPosition, head: Int64) -> Bool {
        guard position.head <= head else { return false }
        guard !position.opening.isEmpty else { return true }
        guard let index = entries.firstIndex(where: { $0.tag == position.opening && $0.epoch == position.epoch }) else {
            // Openings that were dropped by the limit are unknown.
            return entries.first.map { $0.n > 1 && position.head <= $0.head } ?? false
        }
        return position.head <= (index + 1 < entries.count ? entries[index + 1].head : head)
    }

    /// Returns whether the position's history belongs to this database or has been shown to it before. Any other history was begun by a
    /// newer state of the database than this copy, or by another branch of it.
    func knowsHistory(of position: HubPosition) -> Bool {
        if entries.contains(where: { $0.epoch == position.epoch }) { return true }
        // Openings that were dropped by the limit are unknown.
        return entries.first.map { $0.n > 1 && position.head <= $0.head } ?? false
    }

    /// The beginning of the present history; `nil` when the time is not known.
    package var began: Timestamp? {
        entries.last.flatMap { last in entries.first { $0.epoch == last.epoch && $0.at != nil }?.at }
    }

    /// The entry that began the present history; `nil` for the first history of a database.
    package var restart: Entry? {
        entries.last.flatMap { last in entries.last { $0.epoch == last.epoch && $0.cause.beginsHistory } }
    }
}

/// Evidence from a device, signed by this hub: a point that its database does not know.
struct HubEvidence {
    var cause: HubLineage.Cause
    var position: HubPosition
    var device: DeviceID
    /// From a receipt: the database that it is about, and the highest `seq` that the hub had seen of it.
    var replica: ReplicaID?
    var seq: Int64 = 0
}

/// Collects evidence while requests are answered. Their answers are then discarded, and given again in the new history.
final class HubWitness {
    var found: HubEvidence?

    func take() -> HubEvidence? {
        defer { found = nil }
        return found
    }
}

/// News about the hub's own history, for the log.
package enum HubNotice: Sendable, Hashable {
    case newHistory(HubLineage.Cause, from: String, to: String, head: Int64, device: DeviceID?)
    /// A device has seen a version (`base_version`) that this history has not reached, without signed evidence.
    case unproved(DeviceID, version: Int64, head: Int64)
    /// A database of a device came back after another one of the same device had spoken: it was restored from an old copy.
    case returned(DeviceID, ReplicaID)
    /// Records have left the share of a device whose agent would keep them, so it gets none of the entity until it is updated.
    case keeping(DeviceID, EntityName)
    /// Records grant the device more values than count (``DeviceAccess/grantsMax``); it receives nothing by the others.
    case overGranted(DeviceID)
    /// The clock has jumped since the housekeeping before: no events are removed by it for now.
    case clockJumped(from: Timestamp, to: Timestamp, until: Timestamp)
}

extension HubStore {
    func lineage() throws(DatabaseError) -> HubLineage {
        HubLineage(
            try database.all("SELECT n, epoch, tag, head, at_ms, cause, device FROM lineage ORDER BY n") { row in
                HubLineage.Entry(
                    n: row.int(0), epoch: row.text(1), tag: row.text(2), head: row.int(3),
                    at: row.optionalInt(4).map { Timestamp(milliseconds: $0) },
                    cause: HubLineage.Cause(rawValue: row.text(5)) ?? .opened,
                    device: row.optionalText(6).map { DeviceID(trusted: $0) })
            })
    }

    func add(_ entry: HubLineage.Entry) throws(DatabaseError) {
        try database.run(
            "INSERT INTO lineage(n, epoch, tag, head, at_ms, cause, device) VALUES(?, ?, ?, ?, ?, ?, ?)", .int(entry.n),
            .text(entry.epoch), .text(entry.tag), .int(entry.head), DatabaseValue(entry.at?.milliseconds),
            .text(entry.cause.rawValue), DatabaseValue(entry.device?.text))
        try database.run("DELETE FROM lineage WHERE n <= ?", .int(entry.n - HubLineage.entriesMax))
    }

    /// The newest commit number of any record or forgotten deletion. It takes one step into the index for each entity.
    func newestCommit() throws(DatabaseError) -> Int64 {
        let records = try newestVersion()
        let forgotten = try database.number("SELECT coalesce(max(version), 0) FROM horizon")
        let opened = try database.number("SELECT coalesce(max(head), 0) FROM lineage")
        let newest = max(records, forgotten, opened)
        // The same limit as for the hub's own row: a number above it would leave none for the next commit.
        guard newest <= 1 << 53 else {
            throw DatabaseError(
                .corrupt, doing: "look for the newest commit number",
                detail: "a record, a forgotten deletion or an opening has \(newest); expected up to 2^53")
        }
        return newest
    }
}

extension SQLiteSchema {
    /// Openings and histories (``HubLineage``).
    static let lineage = """
        CREATE TABLE lineage(
          n INTEGER PRIMARY KEY CHECK(n > 0),
          epoch TEXT NOT NULL,
          tag TEXT NOT NULL,
          head INTEGER NOT NULL CHECK(head >= 0),
          at_ms INTEGER,
          cause TEXT NOT NULL,
          device TEXT
        ) STRICT;
        """
}
