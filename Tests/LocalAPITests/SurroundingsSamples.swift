import LocalAPI
import SyncCore

/// Links, power, cost and reasons as an agent would tell them, ordinary and awkward.
enum SurroundingsSamples {
    static let now = StatusSamples.now

    static let budget = LinkBudgets(
        day: BudgetUse(
            used: 19_251_200, limit: 20_000_000, level: "reserve", resetsAt: time("2026-11-21T00:00:00Z")),
        month: BudgetUse(used: 92_274_688, limit: 500_000_000, level: "open"))

    static let modem = LinkItem(
        name: "wwan0", kind: "wwan", state: "routed", hasCarrier: true, isMetered: true, meteredBy: "devtype",
        isRoaming: true, expiresAt: time("2026-11-20T22:40:00Z"), addresses: ["10.64.3.17", "2001:db8::17"],
        bytesPerSecond: 256_000, roundTrip: .milliseconds(42),
        lastProbe: .init(at: time("2026-11-20T21:35:00Z"), result: "ok"), budget: budget,
        recovery: .init(runs: 3, at: time("2026-11-20T21:30:00Z"), result: "exit status 1"))

    static let cable = LinkItem(
        name: "eth0", kind: "ethernet", state: "down", hasCarrier: false, isMetered: false, meteredBy: "kind")

    static let links = LinksAnswer(items: [cable, modem], uplink: "wwan0")

    /// Everything as long as it can be, and text that must not reach a terminal.
    static let awkwardLinks = LinksAnswer(
        items: [
            modem,
            LinkItem(
                name: "enx00e04c360015", kind: "usb_tether", state: "addressed", isMetered: true, meteredBy: "driver",
                addresses: ["2001:db8:1234:5678:9abc:def0:1234:5678", "2001:db8:1234:5678:9abc:def0:1234:5679"],
                budget: LinkBudgets(
                    day: BudgetUse(used: .max, limit: .max, level: "spent"),
                    month: BudgetUse(used: 0, limit: 0, level: "spent", resetsAt: time("2026-12-01T00:00:00Z")))),
            LinkItem(name: "\u{1B}[31m日本語日本語", kind: "日本", state: "a\nb", isMetered: false),
        ], uplink: nil)

    static let lowBattery = PowerAnswer(
        PowerState(source: "battery", percent: 12, isDischarging: true, level: "low"),
        supplies: [
            .init(name: "BAT0", type: "Battery", status: "Discharging", percent: 12),
            .init(
                name: "hidpp_battery_0", type: "Battery", status: "Discharging", percent: 80,
                ignoredBecause: "it powers a device, not this machine"),
            .init(name: "AC"),
        ])

    static let noBattery = PowerAnswer(PowerState(source: "mains"))

    static let awkwardPower = PowerAnswer(
        PowerState(
            source: "unknown", percent: nil, isDischarging: true, level: "nova",
            warning: "電池\u{1B}[2J could not be read for a long time: " + String(repeating: "ENODEV ", count: 60)),
        supplies: [
            .init(
                name: String(repeating: "n", count: 60), type: String(repeating: "日", count: 30),
                status: "Not charging", percent: 100, ignoredBecause: String(repeating: "because ", count: 60))
        ])

    static let ledger = LedgerAnswer(
        by: .day,
        items: [
            .init(link: "wwan0", period: "2026-11-19", purpose: "push", up: 181_022, down: 20_110, requests: 61),
            .init(link: "wwan0", period: "2026-11-20", purpose: "pull", up: 1_022, down: 920_110, requests: 1_261),
        ], budgets: [.init(link: "wwan0", budget)])

    static let awkwardLedger = LedgerAnswer(
        by: .month,
        items: [
            .init(
                link: "enx00e04c360015", period: "2026-11", purpose: String(repeating: "日本", count: 30), up: .max,
                down: .max, requests: 1_000_000_000),
            .init(link: "\u{1B}[2J", period: "2026-12", purpose: "probe", up: .max, down: -5, requests: 0),
        ], budgets: awkwardLinks.items.map { .init(link: $0.name, $0.budget) })

    static let situation = SituationNote(
        reachability: "online", uplink: "wwan0", isMetered: true, power: "saver", batteryPercent: 28, budget: "soft",
        budgetLeft: 3_400_000)

    static let why = WhyAnswer(
        id: "0199c3f3-2", record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-17")),
        state: "pending", verdict: .defer, reason: "metered", until: time("2026-11-21T20:59:00Z"),
        sentence: "normal mutations wait because the link wwan0 is metered", rule: "metered",
        wouldChange: ["when an unmetered link is up", "with `agentctl sync --force`"], situation: situation)

    static let expiring = WhyAnswer(
        id: "0199c3f3-2", state: "pending", verdict: .defer, reason: "offline", expiresAt: now.advanced(by: .seconds(7_200)),
        sentence: "it waits because no link is up")

    static let awkwardWhy = WhyAnswer(
        id: String(repeating: "k", count: 64),
        record: RecordName(
            EntityName(trusted: String(repeating: "e", count: 64)), RecordID(trusted: String(repeating: "r", count: 64))),
        state: "pending", verdict: .defer, sentence: String(repeating: "日本語 \u{1B}[31m ", count: 40),
        wouldChange: [String(repeating: "wide 日本 ", count: 30)],
        situation: SituationNote(
            reachability: "degraded", uplink: "enx00e04c360015", isMetered: true, isRoaming: true, power: "exhausted",
            batteryPercent: 3, budget: "spent", budgetLeft: 0, isPaused: true, isBreakerOpen: true,
            isWindowOpen: false, retryAt: time("2026-11-20T21:41:02Z")))

    static var plan: PlanAnswer {
        var plan = PlanAnswer(situation: situation)
        for entity in ["audits", "templates"] { plan.send("pull", id: entity, bytes: 2_048) }
        for number in 1...5 { plan.send("critical", id: "c-\(number)", bytes: 200) }
        for _ in 1...14 { plan.wait(metered("normal", bytes: 1_300)) }
        plan.wait(
            .init(
                traffic: "media", count: 1, bytes: 4_000_000, reason: "metered",
                sentence: "files wait because the link wwan0 is metered"))
        return plan
    }

    static func metered(_ traffic: String, bytes: Int64, until: Timestamp? = time("2026-11-21T20:59:00Z"))
        -> PlanAnswer.Wait
    {
        .init(
            traffic: traffic, count: 1, bytes: bytes, reason: "metered", until: until,
            sentence: "normal mutations wait because the link wwan0 is metered")
    }

    static var awkwardPlan: PlanAnswer {
        var plan = PlanAnswer(situation: awkwardWhy.situation ?? situation)
        for number in 0..<500 {
            plan.send(number % 2 == 0 ? "large_media" : "diagnostics", id: String(repeating: "日", count: 40), bytes: .max)
            plan.wait(
                .init(
                    traffic: "diagnostics", count: .max, bytes: .max, reason: "battery_saver",
                    until: now.advanced(by: .seconds(Int64(number))),
                    sentence: String(repeating: "it waits ", count: 20) + "\u{1B}[31m"))
        }
        return plan
    }
}
