import NIOCore
import NIOEmbedded
import SyncHTTP

extension FuzzTarget {
    /// The server's side of a connection: whatever the bytes are, what comes back is a row of whole answers, no more is held
    /// than the limits say, and neither the requests nor the answers depend on where the bytes were cut.
    static let localHTTP = FuzzTarget("local-http", lengthMax: 2_048) { bytes in
        let whole = try Served(bytes: [bytes[...]])
        let cut = try Served(bytes: bytes[...].pieces)
        try claim(
            whole.requests == cut.requests, "requests depend on where the bytes are cut: \(whole.requests) and \(cut.requests)")
        let answers = try whole.answers(), again = try cut.answers()
        // A message that is wrong in two ways is refused for the one that shows first, and that is a matter of the pieces.
        let isSame =
            answers.count == again.count && zip(answers, again).allSatisfy { $0 == $1 || ($0.status >= 400 && $1.status >= 400) }
        try claim(isSame, "answers depend on where the bytes are cut: \(answers.map(\.status)) and \(again.map(\.status))")
        for request in whole.requests {
            try claim(request.target.hasPrefix("/") || request.target == "*", "a target \(request.target)")
            try claim(request.body <= Served.bodyMax, "a body of \(request.body) bytes")
        }
    }
}

/// The requests that a connection read from some bytes.
private struct Served {
    struct Request: Hashable {
        var method: String
        var target: String
        var body: Int
    }

    static let bodyMax = 256

    private(set) var requests: [Request] = []
    private var sent: [UInt8] = []

    init(bytes pieces: [ArraySlice<UInt8>]) throws {
        let seen = Seen()
        var configuration = HTTPServerConfiguration(
            endpoint: .tcp(host: "127.0.0.1", port: 0), problemBody: { Array("\($0.code): \($0.detail)".utf8) })
        configuration.limits.headFields = 16
        let channel = EmbeddedChannel()
        try HTTPServer.serve(channel, configuration, handler: seen)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        for piece in pieces where channel.isActive {
            try channel.writeInbound(ByteBuffer(bytes: piece))
            channel.embeddedEventLoop.run()
        }
        if channel.isActive { channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
        channel.embeddedEventLoop.run()
        while let buffer = try channel.readOutbound(as: ByteBuffer.self) { sent += buffer.readableBytesView }
        // Bytes that are left over belong to no request.
        _ = try? channel.finish(acceptAlreadyClosed: true)
        requests = seen.requests
    }

    struct Answer: Hashable {
        var status: Int
        var bytes: [UInt8]
    }

    /// Each begins as an answer and has as many bytes as it says; nothing is left over.
    func answers() throws -> [Answer] {
        var answers: [Answer] = []
        var rest = sent[...]
        while !rest.isEmpty {
            guard rest.starts(with: Array("HTTP/1.1 ".utf8)), let status = Int(rest.dropFirst(9).prefix(3).asText) else {
                throw Broken("an answer begins with \(rest.prefix(20).asText)")
            }
            guard let end = rest.indices.first(where: { rest[$0...].starts(with: [13, 10, 13, 10]) }) else {
                throw Broken("an answer without the end of its head")
            }
            let fields = rest[..<end].asText.split(separator: "\r\n").dropFirst().map { $0.split(separator: ":", maxSplits: 1) }
            let length = fields.first { $0[0].lowercased() == "content-length" }?.last.flatMap { Int($0.filter { $0 != " " }) }
            try claim(status == 100 || length != nil, "an answer \(status) without a length")
            // The answer to HEAD says a length and has no body.
            let count = length ?? 0, isHead = rest[(end + 4)...].starts(with: Array("HTTP/1.1 ".utf8))
            let whole = rest.prefix(end + 4 - rest.startIndex + (isHead ? 0 : min(count, rest.endIndex - end - 4)))
            answers.append(Answer(status: status, bytes: Array(whole)))
            rest = rest.dropFirst(whole.count)
        }
        return answers
    }
}

/// Reads each body to its end and answers with its length; every other path collects instead of streaming.
private final class Seen: HTTPHandler, @unchecked Sendable {
    // Sendable because an embedded channel runs everything on the thread that feeds it.
    private(set) var requests: [Served.Request] = []

    func admit(_ request: RequestHead) -> HTTPAdmission {
        if request.path.hasPrefix("/n") { return .refuse(status: 404, code: "not-found", detail: "there is no such thing") }
        if request.path.hasPrefix("/s") { return .stream(limit: Served.bodyMax) { self.drain($0, 0) } }
        return .collect(limit: Served.bodyMax) { exchange, body in self.answer(exchange, body.count) }
    }

    private func drain(_ exchange: HTTPExchange, _ count: Int) {
        exchange.readBody { part in
            switch part {
            case .bytes(let bytes): self.drain(exchange, count + bytes.count)
            case .end: self.answer(exchange, count)
            case .failed: exchange.abort()
            }
        }
    }

    private func answer(_ exchange: HTTPExchange, _ count: Int) {
        let request = exchange.request
        requests.append(Served.Request(method: request.method.rawValue, target: request.target, body: count))
        exchange.respond(
            status: 200, headers: [("Content-Type", "text/plain")], body: request.method == .head ? [] : Array("\(count)".utf8))
    }
}
