import SyncCore
import Testing

/// `ClockRule.swift`: how far anything from outside may move the clock of our stamps.
@Suite("Clock rule")
struct ClockRuleTests {
    private static let origin: Int64 = 1_795_216_800_000
    private static let year: Int64 = 31_557_600_000
    /// 9999-12-31, 2^47, microseconds instead of milliseconds, the year 3000, and what no clock can show.
    static let insane: [Int64] = [
        253_402_300_799_000, 1 << 47, origin * 1_000, 32_503_680_000_000, 1 << 53, .max, 0, -1, .min, 946_684_800_000,
        Timestamp.plausible.upperBound.milliseconds, Timestamp.plausible.lowerBound.milliseconds - 1,
    ]

    private static func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }
    private static func time(_ seconds: Int64, off: Int64 = 0) -> Timestamp { Timestamp(milliseconds: origin + seconds * 1_000 + off) }

    /// One answer at `second`, whose time is wrong by `off` milliseconds.
    @discardableResult
    private func answer(_ clock: inout ClockOffset, _ second: Int64, off: Int64 = 0, system: Timestamp? = nil) -> ClockOffset.Verdict {
        clock.add(hubTime: Self.time(second, off: off), sent: Self.at(second), received: Self.at(second), systemTime: system)
    }

    @Test("A time that no clock can show is no time", arguments: insane)
    func implausible(_ milliseconds: Int64) {
        let time = Timestamp(milliseconds: milliseconds)
        var clock = ClockOffset()
        for second in Int64(0)..<20 {
            #expect(clock.add(hubTime: time, sent: Self.at(second * 60), received: Self.at(second * 60)) == .implausible(time))
        }
        #expect(clock.best == nil && clock.offset(at: Moment(instant: Self.at(0), wall: Self.time(0))) == nil)
    }

    @Test(
        "One answer that is wrong by years moves nothing once others were right, in either direction",
        arguments: [year * 20, -year, 301_000])
    func single(_ off: Int64) {
        var clock = ClockOffset()
        for second in Int64(0)..<4 { #expect(answer(&clock, second) == .accepted) }
        #expect(answer(&clock, 10, off: off) == .doubted(Self.time(10, off: off), ahead: .milliseconds(off)))
        #expect(clock.isDoubted && clock.best?.difference == Self.origin)
        #expect(answer(&clock, 11) == .accepted)
        #expect(!clock.isDoubted && clock.best?.difference == Self.origin)
    }

    @Test("A step of five minutes and less is followed at once")
    func small() {
        var clock = ClockOffset()
        for second in Int64(0)..<8 { answer(&clock, second) }
        for second in Int64(8)..<16 { #expect(answer(&clock, second, off: 300_000) == .accepted) }
        #expect(clock.best?.difference == Self.origin + 300_000)
    }

    @Test("The first answer counts where nothing is known, and two that agree correct it")
    func firstIsWrong() {
        var clock = ClockOffset()
        #expect(answer(&clock, 0, off: Self.year) == .accepted)
        #expect(answer(&clock, 1) != .accepted)
        #expect(answer(&clock, 2) == .accepted)
        #expect(clock.best?.difference == Self.origin)
    }

    @Test("A hub whose clock was put right is followed after five answers in a row that span a minute")
    func steps() {
        var clock = ClockOffset()
        for second in Int64(0)..<8 { answer(&clock, second) }
        for second in Int64(10)..<30 { #expect(answer(&clock, second, off: Self.year) != .accepted, "a burst is not enough") }
        #expect(answer(&clock, 69, off: Self.year) != .accepted)
        #expect(answer(&clock, 70, off: Self.year) == .accepted)
        #expect(clock.best?.difference == Self.origin + Self.year && !clock.isDoubted)
        // The clock goes back again.
        for second in [80, 100, 120, 130] as [Int64] { #expect(answer(&clock, second) != .accepted) }
        #expect(answer(&clock, 140) == .accepted)
        #expect(clock.best?.difference == Self.origin)
    }

    @Test("Answers that contradict each other confirm nothing, however many they are")
    func contradictions() {
        var clock = ClockOffset()
        for second in Int64(0)..<8 { answer(&clock, second) }
        for step in Int64(1)..<200 { #expect(answer(&clock, 10 + step * 60, off: step * 600_000) != .accepted) }
        #expect(clock.best?.difference == Self.origin)
    }

    @Test("A wall clock that the kernel keeps right outranks a few answers, and one that is not plausible outranks none")
    func system() {
        var clock = ClockOffset()
        for second in Int64(0)..<4 {
            #expect(answer(&clock, second, off: Self.year, system: Self.time(second)) != .accepted)
        }
        #expect(clock.best == nil && clock.isDoubted)
        #expect(answer(&clock, 4, system: Self.time(4)) == .accepted)
        // The kernel's clock was put right only after the hub's first answer.
        var late = ClockOffset()
        answer(&late, 0, off: Self.year)
        #expect(answer(&late, 1, off: Self.year, system: Self.time(1)) != .accepted)
        #expect(late.best == nil)
        var wild = ClockOffset()
        #expect(answer(&wild, 0, system: Timestamp(milliseconds: .max)) == .accepted)
    }

    @Test("The clock of an earlier process counts as two answers")
    func prior() {
        var clock = ClockOffset(prior: ClockAnchor(difference: Self.origin, error: .zero))
        #expect(clock.best == nil)
        #expect(answer(&clock, 0, off: Self.year) != .accepted)
        #expect(answer(&clock, 1) == .accepted)
        var poisoned = ClockOffset(prior: ClockAnchor(difference: Self.origin + Self.year, error: .zero))
        #expect(answer(&poisoned, 0) != .accepted && answer(&poisoned, 1) != .accepted)
        #expect(answer(&poisoned, 2) == .accepted)
    }

    @Test("No time and no stamp makes a stamp that the database cannot hold", arguments: insane)
    func packs(_ milliseconds: Int64) {
        let time = Timestamp(milliseconds: milliseconds)
        for last in [0, UInt64(Self.origin), (1 << 47) - 1, 1 << 47, (1 << 48) - 1] as [UInt64] {
            for counter in [0, UInt16.max] {
                var clock = HybridClock(last: HybridTime(milliseconds: last, counter: counter, node: "9f2c11ab"))
                func check(_ what: String) {
                    let end = Timestamp.plausible.upperBound.advanced(by: HybridClock.aheadMax).milliseconds
                    #expect(clock.packed >= 0 && clock.last.milliseconds <= UInt64(end), "\(what)")
                    #expect(HybridClock(packed: clock.packed, node: "9f2c11ab") == clock, "\(what)")
                }
                check("at the start")
                _ = clock.tick()
                check("without a time")
                _ = clock.tick(now: time)
                check("by it")
                clock.observe(
                    HybridTime(milliseconds: UInt64(truncatingIfNeeded: milliseconds), counter: .max, node: "ffffffff"), now: time)
                check("having seen a stamp")
                _ = clock.tick(now: time)
                check("by it again")
            }
        }
        #expect(HybridClock(packed: milliseconds, node: "1").packed >= 0)
    }

    @Test(
        "A last stamp that lies too far ahead of a trusted time is no floor; one within five minutes is",
        arguments: [300_000, 300_001] as [Int64])
    func heals(_ ahead: Int64) {
        let last = HybridTime(milliseconds: UInt64(Self.origin + ahead), counter: 7, node: "1")
        var clock = HybridClock(last: last)
        let next = clock.tick(now: Self.time(0))
        if ahead <= 300_000 {
            #expect(next > last)
        } else {
            #expect(next == HybridTime(milliseconds: UInt64(Self.origin), counter: 0, node: "1"))
        }
        #expect(clock.tick(now: Self.time(0)) > next)
    }
}
