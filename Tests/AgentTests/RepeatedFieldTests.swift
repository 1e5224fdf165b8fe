import LocalAPI
import SyncCore
import Testing

/// Header fields that may have one value only: with two, the meant one is unknown.
struct RepeatedFieldTests {
    @Test(
        "A field with one value that comes twice is refused by its name, and nothing is done, also when both say the same",
        arguments: [
            ("Idempotency-Key", "k-1", "k-2"), ("Idempotency-Key", "k-1", "k-1"), ("idempotency-KEY", "k-1", "k-2"),
            ("Content-Type", "application/json", "text/plain"), ("Content-Type", "application/json", "application/json"),
        ])
    func refused(name: String, first: String, second: String) async throws {
        let stand = try await AgentStand.start()
        let body = #"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#
        let type = name.lowercased() == "content-type" ? "" : "Content-Type: application/json\r\n"
        let answer = try Self.answer(
            to: "POST /v1/mutations HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(type)\(name): \(first)\r\n\(name): \(second)\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)", at: stand)
        #expect(answer.hasPrefix("HTTP/1.1 400 ") && answer.contains("\(name.lowercased()) came more than once"), "\(answer)")
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.outbox.enqueued == 0)
        try await stand.stop()
    }

    @Test(
        "Repeated header fields are refused on other routes too",
        arguments: [
            ("/v1/events", "Last-Event-ID", "1", "2"), ("/v1/records/audits/a-1", "If-None-Match", "\"1\"", "\"2\""),
            ("/v1/blobs/b-1/content", "Range", "bytes=0-1", "bytes=2-3"),
        ])
    func otherRoutesRefuseRepeatedFields(path: String, name: String, first: String, second: String) async throws {
        let stand = try await AgentStand.start()
        let answer = try Self.answer(
            to: "GET \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(name): \(first)\r\n\(name): \(second)\r\n\r\n", at: stand)
        #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(answer)")
        try await stand.stop()
    }

    /// The connection is closed when this returns. The agent waits two seconds for the end of one that it has refused, also when it stops.
    private static func answer(to request: String, at stand: AgentStand) throws -> String {
        let connection = try RawConnection(stand.socket)
        try connection.send(request)
        return connection.rest()
    }
}
