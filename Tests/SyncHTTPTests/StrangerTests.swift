import NIOCore
import SyncHTTP
import Synchronization
import Testing

/// The resources that unknown TCP clients may use, and those that they cannot take away from known ones.
@Suite("Strangers")
struct StrangerTests {
    /// Answers on `/known` as to a caller that has shown who it is.
    @Sendable static func admit(_ request: RequestHead) -> HTTPAdmission {
        request.path.hasPrefix("/known") ? .known(echo(request)) : echo(request)
    }

    private static func ask(_ client: Client, _ path: String) throws -> Int {
        try client.send("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
        return try client.answer().status
    }

    // MARK: Places

    @Test("Over the limit of an address its longest silent stranger is closed; other addresses and known callers keep theirs")
    func perAddress() async throws {
        try await withServer(on: .tcp, limits: { $0.strangersPerAddress = 2 }, admit: Self.admit) { surroundings in
            let other = try await surroundings.acceptedClient(source: 3)
            let known = try await surroundings.acceptedClient(source: 2)
            #expect(try Self.ask(known, "/known") == 200)
            let first = try await surroundings.acceptedClient(source: 2)
            let second = try await surroundings.acceptedClient(source: 2)
            // The connection that sent last has not been silent longest.
            #expect(try Self.ask(first, "/") == 200)
            let third = try surroundings.client(source: 2)
            #expect(try second.isClosed())
            #expect(try [known, other, first, third].map { try Self.ask($0, "/known") } == [200, 200, 200, 200])
            #expect(surroundings.server.counts.closedStrangers == 1)
        }
    }

    @Test("Over the limit of strangers the address that has most of them loses one, however long others were silent")
    func crowded() async throws {
        try await withServer(on: .tcp, limits: { $0.strangers = 4 }, admit: Self.admit) { surroundings in
            let quiet = try await surroundings.acceptedClient(source: 3)
            let crowd = [
                try await surroundings.acceptedClient(source: 2), try await surroundings.acceptedClient(source: 2),
                try await surroundings.acceptedClient(source: 2),
            ]
            let newest = try surroundings.client(source: 4)
            #expect(try crowd[0].isClosed())
            #expect(try [quiet, newest, crowd[1], crowd[2]].map { try Self.ask($0, "/") } == [200, 200, 200, 200])
            #expect(surroundings.server.counts.closedStrangers == 1 && surroundings.server.counts.strangers == 4)
        }
    }

    @Test("Ten times as many strangers as there are places leave a known caller its connection, and a new caller finds one")
    func flood() async throws {
        try await withServer(on: .tcp, limits: { ($0.connections, $0.strangers) = (8, 4) }, admit: Self.admit) { surroundings in
            let known = try surroundings.client()
            #expect(try Self.ask(known, "/known") == 200)
            var strangers: [Client] = []
            for number in 0..<80 {
                strangers.append(try surroundings.client(source: UInt32(2 + number % 5)))
                if number % 10 == 0 {
                    #expect(try Self.ask(known, "/known") == 200)
                    #expect(try Self.ask(try surroundings.client(), "/known") == 200)
                }
            }
            #expect(try Self.ask(known, "/known") == 200)
            #expect(surroundings.server.counts.refused == 0)
            withExtendedLifetime(strangers) {}
        }
    }

    @Test("When all places are known callers', the one that has been idle longest makes room; none that is being answered does")
    func fullOfKnown() async throws {
        let waiting = Log<HTTPExchange>()
        let admit: @Sendable (RequestHead) -> HTTPAdmission = { request in
            guard request.path == "/known/slow" else { return Self.admit(request) }
            return .known(.collect(limit: 0) { exchange, _ in waiting.append(exchange) })
        }
        try await withServer(on: .tcp, limits: { $0.connections = 3 }, admit: admit) { surroundings in
            let busy = try surroundings.client()
            try busy.send("GET /known/slow HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = await waiting.wait(for: 1)
            let idle = try surroundings.client()
            #expect(try Self.ask(idle, "/known") == 200)
            let later = try surroundings.client()
            #expect(try Self.ask(later, "/known") == 200)
            let new = try surroundings.client()
            #expect(try Self.ask(new, "/known") == 200)
            #expect(try idle.isClosed())
            #expect(surroundings.server.counts.closedIdle == 1)
            // Now all are busy, so there is no room for another connection.
            for client in [later, new] { try client.send("GET /known/slow HTTP/1.1\r\nHost: a\r\n\r\n") }
            let exchanges = await waiting.wait(for: 3)
            let refused = try surroundings.client().answer()
            #expect(refused.status == 503 && refused.headers["retry-after"] == "1")
            #expect(surroundings.server.counts.refused == 1)
            for exchange in exchanges { exchange.respond(status: 200) }
            #expect(try [busy, later, new].map { try $0.answer().status } == [200, 200, 200])
        }
    }

    @Test("A balancer's connection that carried a device's request counts as a stranger's again while a stranger sends a body on it")
    func shared() async throws {
        try await withServer(on: .tcp, admit: Self.admit) { surroundings in
            let client = try surroundings.client()
            #expect(try Self.ask(client, "/known") == 200)
            #expect((surroundings.server.counts.known, surroundings.server.counts.strangers) == (1, 0))
            try client.send("POST /enrol HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
            #expect(try client.answer().status == 100)
            #expect((surroundings.server.counts.known, surroundings.server.counts.strangers) == (0, 1))
            try client.send("12345")
            #expect(try client.answer().status == 200)
            #expect(try Self.ask(client, "/known") == 200)
            #expect((surroundings.server.counts.known, surroundings.server.counts.strangers) == (1, 0))
        }
    }

    @Test(
        "Addresses that one subscriber has count as one",
        arguments: [
            ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false), ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::7", true), ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("fe80::1%eth0", "fe80::2%eth1", true),
            ("::1", "192.0.2.1", false), ("", "no address", true), ("0.0.0.0", "::", false),
        ])
    func groups(_ one: String, _ other: String, _ isSame: Bool) {
        #expect((PeerGroup(address: one) == PeerGroup(address: other)) == isSame)
    }

    @Test(
        "Some places of a Unix socket are kept for users with fewer than two connections, and some for root",
        arguments: [
            (own: 7, isRoot: false, places: 64), (2, false, 64), (1, false, 80), (0, false, 80), (0, true, 88), (7, true, 88),
        ])
    func localPlaces(_ row: (own: Int, isRoot: Bool, places: Int)) {
        #expect(HTTPServerLimits.localAPI.localPlaces(own: row.own, isRoot: row.isRoot) == row.places)
    }

    // MARK: Times

    @Test("A first request that does not come in its time, and a stranger that says no more, are closed; a known caller is not")
    func times() async throws {
        // Short where only the server waits, and long where this test itself must be in time: between connecting and its first byte.
        try await withServer(
            on: .tcp, limits: { ($0.firstHeadTime, $0.strangerIdleTime) = (.milliseconds(500), .milliseconds(100)) }, admit: Self.admit
        ) { surroundings in
            let known = try surroundings.client()
            #expect(try Self.ask(known, "/known") == 200)
            #expect(try surroundings.client().isClosed())
            let slow = try surroundings.client()
            try slow.send("GET / HT")
            #expect(try slow.answer().status == 408)
            let idle = try surroundings.client()
            #expect(try Self.ask(idle, "/") == 200)
            #expect(try idle.isClosed())
            #expect(try Self.ask(known, "/known") == 200)
        }
    }

    @Test(
        "A body that comes too slowly is 408 although it never stops", arguments: ["Content-Length: 100000", "Transfer-Encoding: chunked"])
    func slowBody(_ field: String) async throws {
        try await withServer(
            on: .tcp, limits: { ($0.bodyRate, $0.bodyGrace) = (1 << 30, .milliseconds(50)) },
            admit: { request in
                .collect(limit: 100_000) { _, _ in Issue.record("a body that never came") }
            }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n1\r\nx")
            #expect(try client.answer().status == 408)
            #expect(surroundings.refusals.entries == ["timeout"])
        }
    }

    struct Pace: Sendable {
        var what: String
        /// Seconds of waiting and the bytes that end each of them.
        var steps: [(seconds: Int64, bytes: Int)]
        /// The first step after which it is too slow.
        var endsAfter: Int?
    }

    @Test(
        "A body is refused when it falls behind 256 bytes a second by a minute, and a fast beginning is no reserve",
        arguments: [
            Pace(what: "a byte every 20 s", steps: Array(repeating: (20, 1), count: 10), endsAfter: 4),
            Pace(what: "1,000 bytes a second for over an hour", steps: Array(repeating: (1, 1_000), count: 4_200)),
            Pace(what: "256 bytes a second", steps: Array(repeating: (1, 256), count: 4_200)),
            Pace(what: "200 bytes a second", steps: Array(repeating: (10, 2_000), count: 100), endsAfter: 24),
            Pace(
                what: "a megabyte at once, then a byte a second", steps: [(1, 1 << 20)] + Array(repeating: (1, 1), count: 100),
                endsAfter: 62),
            Pace(what: "30 s of silence now and then", steps: Array(repeating: (30, 8_000), count: 100)),
        ])
    func pace(_ row: Pace) {
        var pace = BodyPace(rate: 256, grace: .seconds(60))
        var now = NIODeadline.uptimeNanoseconds(1 << 40)
        var count = 0
        #expect(pace.update(at: now, count: 0, isWaiting: true) == .seconds(60))
        var endsAfter: Int?
        for (index, step) in row.steps.enumerated() where endsAfter == nil {
            now = now + .seconds(step.seconds)
            count += step.bytes
            if pace.update(at: now, count: count, isWaiting: true) <= .zero { endsAfter = index + 1 }
        }
        #expect(endsAfter == row.endsAfter, "\(row.what)")
    }

    @Test("Time in which the receiver wants no more is not the sender's")
    func paceWhileFull() {
        var pace = BodyPace(rate: 256, grace: .seconds(60))
        var now = NIODeadline.uptimeNanoseconds(1 << 40)
        for _ in 0..<100 {
            _ = pace.update(at: now, count: 0, isWaiting: false)
            now = now + .seconds(60)
        }
        #expect(pace.update(at: now, count: 0, isWaiting: true) == .seconds(60))
    }

    // MARK: Bodies that are not needed

    @Test(
        "GET and HEAD with a body are refused from their head", arguments: ["GET", "HEAD"],
        ["Content-Length: 1000", "Transfer-Encoding: chunked"])
    func bodyless(_ method: String, _ field: String) async throws {
        try await withServer(
            on: .tcp,
            admit: { _ in
                Issue.record("it was admitted")
                return .refuse(status: 500, code: "x", detail: "x")
            }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("\(method) / HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n")
            #expect(try client.answer(toHEAD: method == "HEAD").status == 400)
            #expect(try client.isClosed())
        }
    }

    // MARK: Decisions that take their time

    @Test(
        "A request that is decided on later is read after the decision, whole or in pieces or not at all",
        arguments: [
            ("/collect", "POST /collect abc"), ("/stream", "abc"), ("/refuse", "no: not now"), ("/known", "POST /known abc"),
        ])
    func later(_ path: String, _ body: String) async throws {
        let decisions = Log<HTTPDecision>()
        try await withServer(on: .tcp, admit: { _ in .later { decisions.append($0) } }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            await decisions.wait(for: 1)[0].make { request in
                switch request.path {
                case "/refuse": .refuse(status: 503, code: "no", detail: "not now")
                case "/stream":
                    .stream(limit: 10) { exchange in
                        exchange.readBody { if case .bytes(let bytes) = $0 { exchange.respond(status: 200, body: bytes) } }
                    }
                default: Self.admit(request)
                }
            }
            let answer = try client.answer()
            #expect(answer.body.trimmingSuffix(" ") == body.trimmingSuffix(" "))
            #expect(surroundings.server.counts.known == (path == "/known" ? 1 : 0))
            await decisions.wait(for: 2)[1].make { echo($0) }
            #expect(try client.answer().body == "GET /next ")
        }
    }

    @Test("A decision that comes when the client has left does nothing, and one that never comes is 500")
    func noDecision() async throws {
        let decisions = Log<String>()
        let kept = Mutex<HTTPDecision?>(nil)
        try await withServer(
            on: .tcp,
            admit: { request in
                .later { decision in
                    if request.path == "/kept" { kept.withLock { $0 = decision } }
                    decisions.append(String(request.path))
                }
            }
        ) { surroundings in
            let dropped = try surroundings.client()
            try dropped.send("GET /dropped HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try dropped.answer().status == 500)
            let client = try surroundings.client()
            try client.send("GET /kept HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = await decisions.wait(for: 2)
            client.leave()
            dropped.leave()
            kept.withLock { $0 }?.make { _ in .collect(limit: 0) { exchange, _ in exchange.respond(status: 200) } }
            kept.withLock { $0 = nil }
            #expect(try await surroundings.isLeft())
        }
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}
