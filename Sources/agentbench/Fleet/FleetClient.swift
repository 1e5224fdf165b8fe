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
        var pushes: [PushAnswer] = []
        /// Bytes and pages that new devices received.
        var received = (bytes: 0, pages: 0)
        var nanoseconds: UInt64 = 0

        var pushTimes: [UInt64] { pushes.map(\.took) }
    }

    /// The answer to one push: its moment, its duration (nanoseconds), the index of the hub, and the mutations that were accepted with it.
    struct PushAnswer {
        var at: UInt64
        var took: UInt64
        var hub: Int
        var applied: Int
    }

    /// The end of a run.
    enum Ending {
        /// All pushes of all devices.
        case work
        /// A moment by the clock of `bench_now`.
        case moment(UInt64)
        /// The last new device has everything.
        case firstSyncs
    }

    private struct Connection {
        var descriptor: Int32
        var device: Int
        var hub: Int
        var began: UInt64
        var answer: [UInt8] = []
    }

    private let ports: [UInt16]
    /// At one hub: one that does not answer must not use up the connections to the others.
    private let connectionsMax: Int
    private let ending: Ending
    private var devices: [FleetDevice]
    private var random = SeededRandom(seed: 7)
    private var open: [Int32: Connection] = [:]
    /// Number of open connections to each hub.
    private var opened: [Int]
    /// Devices that may continue, by their hub, and devices that wait, with their time.
    private var ready: [[Int]]
    private var waiting: [(at: UInt64, device: Int)] = []
    private var newOnes = 0
    private var isOver = false
    private var outcome = Outcome()

    /// - Parameters:
    ///   - ports: Ports of the hubs, on the loopback interface.
    ///   - connections: At one time, to all hubs together; those of new devices are on top of them.
    ///   - newDevices: Devices that make their first sync of the entity meanwhile.
    init(
        _ load: FleetLoad, ports: [UInt16], connections: Int, firstDevice: Int, ending: Ending = .work,
        newDevices: (count: Int, entity: String) = (0, "")
    ) {
        self.ports = ports
        self.ending = ending
        connectionsMax = (connections + newDevices.count + ports.count - 1) / ports.count
        devices = (0..<load.devices).map { FleetDevice(firstDevice + $0, hubs: ports.count, load) }
        devices += (0..<newDevices.count).map { FleetDevice(new: $0, of: newDevices.entity, hubs: ports.count) }
        newOnes = newDevices.count
        opened = ports.map { _ in 0 }
        ready = ports.map { _ in [] }
        // The last ones come first: the new devices, and then the others in their order.
        for device in Array((0..<load.devices).reversed()) + Array(load.devices..<devices.count) {
            ready[devices[device].hub].append(device)
        }
    }

    /// - Parameter tick: Called repeatedly, at least ten times a second, with the number of mutations that were accepted so far.
    mutating func run(tick: (Int) throws -> Void) throws -> Outcome {
        defer { for descriptor in open.keys { close(descriptor) } }
        let start = bench_now()
        while !ready.allSatisfy(\.isEmpty) || !open.isEmpty || !waiting.isEmpty {
            try tick(outcome.applied + outcome.repeated)
            let now = bench_now()
            if !isOver, case .moment(let end) = ending, now >= end { finish() }
            wake(now)
            while let device = next() { connect(device) }
            var polled = open.keys.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&polled, nfds_t(polled.count), waiting.isEmpty ? 100 : 20) > 0 else { continue }
            for entry in polled where entry.revents != 0 { try handle(entry.fd) }
        }
        for device in devices {
            outcome.received.bytes += device.received.bytes
            outcome.received.pages += device.received.pages
        }
        outcome.nanoseconds = bench_now() - start
        return outcome
    }

    /// From now on only pushes that were begun are completed, so that each of them is counted here as at the hub.
    private mutating func finish() {
        isOver = true
        for hub in ready.indices { ready[hub].removeAll { devices[$0].step != .push } }
        waiting.removeAll { devices[$0.device].step != .push }
    }

    private mutating func wake(_ now: UInt64) {
        for entry in waiting where entry.at <= now { ready[devices[entry.device].hub].append(entry.device) }
        waiting.removeAll { $0.at <= now }
    }

    /// The next device that may connect, at the hub with the fewest connections.
    private mutating func next() -> Int? {
        let free = ready.indices.filter { !ready[$0].isEmpty && opened[$0] < connectionsMax }
        guard let hub = free.min(by: { opened[$0] < opened[$1] }) else { return nil }
        return ready[hub].popLast()
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
        open[descriptor] = Connection(descriptor: descriptor, device: device, hub: devices[device].hub, began: 0)
        opened[devices[device].hub] += 1
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
        case 200: try handle(answer, on: connection)
        case 503:
            outcome.refused += 1
            drop(descriptor, after: answer.retryAfter ?? 1)
        default:
            throw BenchError("a hub answered \(answer.status): \(String(decoding: connection.answer.prefix(600), as: UTF8.self))")
        }
    }

    private mutating func handle(_ answer: FleetAnswer, on connection: Connection) throws {
        let (device, now) = (connection.device, bench_now())
        let wasPush = devices[device].step == .push
        let (applied, repeated) = try devices[device].answered(connection.answer[answer.body])
        if wasPush {
            outcome.pushes.append(PushAnswer(at: now, took: now - connection.began, hub: connection.hub, applied: applied))
        }
        outcome.applied += applied
        outcome.repeated += repeated
        let isDone = devices[device].step == .done
        if isDone, devices[device].isNew {
            newOnes -= 1
            if newOnes == 0, case .firstSyncs = ending { finish() }
        }
        // A cycle is complete: the next one uses a new connection, after the waiting devices had their turn.
        if wasPush || answer.closes || isDone || isOver {
            end(connection.descriptor)
            if !isDone, !isOver { ready[devices[device].hub].insert(device, at: 0) }
        } else {
            send(connection.descriptor)
        }
    }

    private mutating func end(_ descriptor: Int32) {
        close(descriptor)
        if let hub = open.removeValue(forKey: descriptor)?.hub { opened[hub] -= 1 }
    }

    private mutating func drop(_ descriptor: Int32, after seconds: Int?) {
        guard let device = open[descriptor]?.device else { return }
        end(descriptor)
        retry(device, after: seconds)
    }

    private mutating func retry(_ device: Int, after seconds: Int?) {
        if seconds == nil { outcome.lost += 1 }
        // With its work over, only a push that may have been applied is sent once more.
        if isOver, devices[device].step != .push { return }
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
