import Agent
import SyncCore
import Testing

struct DiagnosticsReportsTests {
    @Test("One report is on its way at a time, and one that was not sent stays due")
    func oneAtATime() {
        let now = Instant(nanoseconds: 5)
        var reports = DiagnosticsReports()
        func begins(mayGo: Bool = true) -> Bool { reports.begin(mayGo: mayGo, at: now) }
        let idle = begins()
        reports.handle(.raised, at: now)
        let wanted = [begins(mayGo: false), begins(), begins()]
        #expect([idle] + wanted == [false, false, true, false])
        reports.gaveUp()
        let again = [begins(), begins()]
        #expect(again == [true, false])
        reports.ended(isSent: true, at: now)
        let done = begins()
        #expect(!done)
    }
}
