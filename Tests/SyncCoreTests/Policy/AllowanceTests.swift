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

    @Test(
        "The rest of a budget limits the size of each class by itself, down to the last byte",
        arguments: [
            (20_000_000, 17_950_000, 2_050_000, 50_000), (10_000, 0, 10_000, 9_000), (10_000, 8_999, 1_001, 1),
        ])
    func rest(_ limit: Int, _ used: Int, _ critical: Int, _ others: Int) {
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "eth0")
        situation.budgets = [Budget(limit: limit, used: used)]
        let allowed = Allowance(in: situation, now: Self.now)
        #expect(allowed.push == .bulk)
        #expect(allowed.sizes == MutationSizes([.critical: critical, .normal: others, .bulk: others]))
        #expect(allowed.batchBytes == min(critical, Limits.batchBytesMax))
        #expect(allowed.deferral == nil)
    }

    @Test("Only the reserve for critical work is left: nothing else may be sent")
    func reserve() {
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "eth0")
        let resets = Self.now.advanced(by: .seconds(900))
        situation.budgets = [Budget(limit: 10_000, used: 9_000, resetsAt: resets)]
        let allowed = Allowance(in: situation, now: Self.now)
        #expect(allowed.push == .critical && allowed.sizes == MutationSizes([.critical: 1_000]))
        #expect(allowed.deferral == Deferral(.budget, until: resets) && allowed.changesAt == resets)
    }

    @Test("Work that is larger than a whole budget gets no time of the next period")
    func neverFits() {
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "eth0")
        let resets = Self.now.advanced(by: .seconds(900))
        situation.budgets = [Budget(limit: 10_000, used: 9_500, resetsAt: resets)]
        #expect(Policy.decide(.critical, in: situation, now: Self.now, bytes: 10_000) == .defer(Deferral(.budget, until: resets)))
        #expect(Policy.decide(.critical, in: situation, now: Self.now, bytes: 10_001) == .defer(Deferral(.budget, until: nil)))
        situation.budgets = [Budget(limit: 10_000, used: 5_000, resetsAt: resets)]
        #expect(Policy.decide(.normal, in: situation, now: Self.now, bytes: 9_000) == .defer(Deferral(.budget, until: resets)))
        #expect(Policy.decide(.normal, in: situation, now: Self.now, bytes: 9_001) == .defer(Deferral(.budget, until: nil)))
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
