import SyncCore
import Testing

@Suite("Connectivity")
struct ConnectivityTests {
    let up = LinkTable(links: [.sample("eth0", index: 2)], routes: [2])
    let down = LinkTable(links: [LinkFacts.sample("eth0", index: 2).with { $0.hasCarrier = false }], hasLookedUp: true)

    private func make() -> Connectivity { Connectivity(random: SeededRandom(seed: 3)) }

    /// Delivers every wake-up until `end`, answering as told.
    private func run(
        _ value: inout Connectivity, from start: [Connectivity.Effect], since: Double = 0, until end: Double, probe: ProbeOutcome? = nil
    ) -> [Connectivity.Effect] {
        var all: [Connectivity.Effect] = []
        var queue = start
        var now = Instant.seconds(since)
        while true {
            var wake: Instant?
            while !queue.isEmpty {
                let effect = queue.removeFirst()
                all.append(effect)
                switch effect {
                case .wake(let at): wake = at
                case .resolve: queue += value.handle(.resolved(isLiteral: false), now: now)
                case .probe(let nonce, _):
                    if let probe { queue += value.handle(.probed(nonce: nonce, probe), now: now) }
                case .askPortal, .changed, .fault, .uplink, .recover: break
                }
            }
            guard let wake, wake <= .seconds(end) else { return all }
            now = max(now, wake)
            queue = value.handle(.timer, now: now)
        }
    }

    private func changes(_ effects: [Connectivity.Effect]) -> [Reachability] {
        effects.compactMap { if case .changed(_, let to, _, _) = $0 { to } else { nil } }
    }

    @Test("From the first table to online: resolve, wait 2 s, probe, each by its own wake-up")
    func comesUp() {
        var value = make()
        let effects = run(&value, from: value.handle(.links(up), now: .seconds(0)), until: 10, probe: .good(roundTrip: nil))
        #expect(effects.contains(.resolve))
        #expect(effects.contains(.uplink(Uplink(name: "eth0"))))
        #expect(changes(effects) == [.connecting, .online])
        #expect(value.allowsAttempts)
    }

    @Test("The uplink's state is what answered there, another link's is how far it has come")
    func states() {
        var value = make()
        func words() -> [String] { value.links.map(value.state) }
        let table = LinkTable(links: [.sample("eth0", index: 2), .sample("eth1", index: 3, metric: nil)], routes: [2])
        _ = run(&value, from: value.handle(.links(table), now: .seconds(0)), until: 2)
        #expect(words() == ["routed", "addressed"])
        _ = value.handle(.contacted(.answered), now: .seconds(3))
        #expect(words() == ["reachable", "addressed"])
        _ = value.handle(.contacted(.foreign("HTML")), now: .seconds(4))
        #expect(words() == ["portal", "addressed"])
        for second in [5.0, 6, 7] { _ = value.handle(.contacted(.silent("x")), now: .seconds(second)) }
        #expect(words() == ["limited", "addressed"])
    }

    @Test("The operator's program runs after its time of silence and again after its pause, and not while anything answers")
    func recovers() {
        var rule = LinkRule.sample("eth*")
        (rule.recover, rule.recoverAfter, rule.recoverEvery) = ("/sbin/reset", .seconds(600), .seconds(3_600))
        func runs(_ effects: [Connectivity.Effect]) -> [LinkRecovery.Run] {
            effects.compactMap { if case .recover(let run) = $0 { run } else { nil } }
        }
        var value = Connectivity(rules: [rule], random: SeededRandom(seed: 3))
        let reset = LinkRecovery.Run(program: "/sbin/reset", link: "eth0")
        let silent = run(&value, from: value.handle(.links(up), now: .seconds(0)), until: 8_000, probe: .silent("no answer"))
        #expect(runs(silent) == [reset, reset, reset])
        let answered = run(
            &value, from: value.handle(.contacted(.answered), now: .seconds(8_001)), since: 8_001, until: 20_000,
            probe: .good(roundTrip: nil))
        #expect(value.reachability == .online && runs(answered).isEmpty)
    }

