import SyncCore
import Testing

@Suite("Clock offset")
struct ClockOffsetTests {
    /// Wall time at which boot time was 0, milliseconds since 1970-01-01 UTC.
    private static let origin: Int64 = 1_795_216_800_000

    private static func hub(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: origin + milliseconds) }

    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test("Without a sample there is no offset")
    func none() {
        #expect(ClockOffset().offset(at: Moment(instant: Self.at(0), wall: Self.hub(0))) == nil)
    }

    @Test("The hub's time is taken for the middle of the round trip, with half of it as the error")
    func middle() throws {
        var clock = ClockOffset()
        // Boot time 1000...1200 ms, the hub says 51,100 there: it is 50,000 ahead of boot time.
        clock.add(hubTime: Self.hub(51_100), sent: Self.at(1_000), received: Self.at(1_200))
        let moment = Moment(instant: Self.at(2_000), wall: Self.hub(51_500))
        let (offset, error) = try #require(clock.offset(at: moment))
        #expect(offset == .milliseconds(500))
        #expect(error == .milliseconds(100))
    }

    @Test("The sample with the shortest round trip counts, as long as it is among the last eight")
    func filter() {
        var clock = ClockOffset()
        clock.add(hubTime: Self.hub(1_010), sent: Self.at(0), received: Self.at(20))
        for index in Int64(1)...7 {
            clock.add(hubTime: Self.hub(90_000), sent: Self.at(index * 1_000), received: Self.at(index * 1_000 + 500))
        }
        #expect(clock.best?.difference == Self.origin + 1_000)
        clock.add(hubTime: Self.hub(9_900), sent: Self.at(8_000), received: Self.at(8_400))
        #expect(clock.best?.difference == Self.origin + 1_700)
        #expect(clock.best?.error == .milliseconds(200))
    }

    @Test("A step of the wall clock does not spoil what is known")
    func wallStep() throws {
        var clock = ClockOffset()
        clock.add(hubTime: Self.hub(1_000_000), sent: Self.at(0), received: Self.at(0))
        let year: Int64 = 31_536_000_000
        let before = try #require(clock.offset(at: Moment(instant: Self.at(10), wall: Self.hub(1_000_010))))
        let after = try #require(clock.offset(at: Moment(instant: Self.at(10), wall: Self.hub(1_000_010 - year))))
        #expect(before.offset == .zero)
        #expect(after.offset == .milliseconds(year))
    }

    @Test("Nonsense from the hub is a number like any other and traps nowhere", arguments: [Int64.min, 0, .max])
    func nonsense(_ hub: Int64) {
        var clock = ClockOffset()
        clock.add(hubTime: Timestamp(milliseconds: hub), sent: Self.at(5), received: Self.at(9))
        _ = clock.offset(at: Moment(instant: Self.at(-5), wall: Timestamp(milliseconds: .max)))
        _ = clock.offset(at: Moment(instant: Self.at(5), wall: Timestamp(milliseconds: .min)))
        // An answer before its question is no sample.
        var other = ClockOffset()
        other.add(hubTime: Timestamp(milliseconds: hub), sent: Self.at(9), received: Self.at(5))
        #expect(other.best == nil)
    }
}
