import Foundation
import Glibc
import Synchronization

/// The wire between hubs and a server: a Unix socket that counts round trips, and lets one of them fail.
///
/// It reads the messages of both sides (PostgreSQL 15, 55.7). A client's messages go on when their Sync or Query has come: that is one
/// round trip.
package final class ServerWire: Sendable {
    package enum Fault: Sendable, Hashable {
        /// The connection ends, and the server has received nothing of this round trip.
        case cutBefore
        /// The connection ends when the server has done everything, and before its answer.
        case cutAfter
        /// The server receives nothing, and the client this error (SQLSTATE).
        case refuse(String)
        /// The same, and the session ends with it.
        case end(String)
        /// The server receives the first bytes, as a number or from the end if it is negative, and the others after ``release()``.
        case stop(Int)
    }

    /// The end of the messages of a round trip, from the first use of a statement on.
    package struct Tail: Sendable {
        package var bytes: Int
        /// Number of texts of statements in it.
        package var texts: Int
        /// Bytes of all messages of the round trip.
        package var whole: Int
    }

    private struct State {
        var roundTrips = 0
        /// The present fault, and the number of round trips before it.
        var fault: (Fault, after: Int)?
        var hasFailed = false
        var tail: Tail?
        var open: [Int32] = []
        var isOver = false
    }

    private let state = Mutex(State())
    private let stopped = DispatchSemaphore(value: 0)
    private let released = DispatchSemaphore(value: 0)
    private let listener: Int32
    private let target: String
    private let folder: String

    private let watched: String

    /// - Parameter watched: Part of the text of the statement where a ``Tail`` begins.
    package init(to server: PostgresServer, watching watched: String = "FOR UPDATE") throws {
        self.watched = watched
        target = "\(server.folder)/.s.PGSQL.5432"
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("wire-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let isListening = Self.withAddress("\(folder)/.s.PGSQL.5432") { [listener] in
            bind(listener, $0, $1) == 0 && listen(listener, 16) == 0
        }
        guard listener >= 0, isListening else { throw PostgresServer.Failure(description: "listen: \(String(cString: strerror(errno)))") }
        Self.run { [weak self, listener] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self else { return }
                self.serve(client)
            }
        }
    }

    /// Ends all connections.
    package func close() {
        state.withLock { state in
            state.isOver = true
            for end in state.open { shutdown(end, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
        Glibc.close(listener)
        try? FileManager.default.removeItem(atPath: folder)  // It is a temporary folder.
    }

    /// Ends the present connections.
    package func cut() {
        state.withLock { state in for end in state.open { shutdown(end, Int32(SHUT_RDWR)) } }
    }

    /// The same database, over this wire.
    package func url(of url: String) -> String {
        url.replacing("host=\(target.dropLast("/.s.PGSQL.5432".count))", with: "host=\(folder)")
    }

    // MARK: Faults

    package var roundTrips: Int { state.withLock { $0.roundTrips } }

    /// Lets one round trip fail, after `count` others from now on.
    package func fail(after count: Int, _ fault: Fault) {
        state.withLock { state in
            state.fault = (fault, state.roundTrips + count)
            state.hasFailed = false
        }
    }

    /// Ends the waiting for the fault.
    ///
    /// - Returns: It has happened.
    package func endFault() -> Bool {
        state.withLock { state in
            state.fault = nil
            return state.hasFailed
        }
    }

    /// The newest tail of a round trip.
    package var tail: Tail? { state.withLock { $0.tail } }

    /// Waits for the round trip that ``Fault/stop(_:)`` stops.
    package func waitForStop() { stopped.wait() }

    package func release() { released.signal() }

    // MARK: Connections

    private func serve(_ client: Int32) {
        let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let isConnected = Self.withAddress(target) { connect(server, $0, $1) == 0 }
        let isOver = state.withLock { state in
            state.open += [client, server]
            return state.isOver
        }
        let line = Line(client: client, server: server)
        guard isConnected, !isOver else { return line.end() }
        Self.run { [self] in
            pumpRequests(line)
            line.end()
        }
        Self.run { [self] in
            pumpAnswers(line)
            line.end()
            line.ended.wait()
            state.withLock { $0.open.removeAll { $0 == client || $0 == server } }
            Glibc.close(client)
            Glibc.close(server)
        }
    }

    private final class Line: Sendable {
        let client: Int32
        let server: Int32
        /// The next answer ends the connection.
        let isCut = Atomic<Bool>(false)
        let ended = DispatchSemaphore(value: 0)

        init(client: Int32, server: Int32) {
            (self.client, self.server) = (client, server)
        }

        func end() {
            shutdown(client, Int32(SHUT_RDWR))
            shutdown(server, Int32(SHUT_RDWR))
        }
    }

    private func pumpRequests(_ line: Line) {
        defer { line.ended.signal() }
        var reader = MessageReader(line.client)
        // The first message has no type.
        guard let start = reader.next(isTyped: false), Self.send(start, line.server) else { return }
        var batch: [UInt8] = []
        var names: Set<String> = []
        var tail: Tail?
        while let message = reader.next() {
            if message[0] == UInt8(ascii: "P"), Self.text(message, 1).contains(watched) { names.insert(Self.text(message, 0)) }
            if message[0] == UInt8(ascii: "B"), tail == nil, names.contains(Self.text(message, 1)) {
                tail = Tail(bytes: 0, texts: 0, whole: 0)
            }
            tail?.bytes += message.count
            if message[0] == UInt8(ascii: "P") { tail?.texts += 1 }
            batch += message
            // Sync, Query, Terminate.
            guard [UInt8(ascii: "S"), UInt8(ascii: "Q"), UInt8(ascii: "X")].contains(message[0]) else { continue }
            if var tail {
                tail.whole = batch.count
                state.withLock { [tail] in $0.tail = tail }
            }
            guard deliver(batch, isTrip: message[0] != UInt8(ascii: "X"), line) else { return }
            (batch, tail) = ([], nil)
        }
    }

    private func deliver(_ batch: [UInt8], isTrip: Bool, _ line: Line) -> Bool {
        guard isTrip else { return Self.send(batch, line.server) }
        let fault = state.withLock { state -> Fault? in
            defer { state.roundTrips += 1 }
            guard let (fault, count) = state.fault, state.roundTrips >= count else { return nil }
            state.fault = nil
            state.hasFailed = true
            return fault
        }
        switch fault {
        case nil: return Self.send(batch, line.server)
        case .cutBefore: return false
        case .cutAfter:
            line.isCut.store(true, ordering: .sequentiallyConsistent)
            return Self.send(batch, line.server)
        case .refuse(let code):
            // `E`: the client will roll back. The server has another opinion, and accepts that, too.
            return Self.send(Self.error("ERROR", code) + [UInt8(ascii: "Z"), 0, 0, 0, 5, UInt8(ascii: "E")], line.client)
        case .end(let code):
            _ = Self.send(Self.error("FATAL", code), line.client)
            return false
        case .stop(let bytes):
            let count = max(0, min(batch.count, bytes < 0 ? batch.count + bytes : bytes))
            guard Self.send(Array(batch[..<count]), line.server) else { return false }
            stopped.signal()
            released.wait()
            return Self.send(Array(batch[count...]), line.server)
        }
    }

    private func pumpAnswers(_ line: Line) {
        var reader = MessageReader(line.server)
        while let message = reader.next() {
            if line.isCut.load(ordering: .sequentiallyConsistent) {
                // The end of the answer: everything is done.
                if message[0] == UInt8(ascii: "Z") { return }
            } else if !Self.send(message, line.client) {
                return
            }
        }
    }

    // MARK: Bytes

    /// - Parameter index: Of the texts that begin a message.
    private static func text(_ message: [UInt8], _ index: Int) -> String {
        let texts = message.dropFirst(5).split(separator: 0, maxSplits: index + 1, omittingEmptySubsequences: false)
        return texts.count > index ? String(decoding: texts[texts.startIndex + index], as: UTF8.self) : ""
    }

    private static func error(_ severity: String, _ code: String) -> [UInt8] {
        let fields = [("S", severity), ("V", severity), ("C", code), ("M", "the test says so")]
        let body: [UInt8] = fields.flatMap { name, text -> [UInt8] in Array(name.utf8) + Array(text.utf8) + [0] } + [0]
        return [UInt8(ascii: "E")] + bigEndian(UInt32(body.count + 4)) + body
    }

    private static func bigEndian(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    private static func send(_ bytes: [UInt8], _ end: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { Glibc.send(end, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    private struct MessageReader {
        private let end: Int32
        private var buffer: [UInt8] = []

        init(_ end: Int32) { self.end = end }

        /// A whole message; `nil`: the connection has ended.
        mutating func next(isTyped: Bool = true) -> [UInt8]? {
            let head = isTyped ? 1 : 0
            guard fill(head + 4) else { return nil }
            let length = buffer[head..<(head + 4)].reduce(0) { $0 << 8 | Int($1) }
            guard fill(head + length) else { return nil }
            defer { buffer.removeFirst(head + length) }
            return Array(buffer[..<(head + length)])
        }

        private mutating func fill(_ count: Int) -> Bool {
            var piece = [UInt8](repeating: 0, count: 65_536)
            while buffer.count < count {
                let read = piece.withUnsafeMutableBytes { recv(end, $0.baseAddress, $0.count, 0) }
                if read < 0, errno == EINTR { continue }
                guard read > 0 else { return false }
                buffer += piece[..<read]
            }
            return true
        }
    }

    private static func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }

    private static func run(_ body: @escaping @Sendable () -> Void) {
        let thread = Thread(block: body)
        thread.stackSize = 1 << 20
        thread.start()
    }
}
