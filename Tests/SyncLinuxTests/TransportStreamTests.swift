import Foundation
import SyncCore
import SyncLinux
import Synchronization
import Testing

@Suite("Any HTTP transport, streaming")
struct TransportStreamTests {
    @Test("The head and each piece are handed on while the answer is still open", arguments: TransportCase.all, [false, true])
    func live(_ transport: TransportCase, isGzip: Bool) async throws {
        let headCame = Gate(), firstCame = Gate()
        // Each event is a member of its own, which is how a server flushes gzip.
        let events = ["data: 1\n\n", "data: 2\n\n"].map { isGzip ? Gzip.stored($0.bytes) : $0.bytes }
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            let coding = isGzip ? "Content-Encoding: gzip\r\n" : ""
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\(coding)Connection: close\r\n\r\n")
            headCame.passBlocking()
            connection.send(events[0])
            firstCame.passBlocking()
            connection.send(events[1])
        }
        defer { server.stop() }
        let seen = Mutex<[String]>([])
        let response = try await transport.make().stream(server.request { $0.acceptsGzip = true }) { status, headers in
            seen.withLock { $0.append("\(status) \(headers["content-type"] ?? "")") }
            headCame.open()
        } onBody: { piece in
            seen.withLock { $0.append(String(decoding: piece, as: UTF8.self)) }
            firstCame.open()
            return true
        }
        #expect(seen.withLock { $0 } == ["200 text/event-stream", "data: 1\n\n", "data: 2\n\n"])
        #expect(response.status == 200)
        #expect(response.headers["Content-Type"] == "text/event-stream")
        #expect(response.body.isEmpty)
    }

    @Test(
        "A receiver that wants no more ends the transfer without an error, and the connection is closed", arguments: TransportCase.all,
        [false, true])
    func stops(_ transport: TransportCase, isGzip: Bool) async throws {
        let isClosed = Gate()
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            let coding = isGzip ? "Content-Encoding: gzip\r\n" : ""
            connection.send("HTTP/1.1 200 OK\r\n\(coding)Connection: close\r\n\r\n")
            let event = isGzip ? Gzip.stored("x".bytes) : "x".bytes
            while connection.send(event) {}
            isClosed.open()
        }
        defer { server.stop() }
        let calls = Mutex(0)
        let response = try await transport.make().stream(server.request { $0.acceptsGzip = true }, onHead: { _, _ in }) { _ in
            calls.withLock { calls in
                calls += 1
                return calls < 3
            }
        }
        #expect(response.status == 200)
        #expect(calls.withLock { $0 } == 3)
        await isClosed.pass()
    }

    @Test(
        "A stream that breaks, is not what was asked for or passes its limit ends with an error after what came",
        arguments: TransportCase.all,
        [
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", TransportError.Code.broken, 1, "hello"),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world", .tooLarge, 1, ""),
            ("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nhello", .malformed, 0, ""),
            ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", .tooLarge, 0, ""),
            ("garbage\r\n", .malformed, 0, ""),
        ])
    func breaks(_ transport: TransportCase, _ row: (answer: String, code: TransportError.Code, heads: Int, body: String)) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(row.answer)
        }
        defer { server.stop() }
        let heads = Mutex(0), body = Mutex<[UInt8]>([])
        let transport = try transport.make()
        do throws(TransportError) {
            _ = try await transport.stream(server.request { $0.maxResponseBytes = 10 }) { _, _ in
                heads.withLock { $0 += 1 }
            } onBody: { piece in
                body.withLock { $0 += piece }
                return true
            }
            Issue.record("no error")
        } catch {
            #expect(error.code == row.code)
        }
        #expect(heads.withLock { $0 } == row.heads)
        #expect(body.withLock { $0 } == row.body.bytes)
    }
}
