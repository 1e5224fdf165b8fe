import Dispatch
import Foundation
import Glibc

/// A server on a raw socket: every connection gets a thread and speaks exactly the bytes that the test's closure sends, so
/// that it can be wrong in every way that a library would not allow.
final class CannedServer: @unchecked Sendable {
    private(set) var url = ""
    let socketPath: String?

    let listener: Int32
    private let lock = NSLock()
    private var connections: [CannedConnection] = []
    private var requests: [CannedRequest] = []
    /// Connections that were served and closed here, and the tests that wait for so many.
    private var closedCount = 0
    private var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

    /// - Parameters:
    ///   - socketPath: Listen there instead of on a free port of the loopback.
    ///   - scheme: For ``url`` only; the server never speaks TLS.
    init(
        socketPath: String? = nil, scheme: String = "http", backlog: Int32 = 128,
        receiveBuffer: Int32? = nil, _ serve: (@Sendable (CannedConnection) -> Void)?
    ) throws {
        self.socketPath = socketPath
        if let socketPath {
            listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(socketPath.utf8)) }
            try Self.bind(listener, &address)
            url = "\(scheme)://localhost"
        } else {
            listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            try Self.bind(listener, &address)
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutableBytes(of: &address) { bytes in
                _ = getsockname(listener, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), &length)
            }
            url = "\(scheme)://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
        }
        // Connections inherit it, and the window that they offer follows from it.
        if var receiveBuffer {
            setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<Int32>.size))
        }
        guard listen(listener, backlog) == 0 else { throw POSIXError(.EADDRINUSE) }
        if let serve { Thread.detachNewThread { self.accept(serve) } }
    }

    /// Connections accepted so far.
    var connectionCount: Int { lock.withLock { connections.count } }
    /// Requests read so far, over all connections, in the order in which they were whole.
    var allRequests: [CannedRequest] { lock.withLock { requests } }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        for connection in lock.withLock({ connections }) { connection.hangUp() }
    }

    /// A connection of the test's own, on its way or made.
    func connectWithoutWaiting() -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutableBytes(of: &address) { bytes in
            let pointer = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self)
            _ = getsockname(listener, pointer, &length)
            _ = connect(descriptor, pointer, length)
        }
        return descriptor
    }

    fileprivate func note(_ request: CannedRequest) {
        lock.withLock { requests.append(request) }
    }

    private func accept(_ serve: @escaping @Sendable (CannedConnection) -> Void) {
        while true {
            let descriptor = Glibc.accept(listener, nil, nil)
            guard descriptor >= 0 else { break }
            let connection = lock.withLock {
                let connection = CannedConnection(descriptor, number: connections.count + 1, server: self)
                connections.append(connection)
                return connection
            }
            Thread.detachNewThread {
                serve(connection)
                connection.close()
                self.noteClosed()
            }
        }
        Glibc.close(listener)
    }

    private func noteClosed() {
        let ready = lock.withLock {
            closedCount += 1
            let ready = waiting.filter { $0.count <= closedCount }
            waiting.removeAll { $0.count <= closedCount }
            return ready
        }
        for waiter in ready { waiter.continuation.resume() }
    }

    /// Waits until so many connections were served, and closed from this side.
    func waitForClosed(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = lock.withLock {
                if closedCount >= count { return true }
                waiting.append((count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    private static func bind<Address>(_ descriptor: Int32, _ address: inout Address) throws {
        let result = withUnsafeBytes(of: &address) { bytes in
            Glibc.bind(
                descriptor, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
        guard result == 0 else { throw POSIXError(.EADDRNOTAVAIL) }
    }
}

struct CannedRequest: Sendable {
    var line: String
    var fields: [String]
    /// Chunks are joined.
    var body: [UInt8]
    /// Everything as it came, with the framing of chunks.
    var byteCount: Int

    func value(_ name: String) -> String? {
        fields.first { $0.lowercased().hasPrefix(name.lowercased() + ":") }
            .map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
    }
}

final class CannedConnection: @unchecked Sendable {
    /// 1 for the first that the server accepted.
    let number: Int
    /// Bytes sent so far.
    private(set) var sentCount = 0

    private let descriptor: Int32
    private weak let server: CannedServer?
    private let lock = NSLock()
    private var isClosed = false
    private var buffer: [UInt8] = []

    fileprivate init(_ descriptor: Int32, number: Int, server: CannedServer?) {
        self.descriptor = descriptor
        self.number = number
        self.server = server
    }

    /// The next whole request, or `nil` when the peer closed instead.
    func readRequest() -> CannedRequest? {
        var total = 0
        guard let head = take(through: Array("\r\n\r\n".utf8), &total) else { return nil }
        let lines = String(decoding: head, as: UTF8.self).components(separatedBy: "\r\n").filter { !$0.isEmpty }
        var request = CannedRequest(line: lines.first ?? "", fields: Array(lines.dropFirst()), body: [], byteCount: 0)
        if let length = request.value("Content-Length").flatMap(Int.init) {
            guard let body = take(count: length, &total) else { return nil }
            request.body = body
        } else if request.value("Transfer-Encoding") == "chunked" {
            while true {
                guard let line = take(through: [13, 10], &total),
                    let size = Int(String(decoding: line.dropLast(2), as: UTF8.self), radix: 16),
                    let chunk = take(count: size + 2, &total)
                else { return nil }
                request.body += chunk.dropLast(2)
                if size == 0 { break }
            }
        }
        request.byteCount = total
        server?.note(request)
        return request
    }

    /// - Returns: `false` when the peer is gone.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            sentCount += count
            rest = rest.dropFirst(count)
        }
        return true
    }

    @discardableResult
    func send(_ text: String) -> Bool {
        send(Array(text.utf8))
    }

    /// A whole answer with a length.
    func answer(_ status: String = "200 OK", _ fields: [String] = [], _ body: [UInt8] = []) {
        send(Array("HTTP/1.1 \(status)\r\nContent-Length: \(body.count)\r\n\(fields.map { $0 + "\r\n" }.joined())\r\n".utf8) + body)
    }

    /// The other way round: a connection of the test's own to a port of the loopback.
    static func connect(toPort port: Int) -> CannedConnection {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        withUnsafeBytes(of: &address) { bytes in
            _ = Glibc.connect(
                descriptor, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
        return CannedConnection(descriptor, number: 0, server: nil)
    }

    /// From now on no segment of the peer's reaches this end, as behind a NAT that has forgotten the connection: nothing is
    /// acknowledged, and nothing is closed.
    func forget() {
        // linux/filter.h: one instruction, BPF_RET | BPF_K (code 6) with 0: keep no byte of the packet.
        struct Instruction {
            var code: UInt16 = 6
            var jumps: (UInt8, UInt8) = (0, 0)
            var constant: UInt32 = 0
        }
        struct Program {
            var length: UInt16 = 1
            var instructions: UnsafeMutablePointer<Instruction>
        }
        let attachFilter: Int32 = 26
        var nothing = Instruction()
        withUnsafeMutablePointer(to: &nothing) { instructions in
            var program = Program(instructions: instructions)
            let attached = setsockopt(descriptor, SOL_SOCKET, attachFilter, &program, socklen_t(MemoryLayout<Program>.size))
            precondition(attached == 0, "no filter on a socket: errno \(errno)")
        }
    }

    func finishSending() {
        lock.withLock { if !isClosed { shutdown(descriptor, Int32(SHUT_WR)) } }
    }

    /// - Returns: Empty when the peer closed.
    func receiveBytes(upTo limit: Int) -> [UInt8] {
        var room = [UInt8](repeating: 0, count: limit)
        let count = recv(descriptor, &room, limit, 0)
        return Array(room.prefix(max(0, count)))
    }

    /// - Returns: The number of bytes that came, at most `limit`; 0 when the peer closed.
    func receive(upTo limit: Int) -> Int {
        receiveBytes(upTo: limit).count
    }

    /// Reads and drops whatever comes until the peer closes.
    func waitForPeerToClose() {
        var room = [UInt8](repeating: 0, count: 64 << 10)
        while recv(descriptor, &room, room.count, 0) > 0 {}
    }

    /// The connection ends with RST: what was sent and not yet read is lost for the peer.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    func close() {
        lock.withLock {
            if !isClosed { Glibc.close(descriptor) }
            isClosed = true
        }
    }

    /// Called by another thread. Wakes the thread that waits on the connection.
    fileprivate func hangUp() {
        lock.withLock { if !isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) } }
    }

    private func take(through end: [UInt8], _ total: inout Int) -> [UInt8]? {
        var searched = 0
        while true {
            if buffer.count >= end.count {
                for start in max(0, searched - end.count)...(buffer.count - end.count)
                where buffer[start..<start + end.count].elementsEqual(end) {
                    return remove(start + end.count, &total)
                }
                searched = buffer.count
            }
            guard fill() else { return nil }
        }
    }

    private func take(count: Int, _ total: inout Int) -> [UInt8]? {
        while buffer.count < count { guard fill() else { return nil } }
        return remove(count, &total)
    }

    private func remove(_ count: Int, _ total: inout Int) -> [UInt8] {
        let taken = Array(buffer.prefix(count))
        buffer.removeFirst(count)
        total += count
        return taken
    }

    private func fill() -> Bool {
        var room = [UInt8](repeating: 0, count: 64 << 10)
        let count = recv(descriptor, &room, room.count, 0)
        guard count > 0 else { return false }
        buffer += room.prefix(count)
        return true
    }
}

/// Lets one side wait until the other has come to a point: threads of a server block, tests are suspended.
final class Gate: @unchecked Sendable {
    private let lock = NSLock()
    private let semaphore = DispatchSemaphore(value: 0)
    private var isOpen = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func open() {
        let resumed = lock.withLock {
            isOpen = true
            defer { waiting = [] }
            return waiting
        }
        semaphore.signal()
        for continuation in resumed { continuation.resume() }
    }

    func pass() async {
        await withCheckedContinuation { continuation in
            let passes = lock.withLock {
                if !isOpen { waiting.append(continuation) }
                return isOpen
            }
            if passes { continuation.resume() }
        }
    }

    /// Waits for the gate with the thread blocked, for threads of a ``CannedServer``.
    func passBlocking() {
        semaphore.wait()
        semaphore.signal()
    }
}
