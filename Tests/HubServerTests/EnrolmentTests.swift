import HubServer
import SyncCore
import Testing

@Suite("Enrolment and token refresh, at the hub", .eachEngine)
struct EnrolmentTests {
    private let bench: HubBench
    private let oneTime: String

    init() throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 3)
        oneTime = book.add(.one, .enrolment, life: .seconds(3_600), at: Timestamp(milliseconds: 1_795_208_400_000), using: &random)
        bench = try HubBench(tokens: book)
    }

    private func enrol(_ token: String) -> HubResponse {
        bench.send("POST", "/v1/devices/enroll", ["token": .string(token)])
    }

    private func granted(_ response: HubResponse) throws -> String {
        try DeviceMessages.readGrant(response.body).token
    }

    private func pull(_ token: String) -> HubResponse {
        bench.send("POST", "/v1/sync/pull", ["streams": []], headers: [("Authorization", "Bearer \(token)")])
    }

    private func refresh(_ token: String) -> HubResponse {
        bench.send("POST", "/v1/devices/token", [:], headers: [("Authorization", "Bearer \(token)")])
    }

    @Test("A one-time token gives a token that works, and is used up once that one was shown")
    func enrols() throws {
        let answer = enrol(oneTime)
        #expect(answer.status == 201)
        #expect(answer.headers["Cache-Control"] == "no-store")
        let token = try granted(answer)
        #expect(pull(token).status == 200)
        #expect(enrol(oneTime).status == 401)
        #expect(pull(token).status == 200)
    }

    @Test("An answer that was lost is asked for again; what it held is worth nothing then")
    func repeated() throws {
        let lost = try granted(enrol(oneTime))
        let token = try granted(enrol(oneTime))
        #expect(pull(lost).status == 401)
        #expect(pull(token).status == 200)
    }

    @Test("A one-time token is no bearer token, and a device's token enrols nobody")
    func apart() throws {
        #expect(pull(oneTime).status == 401)
        let token = try granted(enrol(oneTime))
        #expect(enrol(token).status == 401)
        #expect(enrol("ese_unknown").status == 401)
        #expect(enrol("").status == 401)
        #expect(bench.send("POST", "/v1/devices/enroll", ["tokens": "x"]).status == 400)
        #expect(bench.send("GET", "/v1/devices/enroll").status == 405)
    }

    @Test("It ends after its time")
    func enrolmentEnds() {
        bench.now = bench.now.advanced(by: .seconds(3_600))
        #expect(enrol(oneTime).status == 401)
    }

    @Test("A refreshed token leaves the old one good until it was shown, and for a day after that")
    func refreshes() throws {
        let first = try granted(enrol(oneTime))
        #expect(pull(first).status == 200)
        let lost = try granted(refresh(first))
        let second = try granted(refresh(first))
        #expect(pull(first).status == 200)
        #expect(pull(second).status == 200)
        #expect(pull(lost).status == 401)
        // A device whose disk went back to the old token has a day.
        #expect(pull(first).status == 200)
        bench.now = bench.now.advanced(by: TokenBook.grace)
        #expect(pull(first).status == 401)
        #expect(pull(second).status == 200)
    }

    @Test("Every answer says when the token ends and when to refresh it; after its end it is unknown")
    func ends() throws {
        let token = try granted(enrol(oneTime))
        let start = bench.now
        let facts = HubHeaders(reading: pull(token).headers, now: bench.now)
        #expect(facts.tokenEndsAt == start.advanced(by: .seconds(90 * 86_400)))
        #expect(facts.tokenRefreshAt == start.advanced(by: .seconds(72 * 86_400)))
        bench.now = start.advanced(by: .seconds(90 * 86_400))
        #expect(pull(token).status == 401)
        #expect(refresh(token).status == 401)
    }

    @Test("The book keeps all of it through its file, and revoking shuts out what was refreshed too")
    func file() throws {
        let first = try granted(enrol(oneTime))
        let book = try #require(bench.hub.settings.tokens)
        #expect(try TokenBook(reading: book.text) == book)
        #expect(book.entries.contains { $0.replaces != nil && $0.endsAt != nil })
        #expect(pull(first).status == 200)
        _ = refresh(first)
        var revoked = try #require(bench.hub.settings.tokens)
        #expect(revoked.revoke(.one, at: bench.now) >= 2)
        if bench.hub.settings.keepsTokens {
            try bench.hub.changeTokens { $0 = revoked }
        } else {
            bench.hub.settings.tokens = revoked
        }
        #expect(pull(first).status == 403)
        #expect(refresh(first).status == 403)
    }

    @Test("When the book cannot be written nothing changes, and the device is told to come again")
    func unwritable() throws {
        if bench.hub.settings.keepsTokens {
            bench.hub.beforeCommit = { false }
        } else {
            bench.hub.settings.changeTokens = { _ in nil }
        }
        let answer = enrol(oneTime)
        #expect(answer.status == 503)
        #expect(answer.headers["Retry-After"] != nil)
        bench.hub.settings.changeTokens = nil
        bench.hub.beforeCommit = nil
        #expect(enrol(oneTime).status == 201)
    }
}
