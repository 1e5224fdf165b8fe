import SyncCore
import Testing

/// A machine with a clock, and what it asked for.
struct ReachabilityRig {
    var machine: ReachabilityMachine
    var now: Double = 0
    /// `offline>connecting link_up`
    var transitions: [String] = []
    var probes: [(nonce: String, at: Double)] = []
    var asked: [String] = []
    var causes: [String] = []

    init(hasProbe: Bool = true, seed: UInt64 = 1) {
        var settings = ReachabilityMachine.Settings()
        settings.hasProbe = hasProbe
        machine = ReachabilityMachine(settings: settings, random: SeededRandom(seed: seed))
    }

    mutating func note(_ effects: [ReachabilityMachine.Effect]) {
        for effect in effects {
            switch effect {
            case .probe(let nonce, _): probes.append((nonce, now))
            case .askPortal(let uri, _): asked.append(uri)
            case .changed(let from, let to, let cause, _): transitions.append("\(from)>\(to) \(cause.code)")
            case .fault(let fault): causes.append(fault.detail)
            }
        }
    }

    mutating func link(_ uplink: Uplink?, portal: String? = nil, cause: LinkCause = .linkUp) {
        note(machine.uplinkIs(uplink, portalURI: portal, cause: cause, now: .seconds(now)))
    }

    mutating func contact(_ contact: HubContact) {
        note(machine.contacted(contact, now: .seconds(now)))
    }

    /// Answers the probe under way.
    mutating func answer(_ outcome: ProbeOutcome) {
        note(machine.probed(probes.last?.nonce ?? "", outcome, now: .seconds(now)))
    }

    /// Lets time run to each wake-up until `end`, answering every probe at once.
    mutating func run(until end: Double, answering outcome: ProbeOutcome? = nil) {
        while let wake = machine.nextWake, wake <= .seconds(end) {
            now = max(now, Double(wake.nanoseconds) / 1e9)
            let before = probes.count
            note(machine.tick(now: .seconds(now)))
            if let outcome, probes.count > before { answer(outcome) }
        }
        now = end
    }

    static func online(_ uplink: Uplink = Uplink(name: "eth0"), seed: UInt64 = 1) -> ReachabilityRig {
        var rig = ReachabilityRig(seed: seed)
        rig.link(uplink)
        rig.run(until: 1, answering: .good(roundTrip: .milliseconds(40)))
        (rig.transitions, rig.probes) = ([], [])
        return rig
    }
}

@Suite("Reachability")
struct ReachabilityMachineTests {
    let ethernet = Uplink(name: "eth0")
    let modem = Uplink(name: "wwan0", isMetered: true)

    @Test("A new uplink is probed within a second, spread over the fleet; a good probe means online", arguments: 1...20)
    func connects(_ seed: UInt64) throws {
        var rig = ReachabilityRig(seed: seed)
        rig.link(ethernet)
        #expect(rig.machine.reachability == .connecting)
        rig.run(until: 1, answering: .good(roundTrip: .milliseconds(40)))
        let probe = try #require(rig.probes.first)
        #expect(probe.at >= 0 && probe.at <= 1)
        #expect(probe.nonce.utf8.count == 8)
        #expect(rig.transitions == ["offline>connecting link_up", "connecting>online probe_ok"])
        #expect(rig.machine.lastRoundTrip == .milliseconds(40))
    }

    @Test("Any answer of the hub means online, and counts as a probe")
    func piggyback() {
        var rig = ReachabilityRig.online()
        for minute in 1...30 {
            rig.run(until: Double(minute) * 240)
            rig.contact(.answered)
        }
        #expect(rig.probes.isEmpty)
        rig.run(until: 30 * 240 + 300)
        #expect(rig.probes.count == 1)
    }

    @Test("Online and idle: every 300 s on an unmetered link, never on a metered one, never during a sync")
    func idle() {
        var rig = ReachabilityRig.online()
        rig.run(until: 3_600, answering: .good(roundTrip: nil))
        #expect(rig.probes.count == 11 || rig.probes.count == 12)
        var metered = ReachabilityRig.online(modem)
        metered.run(until: 86_400, answering: .good(roundTrip: nil))
        #expect(metered.probes.isEmpty)
        #expect(metered.machine.nextWake == nil)
        var busy = ReachabilityRig.online()
        busy.machine.isBusy = true
        busy.run(until: 3_600, answering: .good(roundTrip: nil))
        #expect(busy.probes.isEmpty)
    }

