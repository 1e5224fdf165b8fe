import SyncCore
import Testing

@Suite("The uplink through time")
struct LinkWatchTests {
    static let ethernet = LinkFacts.sample("eth0", index: 2)
    static let modem = LinkFacts.sample("wwan0", index: 3, deviceType: "wwan", metric: 700)
    static let up = LinkTable(links: [ethernet], routes: [2])

    /// A watch whose uplink is `eth0` since second 2.
    static func settled() -> LinkWatch {
        var watch = LinkWatch()
        _ = watch.see(up, now: .seconds(0))
        _ = watch.tick(now: .seconds(2))
        return watch
    }

    @Test("A new uplink counts after it was there for 2 s")
    func rises() {
        var watch = LinkWatch()
        #expect(watch.see(Self.up, now: .seconds(0)) == [])
        #expect(watch.nextWake == .seconds(2))
        #expect(watch.tick(now: .seconds(1.999)) == [])
        #expect(watch.uplink == nil)
        #expect(watch.tick(now: .seconds(2)) == [.up(Uplink(name: "eth0"))])
        #expect(watch.uplink == Uplink(name: "eth0"))
        #expect(watch.nextWake == nil)
    }

    @Test("The 2 s begin anew when it goes away meanwhile, or when it is another interface")
    func risesAnew() {
        var watch = LinkWatch()
        _ = watch.see(Self.up, now: .seconds(0))
        _ = watch.see(LinkTable(links: [Self.ethernet]), now: .seconds(1))
        _ = watch.see(LinkTable(links: [Self.ethernet.with { $0.hasCarrier = false }], hasLookedUp: true), now: .seconds(1.2))
        #expect(watch.nextWake == nil)
        _ = watch.see(Self.up, now: .seconds(1.5))
        #expect(watch.nextWake == .seconds(3.5))
        _ = watch.see(LinkTable(links: [Self.ethernet.with { $0.index = 7 }], routes: [7]), now: .seconds(3))
        #expect(watch.nextWake == .seconds(5))
        #expect(watch.tick(now: .seconds(5)) == [.up(Uplink(name: "eth0"))])
    }

    struct Loss: Sendable {
        var cause: LinkCause
        var table: LinkTable
    }

    @Test(
        "A lost uplink counts after 1 s, with the reason",
        arguments: [
            Loss(cause: .carrierLost, table: LinkTable(links: [ethernet.with { $0.hasCarrier = false }], hasLookedUp: true)),
            Loss(cause: .switchedOff, table: LinkTable(links: [ethernet.with { $0.isUp = false }], hasLookedUp: true)),
            Loss(cause: .addressLost, table: LinkTable(links: [ethernet.with { $0.addresses = [] }], hasLookedUp: true)),
            Loss(cause: .routeLost, table: LinkTable(links: [ethernet.with { $0.defaultMetric = nil }], hasLookedUp: true)),
        ])
    func falls(_ loss: Loss) {
        var watch = Self.settled()
        #expect(watch.see(loss.table, now: .seconds(10)) == [])
        #expect(watch.nextWake == .seconds(11))
        #expect(watch.uplink != nil)
        #expect(watch.tick(now: .seconds(11)) == [.down(loss.cause)])
        #expect(watch.uplink == nil)
    }

    @Test("One whose interface vanished counts as lost at once, also when it was being lost already")
    func vanishes() {
        var watch = Self.settled()
        #expect(watch.see(LinkTable(hasLookedUp: true), now: .seconds(10)) == [.down(.interfaceGone)])
        var second = Self.settled()
        _ = second.see(LinkTable(links: [Self.ethernet.with { $0.hasCarrier = false }], hasLookedUp: true), now: .seconds(10))
        #expect(second.see(LinkTable(hasLookedUp: true), now: .seconds(10.3)) == [.down(.interfaceGone)])
    }

    @Test("One that is back within the second was never lost, but it blinked")
    func blinks() {
        var watch = Self.settled()
        _ = watch.see(LinkTable(links: [Self.ethernet.with { $0.hasCarrier = false }], hasLookedUp: true), now: .seconds(10))
        #expect(watch.see(Self.up, now: .seconds(10.9)) == [.blinked])
        #expect(watch.nextWake == nil)
        #expect(watch.tick(now: .seconds(12)) == [])
    }

    @Test("A change to another usable link counts at once, with the reason")
    func moves() {
        let both = [Self.ethernet, Self.modem]
        let expensive = Uplink(name: "wwan0", isMetered: true)
        var watch = Self.settled()
        #expect(watch.see(LinkTable(links: both, routes: [3]), now: .seconds(5)) == [.moved(expensive, .routeMoved)])
        var second = Self.settled()
        let unplugged = [Self.ethernet.with { $0.hasCarrier = false }, Self.modem]
        #expect(second.see(LinkTable(links: unplugged, routes: [3]), now: .seconds(5)) == [.moved(expensive, .carrierLost)])
        var third = Self.settled()
        #expect(third.see(LinkTable(links: [Self.modem], routes: [3]), now: .seconds(5)) == [.moved(expensive, .interfaceGone)])
    }

