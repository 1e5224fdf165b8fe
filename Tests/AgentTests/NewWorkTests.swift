import Agent
import SyncCore
import Testing

struct NewWorkTests {
    @Test("One report holds the most urgent priority and the earliest expiry of all work before it")
    func oneReport() {
        let start = Instant(nanoseconds: 5)
        var work = NewWork()
        let plans = [
            work.add(.bulk, expiry: start.advanced(by: .seconds(9))), work.add(.normal, expiry: nil),
            work.add(.bulk, expiry: start.advanced(by: .seconds(7))),
        ]
        #expect(plans == [true, false, false])
        let report = work.take()
        #expect(report?.priority == .normal && report?.expiry == start.advanced(by: .seconds(7)))
        let (none, next) = (work.take(), work.add(.critical, expiry: nil))
        #expect(none == nil && next)
    }
}