    @Test("A link that becomes metered is left in peace; one that no longer is gets its probes")
    func repriced() {
        var rig = ReachabilityRig.online()
        rig.machine.uplinkCosts(Uplink(name: "eth0", isMetered: true), portalURI: nil, now: .seconds(1))
        #expect(rig.machine.nextWake == nil)
        rig.machine.uplinkCosts(ethernet, portalURI: nil, now: .seconds(2))
        #expect(rig.machine.nextWake == .seconds(302))
    }

    @Test("Three failures without a portal mean degraded; then probes after 1, 2, 4 … 60 s and every few minutes")
    func silence() {
        var rig = ReachabilityRig()
        rig.link(ethernet)
        rig.run(until: 100_000, answering: .silent("x"))
        #expect(rig.transitions == ["offline>connecting link_up", "connecting>degraded no_answer"])
        let gaps = zip(rig.probes.dropFirst(), rig.probes).map { $0.at - $1.at }
        #expect(gaps.prefix(7).map { ($0 * 1_000).rounded() / 1_000 } == [1, 2, 4, 8, 16, 32, 60])
        #expect(gaps.dropFirst(7).allSatisfy { $0 >= 149.9 && $0 <= 300.1 })
        #expect(gaps.dropFirst(7).contains { $0 < 180 } && gaps.dropFirst(7).contains { $0 > 270 })
    }

    @Test("On a metered link an unreachable hub costs about 100 probes a day")
    func silenceMetered() {
        var rig = ReachabilityRig()
        rig.link(modem)
        rig.run(until: 86_400, answering: .silent("x"))
        #expect(rig.probes.count > 90 && rig.probes.count < 150)
        let gaps = zip(rig.probes.dropFirst(9), rig.probes.dropFirst(8)).map { $0.at - $1.at }
        #expect(gaps.allSatisfy { $0 >= 599.9 && $0 <= 900.1 })
    }

    @Test("One success ends degraded, and the waits begin anew after the next silence")
    func recovers() {
        var rig = ReachabilityRig()
        rig.link(ethernet)
        rig.run(until: 2_000, answering: .silent("x"))
        rig.run(until: 2_400, answering: .good(roundTrip: nil))
        #expect(rig.transitions.last == "degraded>online probe_ok")
        rig.probes = []
        rig.run(until: 3_000, answering: .silent("x"))
        #expect(rig.transitions.last == "online>degraded no_answer")
        let gaps = zip(rig.probes.dropFirst(), rig.probes).prefix(3).map { ($0.at - $1.at).rounded() }
        #expect(gaps == [1, 1, 2])
    }

    @Test("Online: two failures at least 1 s apart ask for a probe, and only its failure means degraded")
    func confirms() {
        var rig = ReachabilityRig.online()
        rig.now = 10
        rig.contact(.silent("x"))
        rig.now = 10.9
        rig.contact(.silent("x"))
        rig.run(until: 10.95)
        #expect(rig.probes.isEmpty)
        rig.now = 11
        rig.contact(.silent("x"))
        rig.run(until: 11)
        #expect(rig.probes.count == 1)
        #expect(rig.machine.reachability == .online)
        rig.answer(.silent("x"))
        #expect(rig.transitions == ["online>degraded no_answer"])
    }

    @Test("While the hub stays away each other reason is told, once")
    func presentCause() {
        var rig = ReachabilityRig.online()
        for (second, cause) in [(10.0, "no address"), (12, "no address")] {
            rig.now = second
            rig.contact(.silent(HubFault(.unresolved, cause)))
        }
        rig.run(until: 12, answering: .silent("no address"))
        #expect(rig.transitions == ["online>degraded no_answer"] && rig.causes == [])
        rig.now = 40
        rig.contact(.silent("the certificate is of another name"))
        rig.contact(.silent("the certificate is of another name"))
        #expect(rig.causes == ["the certificate is of another name"])
        #expect(rig.transitions.count == 1)
    }

