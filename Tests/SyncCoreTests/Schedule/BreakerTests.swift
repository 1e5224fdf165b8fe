import SyncCore
import Testing

@Suite("Breaker")
struct BreakerTests {
    private var breaker = Breaker()
    private var random = SeededRandom(seed: 1)

    private static func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    /// Fails every 40 s from `first` to `last`.
    private mutating func fail(from first: Int64, to last: Int64, isMetered: Bool = false) {
        for seconds in stride(from: first, through: last, by: 40) {
            breaker.failed(at: Self.at(seconds), isMetered: isMetered, using: &random)
        }
    }

    @Test("It opens with the last failure of ten uninterrupted minutes and not before")
    mutating func opens() {
        fail(from: 0, to: 520)
        #expect(breaker.state == .closed)
        #expect(breaker.probeAt == nil)
        fail(from: 560, to: 560)
        #expect(breaker.state == .open)
    }

    @Test("An answer interrupts, a few failures far apart are no outage")
    mutating func interrupted() {
        fail(from: 0, to: 520)
        breaker.answered()
        fail(from: 600, to: 1_120)
        #expect(breaker.state == .closed)
        breaker.answered()
        for hour in 1...5 { fail(from: Int64(hour) * 3_600, to: Int64(hour) * 3_600) }
        #expect(breaker.state == .closed)
    }

    struct Pace: Sendable {
        var isMetered: Bool
        var wait: ClosedRange<Duration>
    }

    @Test(
        "Open, it probes every 150 to 300 s, on a metered link every 600 to 900 s",
        arguments: [
            Pace(isMetered: false, wait: .seconds(150) ... .seconds(300)),
            Pace(isMetered: true, wait: .seconds(600) ... .seconds(900)),
        ])
    mutating func probes(_ pace: Pace) throws {
        fail(from: 0, to: 600, isMetered: pace.isMetered)
        var waits: Set<Int64> = []
        for _ in 0..<200 {
            let now = try #require(breaker.probeAt)
            breaker.failed(at: now, isMetered: pace.isMetered, using: &random)
            let wait = now.duration(to: try #require(breaker.probeAt))
            #expect(pace.wait.contains(wait))
            waits.insert(wait.milliseconds / 30_000)
        }
        #expect(waits.count >= 5, "they are drawn")
    }

    @Test("A good probe makes it half open; a good push closes it, a failed one opens it at once")
    mutating func halfOpen() {
        fail(from: 0, to: 600)
        breaker.probed()
        #expect(breaker.state == .halfOpen)
        #expect(breaker.probeAt == nil)
        breaker.answered()
        #expect(breaker.state == .halfOpen, "a greeting is no push")
        fail(from: 800, to: 800)
        #expect(breaker.state == .open)
        breaker.probed()
        breaker.close()
        #expect(breaker.state == .closed)
        fail(from: 1_000, to: 1_520)
        #expect(breaker.state == .closed, "the ten minutes begin anew")
    }

    @Test("A probe without a waiting request opens nothing")
    mutating func strayProbe() {
        breaker.probed()
        #expect(breaker.state == .closed)
    }

    @Test("A request during an open breaker is answered by a probe at once")
    mutating func soon() {
        breaker.probeSoon(at: Self.at(5))
        #expect(breaker.probeAt == nil)
        fail(from: 0, to: 600)
        breaker.probeSoon(at: Self.at(610))
        #expect(breaker.probeAt == Self.at(610))
    }
}
