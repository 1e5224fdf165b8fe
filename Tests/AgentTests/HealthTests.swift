import Agent
import SyncCore
import Testing

@Suite("Deaths in a row, and the watchdog's question")
struct HealthTests {
    private static func instant(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    @Test("The sixth start within ten minutes of the one before is safe mode, and stays so while it goes on")
    func safeMode() {
        var count = CrashCount(after: nil, boot: "b", at: Self.instant(100))
        #expect(!count.isSafeMode)
        for number in 1...7 {
            count = CrashCount(after: CrashCount(text: count.text), boot: "b", at: Self.instant(100 + Int64(number) * 599))
            #expect(count.deaths == number)
            #expect(count.isSafeMode == (number >= 5))
        }
    }

    struct Start: Sendable {
        var what: String
        var last: String?
        var boot = "b"
        var at: Int64 = 1_000
        var deaths: Int
    }

    @Test(
        "Events that restart the count",
        arguments: [
            Start(what: "nothing was left", last: nil, deaths: 0),
            Start(what: "the last run lasted", last: "b 400000000000 4\n", deaths: 0),
            Start(what: "it did not", last: "b 400000000001 4\n", deaths: 5),
            Start(what: "another boot", last: "a 999000000000 4\n", deaths: 0),
            Start(what: "a time to come", last: "b 2000000000000 4\n", deaths: 0),
            Start(what: "the end of counting", last: "b 999000000000 \(Int.max)\n", deaths: .max),
            Start(what: "a torn file", last: "b 999000", deaths: 0),
            Start(what: "an empty file", last: "", deaths: 0),
            Start(what: "words", last: "b x 4\n", deaths: 0),
            Start(what: "negative numbers", last: "b 999000000000 -4\n", deaths: 0),
        ])
    func anew(_ start: Start) {
        let last = start.last.flatMap { CrashCount(text: $0) }
        #expect(CrashCount(after: last, boot: start.boot, at: Self.instant(start.at)).deaths == start.deaths)
    }

    @Test("All is well until the store has owed an answer for ten minutes; one question is open at a time")
    func pulse() {
        var pulse = Pulse()
        #expect(pulse.isWell(at: Self.instant(0)))
        let first = pulse.ask(at: Self.instant(0))
        let second = pulse.ask(at: Self.instant(60))
        #expect(first && !second, "it is not asked twice")
        #expect(pulse.isWell(at: Self.instant(599)))
        #expect(!pulse.isWell(at: Self.instant(600)))
        pulse.answered()
        #expect(pulse.isWell(at: Self.instant(601)))
        let third = pulse.ask(at: Self.instant(601))
        #expect(third)
    }

    @Test("Links that cannot be watched are told in status, with what it means for the bill")
    func unwatchedLinks() async throws {
        let stand = try await AgentStand.start { $0.linksUnwatched = "open a netlink socket: Operation not permitted" }
        let status = try await stand.send(.get, "/v1/status")
        #expect(status.text.contains("links_unwatched") && status.text.contains("not permitted"), "\(status.text)")
        #expect(status.text.contains("every link as unmetered"))
        try await stand.stop()
        let other = try await AgentStand.start()
        #expect(try await other.send(.get, "/v1/status").text.contains("links_unwatched") == false)
        try await other.stop()
    }
}
