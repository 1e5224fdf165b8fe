extension AgentClient {
    /// Gives a file to the agent. The file is copied and on flash when this returns, and the original may change or go.
    ///
    /// Equal bytes are one file to the agent, so a repeat needs no key.
    ///
    /// - Parameters:
    ///   - path: Path of a regular file.
    ///   - filename: Name for people; the last part of the path if `nil`.
    ///   - type: Media type.
    ///   - reader: `app` sends the bytes. With `agent` the agent opens the file, which must be below a folder that its
    ///     configuration names.
    public func addFile(
        at path: String, filename: String? = nil, type: String = "application/octet-stream",
        readBy reader: StoredFile.Reader = .app, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> StoredFile {
        let name = filename ?? path.split(separator: "/").last.map { String($0) } ?? ""
        switch reader {
        case .app: return try await addFile(.file(path: path), name, type, deadline)
        case .agent:
            let body: JSONObject = ["path": .string(path)]
            let request = try Request(
                "POST", "/v1/blobs" + Request.query([("filename", name), ("type", type)]),
                fields: [("Content-Type", "application/json"), ("Blob-Source", "path")],
                body: .bytes(try JSONWriter.bytes(of: body)), silence: Limits.fileTime)
            return try await session.ask(request, deadline ?? Limits.fileTime) { it throws(EdgeSyncError) in try StoredFile(it) }
        }
    }

    /// Gives bytes to the agent as a file. They are on flash when this returns.
    public func addFile(
        bytes: [UInt8], filename: String, type: String = "application/octet-stream", deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> StoredFile {
        try await addFile(.bytes(bytes), filename, type, deadline)
    }

    private func addFile(
        _ body: Request.Body, _ filename: String, _ type: String, _ deadline: Duration?
    ) async throws(EdgeSyncError) -> StoredFile {
        let request = try Request(
            "POST", "/v1/blobs" + Request.query([("filename", filename.isEmpty ? nil : filename)]),
            fields: [("Content-Type", type)], body: body, silence: Limits.fileTime)
        return try await session.ask(request, deadline ?? Limits.fileTime) { it throws(EdgeSyncError) in try StoredFile(it) }
    }

    /// Reads the state of a file and of its upload.
    public func file(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        try await session.ask(try Request("GET", try Request.path("blobs", id)), deadline) { it throws(EdgeSyncError) in
            try StoredFile(it)
        }
    }

    /// The files that the agent knows and this app may see, page by page as they are read.
    ///
    /// - Parameter deadline: Time of each page.
    public func files(states: [String] = [], deadline: Duration? = nil) -> Pages<StoredFile> {
        Pages { [session] after throws(EdgeSyncError) in
            let query = Request.query([
                ("state", states.isEmpty ? nil : states.joined(separator: ",")), ("after", after),
                ("limit", String(Limits.pageItems)),
            ])
            return try await session.ask(try Request("GET", "/v1/blobs" + query), deadline) { it throws(EdgeSyncError) in
                try Page(it) { item throws(EdgeSyncError) in try StoredFile(item) }
            }
        }
    }

    /// Tries the upload of a failed file again.
    @discardableResult
    public func retryFile(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        // The route takes no body, not even an empty object.
        let request = try Request("POST", try Request.path("blobs", id, "retry"))
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try StoredFile(it) }
    }

    /// The bytes of a file in pieces of at most 64 KiB. Reading goes on where a connection broke.
    ///
    /// Behind the last piece the bytes are compared with the digest that the agent names. If they differ, reading throws
    /// `digestMismatch`.
    ///
    /// - Parameter deadline: Time of each piece.
    public func content(of id: String, deadline: Duration? = nil) -> FileContent {
        FileContent(session: session, id: id, deadline: deadline)
    }

    /// All bytes of a file.
    ///
    /// - Parameter max: Limit of bytes, which bounds the memory.
    /// - Throws: `tooLarge` if the file is larger.
    public func bytes(of id: String, max: Int = 16 << 20, deadline: Duration? = nil) async throws(EdgeSyncError) -> [UInt8] {
        var bytes: [UInt8] = []
        var iterator = content(of: id, deadline: deadline).makeAsyncIterator()
        while let piece = try await iterator.next(isolation: nil) {
            guard bytes.count + piece.count <= max else {
                throw EdgeSyncError(
                    .badAnswer, code: .tooLarge, "the file \(id) has more than \(max) bytes", nextStep: "read it piece by piece")
            }
            bytes += piece
        }
        return bytes
    }
}

extension StoredFile {
    /// The program that reads the bytes of a file that is added.
    public enum Reader: Sendable {
        case app, agent
    }
}

/// The bytes of ``AgentClient/content(of:deadline:)``.
public struct FileContent: AsyncSequence, Sendable {
    public typealias Element = [UInt8]
    public typealias Failure = EdgeSyncError

    let session: Session
    let id: String
    let deadline: Duration?

    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let content: FileContent
        private var open: (connection: Connection, exchange: Exchange)?
        private var offset = 0
        private var digest: String?
        private var hash = SHA256()
        private var hasEnded = false

        init(_ content: FileContent) {
            self.content = content
        }

        public mutating func next() async throws(EdgeSyncError) -> [UInt8]? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(EdgeSyncError) -> [UInt8]? {
            if hasEnded { return nil }
            let session = content.session
            let fields = offset > 0 ? [("Range", "bytes=\(offset)-")] : []
            let request = try Request("GET", try Request.path("blobs", content.id, "content"), fields: fields)
            var tries = Tries(try session.call(content.deadline), request, session)
            while true {
                do {
                    let (connection, exchange) = try await connect(request, tries.call)
                    // The app may take any time between two pieces, so each of them has its own end.
                    let pieceEnd = Duration.monotonicNow() + (try tries.call.left())
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
                    open = nil
                    do { try await tries.failed(error, wasSent: true) } catch {
                        hasEnded = true
                        throw error
                    }
                }
            }
        }

        private nonisolated(nonsending) mutating func connect(
            _ request: Request, _ call: Call
        ) async throws(EdgeSyncError) -> (connection: Connection, exchange: Exchange) {
            if let open { return open }
            let session = content.session
            let connection = try Connection()
            let exchange = try await session.open(connection, request, end: .monotonicNow() + call.left())
            let status = try await connection.perform { () throws(EdgeSyncError) in try exchange.readHead() }.get()
            let head = Response(status: status, fields: exchange.reader.fields, body: [])
            if status == 416, offset > 0 { throw .badAnswer("the file has become shorter while it was read") }
            if status != 200, status != 206 {
                try await connection.perform { () throws(EdgeSyncError) in try exchange.readAll() }.get().checkStatus()
                throw .badAnswer("the agent answered with the status \(status)")
            }
            let range = head.fields["content-range"] ?? ""
            let begin = status == 200 ? 0 : Int(range.dropFirst("bytes ".count).prefix { $0.isNumber }) ?? -1
            guard begin == offset else { throw .badAnswer("the agent sent another part of the file than it was asked for") }
            let said = head.fields["repr-digest"]
            guard digest == nil || digest == said else { throw .badAnswer("the file has changed while it was read") }
            digest = said
            open = (connection, exchange)
            return (connection, exchange)
        }

        private mutating func end() throws(EdgeSyncError) {
            (open, hasEnded) = (nil, true)
            guard let digest, digest != "sha-256=:\(hash.base64()):" else { return }
            throw EdgeSyncError(
                .badAnswer, code: .digestMismatch, "the bytes of the file \(content.id) are not those that its digest names",
                nextStep: "read the file again; if it stays so, run: agentctl doctor", command: "agentctl doctor")
        }
    }
}
