import SyncCore

/// The fleet of ``Herd``, with whole engines in place of the schedule alone: every device starts, greets, pulls and pushes
/// one mutation, and asks as its cycle timer, backoff and breaker say.
///
/// A store that answers at once stands behind each. The hub admits so many cycles a second, by their first request, and then
/// answers all that they ask; it refuses the others with 503. An answer takes no time, and a device that was served asks no
/// more, as in ``Herd``.
struct EngineHerd {
    struct Plan: Sendable {
        var devices = 5_000
        /// Cycles that the hub admits in a second.
        var rate = 50
        var outage: Duration
        var seed: UInt64 = 1
    }

    struct Outcome: Equatable, Sendable {
        /// Cycles, probes excepted, that knock in the worst second after the hub's return.
        var peak = 0
        /// Cycles begun and probes sent, for each device.
        var attemptsPerDevice = 0.0
        var p99: Duration = .zero
        var served = 0
    }

    private struct Device {
        var engine: SyncEngine
        var hasWork = true
        /// Its cycle was let in; what it asks besides is answered.
        var isAdmitted = false
        var wakeAt = -1
    }

    /// Timers have this precision.
    private static let tick: Duration = .milliseconds(10)
    private static let ticksPerSecond = 100
    /// Time in which all devices find the hub after its return, seconds.
    private static let patience = 3_600
    private static let wallAtStart = Timestamp(milliseconds: 1_795_208_645_000)

    private let plan: Plan
    private var devices: [Device]
    /// Devices to be woken, by tick.
    private var calendar: [[Int32]]
    private var now = 0
    private var attempts = 0
    private var perSecond: [Int]
    private var admitted: [Int]
    private var served: [Int] = []

    static func run(_ plan: Plan) -> Outcome {
        var herd = EngineHerd(plan)
        return herd.run()
    }

    private init(_ plan: Plan) {
        self.plan = plan
        let seconds = Int(plan.outage / .seconds(1)) + Self.patience
        calendar = Array(repeating: [], count: seconds * Self.ticksPerSecond)
        perSecond = Array(repeating: 0, count: seconds)
        admitted = perSecond
        devices = (0..<plan.devices).map { number in
            var settings = SyncEngine.Settings()
            settings.timer.phase = CycleTimer.phase(of: DeviceID(trusted: "device-\(number)"))
            let random = SeededRandom(seed: plan.seed &* 1_000_003 &+ UInt64(number))
            return Device(engine: SyncEngine(settings: settings, replica: EngineRig.replica, random: random))
        }
    }

    private var moment: Moment {
        Moment(
            instant: Instant(nanoseconds: Int64(now) * Self.tick.nanoseconds),
            wall: Self.wallAtStart.advanced(by: Self.tick * now))
    }

    private mutating func run() -> Outcome {
        let back = Int(plan.outage / Self.tick)
        for index in devices.indices {
            let start = EngineStart(
                memory: EngineMemory(epoch: EngineRig.hub), replica: EngineRig.replica, maxSentSeq: 0, ackedSeq: 0,
                waiting: [.normal], conditions: .plain)
            handle(.started(start), index, isUp: back == 0)
        }
        while served.count < plan.devices, now < calendar.count {
            for index in calendar[now] where devices[Int(index)].wakeAt == now && devices[Int(index)].hasWork {
                handle(.timer, Int(index), isUp: now >= back)
            }
            calendar[now] = []
            now += 1
        }
        var outcome = Outcome(served: served.count)
        outcome.attemptsPerDevice = Double(attempts) / Double(plan.devices)
        outcome.peak = perSecond[(back / Self.ticksPerSecond)...].max() ?? 0
        if served.count == plan.devices { outcome.p99 = Self.tick * (served[plan.devices * 99 / 100 - 1] - back) }
        return outcome
    }

    /// Feeds an event, and whatever follows from it at once.
    private mutating func handle(_ event: SyncEvent, _ index: Int, isUp: Bool) {
        var events = [event]
        while let event = events.popLast() {
            for effect in devices[index].engine.handle(event, at: moment) {
                switch effect {
                case .store(let command): events.append(.stored(answer(to: command, index)))
                case .send(let call): events.append(.answered(call.id, result(of: call, index, isUp), sent: moment.instant))
                case .probe(let id):
                    attempts += 1
                    events.append(.probed(id, isGood: isUp))
                case .wake(let at): wake(index, at)
                case .report(.cycleBegan):
                    attempts += 1
                    perSecond[now / Self.ticksPerSecond] += 1
                    devices[index].isAdmitted = false
                case .report, .wait, .endWait: break
                }
            }
        }
    }

    private mutating func wake(_ index: Int, _ at: Instant) {
        // A wake-up that is due now happens in the next tick.
        let time = max(now + 1, Int((at.nanoseconds + Self.tick.nanoseconds - 1) / Self.tick.nanoseconds))
        devices[index].wakeAt = time
        if time < calendar.count { calendar[time].append(Int32(index)) }
    }

    private mutating func answer(to command: StoreCommand, _ index: Int) -> StoreAnswer {
        switch command {
        case .loadInFlight, .claim:
            let isClaim = if case .claim = command { true } else { false }
            // Mutations that were claimed without an answer are in flight, and settled first.
            let batch = devices[index].hasWork && (isClaim || devices[index].engine.maxSentSeq > 0) ? EngineRig.batch(1...1) : nil
            return .batch(batch, retryAt: nil)
        case .loadStreams: return .streams([EngineRig.position(EngineRig.works)])
        case .applyPull: return .pullApplied(PullSummary())
        case .applyResults(let results, _, _, _):
            if devices[index].hasWork {
                devices[index].hasWork = false
                served.append(now)
            }
            return .resultsApplied(EngineRig.summary(done: results.count), next: nil)
        case .housekeep: return .housekept(more: false)
        // These commands follow only on a hub or a database that went back.
        default: return .done
        }
    }

    private mutating func result(of call: HubCall, _ index: Int, _ isUp: Bool) -> Result<HTTPResponse, TransportError> {
        guard isUp else { return .failure(TransportError(.unreachable, doing: "reach the hub", detail: "refused")) }
        let second = now / Self.ticksPerSecond
        if !devices[index].isAdmitted {
            guard admitted[second] < plan.rate else { return .success(EngineRig.problem(503, "overloaded")) }
            admitted[second] += 1
            devices[index].isAdmitted = true
        }
        switch call.kind {
        case .hello: return .success(EngineRig.hello())
        case .pull: return .success(EngineRig.pull())
        default: return .success(EngineRig.push(EngineRig.accepted(EngineRig.batch(1...1))))
        }
    }
}
