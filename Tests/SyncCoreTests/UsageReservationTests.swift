import SyncCore
import Testing

@Suite("Reservation of the byte ledger")
struct UsageReservationTests {
    typealias Bytes = UsageReservation.Bytes

    private func begin(_ value: inout UsageReservation, _ bytes: Bytes, over link: String = "a", isRoaming: Bool = false) -> Bool {
        value.begin(bytes, over: link, isRoaming: isRoaming)
    }

    private func store(_ value: inout UsageReservation, room: Int64 = 1_000, carried: Bytes? = nil) -> UsageReservation.Stored? {
        value.stored(room: room, boot: "b", carried: { _ in carried })
    }

    @Test("What is on flash is never below what has moved since it was stored, whatever comes in which order", arguments: 1...50)
    func never(below seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var value = UsageReservation()
        var onFlash = Bytes(), moved = Bytes(), stores = 0
        var open: [(most: Bytes, moved: Bytes)] = []
        func draw(_ limit: Int64) -> Int64 { Int64(random.next() % UInt64(limit)) }
        for _ in 0..<2_000 {
            switch draw(4) {
            case 0, 1:
                let most = Bytes(up: draw(5_000), down: draw(5_000))
                if value.begin(most, over: "wwan0", isRoaming: false) {
                    onFlash = store(&value)?.bytes ?? Bytes()
                    moved = Bytes()
                    stores += 1
                }
                open.append((most, Bytes(up: draw(most.up + 1), down: draw(most.down + 1))))
            case 2 where !open.isEmpty:
                let done = open.remove(at: Int(draw(Int64(open.count))))
                moved = moved + done.moved
                value.count(done.moved, over: "wwan0")
                value.end(done.most)
            default:
                // The end of a cycle.
                onFlash = store(&value)?.bytes ?? Bytes()
                moved = Bytes()
            }
            let under = open.reduce(moved) { $0 + $1.moved }
            #expect(under.up <= onFlash.up && under.down <= onFlash.down, "seed \(seed)")
        }
        #expect(stores > 0)
    }

    @Test("Small requests share one commit, a large one has its own, and what it needed is given back")
    func commits() {
        var value = UsageReservation()
        #expect(begin(&value, Bytes(up: 100, down: 100)))
        #expect(store(&value)?.bytes == Bytes(up: 1_100, down: 1_100))
        for _ in 0..<9 {
            value.end(Bytes(up: 100, down: 100))
            value.count(Bytes(up: 100, down: 100), over: "a")
            #expect(!begin(&value, Bytes(up: 100, down: 100)))
        }
        #expect(begin(&value, Bytes(up: 50_000)))
        #expect(store(&value)?.bytes == Bytes(up: 51_100, down: 1_100))
        value.end(Bytes(up: 50_000))
        value.end(Bytes(up: 100, down: 100))
        #expect(store(&value)?.bytes == Bytes(up: 1_000, down: 1_000))
        #expect(store(&value, room: 0) == nil)
        // Over another link nothing is booked yet.
        _ = store(&value)
        #expect(begin(&value, Bytes(up: 1), over: "b"))
        #expect(store(&value)?.link == "b")
        #expect(begin(&value, Bytes(up: 1), over: "b", isRoaming: true))
    }

    @Test("After a power cut all of it counts, after the agent's death alone no more than the interface has carried", arguments: [
        ("b", Bytes(up: 1_040, down: 2_500), Bytes(up: 40, down: 500)), ("b", Bytes(up: 9_000, down: 9_000), Bytes(up: 700, down: 800)),
        ("b", Bytes(up: 10, down: 2_500), Bytes(up: 700, down: 800)), ("b", nil, Bytes(up: 700, down: 800)),
        ("another", Bytes(up: 1_040, down: 2_500), Bytes(up: 700, down: 800)),
    ])
    func used(_ boot: String, _ now: Bytes?, _ expected: Bytes) {
        let stored = UsageReservation.Stored(
            link: "a", isRoaming: false, bytes: Bytes(up: 700, down: 800), boot: "b", carried: Bytes(up: 1_000, down: 2_000))
        #expect(stored.used(boot: boot, now: now) == expected)
    }

    @Test("The room is a hundredth of a day's budget, within limits")
    func room() {
        var small = LinkBudget(), monthly = LinkBudget()
        (small.dayBytes, monthly.monthBytes) = (10_000, 30_000_000)
        #expect(UsageReservation.room(for: small) == 1_024 && UsageReservation.room(for: monthly) == 10_000)
        #expect(UsageReservation.room(for: .meteredDefault) == 32 << 10 && UsageReservation.room(for: nil) == 1 << 20)
    }
}
