import HubServer
import SyncCore
import SyncHTTP
import SyncLinux
import Testing

/// The cost of one client, or very many, to the hub: over real sockets (PROTOCOL A4, G4).
@Suite("Limits of the service")
struct ServiceLimitTests {
    private static let head = "Host: hub\r\nSync-Version: 1\r\nSync-Device: gw-1\r\nSync-Replica: r-1\r\n"

    /// Sixteen requests are of one device each, which is the most that one may have under way.
    private static func head(_ number: Int) -> String {
        "Host: hub\r\nSync-Version: 1\r\nSync-Device: gw-\(100 + number / 16)\r\nSync-Replica: r-1\r\n"
    }

    @Test(
        "As many connections as a limit of open files allows need no more files than that",
        arguments: [1_024, 2_319, 2_320, 20_000, 32_768])
    func files(_ limit: UInt) {
        var options = HubService.Options(host: "127.0.0.1", port: 0)
        options.connections = HubService.Options.connections(files: limit)
        #expect(options.filesMax <= limit)
        options.connections += 1
        #expect(options.filesMax > limit)
        #expect(HubService.Options.connections(files: 100) == 0)
    }

    @Test(
        "A head that does not arrive in time is 408, a body neither, and neither leaves anything behind",
        arguments: [
            "GET /v1/pro", "POST /v1/sync/push HTTP/1.1\r\n\(head)Content-Length: 1000\r\n\r\n{\"mutations\":[",
            "POST /v1/sync/push HTTP/1.1\r\n\(head)Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mut",
        ])
    func slow(_ bytes: String) async throws {
        // Short where only the hub waits, and long where this test itself must be in time: between connecting and its first byte.
        let limits: ServiceTests.ChangeLimits = {
            $0.firstHeadTime = .seconds(1); $0.bodyIdleTime = .milliseconds(100); $0.lingerTime = .milliseconds(100)
        }
        try await ServiceTests.running(limits: limits) { running in
            let client = try RawClient(port: running.service.port)
            try client.send(bytes)
            let answer = try client.rest()
            #expect(answer.hasPrefix("HTTP/1.1 408 "))
            #expect(answer.contains("application/problem+json") && answer.contains("urn:edge-sync:"))
            #expect(try await Self.head(running) == 0)
        }
    }

    @Test("A client that stops reading is cut off; meanwhile the others are served")
    func stoppedReading() async throws {
        try await ServiceTests.running(limits: { $0.writeStallTime = .milliseconds(200) }) { running in
            for index in 1...16 {
                let text = JSON.string(String(repeating: "x", count: 100_000))
                _ = try await running.push([Sent("k-\(index)", seq: Int64(index), .create, id: "a-\(index)", data: ["text": text])])
            }
            let client = try RawClient(port: running.service.port, receiveBuffer: 4_096)
            // More than the kernel takes for a client: the rest waits with us, and not for ever.
            let request = "GET /v1/sync/pull?entity=audits HTTP/1.1\r\n\(Self.head)\r\n"
            try client.send(String(repeating: request, count: 16))
            // Only from here on does the hub count its connection.
            let first = try client.first()
            #expect(first.hasPrefix("HTTP/1.1 200 "))
            // The others go on while it stalls; its connection is the second one, until it is gone.
            var served: Int64 = 16
            repeat {
                served += 1
                let words = try await running.push([Sent("k-\(served)", seq: served, .create, id: "b-\(served)")]).map(\.verdict.word)
                #expect(words == ["accepted"])
            } while running.service.connectionCount > 1
            // Of 16 answers of a megabyte and more, only the bytes in the buffers of the kernels have come.
            #expect(try first.utf8.count + client.rest().utf8.count < 16_000_000)
        }
    }

