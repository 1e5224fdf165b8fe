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
        Picture("links", ""), Picture("awkward links", ""), Picture("no links", ""), Picture("low battery", ""),
        Picture("no battery", ""), Picture("ledger", ""), Picture("awkward ledger", ""), Picture("empty ledger", ""),
        Picture("why", ""), Picture("plan", ""), Picture("empty plan", ""),
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
