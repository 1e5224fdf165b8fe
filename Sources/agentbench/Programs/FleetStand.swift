import BenchKit
import CBenchFloors
import Glibc
import SyncCore

/// The database of one case of `agentbench fleet`, and its hubs.
final class FleetStand {
    /// `nil`: the hub has SQLite.
    let server: PostgresUnderTest?
    private(set) var hubs: [FleetHub] = []
    let hubCount: Int
    private let program: String
    private let place: [String]
    private let workplace: Workplace

    static let entities = "  readings: { kind: event }\n  forms: { kind: reference }\n"

    /// Starts the database only.
    ///
    /// - Parameter name: `sqlite`, or `postgres-` and the number of hubs.
    init(_ name: String, _ run: FleetRun) throws {
        workplace = run.workplace
        program = try run.agenthub ?? neighbour("agenthub")
        server = name == "sqlite" ? nil : try PostgresUnderTest(in: workplace.folder("pg"), roundTrip: run.roundTrip)
        place = try server.map { ["--database", $0.url] } ?? ["--data", workplace.folder("data")]
        hubCount = name == "postgres-2" ? 2 : 1
    }

    /// - Parameters:
    ///   - entities: Lines of the settings below `entities:`, and further keys.
    ///   - options: Further ones of `agenthub serve`.
    func startHubs(entities: String = FleetStand.entities, options: [String] = []) throws {
        for number in 0..<hubCount {
            hubs.append(
                try FleetHub(
                    program, place: place + options, in: workplace.folder("hub-\(number)"), settings: "entities:\n" + entities))
        }
    }

    var ports: [UInt16] { hubs.map(\.port) }

    /// CPU time of all hubs, and of the server; nanoseconds.
    var cpu: (hubs: UInt64, server: UInt64) { (hubs.reduce(0) { $0 + $1.cpu }, server?.cpu ?? 0) }

    /// Publishes that many records of the entity beside the running hubs.
    ///
    /// - Parameter line: The record of a number, as a line of NDJSON without its end.
    func publish(_ entity: String, _ count: Int, _ line: (Int) -> String) throws {
        let path = "\(workplace.path)/\(entity).ndjson", log = "\(workplace.path)/publish.log"
        guard let file = fopen(path, "w") else { throw BenchError("cannot write \(path) (errno \(errno))") }
        for record in 0..<count { fputs(line(record) + "\n", file) }
        guard fclose(file) == 0 else { throw BenchError("cannot write \(path) (errno \(errno))") }
        defer { unlink(path) }
        let pid = try start([program, "publish", entity, path] + place, log: log)
        guard bench_stop(pid, 0, 3_600_000) == 0 else { throw BenchError("agenthub publish failed\n\(tail(of: log))") }
    }

    /// The number of applied mutations by the hub's own count.
    func applied() throws -> Int {
        var descriptor: Int32 = -1
        let log = "\(workplace.path)/stats.log"
        let pid = try start([program, "stats", "--json"] + place, log: log, output: &descriptor)
        var line: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 { line += buffer[..<count] }
        close(descriptor)
        _ = bench_stop(pid, 0, 10_000)
        // An unreadable line is thrown as an error below.
        guard let mutations = (try? JSONReader.read(line))?.object?["mutations"]?.object, let applied = mutations["applied"]?.int else {
            throw BenchError("agenthub stats does not read\n\(tail(of: log))")
        }
        return Int(applied)
    }

    /// The first value of a statement's first row in the hub's database, as a number.
    func number(_ sql: String) throws -> Int {
        if let server { return try server.number(sql) }
        var value: Int64 = 0
        try checked("database") { bench_sqlite_number("\(place[1])/hub.db", sql, &value, $0) }
        return Int(value)
    }

    /// Demands that each acknowledged mutation was applied once, and no other one.
    ///
    /// - Parameter before: ``applied()`` before the pushes.
    func check(_ name: String, pushed: Int, before: Int = 0) throws {
        let applied = try applied() - before
        guard applied == pushed else { throw BenchError("\(name): the hub applied \(applied) mutations, \(pushed) were pushed") }
    }

    func end() {
        for hub in hubs { hub.end(SIGTERM) }
        server?.stop()
    }
}
