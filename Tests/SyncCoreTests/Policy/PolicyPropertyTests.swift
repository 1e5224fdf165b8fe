import SyncCore
import Testing

/// Every combination of the small enumerations, with sizes around each limit.
@Suite("Policy, every situation")
struct PolicyPropertyTests {
    static let now = PolicyTableTests.now
    static let sizes = [0, 1, 16 << 10, (16 << 10) + 1, 32 << 10, (32 << 10) + 1, 1 << 20, 50_000_000, .max]
    /// Uplinks from cheap to expensive.
    static let uplinks = [
        Uplink(name: "eth0"), Uplink(name: "wwan0", isMetered: true),
        Uplink(name: "wwan0", isMetered: true, isRoaming: true),
    ]
    /// Used bytes of a budget of 10 MB, from below soft to beyond hard.
    static let used = [0, 7_999_999, 8_000_000, 8_999_999, 9_000_000, 9_999_999, 10_000_000, .max]
    static let long = now.advanced(by: .seconds(-30 * 86_400))

    /// The parts of a situation that have an order, as indices; higher is harder.
    struct Hardness: Sendable {
        var power: Int
        var uplink: Int
        var used: Int
        var closed: Int

        static var all: [Hardness] {
            var all: [Hardness] = []
            for power in PowerLevel.allCases.indices {
                for uplink in uplinks.indices {
                    for used in PolicyPropertyTests.used.indices {
                        for closed in 0...1 { all.append(Hardness(power: power, uplink: uplink, used: used, closed: closed)) }
                    }
                }
            }
            return all
        }

        /// One step harder in one respect.
        var harder: [Hardness] {
            var steps: [Hardness] = []
            for path in [\Hardness.power, \.uplink, \.used, \.closed] {
                var step = self
                step[keyPath: path] += 1
                if step.isPossible { steps.append(step) }
            }
            return steps
        }

        private var isPossible: Bool {
            power < PowerLevel.allCases.count && uplink < uplinks.count && used < PolicyPropertyTests.used.count && closed < 2
        }

        /// - Parameter flags: Bit 0: critical work allowed on a low battery; 1: starved; 2: forced; 3: no budget.
        func situation(_ flags: Int) -> Situation {
            var situation = Situation(reachability: .online)
            situation.power = PowerLevel.allCases[power]
            situation.uplink = uplinks[uplink]
            let resets = now.advanced(by: .seconds(3_600))
            if flags & 8 == 0 {
                situation.budgets = [
                    Budget(limit: 10_000_000, used: PolicyPropertyTests.used[used], resetsAt: resets),
                    Budget(limit: 500_000_000, used: 0, resetsAt: resets),
                ]
            }
            situation.isWindowOpen = closed == 0
            situation.settings.allowsCritical = flags & 1 != 0
            if flags & 2 != 0 { situation.unmeteredSeenAt = long }
            situation.isForced = flags & 4 != 0
            return situation
        }
    }

    private func goes(_ traffic: TrafficClass, _ situation: Situation, _ bytes: Int, _ since: Timestamp?) -> Bool {
        Policy.decide(traffic, in: situation, now: Self.now, bytes: bytes, since: since) == .allow
    }

    @Test("Less battery, a dearer link, a harder budget, a closed window or more bytes never send more", arguments: 0..<16)
    func monotone(_ flags: Int) {
        // One expectation at the end: there are millions of looks.
        var broken: [String] = []
        for hardness in Hardness.all {
            let easy = hardness.situation(flags)
            let steps = hardness.harder.map { $0.situation(flags) }
            for traffic in TrafficClass.allCases {
                for since in [nil, Self.long] {
                    for (index, bytes) in Self.sizes.enumerated() where !goes(traffic, easy, bytes, since) {
                        for hard in steps where goes(traffic, hard, bytes, since) {
                            broken.append("\(traffic) of \(bytes) goes in the harder \(hard), not in \(easy)")
                        }
                        for more in Self.sizes[index...] where goes(traffic, easy, more, since) {
                            broken.append("\(traffic) of \(more) goes, of \(bytes) not, in \(easy)")
                        }
                        var unforced = easy
                        unforced.isForced = false
                        if goes(traffic, unforced, bytes, since) { broken.append("\(traffic): force stops it in \(easy)") }
                    }
                }
            }
            guard let terms = Policy.pullTerms(in: easy, now: Self.now) else {
                for hard in steps where Policy.pullTerms(in: hard, now: Self.now) != nil { broken.append("pull in \(hard)") }
                continue
            }
            for hard in steps.compactMap({ Policy.pullTerms(in: $0, now: Self.now) }) {
                let isHarder = hard.interval >= terms.interval && (terms.entities == .all || hard.entities == .critical)
                if !isHarder { broken.append("\(hard) in a harder situation than \(terms) in \(easy)") }
            }
        }
        #expect(broken.isEmpty, "\(broken.prefix(3))")
    }

