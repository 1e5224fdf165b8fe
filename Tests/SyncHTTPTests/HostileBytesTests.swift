import Glibc
import SyncHTTP
import Testing

/// Unforeseen bytes: whole requests, changed at random, cut at random.
struct HostileBytesTests {
    private static let seeds: [UInt64] = [1, 2, 3, 4]

    @Test("No bytes stop the server, and every answer is a whole one", arguments: seeds)
    func randomBytes(seed: UInt64) async throws {
        var random = Random(state: seed)
        try await withServer(
            admit: { request in
                request.path.hasPrefix("/s")
                    ? .stream(limit: 5_000) { drain($0) }
                    : request.path.hasPrefix("/n") ? .refuse(status: 404, code: "not-found", detail: "") : echo(request)
            }
        ) { surroundings in
            for _ in 0..<150 {
                var bytes = (0..<Int.random(in: 1...4, using: &random)).flatMap { _ in
                    Array(Self.requests.randomElement(using: &random)?.utf8 ?? "".utf8)
                }
                for _ in 0..<Int.random(in: 0...4, using: &random) { mutate(&bytes, &random) }
                let client = try surroundings.client()
                var rest = bytes[...]
                while !rest.isEmpty {
                    let count = Int.random(in: 1...rest.count, using: &random)
                    // The server may have hung up on an earlier part.
                    guard (try? client.send(Array(rest.prefix(count)))) != nil else { break }
                    rest = rest.dropFirst(count)
                }
                client.endSending()
                try readAll(client, "seed \(seed): \(String(decoding: bytes, as: UTF8.self).debugDescription)")
            }
            // And it still serves.
            let client = try surroundings.client()
            try client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().body == "GET /a ")
        }
    }

    /// The server answers every request with a row of whole answers and then the end.
    private func readAll(_ client: Client, _ comment: Comment) throws {
        while true {
            do {
                if try client.isClosed() { return }
                let answer = try client.answer()
                #expect([100, 200, 400, 404, 405, 408, 413, 417, 431, 501, 505].contains(answer.status), comment)
            } catch let failure as Client.Failure where failure.what == "receive \(ECONNRESET)" {
                return  // A reset, after we sent on to a closed connection.
            }
        }
    }

    private func mutate(_ bytes: inout [UInt8], _ random: inout Random) {
        guard !bytes.isEmpty else { return }
        let index = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0...4, using: &random) {
        case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes.remove(at: index)
        case 2: bytes.insert([0, 9, 10, 13, 32, 58, 255].randomElement(using: &random) ?? 0, at: index)
        case 3: bytes.insert(contentsOf: bytes.suffix(from: index).prefix(30), at: index)
        default: bytes.removeSubrange(index..<min(bytes.count, index + 20))
        }
    }

    private static let requests = [
        "GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{\"a\":\"\r\n\r\n\"}",
        "POST /s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;e=f\r\nabc\r\n"
            + "5\r\n\r\n\r\n1\r\n0\r\nT: u\r\n\r\n",
        "PUT /s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nabcde",
        "DELETE /n HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcde",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ]
}

/// Reads a body to its end and answers with its length.
private func drain(_ exchange: HTTPExchange, _ count: Int = 0) {
    exchange.readBody { part in
        switch part {
        case .bytes(let bytes): drain(exchange, count + bytes.count)
        case .end: exchange.respond(status: 200, body: Array("\(count)".utf8))
        case .failed: exchange.abort()
        }
    }
}

private struct Random: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
