import SyncCore

/// A fleet that lost its hub at one moment and wants it back: thousands of devices with the real backoff and the real
/// breaker, against a hub that serves so many requests a second. One seed is one history, and nothing waits for real time.
///
/// Every device asks at the beginning of the outage, is refused, and asks again as the schedule says until it was served
/// once. The hub refuses what it has no room for in that second. Time goes in steps of 10 ms.
struct Herd {
    struct Plan: Sendable {
        var devices = 5_000
        /// Requests that the hub serves in a second.
        var rate = 50
        var outage: Duration
        var hasBreaker = true
        /// A refusal says when to come back, a different time to each (PROTOCOL G4).
        var hubHandsOutSlots = false
        var seed: UInt64 = 1
    }

    struct Outcome: Equatable, Sendable {
        /// Requests that the hub has to serve in the worst second after it came back. A probe is none: it is answered without
        /// a look at the store.
        var peak = 0
        /// All requests, probes too, for each device.
        var requestsPerDevice = 0.0
        /// Time from the hub's return until all but a hundredth were served.
        var p99: Duration = .zero
        var last: Duration = .zero
        var served = 0
    }

    private struct Device {
        var random: SeededRandom
        var breaker = Breaker()
        var failures = 0
        var isServed = false
    }

    private static let step: Duration = .milliseconds(10)
    private static let stepsPerSecond = 100

    private let plan: Plan
    private var random: SeededRandom
    private var devices: [Device]
    /// The devices that act in each step, by index. Devices of one step act in the order in which they planned it.
    private var calendar: [[Int32]]
    private var served: [Int] = []
    private var requests = 0
    private var perSecond: [Int]
    private var servedInSecond = 0
    private var second = -1
    /// Devices that the hub has given a slot to and that have not come back for it.
    private var slots = 0.0

    static func run(_ plan: Plan) -> Outcome {
        var herd = Herd(plan)
        return herd.run()
    }

    private init(_ plan: Plan) {
        self.plan = plan
        random = SeededRandom(seed: plan.seed)
        devices = (0..<plan.devices).map { Device(random: SeededRandom(seed: plan.seed &* 1_000_003 &+ UInt64($0))) }
        let steps = Int(plan.outage / Self.step) + 2_000 * Self.stepsPerSecond
        calendar = Array(repeating: [], count: steps)
        perSecond = Array(repeating: 0, count: steps / Self.stepsPerSecond + 1)
        calendar[0] = Array(0..<Int32(plan.devices))
    }

    private mutating func run() -> Outcome {
        let back = Int(plan.outage / Self.step)
        var step = 0
        while served.count < plan.devices, step < calendar.count {
            var index = 0
            // A device that is due at once joins the step under way.
            while index < calendar[step].count {
                act(Int(calendar[step][index]), at: step, isUp: step >= back)
                index += 1
            }
            calendar[step] = []
            step += 1
        }
        var outcome = Outcome()
        outcome.served = served.count
        outcome.requestsPerDevice = Double(requests) / Double(plan.devices)
        outcome.peak = perSecond[(back / Self.stepsPerSecond)...].max() ?? 0
        if served.count == plan.devices {
            outcome.p99 = Self.step * (served[plan.devices * 99 / 100 - 1] - back)
            outcome.last = Self.step * (served[plan.devices - 1] - back)
        }
        return outcome
    }

    private mutating func act(_ index: Int, at step: Int, isUp: Bool) {
        let now = Instant(nanoseconds: Int64(step) * Self.step.nanoseconds)
        if devices[index].breaker.state == .open {
            requests += 1
            // The probe costs the hub nothing, so that no hub refuses it.
            if isUp {
                devices[index].breaker.probed()
                join(index, step)
            } else {
                fail(index, at: step, now, slot: nil)
            }
            return
        }
        count(at: step)
        guard isUp else { return fail(index, at: step, now, slot: nil) }
        let present = step / Self.stepsPerSecond
        if present != second {
            slots = max(0, slots - Double(plan.rate * max(0, present - max(second, 0))))
            (second, servedInSecond) = (present, 0)
        }
        if servedInSecond < plan.rate {
            servedInSecond += 1
            devices[index].isServed = true
            served.append(step)
            return
        }
        var slot: Duration?
        if plan.hubHandsOutSlots {
            slots += 1
            let wait = (slots / Double(plan.rate)).rounded(.up)
            slot = .seconds(Int64(wait)) + random.duration(from: .zero, to: .seconds(10))
        }
        fail(index, at: step, now, slot: slot)
    }

    private mutating func fail(_ index: Int, at step: Int, _ now: Instant, slot: Duration?) {
        var device = devices[index]
        device.failures += 1
        var wait = Backoff().delay(afterFailures: device.failures, using: &device.random)
        if let slot { wait = Backoff.honouring(slot, over: wait, using: &device.random) }
        if plan.hasBreaker {
            device.breaker.failed(at: now, isMetered: false, using: &device.random)
            if let probe = device.breaker.probeAt { wait = max(now.duration(to: probe), slot ?? .zero) }
        }
        devices[index] = device
        join(index, step + max(1, Int(wait / Self.step)))
    }

    private mutating func join(_ index: Int, _ step: Int) {
        if step < calendar.count { calendar[step].append(Int32(index)) }
    }

    private mutating func count(at step: Int) {
        requests += 1
        perSecond[step / Self.stepsPerSecond] += 1
    }
}
