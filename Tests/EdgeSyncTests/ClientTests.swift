import EdgeSync
import Foundation
import Testing

/// The client against a server that loses connections, refuses, falls silent and cuts its answers.
@Suite("The client for apps", .timeLimit(.minutes(10)))
struct ClientTests {
    let time = TestTime()

    private func client(_ agent: FakeAgent, deadline: Duration = .seconds(30)) throws(EdgeSyncError) -> AgentClient {
        try AgentClient(socket: agent.path, deadline: deadline, policy: RetryPolicy(), environment: time.environment)
    }

    private func fails<Value>(
        _ call: () async throws(EdgeSyncError) -> Value
    ) async -> EdgeSyncError? {
        do {
            _ = try await call()
            return nil
        } catch { return error }
    }

    // MARK: Retries

    @Test("A mutation whose connection is lost is sent again with the same key and the same bytes")
    func lostConnection() async throws {
        let agent = try FakeAgent([
            .close(reads: false), .close(reads: true), .cut(.receipt("m-1"), behind: 20), .cut(.receipt("m-1"), behind: 150),
            .receipt("m-1", status: 200),
        ])
        let receipt = try await client(agent).enqueue(.update("e", "r", ["b": 1, "a": .decimal("1.10")]))
        #expect(receipt.id == "m-1" && receipt.isRepeat && receipt.key == "key-1")
        #expect(agent.requests.count == 4)
        #expect(Set(agent.requests.map { $0.fields["idempotency-key"] }) == ["key-1"])
        #expect(Set(agent.requests.map(\.body)) == [#"{"entity":"e","record_id":"r","action":"update","data":{"b":1,"a":1.10}}"#])
        #expect(time.pauses == [.milliseconds(75), .milliseconds(150), .milliseconds(300), .milliseconds(600)])
    }

    @Test("The key of the app is the one that is sent")
    func ownKey() async throws {
        let agent = try FakeAgent([.receipt("m-1")])
        var mutation = Mutation.create("e", nil, ["n": 1])
        mutation.key = "inspection-7781"
        _ = try await client(agent).enqueue(mutation)
        #expect(agent.requests[0].fields["idempotency-key"] == "inspection-7781")
        mutation.key = "a\r\nb: c"
        #expect(await fails { () throws(EdgeSyncError) in try await client(agent).enqueue(mutation) }?.kind == .invalidArgument)
        #expect(agent.requests.count == 1)
    }

