import LocalAPI
import SyncCore
import Testing

@Suite("Answers about links, power, cost and reasons") struct SurroundingsAnswerTests {
    private typealias Samples = SurroundingsSamples

    @Test("Links read as they were written", arguments: [Samples.links, Samples.awkwardLinks, .init(items: [], uplink: nil)])
    func links(_ answer: LinksAnswer) throws {
        #expect(try LinksAnswer(JSONReader.read(answer.answer.body)) == answer)
    }

    @Test("A hint's answer reads as it was written, also when nothing is known of the link yet")
    func hints() throws {
        for answer in [
            LinkHintAnswer(
                name: "wwan0", isMetered: true, meteredBy: "hint", isRoaming: true,
                expiresAt: time("2026-11-20T22:40:00Z")),
            LinkHintAnswer(name: "wwan7", isMetered: nil, isRoaming: nil),
        ] {
            #expect(try LinkHintAnswer(JSONReader.read(answer.answer.body)) == answer)
        }
    }

    @Test("Power reads as it was written", arguments: [Samples.lowBattery, Samples.noBattery, Samples.awkwardPower])
    func power(_ answer: PowerAnswer) throws {
        #expect(try PowerAnswer(JSONReader.read(answer.answer.body)) == answer)
    }

    @Test("The ledger reads as it was written", arguments: [Samples.ledger, Samples.awkwardLedger, .init(by: .month, items: [])])
    func ledger(_ answer: LedgerAnswer) throws {
        #expect(try LedgerAnswer(JSONReader.read(answer.answer.body)) == answer)
    }

    @Test("A reason reads as it was written", arguments: [Samples.why, Samples.awkwardWhy, Samples.expiring])
    func why(_ answer: WhyAnswer) throws {
        #expect(try WhyAnswer(JSONReader.read(answer.answer.body)) == answer)
    }

    @Test("A plan reads as it was written")
    func plan() throws {
        for answer in [Samples.plan, Samples.awkwardPlan, .init(situation: Samples.situation)] {
            let isSame = try PlanAnswer(JSONReader.read(answer.answer.body)) == answer
            #expect(isSame, "\(answer.bytes) bytes")
        }
    }

    @Test("The answers look as documented")
    func shapes() {
        let table: [(LocalAnswer, String)] = [
            (
                LinksAnswer(items: [Samples.cable], uplink: "wwan0").answer,
                #"{"items":[{"name":"eth0","kind":"ethernet","state":"down","carrier":false,"metered":false,"#
                    + #""metered_by":"kind","roaming":false,"last_probe":null}],"uplink":"wwan0"}"#
            ),
            (
                LinksAnswer(items: [Samples.modem], uplink: nil).answer,
                #"{"items":[{"name":"wwan0","kind":"wwan","state":"routed","carrier":true,"metered":true,"#
                    + #""metered_by":"devtype","roaming":true,"expires_at":"2026-11-20T22:40:00.000Z","#
                    + #""addresses":["10.64.3.17","2001:db8::17"],"rate_bytes_per_s":256000,"rtt_ms":42,"#
                    + #""last_probe":{"at":"2026-11-20T21:35:00.000Z","result":"ok"},"#
                    + #""recovery":{"runs":3,"last_at":"2026-11-20T21:30:00.000Z","last_result":"exit status 1"},"#
                    + #""budget":{"day":{"used":19251200,"limit":20000000,"level":"reserve","#
                    + #""resets_at":"2026-11-21T00:00:00.000Z"},"month":{"used":92274688,"limit":500000000,"#
                    + #""level":"open"}}}],"uplink":null}"#
            ),
            (
                LinkHintAnswer(
                    name: "wwan0", isMetered: true, meteredBy: "hint", isRoaming: true,
                    expiresAt: time("2026-11-20T22:40:00Z")
                ).answer,
                #"{"name":"wwan0","metered":true,"metered_by":"hint","roaming":true,"#
                    + #""expires_at":"2026-11-20T22:40:00.000Z"}"#
            ),
            (
                Samples.noBattery.answer,
                #"{"source":"mains","percent":null,"discharging":false,"level":"ample","supplies":[]}"#
            ),
            (
                PowerAnswer(
                    PowerState(source: "battery", percent: 12, isDischarging: true, level: "low", warning: "w"),
                    supplies: [
                        .init(name: "BAT0", type: "Battery", status: "Full", percent: 1, ignoredBecause: "i")
                    ]
                ).answer,
                #"{"source":"battery","percent":12,"discharging":true,"level":"low","warning":"w","supplies":[{"#
                    + #""name":"BAT0","type":"Battery","status":"Full","percent":1,"ignored_because":"i"}]}"#
            ),
            (
                LedgerAnswer(by: .day, items: [Samples.ledger.items[0]], budgets: [.init(link: "wwan0", .init())]).answer,
                #"{"items":[{"link":"wwan0","day":"2026-11-19","class":"push","up":181022,"down":20110,"#
                    + #""requests":61}],"budgets":{"wwan0":{}},"by":"day"}"#
            ),
            (
                LedgerAnswer(
                    by: .month,
                    items: [.init(link: "e", period: "2026-11", purpose: "pull", up: 1, down: 2, requests: 3)]
                ).answer,
                #"{"items":[{"link":"e","month":"2026-11","class":"pull","up":1,"down":2,"requests":3}],"budgets":{},"#
                    + #""by":"month"}"#
            ),
            (
                Samples.why.answer,
                #"{"id":"0199c3f3-2","record":{"entity":"audits","id":"a-17"},"state":"pending","verdict":"defer","#
                    + #""reason":"metered","until":"2026-11-21T20:59:00.000Z","#
                    + #""sentence":"normal mutations wait because the link wwan0 is metered","rule":"metered","#
                    + #""would_change":["when an unmetered link is up","with `agentctl sync --force`"],"#
                    + #""situation":{"reachability":"online","uplink":"wwan0","metered":true,"roaming":false,"#
                    + #""power":"saver","battery_percent":28,"budget":"soft","budget_left_bytes":3400000,"#
                    + #""paused":false,"breaker_open":false,"window_open":true}}"#
            ),
        ]
        for (answer, expected) in table { #expect(text(answer) == expected) }
    }

    @Test("A plan says what goes in order, joins what waits for the same, and names no more than its limit")
    func planShape() throws {
        let plan = Samples.plan
        #expect(plan.bytes == 5_096)
        #expect(plan.sends.map(\.traffic) == ["pull", "critical"])
        #expect(
            plan.sends[1]
                == .init(
                    traffic: "critical", count: 5, bytes: 1_000, items: (1...5).map { .init(id: "c-\($0)", bytes: 200) }))
        #expect(plan.waits.map(\.count) == [14, 1])
        #expect(plan.waits[0].bytes == 18_200)
        let json = try #require(JSONReader.read(plan.answer.body).object)
        #expect(json.names == ["would_send", "would_defer", "situation", "bytes_total"])
        #expect(
            json["would_send"]?.array?.first?.json
                == #"{"class":"pull","count":2,"bytes":4096,"items":[{"id":"audits","bytes":2048},{"id":"templates","bytes":2048}]}"#)
        #expect(
            json["would_defer"]?.array?.last?.json
                == #"{"class":"media","count":1,"bytes":4000000,"reason":"metered","until":null,"#
                + #""sentence":"files wait because the link wwan0 is metered"}"#)

        var large = PlanAnswer(situation: Samples.situation)
        for number in 0..<100_000 { large.send("normal", id: "m-\(number)", bytes: 1) }
        #expect(large.sends.count == 1)
        #expect(large.sends[0].count == 100_000)
        #expect(large.sends[0].items.count == PlanAnswer.itemsMax)
        #expect(large.sends[0].items.last?.id == "m-199")
        #expect(large.bytes == 100_000)
    }

