import Glibc

/// Stands in the hub's place and is something else; for tests in network namespaces of their own.
///
///     standin page|redirect|empty|silence PORT…
///
/// `page`, `redirect` and `empty` answer every request as captive portals do: a login page with 200, a redirect to one, the empty 204 that
/// browsers look for. `silence` accepts and never says anything. It prints `ready` when it listens. Its input goes to standard error: a
/// line with the port for each connection, then the head as it came.
@main
enum StandIn {
    /// A request's head is never longer here.
    private static let maxHead = 16 << 10

    static func main() {
        // A client that hangs up before the answer must not end the program.
        signal(SIGPIPE, SIG_IGN)
        let arguments = CommandLine.arguments.dropFirst()
        guard let manner = arguments.first.flatMap({ Manner(rawValue: $0) }), arguments.count > 1 else {
            fail("usage: standin page|redirect|empty|silence PORT...")
        }
        let ports = arguments.dropFirst().compactMap { UInt16($0) }
        let listeners = ports.map(listener)
        write(1, "ready\n")
        var polled = listeners.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while true {
            guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
            for (index, entry) in polled.enumerated() where entry.revents != 0 {
                let connection = accept(entry.fd, nil, nil)
                guard connection >= 0 else { continue }
                write(2, "connection to \(ports[index])\n")
                // Connections without an answer are not closed. They end with this process.
                if let answer = manner.answer { serve(connection, answer) }
            }
        }
    }

    private enum Manner: String {
        case page, redirect, empty, silence

        var answer: String? {
            let page = "<html><body>Please log in</body></html>"
            return switch self {
            case .page: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: \(page.utf8.count)\r\n\r\n\(page)"
            case .redirect: "HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\nContent-Length: 0\r\n\r\n"
            case .empty: "HTTP/1.1 204 No Content\r\n\r\n"
            case .silence: nil
            }
        }
    }

    private static func serve(_ connection: Int32, _ answer: String) {
        defer { close(connection) }
        // A client that connects and sends nothing must not hold up others.
        var patience = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var head: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 4_096)
        while head.count < maxHead {
            let count = read(connection, &room, room.count)
            guard count > 0 else { break }
            head += room.prefix(count)
            // A TLS record: no head will come.
            if head.first == 0x16 { break }
            if head.count >= 4, head.suffix(4) == [0x0D, 0x0A, 0x0D, 0x0A] {
                write(connection, answer)
                break
            }
        }
        let text = head.map { (0x20..<0x7F).contains($0) || $0 == 0x0A ? $0 : UInt8(ascii: ".") }
        write(2, String(decoding: text, as: UTF8.self) + "\n")
    }

    private static func listener(_ port: UInt16) -> Int32 {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0, listen(listener, 64) == 0 else {
            fail("standin: listen on port \(port): \(String(cString: strerror(errno)))")
        }
        return listener
    }

    private static func write(_ descriptor: Int32, _ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.write(descriptor, bytes, bytes.count)
    }

    private static func fail(_ text: String) -> Never {
        write(2, text + "\n")
        exit(64)
    }
}