    @Test("A busy agent is asked again after the time that it names")
    func retryAfter() async throws {
        let agent = try FakeAgent([
            .problem(503, "busy", retryAfter: 3), .problem(503, "starting", members: #","retry_after":2"#), .receipt("m-1"),
        ])
        _ = try await client(agent).enqueue(.update("e", "r", ["n": 1]))
        #expect(time.pauses.count == 2 && time.pauses[0] >= .seconds(3.3) && time.pauses[1] >= .seconds(2.2))
        #expect(time.pauses[0] < .seconds(3.4) && time.pauses[1] < .seconds(2.3))
    }

    @Test("The tries of a call end with its total time, and the error is the last refusal")
    func totalTime() async throws {
        let agent = try FakeAgent([], otherwise: { _ in .problem(503, "busy", retryAfter: 4) })
        let client = try client(agent)
        let error = await fails { () throws(EdgeSyncError) in try await client.enqueue(.delete("e", "r"), deadline: .seconds(10)) }
        #expect(error?.code == .busy && error?.status == 503 && error?.retryAfter == .seconds(4))
        #expect(time.pauses.reduce(.zero, +) < .seconds(10) && agent.requests.count == 3)
        #expect(error?.request == "POST /v1/mutations")
    }

    @Test("A call that must not be applied twice is not repeated once it was sent, and is while it certainly was not applied")
    func notRepeatable() async throws {
        let lost = try FakeAgent([.close(reads: true), .receipt("m-2")])
        #expect(await fails { () throws(EdgeSyncError) in try await client(lost).retry("m-1") }?.kind == .brokenAnswer)
        #expect(lost.requests.count == 1)
        let busy = try FakeAgent([.problem(503, "busy"), .problem(429, "rate", retryAfter: 1), .receipt("m-2")])
        #expect(try await client(busy).retry("m-1", data: ["n": 2], without: ["legacy"], cascade: true).id == "m-2")
        #expect(busy.requests.last?.body == #"{"data":{"n":2},"without":["legacy"],"cascade":true}"#)
    }

    @Test("A refusal has its status, code, detail, fields, members and the command that the agent gives")
    func refusal() async throws {
        let agent = try FakeAgent([
            .problem(422, "validation", members: #","errors":[{"pointer":"/data/n","detail":"is negative"}]"#),
            .problem(404, "not-found", members: #","list":"agentctl query e""#),
            .problem(507, "queue-full", members: #","setting":"store.max_mutations""#),
            .problem(499, "newer"), .answer("HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\nno"),
        ])
        let client = try client(agent)
        var errors: [EdgeSyncError] = []
        for _ in 0..<5 { errors.append(try #require(await fails { () throws(EdgeSyncError) in try await client.record("e", "r") })) }
        #expect(errors.map(\.code) == [.validation, .notFound, .queueFull, "newer", "status-502"])
        #expect(errors.map(\.status) == [422, 404, 507, 499, 502] && errors[0].detail == "because")
        #expect(errors[0].fields.map(\.pointer) == ["/data/n"] && errors[0].fields.map(\.detail) == ["is negative"])
        #expect(errors[1].command == "agentctl query e" && errors[1].nextStep == "see what is there: agentctl query e")
        #expect(errors[2].nextStep?.hasSuffix("or raise store.max_mutations") == true)
        #expect(errors[2].members["setting"] == "store.max_mutations")
    }

    @Test("An answer of another program, or one that is too large, is an error and no crash")
    func nonsense() async throws {
        let large = String(repeating: "x", count: Limits.answerBytes + 1)
        let agent = try FakeAgent([
            .answer("SSH-2.0-OpenSSH\r\n"), .json(200, "[1"), .json(200, "{}"), .json(200, #"{"agent":1}"#),
            .answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}"),
            .answer("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), .json(200, #""\#(large)""#),
        ])
        let client = try client(agent)
        for _ in 0..<7 {
            #expect(await fails { () throws(EdgeSyncError) in try await client.status() }?.kind == .badAnswer)
        }
    }

    @Test("A socket that is missing is told after two seconds, and one that nothing listens at after the total time")
    func absent() async throws {
        let client = try AgentClient(
            socket: "/nowhere/agent.sock", deadline: .seconds(30), policy: RetryPolicy(), environment: time.environment)
        let error = await fails { () throws(EdgeSyncError) in try await client.status() }
        #expect(error?.kind == .unreachable && error?.code == .noSocket)
        #expect(error?.detail == "there is no socket at /nowhere/agent.sock")
        #expect(time.pauses.reduce(.zero, +) >= .seconds(2) && time.pauses.reduce(.zero, +) < .seconds(6))
        #expect(throws: EdgeSyncError.self) { try AgentClient(socket: String(repeating: "x", count: 108)) }
        #expect(throws: EdgeSyncError.self) { try AgentClient(socket: "/x", deadline: .zero) }
    }

    // MARK: Deadlines and cancellation

    @Test("A call ends at its deadline although the agent is silent")
    func deadline() async throws {
        let agent = try FakeAgent([], otherwise: { _ in .silence })
        let client = try AgentClient(socket: agent.path)
        let began = ContinuousClock.now
        let error = await fails { () throws(EdgeSyncError) in try await client.status(deadline: .milliseconds(200)) }
        #expect(error?.kind == .deadlinePassed && ContinuousClock.now - began >= .milliseconds(200))
    }

    @Test("A cancelled task ends its call at once, while it is read, and while it waits for a connection")
    func cancellation() async throws {
        let (later, latecomers) = AsyncStream<Void>.makeStream()
        let agent = try FakeAgent(
            [],
            otherwise: { request in
                if request.line.contains("/v1/entities") { latecomers.yield() }
                return .silence
            })
        let client = try AgentClient(socket: agent.path)
        let tasks = (0..<Limits.connections + 3).map { _ in
            Task { await fails { () throws(EdgeSyncError) in try await client.status() }?.kind }
        }
        await agent.waitForRequests(Limits.connections)
        for task in tasks.reversed() { task.cancel() }
        for task in tasks { #expect(await task.value == .cancelled) }
        // All places are free again: as many requests of another kind come to the agent at once.
        let next = (0..<Limits.connections).map { _ in
            Task { await fails { () throws(EdgeSyncError) in try await client.entities() }?.kind }
        }
        for await _ in later.prefix(Limits.connections) {}
        for task in next { task.cancel() }
        for task in next { #expect(await task.value == .cancelled) }
    }

    @Test("A task that was cancelled before its call sends nothing")
    func cancelledBefore() async throws {
        let agent = try FakeAgent([], otherwise: { _ in .receipt("m-1") })
        let client = try AgentClient(socket: agent.path)
        let (gate, opened) = AsyncStream<Void>.makeStream()
        let task = Task {
            // A cancelled task gets the end of the stream.
            for await _ in gate {}
            return await fails { () throws(EdgeSyncError) in try await client.enqueue(.delete("e", "r")) }?.kind
        }
        task.cancel()
        #expect(await task.value == .cancelled)
        #expect(agent.requests.isEmpty)
        opened.finish()
    }

    @Test("Calls wait for one of the four connections, and all of them are answered")
    func places() async throws {
        let agent = try FakeAgent([], otherwise: { _ in .receipt("m-1") })
        let client = try AgentClient(socket: agent.path)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<100 { group.addTask { _ = try await client.enqueue(.delete("e", "r")) } }
            try await group.waitForAll()
        }
        #expect(agent.requests.count == 100)
        #expect(Set(agent.requests.map { $0.fields["idempotency-key"] }).count == 100)
    }

    // MARK: Many mutations

    @Test("Lines without an answer are sent again with their keys, and a refused line stops no other")
    func lines() async throws {
        let first = #"{"line":1,"id":"m-1","state":"pending"}"# + "\n"
        let refused = #"{"line":2,"error":{"type":"urn:edge-sync:local:validation","title":"T","status":422,"detail":"no"}}"# + "\n"
        let rest = #"{"line":1,"id":"m-3","state":"pending","repeat":true}"# + "\n" + #"{"summary":{"accepted":1,"failed":0}}"# + "\n"
        func answer(_ body: String, _ length: Int) -> FakeAgent.Step {
            .answer("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: \(length)\r\n\r\n\(body)")
        }
        let agent = try FakeAgent([answer(first + refused + #"{"line":3,"#, 1000), answer(rest, rest.utf8.count)])
        let mutations = (1...3).map { Mutation.create("e", "r-\($0)", ["n": .integer(Int64($0))]) }
        let results = try await client(agent).enqueue(contentsOf: mutations, keyPrefix: "import-")
        #expect(results.map(\.key) == ["import-1", "import-2", "import-3"] && results.map(\.index) == [0, 1, 2])
        #expect(try results[0].result.get() == "m-1" && results[2].result.get() == "m-3")
        #expect(results[2].isRepeat && !results[0].isRepeat)
        #expect(throws: EdgeSyncError.self) { try results[1].result.get() }
        let third = #"{"idempotency_key":"import-3","entity":"e","record_id":"r-3","action":"create","data":{"n":3}}"# + "\n"
        #expect(agent.requests.map { $0.body.split(separator: "\n").count } == [3, 1] && agent.requests[1].body == third)
    }

    @Test("A mutation that cannot be sent stops a list before anything of it is sent")
    func unfit() async throws {
        let agent = try FakeAgent([])
        let client = try client(agent)
        var deep = JSONValue.null
        for _ in 0..<70 { deep = [deep] }
        var expiring = Mutation.delete("e", "r")
        expiring.timeToLive = .milliseconds(1500)
        let bad: [Mutation] = [.update("e", "r", ["deep": deep]), expiring]
        for mutation in bad {
            let many = [Mutation](repeating: .delete("e", "r"), count: 300) + [mutation]
            #expect(await fails { () throws(EdgeSyncError) in try await client.enqueue(contentsOf: many) }?.kind == .invalidArgument)
            #expect(await fails { () throws(EdgeSyncError) in try await client.enqueueAtomic([mutation]) }?.kind == .invalidArgument)
        }
        var keyed = Mutation.delete("e", "r")
        keyed.key = "k"
        for list in [[], [keyed], [Mutation](repeating: .delete("e", "r"), count: 51)] {
            #expect(await fails { () throws(EdgeSyncError) in try await client.enqueueAtomic(list) }?.kind == .invalidArgument)
        }
        #expect(await fails { () throws(EdgeSyncError) in try await client.record("e", "") }?.kind == .invalidArgument)
        #expect(try await client.enqueue(contentsOf: []).isEmpty && agent.requests.isEmpty)
    }

    // MARK: Pages

    @Test("A query reads page after page, each only when it is needed")
    func pages() async throws {
        func page(_ ids: [String], next: String) -> FakeAgent.Step {
            let items = ids.map {
                #"{"entity":"e","id":"\#($0)","version":1,"sync_status":"synced","deleted":false,"data":{"n":1.10},"pending":[],"#
                    + #""synced_at":null,"created_at":null,"updated_at":null,"etag":"x"}"#
            }
            return .json(200, #"{"items":[\#(items.joined(separator: ","))],"next":\#(next)}"#)
        }
        let agent = try FakeAgent([
            page(["a", "b"], next: #""c1""#), page([], next: #""c2""#), .close(reads: true), page(["c"], next: "null"),
            page(["a"], next: #""c1""#), .json(200, #"{"items":[],"next":null,"unknown_entity":"there is no e"}"#),
        ])
        let client = try client(agent)
        var query = Query(
            "e",
            where: .field("a").equals(1) && .field("b").exists(false) && (.field("c").isOne(of: [1, "x"]) || .field("d").hasPrefix("y")),
            sort: ["-updated_at", "id"])
        query.fields = ["n"]
        var ids: [String] = []
        for try await record in client.records(query) {
            ids.append(record.id)
            #expect(record.data?.description == #"{"n":1.10}"#)
        }
        #expect(ids == ["a", "b", "c"] && agent.requests.count == 4)
        #expect(
            agent.requests[0].body
                == #"{"entity":"e","limit":200,"where":{"and":[{"field":"a","op":"eq","value":1},"#
                + #"{"field":"b","op":"exists","value":false},{"or":[{"field":"c","op":"in","value":[1,"x"]},"#
                + #"{"field":"d","op":"prefix","value":"y"}]}]},"sort":["-updated_at","id"],"fields":["n"]}"#)
        #expect(agent.requests[3].body.hasSuffix(#","cursor":"c2"}"#))
        let first = try await client.records(query).page()
        #expect(first.items.count == 1 && first.next == "c1")
        let error = await fails { () throws(EdgeSyncError) in try await client.records(query).all() }
        #expect(error?.code == .unknownEntity)
    }

    // MARK: The feed

    @Test("A feed that is cut resumes behind its last whole event, and gives each event once")
    func resume() async throws {
        let agent = try FakeAgent([
            .feed("id: 7\n\n" + FakeAgent.Step.record(8, "a") + ": comment\n\nid: 9\nevent: record\ndata: {\"ent"),
            .close(reads: true), .problem(429, "rate", retryAfter: 1),
            .feed(FakeAgent.Step.record(8, "a") + FakeAgent.Step.record(9, "b"), ends: false),
            .feed("id: 20\nevent: reset\ndata: {}\n\n" + FakeAgent.Step.record(21, "c") + "event: overflow\ndata: {}\n\n"),
        ])
        var seen: [String] = []
        for try await event in try client(agent).follow([.record], entity: "e") {
            switch event.content {
            case .reload(let isGap): seen.append("\(event.position) reload \(isGap)")
            case .record(let change): seen.append("\(event.position) \(change.id)")
            default: seen.append(event.type)
            }
            if seen.count == 5 { break }
        }
        #expect(seen == ["7 reload false", "8 a", "9 b", "20 reload true", "21 c"])
        #expect(agent.requests.map { $0.fields["last-event-id"] } == [nil, "8", "8", "8", "9"])
        #expect(agent.requests[0].line == "GET /v1/events?types=record&entity=e HTTP/1.1")
    }

    @Test("A record that has left the share is told from a deleted one")
    func revoked() async throws {
        let events = ["", #""reason":"revoked","#].enumerated().map { index, reason in
            "id: \(8 + index)\nevent: record\ndata: "
                + #"{"entity":"e","id":"r","change":"delete",\#(reason)"source":"remote","version":0,"sync_status":"synced"}"# + "\n\n"
        }
        let agent = try FakeAgent([.feed(events.joined())])
        var iterator = try client(agent).follow(after: FeedEvent.Position(rawValue: 7)).makeAsyncIterator()
        for isRevoked in [false, true] {
            guard case .record(let change)? = try await iterator.next()?.content else {
                Issue.record("no event of a record")
                return
            }
            #expect(change.isDeletion && change.isRevoked == isRevoked)
        }
    }

    @Test("A feed goes on behind a position that the app has stored, and ends with an error when it may not wait longer")
    func storedPosition() async throws {
        let agent = try FakeAgent([.feed("id: 30\n\n" + FakeAgent.Step.record(31, "a"))], otherwise: { _ in .close(reads: true) })
        let position = try #require(FeedEvent.Position("29"))
        var iterator = try client(agent).follow(after: position, giveUpAfter: .seconds(3)).makeAsyncIterator()
        #expect(try await iterator.next()?.position.rawValue == 31)
        await #expect(throws: EdgeSyncError.self) { _ = try await iterator.next() }
        #expect(try await iterator.next() == nil)
        #expect(agent.requests[0].fields["last-event-id"] == "29" && agent.requests[1].fields["last-event-id"] == "31")
    }

    @Test("A refused feed ends at once, and a cancelled one too")
    func feedEnds() async throws {
        let refusing = try FakeAgent([.problem(403, "forbidden")])
        var iterator = try client(refusing).follow().makeAsyncIterator()
        await #expect { _ = try await iterator.next() } throws: { ($0 as? EdgeSyncError)?.code == .forbidden }
        let silent = try FakeAgent([], otherwise: { _ in .silence })
        let feed = try AgentClient(socket: silent.path).follow()
        let task = Task {
            var iterator = feed.makeAsyncIterator()
            return await fails { () throws(EdgeSyncError) in try await iterator.next() }?.kind
        }
        await silent.waitForRequests(1)
        task.cancel()
        #expect(await task.value == .cancelled)
    }

    // MARK: Waiting

    @Test("A wait reads the mutation when the feed names it, or the one that it was merged into, also over a lost feed")
    func waits() async throws {
        let change = #"{"id":"m-9","seq":9,"state":"done","entity":"e","record_id":"r"}"#
        let agent = try FakeAgent([
            .mutation("m-1", "coalesced", into: "m-9"), .close(reads: true), .mutation("m-1", "pending", into: "m-9"),
            .feed("id: 1\n\n" + "id: 2\nevent: mutation\ndata: \(change)\n\n", ends: false),
            .mutation("m-1", "in_flight", into: "m-9"), .mutation("m-1", "done", into: "m-9"),
        ])
        let item = try await client(agent).wait(for: "m-1")
        #expect(item.outcome == .delivered && item.into == "m-9" && agent.requests.count == 6)
        try item.requireDelivered()
    }

    @Test("A wait that takes too long says what is open, and the command that explains it")
    func waitsTooLong() async throws {
        let agent = try FakeAgent(
            [], otherwise: { $0.line.contains("events") ? .problem(429, "rate", retryAfter: 5) : .mutation("m-1", "pending") })
        let client = try client(agent)
        let error = await fails { () throws(EdgeSyncError) in try await client.wait(forAll: ["m-1", "m-2"], timeout: .seconds(20)) }
        #expect(error?.kind == .deadlinePassed && error?.command == "agentctl why m-1")
        #expect(error?.detail == "the state of the mutation m-1 is pending after 20.0 seconds, and 1 more are open")
    }

    @Test("A mutation that is not delivered is an error with the reason and the command")
    func notDelivered() async throws {
        let agent = try FakeAgent([.mutation("m-1", "rejected"), .mutation("m-1", "conflicted"), .mutation("m-1", "unheard")])
        let client = try client(agent)
        for (kind, command) in [
            ("rejected", "agentctl rejected show m-1"), ("conflicted", "agentctl conflicts list"), ("unheard", "agentctl why m-1"),
        ] {
            let item = try await client.mutation("m-1")
            let error = await fails { () throws(EdgeSyncError) in try item.requireDelivered() }
            #expect(error?.kind == .notDelivered && error?.command == command && error?.code.rawValue == kind)
        }
    }

    // MARK: Files

    @Test("A file whose connection breaks is read on where it broke, and its digest is compared")
    func content() async throws {
        let digest = "Repr-Digest: sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:\r\n"
        let steps: [FakeAgent.Step] = [
            .answer("HTTP/1.1 200 OK\r\n\(digest)Content-Length: 3\r\n\r\nab"), .problem(503, "busy"),
            .answer("HTTP/1.1 206 Part\r\n\(digest)Content-Range: bytes 2-2/3\r\nContent-Length: 1\r\n\r\nc"),
        ]
        let agent = try FakeAgent(steps)
        #expect(try await client(agent).bytes(of: "b-1") == Array("abc".utf8))
        #expect(agent.requests.map { $0.fields["range"] } == [nil, "bytes=2-", "bytes=2-"])
        let rotten = try FakeAgent([.answer("HTTP/1.1 200 OK\r\n\(digest)Content-Length: 3\r\n\r\nabd")])
        #expect(await fails { () throws(EdgeSyncError) in try await client(rotten).bytes(of: "b-1") }?.code == .digestMismatch)
        let other = try FakeAgent([
            .cut(steps[0], behind: 200), .answer("HTTP/1.1 206 Part\r\n\(digest)Content-Range: bytes 1-2/3\r\nContent-Length: 2\r\n\r\nbc"),
        ])
        #expect(await fails { () throws(EdgeSyncError) in try await client(other).bytes(of: "b-1") }?.kind == .badAnswer)
    }

    @Test("A file is sent whole in each try, and one that cannot be read is an error before anything is sent")
    func addFile() async throws {
        let stored =
            #"{"id":"b-1","digest":"sha256:0","size":3,"type":"a/b","filename":"x","state":"pending","offset":0,"#
            + #""attempts":0,"links":[],"verified":false,"kept":true,"created_at":null,"done_at":null}"#
        let agent = try FakeAgent([.close(reads: true), .json(201, stored), .json(200, stored), .json(200, stored)])
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("edgesync-\(UUID().uuidString) é.txt").path
        try String(repeating: "0123456789", count: 50_000).write(toFile: path, atomically: false, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }
        let client = try client(agent)
        let file = try await client.addFile(at: path, filename: "ä b.txt", type: "text/plain")
        #expect(file.id == "b-1" && agent.requests.map(\.body.utf8.count) == [500_000, 500_000])
        #expect(agent.requests[1].line == "POST /v1/blobs?filename=%C3%A4%20b.txt HTTP/1.1")
        _ = try await client.addFile(bytes: Array("abc".utf8), filename: "x")
        #expect(agent.requests[2].body == "abc")
        // The route takes no body.
        _ = try await client.retryFile("b-1")
        #expect(agent.requests[3].line == "POST /v1/blobs/b-1/retry HTTP/1.1" && agent.requests[3].fields["content-length"] == "0")
        for bad in ["/nowhere", "/tmp", "/dev/null"] {
            #expect(await fails { () throws(EdgeSyncError) in try await client.addFile(at: bad) }?.kind == .invalidArgument)
        }
        #expect(agent.requests.count == 4)
    }
}
