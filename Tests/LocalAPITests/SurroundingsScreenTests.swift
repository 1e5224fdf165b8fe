import LocalAPI
import SyncCore
import Testing

@Suite("The screens of links, power, cost and reasons") struct SurroundingsScreenTests {
    private typealias Samples = SurroundingsSamples

    /// Every screen, drawn at a width.
    struct Screen: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var draw: @Sendable (_ width: Int) -> [String]

        init(_ name: String, _ draw: @escaping @Sendable (_ width: Int) -> [String]) {
            (testDescription, self.draw) = (name, draw)
        }
    }

    static let screens: [Screen] = [
        Screen("links") { LinksScreen.render(Samples.links, width: $0, now: Samples.now) },
        Screen("awkward links") { LinksScreen.render(Samples.awkwardLinks, width: $0, now: Samples.now) },
        Screen("no links") { LinksScreen.render(.init(items: [], uplink: nil), width: $0, now: Samples.now) },
        Screen("low battery") { PowerScreen.render(Samples.lowBattery, width: $0) },
        Screen("no battery") { PowerScreen.render(Samples.noBattery, width: $0) },
        Screen("awkward power") { PowerScreen.render(Samples.awkwardPower, width: $0) },
        Screen("ledger") { LedgerScreen.render(Samples.ledger, width: $0, now: Samples.now) },
        Screen("awkward ledger") { LedgerScreen.render(Samples.awkwardLedger, width: $0, now: Samples.now) },
        Screen("empty ledger") { LedgerScreen.render(.init(by: .day, items: []), width: $0, now: Samples.now) },
        Screen("why") { WhyScreen.render(Samples.why, width: $0, now: Samples.now) },
        Screen("expiring why") { WhyScreen.render(Samples.expiring, width: $0, now: Samples.now) },
        Screen("awkward why") { WhyScreen.render(Samples.awkwardWhy, width: $0, now: Samples.now) },
        Screen("plan") { PlanScreen.render(Samples.plan, width: $0, now: Samples.now) },
        Screen("awkward plan") { PlanScreen.render(Samples.awkwardPlan, width: $0, now: Samples.now) },
        Screen("empty plan") {
            PlanScreen.render(.init(situation: Samples.situation), width: $0, now: Samples.now)
        },
    ]

    @Test("No line is wider than the screen, and none moves the cursor", arguments: screens, [20, 40, 80, 200])
    func fits(_ screen: Screen, _ width: Int) {
        let lines = screen.draw(width)
        #expect(!lines.isEmpty)
        for line in lines {
            #expect(PlainText.columns(line) <= width, "\(line)")
            #expect(line.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }, "\(line)")
        }
    }

    @Test("A width of nothing does not hang", arguments: screens)
    func tiny(_ screen: Screen) {
        #expect(!screen.draw(1).isEmpty)
    }

    @Test("Each has its picture", arguments: pictures)
    func matches(_ picture: Picture) {
        #expect(picture.draw(80).joined(separator: "\n") == picture.screen)
    }

    struct Picture: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var draw: @Sendable (_ width: Int) -> [String]
        var screen: String

        init(_ name: String, _ screen: String) {
            testDescription = name
            guard let found = screens.first(where: { $0.testDescription == name }) else {
                preconditionFailure("there is no screen \(name)")
            }
            draw = found.draw
            self.screen = screen
        }
    }

    static let pictures: [Picture] = [
        Picture(
            "links",
            """
               LINK   KIND      STATE       COST        TODAY      MONTH
               eth0   ethernet  no carrier  free
            *  wwan0  wwan      routed      roaming  19/20 MB  92/500 MB
              eth0: not metered (by kind)
              wwan0: metered, roaming (by devtype)
              wwan0: 10.64.3.17, 2001:db8::17
              wwan0: the hint in force runs out at 22:40:00Z
              wwan0: at most 256 KB a second
              wwan0: last probe ok, 21:35:00Z, round trip 42 ms
              wwan0: recover program run 3 times, last 21:30:00Z: exit status 1
              wwan0: today's budget is kept for critical work now, until 2026-11-21 00:00Z
            * carries the sync (wwan0)
            """),
        Picture(
            "awkward links",
            """
            LINK               KIND        STATE      COST                  TODAY      MONTH
            wwan0              wwan        routed     roaming            19/20 MB  92/500 MB
            enx00e04c360015    usb_tether  addressed  metered  9223372/9223372 TB      0/0 B
            ?[31m日本語日本語  日本        a?b        free
              wwan0: metered, roaming (by devtype)
              wwan0: 10.64.3.17, 2001:db8::17
              wwan0: the hint in force runs out at 22:40:00Z
              wwan0: at most 256 KB a second
              wwan0: last probe ok, 21:35:00Z, round trip 42 ms
              wwan0: recover program run 3 times, last 21:30:00Z: exit status 1
              wwan0: today's budget is kept for critical work now, until 2026-11-21 00:00Z
              enx00e04c360015: metered (by driver)
              enx00e04c360015: 2001:db8:1234:5678:9abc:def0:1234:5678, 2001:db8:1234:5678:9…
              enx00e04c360015: today's budget is used up
              enx00e04c360015: the month's budget is used up, until 2026-12-01 00:00Z
            no link carries the sync
            """),
        Picture(
            "no links",
            """
            no network interface that could carry the sync
            """),
        Picture(
            "low battery",
            """
            battery 12 %, discharging; low: the sync waits until it charges
            SUPPLY           TYPE        STATUS        %  COUNTS
            BAT0             Battery     Discharging  12  yes
            hidpp_battery_0  Battery     Discharging  80  no
            AC               unreadable                   yes
              hidpp_battery_0 does not count: it powers a device, not this machine
            """),
        Picture(
            "no battery",
            """
            mains; ample: nothing is held back
            no power supply found
            """),
        Picture(
            "ledger",
            """
            DAY         LINK   FOR       UP    DOWN  REQUESTS
            2026-11-19  wwan0  push  181 KB   20 KB        61
            2026-11-20  wwan0  pull  1.0 KB  920 KB     1,261
            all                      182 KB  940 KB     1,322
            BUDGET OF  PERIOD       USED  LEVEL    BEGINS AGAIN
            wwan0      day      19/20 MB  reserve  2026-11-21 00:00Z
            wwan0      month   92/500 MB  open
            """),
        Picture(
            "awkward ledger",
            """
            MONTH    LINK             FOR                      UP        DOWN       REQUESTS
            2026-11  enx00e04c360015  日本日本日本日…  9223372 TB  9223372 TB  1,000,000,000
            2026-12  ?[2J             probe            9223372 TB         0 B              0
            all                                        9223372 TB  9223372 TB  1,000,000,000
            BUDGET OF        PERIOD                USED  LEVEL    BEGINS AGAIN
            wwan0            day               19/20 MB  reserve  2026-11-21 00:00Z
            wwan0            month            92/500 MB  open
            enx00e04c360015  day     9223372/9223372 TB  spent
            enx00e04c360015  month                0/0 B  spent    2026-12-01 00:00Z
            """),
        Picture(
            "empty ledger",
            """
            nothing was sent or received in that time
            """),
        Picture(
            "why",
            """
            0199c3f3-2  audits/a-17  pending
            normal mutations wait because the link wwan0 is metered
            until 2026-11-21 20:59Z (in 23 h 18 min)
            it goes
              - when an unmetered link is up
              - with `agentctl sync --force`
            based on: online via wwan0 (metered), battery 28 % (saver), data budget 80 %
            used (3.4 MB left)
            """),
        Picture(
            "plan",
            """
            if online via wwan0 (metered), battery 28 % (saver), data budget 80 % used (3.4
            MB left)
            would be sent, in this order, 5.1 KB in all
              CLASS     COUNT    SIZE  WHAT
              pull          2  4.1 KB  audits templates
              critical      5  1.0 KB  c-1 c-2 c-3 …
            would wait
              CLASS   COUNT    SIZE  REASON   UNTIL
              normal     14   18 KB  metered  2026-11-21 20:59Z
              media       1  4.0 MB  metered
              - normal mutations wait because the link wwan0 is metered
              - files wait because the link wwan0 is metered
            """),
        Picture(
            "empty plan",
            """
            if online via wwan0 (metered), battery 28 % (saver), data budget 80 % used (3.4
            MB left)
            nothing would be sent
            nothing would wait
            """),
    ]

    @Test("A hint is confirmed with what holds now")
    func hints() {
        func text(_ answer: LinkHintAnswer) -> String { LinksScreen.hint(answer, now: Samples.now) }
        #expect(
            text(
                .init(
                    name: "wwan0", isMetered: true, meteredBy: "hint", isRoaming: true,
                    expiresAt: time("2026-11-20T22:40:00Z")))
                == "wwan0: metered (hint), roaming, hint until 22:40:00Z")
        #expect(
            text(.init(name: "eth0", isMetered: false, meteredBy: "kind", isRoaming: false))
                == "eth0: not metered (kind), home, no hint in force")
        #expect(text(.init(name: "x", isMetered: nil, isRoaming: nil)) == "x: metered: not known yet, no hint in force")
    }
}
