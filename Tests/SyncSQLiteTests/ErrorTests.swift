import CSQLite
import Foundation
import Glibc
import SyncSQLite
import Testing

/// The errors of SQLite and of the system below it, as one cause.
@Suite("Errors of SQLite")
struct ErrorTests {
    struct Case: Sendable {
        var result: Int32
        var system: Int32 = 0
        var cause: SQLiteError.Cause
    }

    @Test(
        "A result and the errno of its call have one cause",
        arguments: [
            Case(result: SQLITE_FULL, cause: .full),
            Case(result: SQLITE_IOERR, cause: .io),
            Case(result: SQLITE_IOERR | 2 << 8, cause: .io),
            Case(result: SQLITE_IOERR | 3 << 8, system: ENOSPC, cause: .full),
            Case(result: SQLITE_IOERR | 3 << 8, system: EDQUOT, cause: .full),
            Case(result: SQLITE_IOERR | 3 << 8, system: EFBIG, cause: .full),
            Case(result: SQLITE_IOERR | 3 << 8, system: EROFS, cause: .readOnly),
            Case(result: SQLITE_IOERR | 3 << 8, system: EIO, cause: .io),
            // SQLITE_IOERR_DATA: a page does not match its seal.
            Case(result: SQLITE_IOERR | 32 << 8, cause: .corrupt),
            Case(result: SQLITE_CORRUPT, cause: .corrupt),
            Case(result: SQLITE_CORRUPT | 1 << 8, system: ENOSPC, cause: .corrupt),
            Case(result: SQLITE_NOTADB, cause: .notADatabase),
            Case(result: SQLITE_BUSY, cause: .busy),
            Case(result: SQLITE_BUSY | 2 << 8, cause: .busy),
            Case(result: SQLITE_LOCKED, cause: .busy),
            Case(result: SQLITE_READONLY, cause: .readOnly),
            Case(result: SQLITE_READONLY | 1 << 8, cause: .readOnly),
            Case(result: SQLITE_PERM, cause: .readOnly),
            Case(result: SQLITE_AUTH, cause: .readOnly),
            Case(result: SQLITE_CANTOPEN, cause: .cannotOpen),
            Case(result: SQLITE_CANTOPEN, system: ENOENT, cause: .cannotOpen),
            Case(result: SQLITE_CANTOPEN, system: ENOSPC, cause: .full),
            Case(result: SQLITE_CANTOPEN, system: EROFS, cause: .readOnly),
            Case(result: SQLITE_CONSTRAINT | 8 << 8, cause: .constraint),
            Case(result: SQLITE_NOMEM, cause: .outOfMemory),
            Case(result: SQLITE_INTERRUPT, cause: .interrupted),
            Case(result: SQLITE_ERROR, cause: .other),
            Case(result: SQLITE_MISUSE, cause: .other),
            Case(result: SQLITE_TOOBIG, cause: .other),
        ])
    func causes(_ example: Case) {
        #expect(SQLiteError.cause(of: example.result, system: example.system) == example.cause)
    }

    @Test("A failed call is one whatever its cause, for after it nothing is known of the medium")
    func failedCall() {
        for cause in SQLiteError.Cause.allCases {
            #expect(SQLiteError(cause, doing: "test", detail: "", result: SQLITE_IOERR | 4 << 8).isFailedCall)
            #expect(!SQLiteError(cause, doing: "test", detail: "", result: SQLITE_FULL).isFailedCall)
            #expect(!SQLiteError(cause, doing: "test", detail: "").isFailedCall)
        }
    }

    @Test("A database that may not grow is full, and goes on when there is room")
    func full() throws {
        let file = try DatabaseFile()
        let connection = try file.opened()
        let pages = try #require(Int(connection.pragma("page_count")))
        _ = try connection.pragma("max_page_count = \(pages + 2)")
        let error = failure { () throws(SQLiteError) in try connection.run("INSERT INTO t VALUES (1, zeroblob(100000))") }
        #expect(error?.cause == .full)
        #expect(error?.doing == "INSERT INTO t VALUES (1, zeroblob(100000))")
        #expect(try connection.column("SELECT count(*) FROM t") == [.int(0)])
        _ = try connection.pragma("max_page_count = 100000")
        try connection.run("INSERT INTO t VALUES (1, zeroblob(100000))")
        #expect(connection.changes == 1)
    }

    @Test("The lock of another connection is busy, and free after it")
    func busy() throws {
        let file = try DatabaseFile()
        let (one, other) = (try file.opened(), try SQLiteConnection(.writing(file.path)))
        try one.execute("BEGIN IMMEDIATE")
        other.wait(forLockMS: 0)
        #expect(failure { () throws(SQLiteError) in try other.execute("BEGIN IMMEDIATE") }?.cause == .busy)
        try one.execute("COMMIT")
        try other.execute("BEGIN IMMEDIATE; COMMIT")
    }

