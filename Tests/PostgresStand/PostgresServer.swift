import CPostgres
import Foundation
import Glibc
import ProcessStand
import Synchronization

/// A PostgreSQL server of our own, in a folder of its own, reached by a Unix socket: nothing of the machine's is touched.
///
/// The words of its database are ordered by English rules (ICU), which differ from the order of bytes that the hub promises.
package final class PostgresServer: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) {
            self.description = description
        }
    }

    package let folder: String
    private let programs: String
    /// The writing end of a pipe that is never written to.
    private let lifeline: Int32
    private let count = Atomic<Int>(0)
    /// Number of databases, besides the one that a server has from the beginning.
    private let databases = Mutex<Int>(0)
    /// Connections whose question is answered, the one used last at the end.
    private let idle = Mutex<[Session]>([])

    /// Number of schemas of a database. For each part of a table that it makes, the server reads all constraints of the database
    /// (`CloneFkReferenced`), and a hub has nearly a hundred: among five hundred schemas the next one takes twice as long.
    private static let schemasOfDatabase = 16

    /// Bytes that must be free in memory: 2.9 MB for each of more than a thousand schemas, twice, because two runs of tests go beside each
    /// other, and the logs of both.
    private static let room: UInt64 = 6_000_000_000

    /// Newest first: `/usr/lib/postgresql/15/bin`.
    private static let programs: String? = {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(root)/\($0)/bin" }
            .first { FileManager.default.isExecutableFile(atPath: "\($0)/initdb") }
    }()

    package static var isInstalled: Bool { programs != nil }

    /// The one that most tests share: each has a schema of its own there.
    package static let shared = Result { try PostgresServer() }

    package init() throws {
        guard let programs = Self.programs else { throw Failure(description: "no PostgreSQL server program here") }
        self.programs = programs
        // Short: the path of a socket has 107 bytes.
        folder = QuickFolder.folder(free: Self.room) + "/pg-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if geteuid() == 0 { chown(folder, Self.nobody, Self.nobody) }
        try Self.run(
            Self.asServer + [
                "\(programs)/initdb", "--pgdata", "\(folder)/data", "--username", "hub", "--auth", "trust", "--encoding", "UTF8",
                "--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US", "--no-sync", "--no-instructions",
            ])
        // The tests cut no power under this server, so it need not sync, nor log whole pages, nor be on a disk, where a schema costs twice as
        // much of the processor: it has more than two hundred files. Its behaviour after a kill is the same without. Its log is memory as
        // well. Memory that its processes share is a file of the folder, which goes with it, also where the server is killed. No test is
        // about autovacuum, which would go through the tables of all tests; the servers of `deploy/ha-drill` have it.
        let settings = """
            listen_addresses = ''
            unix_socket_directories = '\(folder)'
            autovacuum = off
            dynamic_shared_memory_type = mmap
            fsync = off
            full_page_writes = off
            max_wal_size = 256MB
            max_connections = 100
            deadlock_timeout = 200ms
            log_min_messages = fatal
            """
        let file = FileHandle(forWritingAtPath: "\(folder)/data/postgresql.conf")
        try file?.seekToEnd()
        try file?.write(contentsOf: Data(("\n" + settings + "\n").utf8))
        try file?.close()
        // However this process ends, the server ends with it: a shell sees the end of its input.
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0, ends.allSatisfy({ fcntl($0, F_SETFD, FD_CLOEXEC) == 0 }) else {
            throw Failure(description: "pipe: \(String(cString: strerror(errno)))")
        }
        lifeline = ends[1]
        let words = Self.asServer + ["\(programs)/pg_ctl", "--pgdata", "\(folder)/data", "--mode", "immediate", "stop"]
        let script = "read line; \(words.joined(separator: " ")) >/dev/null 2>&1; rm -rf '\(folder)'"
        _ = try Spawn.start(["/bin/sh", "-c", script], input: ends[0])
        close(ends[0])
        try start()
    }

    deinit {
        idle.withLock { for session in $0 { PQfinish(session.connection) } }
        close(lifeline)  // The shell does the rest.
    }

    // MARK: Its life

    /// Far beyond the minute that the program waits by itself: on a busy machine a server starts and ends slowly.
    private static let patience = ["--wait", "--timeout", "600"]

    package func start() throws {
        try Self.run(
            Self.asServer + ["\(programs)/pg_ctl", "--pgdata", "\(folder)/data", "--log", "\(folder)/log"] + Self.patience + ["start"])
    }

    /// - Parameter mode: `fast` ends connections in good order, `immediate` is what a crash looks like.
    package func stop(mode: String) throws {
        try Self.run(Self.asServer + ["\(programs)/pg_ctl", "--pgdata", "\(folder)/data", "--mode", mode] + Self.patience + ["stop"])
    }

    /// While it is stopped: from its next start on it accepts readers alone, until `pg_promote()`.
    package func makeStandby() throws {
        try Data().write(to: URL(fileURLWithPath: "\(folder)/data/standby.signal"))
        if geteuid() == 0 { chown("\(folder)/data/standby.signal", Self.nobody, Self.nobody) }
    }

    // MARK: Asking

    /// The URL of a new, empty schema, for one hub or its replicas.
    package func newURL() throws -> String {
        let number = count.add(1, ordering: .relaxed).newValue
        let schema = "hub_\(number)"
        try databases.withLock { databases in
            while databases < number / Self.schemasOfDatabase {
                try query("CREATE DATABASE \(Self.database(databases + 1))")
                databases += 1
            }
        }
        try query("CREATE SCHEMA \(schema)", schema: schema)
        return url(schema: schema)
    }

    package func url(schema: String) -> String {
        "postgres:///\(Self.database(of: schema))?host=\(folder)&user=hub&options=-csearch_path%3D\(schema)"
    }

    private static func database(of schema: String) -> String {
        database(schema.hasPrefix("hub_") ? (Int(schema.dropFirst(4)) ?? 0) / schemasOfDatabase : 0)
    }

    private static func database(_ number: Int) -> String { number == 0 ? "postgres" : "hubs_\(number)" }

    package static func schema(of url: String) -> String { url.components(separatedBy: "%3D").last ?? "" }

    /// Runs statements on a connection that no other question has meanwhile.
    ///
    /// - Parameter schema: Needed where the statements name anything of a schema: it tells the database.
    @discardableResult
    package func query(_ sql: String, schema: String = "public") throws -> [[String?]] {
        let session = try session(schema: schema)
        let connection = session.connection
        let result = PQexec(connection, sql)
        defer {
            PQclear(result)
            keep(session)
        }
        let status = PQresultStatus(result)
        guard status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK else {
            throw Failure(description: "\(sql.prefix(80)): \(String(cString: PQresultErrorMessage(result)))")
        }
        return (0..<PQntuples(result)).map { row in
            (0..<PQnfields(result)).map { column in
                PQgetisnull(result, row, column) == 1 ? nil : String(cString: PQgetvalue(result, row, column))
            }
        }
    }

    private struct Session: @unchecked Sendable {  // One question has it, or the list.
        let database: String
        let connection: OpaquePointer
    }

    /// A connection that is idle, or a new one, which costs the server 8 ms of a processor.
    private func session(schema: String) throws -> Session {
        let database = Self.database(of: schema)
        let found = idle.withLock { idle in
            idle.lastIndex { $0.database == database }.map { idle.remove(at: $0) }
        }
        if let found {
            // The server may have been stopped since, or a test has ended all of its connections.
            let result = PQexec(found.connection, "SET search_path TO \(schema)")
            defer { PQclear(result) }
            if PQresultStatus(result) == PGRES_COMMAND_OK { return found }
            PQfinish(found.connection)
        }
        guard let connection = PQconnectdb(url(schema: schema)) else { throw Failure(description: "no memory for a connection") }
        guard PQstatus(connection) == CONNECTION_OK else {
            defer { PQfinish(connection) }
            throw Failure(description: String(cString: PQerrorMessage(connection)))
        }
        return Session(database: database, connection: connection)
    }

    /// Keeps a few, as the server accepts a hundred.
    private func keep(_ session: Session) {
        guard PQtransactionStatus(session.connection) == PQTRANS_IDLE else { return PQfinish(session.connection) }
        let old = idle.withLock { idle in
            idle.append(session)
            return idle.count > 4 ? idle.removeFirst() : nil
        }
        if let old { PQfinish(old.connection) }
    }

    /// Asks again and again until the answer is yes, the server pausing in between.
    package func wait(_ question: String, schema: String = "public") throws {
        while try query("SELECT CASE WHEN (\(question)) THEN 1 ELSE 0 END, pg_sleep(0.005)", schema: schema).first?.first != "1" {}
    }

    /// Waits until so many connections wait for a lock.
    package func waitForWaiters(_ count: Int) throws {
        try wait(
            """
            SELECT count(*) >= \(count) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'agenthub'
            """)
    }

    /// A backup of a database, as an operator makes it.
    package func backUp(schema: String) throws -> String {
        let copy = "copy_\(count.add(1, ordering: .relaxed).newValue)"
        let tables = try tables(schema).map { "CREATE TABLE \(copy).\($0) AS TABLE \(schema).\($0);" }
        try query("CREATE SCHEMA \(copy); \(tables.joined(separator: " "))", schema: schema)
        return copy
    }

    package func restore(_ copy: String, schema: String) throws {
        let tables = try tables(schema)
        let all = tables.map { "\(schema).\($0)" }.joined(separator: ", ")
        let inserts = Self.parentsFirst(tables).map { "INSERT INTO \(schema).\($0) SELECT * FROM \(copy).\($0);" }.joined(separator: " ")
        try query("BEGIN; TRUNCATE \(all); \(inserts) COMMIT;", schema: schema)
    }

    private func tables(_ schema: String) throws -> [String] {
        // A table with partitions has all of their rows; a view has none of its own.
        try query(
            """
            SELECT relname FROM pg_class WHERE relnamespace = '\(schema)'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            ORDER BY 1
            """, schema: schema
        ).compactMap(\.[0])
    }

    private static func parentsFirst(_ tables: [String]) -> [String] {
        let parents = ["device", "blob"].filter { tables.contains($0) }
        return parents + tables.filter { !parents.contains($0) }
    }

    // MARK: Processes

    private static let nobody: uid_t = 65_534

    /// It refuses to run as root.
    private static var asServer: [String] {
        geteuid() == 0 ? ["/usr/bin/setpriv", "--reuid=\(nobody)", "--regid=\(nobody)", "--clear-groups"] : ["/usr/bin/env"]
    }

    private static func run(_ command: [String]) throws {
        let output = FileManager.default.temporaryDirectory.appendingPathComponent("run-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: output) }
        let pid = try Spawn.start(command, log: output)
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        guard status == 0 else {
            let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
            throw Failure(description: "\(command.joined(separator: " ")): wait status \(status)\n\(text)")
        }
    }
}
