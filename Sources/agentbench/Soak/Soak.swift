import BenchKit
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
        /// Sum over all processes so far.
        var writtenBytes: Double
        var accepted: Double
        /// Bytes that the cable carried, in both directions, and bytes of the documents to transfer.
        var wireBytes: Double
        var workBytes: Double
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
    private let hub: CabledHub
    private var agent: AgentUnderTest
    private let proxy: SoakProxy?
    /// Replacement of /etc/hosts.
    private let hosts: String
    private let clock: Clock, hubClock: Clock
    /// The present troubles on the path to the hub.
    private var present: Set<SoakSchedule.Trouble> = []
    /// Written bytes of the ended processes, and of the present one at its last check.
    private var writtenBefore = 0, writtenNow = 0

    private static let steady = 8

    /// - Precondition: This process is in a network namespace of its own.
    init(_ schedule: SoakSchedule, shared: SharedOptions, workplace: Workplace) throws {
        self.schedule = schedule
        self.shared = shared
        hubFolder = try workplace.folder("hub")
        folder = try workplace.folder("agent")
        let preload = try neighbour("libclockwarp.so")
        clock = try Clock("\(folder)/clock", preload)
        hubClock = try Clock("\(hubFolder)/clock", preload)
        hosts = "\(folder)/hosts"
        try write(Soak.hosts(isDeadFirst: false), to: hosts)
        let file = hosts
        try checked("hosts") { bench_own_hosts(file, $0) }
        hub = try CabledHub(
            agenthub: shared.agenthub, in: hubFolder, isHeard: false, slowness: Soak.quick, environment: hubClock.environment)
        do {
            proxy = try SoakProxy(before: hub, in: hubFolder)
            agent = try Soak.start(shared, folder, hub, clock, settings: Soak.settings(nil))
        } catch {
            hub.stop()
            throw error
        }
    }

    func stop() {
        agent.stop()
        proxy?.stop()
        hub.stop()
    }

    private static func start(
        _ shared: SharedOptions, _ folder: String, _ hub: CabledHub, _ clock: Clock, settings: String
    ) throws -> AgentUnderTest {
        let port = CabledHub.path("nginx") == nil ? CabledHub.port : SoakProxy.port
        return try AgentUnderTest(
            program: shared.agentd, in: folder, hubURL: "https://\(CabledHub.name):\(port)", token: hub.token, issuer: hub.certificate,
            producers: Producers(wanted: 1), settings: settings, environment: clock.environment)
    }

    /// - Parameter budget: Data budget of a day; `nil`: none.
    private static func settings(_ budget: String?) -> String {
        "links: [ { match: \"wan*\", metered: false\(budget.map { ", budget: { day: \($0) }" } ?? "") } ]\n"
            + "sync: { pull_interval: 15s, max_backoff: 15s }\n"
    }

    private static func hosts(isDeadFirst: Bool) -> String {
        let names = [
            "127.0.0.1 localhost", isDeadFirst ? "198.51.100.77 \(CabledHub.name)" : nil, "\(CabledHub.address) \(CabledHub.name)",
        ]
        return names.compactMap { $0 }.joined(separator: "\n") + "\n"
    }

    private static let quick = CabledHub.Slowness(delay: .milliseconds(1), bitsPerSecond: 200_000_000)

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
            // A step longer than its second is not made up for: the load is not the point.
            second = max(second + 1, Int(passed / .seconds(1)))
            let rest = Duration.seconds(second) - passed
            if rest > .zero { _ = poll(nil, 0, Int32(rest / .milliseconds(1))) }
        }
    }

    /// Ends all troubles, so that the waiting changes can drain.
    func heal() throws {
        try happen(.clock(0), at: Double(schedule.seconds))
        for trouble in present { try happen(.relief(trouble), at: Double(schedule.seconds)) }
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

    /// The content of the hub by its own export.
    func export(_ entity: BenchEntity) throws -> String {
        let program = try shared.agenthub ?? neighbour("agenthub")
        let file = "\(folder)/\(entity.name).ndjson"
        let pid = try BenchKit.start(
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
            try hub.pull()
            counts["links_cut", default: 0] += 1
            begin(Soak.linkColour, at: second)
        case .linkUp:
            try hub.plug()
            end(Soak.linkColour, at: second)
        case .clock(let offset):
            try clock.set(seconds: offset)
            if offset == 0 { return end(Soak.clockColour, at: second) }
            counts["clock_jumps", default: 0] += 1
            begin(Soak.clockColour, at: second)
        case .month(let days):
            counts["months", default: 0] += 1
            for clock in [clock, hubClock] { try clock.pass(days: days) }
        case .trouble(let trouble):
            counts[trouble.rawValue, default: 0] += 1
            present.insert(trouble)
            try face(trouble)
            begin(Soak.troubleColour, at: second)
        case .relief(let trouble):
            guard present.remove(trouble) != nil else { return }
            try face(trouble)
            end(Soak.troubleColour, at: second)
        case .burst(let count):
            counts["bursts", default: 0] += 1
            work.want(count)
        case .kill, .restart:
            counts[event == .kill ? "kills" : "restarts", default: 0] += 1
            deaths.append(second)
            if event == .kill { agent.kill() } else { agent.stop() }
            writtenBefore += writtenNow
            writtenNow = 0
            agent = try Soak.start(
                shared, folder, hub, clock, settings: present.contains(.smallBudget) ? Soak.settings("200KB") : Soak.settings(nil))
        }
    }

    /// Applies the state of ``present`` to the path.
    private func face(_ trouble: SoakSchedule.Trouble) throws {
        let isThere = present.contains(trouble)
        switch trouble {
        case .slowLine, .forgetfulNAT:
            var line = present.contains(.slowLine) ? CabledHub.Slowness(delay: .milliseconds(100), bitsPerSecond: 64_000) : Soak.quick
            if present.contains(.forgetfulNAT) { line.forgetsAfter = .seconds(2) }
            hub.change(line)
        case .deadAddress: try overwrite(hosts, with: Soak.hosts(isDeadFirst: isThere))
        case .proxy404: try proxy?.become(isThere ? .answers(404) : .passes)
        case .proxy413: try proxy?.become(isThere ? .limits(bytes: 2_048) : .passes)
        case .smallBudget: try agent.reload(Soak.settings(isThere ? "200KB" : nil))
        }
    }

    /// Overwrites the file in place, because it is mounted elsewhere.
    private func overwrite(_ path: String, with text: String) throws {
        let file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
        defer { close(file) }
        let bytes = Array(text.utf8)
        guard file >= 0, Glibc.write(file, bytes, bytes.count) == bytes.count else { throw BenchError("\(path) cannot be written") }
    }

    /// The clocks of one program (`Tests/CClockWarp`): five numbers of 64 bits.
    final class Clock {
        let environment: [String]
        private let file: Int32
        private var numbers = [Int64](repeating: 0, count: 5)
        /// Error of the wall clock, nanoseconds.
        private var offset: Int64 = 0

        init(_ path: String, _ preload: String) throws {
            environment = ["LD_PRELOAD=\(preload)", "CLOCKWARP_FILE=\(path)"]
            file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            try save()
        }

        deinit { close(file) }

        /// Sets the error of the wall clock from now on.
        func set(seconds: Int) throws {
            numbers[0] += Int64(seconds) * 1_000_000_000 - offset
            offset = Int64(seconds) * 1_000_000_000
            numbers[3] += 1
            try save()
        }

        func pass(days: Int) throws {
            for place in 0..<3 { numbers[place] += Int64(days) * 86_400 * 1_000_000_000 }
            try save()
        }

        private func save() throws {
            let size = numbers.count * 8
            guard file >= 0, pwrite(file, numbers, size, 0) == size else { throw BenchError("the clock's file cannot be written") }
        }
    }

    private static let linkColour = "#fbe3c8", clockColour = "#dfe8fb", troubleColour = "#e6f2dc"

    private func begin(_ colour: String, at second: Double) {
        bands.append(SVGChart.Band(from: second, to: second, colour: colour))
    }

    private func end(_ colour: String, at second: Double) {
        // The last band of that kind that has not ended.
        guard let index = bands.lastIndex(where: { $0.colour == colour }), bands[index].to == bands[index].from else { return }
        bands[index].to = max(second, bands[index].from + 1)
    }

    // MARK: Observations

    private func sample(at second: Double) {
        // An agent that does not answer now leaves a gap; a permanent failure shows at the end.
        guard let facts = ProcessFacts(agent.pid), let open = try? agent.outbox().open else { return }
        writtenNow = facts.writtenBytes
        samples.append(
            Sample(
                second: second, open: Double(open), anonymousBytes: Double(facts.anonymousBytes),
                descriptors: Double(facts.descriptors), walBytes: Double(fileSize("\(folder)/state/agent.db-wal")),
                writtenBytes: Double(writtenBefore + writtenNow), accepted: Double(work.accepted), wireBytes: Double(CabledHub.carried()),
                workBytes: Double(work.acceptedBytes)))
    }
}
