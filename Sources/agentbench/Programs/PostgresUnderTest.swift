import BenchKit
import CBenchFloors
import CPostgresFloor
import FoundationEssentials
import Glibc

/// A PostgreSQL server for a measurement: a folder and a socket of its own, default settings, every commit on the disk.
final class PostgresUnderTest {
    private let pid: pid_t
    private let folder: String
    /// The way to it when that takes time.
    private var way: (relay: OpaquePointer, port: UInt16)?

    /// The reason why this does not work here, in a word; `nil`: there is none.
    static var obstacle: String? { programs == nil ? "postgresql is missing" : nil }

    private static let programs: String? = {
        let root = "/usr/lib/postgresql"
        // Without the folder it is not installed, and the measurement says so.
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(root)/\($0)/bin" }.first { access("\($0)/initdb", X_OK) == 0 }
    }()

    /// - Parameters:
    ///   - folder: Empty; its path must leave room for that of a socket (107 bytes).
    ///   - roundTrip: Milliseconds that the way to the server and back takes, through a relay; 0: its socket is used directly.
    init(in folder: String, roundTrip: Double = 0) throws {
        guard let programs = Self.programs else { throw BenchError("postgresql is missing") }
        self.folder = folder
        let nobody: uid_t = 65_534
        var words: [String] = []
        if geteuid() == 0 {
            // It refuses to run as root. The folders above are closed to other users, so they must let it pass.
            chown(folder, nobody, nobody)
            chmod(folder + "/..", 0o711)
            words = ["/usr/bin/setpriv", "--reuid=\(nobody)", "--regid=\(nobody)", "--clear-groups", "--pdeathsig=QUIT"]
        }
        let log = "\(folder)/../postgres.log"
        let made = try start(
            words + [
                "\(programs)/initdb", "--pgdata", "\(folder)/data", "--username", "hub", "--auth", "trust", "--encoding", "UTF8",
                "--locale", "C.UTF-8", "--no-instructions",
            ], log: log)
        guard bench_stop(made, 0, 120_000) == 0 else { throw BenchError("initdb failed\n\(tail(of: log))") }
        pid = try start(
            words + ["\(programs)/postgres", "-D", "\(folder)/data", "-k", folder, "-c", "listen_addresses="], log: log)
        // It accepts connections when the last line of this file says so (PostgreSQL 15, src/include/utils/pidfile.h).
        let began = bench_now()
        while !(FileManager.default.contents(atPath: "\(folder)/data/postmaster.pid").map {
            String(decoding: $0, as: UTF8.self).contains("ready")
        } ?? false) {
            guard bench_now() - began < 60_000_000_000, kill(pid, 0) == 0 else {
                _ = bench_stop(pid, SIGQUIT, 1_000)
                throw BenchError("postgres did not start\n\(tail(of: log))")
            }
            usleep(20_000)
        }
        if roundTrip > 0 { try layWay(roundTrip) }
    }

    private func layWay(_ roundTrip: Double) throws {
        var failure = bench_failure()
        var port: UInt16 = 0
        guard let relay = bench_relay_start_late("\(folder)/.s.PGSQL.5432", UInt64(roundTrip * 500_000), &port, &failure) else {
            stop()
            throw BenchError(failure.message)
        }
        way = (relay, port)
    }

    var url: String {
        way.map { "postgres://hub@127.0.0.1:\($0.port)/postgres?sslmode=disable" } ?? "postgres:///postgres?host=\(folder)&user=hub"
    }

    /// The time that a statement with a trivial answer takes, nanoseconds: the mean of some.
    func roundTrip() throws -> Double {
        var time: UInt64 = 0
        try checked("round trip") { bench_postgres_round_trip(url, &time, $0) }
        return Double(time)
    }

    /// The first value of a statement's first row.
    func number(_ sql: String) throws -> Int {
        var value: Int64 = 0
        try checked("database") { bench_postgres_number(url, sql, &value, $0) }
        return Int(value)
    }

    /// The number of transactions that were committed so far, reads included; that of a session is at most a second old.
    func commits() throws -> Int { try number("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()") }

    /// CPU time of the server and of all its live processes, in nanoseconds.
    var cpu: UInt64 {
        let children =
            FileManager.default.contents(atPath: "/proc/\(pid)/task/\(pid)/children").map { String(decoding: $0, as: UTF8.self) } ?? ""
        return children.split(separator: " ").compactMap { pid_t($0.filter(\.isNumber)) }.reduce(bench_process_cpu(pid)) {
            $0 + bench_process_cpu($1)
        }
    }

    func stop() {
        bench_relay_stop(way?.relay)
        way = nil
        _ = bench_stop(pid, SIGINT, 20_000)
    }
}
