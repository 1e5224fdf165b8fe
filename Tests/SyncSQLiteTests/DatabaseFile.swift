import Foundation
import SyncSQLite

/// A place for a database file that goes with the test.
final class DatabaseFile {
    private let folder: URL
    let path: String

    init(_ name: String = "test.db") throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("sqlite-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appendingPathComponent(name).path
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)  // a folder left behind does no harm
    }

    /// The names of the files beside the database, and its own.
    var names: [String] { (try? FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()) ?? [] }

    var bytes: [UInt8] { FileManager.default.contents(atPath: path).map { [UInt8]($0) } ?? [] }

    /// Numbers of the pages that do not end with their seal.
    var brokenPages: [Int] {
        let bytes = bytes
        return (1...max(1, bytes.count / PageSeal.pageBytes)).filter { number in
            !PageSeal.isIntact(Array(bytes[(number - 1) * PageSeal.pageBytes..<number * PageSeal.pageBytes]), number: number)
        }
    }

    func write(_ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    /// A connection that writes, and a table with a key and a value.
    func opened(sealed: Bool = false) throws -> SQLiteConnection {
        let connection = try SQLiteConnection(.writing(path))
        if sealed { connection.reserveSeals() }
        try connection.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v); PRAGMA journal_mode = WAL")
        return connection
    }
}

extension SQLiteConnection {
    /// Runs one statement with values.
    func run(_ sql: String, _ values: SQLiteValue...) throws(SQLiteError) {
        let statement = try statement(of: sql)
        defer { statement.reset() }
        try statement.bind(values)
        _ = try statement.step()
    }

    /// The first column of all rows.
    func column(_ sql: String, _ values: SQLiteValue...) throws(SQLiteError) -> [SQLiteValue] {
        let statement = try statement(of: sql)
        defer { statement.reset() }
        try statement.bind(values)
        var found: [SQLiteValue] = []
        while try statement.step() { found.append(statement.value(0)) }
        return found
    }
}

/// The error of a call that must fail.
func failure(_ body: () throws(SQLiteError) -> Void) -> SQLiteError? {
    do throws(SQLiteError) {
        try body()
        return nil
    } catch {
        return error
    }
}