    @Test("A confirming probe that is good clears the suspicion")
    func acquits() {
        var rig = ReachabilityRig.online()
        for second in [10.0, 12.0] {
            rig.now = second
            rig.contact(.silent("x"))
        }
        rig.run(until: 12, answering: .good(roundTrip: nil))
        #expect(rig.probes.count == 1)
        #expect(rig.transitions.isEmpty)
        rig.now = 14
        rig.contact(.silent("x"))
        rig.run(until: 15)
        #expect(rig.probes.count == 1)
    }

    @Test("After the link blinked one failure is enough to ask")
    func blinked() {
        var rig = ReachabilityRig.online()
        rig.now = 10
        rig.machine.uplinkBlinked()
        rig.contact(.silent("x"))
        rig.run(until: 10, answering: .silent("x"))
        #expect(rig.probes.count == 1)
        #expect(rig.transitions == ["online>degraded no_answer"])
    }

    @Test("A failed idle probe is repeated after 1 s before anything is concluded")
    func idleFailure() {
        var rig = ReachabilityRig.online()
        rig.run(until: 301, answering: .silent("x"))
        #expect(rig.probes.count == 1 || rig.probes.count == 2)
        rig.run(until: 303, answering: .good(roundTrip: nil))
        var other = ReachabilityRig.online()
        other.run(until: 303, answering: .silent("x"))
        #expect(other.transitions == ["online>degraded no_answer"])
        #expect(abs(other.probes[1].at - other.probes[0].at - 1) < 0.001)
    }

    @Test("A portal stops all attempts, is looked at after 30 s and ever more rarely up to 5 min, and one success ends it")
    func portal() {
        var rig = ReachabilityRig()
        rig.link(ethernet, portal: "https://portal.example/api")
        rig.asked = []
        rig.run(until: 5_000, answering: .captive("redirected", portal: "http://login.example/"))
        #expect(rig.transitions == ["offline>connecting link_up", "connecting>captive portal"])
        #expect(!rig.machine.allowsAttempts)
        #expect(rig.machine.portalURL == "http://login.example/")
        #expect(rig.asked.count == rig.probes.count)
        let gaps = zip(rig.probes.dropFirst(), rig.probes).map { $0.at - $1.at }
        for (gap, ceiling) in zip(gaps, [30.0, 60, 120, 240, 300, 300, 300]) {
            #expect(gap >= ceiling * 0.75 - 0.001 && gap <= ceiling + 0.001)
        }
        rig.run(until: 5_400, answering: .good(roundTrip: nil))
        #expect(rig.transitions.last == "captive>online probe_ok")
        #expect(rig.machine.portalURL == nil)
    }

    @Test("A foreign answer to a sync request is a portal too, and a good probe alone does not shorten the waits")
    func foreign() {
        var rig = ReachabilityRig.online()
        var waits: [Double] = []
        for _ in 0..<6 {
            rig.contact(.foreign("HTML"))
            #expect(rig.machine.reachability == .captive)
            let met = rig.now
            rig.run(until: rig.now + 300, answering: .good(roundTrip: nil))
            waits.append((rig.probes.last?.at ?? 0) - met)
            #expect(rig.machine.reachability == .online)
        }
        #expect(zip(waits.dropFirst(), waits).prefix(3).allSatisfy { $0 > $1 })
        rig.contact(.answered)
        rig.contact(.foreign("HTML"))
        let wake = Double((rig.machine.nextWake ?? .seconds(0)).nanoseconds) / 1e9
        #expect(wake - rig.now <= 30)
    }

    @Test("A certificate that does not fit is a reason to look for a portal at once")
    func untrusted() {
        var rig = ReachabilityRig.online()
        rig.now = 20
        rig.contact(.untrusted("name"))
        rig.run(until: 20, answering: .captive("HTML", portal: nil))
        #expect(rig.transitions == ["online>captive portal"])
    }

