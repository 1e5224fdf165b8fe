import Glibc

/// A client that says exactly the bytes it is told to, over TCP. Its calls block; the timeout only turns a hang into a failure.
final class RawClient: Sendable {
    struct Failure: Error {
        var what: String
    }

    private let descriptor: Int32

    /// - Parameters:
    ///   - receiveBuffer: Bytes that the kernel takes for the client while it does not read.
    ///   - source: The last two bytes of our address, 127.0.x.y.
    init(port: Int, receiveBuffer: Int32? = nil, source: UInt32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if let source {
            var own = sockaddr_in()
            own.sin_family = sa_family_t(AF_INET)
            own.sin_addr.s_addr = UInt32(0x7F00_0000 | source).bigEndian
            let isBound = withUnsafePointer(to: &own) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
            }
            guard isBound == 0 else { throw Failure(what: "bind \(errno)") }
        }
        if var receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<Int32>.size))
        }
        var time = timeval(tv_sec: 600, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw Failure(what: "connect \(errno)") }
    }

    deinit { close(descriptor) }

    func send(_ text: String) throws {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw Failure(what: "send \(errno)") }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads until what came ends with `end`.
    func read(to end: String) throws -> String {
        var text = ""
        while !text.hasSuffix(end) {
            guard let more = try piece() else { throw Failure(what: "closed after \(text)") }
            text += more
        }
        return text
    }

    /// The first bytes that come, however few.
    func first() throws -> String {
        guard let first = try piece() else { throw Failure(what: "closed before the first byte") }
        return first
    }

    /// Everything up to the end of the connection, which the server must bring about.
    func rest() throws -> String {
        var text = ""
        while let more = try piece() { text += more }
        return text
    }

    /// - Returns: `nil` at the end. A reset is one, too: the server may close with bytes of ours unread.
    private func piece() throws -> String? {
        var room = [UInt8](repeating: 0, count: 64 << 10)
        let count = recv(descriptor, &room, room.count, 0)
        if count < 0, errno == ECONNRESET { return nil }
        guard count >= 0 else { throw Failure(what: "receive \(errno)") }
        return count == 0 ? nil : String(decoding: room.prefix(count), as: UTF8.self)
    }
}
