import SyncCore
import SyncLinux
import Testing

@Suite("The rate of a link")
struct RateLimiterTests {
    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: 5_000_000_000 + milliseconds * 1_000_000) }

    @Test("The limiter makes up for bytes above the rate before it opens, and a quiet hour earns a quarter of a second")
    func limiterMakesUpForBytesAboveTheRate() {
        var limiter = RateLimiter()
        #expect(limiter.isOpen && limiter.opensAt == nil)
        limiter.use(1_000, now: at(0))
        #expect(limiter.isOpen)
        limiter.moved(up: 0, down: 1_500, now: at(0))
        #expect(limiter.isOpenUp && !limiter.isOpenDown)
        let opens = limiter.opensAt
        #expect(opens.map { at(0).duration(to: $0) >= .milliseconds(1_500) && at(0).duration(to: $0) < .milliseconds(1_501) } == true)
        limiter.fill(now: at(1_499))
        #expect(!limiter.isOpen)
        limiter.fill(now: at(1_501))
        #expect(limiter.isOpen && limiter.opensAt == nil)
        limiter.fill(now: at(3_600_000))
        limiter.moved(up: 1_250, down: 250, now: at(3_600_000))
        #expect(!limiter.isOpenUp && limiter.isOpenDown)
        limiter.fill(now: at(3_601_001))
        #expect(limiter.isOpen)
    }

    @Test("Over any number of transfers the average is the rate", arguments: [1_000, 8_000, 250_000, 100_000_000])
    func average(rate: Int) {
        var limiter = RateLimiter()
        limiter.use(rate, now: at(0))
        var random = SeededRandom(seed: UInt64(rate))
        var now = at(0), moved = 0
        while at(0).duration(to: now) < .seconds(60) {
            let next = Int(random.next() % UInt64(rate))
            limiter.moved(up: next, down: 0, now: now)
            moved += next
            if let opens = limiter.opensAt { now = opens }
            limiter.fill(now: now)
        }
        let seconds = at(0).duration(to: now).milliseconds
        #expect(abs(moved * 1_000 - rate * Int(seconds)) <= rate * 1_250, "\(moved) bytes in \(seconds) ms")
    }

    @Test("Another rate keeps the debt, a clock that stands still or goes back gives nothing, and no number is too large")
    func extremes() {
        var limiter = RateLimiter()
        limiter.use(1_000, now: at(0))
        limiter.moved(up: 2_000, down: 0, now: at(0))
        limiter.use(2_000, now: at(0))
        #expect(limiter.opensAt.map { at(0).duration(to: $0) < .milliseconds(1_001) } == true)
        limiter.fill(now: at(-10_000))
        #expect(!limiter.isOpenUp)
        limiter.moved(up: .max, down: .max, now: at(1))
        #expect(!limiter.isOpen && limiter.opensAt != nil)
        limiter.use(0, now: at(2))
        limiter.moved(up: -5, down: .min, now: Instant(nanoseconds: .max))
        #expect(limiter.rate == 1)
        #expect(RateLimiter.bufferBytes(at: .max) == 4 << 20 && RateLimiter.bufferBytes(at: 1) == 4 << 10)
    }
}
