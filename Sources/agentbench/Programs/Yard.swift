import CBenchFloors
import FoundationEssentials
import Glibc
import SyncCore

/// A hub in a network namespace of its own, at the other end of a cable that can be pulled. It speaks TLS with a certificate
/// made for it, and says which requests it answered.
final class Yard {
    /// What a slow cable does to what goes through it.
    struct Slowness {
        /// One way.
        var delay: Duration
        /// Each way.
        var bitsPerSecond: UInt64
        /// A connection that carried nothing for so long is forgotten, as by a NAT; `nil`: never.
        var forgetsAfter: Duration?

        fileprivate var plan: bench_wire_plan {
            bench_wire_plan(
                delay_ns: UInt64(delay.nanoseconds), bits_per_second: bitsPerSecond,
                forgets_after_ns: UInt64(forgetsAfter?.nanoseconds ?? 0))
        }
    }

    /// On no network of the cable, so that a route leads there, as to any hub.
    static let address = "198.51.100.9"
    /// Where there is a file of hosts that names it.
    static let name = "hub.test"
    static let port = 7433
    /// The cable's ends, here and there.
    private static let (near, far) = ("wan0", "wan0h")

    let url = "https://\(Yard.address):\(Yard.port)"
    let certificate: String
    private(set) var tokens: [String: String] = [:]
    private let pid: pid_t
    private let output: Int32
    private let log: String
    private var links: Int32 = -1
    private var wire: OpaquePointer?

    /// Of the device that most measurements have.
    var token: String { tokens["bench"] ?? "" }

    /// What keeps this from working here, in a word; `nil`: nothing.
    private static var obstacle: String? {
        for (program, package) in [("ip", "iproute2"), ("unshare", "util-linux"), ("openssl", "openssl")]
        where path(program) == nil {
            return "\(package) is missing"
        }
        return nil
    }

    /// Gives this process, which has made no thread yet, a network namespace of its own.
    ///
    /// - Returns: Why it cannot be done here, in a word; `nil`: it is done.
    static func moveIn() -> String? {
        if let obstacle { return obstacle }
        var failure = bench_failure()
        return bench_own_network(&failure) == 0 ? nil : "no network namespaces here (\(failure.message))"
    }

    /// - Precondition: This process is in a network namespace of its own (``moveIn()``).
    /// - Parameter isHeard: Whether somebody reads what the hub says of each request; else it says only what is worth a line of
    ///   its log.
    /// - Parameter devices: Those that get a token, by their names.
    /// - Parameter slowness: `nil`: the cable is as quick as the machine.
    init(
        agenthub: String?, in folder: String, isHeard: Bool = true, devices: [String] = ["bench"], slowness: Slowness? = nil,
        environment: [String] = []
    ) throws {
        let program = try agenthub ?? neighbour("agenthub")
        log = "\(folder)/log"
        certificate = "\(folder)/hub.pem"
        try Yard.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9000",
                "-subj", "/CN=hub", "-addext", "subjectAltName=IP:\(Yard.address),DNS:\(Yard.name)", "-keyout", "\(folder)/hub.key", "-out",
                certificate,
            ], log: log)
        // Addresses first: the hub binds to one. What it says about requests is on standard error.
        let script = """
            ip link set lo up && ip addr add \(Yard.address)/32 dev lo && \
            exec "$0" serve --data "$1" --listen \(Yard.address):\(Yard.port) --tls-cert "$1/hub.pem" --tls-key "$1/hub.key" \
            \(isHeard ? "--verbose 2>&1" : "")
            """
        var descriptor: Int32 = -1
        pid = try start(
            [Yard.path("unshare") ?? "", "-n", "/bin/sh", "-c", script, program, folder], environment: environment, log: log,
            output: &descriptor)
        output = descriptor
        do {
            for device in devices { tokens[device] = try HubUnderTest.token(program, device: device, folder: folder, log: log) }
            try waitFor("listening on", doing: "agenthub")
            try Yard.run(["ip", "link", "set", "lo", "up"], log: log)
            try lay(slowness)
            try Yard.run(["ip", "addr", "add", "10.71.0.2/24", "dev", Yard.near], log: log)
            try Yard.run(["nsenter", "-n", "-t", String(pid), "ip", "addr", "add", "10.71.0.1/24", "dev", Yard.far], log: log)
            try checked("links") { bench_link_socket(pid, &links, $0) }
            try plug()
            try Yard.run(["ip", "link", "set", Yard.near, "up"], log: log)
            try Yard.run(["ip", "route", "add", "default", "via", "10.71.0.1"], log: log)
        } catch {
            stop()
            throw BenchError("\(error)\n\(tail(of: log))")
        }
    }

    /// Two devices of which each gives out what goes into the other.
    private func lay(_ slowness: Slowness?) throws {
        guard let slowness else {
            return try Yard.run(
                ["ip", "link", "add", Yard.near, "type", "veth", "peer", "name", Yard.far, "netns", String(pid)], log: log)
        }
        var plan = slowness.plan
        var failure = bench_failure()
        wire = bench_wire_start(pid, Yard.near, Yard.far, &plan, &failure)
        guard wire != nil else { throw BenchError(failure.message) }
    }

    /// - Returns: The moment just before the link came up, as `bench_now` counts.
    @discardableResult
    func plug() throws -> UInt64 {
        var moment: UInt64 = 0
        try checked("link up") { bench_link_switch(links, Yard.far, 1, &moment, $0) }
        return moment
    }

    /// The near end is switched off, as by whoever unplugs this machine.
    func unplugHere() throws {
        try Yard.run(["ip", "link", "set", Yard.near, "down"], log: log)
    }

    func plugHere() throws {
        try Yard.run(["ip", "link", "set", Yard.near, "up"], log: log)
        try Yard.run(["ip", "route", "add", "default", "via", "10.71.0.1"], log: log)
    }

    /// Of a cable that was laid slow: from now on it is like that.
    func change(_ slowness: Slowness) {
        var plan = slowness.plan
        if let wire { bench_wire_change(wire, &plan) }
    }

    func pull() throws {
        var moment: UInt64 = 0
        try checked("link down") { bench_link_switch(links, Yard.far, 0, &moment, $0) }
    }

    /// Nanoseconds from nothing to a connection with TLS: the median of some.
    func handshake() throws -> Double {
        let times = try (0..<5).map { _ in
            var time: UInt64 = 0
            try checked("handshake floor") { bench_handshake_floor("\(url)/healthz", certificate, &time, $0) }
            return Double(time)
        }
        return median(times)
    }

    /// Waits until the hub says that it answered such a request.
    ///
    /// - Returns: The moment at which it said so.
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
        // A quick cable went with the namespace of its far end.
    }

    /// What this end of the cable has carried, both ways.
    static func carried() -> Int {
        let lines = String(decoding: Array(FileManager.default.contents(atPath: "/proc/net/dev") ?? Data()), as: UTF8.self).split(
            separator: "\n")
        guard let line = lines.first(where: { $0.contains("\(near):") }) else { return 0 }
        let numbers = line.split(separator: ":").last?.split(separator: " ").compactMap { Int($0) } ?? []
        return numbers.count > 8 ? numbers[0] + numbers[8] : 0
    }

    /// Runs a program in the hub's namespace.
    func runThere(_ command: [String]) throws {
        try Yard.run(["nsenter", "-n", "-t", String(pid)] + command, log: log)
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