    @Test("A change of cost counts at once, and the end of a hint is a wake-up")
    func reprices() throws {
        var watch = Self.settled()
        let metered = Uplink(name: "eth0", isMetered: true)
        let hint = LinkHint(isMetered: true, expiresAt: .seconds(60))
        #expect(watch.hear(hint, about: "eth0", now: .seconds(5)) == [.repriced(metered)])
        #expect(watch.hear(hint, about: "eth0", now: .seconds(6)) == [])
        #expect(watch.nextWake == .seconds(60))
        #expect(watch.tick(now: .seconds(60)) == [.repriced(Uplink(name: "eth0"))])
        #expect(watch.hear(hint, about: "no/name", now: .seconds(61)) == nil)
        #expect(watch.portal(of: "eth0", isScarce: true, now: .seconds(62)) == [.repriced(metered)])
        #expect(watch.portal(of: "eth0", isScarce: false, now: .seconds(63)) == [.repriced(Uplink(name: "eth0"))])
        #expect(watch.follow([.sample("eth0", metered: true)], now: .seconds(64)) == [.repriced(metered)])
    }

    @Test("More than four departures in 10 minutes double the wait with every one, up to 30 s; 10 quiet minutes end that")
    func damping() {
        var watch = LinkWatch()
        var waits: [Duration] = []
        for number in 1...10 {
            watch.leftOnline(now: .seconds(Double(number) * 10))
            waits.append(watch.upDebounce)
        }
        #expect(waits == [2, 2, 2, 2, 4, 8, 16, 30, 30, 30].map { .seconds($0) })
        _ = watch.see(Self.up, now: .seconds(110))
        #expect(watch.nextWake == .seconds(140))
        _ = watch.see(LinkTable(), now: .seconds(120))
        _ = watch.see(Self.up, now: .seconds(701))
        #expect(watch.nextWake == .seconds(703))
    }

    @Test("A link that flaps is damped although the hub never answers over it, and each loss counts once")
    func flaps() {
        var watch = LinkWatch()
        var ups: [Instant] = []
        // The cable is there for 5 s and gone for 2 s, fourteen times.
        for flap in 0..<14 {
            let began = Double(flap) * 7
            _ = watch.see(Self.up, now: .seconds(began))
            for step in 1..<50 {
                let now = Instant.seconds(began + Double(step) / 10)
                guard watch.tick(now: now).contains(where: { if case .up = $0 { true } else { false } }) else { continue }
                ups.append(now)
            }
            _ = watch.see(LinkTable(), now: .seconds(began + 5))
            if watch.uplink == nil, ups.last.map({ $0 > .seconds(began) }) ?? false { watch.leftOnline(now: .seconds(began + 5)) }
            _ = watch.tick(now: .seconds(began + 6.5))
        }
        #expect(ups.count == 6, "four are free, one waits for 4 s, and then the wait is longer than the link lasts: \(ups)")
    }

    @Test("Departures that are far apart are not damped")
    func tolerated() {
        var watch = LinkWatch()
        for number in 1...100 { watch.leftOnline(now: .seconds(Double(number) * 151)) }
        #expect(watch.upDebounce == .seconds(2))
    }

    @Test("With any tables in any order the uplink is usable or just being lost, and a wake-up is never missing")
    func randomWalk() {
        var random = SeededRandom(seed: 7)
        var watch = LinkWatch()
        var now = 0.0
        var announced: Uplink?
        for _ in 0..<20_000 {
            now += Double(Int.random(in: 0...15, using: &random)) / 10
            let links = [Self.ethernet, Self.modem].filter { _ in Int.random(in: 0...5, using: &random) > 0 }.map { facts in
                facts.with {
                    $0.hasCarrier = Int.random(in: 0...3, using: &random) > 0
                    if Int.random(in: 0...7, using: &random) == 0 { $0.addresses = [] }
                }
            }
            let routes = links.map(\.index).filter { _ in Bool.random(using: &random) }
            let before = watch.nextWake
            let events =
                Bool.random(using: &random)
                ? watch.see(LinkTable(links: links, routes: routes, hasLookedUp: true), now: .seconds(now))
                : watch.tick(now: .seconds(now))
            for event in events {
                switch event {
                case .up(let uplink):
                    #expect(announced == nil)
                    announced = uplink
                case .moved(let uplink, _), .repriced(let uplink):
                    #expect(announced != nil)
                    announced = uplink
                case .down:
                    #expect(announced != nil)
                    announced = nil
                case .blinked: #expect(announced != nil)
                }
            }
            #expect(watch.uplink == announced)
            if let before, before <= .seconds(now) { #expect(watch.nextWake != before) }
            // The wanted and the shown uplink differ only while a timer decides between them.
            if watch.nextWake == nil { #expect(watch.survey.uplink == watch.uplink) }
        }
    }
}
