import Agent
import SyncCore
import Testing

@Suite("Effects of a trial of connection settings")
struct ConfigurationTrialsTests {
    private typealias Effect = ConfigurationTrials.Effect

    private static let start = Moment(instant: Instant(nanoseconds: 5), wall: Timestamp(milliseconds: 1_800_000_000_000))
    private static let window: Duration = .seconds(600)

    private static func instant(_ seconds: Int) -> Instant { start.instant.advanced(by: .seconds(seconds)) }

    /// Trials in which `old` is proven.
    private static func proven() -> ConfigurationTrials {
        var trials = ConfigurationTrials(window: window)
        trials.restore(["proven": "old"])
        return trials
    }

    /// Trials in which `new` is on trial with one key.
    private static func onTrial() -> ConfigurationTrials {
        var trials = proven()
        _ = trials.handle(.configured("new", isAsked: true), at: instant(0))
        trials.began(["hub.url"])
        return trials
    }

    private static func answer(_ status: Int, over way: String?, headers: HTTPHeaders) -> ConfigurationTrials.Event {
        .answered(HubAnswer(.trial, .success(HTTPResponse(status: status, headers: headers)), over: nil, way, at: start))
    }

    private static let hub: HTTPHeaders = ["Sync-Version": "1", "Sync-Epoch": "e1"]

    @Test("The first settings of a device, and proven ones, are in force without a trial")
    func settled() {
        var first = ConfigurationTrials(window: Self.window)
        let effects = first.handle(.configured("new", isAsked: true), at: Self.instant(0))
        #expect(effects == [.endAlarm, .keepRecord] && !first.isOnTrial)
        var known = Self.proven()
        let again = known.handle(.configured("old", isAsked: false), at: Self.instant(0))
        #expect(again == [.endAlarm, .keepRecord] && known.sentence == nil)
    }

    @Test("New settings are compared with the proven ones, stored as on trial, and looked at")
    func configured() {
        var trials = Self.proven()
        let effects = trials.handle(.configured("new", isAsked: false), at: Self.instant(0))
        #expect(effects == [.endAlarm, .compare, .keepRecord, .lookNow])
        #expect(trials.way == "new" && trials.isOnTrial)
        #expect(trials.sentence == "the way to the hub on trial: taken back if the hub is not reached within 10 min")
        trials.began(["hub.url", "links"])
        #expect(trials.sentence?.hasPrefix("hub.url, links on trial") == true)
    }

    @Test("The hub is asked once at a time, and only where it may be")
    func asked() {
        var trials = Self.onTrial()
        func look(_ seconds: Int, mayAsk: Bool) -> [Effect] {
            trials.handle(.look(counts: true, mayAsk: mayAsk), at: Self.instant(seconds))
        }
        let looks = [look(0, mayAsk: false), look(20, mayAsk: true), look(40, mayAsk: true)]
        #expect(looks == [[.keepRecord, .lookLater], [.keepRecord, .ask, .lookLater], [.keepRecord, .lookLater]])
        _ = trials.handle(.asked, at: Self.instant(50))
        let next = look(60, mayAsk: true)
        #expect(next == [.keepRecord, .ask, .lookLater])
    }

    @Test("After the window the proven settings are put back; until they are asked for again the new ones stay refused")
    func reverted() {
        var trials = Self.onTrial()
        _ = trials.handle(.look(counts: true, mayAsk: false), at: Self.instant(0))
        let early = trials.handle(.look(counts: true, mayAsk: false), at: Self.instant(599))
        #expect(early == [.keepRecord, .lookLater])
        let late = trials.handle(.look(counts: true, mayAsk: false), at: Self.instant(600))
        #expect(late == [.putBack(.notReached), .keepRecord])
        trials.putBack(["hub.url"], to: "old")
        #expect(trials.reverted == ["hub.url"] && trials.keys.isEmpty && trials.way == "old" && trials.sentence == nil)
        let restarted = trials.handle(.configured("new", isAsked: false), at: Self.instant(700))
        #expect(restarted == [.putBack(.refusedBefore), .keepRecord])
        let requested = trials.handle(.configured("new", isAsked: true), at: Self.instant(800))
        #expect(requested == [.endAlarm, .compare, .keepRecord, .lookNow] && trials.reverted.isEmpty)
        #expect(trials.words(for: .notReached) == "the hub was not reached with them within 10 min")
    }

    @Test("A timer that was late finds nothing to do once the trial is over")
    func lateLook() {
        var trials = Self.proven()
        let effects = trials.handle(.look(counts: true, mayAsk: true), at: Self.instant(0))
        #expect(effects.isEmpty)
    }

    @Test("The hub's answer over the settings in force proves them once, and the proven keys are announced")
    func reached() {
        var trials = Self.onTrial()
        let effects = trials.handle(Self.answer(304, over: "new", headers: Self.hub), at: Self.instant(1))
        #expect(effects == [.stopLooking, .keepProven, .keepRecord, .announceProven(["hub.url"])])
        #expect(!trials.isOnTrial && trials.keys.isEmpty)
        let again = trials.handle(Self.answer(200, over: "new", headers: Self.hub), at: Self.instant(2))
        #expect(again.isEmpty)
        var backend = Self.onTrial()
        let reached = backend.handle(.reached("new"), at: Self.instant(1))
        #expect(reached == effects)
    }

    @Test("Another server, a hub that does not know the device, and an answer over other settings prove nothing")
    func provesNothing() {
        let events = [
            Self.answer(200, over: "old", headers: Self.hub), Self.answer(200, over: nil, headers: Self.hub),
            Self.answer(401, over: "new", headers: Self.hub), Self.answer(200, over: "new", headers: ["Sync-Version": "1"]),
            Self.answer(200, over: "new", headers: ["Sync-Epoch": "e1"]), .reached("old"), .reached(nil),
        ]
        for event in events {
            var trials = Self.onTrial()
            let effects = trials.handle(event, at: Self.instant(1))
            #expect(effects.isEmpty && trials.isOnTrial)
        }
    }
}
