import Glibc

/// One request on one connection, sent and read at the same time.
///
/// The agent may answer before it has read the whole request, and may stop reading while its answers are not read. So each step
/// moves what can be moved, in either direction.
///
/// Sendable without a check of the compiler: only the thread of the connection uses it, one call at a time.
final class Exchange: @unchecked Sendable {
    private(set) var reader = ResponseReader()
    /// Bytes of the request have left this process.
    private(set) var wasSent = false
    /// Time of the monotonic clock at which the next step fails; `nil` if it may take any time.
    var end: Duration?

    private let socket: UnixSocket
    private let silence: Duration
    private var output: ArraySlice<UInt8>
    private var file: SentFile?
    private var input = [UInt8](repeating: 0, count: Limits.pieceBytes)

    /// - Throws: `invalidArgument` if the file of the request cannot be read.
    init(_ request: Request, _ socket: UnixSocket, end: Duration?) throws(EdgeSyncError) {
        self.socket = socket
        self.end = end
        silence = request.silence
        switch request.body {
        case .bytes(let bytes): output = (request.head(length: bytes.count) + bytes)[...]
        case .file(let path):
            let file = try SentFile(path)
            output = request.head(length: file.size)[...]
            self.file = file
        }
    }

    /// Sends until the head of the answer is there.
    func readHead() throws(EdgeSyncError) -> Int {
        while true {
            if let status = reader.status { return status }
            try move()
        }
    }

    /// The next bytes of the body; empty at its end.
    func readPiece() throws(EdgeSyncError) -> [UInt8] {
        while true {
            let piece = reader.takeBody()
            if !piece.isEmpty || reader.isComplete { return piece }
            try move()
        }
    }

    /// The whole answer.
    func readAll() throws(EdgeSyncError) -> Response {
        let status = try readHead()
        var body: [UInt8] = []
        while true {
            let piece = try readPiece()
            if piece.isEmpty { return Response(status: status, fields: reader.fields, body: body) }
            body += piece
            guard body.count <= Limits.answerBytes else {
                throw .badAnswer("the answer has more than \(Limits.answerBytes) bytes")
            }
        }
    }

    // MARK: Steps

    /// Waits until bytes moved. The time between two calls, in which the app handles what came, is no silence of the agent.
    private func move() throws(EdgeSyncError) {
        var now = Duration.monotonicNow()
        let silenceEnd = now + silence
        while true {
            if let end, now >= end { throw .deadlinePassed("there was no answer in time") }
            if output.isEmpty, let file { output = try file.next()[...] }
            let moved = try write() ? true : try read()
            if moved { return }
            guard now < silenceEnd else { throw .brokenAnswer("the agent was silent for \(silence.components.seconds) s") }
            socket.wait(writing: !output.isEmpty, min(silenceEnd, end ?? silenceEnd) - now)
            now = .monotonicNow()
        }
    }

    /// - Returns: `true` if a byte moved.
    private func write() throws(EdgeSyncError) -> Bool {
        guard !output.isEmpty else { return false }
        switch socket.write(output) {
        case .bytes(let count):
            wasSent = true
            output = output.dropFirst(count)
            return true
        case .nothing: return false
        case .end, .failure:
            // The answer that says why may be there all the same.
            (output, file) = ([], nil)
            return false
        }
    }

    private func read() throws(EdgeSyncError) -> Bool {
        switch socket.read(into: &input) {
        case .bytes(let count):
            try reader.feed(input[..<count])
            // A refusal, and the agent does not want the rest.
            if let status = reader.status, status >= 400 { (output, file) = ([], nil) }
            return true
        case .nothing: return false
        case .end, .failure:
            try reader.end()
            return true
        }
    }
}

/// An answer as a whole.
struct Response: Sendable {
    var status: Int
    var fields: [String: String]
    var body: [UInt8]

    /// - Throws: The refusal, if the answer is one.
    func checkStatus() throws(EdgeSyncError) {
        if status >= 400 { throw .refusal(status: status, body: body, retryAfter: fields["retry-after"]) }
        guard (200..<300).contains(status) || status == 304 else {
            throw .badAnswer("the agent answered with the status \(status)")
        }
    }

    func checkType(_ expected: String) throws(EdgeSyncError) {
        let type = (fields["content-type"] ?? "").prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        guard type == expected else {
            throw .badAnswer("the answer is of the type \(type.isEmpty ? "nothing" : type), and not \(expected)")
        }
    }

    func json() throws(EdgeSyncError) -> JSONValue {
        try checkType("application/json")
        do { return try JSONParser.parse(body) } catch { throw .badAnswer("the answer is not JSON: \(error)") }
    }

    func members() throws(EdgeSyncError) -> Members { try Members(json()) }
}

/// A regular file that is sent from its beginning to its end.
private final class SentFile {
    let size: Int
    private let path: String
    private let descriptor: Int32
    private var left: Int

    init(_ path: String) throws(EdgeSyncError) {
        self.path = path
        descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0 else {
            let reason = String(cString: strerror(errno))
            if descriptor >= 0 { close(descriptor) }
            throw .invalidArgument("the file \(path) cannot be read: \(reason)")
        }
        size = Int(status.st_size)
        left = size
        guard status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw .invalidArgument("\(path) is not a regular file")
        }
    }

    deinit {
        close(descriptor)
    }

    /// The next bytes; empty at the end.
    ///
    /// - Throws: `invalidArgument` if the file has another size than when it was opened.
    func next() throws(EdgeSyncError) -> [UInt8] {
        guard left > 0 else { return [] }
        let piece = [UInt8](unsafeUninitializedCapacity: min(left, Limits.pieceBytes)) { buffer, count in
            var result = -1
            repeat { result = Glibc.read(descriptor, buffer.baseAddress, buffer.count) } while result < 0 && errno == EINTR
            count = max(0, result)
        }
        guard !piece.isEmpty else { throw .invalidArgument("the file \(path) became shorter while it was sent") }
        left -= piece.count
        return piece
    }
}
