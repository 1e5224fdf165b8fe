import SyncCore
import SyncHTTP
import Testing

/// `If-Match` and `if_match` over the socket: an etag that a read gave lets one of several writers through.
@Suite("Conditional writes over the socket")
struct ConditionalWriteTests {
    private static func update(_ n: Int, _ tag: String? = nil) -> String {
        let condition = tag.map { #","if_match":\#(JSON.string($0).json)"# } ?? ""
        return #"{"entity":"audits","record_id":"a-1","action":"update","data":{"n":\#(n)}\#(condition)}"#
    }

    private func withRecord(_ body: (AgentStand) async throws -> Void) async throws {
        let stand = try await AgentStand.start()
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        #expect(try await stand.sync()["result"] == "ok")
        try await body(stand)
        try await stand.stop()
    }

    @Test("The etag of a read, of a list and of the last write let one writer through; the refusal shows the present one")
    func etags() async throws {
        try await withRecord { stand in
            let read = try await stand.send(.get, "/v1/records/audits/a-1")
            let tag = try #require(read.headers["ETag"])
            #expect(read["etag"]?.text == tag)
            #expect(try await stand.send(.get, "/v1/records/audits")["items"]?.array?.first?.object?["etag"]?.text == tag)
            #expect(try await stand.send(.post, "/v1/query", #"{"entity":"audits"}"#)["items"]?.array?.first?.object?["etag"]?.text == tag)

            let first = try await stand.send(.post, "/v1/mutations", Self.update(2), headers: ["If-Match": tag])
            #expect(first.status == 201, "\(first.text)")
            let second = try await stand.send(.post, "/v1/mutations", Self.update(3, tag))
            #expect(second.status == 412 && second.code == "precondition-failed", "\(second.text)")
            let present = try #require(second.headers["ETag"])
            #expect(second["etag"]?.text == present && present != tag)
            #expect(first["record"]?.object?["etag"]?.text == present, "a writer knows its own tag without a read")
            #expect(try await stand.sync()["result"] == "ok")
            // The hub has confirmed it meanwhile, and that is no other writer.
            #expect(try await stand.send(.get, "/v1/records/audits/a-1").headers["ETag"] != present)
            #expect(try await stand.send(.post, "/v1/mutations", Self.update(4), headers: ["If-Match": "W/" + present]).status == 201)
        }
    }

    @Test("Lines and lists have conditions of their own; a condition for all of them is refused")
    func lists() async throws {
        try await withRecord { stand in
            let tag = try #require(try await stand.send(.get, "/v1/records/audits/a-1").headers["ETag"])
            let lines = ["Content-Type": "application/x-ndjson"] as HTTPHeaders
            let text = Self.update(2, tag) + "\n" + Self.update(3, tag) + "\n"
            var refused = lines
            refused["If-Match"] = tag
            #expect(try await stand.send(.post, "/v1/mutations/bulk", text, headers: refused).status == 400)
            let answers = try await stand.send(.post, "/v1/mutations/bulk", text, headers: lines).text.split(separator: "\n")
            #expect(answers.count == 3 && answers[0].contains("\"pending\"") && answers[1].contains("precondition-failed"), "\(answers)")

            let list = #"{"atomic":true,"mutations":[\#(Self.update(5, tag))]}"#
            let stale = try await stand.send(.post, "/v1/mutations", list)
            #expect(stale.status == 412 && stale["errors"]?.array?.first?.object?["pointer"] == "/mutations/0/if_match", "\(stale.text)")
            #expect(try await stand.send(.post, "/v1/mutations", list, headers: ["If-Match": tag]).status == 400)
        }
    }

    @Test("The repeat of a key is answered as before although the record has changed; another condition is another request")
    func keys() async throws {
        try await withRecord { stand in
            let tag = try #require(try await stand.send(.get, "/v1/records/audits/a-1").headers["ETag"])
            let headers = ["If-Match": tag, "Idempotency-Key": "k-1"] as HTTPHeaders
            let first = try await stand.send(.post, "/v1/mutations", Self.update(2), headers: headers)
            let again = try await stand.send(.post, "/v1/mutations", Self.update(2), headers: headers)
            #expect(first.status == 201 && again.status == 200 && first["id"] == again["id"])
            let other = try await stand.send(.post, "/v1/mutations", Self.update(2), headers: ["Idempotency-Key": "k-1"])
            #expect(other.status == 409 && other.code == "idempotency-mismatch")
        }
    }
}