    @Test("A page that contradicts itself is corrupt")
    func corrupt() throws {
        let file = try DatabaseFile()
        try fill(file, sealed: false)
        var bytes = file.bytes
        // Below the first page, which has the schema.
        for place in 4_096..<bytes.count { bytes[place] = 0xEE }
        try file.write(bytes)
        let connection = try SQLiteConnection(.writing(file.path))
        let error = failure { () throws(SQLiteError) in _ = try connection.column("SELECT sum(length(v)) FROM t") }
        #expect(error?.cause == .corrupt)
        #expect(error?.isFailedCall == false)
    }

    @Test("A page that does not match its seal is corrupt, and its read is a failed call")
    func brokenSeal() throws {
        let file = try DatabaseFile()
        try fill(file, sealed: true)
        var bytes = file.bytes
        #expect(bytes.count > 4 * PageSeal.pageBytes)
        #expect(file.brokenPages == [])
        let second = Array(bytes[PageSeal.pageBytes..<2 * PageSeal.pageBytes])
        #expect(!PageSeal.isIntact(second, number: 3), "a page at the place of another one")
        bytes[3 * PageSeal.pageBytes + 2_000] ^= 1
        try file.write(bytes)
        let connection = try SQLiteConnection(.reading(file.path))
        #expect(connection.reservedBytes == PageSeal.bytes)
        let error = failure { () throws(SQLiteError) in _ = try connection.column("SELECT sum(length(v)) FROM t") }
        #expect(connection.checksSeals)
        #expect(error?.cause == .corrupt)
        #expect(error?.isFailedCall == true)
    }

    @Test("A file with other content is no database")
    func notADatabase() throws {
        let file = try DatabaseFile()
        try file.write(Array(repeating: UInt8(ascii: "x"), count: 8_192))
        let connection = try SQLiteConnection(.writing(file.path))
        #expect(failure { () throws(SQLiteError) in try connection.execute("SELECT * FROM sqlite_schema") }?.cause == .notADatabase)
    }

    @Test("A connection that reads cannot write")
    func readOnly() throws {
        let file = try DatabaseFile()
        try fill(file, sealed: false)
        let connection = try SQLiteConnection(.reading(file.path))
        #expect(try connection.column("SELECT count(*) FROM t") == [.int(40)])
        #expect(failure { () throws(SQLiteError) in try connection.execute("DELETE FROM t") }?.cause == .readOnly)
    }

    @Test("A missing file, a folder and a FIFO cannot be opened, and the FIFO blocks nothing", arguments: ["missing", "folder", "fifo"])
    func missingFileFolderAndFIFOCannotBeOpened(_ kind: String) throws {
        let file = try DatabaseFile()
        if kind == "folder" { try FileManager.default.createDirectory(atPath: file.path, withIntermediateDirectories: false) }
        if kind == "fifo" { try #require(mkfifo(file.path, 0o600) == 0) }
        let error = failure { () throws(SQLiteError) in _ = try SQLiteConnection(.reading(file.path)) }
        #expect(error?.cause == .cannotOpen)
        #expect(error?.doing == "open \(file.path)")
    }

    @Test("The errno of an earlier call is not told with a later error")
    func stale() throws {
        let file = try DatabaseFile()
        defer { withExtendedLifetime(file) {} }
        let connection = try file.opened()
        let away = failure { () throws(SQLiteError) in try connection.execute("ATTACH '/nowhere/at/all.db' AS other") }
        #expect(away?.cause == .cannotOpen)
        try connection.run("INSERT INTO t VALUES (1, 'a')")
        let twice = failure { () throws(SQLiteError) in try connection.run("INSERT INTO t VALUES (1, 'a')") }
        #expect(twice?.cause == .constraint)
        #expect(twice?.detail.contains("errno") == false)
    }

    @Test("A statement beyond its time is interrupted, and the next one is not")
    func interrupted() throws {
        let connection = try SQLiteConnection(.memory)
        let long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT max(i) FROM n"
        let error = failure { () throws(SQLiteError) in
            try connection.bounded(by: { true }) { () throws(SQLiteError) in
                #expect(connection.isOverTime)
                _ = try connection.column(long)
            }
        }
        #expect(error?.cause == .interrupted)
        #expect(!connection.isOverTime)
        #expect(try connection.column(long) == [.int(1_000_000)])
    }

    /// A closed database of several pages.
    private func fill(_ file: DatabaseFile, sealed: Bool) throws {
        let connection = try file.opened(sealed: sealed)
        let text = String(repeating: "x", count: 1_000)
        for number in 0..<40 { try connection.run("INSERT INTO t VALUES (?, ?)", .int(number), .text(text)) }
        _ = try connection.checkpoint(truncating: true)
    }
}
