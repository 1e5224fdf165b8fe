import CBenchFloors
import FoundationEssentials
import Glibc
import LocalAPI
import SyncCore

/// One soak: the real agent, the real hub behind a cable, and a bad day.
final class Soak {
    struct Sample {
        var second: Double
        var open: Double
        var anonymousBytes: Double
        var descriptors: Double
        var walBytes: Double
        /// Over all processes so far.
        var writtenBytes: Double
        var accepted: Double
    }

    private(set) var samples: [Sample] = []
    private(set) var bands: [SVGChart.Band] = []
    private(set) var deaths: [Double] = []
    private(set) var counts: [String: Int] = [:]
    private(set) var work = SoakWork()

    private let schedule: SoakSchedule
    private let shared: SharedOptions
    private let folder: String
    private let hubFolder: String
    private let yard: Yard
    private var agent: AgentUnderTest
    private let clock: Int32
    private let preload: String
    private var clockSteps: Int64 = 0
    /// Of the processes that are gone, and of the present one when it was last looked at.
    private var writtenBefore = 0, writtenNow = 0

    private static let steady = 8

    /// - Precondition: This process is in a network namespace of its own.
    init(_ schedule: SoakSchedule, shared: SharedOptions, workplace: Workplace) throws {
        self.schedule = schedule
        self.shared = shared
        hubFolder = try workplace.folder("hub")
        folder = try workplace.folder("agent")
        preload = try neighbour("libclockwarp.so")
        clock = open("\(folder)/clock", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard clock >= 0, ftruncate(clock, off_t(Soak.clockNumbers * 8)) == 0 else { throw BenchError("the clock's file cannot be written") }
        yard = try Yard(agenthub: shared.agenthub, in: hubFolder, isHeard: false)
        do {
            agent = try Soak.start(shared, folder, yard, preload)
        } catch {
            yard.stop()
            throw error
        }
    }

    func stop() {
        agent.stop()
        yard.stop()
        close(clock)
    }

    private static func start(
        _ shared: SharedOptions, _ folder: String, _ yard: Yard, _ preload: String
    ) throws -> AgentUnderTest {
        try AgentUnderTest(
            program: shared.agentd, in: folder, hubURL: yard.url, token: yard.token, issuer: yard.certificate,
            producers: Producers(wanted: 1),
            settings: "links: [ { match: \"wan*\", metered: false } ]\nsync: { pull_interval: 15s, max_backoff: 15s }\n",
            environment: ["LD_PRELOAD=\(preload)", "CLOCKWARP_FILE=\(folder)/clock"])
    }

    func run() throws {
        let start = ContinuousClock.now
        var due = schedule.events[...]
        var second = 0
        while second < schedule.seconds {
            while let next = due.first, next.second <= second {
                try happen(next.event, at: Double(second))
                due.removeFirst()
            }
            work.want(Soak.steady)
            try work.send(to: agent)
            sample(at: Double(second))
            let passed = ContinuousClock.now - start
            // What took longer than its second is not made up for: the load is not the point.
            second = max(second + 1, Int(passed / .seconds(1)))
            let rest = Duration.seconds(second) - passed
            if rest > .zero { _ = poll(nil, 0, Int32(rest / .milliseconds(1))) }
        }
    }

    /// Everything is well again: what waits must go.
    func heal() throws {
        try happen(.clock(0), at: Double(schedule.seconds))
        try happen(.linkUp, at: Double(schedule.seconds))
        let end = ContinuousClock.now + .seconds(180)
        while true {
            try work.send(to: agent)
            let open = try agent.outbox().open
            if work.isAnswered, open == 0 { return }
            guard ContinuousClock.now < end else {
                throw BenchError("three minutes after everything was healed \(open) mutations wait")
            }
            _ = poll(nil, 0, 200)
        }
    }

    /// What the hub says that it has.
    func export(_ entity: BenchEntity) throws -> String {
        let program = try shared.agenthub ?? neighbour("agenthub")
        let file = "\(folder)/\(entity.name).ndjson"
        let pid = try agentbench.start(
            ["/bin/sh", "-c", "exec \"$0\" export \"$1\" --data \"$2\" >\"$3\"", program, entity.name, hubFolder, file],
            log: "\(folder)/export.log")
        guard bench_stop(pid, 0, 60_000) == 0, let bytes = FileManager.default.contents(atPath: file) else {
            throw BenchError("agenthub export \(entity.name) failed\n\(tail(of: "\(folder)/export.log"))")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Trouble

    private func happen(_ event: SoakSchedule.Event, at second: Double) throws {
        switch event {
        case .linkDown:
            try yard.pull()
            counts["links_cut", default: 0] += 1
            begin(Soak.linkColour, at: second)
        case .linkUp:
            try yard.plug()
            end(Soak.linkColour, at: second)
        case .clock(let offset):
            try set(clock: offset)
            if offset == 0 { return end(Soak.clockColour, at: second) }
            counts["clock_jumps", default: 0] += 1
            begin(Soak.clockColour, at: second)
        case .burst(let count):
            counts["bursts", default: 0] += 1
            work.want(count)
        case .kill, .restart:
            counts[event == .kill ? "kills" : "restarts", default: 0] += 1
            deaths.append(second)
            if event == .kill { agent.kill() } else { agent.stop() }
            writtenBefore += writtenNow
            writtenNow = 0
            agent = try Soak.start(shared, folder, yard, preload)
        }
    }

    /// Five numbers of 64 bits (`Tests/CClockWarp`): the first moves the wall clock, the fourth counts its steps.
    private static let clockNumbers = 5

    private func set(clock offset: Int) throws {
        clockSteps += 1
        for (place, number) in [(0, Int64(offset) * 1_000_000_000), (3, clockSteps)] {
            var number = number
            guard pwrite(clock, &number, 8, off_t(place * 8)) == 8 else { throw BenchError("the clock's file cannot be written") }
        }
    }

    private static let linkColour = "#fbe3c8", clockColour = "#dfe8fb"

    private func begin(_ colour: String, at second: Double) {
        bands.append(SVGChart.Band(from: second, to: second, colour: colour))
    }

    private func end(_ colour: String, at second: Double) {
        // The last one of that kind that has not ended.
        guard let index = bands.lastIndex(where: { $0.colour == colour }), bands[index].to == bands[index].from else { return }
        bands[index].to = max(second, bands[index].from + 1)
    }

    // MARK: What is seen

    private func sample(at second: Double) {
        // An agent that does not answer now leaves a gap; if it stays so, the end will tell.
        guard let facts = ProcessFacts(agent.pid), let open = try? agent.outbox().open else { return }
        writtenNow = facts.writtenBytes
        samples.append(
            Sample(
                second: second, open: Double(open), anonymousBytes: Double(facts.anonymousBytes),
                descriptors: Double(facts.descriptors), walBytes: Double(fileSize("\(folder)/state/agent.db-wal")),
                writtenBytes: Double(writtenBefore + writtenNow), accepted: Double(work.accepted)))
    }
}
