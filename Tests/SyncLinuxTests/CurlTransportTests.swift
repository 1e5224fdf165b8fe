import Foundation
import Glibc
import SyncCore
import SyncLinux
import Testing

/// Properties of `CurlTransport` alone: a thread, idle connections to drop, an end.
@Suite("CurlTransport")
struct CurlTransportTests {
    @Test("An idle transport never wakes, also with kept connections, while another one works")
    func idle() async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer() }
        }
        let silent = try CannedServer { $0.waitForPeerToClose() }
        defer {
            server.stop()
            silent.stop()
        }
        let idle = try CurlTransport(name: "idle-curl"), other = try CurlTransport(name: "busy-curl")
        for _ in 1...3 { _ = try await idle.send(server.request()) }

        // The thread needs a moment from its last answer to its sleep. A regular wake-up, at least every two seconds, shows in every round.
        // The end of the last request shows in the first at most.
        var counts: [Int] = [try switches(of: "idle-curl")]
        for _ in 1...2 {
            let error = try await other.failure(silent.request { $0.deadlines.total = .seconds(2) })
            #expect(error.code == .timedOut)
            for _ in 1...20 { _ = try await other.send(server.request()) }
            counts.append(try switches(of: "idle-curl"))
        }
        #expect(counts[1] == counts[2], "\(counts)")
        for _ in 1...20 { _ = try await idle.send(server.request()) }
        #expect(try switches(of: "idle-curl") > counts[2], "the counter counts")
    }

    @Test("While a transfer waits, its thread wakes only for the deadline")
    func waiting() async throws {
        let isAsked = Gate()
        let silent = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            isAsked.open()
            connection.waitForPeerToClose()
        }
        defer { silent.stop() }
        let transport = try CurlTransport(name: "waiting-curl")
        let request = silent.request { $0.deadlines.firstByte = .seconds(2) }
        let task = Task { try await transport.failure(request) }
        await isAsked.pass()
        let before = try switches(of: "waiting-curl")
        #expect(try await task.value.code == .timedOut)
        // Falling asleep, curl's own timers from connecting, and the deadline.
        #expect(try switches(of: "waiting-curl") - before < 10)
    }

    /// Says that it was asked, and answers when it may.
    private static func slow(_ isAsked: Gate, _ mayAnswer: Gate) throws -> CannedServer {
        try CannedServer { connection in
            while connection.readRequest() != nil {
                isAsked.open()
                mayAnswer.passBlocking()
                connection.answer()
            }
        }
    }

    @Test("Closing idle connections closes those, whether something is under way or not, and no other", arguments: [false, true])
    func closeIdle(isBusy: Bool) async throws {
        let isClosed = Gate(), isAsked = Gate(), mayAnswer = Gate()
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("200 OK", [], "\(connection.number)".bytes)
            connection.waitForPeerToClose()
            if connection.number == 1 { isClosed.open() }
        }
        let slow = try Self.slow(isAsked, mayAnswer)
        defer {
            server.stop()
            slow.stop()
        }
        let transport = try CurlTransport()
        #expect(try await transport.send(server.request()).body == "1".bytes)
        let request = slow.request()
        let task = isBusy ? Task { try await transport.send(request).status } : nil
        if isBusy { await isAsked.pass() }

        transport.closeIdleConnections()
        await isClosed.pass()
        mayAnswer.open()
        #expect(try await transport.send(server.request()).body == "2".bytes)
        if let task {
            #expect(try await task.value == 200)
            #expect(try await transport.send(slow.request()).traffic.newConnection == false)
        }
    }

    @Test("A request while idle connections are closed is not forgotten", .timeLimit(.minutes(10)))
    func askedWhileClosing() async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer() }
        }
        defer { server.stop() }
        let transport = try CurlTransport()
        for _ in 0..<1_000 {
            // The wish comes while the thread makes its handle anew.
            transport.closeIdleConnections()
            #expect(try await transport.send(server.request()).status == 200)
        }
    }

    @Test("After 421, nothing goes over that connection again, whether something else is under way or not", arguments: [false, true])
    func misdirected(isBusy: Bool) async throws {
        let isAsked = Gate(), mayAnswer = Gate()
        let server = try CannedServer { connection in
            while connection.readRequest() != nil {
                connection.answer(connection.number == 1 ? "421 Misdirected Request" : "200 OK", [], "\(connection.number)".bytes)
            }
        }
        let slow = try Self.slow(isAsked, mayAnswer)
        defer {
            server.stop()
            slow.stop()
        }
        let transport = try CurlTransport()
        let request = slow.request()
        let task = isBusy ? Task { try await transport.send(request).status } : nil
        if isBusy { await isAsked.pass() }
        #expect(try await transport.send(server.request()).status == 421)
        let second = try await transport.send(server.request())
        #expect(second.status == 200 && second.body == "2".bytes && second.traffic.newConnection == true)
        #expect(try await transport.send(server.request()).body == "2".bytes, "what answers well is kept")
        mayAnswer.open()
        if let task { #expect(try await task.value == 200) }
    }

    @Test("Closing ends what is under way, refuses what comes later, and leaves no thread behind")
    func close() async throws {
        let isAsked = Gate(), isClosed = Gate()
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            isAsked.open()
            connection.waitForPeerToClose()
            isClosed.open()
        }
        defer { server.stop() }
        let transport = try CurlTransport(name: "closing-curl")
        let request = server.request()
        let task = Task { try await transport.failure(request) }
        await isAsked.pass()
        _ = try switches(of: "closing-curl")
        transport.close()
        #expect(throws: ThreadNotFound.self) { try switches(of: "closing-curl") }
        #expect(try await task.value.code == .cancelled)
        await isClosed.pass()
        #expect(try await transport.failure(request).code == .cancelled)
        transport.closeIdleConnections()
        transport.close()
    }

    @Test("A transport that is released ends its thread and its connections")
    func released() async throws {
        let isClosed = Gate()
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer() }
            isClosed.open()
        }
        defer { server.stop() }
        do {
            let transport = try CurlTransport(name: "released-curl")
            _ = try await transport.send(server.request())
        }
        await isClosed.pass()
        #expect(throws: ThreadNotFound.self) { try switches(of: "released-curl") }
    }

    @Test("A receiver may close the transport from the thread that calls it")
    func closedFromInside() async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nx")
            connection.waitForPeerToClose()
        }
        defer { server.stop() }
        let transport = try CurlTransport()
        do throws(TransportError) {
            _ = try await transport.stream(server.request(), onHead: { _, _ in }) { _ in
                transport.close()
                return true
            }
            Issue.record("no error")
        } catch {
            #expect(error.code == .cancelled)
        }
    }

    private struct ThreadNotFound: Error {}

    /// Times that the thread of that name went to sleep by itself.
    private func switches(of name: String) throws -> Int {
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
            // A thread that ends in between takes its files with it.
            guard let comm = try? String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8),
                comm == name + "\n",
                let status = try? String(contentsOfFile: "/proc/self/task/\(thread)/status", encoding: .utf8),
                let line = status.split(separator: "\n").first(where: { $0.hasPrefix("voluntary_ctxt_switches:") }),
                let count = Int(line.dropFirst("voluntary_ctxt_switches:".count).trimmingCharacters(in: .whitespaces))
            else { continue }
            return count
        }
        throw ThreadNotFound()
    }
}
