import SyncCore
import Testing

@Suite("Backoff")
struct BackoffTests {
    struct Case: Sendable {
        var failures: Int
        var ceiling: Duration
    }

    @Test(
        "The ceiling doubles with every failure and never passes the cap",
        arguments: [
            Case(failures: -1, ceiling: .zero), Case(failures: 0, ceiling: .zero), Case(failures: 1, ceiling: .seconds(1)),
            Case(failures: 2, ceiling: .seconds(2)), Case(failures: 3, ceiling: .seconds(4)),
            Case(failures: 6, ceiling: .seconds(32)), Case(failures: 7, ceiling: .seconds(60)),
            Case(failures: 100, ceiling: .seconds(60)), Case(failures: .max, ceiling: .seconds(60)),
        ])
    func ceiling(_ example: Case) {
        #expect(Backoff().ceiling(afterFailures: example.failures) == example.ceiling)
    }

    @Test("Below the cap the wait is drawn from the whole range, at the cap from its upper half", arguments: 1...12)
    func bounds(_ failures: Int) {
        let backoff = Backoff()
        let ceiling = backoff.ceiling(afterFailures: failures)
        let low = ceiling == backoff.cap ? ceiling / 2 : Backoff.floor
        var random = SeededRandom(seed: UInt64(failures))
        let drawn = (0..<2_000).map { _ in backoff.delay(afterFailures: failures, using: &random) }
        #expect(drawn.allSatisfy { $0 >= low && $0 <= ceiling })
        // The range is used: something near each end was drawn.
        let tenth = (ceiling - low) / 10
        #expect(drawn.contains { $0 < low + tenth })
        #expect(drawn.contains { $0 > ceiling - tenth })
    }

    @Test("Without a failure there is no wait")
    func none() {
        var random = SeededRandom(seed: 1)
        #expect(Backoff().delay(afterFailures: 0, using: &random) == .zero)
    }

    struct Asked: Sendable {
        var retryAfter: Duration
        var delay: Duration
        var low: Duration
        var high: Duration
    }

    @Test(
        "The wait that the server asks for is kept, spread by a fifth or 30 s, within 1 s and the ceiling",
        arguments: [
            Asked(retryAfter: .seconds(10), delay: .seconds(1), low: .seconds(10), high: .seconds(12)),
            Asked(retryAfter: .seconds(10), delay: .seconds(40), low: .seconds(40), high: .seconds(42)),
            Asked(retryAfter: .zero, delay: .zero, low: .seconds(1), high: .milliseconds(1_200)),
            Asked(retryAfter: .seconds(600), delay: .zero, low: .seconds(600), high: .seconds(630)),
            Asked(retryAfter: .seconds(99_999_999), delay: .zero, low: .seconds(3_600), high: .seconds(3_630)),
            Asked(retryAfter: .seconds(-5), delay: .zero, low: .seconds(1), high: .milliseconds(1_200)),
        ])
    func honours(_ example: Asked) {
        var random = SeededRandom(seed: 2)
        for _ in 0..<500 {
            let delay = Backoff.honouring(example.retryAfter, over: example.delay, using: &random)
            #expect(delay >= example.low && delay <= example.high)
        }
    }

    @Test("A fleet of 5,000 after 30 s of outage comes back spread out, not as one")
    func herd() {
        // Each agent tries as its backoff says; the hub is dead until `back`. The result is the number of requests in the worst second
        // afterwards.
        func peak(_ delay: (Int, inout SeededRandom) -> Duration) -> Int {
            let back = 30.0
            var perSecond: [Int: Int] = [:]
            for agent in 0..<5_000 {
                var random = SeededRandom(seed: UInt64(agent) &* 0x9E37_79B9)
                var time = 0.0
                var failures = 0
                while time < back {
                    failures += 1
                    time += Double(delay(failures, &random).nanoseconds) / 1e9
                }
                perSecond[Int(time), default: 0] += 1
            }
            return perSecond.values.max() ?? 0
        }
        let backoff = Backoff()
        let hybrid = peak { backoff.delay(afterFailures: $0, using: &$1) }
        let none = peak { failures, _ in backoff.ceiling(afterFailures: failures) }
        #expect(none == 5_000)
        #expect(hybrid < 500)
    }
}
