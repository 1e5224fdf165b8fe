/// Mutations that go in one request of lines.
struct LineBatch {
    struct Line {
        var index: Int
        var key: String
        var bytes: [UInt8]
    }

    private(set) var lines: [Line] = []
    private var size = 0

    var isFull: Bool { lines.count >= Limits.batchLines || size >= Limits.batchBytes }

    mutating func append(_ mutation: Mutation, key: String, index: Int) throws(EdgeSyncError) {
        // The line does not hold its place, so that a repeat at another place has the same bytes.
        var line: JSONObject = ["idempotency_key": .string(key)]
        for (name, value) in try mutation.body() { line[name] = value }
        let bytes = try JSONWriter.bytes(of: line) + [0x0A]
        size += bytes.count
        lines.append(Line(index: index, key: key, bytes: bytes))
    }

    /// The request with the lines from this place on.
    func request(from place: Int) throws(EdgeSyncError) -> Request {
        try Request(
            "POST", "/v1/mutations/bulk", fields: [("Content-Type", "application/x-ndjson")],
            body: .bytes(Array(lines[place...].map(\.bytes).joined())))
    }
}

extension Session {
    /// Sends a batch until each of its lines is answered. Their keys make a line that was stored before a connection broke a
    /// repeat.
    func send(_ batch: LineBatch, _ deadline: Duration?) async throws(EdgeSyncError) -> [LineResult] {
        var results: [LineResult] = []
        var tries = Tries(try call(deadline), try batch.request(from: 0), self)
        while results.count < batch.lines.count {
            let before = results.count
            do {
                try await read(batch.lines[before...], try batch.request(from: before), tries.call, into: &results)
            } catch {
                // Only the end of the answer may be missing.
                if results.count == batch.lines.count, error.kind == .brokenAnswer { break }
                if results.count > before { tries.succeeded() }
                try await tries.failed(error, wasSent: true)
            }
        }
        return results
    }

    private func read(
        _ lines: ArraySlice<LineBatch.Line>, _ request: Request, _ call: Call, into results: inout [LineResult]
    ) async throws(EdgeSyncError) {
        try await places.acquire(within: call.left(), environment)
        defer { places.release() }
        let connection = try Connection()
        let exchange = try await open(connection, request, end: .monotonicNow() + call.left())
        let status = try await connection.perform { () throws(EdgeSyncError) in try exchange.readHead() }.get()
        if status != 200 {
            try await connection.perform { () throws(EdgeSyncError) in try exchange.readAll() }.get().checkStatus()
            throw .badAnswer("the agent answered with the status \(status)")
        }
        var answers = LineAnswers(lines)
        while true {
            let piece = try await connection.perform { () throws(EdgeSyncError) in try exchange.readPiece() }.get()
            if piece.isEmpty { break }
            results += try answers.feed(piece)
        }
        try answers.end()
    }
}

/// Reads the answers to a batch, however they are cut into pieces.
private struct LineAnswers {
    private let lines: ArraySlice<LineBatch.Line>
    private var next: Int
    private var buffer: [UInt8] = []

    init(_ lines: ArraySlice<LineBatch.Line>) {
        self.lines = lines
        next = lines.startIndex
    }

    mutating func feed(_ bytes: [UInt8]) throws(EdgeSyncError) -> [LineResult] {
        var results: [LineResult] = []
        buffer += bytes
        var begin = 0
        while let end = buffer[begin...].firstIndex(of: 0x0A) {
            if let result = try read(Array(buffer[begin..<end])) { results.append(result) }
            begin = end + 1
        }
        buffer.removeFirst(begin)
        guard buffer.count <= Limits.eventBytes else {
            throw .badAnswer("a line of the answer has more than \(Limits.eventBytes) bytes")
        }
        return results
    }

    func end() throws(EdgeSyncError) {
        guard next == lines.endIndex else {
            throw .brokenAnswer("the agent answered \(next - lines.startIndex) of \(lines.count) mutations")
        }
    }

    private mutating func read(_ text: [UInt8]) throws(EdgeSyncError) -> LineResult? {
        let value: JSONValue
        do { value = try JSONParser.parse(text) } catch { throw .badAnswer("a line of the answer is not JSON: \(error)") }
        if value["summary"] != nil { return nil }
        guard next < lines.endIndex, value["line"]?.integer == Int64(next - lines.startIndex + 1) else {
            throw .badAnswer("a line of the answer belongs to no mutation")
        }
        let line = lines[next]
        let result: Result<String, EdgeSyncError>
        if let error = value["error"] {
            guard let problem = EdgeSyncError.problem(error) else { throw .badAnswer("a refusal has no type") }
            result = .failure(problem)
        } else {
            result = .success(try Members(value, "a line of the answer").text("id"))
        }
        next += 1
        return LineResult(index: line.index, key: line.key, result: result, isRepeat: value["repeat"]?.bool ?? false)
    }
}
