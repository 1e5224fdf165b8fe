import Foundation
import Glibc
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// No test here sleeps to wait for something: the deadline of the request ends it, and servers pause to be slow.
@Suite("Any HTTP transport, in time")
struct TransportTimeTests {
    struct Stall: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// The bytes of the server before it falls silent.
        var sent: String
        var firstByte: Duration?
        var idle: Duration?
        var total: Duration?
        var doing: String
        var detail: String

        static let short: Duration = .milliseconds(200)
    }

    static let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"

    @Test(
        "A peer that falls silent is given up at the first deadline that passes, and the error says at which step",
        arguments: TransportCase.all,
        [
            Stall(
                testDescription: "before the first byte", sent: "", firstByte: Stall.short, idle: .seconds(60),
                doing: "wait for the answer of", detail: "no byte of the answer within 0.2 seconds"),
            Stall(
                testDescription: "before the first byte, idle shorter", sent: "", firstByte: .seconds(60), idle: Stall.short,
                doing: "wait for the answer of", detail: "no byte in either direction for 0.2 seconds"),
            Stall(
                testDescription: "before the first byte, idle alone", sent: "", idle: Stall.short, doing: "wait for the answer of",
                detail: "no byte in either direction for 0.2 seconds"),
            Stall(
                testDescription: "before the first byte, total alone", sent: "", total: Stall.short, doing: "wait for the answer of",
                detail: "not done within 0.2 seconds"),
            Stall(
                testDescription: "in the head", sent: "HTTP/1.1 200 OK\r\nX-A", firstByte: .seconds(60), idle: Stall.short,
                doing: "receive the answer of", detail: "no byte in either direction for 0.2 seconds"),
            Stall(
                testDescription: "after an interim head", sent: "HTTP/1.1 103 Early Hints\r\n\r\n", idle: Stall.short,
                doing: "receive the answer of", detail: "no byte in either direction for 0.2 seconds"),
            Stall(
                testDescription: "in the body", sent: half, firstByte: .seconds(60), idle: Stall.short,
                doing: "receive the answer of", detail: "no byte in either direction for 0.2 seconds"),
            Stall(
                testDescription: "in the body, total", sent: half, idle: .seconds(60), total: Stall.short,
                doing: "receive the answer of", detail: "not done within 0.2 seconds"),
        ])
    func stall(_ transport: TransportCase, _ stall: Stall) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(stall.sent)
            connection.waitForPeerToClose()
        }
        defer { server.stop() }
        let doing = "\(stall.doing) \(server.url.dropFirst("http://".count))"
        let client = try transport.make()
        // On a busy machine client or server may not come as far as the step within the short deadline: then it is a longer one.
        func failure(times factor: Int) async throws -> TransportError {
            func time(_ limit: Duration?) -> Duration? { limit == Stall.short ? Stall.short * factor : limit }
            return try await client.failure(
                server.request(.post, body: .bytes([1, 2])) {
                    $0.deadlines.firstByte = time(stall.firstByte)
                    $0.deadlines.idle = time(stall.idle)
                    $0.deadlines.total = time(stall.total)
                })
        }
        var (error, seconds) = (try await failure(times: 1), "0.2")
        for (factor, longer) in [(4, "0.8"), (16, "3.2")] where error.doing != doing {
            (error, seconds) = (try await failure(times: factor), longer)
        }
        #expect(error.code == .timedOut)
        #expect(error.doing == doing)
        #expect(error.detail == stall.detail.replacingOccurrences(of: "0.2 seconds", with: "\(seconds) seconds"))
        #expect((error.traffic.roundTrip != nil) == !stall.sent.isEmpty)
    }

    @Test("A peer that takes the connection and not the body is given up", arguments: TransportCase.all)
    func unread(_ transport: TransportCase) async throws {
        let isOver = Gate()
        let server = try CannedServer { _ in isOver.passBlocking() }
        defer {
            isOver.open()
            server.stop()
        }
        let error = try await transport.make().failure(
            server.request(.post, body: .pieces { [UInt8](repeating: 1, count: $0) }) {
                $0.deadlines.idle = .seconds(1)
            })
        #expect(error.code == .timedOut)
        #expect(error.doing.hasPrefix("send the request to"))
        #expect(error.traffic.up > 0)
    }

    @Test("A peer that never takes the connection is given up at the deadline of connecting", arguments: TransportCase.all)
    func connecting(_ transport: TransportCase) async throws {
        let server = try CannedServer(backlog: 0, nil)
        defer { server.stop() }
        // With the queue of a listener full, Linux leaves further handshakes unanswered.
        let fillers = (0..<4).map { _ in server.connectWithoutWaiting() }
        defer { for filler in fillers { close(filler) } }
        let error = try await transport.make().failure(server.request { $0.deadlines.connect = .milliseconds(300) })
        #expect(error.code == .timedOut)
        #expect(error.doing == "connect to \(server.url.dropFirst("http://".count))")
    }

    @Test("A peer that says nothing in the TLS handshake is given up at the deadline of connecting", arguments: TransportCase.all)
    func handshake(_ transport: TransportCase) async throws {
        let server = try CannedServer(scheme: "https") { $0.waitForPeerToClose() }
        defer { server.stop() }
        // The connection itself must be there within it, also on a busy machine.
        let error = try await transport.make().failure(server.request { $0.deadlines.connect = .seconds(2) })
        #expect(error.code == .timedOut)
        #expect(error.doing == "TLS handshake with \(server.url.dropFirst("https://".count))")
    }

    @Test("An answer that drips is given up when it takes too long, however alive it looks", arguments: TransportCase.all)
    func drip(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while connection.send("x") { usleep(5_000) }
        }
        defer { server.stop() }
        let error = try await transport.make().failure(server.request { $0.deadlines.total = .milliseconds(400) })
        #expect(error.code == .timedOut)
        #expect(error.detail == "not done within 0.4 seconds")
    }

    /// Repeats a test with longer times when its request is given up: a pause of a busy machine may be longer than a deadline.
    private func withLongerTimes(_ body: (_ factor: Int) async throws -> Void) async throws {
        for factor in [1, 4] {
            do { return try await body(factor) } catch let error as TransportError where error.code == .timedOut {}
        }
        try await body(16)
    }

    @Test("A slow answer that keeps coming is not late, though it takes many times the idle deadline", arguments: TransportCase.all)
    func slow(_ transport: TransportCase) async throws {
        try await withLongerTimes { factor in
            let server = try CannedServer { connection in
                guard connection.readRequest() != nil else { return }
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n")
                for _ in 0..<60 {
                    usleep(40_000 * UInt32(factor))
                    connection.send("x")
                }
            }
            defer { server.stop() }
            let response = try await transport.make().send(
                server.request {
                    $0.deadlines.firstByte = .seconds(factor)
                    $0.deadlines.idle = .seconds(factor)
                })
            #expect(response.body.count == 60)
        }
    }

    @Test("A request that still trickles out of the kernel over a slow link is not late", arguments: TransportCase.all)
    func trickle(_ transport: TransportCase) async throws {
        try await withLongerTimes { factor in
            // Everything is with the kernel within moments, and the peer takes it over three times the deadlines.
            let server = try CannedServer(receiveBuffer: 8 << 10) { connection in
                var rest = 400_000
                while rest > 0 {
                    let count = connection.receive(upTo: 4 << 10)
                    if count == 0 { return }
                    rest -= count
                    usleep(30_000 * UInt32(factor))
                }
                connection.answer()
                connection.waitForPeerToClose()
            }
            defer { server.stop() }
            let response = try await transport.make().send(
                server.request(.post, body: .bytes([UInt8](repeating: 1, count: 400_000))) {
                    $0.deadlines.firstByte = .seconds(factor)
                    $0.deadlines.idle = .seconds(factor)
                })
            #expect(response.status == 200)
        }
    }

    // MARK: - Cancelling

    @Test("Cancelling the task ends the request and closes its connection", arguments: TransportCase.all, ["", half])
    func cancel(_ transport: TransportCase, sent: String) async throws {
        let isAsked = Gate(), isClosed = Gate()
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(sent)
            isAsked.open()
            connection.waitForPeerToClose()
            isClosed.open()
        }
        defer { server.stop() }
        let transport = try transport.make()
        let request = server.request()
        let task = Task { try await transport.failure(request) }
        await isAsked.pass()
        task.cancel()
        #expect(try await task.value.code == .cancelled)
        await isClosed.pass()
    }

    @Test("A request of a task that is cancelled already is not sent", arguments: TransportCase.all)
    func cancelledBefore(_ transport: TransportCase) async throws {
        let server = try CannedServer { $0.waitForPeerToClose() }
        defer { server.stop() }
        let transport = try transport.make()
        let request = server.request()
        let mayGo = Gate()
        let task = Task {
            await mayGo.pass()
            return try await transport.failure(request)
        }
        task.cancel()
        mayGo.open()
        #expect(try await task.value.code == .cancelled)
        #expect(server.connectionCount == 0)
    }

    @Test("Whenever the cancelling comes, every request ends once", arguments: TransportCase.all)
    func cancelRace(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer() }
        }
        defer { server.stop() }
        let transport = try transport.make()
        let request = server.request()
        for round in 0..<200 {
            let task = Task {
                do throws(TransportError) {
                    return try await transport.send(request).status == 200
                } catch {
                    return error.code == .cancelled
                }
            }
            for _ in 0..<round % 7 { await Task.yield() }
            task.cancel()
            #expect(await task.value)
        }
        #expect(try await transport.send(request).status == 200)
    }

    @Test(
        "A kept connection that was forgotten in between costs seconds, and the next one is not kept for so long",
        arguments: TransportCase.all)
    func forgotten(_ transport: TransportCase) async throws {
        let (forgotten, hasForgotten) = AsyncStream.makeStream(of: Void.self)
        let server = try CannedServer { connection in
            while connection.readRequest() != nil {
                connection.answer()
                if connection.number == 1 {
                    connection.forget()
                    hasForgotten.finish()
                    // Its thread has nothing left to do: nothing arrives here any more.
                    return connection.waitForPeerToClose()
                }
            }
        }
        defer { server.stop() }
        let client = try transport.make()
        _ = try await client.send(server.request(.post, body: .bytes([1])))
        // A request that comes before is still taken, and then never answered.
        for await _ in forgotten {}
        let began = ContinuousClock.now
        let error = try await client.failure(
            server.request(.post, body: .bytes([2])) {
                $0.deadlines.firstByte = .seconds(60)
                $0.deadlines.idle = .seconds(60)
            })
        let waited = began.duration(to: ContinuousClock.now)
        #expect(error.code == .broken, "not the deadline of an answer: \(error)")
        #expect(waited >= Duration.seconds(4), "a lost segment or two is no reason")
        #expect(try await client.send(server.request(.post, body: .bytes([3]))).status == 200)
        // curl itself begins another connection before it asks whether to repeat the request, and hears that it may not.
        #expect((2...3).contains(server.connectionCount))
        #expect(server.allRequests.map(\.body) == [[1], [3]], "nothing is sent twice by the transport itself")
    }

    @Test("A connection that died while idle shortens how long others are kept, down to a minimum; another link starts afresh")
    func deadIdleConnectionShortensTheKeptAge() {
        var kept = KeptConnections(age: .seconds(60))
        kept.died(afterIdle: .seconds(40))
        #expect(kept.age == .seconds(20))
        kept.died(afterIdle: .seconds(58))
        #expect(kept.age == .seconds(20), "one that had been idle for longer says no more")
        kept.died(afterIdle: .seconds(2))
        #expect(kept.age == KeptConnections.ageMin)
        kept.forget()
        #expect(kept.age == .seconds(60))
    }
}
