import SyncCore
import Testing

@Suite("Conclusions from a backend's answer")
struct RestAnswerTests {
    enum Meaning: String, Sendable { case applied, later, moved, gone, refused, forbidden, auth, elsewhere, unsure, failure }

    struct Case: Sendable, CustomTestStringConvertible {
        let status: Int
        let action: MutationAction
        let meaning: Meaning
        let body: String
        let headers: [String: String]
        var testDescription: String { "\(action) \(status) \(body)" }

        init(_ status: Int, _ meaning: Meaning, body: String = "{}", _ headers: [String: String] = [:]) {
            self.init(status, .update, meaning, body: body, headers)
        }

        init(_ status: Int, _ action: MutationAction, _ meaning: Meaning, body: String = "{}", _ headers: [String: String] = [:]) {
            (self.status, self.action, self.meaning, self.body, self.headers) = (status, action, meaning, body, headers)
        }
    }

    @Test(
        "Each status has one meaning",
        arguments: [
            Case(200, .applied), Case(201, .create, .applied), Case(204, .delete, .applied, body: ""), Case(202, .unsure),
            Case(200, .unsure, body: "<html>", ["Content-Type": "text/html; charset=utf-8"]), Case(302, .unsure),
            Case(303, .create, .unsure),
            Case(301, .elsewhere, ["Location": "https://other/"]), Case(307, .elsewhere), Case(308, .elsewhere), Case(511, .elsewhere),
            Case(400, .refused), Case(401, .auth), Case(403, .forbidden), Case(404, .gone), Case(410, .gone), Case(404, .create, .later),
            Case(404, .delete, .applied), Case(405, .refused), Case(408, .later), Case(409, .moved), Case(409, .create, .moved),
            Case(409, .unsure, body: #"{"type":"https://x/request-in-progress"}"#),
            Case(409, .create, .unsure, body: #"{"error":{"code":"idempotency_key_in_use"}}"#),
            Case(412, .moved), Case(412, .delete, .moved), Case(413, .refused), Case(421, .later), Case(422, .refused), Case(425, .later),
            Case(428, .refused),
            Case(429, .later), Case(500, .failure), Case(501, .refused), Case(502, .failure), Case(503, .failure), Case(504, .failure),
            Case(507, .later),
        ])
    func meaning(_ example: Case) {
        let ok: [Int] =
            switch example.action {
            case .create: [200, 201]
            case .update: [200, 204]
            case .delete: [200, 202, 204, 404, 410]
            }
        let response = HTTPResponse(
            status: example.status, headers: HTTPHeaders(example.headers.map { ($0.key, $0.value) }), body: Array(example.body.utf8))
        let answer = RestAnswer.read(response, to: example.action, ok: ok, notApplied: [507], now: Timestamp(milliseconds: 0))
        let meaning: Meaning =
            switch answer {
            case .applied: .applied
            case .later: .later
            case .moved: .moved
            case .gone: .gone
            case .refused: .refused
            case .forbidden(_, isForAll: false): .forbidden
            case .forbidden(_, isForAll: true): .auth
            case .elsewhere: .elsewhere
            case .unsure(_, _, isFailure: false): .unsure
            case .unsure(_, _, isFailure: true): .failure
            }
        #expect(meaning == example.meaning)
    }

    @Test("A wait that the backend asks for goes along, and its words about fields become pointers")
    func words() {
        let late = HTTPResponse(status: 429, headers: ["Retry-After": "7"], body: Array(#"{"detail":"slow down"}"#.utf8))
        guard
            case .later(let problem, let after) = RestAnswer.read(
                late, to: .create, ok: [201], notApplied: [], now: Timestamp(milliseconds: 0))
        else {
            Issue.record("not later")
            return
        }
        #expect(after == .seconds(7) && problem.code == "busy" && problem.detail.contains("slow down"))
        let bad = RestAnswer.problem(HTTPResponse(status: 400, body: Array(#"{"title":["This field may not be blank."]}"#.utf8)))
        #expect(bad.code == "validation" && bad.errors == [.init("/data/title", "This field may not be blank.")])
    }
}

@Suite("A request whose outcome is not known")
struct RestUncertaintyTests {
    struct Doubt: Sendable {
        let action: MutationAction
        let method: HTTPRequest.Method
        let key: Bool
        let window: Duration?
        let age: Duration
        let lookup: Bool
        let read: Bool
        let decision: RestUncertainty.Decision

        init(
            _ action: MutationAction, _ method: HTTPRequest.Method, key: Bool = false, window: Duration? = nil, age: Duration = .zero,
            lookup: Bool = false, read: Bool = false, _ decision: RestUncertainty.Decision
        ) {
            (self.action, self.method, self.key, self.window, self.age) = (action, method, key, window, age)
            (self.lookup, self.read, self.decision) = (lookup, read, decision)
        }
    }

    @Test(
        "The same again only where that is harmless, else a question, else a person",
        arguments: [
            Doubt(.create, .put, .resend), Doubt(.delete, .delete, .resend), Doubt(.update, .put, .resend),
            Doubt(.create, .post, key: true, window: .seconds(60), age: .seconds(59), .resend),
            Doubt(.create, .post, key: true, window: .seconds(60), age: .seconds(60), .hold),
            Doubt(.create, .post, key: true, window: .seconds(60), age: .seconds(61), lookup: true, .lookUp),
            Doubt(.create, .post, key: true, window: nil, .hold), Doubt(.create, .post, key: false, window: .seconds(60), .hold),
            Doubt(.create, .post, .hold), Doubt(.create, .post, read: true, .hold), Doubt(.create, .post, lookup: true, .lookUp),
            Doubt(.update, .patch, .hold), Doubt(.update, .patch, lookup: true, .hold), Doubt(.update, .patch, read: true, .read),
            Doubt(.update, .patch, key: true, window: .seconds(60), read: true, .resend), Doubt(.delete, .post, .hold),
            Doubt(.delete, .post, read: true, .read),
        ])
    func decision(_ doubt: Doubt) {
        let uncertainty = RestUncertainty(
            action: doubt.action, isIdempotent: doubt.method == .put || doubt.method == .delete, hasKey: doubt.key, window: doubt.window,
            sinceFirst: doubt.age, canLookUp: doubt.lookup, canRead: doubt.read)
        #expect(uncertainty.decision == doubt.decision)
    }

    struct Look: Sendable {
        let sent: JSONObject
        let before: JSONObject
        let counts: Bool
        let ifMatch: String?
        let now: JSONObject
        let etag: String?
        let evidence: RestUncertainty.Evidence

        init(
            sent: JSONObject, before: JSONObject = [:], counts: Bool = false, ifMatch: String? = nil, now: JSONObject, etag: String? = nil,
            _ evidence: RestUncertainty.Evidence
        ) {
            (self.sent, self.before, self.counts, self.ifMatch) = (sent, before, counts, ifMatch)
            (self.now, self.etag, self.evidence) = (now, etag, evidence)
        }
    }

    @Test(
        "Conclusions from a record about a change",
        arguments: [
            Look(sent: ["a": 1], now: ["a": 1, "b": 2], .applied), Look(sent: ["a": 1], now: ["a": 0], .moved),
            Look(sent: ["a": nil], now: ["b": 2], .applied), Look(sent: ["a": 1], ifMatch: "e1", now: ["a": 0], etag: "e1", .notApplied),
            Look(sent: ["a": 1], ifMatch: "e1", now: ["a": 1], etag: "e2", .applied),
            Look(sent: ["a": 1], ifMatch: "e1", now: ["a": 5], etag: "e2", .moved),
            // A count of 8 may be this agent's or another client's; at 7 nothing was counted; at 9 the cause is unknown.
            Look(sent: ["n": 8], before: ["n": 7], counts: true, ifMatch: "e1", now: ["n": 8], etag: "e2", .unclear),
            Look(sent: ["n": 8], before: ["n": 7], counts: true, ifMatch: "e1", now: ["n": 7], etag: "e2", .notApplied),
            Look(sent: ["n": 8], before: ["n": 7], counts: true, ifMatch: "e1", now: ["n": 9], etag: "e2", .unclear),
            Look(sent: ["n": 8], before: ["n": 7], counts: true, ifMatch: "e1", now: ["n": 7], etag: "e1", .notApplied),
            // A text that has what was added has it from us.
            Look(sent: ["t": "a b"], before: ["t": "a"], now: ["t": "a b"], .applied),
            Look(sent: ["t": "a b"], before: ["t": "a"], now: ["t": "a"], .notApplied),
            Look(sent: ["t": "a b"], before: ["t": "a"], now: ["t": "a b c"], .unclear),
            Look(sent: ["t": "a"], before: ["t": nil], now: [:], .notApplied),
        ])
    func evidence(_ look: Look) {
        var attempt = RestAttempt(.patch, "/x")
        (attempt.sent, attempt.before, attempt.counts, attempt.ifMatch) = (look.sent, look.before, look.counts, look.ifMatch)
        #expect(RestUncertainty.evidence(for: attempt, in: RestRemote(etag: look.etag, document: look.now)) == look.evidence)
    }

    @Test("A request on flash is the same request, and only what can be repeated goes over a kept connection")
    func stored() throws {
        var attempt = RestAttempt(.patch, "/audits/1?x=%20")
        (attempt.body, attempt.contentType, attempt.ifMatch) = (#"{"n":1.10}"#, "application/json", "\"e1\"")
        (attempt.sent, attempt.before, attempt.counts) = (["n": 8], ["n": 7], true)
        #expect(RestAttempt(stored: attempt.stored) == attempt)
        #expect(attempt.request.isRepeatable)
        attempt.ifMatch = nil
        #expect(!attempt.request.isRepeatable)
        (attempt.keyHeader, attempt.key) = ("Idempotency-Key", "k")
        #expect(attempt.request.isRepeatable && attempt.request.headers["Idempotency-Key"] == "k")
        #expect(RestAttempt(stored: "") == nil && RestAttempt(stored: "{}") == nil)
    }

    @Test("The first key is the mutation's own; later ones are others, and always the same")
    func keys() {
        let key = MutationKey(trusted: "0199c3f2-0000-7000-8000-000000000001")
        let keys = (0..<4).map { RestAttempt.key(of: key, generation: $0) }
        #expect(keys[0] == key.text && Set(keys).count == 4)
        #expect(keys.allSatisfy { $0.utf8.count == 36 } && keys[2] == RestAttempt.key(of: key, generation: 2))
        #expect(Array(keys[1])[14] == "8", "RFC 9562: version 8")
    }
}
