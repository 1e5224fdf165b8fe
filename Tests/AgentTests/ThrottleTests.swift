import Agent
import SyncCore
import Testing

struct ThrottleTests {
    @Test("Work begins at most once in an interval; work for another reason counts, and a reset lets it begin at once")
    func interval() {
        let start = Instant(nanoseconds: 5)
        var throttle = Throttle(.seconds(10))
        func begins(after seconds: Int) -> Bool { throttle.begin(at: start.advanced(by: .seconds(seconds))) }
        let first = [begins(after: 0), begins(after: 9), begins(after: 10), begins(after: 19)]
        #expect(first == [true, false, true, false])
        throttle.began(at: start.advanced(by: .seconds(20)))
        let second = [begins(after: 29), begins(after: 30)]
        #expect(second == [false, true])
        throttle.reset()
        let third = begins(after: 30)
        #expect(third)
    }
}
