import BenchKit
import CBenchFloors
import Glibc
import SyncCore

/// Acts as all devices from one thread: each cycle has its own connection, with a limited number at a time. It stands for the fleet and for
/// the balancer in front of the hubs, and must cost much less than they do.
struct FleetClient {
    struct Outcome {
        var requests = 0
        var applied = 0
        /// Answered as duplicates: their first answer was lost with a hub.
        var repeated = 0
        /// Answered 503 with a `Retry-After`.
        var refused = 0
        /// Connections that could not be made, or ended without an answer.
        var lost = 0
        var pushTimes: [UInt64] = []
        var nanoseconds: UInt64 = 0
    }

    private struct Connection {
        var descriptor: Int32
        var device: Int
        var began: UInt64
        var answer: [UInt8] = []
    }

    private let ports: [UInt16]
    private let connectionsMax: Int
    private var devices: [FleetDevice]
    private var random = SeededRandom(seed: 7)
    private var open: [Int32: Connection] = [:]
    /// Devices that may continue, and devices that wait, with their time.
    private var ready: [Int]
    private var waiting: [(at: UInt64, device: Int)] = []
    private var outcome = Outcome()

    /// - Parameter ports: Ports of the hubs, on the loopback interface.
    init(_ load: FleetLoad, ports: [UInt16], connections: Int, firstDevice: Int) {
        self.ports = ports
        connectionsMax = connections
        devices = (0..<load.devices).map { FleetDevice(firstDevice + $0, hubs: ports.count, load) }
        ready = Array((0..<load.devices).reversed())
    }

    /// - Parameter tick: Called repeatedly with the number of mutations that were accepted so far.
    mutating func run(tick: (Int) throws -> Void) throws -> Outcome {
        defer { for descriptor in open.keys { close(descriptor) } }
        let start = bench_now()
        while !ready.isEmpty || !open.isEmpty || !waiting.isEmpty {
            try tick(outcome.applied + outcome.repeated)
            wake(bench_now())
            while open.count < connectionsMax, let device = ready.popLast() { connect(device) }
            var polled = open.keys.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&polled, nfds_t(polled.count), waiting.isEmpty ? 1_000 : 20) > 0 else { continue }
            for entry in polled where entry.revents != 0 { try handle(entry.fd) }
        }
        outcome.nanoseconds = bench_now() - start
        return outcome
    }

    private mutating func wake(_ now: UInt64) {
        for entry in waiting where entry.at <= now { ready.append(entry.device) }
        waiting.removeAll { $0.at <= now }
    }

    // MARK: One connection

    private mutating func connect(_ device: Int) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = ports[devices[device].hub].bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        // On the loopback interface the connection is made or refused at once.
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        guard descriptor >= 0, result == 0 else {
            if descriptor >= 0 { close(descriptor) }
            return retry(device, after: nil)
        }
        open[descriptor] = Connection(descriptor: descriptor, device: device, began: 0)
        send(descriptor)
    }

    private mutating func send(_ descriptor: Int32) {
        guard let device = open[descriptor]?.device else { return }
        let bytes = devices[device].request()
        open[descriptor]?.began = bench_now()
        open[descriptor]?.answer.removeAll(keepingCapacity: true)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return drop(descriptor, after: nil) }
            sent += count
        }
    }

    private mutating func handle(_ descriptor: Int32) throws {
        guard open[descriptor] != nil else { return }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return drop(descriptor, after: nil) }
        open[descriptor]?.answer.append(contentsOf: buffer[..<count])
        guard let connection = open[descriptor], let answer = FleetAnswer(connection.answer) else { return }
        outcome.requests += 1
        switch answer.status {
        case 200:
            let wasPush = devices[connection.device].step == .push
            if wasPush { outcome.pushTimes.append(bench_now() - connection.began) }
            let (applied, repeated) = try devices[connection.device].answered(connection.answer[answer.body])
            outcome.applied += applied
            outcome.repeated += repeated
            // A cycle is complete: the next one uses a new connection, after the waiting devices had their turn.
            if wasPush || answer.closes {
                end(descriptor)
                if devices[connection.device].step != .done { ready.insert(connection.device, at: 0) }
            } else {
                send(descriptor)
            }
        case 503:
            outcome.refused += 1
            drop(descriptor, after: answer.retryAfter ?? 1)
        default:
            throw BenchError("a hub answered \(answer.status): \(String(decoding: connection.answer.prefix(600), as: UTF8.self))")
        }
    }

    private mutating func end(_ descriptor: Int32) {
        close(descriptor)
        open[descriptor] = nil
    }

    private mutating func drop(_ descriptor: Int32, after seconds: Int?) {
        guard let device = open[descriptor]?.device else { return }
        end(descriptor)
        retry(device, after: seconds)
    }

    private mutating func retry(_ device: Int, after seconds: Int?) {
        if seconds == nil { outcome.lost += 1 }
        waiting.append((bench_now() + devices[device].failed(hubs: ports.count, after: seconds, &random), device))
    }
}

/// A complete answer of HTTP/1.1 with a `Content-Length`, the only form in which a hub answers these requests.
struct FleetAnswer {
    let status: Int
    let body: Range<Int>
    var retryAfter: Int?
    var closes = false

    /// - Returns: `nil` while bytes are missing.
    init?(_ bytes: [UInt8]) {
        let end: [UInt8] = [13, 10, 13, 10]
        guard bytes.count >= 16, let head = bytes.indices.dropLast(3).first(where: { bytes[$0] == 13 && Array(bytes[$0..<$0 + 4]) == end })
        else {
            return nil
        }
        let lines = String(decoding: bytes[..<head], as: UTF8.self).split(separator: "\r\n")
        guard let first = lines.first, let code = first.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else { return nil }
        var length = 0
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            switch line[..<colon].lowercased() {
            case "content-length": length = Int(value) ?? 0
            case "retry-after": retryAfter = Int(value)
            case "connection": closes = value.lowercased() == "close"
            default: break
            }
        }
        guard bytes.count >= head + 4 + length else { return nil }
        status = code
        body = head + 4..<head + 4 + length
    }
}
