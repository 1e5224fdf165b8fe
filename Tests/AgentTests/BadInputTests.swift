import Foundation
import LocalAPI
import SyncCore
import SyncHTTP
import SyncLinux
import Testing

/// Mistakes of apps and operators, with a whole agent behind the socket.
@Suite("Bad input")
struct BadInputTests {
    // MARK: Callers

    struct Door: Sendable {
        var method: HTTPRequest.Method
        var path: String
        var needs: Role
        var body: String?

        init(_ method: HTTPRequest.Method, _ path: String, _ needs: Role, _ body: String? = nil) {
            (self.method, self.path, self.needs, self.body) = (method, path, needs, body)
        }
    }

    private static let doors = [
        Door(.get, "/v1/mutations", .read), Door(.get, "/v1/mutations/none", .read), Door(.get, "/v1/rejected", .read),
        Door(.get, "/v1/records/audits", .read), Door(.get, "/v1/records/audits/none", .read),
        Door(.post, "/v1/query", .read, #"{"entity":"audits"}"#), Door(.get, "/v1/entities", .read), Door(.get, "/v1/status", .read),
        Door(.get, "/v1/metrics", .read),
        Door(.post, "/v1/mutations", .enqueue, #"{"entity":"audits","action":"create"}"#),
        Door(.delete, "/v1/mutations/none", .enqueue), Door(.post, "/v1/mutations/none/retry", .enqueue),
        Door(.post, "/v1/mutations/none/discard", .enqueue), Door(.post, "/v1/sync", .enqueue, "{}"),
        Door(.post, "/v1/sync", .operate, #"{"force":true}"#), Door(.post, "/v1/pause", .operate, "{}"),
        Door(.post, "/v1/resume", .operate), Door(.get, "/v1/config", .operate), Door(.post, "/v1/config/check", .admin),
        Door(.post, "/v1/config/reload", .admin),
    ]

    @Test("Each role opens its doors and those of the roles below it, and no other", arguments: Role.allCases)
    func matrix(_ role: Role) async throws {
        let stand = try await AgentStand.start("access: [ { user: \"\(getuid())\", role: \(role.rawValue) } ]\n")
        for door in Self.doors {
            let answer = try await stand.send(door.method, door.path, door.body)
            #expect((answer.status == 403) == (role < door.needs), "\(door.method) \(door.path): \(answer.text)")
            if answer.status == 403 { #expect(answer.code == "forbidden") }
        }
        try await stand.stop()
    }

    @Test(
        "A caller without the right is refused before the body is read, whatever is in it",
        arguments: [
            "not json", String(repeating: "x", count: 3 << 20),
        ])
    func strangersBody(_ body: String) async throws {
        let stand = try await AgentStand.start("access: [ { user: \"4242\", role: admin } ]\n")
        let answer = try await stand.send(.post, "/v1/mutations", body)
        #expect(answer.status == 403 && answer.code == "forbidden")
        try await stand.stop()
    }

    // MARK: Bodies

    @Test(
        "Bytes that are not UTF-8 are refused with their place, in a payload as well",
        arguments: [
            [0xFF], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xE2, 0x82],
        ] as [[UInt8]])
    func notUTF8(_ bytes: [UInt8]) async throws {
        let stand = try await AgentStand.start()
        let before = #"{"entity":"audits","action":"create","data":{"a":""#
        let answer = try await stand.post(.bytes(Array(before.utf8) + bytes + Array(#""}}"#.utf8)))
        #expect(answer.status == 400 && answer.code == "malformed")
        #expect(answer.text.contains("byte \(before.utf8.count)"), "\(answer.text)")
        #expect(try await stand.enqueued() == 0)
        try await stand.stop()
    }

    @Test("A body that turns out too large on its way is 413, and nothing of it is stored")
    func discoveredTooLarge() async throws {
        let stand = try await AgentStand.start()
        let left = Counter(5 << 20)
        let answer = try await stand.post(
            .pieces { upTo in
                let count = left.take(min(upTo, 64 << 10))
                return count == 0 ? nil : [UInt8](repeating: UInt8(ascii: " "), count: count)
            })
        #expect(answer.status == 413 && answer.code == "too-large", "\(answer.status) \(answer.text)")
        #expect(try await stand.enqueued() == 0)
        try await stand.stop()
    }

    @Test("Odd but valid text is kept byte for byte, and is no obstacle to anything")
    func oddText() async throws {
        let stand = try await AgentStand.start()
        let data = "{\"\u{65}\u{301}\":\"\u{202E}abc\",\"\u{E9}\":\"\\u0001\\u007f\",\"n\":[-0,1e999,18446744073709551616,1.50]}"
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":\#(data)}"#)
        #expect(try await stand.sync()["result"] == "ok")
        let bytes = Array(try await stand.send(.get, "/v1/records/audits/a-1").text.utf8)
        #expect(bytes.firstRange(of: Array(("\"data\":" + data).utf8)) != nil)
        try await stand.stop()
    }

    // MARK: Records and keys

    @Test(
        "An impossible change of a record is refused with its code, and changes nothing",
        arguments: [
            (#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":2}}"#, 409, "exists"),
            (#"{"entity":"audits","record_id":"a-1","action":"update","data":{"n":2},"expect_version":99}"#, 409, "version-mismatch"),
            (#"{"entity":"audits","record_id":"a-1","action":"update","data":{"n":2},"expect_version":0}"#, 409, "version-mismatch"),
            (#"{"entity":"audits","record_id":"gone","action":"update","data":{"n":2}}"#, 409, "deleted"),
            (#"{"entity":"audits","record_id":"gone","action":"delete"}"#, 409, "deleted"),
            (#"{"entity":"audits","record_id":"never","action":"delete"}"#, 404, "not-found"),
        ])
    func records(_ body: String, _ status: Int, _ code: String) async throws {
        let stand = try await AgentStand.start()
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"gone","action":"create","data":{"n":1}}"#)
        #expect(try await stand.sync()["result"] == "ok")
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"gone","action":"delete"}"#)
        let answer = try await stand.send(.post, "/v1/mutations", body)
        #expect(answer.status == status && answer.code == code, "\(answer.text)")
        #expect(try await stand.enqueued() == 3)
        #expect(try await stand.send(.get, "/v1/records/audits/a-1")["data"] == ["n": 1])
        try await stand.stop()
    }

    @Test("A client that leaves before its answer finds the mutation stored, and the repeat of its key says so")
    func leftBeforeAnswer() async throws {
        let stand = try await AgentStand.start()
        let body = #"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#
        try Self.sendAndLeave(
            "POST /v1/mutations HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nIdempotency-Key: k-1\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n" + body, to: stand.socket)
        // The event tells of the commit.
        _ = try await stand.events(after: "0", until: 1)
        let again = try await stand.send(.post, "/v1/mutations", body, headers: ["Idempotency-Key": "k-1"])
        #expect(again.status == 200, "\(again.text)")
        let items = try await stand.send(.get, "/v1/mutations")["items"]?.array
        #expect(items?.count == 1 && items?.first?.object?["id"] == again["id"])
        try await stand.stop()
    }

    private static func sendAndLeave(_ text: String, to path: String) throws {
        close(try connected(to: path, sending: text))
    }

    /// A client that writes its request and reads nothing by itself.
    private static func connected(to path: String, sending text: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(connected == 0)
        let bytes = Array(text.utf8)
        try #require(send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
        return descriptor
    }

    /// Up to the last chunk of a body; the connection stays open for the next request.
    private static func readAnswer(_ descriptor: Int32) -> [UInt8] {
        var received: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while !received.suffix(5).elementsEqual("0\r\n\r\n".utf8),
            case let count = recv(descriptor, &piece, piece.count, 0), count > 0
        { received += piece[..<count] }
        return received
    }

    @Test("A reader of events that reads nothing is cut with a word when a mebibyte waits for it, and resumes by its id")
    func slowEvents() async throws {
        // On a busy machine the reader would be cut for its silence, before its word comes.
        var limits = HTTPServerLimits.localAPI
        limits.writeStallTime = .seconds(3_600)
        let stand = try await AgentStand.start(limits: limits)
        let reader = try Self.connected(
            to: stand.socket, sending: "GET /v1/events?types=mutation,record HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 0\r\n\r\n")
        defer { close(reader) }
        // Two events each, of some 250 bytes.
        let line = #"{"entity":"audits","action":"create","data":{"note":"\#(String(repeating: "n", count: 40))"}}"#
        for _ in 0..<4 {
            let bulk = try await stand.send(
                .post, "/v1/mutations/bulk", Array(repeating: line, count: 1_000).joined(separator: "\n"),
                headers: ["Content-Type": "application/x-ndjson"])
            #expect(bulk.status == 200)
        }
        // Every commit hands it a page of 200 events more.
        for _ in 0..<100 { _ = try await stand.enqueue(line) }
        // Others are served meanwhile, from the beginning.
        let others = try await stand.events(after: "0", until: 8_200)
        #expect(others.count == 8_200)
        let received = Self.readAnswer(reader)
        let text = String(decoding: received, as: UTF8.self)
        #expect(text.contains("event: overflow\ndata: {}\n\n"))
        var parser = EventParser()
        let body = try #require(text.range(of: "\r\n\r\n").map { Array(text[$0.upperBound...].utf8) })
        let seen = parser.read(body).filter { $0.type != "overflow" }
        #expect(seen.count < 8_200)
        let last = try #require(seen.last?.id)
        let rest = try await stand.events(after: "\(last)", until: 8_200 - seen.count)
        #expect(rest.count == 8_200 - seen.count)
        try await stand.stop()
    }

    @Test("A user reads four event streams at one time; one more is told so, short requests are answered, and one that ends makes room")
    func eventStreamsOfOneUser() async throws {
        let stand = try await AgentStand.start()
        func stream() throws -> (descriptor: Int32, status: String) {
            let descriptor = try Self.connected(to: stand.socket, sending: "GET /v1/events HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 0\r\n\r\n")
            var head = [UInt8](repeating: 0, count: 12)
            let count = recv(descriptor, &head, head.count, Int32(MSG_WAITALL))
            try #require(count == head.count)
            return (descriptor, String(decoding: head.suffix(3), as: UTF8.self))
        }
        var streams = try (0..<4).map { _ in try stream() }
        #expect(streams.map(\.status) == ["200", "200", "200", "200"])
        let refused = try stream()
        #expect(refused.status == "429")
        close(refused.descriptor)
        #expect(try await stand.send(.get, "/v1/healthz").status == 200)
        close(streams.removeLast().descriptor)
        // The agent learns of the end in its own time.
        var next = try stream()
        while next.status == "429" {
            close(next.descriptor)
            next = try stream()
        }
        #expect(next.status == "200")
        for stream in streams + [next] { close(stream.descriptor) }
        try await stand.stop()
    }

    // MARK: Room

    @Test("A full queue refuses what is new, keeps what is old, and has a tenth left for what is critical; reads go on")
    func queueFull() async throws {
        let stand = try await AgentStand.start("store: { max_mutations: 100 }\n")
        let lines = (1...95).map { #"{"entity":"audits","record_id":"a-\#($0)","action":"create","data":{}}"# }
        let bulk = try await stand.send(
            .post, "/v1/mutations/bulk", lines.joined(separator: "\n"), headers: ["Content-Type": "application/x-ndjson"])
        #expect(bulk.text.hasSuffix("{\"summary\":{\"accepted\":90,\"failed\":5}}\n"), "\(bulk.text.suffix(200))")
        let refused = try await stand.send(.post, "/v1/mutations", #"{"entity":"audits","action":"create","data":{}}"#)
        #expect(refused.status == 507 && refused.code == "queue-full", "\(refused.text)")
        #expect(refused.headers["Retry-After"] != nil)
        let critical = #"{"entity":"audits","action":"create","data":{},"priority":"critical"}"#
        for _ in 1...10 { _ = try await stand.enqueue(critical) }
        #expect(try await stand.send(.post, "/v1/mutations", critical).status == 507)
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.outbox.isBalanced && status.outbox.open == 100 && status.database.state == .queueFull)
        #expect(try await stand.send(.get, "/v1/records/audits/a-1").status == 200)
        // The sync empties the queue, so there is room again.
        #expect(try await stand.sync()["result"] == "ok")
        _ = try await stand.enqueue(#"{"entity":"audits","action":"create","data":{}}"#)
        try await stand.stop()
    }

    @Test("An app at its own limit is refused while the queue has room")
    func appQuota() async throws {
        let stand = try await AgentStand.start(
            "access: [ { user: \"\(getuid())\", role: operate, app: inspector, quota_mutations: 3 } ]\n")
        for _ in 1...3 { _ = try await stand.enqueue(#"{"entity":"audits","action":"create","data":{}}"#) }
        let refused = try await stand.send(.post, "/v1/mutations", #"{"entity":"audits","action":"create","data":{}}"#)
        #expect(refused.status == 507 && refused.code == "queue-full", "\(refused.text)")
        #expect(refused.text.contains("inspector"))
        #expect(refused["setting"] == "access[].quota_mutations")
        #expect(try await stand.enqueued() == 3)
        try await stand.stop()
    }

    @Test("Where only critical work is taken any more, for want of space or of room, status asks for attention", arguments: [true, false])
    func lastTenth(_ isDisk: Bool) async throws {
        let settings = isDisk ? "store: { min_free: 64MB }\n" : "store: { max_mutations: 100 }\n"
        let stand = try await AgentStand.start(settings, freeBytes: isDisk ? 65_000_000 : 1 << 40)
        let line = #"{"entity":"audits","action":"create","data":{}}"#
        if !isDisk { for _ in 0..<90 { _ = try await stand.enqueue(line) } }
        let refused = try await stand.send(.post, "/v1/mutations", line)
        #expect(refused.status == 507, "\(refused.text)")
        let critical = try await stand.send(
            .post, "/v1/mutations", #"{"entity":"audits","action":"create","data":{},"priority":"critical"}"#)
        #expect(critical.status == 201, "\(critical.text)")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.database.state == (isDisk ? .diskFull : .queueFull))
        #expect(status.overall.level == .attention)
        try await stand.stop()
    }

    @Test("On a full disk nothing new is taken, from the first mutation on, and status says why; reads go on")
    func diskFull() async throws {
        let stand = try await AgentStand.start(freeBytes: 1_000)
        let line = #"{"entity":"audits","record_id":"a-1","action":"create","data":{}}"#
        let refused = try await stand.send(.post, "/v1/mutations", line)
        #expect(refused.status == 507 && refused.code == "disk-full", "\(refused.text)")
        #expect(refused.headers["Retry-After"] != nil)
        let bulk = try await stand.send(.post, "/v1/mutations/bulk", line, headers: ["Content-Type": "application/x-ndjson"])
        #expect(bulk.text.hasSuffix("{\"summary\":{\"accepted\":0,\"failed\":1}}\n"), "\(bulk.text)")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.database.state == .diskFull && status.outbox.enqueued == 0)
        #expect(try await stand.send(.get, "/v1/records/audits/a-1").status == 404)
        try await stand.stop()
    }

    // MARK: Configuration

    @Test("A reload of something bad changes nothing, is refused with its place, and stays in status until it is mended")
    func badReload() async throws {
        let stand = try await AgentStand.start("log: { level: info }\n")
        let before = try #require(try await stand.setting("sync.debounce"))
        stand.outside.write("sync: { debounce: 5s }\nlog: { levle: debug }\n")
        let refused = try await stand.send(.post, "/v1/config/reload")
        #expect(refused.status == 422 && refused.text.contains("conf.d/test.yaml:2"), "\(refused.text)")
        var status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.configuration.error?.contains("levle") == true)
        // Nothing of the file is in force, its good lines neither.
        #expect(before != "5s")
        #expect(try await stand.setting("sync.debounce") == before)
        _ = try await stand.enqueue(#"{"entity":"audits","action":"create","data":{}}"#)
        stand.outside.write("sync: { debounce: 5s }\nlog: { level: debug }\n")
        #expect(try await stand.send(.post, "/v1/config/reload").status == 200)
        status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.configuration.error == nil)
        #expect(try await stand.setting("sync.debounce") == "5s")
        try await stand.stop()
    }
}

/// A count that a body's source takes from, on the transport's thread.
private final class Counter: @unchecked Sendable {
    // Unchecked: touched by one transfer only.
    private var left: Int

    init(_ left: Int) {
        self.left = left
    }

    func take(_ count: Int) -> Int {
        let taken = min(count, left)
        left -= taken
        return taken
    }
}

extension AgentStand {
    fileprivate func post(_ body: HTTPRequest.Body) async throws -> Answer {
        Answer(
            try await client.send(
                HTTPRequest(
                    .post, "http://localhost/v1/mutations", headers: ["Content-Type": "application/json"], body: body,
                    socketPath: socket)))
    }

    /// All mutations ever accepted.
    fileprivate func enqueued() async throws -> Int64? {
        try await send(.get, "/v1/status").json.flatMap { StatusDocument($0) }?.outbox.enqueued
    }

    /// A value in force, as the listing shows it.
    fileprivate func setting(_ key: String) async throws -> String? {
        try await send(.get, "/v1/config")["values"]?.object?[key]?.object?["value"]?.text
    }
}
