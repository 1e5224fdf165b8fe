import CSyncLinux
import Glibc
package import SyncCore

/// Sends one request over a Unix socket with a descriptor attached (`SCM_RIGHTS`, unix(7)), which libcurl cannot do. It blocks the calling
/// thread until the answer is whole, so it is for a program without other work.
package struct DescriptorSender: Sendable {
    /// Size limit of an answer.
    private static let answerBytesMax = 1 << 20

    private let socketPath: String

    package init(socketPath: String) {
        self.socketPath = socketPath
    }

    /// - Parameters:
    ///   - head: A whole request without a body; it asks for `Connection: close`.
    ///   - descriptor: Descriptor to send. It stays open in this process.
    package func send(_ head: [UInt8], with descriptor: Int32) throws(TransportError) -> HTTPResponse {
        let socket = sync_unix_connect(socketPath)
        guard socket >= 0 else {
            // In brackets, as the detail of curl has the system's message: `AgentError` takes it from there.
            let message = String(cString: strerror(errno))
            throw TransportError(.unreachable, doing: "connect to \(socketPath)", detail: "no connection (\(message))")
        }
        defer { close(socket) }
        guard withUnsafePointer(to: descriptor, { sync_send_descriptors(socket, head, head.count, $0, 1) }) == 0 else {
            throw Self.failure(.broken, "send the request to \(socketPath)")
        }
        var answer: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while answer.count <= Self.answerBytesMax {
            let count = read(socket, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure(.broken, "receive the answer of \(socketPath)") }
            if count == 0 { return try Self.parse(answer, from: socketPath) }
            answer += piece[..<count]
        }
        throw TransportError(.tooLarge, doing: "receive the answer of \(socketPath)", detail: "more than \(Self.answerBytesMax) bytes")
    }

    private static func parse(_ answer: [UInt8], from path: String) throws(TransportError) -> HTTPResponse {
        let text = String(decoding: answer, as: UTF8.self)
        let malformed = TransportError(.malformed, doing: "receive the answer of \(path)", detail: "it is no whole HTTP answer")
        var lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)[...]
        guard let first = lines.popFirst(), first.hasPrefix("HTTP/1.1 "), let status = Int(first.dropFirst(9).prefix(3)) else {
            throw malformed
        }
        var headers: HTTPHeaders = []
        var size = first.utf8.count + 2
        while let line = lines.popFirst() {
            size += line.utf8.count + 2
            if line.isEmpty {
                let body = Array(answer.dropFirst(size))
                guard Tus.count(headers["Content-Length"]).map({ $0 == body.count }) ?? true else { throw malformed }
                return HTTPResponse(status: status, headers: headers, body: body)
            }
            guard let colon = line.firstIndex(of: ":") else { throw malformed }
            headers.append(String(line[..<colon]), line[line.index(after: colon)...].trimmingSpaces)
        }
        throw malformed
    }

    private static func failure(_ code: TransportError.Code, _ doing: String) -> TransportError {
        TransportError(code, doing: doing, detail: String(cString: strerror(errno)))
    }
}
