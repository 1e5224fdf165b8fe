import SyncCore
import Testing

/// PROTOCOL C9: after each full cycle, and without one as well. The rig has no clock of its own: a wake-up comes when the engine
/// asked for it.
@Suite("Engine: housekeeping without a cycle")
struct EngineHouseTests {
    private typealias Rig = EngineRig

    /// An obstacle between the device and its hub.
    struct Hindrance: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var rig: @Sendable () -> EngineRig
    }

    private static let forGood = EngineMemory.Pause(until: nil, reason: "audit", uid: 0)

    private static let hindrances: [Hindrance] = [
        Hindrance(testDescription: "no link") {
            var rig = Rig()
            rig.start(linkIsUp: false)
            return rig
        },
        Hindrance(testDescription: "paused for good") {
            var rig = Rig()
            rig.start(memory: EngineMemory(epoch: Rig.hub, pause: forGood))
            return rig
        },
        Hindrance(testDescription: "in backoff") {
            var rig = Rig()
            rig.start(waiting: [.normal])
            rig.begin()
            rig.fail()
            if rig.asked == "remember" { rig.stored(.done) }
            return rig
        },
        Hindrance(testDescription: "the server wants an hour of silence") {
            var rig = Rig()
            rig.start(memory: EngineMemory(epoch: Rig.hub, notBefore: rig.wall.advanced(by: .seconds(3_600))))
            return rig
        },
        Hindrance(testDescription: "the link costs too much") {
            var conditions = EnginePolicyTests.metered
            conditions.unmeteredSeenAt = Rig().wall.advanced(by: .seconds(40 * 86_400))
            var rig = Rig()
            rig.start(waiting: [.normal], conditions: conditions)
            return rig
        },
    ]

    /// Fires wake-ups up to a moment, and answers whatever is asked as a hub and a store without work would not: calls fail.
    private func pass(_ rig: inout EngineRig, until end: Instant) {
        while let wake = rig.wakeAt, wake <= end, rig.asked != "housekeep" {
            rig.wake()
            while let asked = rig.asked, asked != "housekeep" {
                switch asked {
                case "remember": rig.stored(.done)
                case "hello", "pull", "push": rig.fail()
                default: rig.stored(.batch(nil, retryAt: nil))
                }
            }
        }
    }

    @Test("Expired mutations are given up in their time, whatever keeps the hub away", arguments: hindrances)
    func expires(_ hindrance: Hindrance) {
        var rig = hindrance.rig()
        let end = rig.instant.advanced(by: .seconds(2))
        rig.handle(.enqueued(.normal, expiry: end))
        pass(&rig, until: end)
        // A call that failed a moment ago may have held it up for as long as it took.
        #expect(rig.asked == "housekeep" && rig.instant >= end && rig.instant <= end.advanced(by: .seconds(1)))
        #expect(rig.engine.cycle == nil)
        rig.stored(.housekept(more: false))
        #expect(rig.asked == nil)
    }

    @Test("Soon after the start, and then daily, the journal and all else is kept in bounds", arguments: hindrances)
    func daily(_ hindrance: Hindrance) {
        var rig = hindrance.rig()
        let began = rig.instant
        var kept: [Duration] = []
        while kept.count < 4 {
            pass(&rig, until: began.advanced(by: .seconds(5 * 86_400)))
            guard rig.asked == "housekeep" else { break }
            kept.append(began.duration(to: rig.instant))
            rig.stored(.housekept(more: false))
        }
        #expect(kept.count == 4)
        for (index, time) in kept.enumerated() {
            let planned = Duration.seconds(600 + index * 86_400)
            #expect(time > planned - .seconds(10) && time < planned + .seconds(10), "\(time)")
        }
    }

    @Test("An unused device is woken once a day")
    func idle() {
        var rig = Rig()
        rig.start(linkIsUp: false)
        var wakes = 0
        let end = rig.instant.advanced(by: .seconds(30 * 86_400))
        while let wake = rig.wakeAt, wake < end {
            rig.wake()
            wakes += 1
            if rig.asked == "housekeep" { rig.stored(.housekept(more: false)) }
        }
        #expect(wakes == 30)
    }

    @Test("Mutations that were overdue before the start are given up at once")
    func start() {
        var rig = Rig()
        rig.handle(
            .started(
                EngineStart(
                    memory: EngineMemory(epoch: Rig.hub), replica: Rig.replica, maxSentSeq: 0, ackedSeq: 0, waiting: [.bulk],
                    conditions: .offline, expiry: Instant(nanoseconds: 0))))
        #expect(rig.asked == "housekeep")
        rig.stored(.housekept(more: false, expiry: rig.instant.advanced(by: .seconds(7_200))))
        // The time that the store names replaces the known one.
        #expect(rig.untilWake == .seconds(7_200))
    }

    @Test("Mutations that expire one by one are gathered: one look a minute")
    func gathered() {
        var rig = Rig()
        rig.start(linkIsUp: false)
        let began = rig.instant
        rig.handle(.enqueued(.bulk, expiry: rig.instant.advanced(by: .seconds(1))))
        var looks = 0
        while let wake = rig.wakeAt, began.duration(to: wake) <= .seconds(600) {
            rig.wake()
            guard rig.asked == "housekeep" else { continue }
            looks += 1
            // The next of a thousand is due a second later.
            rig.stored(.housekept(more: false, expiry: rig.instant.advanced(by: .seconds(1))))
        }
        #expect(looks == 10)
    }

    @Test("A short time to live that was told does not make a longer one wait, nor the other way round")
    func earliest() {
        var rig = Rig()
        rig.start(linkIsUp: false)
        rig.handle(.enqueued(.normal, expiry: rig.instant.advanced(by: .seconds(50))))
        rig.handle(.enqueued(.normal, expiry: rig.instant.advanced(by: .seconds(90))))
        rig.handle(.enqueued(.normal))
        #expect(rig.untilWake == .seconds(50))
        rig.handle(.enqueued(.normal, expiry: rig.instant.advanced(by: .seconds(20))))
        #expect(rig.untilWake == .seconds(20))
    }

    @Test("The rest of housekeeping comes in slices, without a request")
    func slices() {
        var rig = Rig()
        rig.start(linkIsUp: false)
        rig.handle(.enqueued(.normal, expiry: rig.instant))
        for _ in 0..<3 {
            #expect(rig.asked == "housekeep")
            rig.stored(.housekept(more: true, expiry: rig.instant))
            #expect(rig.untilWake == .seconds(5))
            rig.wake()
        }
        rig.stored(.housekept(more: false))
        #expect(rig.untilWake == .seconds(86_400))
    }

    @Test("A store that cannot is asked again, and not at once")
    func refused() {
        var rig = Rig()
        rig.start(linkIsUp: false)
        rig.wake()
        #expect(rig.asked == "housekeep")
        rig.stored(.failed("no space left"))
        #expect(rig.untilWake == .seconds(600))
        rig.wake()
        #expect(rig.asked == "housekeep")
    }

    @Test("While a call is under way it waits for that, and comes right after")
    func afterCall() {
        var rig = Rig()
        rig.start(waiting: [.normal])
        rig.begin()
        #expect(rig.asked == "hello")
        rig.handle(.enqueued(.normal, expiry: rig.instant.advanced(by: .seconds(1))))
        rig.fail(after: .seconds(20))
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.asked == "housekeep" && rig.engine.cycle == nil)
    }

    @Test("A cycle and a pause that come meanwhile wait for the slice to end", arguments: [false, true])
    func meanwhile(_ isPaused: Bool) {
        var rig = Rig()
        rig.start(linkIsUp: false)
        rig.handle(.enqueued(.bulk, expiry: rig.instant))
        #expect(rig.asked == "housekeep")
        rig.handle(.link(up: true))
        rig.handle(.requested(SyncRequest(isForced: true)))
        if isPaused { rig.handle(.paused(Self.forGood)) }
        #expect(rig.asked == "housekeep" && rig.engine.cycle == nil)
        rig.stored(.housekept(more: false))
        if isPaused {
            #expect(rig.remembered?.pause == Self.forGood)
            rig.stored(.done)
            #expect(rig.engine.cycle == nil)
        } else {
            #expect(rig.engine.cycle != nil)
        }
    }
}
