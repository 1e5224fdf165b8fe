import LocalAPI
import SyncCore
import Synchronization
import Testing

@Suite("The client") struct AgentClientTests {
    private let audits = EntityName(trusted: "audits")
    private let key = MutationKey(trusted: "0199c3f3-2")
    private let absent = TransportError(
        .unreachable, doing: "connect", detail: "Failed to connect (No such file or directory)")
    private let broken = TransportError(.broken, doing: "read", detail: "the connection broke")

    private func client(_ agent: FakeAgent) -> AgentClient { AgentClient(transport: agent, socketPath: "/run/x.sock") }

    // MARK: Requests

    @Test("Each call asks for its route, over the socket, with its body")
    func calls() async throws {
        let enqueued = #"{"id":"k","seq":1,"state":"pending","record":{"entity":"audits","id":"a"}}"#
        let record =
            #"{"entity":"audits","id":"a","version":0,"sync_status":"pending","deleted":false,"data":{},"pending":[],"etag":""}"#
        let item =
            #"{"id":"k","seq":1,"entity":"audits","record_id":"a","action":"create","state":"pending","priority":"normal"}"#
        let agent = FakeAgent(
            .init(201, enqueued), .init(200, #"{"items":[\#(item)],"next":"7"}"#), .init(200, item),
            .init(200, #"{"id":"k","state":"cancelled"}"#), .init(201, enqueued),
            .init(200, #"{"id":"k","state":"discarded"}"#),
            .init(200, record), .init(200, #"{"items":[\#(record)],"next":null}"#), .init(200, "[]"),
            .init(200, String(decoding: StatusSamples.settled.answer.body, as: UTF8.self)), .init(200, #"{"ok":true}"#),
            .init(200, #"{"ready":true}"#), .init(200, "up 1\n"), .init(202, #"{"cycle":"c","state":"queued"}"#),
            .init(200, #"{"paused":["all"],"until":null,"reason":"","by":{"uid":0}}"#), .init(200, #"{"paused":[]}"#),
            .init(200, #"{"version":1,"values":{}}"#), .init(200, #"{"ok":true}"#),
            .init(200, #"{"changed":[],"restart_needed":[]}"#), body(SurroundingsSamples.links.answer),
            .init(200, #"{"name":"wwan0","metered":true,"roaming":null,"expires_at":null}"#),
            .init(200, #"{"name":"wwan0","metered":false,"roaming":false,"expires_at":null}"#),
            body(SurroundingsSamples.lowBattery.answer), body(SurroundingsSamples.ledger.answer),
            body(SurroundingsSamples.why.answer), body(SurroundingsSamples.plan.answer))
        let client = client(agent)
        let mutation = NewMutation(.create, audits, nil, data: ["n": exactly("1.10")])
        #expect(try await client.enqueue(mutation, key: "k1", wait: .seconds(5)).value.seq == 1)
        #expect(try await client.mutations(MutationListQuery(states: [.rejected])).value.next == 7)
        #expect(try await client.mutation(key).value.state == "pending")
        _ = try await client.cancel(key)
        _ = try await client.retry(key, RetryBody(data: ["a": 1]))
        _ = try await client.discard(key, DiscardBody(reason: "dup"))
        #expect(try await client.record(RecordName(audits, RecordID(trusted: "a"))).value.status == "pending")
        #expect(try await client.query(RecordListQuery(audits)).value.items.count == 1)
        #expect(try await client.entities().value.isEmpty)
        #expect(try await client.status().value.agent.device == "gw-17")
        _ = try await client.health()
        _ = try await client.ready()
        #expect(try await client.metrics() == "up 1\n")
        #expect(try await client.sync(SyncBody(SyncRequest(scope: .pull))).value.outcome == nil)
        #expect(try await client.pause(PauseBody()).value.pause != nil)
        #expect(try await client.resume().value.pause == nil)
        _ = try await client.config()
        _ = try await client.checkConfig(ConfigCheckBody(name: "x", text: "y"))
        _ = try await client.reloadConfig()
        #expect(try await client.links().value == SurroundingsSamples.links)
        #expect(try await client.hint(link("wwan0"), LinkHintBody(isMetered: true)).value.isMetered == true)
        #expect(try await client.clearHint(link("wwan0")).value.isMetered == false)
        #expect(try await client.power().value == SurroundingsSamples.lowBattery)
        let november = LedgerQuery(from: CalendarDay("2026-11-01"), by: .month)
        #expect(try await client.ledger(november).value == SurroundingsSamples.ledger)
        #expect(try await client.why(key).value == SurroundingsSamples.why)
        #expect(try await client.plan(PlanBody(batteryPercent: 12)).value == SurroundingsSamples.plan)

        let routes: [Route] = [
            .enqueue(wait: .seconds(5)), .mutations(MutationListQuery(states: [.rejected])), .mutation(key),
            .cancelMutation(key),
            .retryMutation(key), .discardMutation(key),
            .record(RecordName(audits, RecordID(trusted: "a")), view: .merged), .query,
            .entities, .status, .health, .ready, .metrics, .sync, .pause, .resume, .config, .checkConfig, .reloadConfig,
            .links, .hintLink(link("wwan0")), .clearLinkHint(link("wwan0")), .power, .ledger(november), .why(key),
            .plan,
        ]
        #expect(agent.asked.count == routes.count)
        for (asked, route) in zip(agent.asked, routes) {
            let request = asked.request
            #expect(request.socketPath == "/run/x.sock")
            let target = String(request.url.dropFirst("http://localhost".utf8.count))
            #expect(try Route.parse(method: request.method.rawValue, target: target) == route)
            // Every request of the client must pass the checks of the server.
            #expect(throws: Never.self) {
                try route.body.check(
                    contentType: request.headers["Content-Type"], contentEncoding: nil, contentLength: asked.body.count,
                    isChunked: false)
            }
        }
        #expect(agent.asked[0].request.headers["Idempotency-Key"] == "k1")
        #expect(
            String(decoding: agent.asked[0].body, as: UTF8.self)
                == #"{"entity":"audits","action":"create","data":{"n":1.10}}"#)
    }

    private func body(_ answer: LocalAnswer) -> FakeAgent.Answer {
        .init(answer.status, String(decoding: answer.body, as: UTF8.self))
    }

    @Test("A caller that waits for an answer is not cut off before it can come")
    func patience() async throws {
        let agent = FakeAgent(
            .init(202, #"{"id":"k"}"#), .init(200, #"{"cycle":"c","result":"ok"}"#), .init(200, #"{"ok":true}"#))
        let client = client(agent)
        _ = try await client.enqueue(body: [], wait: .seconds(300))
        _ = try await client.sync(SyncBody(waits: true))
        _ = try await client.health()
        #expect(agent.asked[0].request.deadlines.firstByte == .seconds(330))
        #expect(agent.asked[0].request.deadlines.total == .seconds(420))
        #expect(agent.asked[1].request.deadlines.firstByte == .seconds(3_630))
        #expect(agent.asked[2].request.deadlines.firstByte == .seconds(30))
    }

    // MARK: Errors

    @Test("A refusal arrives with its problem, and its exit status")
    func refusal() async throws {
        let problem = LocalProblem.entityNotAllowed.problem(
            "audits is not yours", errors: [Problem.Pointer("/entity", "no")])
        let agent = FakeAgent(.init(403, String(decoding: problem.localAnswer.body, as: UTF8.self)))
        let error = await #expect(throws: AgentError.self) { try await client(agent).status() }
        #expect(error?.code == .refused)
        #expect(error?.problem == problem)
        #expect(error?.exitStatus == 77)
        #expect(error?.isRetryable == false)
        #expect(error?.doing == "GET /v1/status")
    }

    @Test("An absent agent is exit 2, and the sentence names the socket and the reason only")
    func unreachable() async {
        let error = await #expect(throws: AgentError.self) { try await client(FakeAgent(.init(absent))).status() }
        #expect(error?.code == .unreachable)
        #expect(error?.exitStatus == 2)
        #expect(error?.detail == "no agent answers at /run/x.sock: No such file or directory")
        // libcurl refuses such a path without a message of the system, as it reports a full queue.
        let path = "/run/" + String(repeating: "x", count: 103)
        let tooLong = await #expect(throws: AgentError.self) {
            try await AgentClient(
                transport: FakeAgent(.init(TransportError(.unreachable, doing: "connect", detail: "no route"))), socketPath: path
            ).status()
        }
        #expect(tooLong?.detail == "no agent answers at \(path): its path has 108 bytes, and that of a socket has at most 107")
    }

    @Test(
        "An answer that is not an agent's is told as that, never trusted",
        arguments: [
            FakeAgent.Answer(200, "<html>"), .init(200, ""), .init(200, "{}"), .init(200, "[]"),
            .init(200, #"{"agent":{}}"#),
            .init(200, #"{"a":1,"a":2}"#), .init(TransportError(.malformed, doing: "read", detail: "not HTTP")),
        ])
    func nonsense(_ answer: FakeAgent.Answer) async {
        let error = await #expect(throws: AgentError.self) { try await client(FakeAgent(answer)).status() }
        #expect(error?.code == .badAnswer)
        #expect(error?.exitStatus == 2)
    }

    @Test("A refusal without a problem document keeps its status")
    func bareRefusal() async {
        let error = await #expect(throws: AgentError.self) {
            try await client(FakeAgent(.init(418, "teapot"))).status()
        }
        #expect(error?.problem.status == 418)
        #expect(error?.problem.code == "unknown")
        #expect(error?.exitStatus == 1)
    }

    // MARK: Import

    private func lines(_ count: Int) -> @Sendable (Int) -> [UInt8]? {
        let source = LineSource((0..<count).map { #"{"entity":"e","action":"create","ref":\#($0)}"# + "\n" }.joined())
        return { source.next(upTo: $0) }
    }

    /// Gives its text in pieces, as a file would.
    private final class LineSource: Sendable {
        private let rest: Mutex<ArraySlice<UInt8>>

        init(_ text: String) { rest = Mutex(Array(text.utf8)[...]) }

        func next(upTo limit: Int) -> [UInt8]? {
            rest.withLock { rest in
                let piece = Array(rest.prefix(limit))
                rest = rest.dropFirst(piece.count)
                return piece.isEmpty ? nil : piece
            }
        }
    }

    @Test("An import sends every line and counts every answer, however both are cut")
    func imports() async throws {
        let answers =
            #"{"ref":0,"id":"a","state":"pending"}"# + "\n" + #"{"ref":1,"id":"b","state":"pending","repeat":true}"#
            + "\n"
            + #"{"ref":2,"error":{"type":"urn:edge-sync:local:validation","status":422,"detail":"no"}}"# + "\n"
            + #"{"summary":{"accepted":2,"failed":1}}"# + "\n"
        for size in [1, 7, 1_000] {
            let bytes = Array(answers.utf8)
            let pieces = stride(from: 0, to: bytes.count, by: size).map {
                String(decoding: bytes[$0..<min($0 + size, bytes.count)], as: UTF8.self)
            }
            let agent = FakeAgent(.init(pieces: pieces))
            let seen = Mutex<[BulkAnswer]>([])
            let outcome = try await client(agent).importLines(
                nextPiece: lines(3), onAnswer: { answer in seen.withLock { $0.append(answer) } })
            #expect(outcome.accepted == 2)
            #expect(outcome.repeated == 1)
            #expect(outcome.failed == 1)
            #expect(outcome.isComplete)
            #expect(seen.withLock { $0 }.count == 4)
            #expect(agent.asked.first?.body.split(separator: 10).count == 3)
            #expect(agent.asked.first?.request.headers["Content-Type"] == "application/x-ndjson")
            #expect(agent.asked.first?.request.deadlines.idle == nil)
        }
    }

    @Test(
        "An import whose answers stop, or do not add up, is not complete",
        arguments: [
            FakeAgent.Answer(pieces: ["{\"id\":\"a\",\"state\":\"pending\"}\n"]),
            .init(
                pieces: ["{\"id\":\"a\",\"state\":\"pending\"}\n"],
                error: TransportError(.broken, doing: "read", detail: "cut")),
            .init(pieces: ["{\"id\":\"a\",\"state\":\"pending\"}\n{\"id\":\"b\",\"sta"]),
            .init(pieces: ["{\"id\":\"a\",\"state\":\"pending\"}\n{\"summary\":{\"accepted\":2,\"failed\":0}}\n"]),
            .init(pieces: [
                "{\"id\":\"a\",\"state\":\"pending\"}\nnonsense\n{\"summary\":{\"accepted\":1,\"failed\":0}}\n"
            ]),
        ])
    func cutImports(_ answer: FakeAgent.Answer) async throws {
        let outcome = try await client(FakeAgent(answer)).importLines(nextPiece: lines(2), onAnswer: { _ in })
        #expect(outcome.accepted == 1)
        #expect(!outcome.isComplete)
    }

    @Test("An import that is refused as a whole, or finds no agent, throws")
    func refusedImport() async {
        let problem = String(decoding: LocalProblem.diskFull.problem("no space").localAnswer.body, as: UTF8.self)
        let refused = await #expect(throws: AgentError.self) {
            try await client(FakeAgent(.init(507, pieces: [String(problem.prefix(9)), String(problem.dropFirst(9))])))
                .importLines(nextPiece: { _ in nil }, onAnswer: { _ in })
        }
        #expect(refused?.problem.code == "disk-full")
        let gone = await #expect(throws: AgentError.self) {
            try await client(FakeAgent(.init(absent))).importLines(nextPiece: { _ in nil }, onAnswer: { _ in })
        }
        #expect(gone?.code == .unreachable)
    }

    // MARK: Events

    private func event(_ id: Int64) -> String {
        String(decoding: EventStream.event(id: id, type: "record", data: "{}".utf8), as: UTF8.self)
    }

    private func start(_ id: Int64) -> String { String(decoding: EventStream.start(at: id), as: UTF8.self) }

    @Test("A watch goes on after the last event it has seen, over cuts, restarts and overflows")
    func watch() async throws {
        let agent = FakeAgent(
            .init(pieces: [start(4), event(5), "id: 6\nevent: record\nda"], error: broken),
            .init(absent),
            .init(503, String(decoding: LocalProblem.starting.problem("wait").localAnswer.body, as: UTF8.self)),
            .init(pieces: [start(5), event(6), "event: overflow\ndata: {}\n\n"]),
            .init(pieces: [start(6), event(7), event(8)]))
        let seen = Mutex<[String]>([])
        let pauses = Mutex<[Duration]>([])
        let gaps = Mutex(0)
        try await client(agent).watch(
            EventQuery(types: [.record]), after: nil,
            pause: { duration in pauses.withLock { $0.append(duration) } }, onGap: { _ in gaps.withLock { $0 += 1 } },
            onEvent: { event in
                seen.withLock { $0.append(event.type == "record" ? event.id ?? "" : event.type) }
                return event.id != "8"
            })
        #expect(seen.withLock { $0 } == ["5", "6", "overflow", "7", "8"])
        #expect(agent.asked.map { $0.request.headers["Last-Event-ID"] } == [nil, "5", "5", "5", "6"])
        // A connection that brought events is followed by no pause. Each failure makes the pause longer.
        #expect(pauses.withLock { $0 } == [.milliseconds(500), .seconds(1)])
        #expect(gaps.withLock { $0 } == 3)
        #expect(agent.asked.allSatisfy { $0.request.url.hasSuffix("/v1/events?types=record") })
    }

    @Test("A stream that is cut before its first event is resumed where it began")
    func resumesWhereItBegan() async throws {
        let agent = FakeAgent(.init(pieces: [start(41)], error: broken), .init(pieces: [start(41), event(42)]))
        try await client(agent).watch(EventQuery(), after: nil, pause: { _ in }, onEvent: { _ in false })
        #expect(agent.asked.map { $0.request.headers["Last-Event-ID"] } == [nil, "41"])
    }

    @Test("A stream that brings no news but is cut at once is asked for ever more slowly, up to eight seconds")
    func slowsDown() async throws {
        let reset = String(decoding: EventStream.reset(id: 9), as: UTF8.self)
        let agent = FakeAgent(
            .init(pieces: [reset]), .init(pieces: [reset]), .init(pieces: []), .init(pieces: [start(9)]),
            .init(pieces: []),
            .init(pieces: []), .init(pieces: [event(10)]))
        let pauses = Mutex<[Duration]>([])
        try await client(agent).watch(
            EventQuery(), after: "1", pause: { duration in pauses.withLock { $0.append(duration) } },
            onEvent: { $0.type == "reset" })
        #expect(pauses.withLock { $0 } == [500, 1_000, 2_000, 4_000, 8_000, 8_000].map { Duration.milliseconds($0) })
        #expect(agent.asked.last?.request.headers["Last-Event-ID"] == "9")
    }

    @Test("A watch that never began fails at once; one that is refused later fails then")
    func watchFails() async {
        let never = await #expect(throws: AgentError.self) {
            try await client(FakeAgent(.init(absent))).watch(
                EventQuery(), after: nil, pause: { _ in }, onEvent: { _ in true })
        }
        #expect(never?.code == .unreachable)
        let forbidden = String(decoding: LocalProblem.forbidden.problem("no").localAnswer.body, as: UTF8.self)
        let later = await #expect(throws: AgentError.self) {
            try await client(FakeAgent(.init(pieces: [event(1)], error: broken), .init(403, forbidden)))
                .watch(EventQuery(), after: nil, pause: { _ in }, onEvent: { _ in true })
        }
        #expect(later?.problem.code == "forbidden")
    }
}
