import BenchKit
import CBenchFloors
import Glibc
import SyncCore

/// Devices that wait at one hub for news (PROTOCOL A3), and another one that pushes. All of them are sockets of one thread.
struct NewsClient {
    private struct Waiter {
        var descriptor: Int32
        var name: String
        var cursor: String
        var answer: [UInt8] = []
    }

    private let port: UInt16
    private var waiters: [Waiter] = []
    private var pushes = 0

    /// Pulls of a round that are not answered after this time count as lost, nanoseconds.
    private static let patience: UInt64 = 30_000_000_000
    /// Number of pulls that are sent before the hub has to count them as waiting.
    private static let atOnce = 64
    /// The waits last 55 s; no round begins unless all of them are open.
    private static let longestStart: UInt64 = 50_000_000_000

    /// Opens one connection for each device and reads the feed to its end.
    init(devices: Int, port: UInt16) throws {
        self.port = port
        for index in 0..<devices {
            let name = "news-\(index)"
            let descriptor = try NewsClient.connect(port)
            waiters.append(Waiter(descriptor: descriptor, name: name, cursor: ""))
            try send(NewsClient.pull(name, cursor: nil), over: descriptor)
            waiters[index].cursor = try NewsClient.cursor(in: NewsClient.receive(descriptor))
        }
    }

    func close() { for waiter in waiters { _ = Glibc.close(waiter.descriptor) } }

    /// Lets all devices wait. They ask a few at a time: a pull takes a place of the hub until it waits, and the hub refuses those beyond
    /// the limit of its places (PROTOCOL G4).
    mutating func wait() throws {
        let start = bench_now()
        for first in stride(from: 0, to: waiters.count, by: NewsClient.atOnce) {
            let end = min(first + NewsClient.atOnce, waiters.count)
            for waiter in waiters[first..<end] {
                try send(NewsClient.pull(waiter.name, cursor: waiter.cursor, waits: true), over: waiter.descriptor)
            }
            while case let count = try waiting(), count < end {
                guard bench_now() - start < NewsClient.longestStart else {
                    throw BenchError("only \(count) of \(end) pulls wait after \(NewsClient.longestStart / 1_000_000_000) s")
                }
                usleep(20_000)
            }
        }
    }

    /// Pushes one change, and measures the time from then until each waiting device has it, nanoseconds.
    mutating func round() throws -> [UInt64] {
        let pusher = try NewsClient.connect(port)
        defer { _ = Glibc.close(pusher) }
        pushes += 1
        let start = bench_now()
        try send(NewsClient.push(pushes), over: pusher)
        var times: [UInt64] = []
        var open = Set(waiters.indices)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while !open.isEmpty {
            guard bench_now() - start < NewsClient.patience else { throw BenchError("\(open.count) devices did not get the news in 30 s") }
            let order = Array(open)
            var polled = order.map { pollfd(fd: waiters[$0].descriptor, events: Int16(POLLIN), revents: 0) }
            guard poll(&polled, nfds_t(polled.count), 1_000) > 0 else { continue }
            for (entry, index) in zip(polled, order) where entry.revents != 0 {
                let count = recv(entry.fd, &buffer, buffer.count, 0)
                guard count > 0 else { throw BenchError("the hub closed the connection of a waiting device") }
                waiters[index].answer += buffer[..<count]
                guard let answer = FleetAnswer(waiters[index].answer) else { continue }
                times.append(bench_now() - start)
                waiters[index].cursor = try NewsClient.cursor(in: Array(waiters[index].answer[answer.body]))
                waiters[index].answer = []
                open.remove(index)
            }
        }
        return times
    }

    // MARK: Requests

    /// The hub's own count of waiting pulls.
    private func waiting() throws -> Int {
        let descriptor = try NewsClient.connect(port)
        defer { _ = Glibc.close(descriptor) }
        try send(Array("GET /metrics HTTP/1.1\r\nHost: hub\r\n\r\n".utf8), over: descriptor)
        let page = String(decoding: try NewsClient.receive(descriptor), as: UTF8.self)
        guard let line = page.split(separator: "\n").first(where: { $0.hasPrefix("agenthub_pulls_waiting ") }),
            let count = line.split(separator: " ").last.flatMap({ Int($0) })
        else { throw BenchError("the hub does not count waiting pulls: it is of an earlier version") }
        return count
    }

    private static func pull(_ name: String, cursor: String?, waits: Bool = false) -> [UInt8] {
        let quoted = cursor.map { "\"\($0)\"" } ?? "null"
        return request(
            "/v1/sync/pull", of: name, more: waits ? "Prefer: wait=55\r\n" : "",
            #"{"streams":[{"entity":"notes","cursor":\#(quoted)}],"limit":500,"max_sent_seq":0}"#)
    }

    private static func push(_ number: Int) -> [UInt8] {
        request(
            "/v1/sync/push", of: "news-author", more: "",
            #"{"acked_seq":\#(number - 1),"mutations":[{"seq":\#(number),"idempotency_key":"k-news-\#(number)","entity":"notes","#
                + #""record_id":"n-\#(number)","action":"create","data":{"text":"pump 3 is hot"},"base_version":0,"#
                + #""hlc":"0199c3f2a1b4-0007-9f2c11ab","client_updated_at":"2026-11-20T21:04:05.120Z"}]}"#)
    }

    private static func request(_ path: String, of name: String, more: String, _ body: String) -> [UInt8] {
        Array(
            """
            POST \(path) HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: \(name)\r\nSync-Replica: r-\(name)\r\n\(more)\
            Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
            """.utf8)
    }

    // MARK: Sockets

    private static func connect(_ port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        guard descriptor >= 0, result == 0 else { throw BenchError("a connection to the hub cannot be made (errno \(errno))") }
        return descriptor
    }

    private func send(_ bytes: [UInt8], over descriptor: Int32) throws {
        guard Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw BenchError("the hub closed a connection (errno \(errno))")
        }
    }

    /// The body of the next answer.
    private static func receive(_ descriptor: Int32) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw BenchError("the hub closed a connection before its answer") }
            bytes += buffer[..<count]
            guard let answer = FleetAnswer(bytes) else { continue }
            guard answer.status == 200 else { throw BenchError("the hub answered \(answer.status)") }
            return Array(bytes[answer.body])
        }
    }

    private static func cursor(in body: [UInt8]) throws -> String {
        // An unreadable answer is thrown as an error below.
        guard let stream = (try? JSONReader.read(body))?.object?["streams"]?.array?.first?.object, let cursor = stream["cursor"]?.text
        else {
            throw BenchError("a pull brought no page")
        }
        return cursor
    }
}