    @Test("A lost link is offline after its second, and five departures make the way back longer")
    func damped() {
        var value = make()
        var now = 0.0
        var ups: [Double] = []
        for _ in 0..<7 {
            _ = value.handle(.links(up), now: .seconds(now))
            let came = now
            while value.uplink == nil {
                now += 0.5
                _ = value.handle(.timer, now: .seconds(now))
            }
            ups.append(now - came)
            _ = value.handle(.contacted(.answered), now: .seconds(now))
            #expect(value.reachability == .online)
            _ = value.handle(.links(down), now: .seconds(now + 1))
            now += 2
            _ = value.handle(.timer, now: .seconds(now))
            #expect(value.reachability == .offline)
        }
        #expect(ups == [2, 2, 2, 2, 2, 4, 8])
    }

    @Test("The name is resolved again when links change, with every probe while it has no address, and not twice a second")
    func resolves() {
        var value = make()
        let unresolved = LinkTable(links: [.sample("eth0", index: 2)])
        #expect(value.handle(.links(unresolved), now: .seconds(0)).contains(.resolve) == true)
        #expect(value.handle(.links(up), now: .seconds(0.1)).contains(.resolve) == false)
        _ = value.handle(.resolved(isLiteral: false), now: .seconds(0.2))
        // Only the routes differ: our own lookup brought that.
        #expect(value.handle(.links(unresolved), now: .seconds(0.3)).contains(.resolve) == false)
        let moved = LinkTable(links: [.sample("eth0", index: 2, addresses: ["192.0.2.9"])])
        #expect(value.handle(.links(moved), now: .seconds(0.4)).contains(.resolve) == false)
        let due = value.handle(.timer, now: .seconds(1.2))
        #expect(due.contains(.resolve))
        let effects = run(&value, from: due, since: 1.2, until: 100, probe: .silent("x"))
        #expect(effects.filter { $0 == .resolve }.count >= 5)
    }

    @Test("A literal address is looked up once")
    func literal() {
        var value = make()
        #expect(value.handle(.links(up), now: .seconds(0)).contains(.resolve) == true)
        var effects = value.handle(.resolved(isLiteral: true), now: .seconds(0))
        effects += run(&value, from: effects, until: 10_000, probe: .good(roundTrip: nil))
        effects += value.handle(.links(down), now: .seconds(10_001))
        #expect(!effects.contains(.resolve))
    }

    @Test("A session of the network that is nearly used up makes its link metered, until it is not")
    func scarce() {
        var value = make()
        var facts = LinkFacts.sample("wlan0", index: 2, deviceType: "wlan")
        facts.lease.portalURI = "https://portal.example/api"
        let table = LinkTable(links: [facts], routes: [2])
        let effects = run(&value, from: value.handle(.links(table), now: .seconds(0)), until: 10, probe: .good(roundTrip: nil))
        #expect(effects.contains(.askPortal(uri: "https://portal.example/api", interface: "wlan0")))
        var portal = CaptivePortal(isCaptive: false)
        portal.bytesRemaining = 1_000
        #expect(
            value.handle(.portalSaid(portal, on: "wlan0"), now: .seconds(11)).contains(.uplink(Uplink(name: "wlan0", isMetered: true)))
                == true)
        #expect(value.links.first?.cost.evidence == .portal)
        portal.bytesRemaining = 1_000_000_000
        #expect(value.handle(.portalSaid(portal, on: "wlan0"), now: .seconds(12)).contains(.uplink(Uplink(name: "wlan0"))) == true)
    }

    @Test("A hint changes the uplink at once, and its end wakes the agent")
    func hints() throws {
        var value = make()
        _ = run(&value, from: value.handle(.links(up), now: .seconds(0)), until: 10, probe: .good(roundTrip: nil))
        let hint = LinkHint(isMetered: true, isRoaming: true, expiresAt: .seconds(100))
        let heard = value.hear(hint, about: "eth0", now: .seconds(20))
        let effects = try #require(heard)
        #expect(effects.contains(.uplink(Uplink(name: "eth0", isMetered: true, isRoaming: true))))
        #expect(effects.contains(.wake(at: .seconds(100))))
        #expect(value.handle(.timer, now: .seconds(100)).contains(.uplink(Uplink(name: "eth0"))) == true)
        let unknown = value.hear(hint, about: "", now: .seconds(101))
        #expect(unknown == nil)
    }
}
