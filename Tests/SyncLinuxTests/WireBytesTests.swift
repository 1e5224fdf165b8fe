import Foundation
import Glibc
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// The counters of the transport, against those of an interface.
@Suite("Bytes on the wire", .enabled(if: OpenSSL.path != nil, "without openssl there is no TLS server"))
struct WireBytesTests {
    @Test(
        "The bytes of a whole sync over TLS, with headers, handshakes and farewells, are those of the interface within 2 %",
        .enabled(if: PrivateLoopback.isPossible, "a network of its own needs root"))
    func interface() async throws {
        var (counted, carried) = (0, 0)
        func isTrue() -> Bool { carried > 0 && abs(counted - carried) * 50 <= carried }
        // Packets that a busy machine is slow to acknowledge are sent again, and the interface alone counts them.
        for _ in 0..<5 where !isTrue() { (counted, carried) = try await Self.sync() }
        #expect(isTrue(), "counted \(counted), carried \(carried)")
    }

    /// - Returns: The bytes of a whole sync, as the transport counts them, and as the interface does.
    private static func sync() async throws -> (counted: Int, carried: Int) {
        try await withTemporaryDirectory { directory in
            let ca = try CertificateAuthority(in: directory, name: "ca")
            let certificate = try ca.issue("server", "IP:127.0.0.1")
            makeFile(directory + "/page", String(repeating: "0123456789abcdef", count: 60_000))
            let network = try PrivateLoopback()
            defer { network.close() }
            // Each of these has its sockets where its threads and processes are made.
            let (answering, serving, transport) = try network.run {
                (try TLSServer(certificate), try TLSServer(certificate, ["-WWW"], in: directory), try CurlTransport())
            }
            let tls = TLSIdentity(caFile: ca.file)
            var sum = Traffic()
            func add(_ traffic: Traffic) {
                sum.up += traffic.wireUp
                sum.down += traffic.wireDown
            }
            func push(_ size: Int) async throws {
                add(
                    try await transport.send(
                        HTTPRequest(
                            .post, "https://127.0.0.1:\(answering.port)/v1/sync/push", body: .bytes([UInt8](repeating: 65, count: size)),
                            tls: tls)
                    ).traffic)
            }
            for size in [0, 400, 6_000, 30_000, 200_000, 400] { try await push(size) }
            // A page; this server closes the connection to end it.
            for _ in 0..<3 {
                let page = try await transport.send(
                    HTTPRequest(.get, "https://127.0.0.1:\(serving.port)/page", tls: tls, keepsConnection: false))
                #expect(page.body.count == 960_000)
                add(page.traffic)
            }
            transport.close()
            add(transport.takeLeftover())
            #expect(transport.takeLeftover() == Traffic())
            for server in [answering, serving] { server.stop() }
            let carried = try network.run { try network.carriedBytes() }
            #expect(sum.down > 2_880_000 && sum.up > 236_000)
            return (sum.up + sum.down, carried)
        }
    }

    @Test("Requests with a rate take together as long as the rate says, one large one as well as many small ones", arguments: [1, 8])
    func rate(requests: Int) async throws {
        let (rate, size) = (400_000, 800_000 / requests)
        let body = [UInt8](repeating: 1, count: size)
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer("200 OK", [], body) }
        }
        defer { server.stop() }
        for (sent, url) in [(body, "up"), ([], "down")] {
            let transport = try CurlTransport()
            let began = SystemClocks().now().instant
            for _ in 0..<requests {
                var request = server.request(.post, "/" + url, body: .bytes(sent))
                request.bytesPerSecond = rate
                #expect(try await transport.send(request).status == 200)
            }
            // Two seconds' worth, less what may go at once and what the kernels of both ends hold.
            let least = 2_000 - (250 + RateLimiter.bufferBytes(at: rate) * 1_000 / rate)
            #expect(began.duration(to: SystemClocks().now().instant) > .milliseconds(least), "\(url)")
        }
    }
}

/// A network namespace with nothing but a loopback, whose packets are as small as on Ethernet and are counted one by one.
private final class PrivateLoopback: @unchecked Sendable {
    static let isPossible = geteuid() == 0 && access("/usr/sbin/ip", X_OK) == 0

    private let work = Mutex<(@Sendable () -> Void)?>(nil)
    private let wanted = DispatchSemaphore(value: 0)
    private let done = DispatchSemaphore(value: 0)

    /// A thread of its own moves there; the rest of the process stays where it is.
    init() throws {
        Thread.detachNewThread { [self] in
            while true {
                wanted.wait()
                guard let next = work.withLock({ $0 }) else { return }
                next()
                done.signal()
            }
        }
        try run {
            // CLONE_NEWNET of sched.h, unshare(2): glibc shows them to GNU sources only, which Swift's module is not.
            let symbol = dlsym(UnsafeMutableRawPointer(bitPattern: 0), "unshare")
            let unshare = unsafeBitCast(symbol, to: (@convention(c) (Int32) -> Int32)?.self)
            guard unshare?(0x4000_0000) == 0 else { throw OpenSSL.Failure(text: "unshare: \(errno)") }
            // Not Foundation's Process, which waits by a run loop that this thread does not have.
            let words = ["ip", "link", "set", "lo", "up", "mtu", "1500", "gso_max_segs", "1"]
            let arguments: [UnsafeMutablePointer<CChar>?] = words.map { (word: String) in strdup(word) }
            defer { arguments.forEach { free($0) } }
            var child: pid_t = 0, status: Int32 = 0
            guard posix_spawn(&child, "/usr/sbin/ip", nil, nil, arguments + [nil], environ) == 0,
                waitpid(child, &status, 0) == child, status == 0
            else { throw OpenSSL.Failure(text: "ip link: \(status)") }
        }
    }

    /// The thread ends, and with the last socket the namespace.
    func close() {
        work.withLock { $0 = nil }
        wanted.signal()
    }

    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        let result = Mutex<Result<Value, any Error>?>(nil)
        work.withLock { $0 = { result.withLock { $0 = Result(catching: body) } } }
        wanted.signal()
        done.wait()
        guard let value = result.withLock({ $0 }) else { throw OpenSSL.Failure(text: "the thread said nothing") }
        return try value.get()
    }

    /// Bytes of all packets in both directions: the loopback sends each of them once.
    func carriedBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/thread-self/net/dev", encoding: .utf8)
        let line = text.split(separator: "\n").first { $0.contains("lo:") }
        let numbers = line?.split(separator: ":").last?.split(separator: " ").compactMap { Int($0) } ?? []
        return try #require(numbers.count >= 9 ? numbers[8] : nil)
    }
}
