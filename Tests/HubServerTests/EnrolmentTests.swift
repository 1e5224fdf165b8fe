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

    @Test("A one-time token is no bearer token, and a device's token enrols no device")
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

    @Test("Every answer says when the token ends and when to refresh it; after its end it is good for the next one only")
    func ends() throws {
        let token = try granted(enrol(oneTime))
        let start = bench.now
        let facts = HubHeaders(reading: pull(token).headers, now: bench.now)
        #expect(facts.tokenEndsAt == start.advanced(by: .seconds(90 * 86_400)))
        #expect(facts.tokenRefreshAt == start.advanced(by: .seconds(72 * 86_400)))
        bench.now = start.advanced(by: .seconds(90 * 86_400))
        let refused = pull(token)
        #expect(refused.status == 401)
        #expect(HubHeaders(reading: refused.headers, now: bench.now).tokenRefreshAt != nil)
        let next = try granted(refresh(token))
        #expect(pull(next).status == 200)
        // The device has shown that it has the next one: the one that ended is no way in any more.
        #expect(refresh(token).status == 401)
        #expect(HubHeaders(reading: pull(token).headers, now: bench.now).tokenRefreshAt == nil)
    }

    @Test("A token that ended longer ago than the grace is refused, until an operator readmits the device")
    func readmitted() throws {
        let first = try granted(enrol(oneTime))
        let token = try granted(refresh(first))
        #expect(pull(token).status == 200)
        bench.now = bench.now.advanced(by: .seconds(181 * 86_400))
        #expect(refresh(token).status == 401)
        #expect(try problem(pull(token)).contains("agenthub token readmit gw-1"))
        // Others refresh theirs meanwhile, and what ended long ago is forgotten: not the last one of a silent device.
        var random = SeededRandom(seed: 9)
        let other = DeviceID(trusted: "gw-2")
        try change { book in
            let shown = book.add(other, life: .seconds(86_400), at: bench.now, using: &random)
            if let entry = book.find(shown) { _ = book.issue(for: entry, life: nil, at: bench.now, using: &random) }
        }
        var isKnown = false
        try change { isKnown = $0.readmit(.one, until: bench.now.advanced(by: .seconds(86_400)), at: bench.now) }
        #expect(isKnown)
        let next = try granted(refresh(token))
        // A lost answer does not lock the device out.
        let again = try granted(refresh(token))
        #expect(pull(next).status == 401)
        #expect(pull(again).status == 200)
        #expect(refresh(token).status == 401, "it is the way back once")
        // A revoked device does not come back that way.
        try change { _ = $0.revoke(.one, at: bench.now) }
        try change { isKnown = $0.readmit(.one, until: bench.now.advanced(by: .seconds(86_400)), at: bench.now) }
        #expect(!isKnown)
        #expect(refresh(token).status == 403)
    }

    @Test("A spare token that was never shown does not keep the device's last one from coming back; once shown, it does")
    func spare() throws {
        let token = try granted(enrol(oneTime))
        #expect(pull(token).status == 200)
        var random = SeededRandom(seed: 7)
        var spare = ""
        bench.now = bench.now.advanced(by: .seconds(60))
        try change { spare = $0.add(.one, at: bench.now, using: &random) }
        // One more, that has ended unused when the device is to be readmitted.
        try change { _ = $0.add(.one, life: .seconds(86_400), at: bench.now, using: &random) }
        bench.now = bench.now.advanced(by: .seconds(91 * 86_400))
        #expect(refresh(token).status == 200)
        #expect(pull(spare).status == 200)
        #expect(refresh(token).status == 401, "the device has shown a newer one: this may be a copy")
        #expect(pull(spare).status == 200)
    }

    @Test("A spare token that ended unused does not keep the last one from being readmitted, and a book of before knows no spare ones")
    func readmittedBesideSpare() throws {
        let token = try granted(enrol(oneTime))
        #expect(pull(token).status == 200)
        var random = SeededRandom(seed: 8)
        bench.now = bench.now.advanced(by: .seconds(60))
        var book = TokenBook()
        try change {
            _ = $0.add(.one, life: .seconds(86_400), at: bench.now, using: &random)
            book = $0
        }
        #expect(try TokenBook(reading: book.text) == book)
        bench.now = bench.now.advanced(by: .seconds(400 * 86_400))
        #expect(refresh(token).status == 401)
        try change { _ = $0.readmit(.one, until: bench.now.advanced(by: .seconds(86_400)), at: bench.now) }
        #expect(refresh(token).status == 200)
        let before = try TokenBook(reading: book.text.replacing(#","spare":true"#, with: ""))
        #expect(before.entries.contains(where: \.isSpare) == false && before.entries.count == book.entries.count)
    }

    private func problem(_ response: HubResponse) throws -> String {
        try JSONReader.read(String(decoding: response.body, as: UTF8.self)).object?["detail"]?.text ?? ""
    }

    private func change(_ change: (inout TokenBook) -> Void) throws {
        if bench.hub.settings.keepsTokens {
            try bench.hub.changeTokens(change)
        } else if var book = bench.hub.settings.tokens {
            change(&book)
            bench.hub.settings.tokens = book
        }
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
