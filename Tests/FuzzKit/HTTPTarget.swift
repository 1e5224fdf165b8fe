import NIOCore
import NIOEmbedded
import SyncHTTP

extension FuzzTarget {
    /// The server's side of a connection: whatever the bytes are, what comes back is a row of whole answers, no more is held
    /// than the limits say, and neither the requests nor the answers depend on where the bytes were cut.
    static let localHTTP = FuzzTarget("local-http", lengthMax: 2_048) { bytes in
        let whole = try Served(bytes: [bytes[...]])
        let cut = try Served(bytes: bytes[...].pieces)
        try claim(whole.requests == cut.requests, "requests depend on where the bytes are cut: \(whole.requests) and \(cut.requests)")
        try claim(whole.answers == cut.answers, "answers depend on where the bytes are cut")
        try whole.claimWhole()
        for request in whole.requests {
            try claim(request.target.hasPrefix("/") || request.target == "*", "a target \(request.target)")
            try claim(request.body <= Served.bodyMax, "a body of \(request.body) bytes")
        }
    }
}

/// What a connection made of some bytes.
private struct Served {
    struct Request: Hashable {
        var method: String
        var target: String
        var body: Int
    }

    static let bodyMax = 256

    private(set) var requests: [Request] = []
    private(set) var answers: [UInt8] = []

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
        while let buffer = try channel.readOutbound(as: ByteBuffer.self) { answers += buffer.readableBytesView }
        // Whatever was left over was not for anybody.
        _ = try? channel.finish(acceptAlreadyClosed: true)
        requests = seen.requests
    }

    /// Each answer begins as one and has as many bytes as it says.
    func claimWhole() throws {
        var rest = answers[...]
        while !rest.isEmpty {
            try claim(rest.starts(with: Array("HTTP/1.1 ".utf8)), "an answer begins with \(rest.prefix(20).asText)")
            guard let end = rest.indices.first(where: { rest[$0...].starts(with: [13, 10, 13, 10]) }) else {
                throw Broken("an answer without the end of its head")
            }
            let head = rest[..<end].asText
            rest = rest[(end + 4)...]
            let fields = head.split(separator: "\r\n").dropFirst().map { $0.split(separator: ":", maxSplits: 1).map(String.init) }
            guard let length = fields.first(where: { $0[0].lowercased() == "content-length" })?.last,
                let count = Int(length.filter { $0 != " " }), count <= rest.count
            else {
                try claim(head.hasPrefix("HTTP/1.1 100"), "an answer without a length: \(head)")
                continue
            }
            rest = rest.dropFirst(count)
        }
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
        exchange.respond(status: 200, headers: [("Content-Type", "text/plain")], body: request.method == .head ? [] : Array("\(count)".utf8))
    }
}
