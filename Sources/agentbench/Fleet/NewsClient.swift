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
        /// A pull of it is on its way or waits.
        var isAsking = false
    }

    private let port: UInt16
    private let waitSeconds: Int
    private let queue: ReadyQueue
    private var waiters: [Waiter] = []
    private var lister: NewsLister?
    private var pushes = 0
    private var buffer = [UInt8](repeating: 0, count: 65_536)

    /// Pulls of a round that are not answered after this time count as lost, nanoseconds.
    private static let patience: UInt64 = 30_000_000_000
    /// No round begins unless all waits are open.
    private static let longestStart: UInt64 = 50_000_000_000
    /// The mark of the lister's socket.
    private static let listing = UInt64.max

    /// Opens one connection for each device and reads the feed to its end.
    ///
    /// - Parameter waitSeconds: The length of a wait, 1 to 55.
    init(devices: Int, port: UInt16, waitSeconds: Int) throws {
        self.port = port
        self.waitSeconds = waitSeconds
        queue = try ReadyQueue()
        for index in 0..<devices {
            let name = "news-\(index)"
            let descriptor = try FleetSocket.connect(port)
            waiters.append(Waiter(descriptor: descriptor, name: name, cursor: ""))
            try FleetSocket.send(NewsClient.pull(name, cursor: nil), over: descriptor)
            waiters[index].cursor = try FleetSocket.cursor(in: FleetSocket.receive(descriptor))
            try queue.add(descriptor, as: UInt64(index))
        }
    }

    func close() {
        for waiter in waiters { _ = Glibc.close(waiter.descriptor) }
        lister?.close()
        queue.close()
    }

    /// From now on a new device lists and compares the entity during each round.
    mutating func beginListing(_ entity: String) throws {
        let lister = try NewsLister(entity, port: port)
        try queue.add(lister.descriptor, as: NewsClient.listing)
        self.lister = lister
    }

    var listed: NewsLister.Count { lister?.count ?? NewsLister.Count() }

    /// Lets all devices that do not wait do so. They ask all at once, as they do after a change.
    mutating func wait() throws {
        let start = bench_now()
        for index in waiters.indices where !waiters[index].isAsking { try ask(index) }
        while case let count = try waiting(), count < waiters.count {
            guard bench_now() - start < NewsClient.longestStart else {
                throw BenchError("only \(count) of \(waiters.count) pulls wait after \(NewsClient.longestStart / 1_000_000_000) s")
            }
            _ = try hold(nanoseconds: 20_000_000)
        }
    }

    /// Takes the answers of that time while nothing changes. A device whose wait has ended asks again.
    ///
    /// - Returns: The number of waits that ended.
    mutating func hold(nanoseconds: UInt64) throws -> Int {
        let end = bench_now() + nanoseconds
        var ended = 0
        while case let now = bench_now(), now < end {
            try takeAnswers(within: Int32((end - now) / 1_000_000) + 1) { client, index, _ in
                ended += 1
                try client.ask(index)
            }
        }
        return ended
    }

    private mutating func ask(_ index: Int) throws {
        waiters[index].isAsking = true
        let waiter = waiters[index]
        try FleetSocket.send(NewsClient.pull(waiter.name, cursor: waiter.cursor, seconds: waitSeconds), over: waiter.descriptor)
    }

    /// Reads what arrives within a time.
    ///
    /// - Parameter answered: Called for each complete answer to a device: `true` when it has records.
    private mutating func takeAnswers(
        within milliseconds: Int32, answered: (inout NewsClient, _ index: Int, _ hasNews: Bool) throws -> Void
    ) throws {
        for mark in queue.wait(milliseconds: milliseconds) {
            if mark == NewsClient.listing {
                try lister?.receive()
            } else if let hasNews = try answer(Int(mark)) {
                try answered(&self, Int(mark), hasNews)
            }
        }
    }

    /// Reads what has arrived for a device.
    ///
    /// - Returns: `true` when the answer has records; `nil`: it is not complete yet.
    private mutating func answer(_ index: Int) throws -> Bool? {
        let count = recv(waiters[index].descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { throw BenchError("the hub closed the connection of a waiting device") }
        waiters[index].answer += buffer[..<count]
        guard let answer = FleetAnswer(waiters[index].answer) else { return nil }
        let body = Array(waiters[index].answer[answer.body])
        waiters[index].answer = []
        waiters[index].isAsking = false
        guard answer.status == 200 else {
            throw BenchError("the hub answered \(answer.status): \(String(decoding: body.prefix(300), as: UTF8.self))")
        }
        // A stream without news may be left out of the answer.
        guard let stream = try FleetSocket.streams(in: body).first?.object else { return false }
        if let cursor = stream["cursor"]?.text { waiters[index].cursor = cursor }
        return stream["records"]?.array?.isEmpty == false
    }

    /// Pushes one change, and measures the time from then until each waiting device has it, nanoseconds.
    mutating func round() throws -> [UInt64] {
        let pusher = try FleetSocket.connect(port)
        defer { _ = Glibc.close(pusher) }
        pushes += 1
        try lister?.beginRound()
        let start = bench_now()
        try FleetSocket.send(NewsClient.push(pushes), over: pusher)
        var times: [UInt64] = []
        while times.count < waiters.count {
            guard bench_now() - start < NewsClient.patience else {
                throw BenchError("\(waiters.count - times.count) devices did not get the news in 30 s")
            }
            try lister?.proceed()
            try takeAnswers(within: lister == nil ? 1_000 : 50) { client, index, hasNews in
                // Its wait ended just before the change.
                if hasNews { times.append(bench_now() - start) } else { try client.ask(index) }
            }
        }
        return times
    }

    // MARK: Requests

    /// The hub's own count of waiting pulls.
    private func waiting() throws -> Int {
        let descriptor = try FleetSocket.connect(port)
        defer { _ = Glibc.close(descriptor) }
        try FleetSocket.send(Array("GET /metrics HTTP/1.1\r\nHost: hub\r\n\r\n".utf8), over: descriptor)
        let page = String(decoding: try FleetSocket.receive(descriptor), as: UTF8.self)
        guard let line = page.split(separator: "\n").first(where: { $0.hasPrefix("agenthub_pulls_waiting ") }),
            let count = line.split(separator: " ").last.flatMap({ Int($0) })
        else { throw BenchError("the hub does not count waiting pulls: it is of an earlier version") }
        return count
    }

    private static func pull(_ name: String, cursor: String?, seconds: Int? = nil) -> [UInt8] {
        let quoted = cursor.map { "\"\($0)\"" } ?? "null"
        return FleetSocket.request(
            "/v1/sync/pull", of: name, more: seconds.map { "Prefer: wait=\($0)\r\n" } ?? "",
            #"{"streams":[{"entity":"notes","cursor":\#(quoted)}],"limit":500,"max_sent_seq":0}"#)
    }

    private static func push(_ number: Int) -> [UInt8] {
        FleetSocket.request(
            "/v1/sync/push", of: "news-author", more: "",
            #"{"acked_seq":\#(number - 1),"mutations":[{"seq":\#(number),"idempotency_key":"k-news-\#(number)","entity":"notes","#
                + #""record_id":"n-\#(number)","action":"create","data":{"text":"pump 3 is hot"},"base_version":0,"#
                + #""hlc":"0199c3f2a1b4-0007-9f2c11ab","client_updated_at":"2026-11-20T21:04:05.120Z"}]}"#)
    }
}