    @Test("Every deferral has a row, a sentence and a way out; none of them is in the past", arguments: 0..<16)
    func explained(_ flags: Int) {
        var broken: [String] = []
        for hardness in Hardness.all {
            for reachability in Reachability.allCases {
                var situation = hardness.situation(flags)
                situation.reachability = reachability
                for traffic in TrafficClass.allCases {
                    let answer = Policy.explain(traffic, in: situation, now: Self.now, bytes: 1)
                    guard answer.verdict == Policy.decide(traffic, in: situation, now: Self.now, bytes: 1) else {
                        broken.append("\(answer) is not what is decided in \(situation)")
                        continue
                    }
                    let isWell: Bool
                    if let deferral = answer.deferral {
                        let sentence = answer.sentence
                        isWell =
                            answer.rule != .otherwise && !answer.reliefs.isEmpty && sentence.contains(" wait because ")
                            && sentence.contains("; they go ") && deferral.until.map { $0 > Self.now } ?? true
                            && (deferral.until.map { answer.reliefs.contains(.time($0)) } ?? true)
                    } else {
                        isWell = answer.rule == .otherwise && answer.reliefs.isEmpty
                    }
                    if !isWell { broken.append("\(answer) in \(situation)") }
                }
            }
        }
        #expect(broken.isEmpty, "\(broken.prefix(3))")
    }

    @Test("The largest request is exactly the size up to which the decision is to allow", arguments: 0..<16)
    func largest(_ flags: Int) {
        for hardness in Hardness.all {
            let situation = hardness.situation(flags)
            for traffic in TrafficClass.allCases where goes(traffic, situation, 0, Self.long) {
                guard let most = Policy.largestRequest(traffic, in: situation) else {
                    #expect(goes(traffic, situation, .max, Self.long))
                    continue
                }
                #expect(goes(traffic, situation, most, Self.long))
                #expect(!goes(traffic, situation, most.saturatingAdd(1), Self.long) || most == .max)
            }
        }
    }

    @Test("A plan sends exactly what the decision allows, piece by piece, and never more than the budget has", arguments: 0..<16)
    func plan(_ flags: Int) {
        let items = TrafficClass.allCases.flatMap { traffic in
            [0, 700, 300_000, 2_000_000].map { bytes in
                PlanItem(id: "\(traffic.name)-\(bytes)", traffic: traffic, bytes: bytes, since: Self.long)
            }
        }
        for hardness in Hardness.all {
            let situation = hardness.situation(flags)
            let plan = Plan(items, in: situation, now: Self.now)
            var spent = situation
            for step in plan.steps {
                var rest = step.bytes
                repeat {
                    let isFile = step.item.traffic == .media || step.item.traffic == .largeMedia
                    let piece = isFile ? min(Plan.piece, rest) : rest
                    let verdict = Policy.decide(
                        step.item.traffic, in: spent, now: Self.now, bytes: piece, since: step.item.since)
                    #expect(verdict == .allow)
                    spent.spend(piece, step.item.traffic)
                    rest -= piece
                } while rest > 0
            }
            #expect(plan.bytes == plan.steps.reduce(0) { $0 + $1.bytes })
            for budget in situation.budgets { #expect(plan.bytes <= budget.left(forCritical: true)) }
            // Every byte is either sent or waits, and what waits would not go now either.
            for item in items {
                let sent = plan.steps.filter { $0.item == item }.reduce(0) { $0 + $1.bytes }
                let waits = plan.waits.filter { $0.item == item }
                #expect(sent + waits.reduce(0) { $0 + $1.bytes } == item.bytes)
                for wait in waits {
                    #expect(!wait.sentence.isEmpty)
                    if item.traffic != .media && item.traffic != .largeMedia {
                        #expect(!goes(item.traffic, spent, item.bytes, item.since))
                    }
                }
            }
        }
    }

    @Test("A plan keeps the order of a cycle and names what an item waits for by itself")
    func planOrder() {
        let plan = Plan(
            [
                PlanItem(id: "b", traffic: .bulk, bytes: 3), PlanItem(id: "n1", traffic: .normal, bytes: 2),
                PlanItem(id: "c", traffic: .critical, bytes: 1), PlanItem(id: "n2", traffic: .normal, bytes: 2),
                PlanItem(id: "n3", traffic: .normal, bytes: 2, blockedBy: Deferral(.conflict)),
            ], in: PolicyTableTests.online(), now: Self.now)
        #expect(plan.steps.map(\.item.id) == ["c", "n1", "n2", "b"])
        #expect(plan.waits.map(\.reason) == [Deferral(.conflict)])
        #expect(plan.waits.map(\.sentence) == ["n3 waits because its record has a conflict that a person must resolve"])
    }

    @Test("A file goes in part when the budget ends in the middle")
    func planPart() {
        let situation = PolicyTableTests.online { $0.budgets = [Budget(limit: 1_000_000, used: 0)] }
        let plan = Plan([PlanItem(id: "f", traffic: .largeMedia, bytes: 2_000_000)], in: situation, now: Self.now)
        #expect(plan.steps.map(\.bytes) == [3 * Plan.piece])
        #expect(plan.waits.map(\.bytes) == [2_000_000 - 3 * Plan.piece])
        #expect(plan.waits.map(\.reason.reason) == [.budget])
    }

    @Test("No size, limit or use makes a budget overflow or turn negative")
    func hostileBudgets() {
        let numbers = [Int.min, -1, 0, 1, 9, 10, 11, 1 << 40, .max - 1, .max]
        for limit in numbers {
            for used in numbers {
                var budget = Budget(limit: limit, used: used)
                for bytes in numbers {
                    let before = budget.used
                    budget.spend(bytes)
                    #expect(budget.used >= before && budget.limit >= 0)
                    #expect(budget.left(forCritical: false) >= 0)
                    #expect(budget.left(forCritical: true) >= budget.left(forCritical: false))
                    #expect((0...100).contains(budget.percentUsed))
                    #expect((budget.level == .spent) == (budget.left(forCritical: true) == 0))
                    #expect((budget.level >= .reserve) == (budget.left(forCritical: false) == 0))
                }
            }
        }
    }
}