    @Test("The network's own word counts: a login is needed, or no longer")
    func network() {
        var rig = ReachabilityRig.online()
        var portal = CaptivePortal(isCaptive: true)
        portal.userPortalURL = "https://login.example/"
        rig.note(rig.machine.portalSaid(portal, on: "other0", now: .seconds(5)))
        rig.note(rig.machine.portalSaid(nil, on: "eth0", now: .seconds(5)))
        #expect(rig.machine.reachability == .online)
        rig.now = 5
        rig.note(rig.machine.portalSaid(portal, on: "eth0", now: .seconds(5)))
        #expect(rig.transitions == ["online>captive portal"])
        #expect(rig.machine.portalURL == "https://login.example/")
        rig.now = 6
        rig.note(rig.machine.portalSaid(CaptivePortal(isCaptive: false), on: "eth0", now: .seconds(6)))
        rig.run(until: 6, answering: .good(roundTrip: nil))
        #expect(rig.transitions.last == "captive>online probe_ok")
    }

    @Test("A hub that refuses us is refused until it answers, whatever probes say; attempts stay the engine's business")
    func refused() {
        var rig = ReachabilityRig.online()
        rig.contact(.refused("401"))
        #expect(rig.machine.reachability == .auth)
        #expect(rig.machine.allowsAttempts)
        rig.link(modem, cause: .routeMoved)
        rig.run(until: rig.now + 2, answering: .good(roundTrip: nil))
        #expect(rig.transitions == ["online>auth refused", "auth>connecting route_moved", "connecting>auth probe_ok"])
        rig.contact(.answered)
        #expect(rig.transitions.last == "auth>online hub_answered")
    }

    @Test("Without an uplink it is offline, at once, and late answers over the old one say nothing")
    func offline() {
        var rig = ReachabilityRig()
        rig.link(ethernet)
        rig.run(until: 1)
        rig.link(nil, cause: .carrierLost)
        rig.answer(.good(roundTrip: nil))
        rig.contact(.answered)
        rig.contact(.foreign("x"))
        #expect(rig.machine.reachability == .offline)
        #expect(rig.transitions.last == "connecting>offline carrier_lost")
        #expect(rig.machine.nextWake == nil)
        #expect(!rig.machine.allowsAttempts)
    }

    @Test("Another uplink is connecting again, and a late outcome of the old one's probe is dropped")
    func moved() {
        var rig = ReachabilityRig()
        rig.link(ethernet)
        rig.run(until: 1)
        rig.link(modem, cause: .routeMoved)
        rig.answer(.good(roundTrip: nil))
        #expect(rig.machine.reachability == .connecting)
        rig.run(until: 2, answering: .good(roundTrip: nil))
        #expect(rig.machine.reachability == .online)
    }

    @Test("A hub without a probe: its answers count, failed probes do not, and attempts are allowed while it is silent")
    func noProbe() {
        var rig = ReachabilityRig()
        rig.link(ethernet)
        rig.run(until: 1)
        rig.contact(.answered)
        rig.run(until: 2_000, answering: .silent("refused"))
        #expect(rig.machine.reachability == .online)
        #expect(rig.machine.nextWake == nil)
        for second in [2_001.0, 2_003.0] {
            rig.now = second
            rig.contact(.silent("x"))
        }
        #expect(rig.machine.reachability == .degraded)
        #expect(rig.machine.allowsAttempts)
    }

    @Test("Where probes have proved themselves, no attempt is made while they say that the hub is away")
    func provenProbe() {
        var rig = ReachabilityRig.online()
        rig.run(until: 400, answering: .silent("x"))
        #expect(rig.machine.reachability == .degraded)
        #expect(!rig.machine.allowsAttempts)
        var unproven = ReachabilityRig()
        unproven.link(ethernet)
        unproven.run(until: 400, answering: .silent("x"))
        #expect(unproven.machine.reachability == .degraded)
        #expect(unproven.machine.allowsAttempts)
    }

    @Test("Where a probe is not to be had, a portal's time ends in an attempt")
    func portalWithoutProbe() {
        var rig = ReachabilityRig(hasProbe: false)
        rig.link(ethernet)
        rig.contact(.foreign("HTML"))
        #expect(!rig.machine.allowsAttempts)
        rig.run(until: 31)
        #expect(rig.transitions.last == "captive>connecting portal_waited")
        #expect(rig.machine.allowsAttempts)
        #expect(rig.probes.isEmpty)
        var absent = ReachabilityRig()
        absent.link(ethernet)
        absent.contact(.foreign("HTML"))
        absent.run(until: 31, answering: .absent("404"))
        #expect(absent.machine.reachability == .connecting)
    }

