import CSyncLinux
import Glibc

/// A client that says exactly the bytes it is told to, and reads what comes back.
///
/// Its calls block. The server runs on a thread of its own, so a test waits for what the server does and for nothing
/// else; the receive timeout only turns a hang into a failure.
final class Client: Sendable {
    struct Failure: Error {
        var what: String
    }

    struct Answer: Equatable {
        var status: Int
        /// Names in lower case.
        var headers: [String: String]
        var body: String
    }

    /// Shared by all who talk on this connection.
    let descriptor: Int32
    private let reader = Reader()

    /// Bytes that came and were not looked at. One test uses a client from one place at a time.
    private final class Reader: @unchecked Sendable {
        var bytes: [UInt8] = []
    }

    init(path: String, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        guard descriptor >= 0, sync_unix_address(path, &address) == 0 else { throw Failure(what: "address \(errno)") }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 else {
            let failure = Failure(what: "connect \(errno)")
            Glibc.close(descriptor)
            throw failure
        }
        setTimeout()
    }

    /// - Parameter source: The last byte of our address, 127.0.0.x.
    init(port: Int, source: UInt32 = 1) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var own = sockaddr_in()
        own.sin_family = sa_family_t(AF_INET)
        own.sin_addr.s_addr = UInt32(0x7F00_0000 | source).bigEndian
        let isBound = withUnsafePointer(to: &own) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard isBound == 0 else { throw Failure(what: "bind \(errno)") }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 else {
            let failure = Failure(what: "connect \(errno)")
            Glibc.close(descriptor)
            throw failure
        }
        setTimeout()
    }

    deinit {
        Glibc.close(descriptor)
    }

    private func setTimeout() {
        var time = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    }

    // MARK: Sending

    func send(_ text: String) throws {
        try send(Array(text.utf8))
    }

    /// - Throws: When the server does not take them all.
    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(what: "send \(errno) after \(sent) bytes") }
            sent += count
        }
    }

    /// Sends copies until the kernel takes no more, and says how many bytes that were.
    func sendUntilFull(_ bytes: [UInt8]) -> Int {
        var total = 0
        while true {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            }
            guard count > 0 else { return total }
            total += count
        }
    }

    func endSending() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Closes both directions, as a process that ends does.
    func leave() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    // MARK: Receiving

    /// The next answer, without its chunk framing. Interim answers come as answers of their own.
    func answer(toHEAD: Bool = false) throws -> Answer {
        var answer = try head()
        if toHEAD || answer.status < 200 || answer.status == 204 || answer.status == 304 { return answer }
        if let length = answer.headers["content-length"].flatMap({ Int($0) }) {
            answer.body = try text(length)
        } else if answer.headers["transfer-encoding"] == "chunked" {
            while let piece = try chunk() { answer.body += piece }
        } else {
            answer.body = try rest()
        }
        return answer
    }

    func head() throws -> Answer {
        var lines = try line().split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count == 3, lines.removeFirst() == "HTTP/1.1", let status = Int(lines.removeFirst()) else {
            throw Failure(what: "status line")
        }
        var headers: [String: String] = [:]
        while true {
            let line = try line()
            if line.isEmpty { return Answer(status: status, headers: headers, body: "") }
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { throw Failure(what: "header line \(line)") }
            headers[parts[0].lowercased()] = String(parts[1].drop { $0 == " " })
        }
    }

    /// The next chunk of a chunked body; `nil` for the last one.
    func chunk() throws -> String? {
        guard let size = Int(try line(), radix: 16) else { throw Failure(what: "chunk size") }
        let piece = try text(size)
        guard try line().isEmpty else { throw Failure(what: "chunk end") }
        return size == 0 ? nil : piece
    }

    /// All that still comes, to the end of the connection.
    func rest() throws -> String {
        while try receive() {}
        defer { reader.bytes = [] }
        return String(decoding: reader.bytes, as: UTF8.self)
    }

    /// Waits for the server to close, whether it does so properly or resets the connection.
    func isClosed() throws -> Bool {
        do {
            return try reader.bytes.isEmpty && !receive()
        } catch let failure as Failure where failure.what == "receive \(ECONNRESET)" {
            return true
        }
    }

    func text(_ count: Int) throws -> String {
        while reader.bytes.count < count {
            guard try receive() else { throw Failure(what: "closed after \(reader.bytes.count) of \(count) bytes") }
        }
        defer { reader.bytes.removeFirst(count) }
        return String(decoding: reader.bytes.prefix(count), as: UTF8.self)
    }

    private func line() throws -> String {
        while true {
            if let end = reader.bytes.firstIndex(of: 0x0A) {
                defer { reader.bytes.removeFirst(end + 1) }
                guard end > 0, reader.bytes[end - 1] == 0x0D else { throw Failure(what: "bare line feed") }
                return String(decoding: reader.bytes.prefix(end - 1), as: UTF8.self)
            }
            guard try receive() else { throw Failure(what: "closed within a line") }
        }
    }

    /// - Returns: `false` at the end of the connection.
    private func receive() throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        let count = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
        guard count >= 0 else { throw Failure(what: "receive \(errno)") }
        reader.bytes += buffer.prefix(count)
        return count > 0
    }
}
