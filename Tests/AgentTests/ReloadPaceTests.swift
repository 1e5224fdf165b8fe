import Agent
import SyncCore
import Testing

@Suite("Pace of reloads")
struct ReloadPaceTests {
    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test("The first wish is done at once, and a thousand more before it begins are the same one")
    func flood() {
        var pace = ReloadPace()
        #expect(pace.request(at: Self.at(0)) == .zero)
        for _ in 0..<1_000 { #expect(pace.request(at: Self.at(1)) == nil) }
    }

    @Test("A wish while one runs gets a reload of its own, a second after that one has ended")
    func during() {
        var pace = ReloadPace()
        _ = pace.request(at: Self.at(0))
        pace.begin(at: Self.at(5))
        #expect(pace.request(at: Self.at(10)) == .milliseconds(995))
        #expect(pace.request(at: Self.at(11)) == nil)
        pace.end(at: Self.at(20))
        pace.begin(at: Self.at(1_005))
        pace.end(at: Self.at(1_030))
        #expect(pace.request(at: Self.at(1_040)) == .milliseconds(990))
        #expect(pace.request(at: Self.at(1_050)) == nil)
        pace.begin(at: Self.at(2_030))
        pace.end(at: Self.at(2_040))
        #expect(pace.request(at: Self.at(5_000)) == .zero)
    }

    @Test("A flood of a minute makes no more than one reload a second")
    func rate() {
        var pace = ReloadPace()
        var (planned, count): (Int64?, Int) = (nil, 0)
        for now in Int64(0)..<60_000 {
            if let delay = pace.request(at: Self.at(now)) { planned = now + delay.milliseconds }
            guard let due = planned, due <= now else { continue }
            planned = nil
            count += 1
            pace.begin(at: Self.at(now))
            pace.end(at: Self.at(now))
        }
        #expect((59...62).contains(count))
    }
}