    @Test("A probe whose outcome never comes is lost after half a minute")
    func lost() {
        var rig = ReachabilityRig()
        rig.link(ethernet)
        rig.run(until: 200)
        #expect(rig.probes.count > 3)
        #expect(rig.machine.reachability == .degraded)
    }

    @Test("After any events a silent hub is probed again, an idle metered link never, and a portal always ends in a probe")
    func randomWalk() {
        var random = SeededRandom(seed: 5)
        var rig = ReachabilityRig(seed: 9)
        var uplink: Uplink?
        for _ in 0..<20_000 {
            rig.now += Double(Int.random(in: 0...400, using: &random)) / 10
            rig.run(until: rig.now)
            switch Int.random(in: 0...11, using: &random) {
            case 0:
                uplink = [nil, ethernet, modem][Int.random(in: 0...2, using: &random)]
                rig.link(uplink, cause: .routeMoved)
            case 1: rig.machine.uplinkBlinked()
            case 2: rig.contact(.answered)
            case 3: rig.contact(.silent("x"))
            case 4: rig.contact(.foreign("x"))
            case 5: rig.contact(.untrusted("x"))
            case 6: rig.contact(.refused("x"))
            case 7: rig.machine.isBusy.toggle()
            case 8: rig.answer(.good(roundTrip: nil))
            case 9: rig.answer(.captive("x", portal: nil))
            case 10: rig.answer(.absent("x"))
            default: rig.answer(.silent("x"))
            }
            #expect((rig.machine.reachability == .offline) == (uplink == nil))
            switch rig.machine.reachability {
            case .offline: #expect(rig.machine.nextWake == nil)
            case .captive: #expect(rig.machine.nextWake != nil)
            case .degraded, .connecting: #expect(rig.machine.nextWake != nil || rig.machine.allowsAttempts)
            case .online, .auth: break
            }
        }
    }

    @Test(
        "Conclusions from a refusal about the way to the hub",
        arguments: [
            (HubReply.Kind.transport(.timedOut), HubContact.silent(HubFault(.timedOut, "x"))),
            (.transport(.unresolved), .silent(HubFault(.unresolved, "x"))),
            (.transport(.untrusted), .untrusted(HubFault(.untrusted, "x"))),
            (.transport(.untrustedDate), .silent(HubFault(.untrustedDate, "x"))),
            (.transport(.credentials), .refused(HubFault(.credentials, "x"))), (.auth, .refused(HubFault(.refused, "x"))),
            (.blocked, .refused(HubFault(.blocked, "x"))), (.foreign, .foreign(HubFault(.portal, "x"))),
            (.misconfigured, .silent(HubFault(.wrongAddress, "x"))), (.overloaded, .silent(HubFault(.overloaded, "x"))),
            (.nonsense, .answered), (.gone, .answered),
        ])
    func refusals(_ kind: HubReply.Kind, _ contact: HubContact) {
        #expect(HubContact(HubReply.Refusal(kind, "x")) == contact)
    }

    @Test("Where another server answers, the command tells that agentd adds /v1 to hub.url")
    func version() {
        var place = HubPlace()
        for code in [HubFault.Code.otherServer, .wrongAddress] {
            place.url = "https://hub.example.com"
            #expect(HubFault(code, "x").command(at: place).hasSuffix("/v1/probe; then look at hub.url"))
            place.url = "https://hub.example.com/v1"
            #expect(HubFault(code, "x").command(at: place).hasSuffix("hub.url: leave out /v1 at its end, because agentd adds it"))
        }
    }

    @Test("An error that carries the hub's own headers is an answer; a cancelled call says nothing")
    func refusalsOfTheHub() {
        var facts = HubHeaders(reading: [:], now: Timestamp(milliseconds: 0))
        facts.version = 1
        #expect(HubContact(HubReply.Refusal(.overloaded, "x", facts: facts)) == .answered)
        #expect(HubContact(HubReply.Refusal(.transport(.cancelled), "x")) == nil)
    }
}
