import ArgumentParser
import BenchKit
import CBenchFloors
import LocalAPI

/// Measures the rate at which mutations become durable, without any hub.
struct EnqueueCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Measures durable enqueueing of 200 B mutations over the socket.",
        discussion: """
            Floors, in turn with the agent: fdatasync of a 4 KB append; SQLite with the agent's PRAGMAs writing the \
            same rows with group commit by 64 threads, and 256 rows a transaction. The agent has no hub and starts \
            empty in each round.
            """)

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case event, record, both
    }

    @OptionGroup var shared: SharedOptions

    @Option(help: "Kind of entity: an event is an outbox row, a record also has a row of the mirror.")
    var kind = Kind.both

    private static let producers = 64

    func run() throws {
        let size = shared.quick ? EnqueueSize.quick : .full
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        let producers = Producers(wanted: EnqueueCommand.producers)
        var report = Report(command: "enqueue", workplace: workplace)
        report.note("200 B is the document alone; request and row add key, names and times to it.")
        if let shortfall = producers.shortfall { report.note(shortfall) }

        let kinds: [BenchEntity] =
            switch kind {
            case .event: [.event]
            case .record: [.record]
            case .both: [.event, .record]
            }
        var suites = kinds.map { EnqueueSuite(entity: $0, producers: producers.count) }
        for round in 1...shared.roundCount(full: 5) {
            for index in suites.indices {
                Talk.say("round \(round): \(suites[index].entity.rawValue)s")
                let agent = try AgentUnderTest(
                    program: shared.agentd, in: workplace.folder("agent"), hubURL: AgentUnderTest.noHub,
                    producers: producers)
                defer { agent.stop() }
                let floors = Floors(folder: try workplace.folder("floor"), withRecord: suites[index].entity == .record)
                let load = Load(socket: agent.socketPath, entity: suites[index].entity, producers: producers)
                // The order alternates, so that neither side always meets the warmer disk.
                let order: Order = round.isMultiple(of: 2) ? .agentFirst : .floorFirst
                try agent.explaining {
                    try suites[index].measure(floors: floors, load: load, order: order, size: size)
                }
                let open = try agent.outbox().open
                let sent = size.total
                guard open == sent else { throw BenchError("the agent holds \(open) mutations, \(sent) were accepted") }
            }
        }
        report.figures = suites.flatMap(\.figures)
        report.distributions = suites.flatMap(\.distributions)
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }
}

enum Order {
    case floorFirst, agentFirst

    /// Runs both in this order.
    func callAsFunction<Floor, Agent>(floor: () throws -> Floor, agent: () throws -> Agent) throws -> (Floor, Agent) {
        switch self {
        case .floorFirst:
            let first = try floor()
            return (first, try agent())
        case .agentFirst:
            let first = try agent()
            return (try floor(), first)
        }
    }
}

/// Numbers of mutations in one round.
private struct EnqueueSize {
    /// Requests of the single producer.
    var alone: Int
    /// Requests of all producers together.
    var together: Int
    /// Lines of the NDJSON stream.
    var lines: Int

    /// Total with the warm-up requests of the loads.
    var total: Int { alone + Load.warmup(alone) + together + Load.warmup(together) + lines }

    static let full = EnqueueSize(alone: 2_000, together: 60_000, lines: 200_000)
    static let quick = EnqueueSize(alone: 300, together: 8_000, lines: 20_000)
}

/// The enqueue figures of one kind of entity, collected over the rounds.
private struct EnqueueSuite {
    let entity: BenchEntity

    private var alone: Figure
    private var aloneRate: Figure
    private var together: Figure
    private var lines: Figure
    private var flash = Distribution("fdatasync of 4 KB")
    private var rowFloor: Distribution
    private var groupFloor: Distribution
    private var aloneAnswers: Distribution
    private var togetherAnswers: Distribution

    init(entity: BenchEntity, producers: Int) {
        self.entity = entity
        let name = entity.rawValue
        alone = Figure(
            id: "enqueue_\(name)_1_p50", title: "\(name), 1 producer: p50", unit: .microseconds,
            floor: "fdatasync of a 4 KB append",
            goal: .atMost(1.5))
        aloneRate = Figure(
            id: "enqueue_\(name)_1_rate", title: "\(name), 1 producer: rate", unit: .perSecond,
            floor: "SQLite, 1 row a transaction",
            goal: nil)
        together = Figure(
            id: "enqueue_\(name)_\(producers)_rate", title: "\(name), \(producers) producers: rate", unit: .perSecond,
            floor: "SQLite, group commit by 64 threads", goal: .atLeast(0.5))
        lines = Figure(
            id: "enqueue_\(name)_ndjson_rate", title: "\(name), NDJSON: rate", unit: .perSecond,
            floor: "SQLite, 256 rows a transaction", goal: .atLeast(0.5))
        rowFloor = Distribution("SQLite, 1 row a transaction (\(name))")
        groupFloor = Distribution("SQLite, group commit by 64 threads (\(name))")
        aloneAnswers = Distribution("agent, 1 producer (\(name))")
        togetherAnswers = Distribution("agent, \(producers) producers (\(name))")
    }

    var figures: [Figure] { [alone, aloneRate, together, lines] }
    var distributions: [Distribution] { [flash, rowFloor, aloneAnswers, groupFloor, togetherAnswers] }

    mutating func measure(floors: Floors, load: Load, order: Order, size: EnqueueSize) throws {
        let (disk, single) = try order(
            floor: { (try floors.flash(count: size.alone), try floors.rows(size.alone)) },
            agent: { try load.requests(size.alone, connections: 1, firstRow: 0) })
        flash.add(disk.0.times)
        rowFloor.add(disk.1.times)
        aloneAnswers.add(single.times)
        alone.add(floor: disk.0.times.quantile(0.5) / 1_000, agent: single.times.quantile(0.5) / 1_000)
        aloneRate.add(floor: disk.1.rate, agent: single.rate)

        let (group, many) = try order(
            floor: { try floors.group(size.together, threads: 64) },
            agent: { try load.requests(size.together, connections: load.producers.count, firstRow: 1 << 32) })
        groupFloor.add(group.times)
        togetherAnswers.add(many.times)
        together.add(floor: group.rate, agent: many.rate)

        let (batches, stream) = try order(
            floor: { try floors.batches(size.lines, rowsPerCommit: 256) },
            agent: { try load.lines(size.lines, firstRow: 2 << 32) })
        lines.add(floor: batches.rate, agent: stream.rate)
    }
}
