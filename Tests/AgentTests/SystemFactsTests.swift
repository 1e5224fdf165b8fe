import Agent
import SyncCore
import Testing

struct SystemFactsTests {
    @Test("Facts are old ten minutes after they were asked for, also while they are being collected")
    func age() {
        let start = Instant(nanoseconds: 5)
        var facts = SystemFacts()
        #expect(facts.isOld(at: start))
        facts.begin(at: start)
        #expect(!facts.isOld(at: start.advanced(by: .seconds(600))))
        #expect(facts.isOld(at: start.advanced(by: .seconds(601))))
        facts.collected(nil)
        #expect(facts.last == nil)
    }
}
