import CSQLite
import Foundation
import ProcessStand
import StoreKit
import SyncCore
import SyncStore

/// A second look at a database file, past all code of the store: what really is in it, and damage done to it.
final class RawDatabase {
    private let handle: OpaquePointer

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    init(_ path: String) throws {
        var opened: OpaquePointer?
        guard sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nil) == SQLITE_OK, let opened else {
            throw Failure(description: "cannot open \(path)")
        }
        handle = opened
        sqlite3_busy_timeout(handle, 1_000)
        // It looks on; the connection under test is the one that moves the log into the database.
        _ = try rows("PRAGMA wal_autocheckpoint = 0")
        csqlite_switch(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    }

    deinit {
        sqlite3_close_v2(handle)
    }

    /// All rows, each value as text, NULL as `nil`.
    @discardableResult
    func rows(_ sql: String) throws -> [[String?]] {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, let statement else { throw failure(sql) }
        defer { sqlite3_finalize(statement) }
        var rows: [[String?]] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                rows.append(
                    (0..<sqlite3_column_count(statement)).map { column in
                        sqlite3_column_text(statement, column).map { String(cString: $0) }
                    })
            case SQLITE_DONE: return rows
            default: throw failure(sql)
            }
        }
    }

    /// Takes away what the steps of the schema after that version have added: the database as that version left it.
    func goBack(to version: Int) throws {
        for step in stride(from: try number("PRAGMA user_version").map { Int($0) } ?? 0, to: version, by: -1) {
            for sql in Self.undo[step] ?? [] { try rows(sql) }
        }
        try rows("PRAGMA user_version = \(version)")
    }

    private static let undo: [Int: [String]] = [
        2: ["DROP TABLE usage", "DROP TABLE budget"],
        3: [
            "DROP INDEX mutation_flight", "ALTER TABLE mutation DROP COLUMN place",
            "CREATE INDEX mutation_flight ON mutation (claim, priority, seq) WHERE state = 1", "DROP INDEX mutation_into",
            "DROP TABLE tie", "DROP TABLE unmet", "ALTER TABLE boot DROP COLUMN anchor_ms",
        ],
        4: ["DROP TABLE requeued"]
            + ["snapshot", "snap_after", "snap_cursor", "buckets", "full_age", "seed_total", "run_deleted"].map {
                "ALTER TABLE stream DROP COLUMN \($0)"
            },
        5: ["DROP TABLE conflict", "ALTER TABLE payload DROP COLUMN first_digest"],
        6: ["DROP TABLE blob_link", "DROP TABLE blob"],
        7: ["DROP TABLE idmap", "DROP TABLE attempt"],
        8: ["ALTER TABLE stream DROP COLUMN seeding"],
        9: ["DROP INDEX mutation_ttl"],
        10: ["ALTER TABLE record DROP COLUMN edit", "DELETE FROM counter WHERE name IN ('next_blob', 'next_conflict')"],
        11: ["ALTER TABLE payload DROP COLUMN stamps"],
        12: [
            "DROP INDEX mutation_joined", "DROP INDEX mutation_ttl",
            "CREATE INDEX mutation_ttl ON mutation (ttl_age) WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0 AND priority > 0",
        ],
        20: ["ALTER TABLE stream DROP COLUMN snap_share"],
        19: ["wanted", "set_aside", "used"].map { "DROP INDEX blob_\($0)" }
            + ["fetch", "got_bytes", "wanted_ms", "asked", "pinned", "used_age"].map { "ALTER TABLE blob DROP COLUMN \($0)" },
        18: ["DROP TABLE entity_version"],
        17: ["new", "made", "ended", "removed"].map { "DROP TRIGGER stub_\($0)" }
            + [
                "ALTER TABLE record DROP COLUMN stub", "ALTER TABLE record DROP COLUMN changed_age",
                "DELETE FROM counter WHERE name = 'stubs'",
            ],
        16: ["ALTER TABLE stream DROP COLUMN of_share"],
        15: ["DROP TABLE undo_value"],
        14: ["made", "shown", "hidden", "removed"].map { "DROP TRIGGER record_\($0)" }
            + ["DROP TABLE index_entry", "DROP TABLE record_index", "DELETE FROM counter WHERE name = 'records'"],
        13: ["deleted", "listing_deleted", "run_day"].map { "ALTER TABLE stream DROP COLUMN \($0)" },
    ]

    func number(_ sql: String) throws -> Int64? { try rows(sql).first?.first?.flatMap { Int64($0) } }

    private func failure(_ sql: String) -> Failure { Failure(description: "\(String(cString: sqlite3_errmsg(handle))): \(sql)") }
}

/// A folder that goes with the test.
final class TemporaryFolder: Sendable {
    let path: String

    init() throws {
        path = QuickFolder.parent + "/store-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)  // a folder left behind does no harm
    }

    var database: String { path + "/agent.db" }

    /// The database as the power cut left it: its files as they are now, without a word to those that have them open.
    func image(_ name: String = "image.db") throws -> String {
        let target = path + "/" + name
        for ending in ["", "-wal"] {
            try? FileManager.default.removeItem(atPath: target + ending)  // it need not be there
            if FileManager.default.fileExists(atPath: database + ending) {
                try FileManager.default.copyItem(atPath: database + ending, toPath: target + ending)
            }
        }
        return target
    }

    func bytes(_ ending: String = "") -> [UInt8] { FileManager.default.contents(atPath: database + ending).map { [UInt8]($0) } ?? [] }

    func write(_ bytes: [UInt8], _ ending: String = "") throws {
        try Data(bytes).write(to: URL(fileURLWithPath: database + ending))
    }
}

extension TestAgent {
    /// A store in a file.
    convenience init(
        in folder: TemporaryFolder, rules: RuleBook = TestAgent.rules, capacity: StoreCapacity = StoreCapacity(),
        ablations: Ablations = .none, change: (inout StoreOptions) -> Void = { _ in }
    ) throws {
        try self.init(
            rules: rules, capacity: capacity, ablations: ablations, on: try Database.open(path: folder.database), change: change)
    }

    /// Another process on the same file: the first connection is closed, nothing was said to the store before.
    func reopen(_ path: String? = nil) throws {
        let path = path ?? database.path ?? ""
        // Nothing may still hold the old connection.
        database = try EmptyDatabase.copy()
        store = try Store(database, StoreOptions(device: options.device, bootID: options.bootID, seed: 0), at: now)
        database = try Database.open(path: path)
        wait(.seconds(1))
        store = try Store(database, options, at: now)
    }
}

extension StoreError {
    /// The code that an operation fails with; `nil` when it does not.
    static func code(of work: () throws -> Void) -> Code? {
        do {
            try work()
            return nil
        } catch {
            return (error as? StoreError)?.code ?? .other
        }
    }

    /// The problem that an operation is refused with.
    static func problem(of work: () throws -> Void) -> Problem? {
        do {
            try work()
            return nil
        } catch {
            return (error as? StoreError)?.problem
        }
    }
}

enum RawFile {
    static func truncate(_ path: String, to bytes: Int) throws {
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.truncate(atOffset: UInt64(bytes))
        try file.close()
    }
}
