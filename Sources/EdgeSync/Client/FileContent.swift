/// The bytes of ``AgentClient/content(of:wait:deadline:)``.
public struct FileContent: AsyncSequence, Sendable {
    public typealias Element = [UInt8]
    public typealias Failure = EdgeSyncError

    let session: Session
    let name: String
    let wait: Duration
    let deadline: Duration?

    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let content: FileContent
        private var wait: FileWait
        private var open: (connection: Connection, exchange: Exchange)?
        private var offset = 0
        private var digest: String?
        private var hash = SHA256()
        private var hasEnded = false

        init(_ content: FileContent) {
            self.content = content
            wait = FileWait(content.wait)
        }

        public mutating func next() async throws(EdgeSyncError) -> [UInt8]? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(EdgeSyncError) -> [UInt8]? {
            if hasEnded { return nil }
            let session = content.session
            var tries = Tries(try session.call(content.deadline), try request(waiting: 0), session)
            while true {
                let (asked, began) = (open == nil ? wait.slice : 0, session.environment.now())
                do {
                    let (connection, exchange) = try await connect(tries.call, asked)
                    // The app may take any time between two pieces, so each of them has its own end.
                    let pieceEnd = Duration.monotonicNow() + tries.call.deadline
                    let piece = try await connection.perform { () throws(EdgeSyncError) in
                        exchange.end = pieceEnd
                        return try exchange.readPiece()
                    }.get()
                    hash.update(piece)
                    offset += piece.count
                    if !piece.isEmpty { return piece }
                    try end()
                    return nil
                } catch {
                    let wasOpen = open != nil
                    open = nil
                    let spent = session.environment.now() - began
                    do {
                        try await goOn(after: error, spent, asked, wasOpen: wasOpen, &tries)
                    } catch {
                        hasEnded = true
                        throw error
                    }
                }
            }
        }

        /// Waits for the next try.
        ///
        /// - Parameters:
        ///   - spent: Time that the failed try took.
        ///   - asked: Seconds that the agent was to wait for the file.
        /// - Throws: The error, if there is no other try.
        private nonisolated(nonsending) mutating func goOn(
            after error: EdgeSyncError, _ spent: Duration, _ asked: Int, wasOpen: Bool, _ tries: inout Tries
        ) async throws(EdgeSyncError) {
            guard error.code == .blobFetching else {
                if !wasOpen {
                    wait.passed(spent)
                    tries.call.exempt(Swift.min(spent, .seconds(asked)))
                }
                return try await tries.failed(error, wasSent: true)
            }
            guard let pause = wait.again(after: spent, asked: asked) else {
                var error = error
                error.request = try request(waiting: 0).name
                throw error
            }
            // The agent is there, so the time in which it may be away begins again.
            tries.succeeded()
            try await content.session.pause(pause)
        }

        private func request(waiting seconds: Int) throws(EdgeSyncError) -> Request {
            let query = Request.query([("wait", seconds > 0 ? "\(seconds)s" : nil)])
            return try Request(
                "GET", try Request.path("blobs", content.name, "content") + query,
                fields: offset > 0 ? [("Range", "bytes=\(offset)-")] : [], silence: Limits.answerSilence + .seconds(seconds))
        }

        private nonisolated(nonsending) mutating func connect(
            _ call: Call, _ asked: Int
        ) async throws(EdgeSyncError) -> (connection: Connection, exchange: Exchange) {
            if let open { return open }
            if digest == nil { digest = try FileDigest.expected(by: content.name) }
            let connection = try Connection()
            let end = Duration.monotonicNow() + (try call.left()) + .seconds(asked)
            let exchange = try await content.session.open(connection, try request(waiting: asked), end: end)
            let status = try await connection.perform { () throws(EdgeSyncError) in try exchange.readHead() }.get()
            if status == 416, offset > 0 { throw .badAnswer("the file has become shorter while it was read") }
            if status != 200, status != 206 {
                try await connection.perform { () throws(EdgeSyncError) in try exchange.readAll() }.get().checkStatus()
                throw .badAnswer("the agent answered with the status \(status)")
            }
            let range = exchange.reader.fields["content-range"] ?? ""
            let begin = status == 200 ? 0 : Int(range.dropFirst("bytes ".count).prefix { $0.isNumber }) ?? -1
            guard begin == offset else { throw .badAnswer("the agent sent another part of the file than it was asked for") }
            guard let said = exchange.reader.fields["repr-digest"] else {
                throw .badAnswer("the agent does not say which digest the file has")
            }
            guard digest == nil || digest == said else {
                let what = offset > 0 ? "the file has changed while it was read" : "the agent sent another file than it was asked for"
                throw .badAnswer(what)
            }
            digest = said
            open = (connection, exchange)
            return (connection, exchange)
        }

        private mutating func end() throws(EdgeSyncError) {
            (open, hasEnded) = (nil, true)
            guard digest != "sha-256=:\(hash.base64()):" else { return }
            throw EdgeSyncError(
                .badAnswer, code: .digestMismatch, "the bytes of the file \(content.name) are not those that its digest names",
                nextStep: "read the file again; if it stays so, run: agentctl doctor", command: "agentctl doctor")
        }
    }
}

/// The time that a call waits for a file, in slices: each is one request that the agent answers at its end.
package struct FileWait: Sendable {
    private var left: Duration

    package init(_ time: Duration) {
        left = max(.zero, time)
    }

    /// Seconds that the agent shall wait before its next answer; 0: it shall answer at once.
    package var slice: Int { Int(min(left.components.seconds, Int64(Limits.fileWaitSeconds))) }

    package mutating func passed(_ time: Duration) {
        left = max(.zero, left - time)
    }

    /// Decides what follows the answer that the file is not here yet.
    ///
    /// - Parameters:
    ///   - spent: Time that the answer took.
    ///   - asked: Seconds that it should have taken at most.
    /// - Returns: The pause before the next request; `nil`: the time is over.
    package mutating func again(after spent: Duration, asked: Int) -> Duration? {
        passed(spent)
        guard left > .zero else { return nil }
        // The agent waits whole seconds. One that answers too early is not asked all the time.
        let pause = asked > 0 && spent >= .seconds(asked) && left >= .seconds(1) ? .zero : min(.seconds(1), left)
        left -= pause
        return pause
    }
}

/// Digests of files, in the two forms that the agent has for them.
enum FileDigest {
    /// The field `Repr-Digest` of a file that is named by its digest; `nil` if the name is an id.
    ///
    /// - Throws: `invalidArgument` for a digest that cannot be one.
    static func expected(by name: String) throws(EdgeSyncError) -> String? {
        guard name.utf8.starts(with: "sha256:".utf8) else { return nil }
        let digits = Array(name.utf8.dropFirst("sha256:".utf8.count))
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count - digits.count % 2, by: 2) {
            guard let high = value(digits[index]), let low = value(digits[index + 1]) else { break }
            bytes.append(high << 4 | low)
        }
        guard digits.count == 64, bytes.count == 32 else {
            throw .invalidArgument("\(name) is no digest: expected sha256: and 64 of the characters 0-9 a-f")
        }
        return "sha-256=:\(SHA256.base64(bytes)):"
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
