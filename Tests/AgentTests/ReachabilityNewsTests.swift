import Agent
import SyncCore
import Testing

@Suite("The reachability that people are told")
struct ReachabilityNewsTests {
    private let now = Timestamp(milliseconds: 1_000)
    private let refused = HubFault(.refused, "connection refused")
    private let unresolved = HubFault(.unresolved, "no such name")

    @Test("While the hub is away the fault that the probes found counts, for one change")
    func away() {
        var news = ReachabilityNews()
        news.probesFound("probe_failed", refused)
        let first = news.changed(to: .degraded, "failures", unresolved, at: now)
        #expect(first == refused.detail && news.fault == refused && news.since == now)
        let second = news.changed(to: .offline, "failures", unresolved, at: now)
        #expect(second == unresolved.detail && news.fault == unresolved)
        news.probesFound("no_link", nil)
        let third = news.changed(to: .offline, "failures", nil, at: now)
        #expect(third == "no_link" && news.fault == nil && news.cause == "no_link")
    }

    @Test("When it is back the engine's cause counts")
    func online() {
        var news = ReachabilityNews()
        news.probesFound("probe_failed", refused)
        let told = news.changed(to: .online, "answered", nil, at: now)
        #expect(told == "answered" && news.fault == nil)
    }

    @Test("A new fault replaces the cause, the same one is no news, and a success ends only the fault")
    func faults() {
        var news = ReachabilityNews()
        let told = [news.failed(refused), news.failed(refused), news.failed(unresolved)]
        #expect(told == [true, false, true] && news.cause == unresolved.detail)
        news.endFault()
        #expect(news.fault == nil && news.cause == unresolved.detail)
    }
}
