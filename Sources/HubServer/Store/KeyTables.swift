import SyncCore

/// The tables of an engine that hold the keys of mutations (PROTOCOL A6), as the statements about them.
///
/// A key is found by the bytes of its text. An engine that keeps UUIDs as numbers does so only for texts in their one canonical form
/// (``isCanonicalUUID(_:)``): any other spelling of the same UUID is another key, as before.
package final class KeyTables: Sendable {
    /// The statements about the keys of one form.
    package final class Statements: Sendable {
        /// `?1` is the device, `?2` the key. Finds fingerprint, `seq`, verdict, version and payload, in this order. One for each part of
        /// the table (``KeyTables/part(of:in:)``): a planner would look into all of them.
        package let lookUps: [LookUp]
        /// `?1` is the device, `?2` the key, and `?3` what it was: version times 4 plus verdict; -1: it was not there.
        package let fact: RowFact
        /// Device, key, fingerprint, `seq`, verdict, version, payload and time.
        package let adding: RowStatement
        /// The same for a key that another mutation has answered for; it may be there already.
        package let superseding: RowStatement
        /// `seq` and time are stored only beside a payload, which is all that they are for.
        package let isBare: Bool

        package init(lookUps: [LookUp], fact: RowFact, adding: RowStatement, superseding: RowStatement, isBare: Bool) {
            (self.lookUps, self.fact, self.adding, self.superseding) = (lookUps, fact, adding, superseding)
            self.isBare = isBare
        }
    }

    /// Statements about keys that are UUIDs in canonical form; `nil`: they are with the others.
    package let uuids: Statements?
    package let others: Statements
    /// Each removes payloads that were stored before a time, `?`, once the device has acknowledged them.
    package let pruning: [String]
    /// Each removes keys of the device `?1` with a `seq` up to `?2`: a mistake that a test build makes on purpose.
    package let forgetting: [String]
    /// The newest version of all keys, and their number.
    package let newest: String
    package let count: String
    /// The versions of the keys of the device `?1` above `?2`.
    package let commits: String
    /// The way from the table of an earlier schema; `nil`: there is none.
    package let move: KeyMove?

    package init(
        uuids: Statements? = nil, others: Statements, pruning: [String], forgetting: [String], newest: String, count: String,
        commits: String, move: KeyMove? = nil
    ) {
        (self.uuids, self.others, self.pruning, self.forgetting) = (uuids, others, pruning, forgetting)
        (self.newest, self.count, self.commits, self.move) = (newest, count, commits, move)
    }

    func isOfUUIDs(_ key: MutationKey) -> Bool { uuids != nil && KeyTables.isCanonicalUUID(key.text) }

    /// The part that has the keys of a device: the first byte of the SHA-256 of its name, modulo their number.
    static func part(of device: DeviceID, in count: Int) -> Int {
        guard count > 1 else { return 0 }
        return Int(SHA256.hash(Array(device.text.utf8))[0]) % count
    }

    /// Returns whether the text is a UUID as RFC 9562 writes it: lower case, with four hyphens.
    package static func isCanonicalUUID(_ text: String) -> Bool {
        guard text.utf8.count == 36 else { return false }
        return text.utf8.enumerated().allSatisfy { place, byte in
            switch place {
            case 8, 13, 18, 23: byte == UInt8(ascii: "-")
            default: (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
            }
        }
    }
}

/// Statements that move keys from the table of an earlier schema, while hubs go on working (``Hub/moveKeys(from:_:)``).
package struct KeyMove: Sendable {
    /// The size of the earlier table in pages; -1: it is gone.
    package var pages: String
    /// Gives numbers to devices of the next rows that have none: with the values of ``slice``. All devices got theirs with the step.
    package var numbering: String
    /// Moves up to `?3` rows that are on pages from `?1` to below `?2`, and leaves those that another transaction has locked, and those of
    /// devices without a number: beside another hub that moves or pushes, ``numbering`` may not have given one. Its row is their number,
    /// and the page of the last one.
    package var slice: String
    /// 1 when the earlier table has rows.
    package var hasRows: String
    /// Removes the earlier table.
    package var removal: [String]

    package init(pages: String, numbering: String, slice: String, hasRows: String, removal: [String]) {
        (self.pages, self.numbering, self.slice, self.hasRows, self.removal) = (pages, numbering, slice, hasRows, removal)
    }
}

extension KeyTables {
    /// One table for all keys, with the text of each.
    static let sqlite = KeyTables(
        others: Statements(
            lookUps: [
                LookUp(
                    "SELECT fingerprint, seq, status, version, payload FROM mutation_key WHERE device = ?1 AND key = ?2", [.text, .text])
            ],
            fact: RowFact(
                "coalesce((SELECT k.version * 4 + k.status FROM mutation_key k WHERE k.device = ?1 AND k.key = ?2), -1) <> ?3",
                [.text, .text, .int]),
            adding: RowStatement("mutation_key", columns(device: .text, key: .text, fingerprint: .bytes)),
            superseding: RowStatement(
                "mutation_key", columns(device: .text, key: .text, fingerprint: .bytes), conflict: superseded),
            isBare: false),
        pruning: [
            """
            UPDATE mutation_key SET payload = NULL WHERE \(prunable) AND seq <= (\(acknowledged) WHERE replica.device = mutation_key.device)
            """
        ],
        forgetting: ["DELETE FROM mutation_key WHERE device = ?1 AND seq <= ?2"],
        newest: "SELECT coalesce(max(version), 0) FROM mutation_key",
        count: "SELECT count(*) FROM mutation_key",
        commits: "SELECT DISTINCT version FROM mutation_key WHERE device = ?1 AND version > ?2")

    /// The columns of a key, in the order of the values.
    package static func columns(
        device: ColumnKind, key: ColumnKind, fingerprint: ColumnKind
    ) -> KeyValuePairs<String, ColumnKind> {
        [
            "device": device, "key": key, "fingerprint": fingerprint, "seq": .int, "status": .int, "version": .commit, "payload": .text,
            "at_ms": .int,
        ]
    }

    /// The change of a key that another mutation has answered for, in the statement that writes it.
    package static let superseded = """
        ON CONFLICT(device, key) DO UPDATE SET status = \(StatusColumn.number(.accepted)), version = excluded.version, payload = NULL
        """
    /// A payload that may go at a time, `?`, if the device has acknowledged its `seq`. The names of fields in conflict stay: a database
    /// that goes back asks again, and no other row names the fields that people must decide about.
    package static let prunable = "payload IS NOT NULL AND status <> \(StatusColumn.number(.conflict)) AND at_ms < ?"
    package static let acknowledged =
        "SELECT acked_seq FROM replica JOIN device ON device.id = replica.device AND device.replica = replica.id"
}
