import Foundation
import SyncSQLite
import Testing

@Suite("A connection to SQLite")
struct ConnectionTests {
    @Test("Commits that wrote are counted, and a transaction is known")
    func commits() throws {
        let file = try DatabaseFile()
        defer { withExtendedLifetime(file) {} }
        let connection = try file.opened()
        let before = connection.commits
        try connection.execute("BEGIN")
        #expect(connection.isInTransaction)
        try connection.run("INSERT INTO t VALUES (1, 'a')")
        try connection.execute("COMMIT")
        try connection.execute("BEGIN; SELECT * FROM t; COMMIT")
        #expect(!connection.isInTransaction)
        #expect(connection.commits == before + 1)
        try connection.run("UPDATE t SET v = 'b'")
        #expect(connection.changes == 1)
        #expect(connection.commits == before + 2)
    }

    @Test("A copy is of one moment, and a closed one is one file without a log")
    func copy() throws {
        let (file, other) = (try DatabaseFile(), try DatabaseFile("copy.db"))
        let connection = try file.opened()
        try connection.run("INSERT INTO t VALUES (1, 'before')")
        do {
            let target = try SQLiteConnection(.writing(other.path))
            try connection.copy(into: target)
            try target.execute("PRAGMA journal_mode = DELETE")
        }
        try connection.run("UPDATE t SET v = 'after'")
        #expect(other.names == ["copy.db"])
        #expect(try SQLiteConnection(.reading(other.path)).column("SELECT v FROM t") == [.text("before")])
    }

    @Test("A database in memory becomes bytes and comes back from them")
    func bytes() throws {
        let connection = try SQLiteConnection(.memory)
        try connection.execute("CREATE TABLE t(v)")
        try connection.run("INSERT INTO t VALUES ('a')")
        let bytes = try connection.serialize()
        try connection.run("INSERT INTO t VALUES ('b')")
        connection.forgetStatements()
        try connection.deserialize(bytes)
        #expect(try connection.column("SELECT v FROM t") == [.text("a")])
        try connection.run("INSERT INTO t VALUES ('c')")
        #expect(try connection.column("SELECT count(*) FROM t") == [.int(2)])
    }

    @Test("All rows leave, also those that others refer to; prepared statements stay, and the rows of a new database come back")
    func rows() throws {
        let connection = try SQLiteConnection(.memory)
        try connection.execute(
            """
            PRAGMA foreign_keys = ON;
            CREATE TABLE a(n INTEGER PRIMARY KEY, v TEXT) STRICT;
            CREATE TABLE b(n INTEGER REFERENCES a, up INTEGER REFERENCES b(n), t TEXT, UNIQUE (n)) STRICT;
            CREATE TABLE c(n INTEGER PRIMARY KEY REFERENCES b(n), x BLOB) STRICT, WITHOUT ROWID;
            INSERT INTO a VALUES (7, NULL); INSERT INTO b VALUES (7, NULL, 'it''s'); INSERT INTO c VALUES (7, x'00ff');
            """)
        let first = try connection.insertionOfRows()
        let sql: StaticString = "INSERT INTO a VALUES (NULL, ?)"
        let statement = try connection.statement(sql)
        for _ in 0..<3 {
            try connection.execute("BEGIN; INSERT INTO a VALUES (8, NULL); INSERT INTO b VALUES (8, 7, ''); INSERT INTO c VALUES (8, NULL)")
            let prepared = connection.keptSQL.count
            try connection.removeRows()
            #expect(connection.keptSQL.count == max(prepared, 4))
            #expect(try connection.statement(sql) === statement)
            for table in ["a", "b", "c"] { #expect(try connection.column("SELECT count(*) FROM \(table)") == [.int(0)]) }
            try connection.execute(first)
            #expect(try connection.column("SELECT t FROM b") == [.text("it's")])
            #expect(try connection.column("SELECT x FROM c") == [.blob([0, 255])])
            #expect(try connection.insertionOfRows() == first)
        }
    }

    @Test("A checkpoint is not complete while a reader holds an older state, and then is")
    func checkpoint() throws {
        let file = try DatabaseFile()
        let connection = try file.opened()
        connection.watchWAL()
        connection.wait(forLockMS: 0)
        try connection.run("INSERT INTO t VALUES (1, 'a')")
        #expect(connection.walPages > 0)
        let reader = try SQLiteConnection(.reading(file.path))
        try reader.execute("BEGIN; SELECT * FROM t")
        try connection.run("INSERT INTO t VALUES (2, 'b')")
        #expect(try !connection.checkpoint(truncating: true))
        #expect(try reader.column("SELECT count(*) FROM t") == [.int(1)])
        try reader.execute("COMMIT")
        #expect(try connection.checkpoint(truncating: true))
        #expect(connection.walPages == 0)
    }

    @Test("The last connection writes the log back when it closes, unless it is told to keep it", arguments: [false, true])
    func log(_ keeps: Bool) throws {
        let file = try DatabaseFile()
        do {
            let connection = try file.opened()
            if keeps { try connection.keepLogWhenClosing() }
            try connection.run("INSERT INTO t VALUES (1, 'a')")
        }
        #expect(file.names.contains("test.db-wal") == keeps)
        #expect(try SQLiteConnection(.writing(file.path)).column("SELECT v FROM t") == [.text("a")])
    }

    @Test("A file is read alone without a file beside it, whatever its name", arguments: ["plain.db", "a?b#c%41 d.db", "größer&x=1.db"])
    func alone(_ name: String) throws {
        let file = try DatabaseFile(name)
        try file.opened().run("INSERT INTO t VALUES (1, 'a')")
        #expect(file.names == [name])
        let connection = try SQLiteConnection(.readingAlone(file.path))
        #expect(try connection.column("SELECT v FROM t") == [.text("a")])
        #expect(file.names == [name])
    }

    @Test("A database gets seals when VACUUM rewrites it, and has none without being asked")
    func seals() throws {
        let file = try DatabaseFile()
        let connection = try file.opened()
        try connection.run("INSERT INTO t VALUES (1, 'a')")
        #expect(connection.reservedBytes == 0 && !connection.checksSeals)
        connection.reserveSeals()
        try connection.execute("VACUUM")
        #expect(try connection.checkpoint(truncating: true))
        #expect(connection.reservedBytes == PageSeal.bytes && connection.checksSeals)
        #expect(file.brokenPages == [])
    }

    @Test("Every page of a new file has its seal, also when most pages are written before the first one")
    func early() throws {
        let (file, copy) = (try DatabaseFile(), try DatabaseFile("copy.db"))
        let connection = try file.opened(sealed: true)
        try connection.run(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT i, zeroblob(900) FROM n")
        // SQLite writes what does not fit, and keeps the first page to the end.
        try connection.execute("PRAGMA cache_size = 10")
        try connection.run("VACUUM INTO ?", .text(copy.path))
        #expect(copy.bytes.count > 400 * PageSeal.pageBytes)
        #expect(copy.brokenPages == [])
        #expect(try SQLiteConnection(.reading(copy.path)).column("PRAGMA integrity_check") == [.text("ok")])
    }
}
