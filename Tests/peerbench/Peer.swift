import BenchKit
import CBenchFloors
import CPeers
import FoundationEssentials
import Glibc

/// A program that others use to store messages until they can be sent, in its safest configuration.
enum Peer: String, CaseIterable {
    case redis, beanstalkd, nats, mosquitto
    case syslogNG = "syslog-ng"

    var program: String {
        switch self {
        case .redis: "redis-server"
        case .nats: "nats-server"
        default: rawValue
        }
    }

    /// Its settings for durability.
    var settings: String {
        switch self {
        case .redis: "appendonly, appendfsync always"
        case .beanstalkd: "-b -f 0"
        case .nats: "JetStream in files, sync_interval always where it is known"
        case .mosquitto: "QoS 1, persistence, autosave_interval 1, a session that is away"
        case .syslogNG: "TCP, disk-buffer reliable(yes), flow-control"
        }
    }

    /// `nil`: syslog over TCP, where nothing is acknowledged.
    var protocolKind: bench_peer? {
        switch self {
        case .redis: BENCH_PEER_REDIS
        case .beanstalkd: BENCH_PEER_BEANSTALKD
        case .nats: BENCH_PEER_NATS
        case .mosquitto: BENCH_PEER_MQTT
        case .syslogNG: nil
        }
    }

    var port: UInt16 { 47_310 + UInt16(Peer.allCases.firstIndex(of: self) ?? 0) }
}

/// One of these programs, started with its files in a folder of its own.
final class RunningPeer {
    let peer: Peer
    let pid: pid_t
    private let place: Place
    private let folder: String
    private let log: String

    /// The location of the programs and their libraries: `/`, or a folder that packages were unpacked into.
    struct Place {
        var root: String

        func program(_ name: String) -> String? {
            ["usr/sbin", "usr/bin", "sbin", "bin"].map { "\(root)/\($0)/\(name)" }.first { access($0, X_OK) == 0 }
        }

        private var libraries: [String] {
            ["x86_64", "aarch64"].flatMap { machine in
                ["usr/lib", "lib", "usr/lib/syslog-ng"].map {
                    $0 == "usr/lib/syslog-ng" ? "\(root)/\($0)" : "\(root)/\($0)/\(machine)-linux-gnu"
                }
            }
        }

        var environment: [String] { root == "/" ? [] : ["LD_LIBRARY_PATH=" + libraries.joined(separator: ":")] }

        /// The modules of syslog-ng.
        var modules: String? {
            let folder = "\(root)/usr/lib/syslog-ng"
            // Without the folder it is not installed, and the comparison says so.
            let versions = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return versions.filter { $0.first?.isNumber == true }.sorted().last.map { "\(folder)/\($0)" }
        }
    }

    /// - Returns: `nil` when it is not available.
    init?(_ peer: Peer, from place: Place, in folder: String) throws {
        guard let program = place.program(peer.program) else { return nil }
        self.peer = peer
        self.place = place
        self.folder = folder
        log = "\(folder)/log"
        let arguments = try RunningPeer.arguments(peer, program, folder, place)
        var pid = try start(arguments, environment: place.environment, log: log)
        var answers = RunningPeer.answers(peer, pid)
        if !answers, peer == .nats {
            // Versions before 2.10 do not know the setting; the table tells the consequence.
            _ = bench_stop(pid, SIGKILL, 0)
            try write(RunningPeer.natsConfiguration(peer, folder, syncs: false), to: "\(folder)/conf")
            pid = try start(arguments, environment: place.environment, log: log)
            answers = RunningPeer.answers(peer, pid)
        }
        self.pid = pid
        guard answers else {
            _ = bench_stop(pid, SIGKILL, 0)
            throw BenchError("\(peer.program) does not answer\n\(tail(of: log))")
        }
        if let kind = peer.protocolKind { try checked(peer.program) { bench_peer_prepare(kind, peer.port, $0) } }
    }

    func stop() { _ = bench_stop(pid, SIGTERM, 5_000) }

    private static func answers(_ peer: Peer, _ pid: pid_t) -> Bool {
        for _ in 0..<200 {
            var words = bench_failure()
            bench_how_ended(pid, &words)
            if !words.message.isEmpty { return false }
            // No line at all: only the connection.
            if bench_peer_lines(peer.port, 0, &words) == 0 { return true }
            _ = poll(nil, 0, 25)
        }
        return false
    }

