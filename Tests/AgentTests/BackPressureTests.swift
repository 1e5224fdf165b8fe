import LocalAPI
import SyncCore
import Testing

/// A client that sends and does not read must not fill the memory of the agent with its answers.
struct BackPressureTests {
    /// HTTP/1.0, so that the answer has no chunks.
    private func begin(_ stand: AgentStand, lines: Int) throws -> (RawConnection, body: [UInt8]) {
        let connection = try RawConnection(stand.socket)
        let body = [UInt8]((0..<lines).flatMap { _ in [UInt8(ascii: "x"), UInt8(ascii: "\n")] })
        try connection.send(
            "POST /v1/mutations/bulk HTTP/1.0\r\nContent-Type: application/x-ndjson\r\n"
                + "Content-Length: \(body.count)\r\n\r\n")
        return (connection, body)
    }

    @Test("A stream of tiny lines without a reader of the answers is accepted up to the socket's buffers and one piece")
    func unreadAnswers() async throws {
        let stand = try await AgentStand.start("entities: { readings: { kind: event } }\n")
        let taken = try await taken(by: stand, lines: 600_000)
        #expect(taken < 640 << 10, "\(taken) bytes were accepted")
        try await stand.stop()
    }

    /// The connection is closed when this returns: an agent that stops gives a client five seconds to read its answers.
    ///
    /// - Returns: The number of bytes that went.
    private func taken(by stand: AgentStand, lines: Int) async throws -> Int {
        let (connection, body) = try begin(stand, lines: lines)
        // The agent has stopped reading when nothing more goes, although its loop and its store have had many turns.
        var taken = 0
        var idleRounds = 0
        while idleRounds < 20, taken < body.count {
            let more = connection.sendNow(body[taken...])
            taken += more
            idleRounds = more == 0 ? idleRounds + 1 : 0
            try await stand.untilQuiet()
        }
        return taken
    }

    @Test("Lines that waited because their answers were not read are all answered once they are")
    func readLater() async throws {
        let stand = try await AgentStand.start("entities: { readings: { kind: event } }\n")
        let (connection, body) = try begin(stand, lines: 40_000)
        #expect(connection.sendNow(body[...]) == body.count)
        try await stand.untilQuiet()
        let lines = connection.rest().utf8.split(separator: UInt8(ascii: "\n"))
        #expect(lines.last.map { String(Substring($0)) } == "{\"summary\":{\"accepted\":0,\"failed\":40000}}")
        let answers = lines.filter { $0.starts(with: "{\"line\":".utf8) }
        #expect(answers.count == 40_000)
        let wrong = answers.enumerated().first { !$0.element.starts(with: "{\"line\":\($0.offset + 1),".utf8) }
        #expect(wrong == nil, "\(wrong.map { String(Substring($0.element)) } ?? "")")
        try await stand.stop()
    }

    @Test("A client that leaves while its lines wait leaves nothing of them behind")
    func leaves() async throws {
        let stand = try await AgentStand.start("entities: { readings: { kind: event } }\n")
        for _ in 0..<5 {
            let (connection, body) = try begin(stand, lines: 40_000)
            _ = connection.sendNow(body[...])
            try await stand.untilQuiet()
        }
        // The places of this user are free again: eight may be taken at once.
        let connections = try (0..<7).map { _ in try RawConnection(stand.socket) }
        for connection in connections {
            try connection.send("GET /v1/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(connection.rest().hasPrefix("HTTP/1.1 200"))
        }
        try await stand.stop()
    }
}
