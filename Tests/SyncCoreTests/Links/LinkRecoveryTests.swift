import SyncCore
import Testing

@Suite("Recovery of a link")
struct LinkRecoveryTests {
    private func rule(_ pattern: String, after: Int64 = 600, every: Int64 = 3_600) -> LinkRule {
        var rule = LinkRule.sample(pattern)
        (rule.recover, rule.recoverAfter, rule.recoverEvery) = (
            "/sbin/" + (pattern == "*" ? "any" : pattern), .seconds(after), .seconds(every)
        )
        return rule
    }

    @Test("Nothing before its time, then once, then once in its pause, and an answer begins the count anew")
    func times() {
        var recovery = LinkRecovery()
        let rules = [rule("wwan*")]
        func look(_ state: Reachability, _ second: Double) -> Int {
            recovery.look(state, rules, links: ["wwan0"], uplink: "wwan0", now: .seconds(second)).count
        }
        #expect(look(.offline, 0) == 0)
        #expect(recovery.nextWake == .seconds(600))
        #expect(look(.connecting, 599) == 0)
        #expect(look(.degraded, 600) == 1)
        #expect(recovery.nextWake == .seconds(4_200))
        #expect(look(.degraded, 4_199) == 0)
        #expect(look(.degraded, 4_200) == 1)
        for state in [Reachability.online, .auth, .captive] {
            #expect(look(state, 4_201) == 0)
            #expect(recovery.nextWake == nil)
        }
        // It ran less than its pause ago, and the silence is new.
        #expect(look(.offline, 5_000) == 0)
        #expect(recovery.nextWake == .seconds(7_800))
        #expect(look(.offline, 7_800) == 1)
    }

    @Test(
        "Its argument is the uplink, else the first link of its rule, else the pattern; and a link belongs to the first rule that matches it"
    )
    func names() {
        let rules = [rule("eth0"), rule("eth*"), rule("wwan*", after: 300)]
        func runs(_ links: [String], uplink: String?) -> [String] {
            var recovery = LinkRecovery()
            _ = recovery.look(.offline, rules, links: links, uplink: uplink, now: .seconds(0))
            return recovery.look(.offline, rules, links: links, uplink: uplink, now: .seconds(700)).map { "\($0.program) \($0.link)" }
        }
        #expect(runs(["eth0", "eth1", "eth2"], uplink: "eth2") == ["/sbin/eth0 eth0", "/sbin/eth* eth2", "/sbin/wwan* wwan*"])
        #expect(runs(["eth0", "wwan3"], uplink: nil) == ["/sbin/eth0 eth0", "/sbin/eth* eth*", "/sbin/wwan* wwan3"])
    }

    @Test("Without a program nothing runs and no wake-up is planned")
    func none() {
        var recovery = LinkRecovery()
        #expect(recovery.look(.offline, [.sample("eth0")], links: ["eth0"], uplink: nil, now: .seconds(0)).isEmpty)
        #expect(recovery.look(.offline, [.sample("eth0")], links: ["eth0"], uplink: nil, now: .seconds(1e6)).isEmpty)
        #expect(recovery.nextWake == nil)
    }
}
