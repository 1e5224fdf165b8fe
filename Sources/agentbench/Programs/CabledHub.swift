import BenchKit
import CBenchFloors
import FoundationEssentials
import Glibc
import SyncCore

/// A hub in a network namespace of its own, at the other end of a cable that can be unplugged. It uses TLS with a certificate made for it,
/// and reports the requests that it answered.
final class CabledHub {
    /// The effect of a slow cable on its traffic.
    struct Slowness {
        /// Delay in one direction.
        var delay: Duration
        /// Rate in each direction.
        var bitsPerSecond: UInt64
        /// Time after which an idle connection is forgotten, as by a NAT; `nil`: never.
        var forgetsAfter: Duration?

        fileprivate var plan: bench_wire_plan {
            bench_wire_plan(
                delay_ns: UInt64(delay.nanoseconds), bits_per_second: bitsPerSecond,
                forgets_after_ns: UInt64(forgetsAfter?.nanoseconds ?? 0))
        }
    }

    /// In no network of the cable, so that a route leads there, as to any hub.
    static let address = "198.51.100.9"
    /// The hub's name where a hosts file lists it.
    static let name = "hub.test"
    static let port = 7433
    /// The ends of the cable, near and far.
    private static let (near, far) = ("wan0", "wan0h")

    let url = "https://\(CabledHub.address):\(CabledHub.port)"
    let certificate: String
    private(set) var tokens: [String: String] = [:]
    private let pid: pid_t
    private let output: Int32
    private let log: String
    private var links: Int32 = -1
    private var wire: OpaquePointer?

    /// The token of the device that most measurements use.
    var token: String { tokens["bench"] ?? "" }

    /// The reason why this does not work here, in a word; `nil`: there is none.
    private static var obstacle: String? {
        for (program, package) in [("ip", "iproute2"), ("unshare", "util-linux"), ("openssl", "openssl")]
        where path(program) == nil {
            return "\(package) is missing"
        }
        return nil
    }

    /// Moves this process, which has not created a thread yet, into a network namespace of its own.
    ///
    /// - Returns: The reason why this fails here, in a word; `nil` after success.
    static func moveIn() -> String? {
        if let obstacle { return obstacle }
        var failure = bench_failure()
        return bench_own_network(&failure) == 0 ? nil : "no network namespaces here (\(failure.message))"
    }

