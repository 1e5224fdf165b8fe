import SyncCore
import Synchronization

/// A transport that answers from a script and keeps what it was asked.
final class FakeAgent: HTTPTransport {
    struct Answer: Sendable {
        var status = 200
        /// Handed over one after another.
        var pieces: [[UInt8]] = []
        /// Ends the transfer like this after the pieces.
        var error: TransportError?

        init(_ status: Int, _ body: String) { (self.status, pieces) = (status, [Array(body.utf8)]) }
        init(_ status: Int = 200, pieces: [String], error: TransportError? = nil) {
            (self.status, self.pieces, self.error) = (status, pieces.map { Array($0.utf8) }, error)
        }
        init(_ error: TransportError) { self.error = error }
    }

    struct Asked: Sendable {
        var request: HTTPRequest
        var body: [UInt8]
    }

    private let script: Mutex<[Answer]>
    private let requests = Mutex<[Asked]>([])

    init(_ script: Answer...) { self.script = Mutex(script) }

    var asked: [Asked] { requests.withLock { $0 } }

    func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
        let answer = next(request)
        if let error = answer.error { throw error }
        return HTTPResponse(status: answer.status, body: Array(answer.pieces.joined()))
    }

    func stream(
        _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void,
        onBody: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(TransportError) -> HTTPResponse {
        let answer = next(request)
        if answer.pieces.isEmpty, let error = answer.error { throw error }
        onHead(answer.status, [])
        for piece in answer.pieces where !onBody(piece) { return HTTPResponse(status: answer.status) }
        if let error = answer.error { throw error }
        return HTTPResponse(status: answer.status)
    }

    private func next(_ request: HTTPRequest) -> Answer {
        var body: [UInt8] = []
        switch request.body {
        case .none: break
        case .bytes(let bytes): body = bytes
        case .pieces(let source), .sized(_, let source):
            while let piece = source(16) {
                precondition(!piece.isEmpty && piece.count <= 16, "a source gives 1 to 16 bytes, or nothing more")
                body += piece
            }
        }
        requests.withLock { $0.append(Asked(request: request, body: body)) }
        // A script that is too short is a mistake of the test, and shows as a refusal.
        return script.withLock { $0.isEmpty ? Answer(500, "the script has ended") : $0.removeFirst() }
    }
}
