import Foundation
import Glibc
import ProcessStand
import RepetitionOracle
import SyncCore
import SyncLinux
import Synchronization

/// Stands between agent and hub and lies: every request reaches the real hub, and its answer is changed on the way back.
///
/// Each connection has a thread and carries one request. That is simple, and fast enough for the tests.
final class TamperingRelay: Sendable {
    /// An answer on its way back.
    struct Answer: Sendable {
        var status = 200
        var headers: [(name: String, value: String)] = []
        var body: [UInt8] = []
        /// Bytes that follow the body as `Content-Length` says, and never come: the connection is closed in their place.
        var missing = 0
        /// Sends the body over and over, without ever saying how long it is.
        var isEndless = false

        subscript(name: String) -> String? {
            get { headers.first { $0.name.lowercased() == name.lowercased() }?.value }
            set {
                headers.removeAll { $0.name.lowercased() == name.lowercased() }
                if let newValue { headers.append((name, newValue)) }
            }
        }
    }

    /// - Parameter path: Path of the request, such as `/v1/sync/push`.
    typealias Tamper = @Sendable (_ path: String, _ answer: Answer) -> Answer

    let port: UInt16
    private let listener: Int32
    private let hubPort: UInt16
    private let lie: Lie

    /// - Parameter time: The clock by which requests are counted.
    init(hubPort: UInt16, time: any TimeSource = SystemClocks()) throws {
        self.hubPort = hubPort
        lie = Lie(time)
        let listening = FreePorts.socket()
        listener = listening
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        var address = TamperingRelay.loopback(port: 0)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                bind(listening, generic, size) == 0 && listen(listening, 16) == 0
                    && getsockname(listening, generic, &size) == 0
            }
        }
        guard result else { throw StandError("listen: \(String(cString: strerror(errno)))") }
        port = UInt16(bigEndian: address.sin_port)
        acceptConnections()
    }

    deinit {
        // Wakes `accept` with an error; closing alone would not.
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    /// The thread ends with the relay, and holds nothing of it.
    private func acceptConnections() {
        let accepting = Thread { [listener, hubPort, lie] in
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { return }
                _ = fcntl(client, F_SETFD, FD_CLOEXEC)
                let serving = Thread { TamperingRelay.serve(client, hubPort, lie) }
                serving.start()
            }
        }
        accepting.start()
    }

    /// Shared with the threads, which may outlive the relay by a request.
    private final class Lie: Sendable {
        let tamper = Mutex<Tamper?>(nil)
        let oracle = Mutex(RepetitionOracle(limits: WatchedServers.limits))
        private let time: any TimeSource

        init(_ time: any TimeSource) { self.time = time }

        func saw(_ words: String, _ body: [UInt8]) {
            let said = oracle.withLock { oracle in
                let before = oracle.complaints.count
                oracle.saw(words, body: body, atSeconds: time.now().instant.nanoseconds / 1_000_000_000)
                return Array(oracle.complaints.dropFirst(before))
            }
            if !said.isEmpty { WatchedServers.complain(said, of: "the relay before the hub") }
        }

        func callAsFunction(_ path: String, _ answer: Answer) -> Answer {
            tamper.withLock { $0 }?(path, answer) ?? answer
        }
    }

    /// The fate of answers from now on; `nil` lets them through.
    func use(_ tamper: Tamper?) {
        lie.tamper.withLock { $0 = tamper }
    }

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    private static func serve(_ client: Int32, _ hubPort: UInt16, _ lie: Lie) {
        defer { close(client) }
        guard let (head, body) = readMessage(client) else { return }
        var lines = head.components(separatedBy: "\r\n").filter { line in
            // The hub is asked for a plain answer on a connection of its own, so that there is only one form to change.
            let name = line.prefix { $0 != ":" }.lowercased()
            return !line.isEmpty
                && !["accept-encoding", "connection", "transfer-encoding", "content-length"].contains(name)
        }
        let path = lines.first?.split(separator: " ").dropFirst().first.map(String.init) ?? ""
        lie.saw(lines.first ?? "", body)
        lines += ["Connection: close", "Content-Length: \(body.count)"]
        let hub = connectTo(hubPort)
        defer { close(hub) }
        guard hub >= 0, send(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body, to: hub),
            let (answerHead, answerBody) = readMessage(hub)
        else { return }
        write(lie(path, parse(answerHead, answerBody)), to: client)
    }

    private static func parse(_ head: String, _ body: [UInt8]) -> Answer {
        var lines = head.components(separatedBy: "\r\n").filter { !$0.isEmpty }
        var answer = Answer(body: body)
        let first = lines.isEmpty ? "" : lines.removeFirst()
        answer.status = first.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 502
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard let name = parts.first, let value = parts.dropFirst().first else { continue }
            let dropped = ["content-length", "transfer-encoding", "connection"].contains(name.lowercased())
            if !dropped { answer.headers.append((String(name), value.trimmingCharacters(in: .whitespaces))) }
        }
        return answer
    }

    private static func write(_ answer: Answer, to client: Int32) {
        var head = "HTTP/1.1 \(answer.status) Whatever\r\nConnection: close\r\n"
        for header in answer.headers { head += "\(header.name): \(header.value)\r\n" }
        if !answer.isEndless { head += "Content-Length: \(answer.body.count + answer.missing)\r\n" }
        guard send(Array((head + "\r\n").utf8) + answer.body, to: client) else { return }
        guard answer.isEndless, !answer.body.isEmpty else { return }
        // The agent closes the connection when the body exceeds its limit.
        while send(answer.body, to: client) {}
    }

    // MARK: Sockets

    private static func connectTo(_ port: UInt16) -> Int32 {
        let descriptor = FreePorts.socket()
        var address = loopback(port: port)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if result == 0 { return descriptor }
        close(descriptor)
        return -1
    }

    private static func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if sent <= 0 { return false }
            rest = rest.dropFirst(sent)
        }
        return true
    }

    /// Head and body of one message, by its Content-Length or in chunks, which are joined.
    private static func readMessage(_ descriptor: Int32) -> (head: String, body: [UInt8])? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        var bodyStart: Int?
        var wanted = 0
        var isChunked = false
        let ending = Array("\r\n\r\n".utf8)
        while true {
            if bodyStart == nil, let end = bytes.indices.first(where: { bytes[$0...].starts(with: ending) }) {
                bodyStart = end + 4
                let head = String(decoding: bytes[..<end], as: UTF8.self).lowercased()
                isChunked = head.contains("transfer-encoding: chunked")
                let length = head.components(separatedBy: "\r\n").first { $0.hasPrefix("content-length:") }
                wanted = length.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
            }
            if let start = bodyStart {
                let body = Array(bytes[start...])
                if !isChunked, body.count >= wanted {
                    return (String(decoding: bytes[..<start], as: UTF8.self), body)
                }
                if isChunked, body.suffix(5).elementsEqual("0\r\n\r\n".utf8) {
                    return (String(decoding: bytes[..<start], as: UTF8.self), unchunked(body))
                }
            }
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            bytes += piece.prefix(count)
        }
    }

    private static func unchunked(_ bytes: [UInt8]) -> [UInt8] {
        var rest = bytes[...]
        var body: [UInt8] = []
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let size = Int(String(decoding: rest[..<end].filter { $0 != 13 }, as: UTF8.self), radix: 16) ?? 0
            if size == 0 { break }
            body += rest[(end + 1)...].prefix(size)
            rest = rest[(end + 1)...].dropFirst(size + 2)
        }
        return body
    }
}