    private static func natsConfiguration(_ peer: Peer, _ folder: String, syncs: Bool) -> String {
        "host: 127.0.0.1\nport: \(peer.port)\njetstream { store_dir: \"\(folder)/data\"\(syncs ? ", sync_interval: always" : "") }\n"
    }

    private static func arguments(_ peer: Peer, _ program: String, _ folder: String, _ place: Place) throws -> [String] {
        let data = "\(folder)/data", configuration = "\(folder)/conf"
        guard mkdir(data, 0o700) == 0 else { throw BenchError("mkdir \(data): \(String(cString: strerror(errno)))") }
        switch peer {
        case .redis:
            return [
                program, "--bind", "127.0.0.1", "--port", "\(peer.port)", "--dir", data, "--appendonly", "yes", "--appendfsync",
                "always", "--save", "", "--protected-mode", "no",
            ]
        case .beanstalkd: return [program, "-l", "127.0.0.1", "-p", "\(peer.port)", "-b", data, "-f", "0"]
        case .nats:
            try write(natsConfiguration(peer, folder, syncs: true), to: configuration)
            return [program, "-c", configuration]
        case .mosquitto:
            let text = """
                listener \(peer.port) 127.0.0.1
                allow_anonymous true
                persistence true
                persistence_location \(data)/
                autosave_interval 1
                max_queued_messages 0
                \(geteuid() == 0 ? "user root" : "")

                """
            try write(text, to: configuration)
            return [program, "-c", configuration]
        case .syslogNG:
            // No program listens at the destination, so that all lines are kept.
            let text = """
                @version: 3.38
                source s { network(ip("127.0.0.1") port(\(peer.port)) transport("tcp")); };
                destination d { network("127.0.0.1" port(9) time-reopen(3600)
                  disk-buffer(reliable(yes) disk-buf-size(1073741824) mem-buf-size(67108864) dir("\(data)"))); };
                log { source(s); destination(d); flags(flow-control); };

                """
            try write(text, to: configuration)
            let modules = place.modules.map { ["--module-path", $0] } ?? []
            return [
                program, "-F", "-f", configuration, "-p", "\(folder)/pid", "-R", "\(folder)/persist", "-c", "\(folder)/control",
                "--no-caps",
            ] + modules
        }
    }

    // MARK: Load

    /// Sends one message at a time on each connection, each until it is acknowledged.
    func requests(_ count: Int, connections: Int) throws -> Run {
        guard let kind = peer.protocolKind else { return try lines(count) }
        var times = [UInt64](repeating: 0, count: count)
        var nanoseconds: UInt64 = 0
        var plan = bench_peer_plan(peer: kind, port: peer.port, connections: Int32(connections), requests: UInt64(count))
        try checked(peer.program) { bench_peer_load(&plan, &times, &nanoseconds, $0) }
        return Run(rows: count, nanoseconds: nanoseconds, times: Times(times))
    }

    /// Sends lines until syslog-ng itself reports all of them as queued. A single line has no measurable time.
    private func lines(_ count: Int) throws -> Run {
        let before = try queued()
        let start = bench_now()
        try checked(peer.program) { bench_peer_lines(peer.port, UInt64(count), $0) }
        let end = ContinuousClock.now + .seconds(60)
        while try queued() < before + count {
            guard ContinuousClock.now < end else {
                throw BenchError("syslog-ng has queued \(try queued() - before) of \(count) lines after a minute")
            }
            _ = poll(nil, 0, 5)
        }
        return Run(rows: count, nanoseconds: bench_now() - start, times: Times([]))
    }

    private func queued() throws -> Int {
        guard let program = place.program("syslog-ng-ctl") else { throw BenchError("syslog-ng-ctl is missing") }
        let file = "\(folder)/stats"
        let child = try start(
            ["/bin/sh", "-c", "exec \"$0\" stats -c \"$1\" >\"$2\"", program, "\(folder)/control", file],
            environment: place.environment, log: log)
        guard bench_stop(child, 0, 10_000) == 0, let bytes = FileManager.default.contents(atPath: file) else {
            throw BenchError("syslog-ng-ctl stats failed\n\(tail(of: log))")
        }
        // dst.network;d#0;tcp,127.0.0.1:9;a;queued;123
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        where line.hasPrefix("dst.") && line.contains(";queued;") {
            return line.split(separator: ";").last.flatMap { Int($0) } ?? 0
        }
        return 0
    }
}