    @Test("One connection too many of an unknown caller costs the one that was silent longest its own; the others are not affected")
    func connections() async throws {
        try await ServiceTests.running(limits: { ($0.connections, $0.strangers) = (3, 3) }) { running in
            let clients = try (0..<3).map { _ in try RawClient(port: running.service.port) }
            for client in clients {
                try client.send("GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n")
                #expect(try client.read(to: "ok\n").hasPrefix("HTTP/1.1 200 "))
            }
            let new = try RawClient(port: running.service.port)
            try new.send("GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n")
            #expect(try new.read(to: "ok\n").hasPrefix("HTTP/1.1 200 "))
            #expect(try clients[0].rest().isEmpty)
            for client in [clients[1], clients[2], new] {
                try client.send("GET /healthz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
                #expect(try client.rest().hasSuffix("ok\n"))
            }
        }
    }

    /// For tests whose requests wait with their bodies until all have come, which takes a busy machine its time.
    private static let patient: ServiceTests.ChangeLimits = { ($0.bodyIdleTime, $0.bodyGrace) = (.seconds(3_600), .seconds(3_600)) }

    @Test("When too much is asked at once, listings are sent away first, then pulls, then pushes; each hears when to come back")
    func admission() async throws {
        try await ServiceTests.running(limits: Self.patient) { running in
            // Each of these has its place from the head on, and waits with its body.
            var waiting: [RawClient] = []
            func wait(upTo count: Int) throws {
                while waiting.count < count {
                    let client = try RawClient(port: running.service.port)
                    try client.send(
                        "POST /v1/sync/push HTTP/1.1\r\n\(Self.head(waiting.count))Content-Length: 16\r\nExpect: 100-continue\r\n\r\n")
                    #expect(try client.read(to: "\r\n\r\n").hasPrefix("HTTP/1.1 100 "))
                    waiting.append(client)
                }
            }
            func statuses() async throws -> [Int] {
                var answers: [HTTPResponse] = []
                answers.append(try await running.send(.get, "/v1/sync/snapshot?entity=audits"))
                answers.append(try await running.send(.get, "/v1/sync/pull?entity=audits"))
                answers.append(try await running.send(.post, "/v1/sync/push", body: Array(#"{"mutations":[]}"#.utf8)))
                for answer in answers where answer.status == 503 {
                    let seconds = answer.headers["Retry-After"].flatMap { Int($0) } ?? 0
                    #expect((1...300).contains(seconds))
                    #expect(answer.headers["Sync-Version"] == "1")
                    guard case .refused(let refusal) = HubReply.read(answer, now: Timestamp(milliseconds: 0)) else {
                        Issue.record("an agent takes it for an answer")
                        continue
                    }
                    #expect(refusal.kind == .overloaded && refusal.facts?.retryAfter == .seconds(seconds))
                    #expect(refusal.problem?.code == "overloaded")
                }
                return answers.map(\.status)
            }
            #expect(try await statuses() == [200, 200, 200])
            try wait(upTo: 128)
            #expect(try await statuses() == [503, 200, 200])
            try wait(upTo: 192)
            #expect(try await statuses() == [503, 503, 200])
            try wait(upTo: 256)
            #expect(try await statuses() == [503, 503, 503])
            // The waiting clients are served all the same.
            for client in waiting {
                try client.send(#"{"mutations":[]}"#)
                #expect(try client.read(to: "}").hasPrefix("HTTP/1.1 200 "))
            }
            #expect(try await statuses() == [200, 200, 200])
        }
    }

    @Test("A client that leaves in the middle of its body gives its place back")
    func leftPlaces() async throws {
        try await ServiceTests.running(limits: Self.patient) { running in
            for _ in 0..<3 {
                var clients: [RawClient] = []
                for number in 0..<128 {
                    let client = try RawClient(port: running.service.port)
                    try client.send("POST /v1/sync/push HTTP/1.1\r\n\(Self.head(number))Content-Length: 16\r\nExpect: 100-continue\r\n\r\n")
                    #expect(try client.read(to: "\r\n\r\n").hasPrefix("HTTP/1.1 100 "))
                    try client.send("{")
                    clients.append(client)
                }
                #expect(try await running.send(.get, "/v1/sync/snapshot?entity=audits").status == 503)
                clients = []
                // The server learns of each leaving in its own time.
                while try await running.send(.get, "/v1/sync/snapshot?entity=audits").status != 200 {}
            }
            #expect(try await Self.head(running) == 0)
        }
    }

    /// The hub's newest commit, asked on a connection of its own.
    private static func head(_ running: ServiceTests.Running) async throws -> Int64 {
        let body: JSON = ["streams": []]
        return try PullMessages.readResponse(try await running.send(.post, "/v1/sync/pull", body: body.bytes).body).head
    }
}
