import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc

/// Measures the cost of a full outbox.
struct BacklogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backlog",
        abstract: "Measures enqueueing, start and memory with 1,000,000 mutations waiting, beside an empty outbox.",
        discussion: """
            Floor: the same agent with nothing waiting, in the same run. Memory is read 5 s after the start, when the first \
            questions are answered; the start ends with the answer to the first enqueue.
            """)

    @OptionGroup var shared: SharedOptions

    @Option(help: ArgumentHelp("Mutations that wait; default: 1000000, with --quick 50000.", valueName: "count"))
    var mutations: Int?

    func validate() throws {
        if let mutations, !(1_000...5_000_000).contains(mutations) { throw ValidationError("--mutations takes 1000 to 5000000.") }
    }

    func run() throws {
        let count = mutations ?? (shared.quick ? 50_000 : 1_000_000)
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        var report = Report(command: "backlog", workplace: workplace)
        report.note("\(count) events of 200 B wait; resident memory is that of the process, with the libraries that it shares.")
        let empty = "the same with an empty outbox"
        var rate = Figure(id: "backlog_rate", title: "events, NDJSON: rate", unit: .perSecond, floor: empty, goal: .atLeast(0.8))
        var start = Figure(
            id: "backlog_start", title: "start to first answer", unit: .microseconds, floor: empty, goal: .below(500_000))
        var resident = Figure(
            id: "backlog_resident", title: "resident memory", unit: .bytes, floor: empty, goal: .aboveFloor(8_388_608))
        for round in 1...shared.roundCount(full: 1) {
            Talk.say("round \(round)")
            let full = try workplace.folder("full"), bare = try workplace.folder("bare")
            try fill(full, count)
            let floor = try measure(bare, firstRow: 0), agent = try measure(full, firstRow: UInt64(count))
            rate.add(floor: floor.rate, agent: agent.rate)
            start.add(floor: floor.start, agent: agent.start)
            resident.add(floor: floor.resident, agent: agent.resident)
        }
        report.figures = [rate, start, resident]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    private func agent(_ folder: String) throws -> AgentUnderTest {
        try AgentUnderTest(program: shared.agentd, in: folder, hubURL: AgentUnderTest.noHub, producers: Producers(wanted: 1))
    }

    private func fill(_ folder: String, _ count: Int) throws {
        let agent = try agent(folder)
        defer { agent.stop() }
        _ = try agent.explaining {
            try Load(socket: agent.socketPath, entity: .event, producers: Producers(wanted: 1)).lines(count, firstRow: 0)
        }
    }

    private func measure(_ folder: String, firstRow: UInt64) throws -> (rate: Double, start: Double, resident: Double) {
        let before = bench_now()
        let agent = try agent(folder)
        defer { agent.stop() }
        return try agent.explaining {
            let load = Load(socket: agent.socketPath, entity: .event, producers: Producers(wanted: 1))
            _ = try load.lines(1, firstRow: firstRow)
            let start = Double(bench_now() - before) / 1_000
            _ = try agent.status()
            _ = poll(nil, 0, 5_000)
            guard let facts = ProcessFacts(agent.pid) else { throw BenchError("the agent is gone") }
            let run = try load.lines(shared.quick ? 5_000 : 50_000, firstRow: firstRow + 1)
            return (run.rate, start, Double(facts.residentBytes))
        }
    }
}