    /// - Precondition: This process is in a network namespace of its own (``moveIn()``).
    /// - Parameter isHeard: `true` when the caller reads the hub's report of each request; otherwise the hub logs only important events.
    /// - Parameter devices: Names of the devices that get a token.
    /// - Parameter slowness: `nil`: the cable is as fast as the machine.
    init(
        agenthub: String?, in folder: String, isHeard: Bool = true, devices: [String] = ["bench"], slowness: Slowness? = nil,
        environment: [String] = []
    ) throws {
        let program = try agenthub ?? neighbour("agenthub")
        log = "\(folder)/log"
        certificate = "\(folder)/hub.pem"
        try CabledHub.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9000",
                "-subj", "/CN=hub", "-addext", "subjectAltName=IP:\(CabledHub.address),DNS:\(CabledHub.name)", "-keyout",
                "\(folder)/hub.key", "-out",
                certificate,
            ], log: log)
        // Addresses first: the hub binds to one. Its reports of requests are on standard error.
        let script = """
            ip link set lo up && ip addr add \(CabledHub.address)/32 dev lo && \
            exec "$0" serve --data "$1" --listen \(CabledHub.address):\(CabledHub.port) --tls-cert "$1/hub.pem" --tls-key "$1/hub.key" \
            \(isHeard ? "--verbose 2>&1" : "")
            """
        var descriptor: Int32 = -1
        pid = try start(
            [CabledHub.path("unshare") ?? "", "-n", "/bin/sh", "-c", script, program, folder], environment: environment, log: log,
            output: &descriptor)
        output = descriptor
        do {
            for device in devices { tokens[device] = try HubUnderTest.token(program, device: device, folder: folder, log: log) }
            try waitFor("listening on", doing: "agenthub")
            try CabledHub.run(["ip", "link", "set", "lo", "up"], log: log)
            try lay(slowness)
            try CabledHub.run(["ip", "addr", "add", "10.71.0.2/24", "dev", CabledHub.near], log: log)
            try CabledHub.run(["nsenter", "-n", "-t", String(pid), "ip", "addr", "add", "10.71.0.1/24", "dev", CabledHub.far], log: log)
            try checked("links") { bench_link_socket(pid, &links, $0) }
            try plug()
            try CabledHub.run(["ip", "link", "set", CabledHub.near, "up"], log: log)
            try CabledHub.run(["ip", "route", "add", "default", "via", "10.71.0.1"], log: log)
        } catch {
            stop()
            throw BenchError("\(error)\n\(tail(of: log))")
        }
    }

    /// Connects two devices, each of which emits the other's input.
    private func lay(_ slowness: Slowness?) throws {
        guard let slowness else {
            return try CabledHub.run(
                ["ip", "link", "add", CabledHub.near, "type", "veth", "peer", "name", CabledHub.far, "netns", String(pid)], log: log)
        }
        var plan = slowness.plan
        var failure = bench_failure()
        wire = bench_wire_start(pid, CabledHub.near, CabledHub.far, &plan, &failure)
        guard wire != nil else { throw BenchError(failure.message) }
    }

    /// - Returns: The moment just before the link came up, by the clock of `bench_now`.
    @discardableResult
    func plug() throws -> UInt64 {
        var moment: UInt64 = 0
        try checked("link up") { bench_link_switch(links, CabledHub.far, 1, &moment, $0) }
        return moment
    }

    /// Switches off the near end, as if this machine were unplugged.
    func unplugHere() throws {
        try CabledHub.run(["ip", "link", "set", CabledHub.near, "down"], log: log)
    }

    func plugHere() throws {
        try CabledHub.run(["ip", "link", "set", CabledHub.near, "up"], log: log)
        try CabledHub.run(["ip", "route", "add", "default", "via", "10.71.0.1"], log: log)
    }

    /// Changes a cable that was laid slow.
    func change(_ slowness: Slowness) {
        var plan = slowness.plan
        if let wire { bench_wire_change(wire, &plan) }
    }

    func pull() throws {
        var moment: UInt64 = 0
        try checked("link down") { bench_link_switch(links, CabledHub.far, 0, &moment, $0) }
    }

    /// Nanoseconds for a new connection with TLS: the median of some.
    func handshake() throws -> Double {
        let times = try (0..<5).map { _ in
            var time: UInt64 = 0
            try checked("handshake floor") { bench_handshake_floor("\(url)/healthz", certificate, &time, $0) }
            return Double(time)
        }
        return median(times)
    }

    /// Waits until the hub reports an answer to such a request.
    ///
    /// - Returns: The moment of that report.
    @discardableResult
    func waitFor(_ words: String, doing: String) throws -> UInt64 {
        while true {
            let line = try readLine(output, of: pid, doing: doing)
            let moment = bench_now()
            if line.contains(words) { return moment }
        }
    }

    func stop() {
        _ = bench_stop(pid, SIGTERM, 20_000)
        close(output)
        if links >= 0 { close(links) }
        bench_wire_stop(wire)
        // A fast cable was removed with the namespace of its far end.
    }

    /// Bytes that this end of the cable has carried, in both directions.
    static func carried() -> Int {
        let lines = String(decoding: Array(FileManager.default.contents(atPath: "/proc/net/dev") ?? Data()), as: UTF8.self).split(
            separator: "\n")
        guard let line = lines.first(where: { $0.contains("\(near):") }) else { return 0 }
        let numbers = line.split(separator: ":").last?.split(separator: " ").compactMap { Int($0) } ?? []
        return numbers.count > 8 ? numbers[0] + numbers[8] : 0
    }

    /// Runs a program in the hub's namespace.
    func runThere(_ command: [String]) throws {
        try CabledHub.run(["nsenter", "-n", "-t", String(pid)] + command, log: log)
    }

    private static func run(_ command: [String], log: String) throws {
        guard let program = path(command[0]) else { throw BenchError("\(command[0]) is not installed") }
        let pid = try start([program] + command.dropFirst(), log: log)
        let status = bench_stop(pid, 0, 20_000)
        guard status == 0 else { throw BenchError("\(command.joined(separator: " ")) failed\n\(tail(of: log))") }
    }

    static func path(_ program: String) -> String? {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }
}
