import SyncCore
import Testing

@Suite("Allowance: the verdicts as a cycle uses them")
struct AllowanceTests {
    private static let now = Timestamp(milliseconds: 1_795_208_645_000)

    @Test("The short cut for what nothing objects to agrees with the table")
    func shortCut() {
        for power in PowerLevel.allCases {
            for uplink in [nil, Uplink(name: "eth0"), Uplink(name: "wwan0", isMetered: true), Uplink(name: "w", isRoaming: true)] {
                for isOpen in [true, false] {
                    for reachability in Reachability.allCases {
                        var situation = Situation(reachability: reachability)
                        situation.power = power
                        situation.uplink = uplink
                        situation.isWindowOpen = isOpen
                        let verdicts = [TrafficClass.critical, .normal, .bulk, .pull].map {
                            Policy.decide($0, in: situation, now: Self.now)
                        }
                        let isFree = verdicts.allSatisfy { $0 == .allow }
                        if situation.isUnrestricted {
                            #expect(isFree)
                            #expect(Policy.pullTerms(in: situation, now: Self.now)?.entities == .all)
                            #expect(Policy.largestRequest(.bulk, in: situation) == nil)
                        }
                        let allowed = Allowance(in: situation, now: Self.now)
                        #expect((allowed.push == .bulk) == (verdicts[2] == .allow))
                        #expect((allowed.pull == nil) == (verdicts[3] != .allow))
                        #expect((allowed.deferral == nil) == isFree)
                    }
                }
            }
        }
    }

    @Test("What is left of a budget is for the most urgent when it does not hold any mutation of the others")
    func rest() {
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "eth0")
        situation.budgets = [Budget(limit: 20_000_000, used: 17_950_000)]
        let allowed = Allowance(in: situation, now: Self.now)
        #expect(allowed.push == .critical)
        #expect(allowed.mutationBytes == 2_050_000)
    }

    @Test("The earliest end of a deferral is known")
    func changes() {
        var situation = Situation(reachability: .online)
        situation.isWindowOpen = false
        situation.windowOpensAt = Self.now.advanced(by: .seconds(500))
        #expect(Allowance(in: situation, now: Self.now).changesAt == situation.windowOpensAt)
        situation.windowOpensAt = Self.now.advanced(by: .seconds(-5))
        #expect(Allowance(in: situation, now: Self.now).changesAt == nil)
    }
}
