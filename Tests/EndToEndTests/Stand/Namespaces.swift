import Foundation
import Glibc
import SyncCore

/// Two network namespaces joined by cables: the field, where the agent is, and the yard, where the hub is. Everything in
/// them is made and broken with `ip`, as a person would.
///
/// Each is kept by a process that ends with its input, so that nothing is left when a test dies. Unix sockets know no
/// network namespaces: a test speaks to the agent from outside.
actor Namespaces {
    /// A cable: a veth with one end, named so, in the field, and the other, with an `h` behind, in the yard.
    struct Cable: Sendable {
        var name: String
        /// Its network: 10.`octet`.0.0/24, `.1` in the yard and `.2` in the field.
        var octet: Int

        static let wan = Cable(name: "wan0", octet: 71)
        /// A cable whose name makes it a modem.
        static let modem = Cable(name: "wwan0", octet: 72)

        var far: String { name + "h" }
        var gateway: String { "10.\(octet).0.1" }
        func address(_ host: Int) -> String { "10.\(octet).0.\(host)" }
        /// The addresses of the two ends; fixed, so that neighbours can be known beforehand.
        var hardware: (near: String, far: String) { ("02:00:00:00:\(octet):02", "02:00:00:00:\(octet):01") }
    }

    /// The kernel's counters of a link.
    struct Counters: Equatable, Sendable {
        var bytes: Int64
        var packets: Int64

        static func - (left: Counters, right: Counters) -> Counters {
            Counters(bytes: left.bytes - right.bytes, packets: left.packets - right.packets)
        }

        /// Without the 14 bytes of Ethernet around each packet: what IP and all above it need.
        var aboveEthernet: Int64 { bytes - 14 * packets }
    }

    enum Place: Sendable {
        case field, yard
    }

    /// Address of the hub. It is on neither cable, so that a route decides which one leads there.
    static let hubAddress = "198.51.100.9"

    /// The obstacle to these tests on this machine, in a word; `nil`: none.
    static let obstacle: String? = {
        guard which("ip") != nil else { return "iproute2 is missing" }
        guard which("unshare") != nil, which("nsenter") != nil else { return "unshare or nsenter is missing" }
        return flags == nil ? "neither root nor unprivileged user namespaces work here" : nil
    }()

    private static let flags: String? = ["-Urn", "-n"].first { flags in
        let process = Process()
        process.executableURL = URL(fileURLWithPath: which("unshare") ?? "")
        process.arguments = [flags, "ip", "link", "add", "name", "probe0", "type", "veth"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    let folder: String
    private let keeper: Child
    /// Its end ends the keepers.
    private let life: Int32
    private let yardKeeper: Int32

    /// - Parameter folder: For the talk of the commands.
    init(in folder: String) async throws {
        guard let flags = Self.flags else { throw StandError(Self.obstacle ?? "no namespaces") }
        self.folder = folder
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw StandError("pipe: \(String(cString: strerror(errno)))") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        life = ends[1]
        let output = try LinePipe()
        keeper = try Child(
            [
                Self.which("unshare") ?? "", flags, "sh", "-c",
                #"exec 3<&0; unshare -n sh -c 'echo $$; exec cat' <&3 3<&- & exec cat"#,
            ], log: "\(folder)/keeper.log", output: output.writingEnd, input: ends[0])
        guard let line = await output.line(), let pid = Int32(line) else {
            throw StandError(
                "the namespaces were not made: \((try? String(contentsOfFile: "\(folder)/keeper.log", encoding: .utf8)) ?? "")")
        }
        yardKeeper = pid
        try await ip("link set lo up", in: .yard)
        try await ip("link set lo up")
        try await ip("addr add \(Self.hubAddress)/32 dev lo", in: .yard)
    }

    func end() async {
        close(life)
        await keeper.end()
    }

    /// The words in front of a command line that make it run there.
    nonisolated func entering(_ place: Place) -> [String] {
        let user = Self.flags == "-Urn" ? ["--preserve-credentials", "-U"] : []
        let pid = place == .field ? keeper.pid : yardKeeper
        return [Self.which("nsenter") ?? ""] + user + ["-n", "-t", String(pid)]
    }

    // MARK: Cables

    /// Lays a cable and switches both ends on. Nothing leads to the hub by it yet.
    func lay(_ cable: Cable) async throws {
        // Segments go out as they would on a wire, not as the large pieces that a veth would carry: they are counted.
        try await ip(
            "link add \(cable.name) address \(cable.hardware.near) gso_max_segs 1 type veth "
                + "peer name \(cable.far) address \(cable.hardware.far) gso_max_segs 1 netns \(yardKeeper)")
        // The kernel's own IPv6 messages would be counted as well.
        _ = try? await ip("link set \(cable.name) addrgenmode none")
        _ = try? await ip("link set \(cable.far) addrgenmode none", in: .yard)
        try await ip("addr add \(cable.gateway)/24 dev \(cable.far)", in: .yard)
        try await ip("addr add \(cable.address(2))/24 dev \(cable.name)")
        try await ip("link set \(cable.far) up", in: .yard)
        try await ip("link set \(cable.name) up")
        try await introduce(cable)
    }

    /// Both ends know each other without asking: ARP would be counted as traffic.
    private func introduce(_ cable: Cable) async throws {
        try await ip("neigh replace \(cable.gateway) lladdr \(cable.hardware.far) nud permanent dev \(cable.name)")
        for host in 2...3 {
            try await ip(
                "neigh replace \(cable.address(host)) lladdr \(cable.hardware.near) nud permanent dev \(cable.far)", in: .yard)
        }
    }

    /// The default route leads over this cable, and over no other.
    func route(over cable: Cable) async throws {
        try await ip("route replace default via \(cable.gateway) dev \(cable.name)")
    }

    /// Takes the far end away, so that the near one loses its carrier.
    func pull(_ cable: Cable) async throws {
        try await ip("link set \(cable.far) down", in: .yard)
    }

    func plug(_ cable: Cable) async throws {
        try await ip("link set \(cable.far) up", in: .yard)
        try await introduce(cable)
    }

    /// Another address on the near end, as another lease would bring it. The default route goes with the old one.
    func renumber(_ cable: Cable, to host: Int) async throws {
        try await ip("addr flush dev \(cable.name)")
        try await ip("addr add \(cable.address(host))/24 dev \(cable.name)")
        try await introduce(cable)
        try await route(over: cable)
    }

    func remove(_ cable: Cable) async throws {
        try await ip("link del \(cable.name)")
    }

    /// Loses and finds the carrier, so many times, evenly over the duration.
    func flap(_ cable: Cable, times: Int, within duration: Duration) async throws {
        let pause = duration / (2 * times)
        let seconds = "\(pause.components.seconds).\(String(pause.milliseconds % 1_000 + 1_000).dropFirst())"
        try await run(
            [
                "sh", "-c",
                // One program changes the link: a busy machine needs its time to start another for each change.
                "for i in $(seq \(times)); do echo link set \(cable.far) down; sleep \(seconds); "
                    + "echo link set \(cable.far) up; sleep \(seconds); done | ip -batch -",
            ], in: .yard)
        try await introduce(cable)
    }

    // MARK: Counts

    /// Both ways, as the near end counts them.
    func counters(_ cable: Cable) async throws -> Counters {
        let text = try await ip("-s -j link show dev \(cable.name)")
        let counts = try JSONReader.read(text).array?.first?.object?["stats64"]?.object
        func sum(_ what: String) throws -> Int64 {
            guard let up = counts?["tx"]?.object?[what]?.int, let down = counts?["rx"]?.object?[what]?.int else {
                throw StandError("no counters of \(cable.name): \(text)")
            }
            return up + down
        }
        return Counters(bytes: try sum("bytes"), packets: try sum("packets"))
    }

    /// Connections that were accepted in the yard, all ports together.
    func connectionsAccepted() async throws -> Int64 { try await tcp("PassiveOpens") }

    /// A counter of RFC 4022, as the kernel names it in /proc/net/snmp.
    func tcp(_ name: String, in place: Place = .yard) async throws -> Int64 {
        try await counter(name, of: "Tcp:", file: "/proc/net/snmp", in: place)
    }

    /// Payload of the segments that came into a place although it had their bytes: TCP sends again what a busy machine is slow to
    /// acknowledge. Programs do not know of it.
    func payloadTwice(into place: Place) async throws -> Int64 {
        var segments: Int64 = 0
        for name in ["TCPDSACKOldSent", "TCPDSACKOfoSent"] {
            segments += try await counter(name, of: "TcpExt:", file: "/proc/net/netstat", in: place)
        }
        // At most, behind the heads of IP and of TCP with its time stamps.
        return segments * 1_448
    }

    private func counter(_ name: String, of table: String, file: String, in place: Place) async throws -> Int64 {
        let lines = try await run(["cat", file], in: place).split(separator: "\n")
            .filter { $0.hasPrefix(table) }.map { $0.split(separator: " ") }
        guard lines.count == 2, let column = lines[0].firstIndex(of: Substring(name)), let value = Int64(lines[1][column])
        else { throw StandError("no counter \(name) in \(file)") }
        return value
    }

    // MARK: Commands

    @discardableResult
    func ip(_ words: String, in place: Place = .field) async throws -> String {
        try await run(["ip"] + words.split(separator: " ").map(String.init), in: place)
    }

    @discardableResult
    private func run(_ command: [String], in place: Place) async throws -> String {
        let output = try await Child.run(entering(place) + command, in: folder)
        guard output.status == 0 else { throw StandError("\(command.joined(separator: " ")): \(output.talk)") }
        return output.text
    }

    private static func which(_ program: String) -> String? {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }
}