    @Test("Waits with an end of their own are told apart as long as there are few")
    func manyWaits() {
        var plan = PlanAnswer(situation: Samples.situation)
        for number in 0..<1_000 {
            plan.wait(Samples.metered("normal", bytes: 1, until: Samples.now.advanced(by: .seconds(Int64(number)))))
        }
        #expect(plan.waits.count == PlanAnswer.waitsMax)
        #expect(plan.waits.reduce(0) { $0 + $1.count } == 1_000)
        // A reason that is new is never lost.
        plan.wait(.init(traffic: "bulk", count: 1, bytes: 1, reason: "window", sentence: "s"))
        #expect(plan.waits.last?.reason == "window")
    }

    @Test("The verdict on a mutation that is not pending follows from its state", arguments: MutationState.allCases)
    func verdicts(_ state: MutationState) {
        let verdict = WhyAnswer.Verdict(state)
        switch state {
        case .pending: #expect(verdict == nil)
        case .inFlight: #expect(verdict == .sent)
        case .conflicted: #expect(verdict == .conflict)
        case .rejected, .failed, .held: #expect(verdict == .parked)
        case .done, .resolved, .discarded, .coalesced, .cancelled, .superseded, .expired: #expect(verdict == .settled)
        }
    }

    @Test("A situation holds the facts of the judgement, without those that are past")
    func situation() {
        var situation = Situation(
            reachability: .degraded, pause: .init(until: Samples.now, reason: "", uid: 0),
            retryAt: Samples.now.advanced(by: .seconds(1)))
        situation.uplink = Uplink(name: "wwan0", isMetered: true, isRoaming: true)
        situation.power = .low
        situation.isBreakerOpen = true
        situation.isWindowOpen = false
        situation.budgets = [Budget(limit: 100, used: 93), Budget(limit: 1_000)]
        let note = SituationNote(situation, batteryPercent: 9, now: Samples.now)
        #expect(
            note
                == SituationNote(
                    reachability: "degraded", uplink: "wwan0", isMetered: true, isRoaming: true, power: "low",
                    batteryPercent: 9, budget: "reserve", budgetLeft: 7, isPaused: false, isBreakerOpen: true,
                    isWindowOpen: false, retryAt: Samples.now.advanced(by: .seconds(1))))
        situation.pause?.until = nil
        situation.retryAt = Samples.now
        let later = SituationNote(situation, now: Samples.now)
        #expect(later.isPaused)
        #expect(later.retryAt == nil)
    }

    @Test("An answer shows the core's decision unchanged")
    func decided() throws {
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "wwan0", isMetered: true)
        situation.unmeteredSeenAt = Samples.now
        let explanation = Policy.explain(.normal, in: situation, now: Samples.now, bytes: 200, since: Samples.now)
        let why = WhyAnswer(id: "k", record: nil, explanation, at: HubPlace())
        #expect(why.verdict == "defer")
        #expect(why.reason == "metered")
        #expect(why.rule == "metered")
        #expect(why.until == explanation.deferral?.until)
        #expect(why.wouldChange.contains("when an unmetered link is up"))
        let deferral = try #require(StatusDocument.Deferral(.normal, count: 3, explanation))
        #expect(deferral.reason == "metered")
        #expect(deferral.event == "when an unmetered link is up")

        (situation.isWindowOpen, situation.windowOpensAt) = (false, Samples.now.advanced(by: .seconds(7_200)))
        let both = WhyAnswer(id: "k", record: nil, Policy.explain(.bulk, in: situation, now: Samples.now), at: HubPlace())
        #expect(both.reason == "metered" && both.until == situation.windowOpensAt && both.also.count == 1)
        #expect(try WhyAnswer(JSONReader.read(both.answer.body)) == both)
        let screen = WhyScreen.render(both, now: Samples.now)
        #expect(screen.contains { $0.hasPrefix("it waits as well because it is outside the time window") }, "\(screen)")
        #expect(screen.contains { $0.hasPrefix("not before ") }, "\(screen)")

        let free = Policy.explain(.critical, in: situation, now: Samples.now, bytes: 200, since: Samples.now)
        #expect(WhyAnswer(id: "k", record: nil, free, at: HubPlace()).verdict == "allow")
        #expect(StatusDocument.Deferral(.critical, count: 1, free) == nil)
        let soon = WhyAnswer(
            id: "b-1", state: "pending", verdict: .allow, until: Samples.now.advanced(by: .seconds(4)), sentence: "it is sent soon")
        #expect(WhyScreen.render(soon, now: Samples.now).contains { $0.hasPrefix("at ") && $0.hasSuffix(" (in 4 s)") })

        let plan = Plan(
            [
                PlanItem(id: "n", traffic: .normal, bytes: 300, since: Samples.now),
                PlanItem(id: "c", traffic: .critical, bytes: 200, since: Samples.now),
            ], in: situation, now: Samples.now)
        let answer = PlanAnswer(plan, at: HubPlace(), situation: SituationNote(situation, now: Samples.now))
        #expect(answer.sends == [.init(traffic: "critical", count: 1, bytes: 200, items: [.init(id: "c", bytes: 200)])])
        #expect(answer.waits.map(\.traffic) == ["normal"])
        #expect(answer.waits.map(\.bytes) == [300])
        #expect(answer.bytes == 200)
    }

    @Test("A judged link keeps its kind, its state and who said what it costs")
    func judged() {
        var facts = LinkFacts(name: "wwan0", index: 3)
        facts.isUp = true
        facts.hasCarrier = true
        facts.deviceType = "wwan"
        let survey = LinkSurvey(LinkTable(links: [facts]), now: Instant(nanoseconds: 0))
        #expect(
            survey.links.map { LinkItem($0) } == [
                LinkItem(
                    name: "wwan0", kind: "wwan", state: "carrier", hasCarrier: true, isMetered: true,
                    meteredBy: "devtype")
            ])
        #expect(
            BudgetUse(Budget(limit: 100, used: 95, resetsAt: Samples.now))
                == BudgetUse(used: 95, limit: 100, level: "reserve", resetsAt: Samples.now))
    }

    @Test("The reader refuses other answers, and reads those of older and newer agents as far as it knows them")
    func readerIsLenientWithVersionsAndStrictWithOthers() throws {
        for json in ["{}", "[]", "7", #"{"items":{}}"#, #"{"id":1}"#] {
            let json = try JSONReader.read(json)
            #expect(LinksAnswer(json) == nil)
            #expect(LinkHintAnswer(json) == nil)
            #expect(PowerAnswer(json) == nil)
            #expect(LedgerAnswer(json) == nil)
            #expect(WhyAnswer(json) == nil)
            #expect(PlanAnswer(json) == nil)
        }
        let links = try LinksAnswer(JSONReader.read(#"{"items":[{"name":"x","budget":{"day":{}}},{"kind":"wwan"},3]}"#))
        #expect(links == LinksAnswer(items: [LinkItem(name: "x", state: "unknown", isMetered: false)], uplink: nil))
        let power = try PowerAnswer(JSONReader.read(#"{"source":"sun","supplies":[{}]}"#))
        #expect(power == PowerAnswer(PowerState(source: "sun", level: "unknown")))
    }

    private func text(_ answer: LocalAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }
}
