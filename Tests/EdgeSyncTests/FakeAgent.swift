import EdgeSync
import Foundation
import Glibc
import Synchronization

/// A server on a Unix socket that does what a script says, one step for each connection.
final class FakeAgent: Sendable {
    enum Step: Sendable {
        /// Answers and closes.
        case answer(String)
        /// Closes without an answer, before or after it has read the request.
        case close(reads: Bool)
        /// Reads the request and never answers.
        case silence
    }

    /// A request as it came.
    struct Request: Sendable {
        var line: String
        var fields: [String: String]
        var body: String
    }

    private struct State {
        var steps: [Step]
        var requests: [Request] = []
        var waiters: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
        var open: [Int32] = []
    }

    let path: String
    private let folder: String
    private let listener: Int32
    private let state: Mutex<State>
    private let otherwise: @Sendable (Request) -> Step

    /// - Parameter otherwise: The steps behind the last one of the script.
    init(_ steps: [Step], otherwise: @escaping @Sendable (Request) -> Step = { _ in .close(reads: true) }) throws {
        folder = "/tmp/edgesync-\(UUID().uuidString)"
        path = folder + "/agent.sock"
        state = Mutex(State(steps: steps))
        self.otherwise = otherwise
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        guard result == 0, listen(listener, 128) == 0 else {
            close(listener)
            throw POSIXError(.EIO)
        }
        let accepting = self.listener
        let serve: @Sendable (Int32) -> Void = { [weak self] descriptor in
            if let self { self.serve(descriptor) } else { close(descriptor) }
        }
        Thread {
            // Closed here and not by the owner: as long as this thread accepts, the number must not become that of another server.
            defer { close(accepting) }
            while case let descriptor = accept(accepting, nil, nil), descriptor >= 0 {
                Thread { serve(descriptor) }.start()
            }
        }.start()
    }

    deinit {
        // Ends the thread that accepts.
        shutdown(listener, Int32(SHUT_RDWR))
        for descriptor in state.withLock({ $0.open }) { shutdown(descriptor, Int32(SHUT_RDWR)) }
        try? FileManager.default.removeItem(atPath: folder)
    }

    var requests: [Request] { state.withLock { $0.requests } }

    /// Waits until this number of requests has come.
    func waitForRequests(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.requests.count >= count { return true }
                state.waiters.append((count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    private func serve(_ descriptor: Int32) {
        state.withLock { $0.open.append(descriptor) }
        defer {
            state.withLock { $0.open.removeAll { $0 == descriptor } }
            close(descriptor)
        }
        let first: Step? = state.withLock { state in
            if case .close(reads: false)? = state.steps.first { return state.steps.removeFirst() }
            return nil
        }
        guard first == nil, let request = Self.read(descriptor) else { return }
        let (step, waiters): (Step?, [CheckedContinuation<Void, Never>]) = state.withLock { state in
            state.requests.append(request)
            let ready = state.waiters.filter { $0.count <= state.requests.count }.map(\.continuation)
            state.waiters.removeAll { $0.count <= state.requests.count }
            return (state.steps.isEmpty ? nil : state.steps.removeFirst(), ready)
        }
        for waiter in waiters { waiter.resume() }
        switch step ?? otherwise(request) {
        case .answer(let text):
            let bytes = Array(text.utf8)
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                if count <= 0 { return }
                sent += count
            }
        case .close: break
        case .silence:
            var byte: UInt8 = 0
            while recv(descriptor, &byte, 1, 0) > 0 {}
        }
    }

    private static func read(_ descriptor: Int32) -> Request? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let text = String(decoding: bytes, as: UTF8.self)
            if let end = text.range(of: "\r\n\r\n") {
                let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
                var fields: [String: String] = [:]
                for line in lines.dropFirst() {
                    let parts = line.components(separatedBy: ": ")
                    fields[parts[0].lowercased()] = parts.dropFirst().joined(separator: ": ")
                }
                let body = String(text[end.upperBound...])
                if body.utf8.count >= Int(fields["content-length"] ?? "0") ?? 0 {
                    return Request(line: lines[0], fields: fields, body: body)
                }
            }
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            bytes += piece.prefix(count)
        }
    }
}

extension FakeAgent.Step {
    static func json(_ status: Int, _ body: String, fields: String = "") -> Self {
        let type = status < 400 ? "application/json" : "application/problem+json"
        return .answer(
            "HTTP/1.1 \(status) X\r\nContent-Type: \(type)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    static func problem(_ status: Int, _ code: String, retryAfter: Int? = nil, members: String = "") -> Self {
        let body = #"{"type":"urn:edge-sync:local:\#(code)","title":"T","status":\#(status),"detail":"because"\#(members)}"#
        return json(status, body, fields: retryAfter.map { "Retry-After: \($0)\r\n" } ?? "")
    }

    static func cut(_ step: Self, behind bytes: Int) -> Self {
        guard case .answer(let text) = step else { return step }
        return .answer(String(decoding: Array(text.utf8).prefix(bytes), as: UTF8.self))
    }

    static func receipt(_ id: String, status: Int = 201) -> Self {
        json(status, #"{"id":"\#(id)","seq":1,"state":"pending","record":{"entity":"e","id":"r","etag":"\"1\"","data":{"n":1}}}"#)
    }

    static func mutation(_ id: String, _ state: String, into: String? = nil) -> Self {
        json(
            200,
            #"{"id":"\#(id)","seq":1,"entity":"e","record_id":"r","action":"update","state":"\#(state)","priority":"normal","#
                + #""attempts":0,"created_at":null,"next_attempt_at":null\#(into.map { #","into":"\#($0)""# } ?? "")}"#)
    }

    /// A feed of chunks that ends behind the events.
    static func feed(_ events: String, ends: Bool = true) -> Self {
        .answer(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                + String(events.utf8.count, radix: 16) + "\r\n\(events)\r\n" + (ends ? "0\r\n\r\n" : ""))
    }

    static func record(_ position: Int, _ id: String) -> String {
        let data = #"{"entity":"e","id":"\#(id)","change":"upsert","source":"local","version":1,"sync_status":"pending"}"#
        return "id: \(position)\nevent: record\ndata: \(data)\n\n"
    }
}

/// Time that passes only while a client pauses, and chances that are always in the middle.
final class TestTime: Sendable {
    private let time = Mutex<(now: Duration, pauses: [Duration])>((.zero, []))

    var pauses: [Duration] { time.withLock { $0.pauses } }

    var environment: Environment {
        let keys = Mutex(0)
        return Environment(
            now: { [self] in time.withLock { $0.now } },
            sleep: { [self] pause in
                try Task.checkCancellation()
                time.withLock { time in
                    time.now += pause
                    time.pauses.append(pause)
                }
            }, draw: { 0.5 },
            newKey: {
                keys.withLock { keys in
                    keys += 1
                    return "key-\(keys)"
                }
            })
    }
}
