import ArgumentParser
import BenchKit
import CBenchFloors
import LocalAPI
import SyncCore

/// Measures the cost of sending waiting mutations to a hub.
struct DrainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Measures the drain of waiting 200 B mutations to a hub: CPU and bytes on the wire for each.",
        discussion: """
            Floor: a C loop that reads the rows from SQLite, makes the JSON, gzips it, posts it over one connection, \
            50 mutations a request, and marks them done. Both send to the same real hub through a relay that counts.
            """)

    @OptionGroup var shared: SharedOptions

    @Option(help: ArgumentHelp("Mutations to drain; default: 100000, with --quick 10000.", valueName: "count"))
    var mutations: Int?

    func validate() throws {
        if let mutations, !(100...5_000_000).contains(mutations) {
            throw ValidationError("--mutations takes 100 to 5000000.")
        }
    }

    func run() throws {
        let count = mutations ?? (shared.quick ? 10_000 : 100_000)
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        var report = Report(command: "drain", workplace: workplace)
        report.note("\(count) mutations of 200 B, plain HTTP over loopback, so no TLS on either side.")
        report.note(
            "Bytes are what TCP carried, counted at a relay. The headers of TCP and IP are an estimate of what "
                + "Ethernet would carry: 52 B for each segment of 1448 B, and for an acknowledgement of every second one.")

        var cpu = Figure(
            id: "drain_cpu", title: "CPU per mutation", unit: .microseconds, floor: "C loop", goal: .atMost(4))
        var wire = Figure(
            id: "drain_wire", title: "bytes on the wire per mutation", unit: .bytes, floor: "C loop", goal: .atMost(1.3)
        )
        var rate = Figure(id: "drain_rate", title: "rate", unit: .perSecond, floor: "C loop", goal: nil)
        for round in 1...shared.roundCount(full: 3) {
            Talk.say("round \(round)")
            let drain = try Drain(count: count, workplace: workplace, shared: shared)
            defer { drain.stop() }
            let order: Order = round.isMultiple(of: 2) ? .agentFirst : .floorFirst
            let (floor, agent) = try order(floor: drain.floor, agent: drain.agent)
            cpu.add(floor: floor.cpuMicroseconds, agent: agent.cpuMicroseconds)
            wire.add(floor: floor.wireBytes, agent: agent.wireBytes)
            rate.add(floor: floor.run.rate, agent: agent.run.rate)
        }
        report.figures = [cpu, wire, rate]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }
}

/// One round: a hub, and a relay in front of it.
private final class Drain {
    /// The cost of one side.
    struct Cost {
        var run: Run
        /// Bytes in both directions, with the estimate of TCP and IP headers.
        var bytes: Double

        var cpuMicroseconds: Double { Double(run.cpuNanoseconds) / 1_000 / Double(run.rows) }
        var wireBytes: Double { bytes / Double(run.rows) }
    }

    private let count: Int
    private let workplace: Workplace
    private let shared: SharedOptions
    private let hub: HubUnderTest
    private let relay: OpaquePointer
    private let url: String
    private var tokens: [String: String] = [:]

    init(count: Int, workplace: Workplace, shared: SharedOptions) throws {
        self.count = count
        self.workplace = workplace
        self.shared = shared
        hub = try HubUnderTest(
            program: shared.agenthub, in: workplace.folder("hub"), devices: ["bench", "floor"], tokens: &tokens)
        var port: UInt16 = 0
        var failure = bench_failure()
        guard let relay = bench_relay_start(hub.port, &port, &failure) else {
            hub.stop()
            throw BenchError("relay: \(failure.message)")
        }
        self.relay = relay
        url = "http://127.0.0.1:\(port)"
    }

    func stop() {
        bench_relay_stop(relay)
        hub.stop()
    }

    func floor() throws -> Cost {
        let database = try workplace.folder("floor") + "/floor.db"
        try checked("drain floor") { bench_drain_prepare(database, UInt64(count), $0) }
        var cost = bench_cost()
        let before = bench_relay_read(relay)
        try withStrings([
            database, url, tokens["floor"] ?? "", "floor", "0199c3f2-a1b4-7000-8000-9f2c11ab0001",
            BenchEntity.event.name,
        ]) { strings in
            var plan = bench_drain_plan(
                database: strings[0], url: strings[1], token: strings[2], device: strings[3], replica: strings[4],
                entity: strings[5], batch: 50)
            try checked("drain floor") { bench_drain_floor(&plan, &cost, $0) }
        }
        guard cost.rows == UInt64(count) else { throw BenchError("drain floor: sent \(cost.rows) of \(count)") }
        let run = Run(
            rows: count, nanoseconds: cost.nanoseconds, times: Times([]), cpuNanoseconds: cost.cpu_nanoseconds)
        return Cost(run: run, bytes: wire(since: before))
    }

    /// Fills a paused agent, then resumes it until nothing is open.
    func agent() throws -> Cost {
        let producers = Producers(wanted: 1)
        let agent = try AgentUnderTest(
            program: shared.agentd, in: workplace.folder("agent"), hubURL: url, token: tokens["bench"] ?? "",
            producers: producers)
        defer { agent.stop() }
        return try agent.explaining { try drain(agent, producers) }
    }

    private func drain(_ agent: AgentUnderTest, _ producers: Producers) throws -> Cost {
        try agent.call("POST", "/v1/pause", body: #"{"scope":"all"}"#)
        _ = try Load(socket: agent.socketPath, entity: .event, producers: producers).lines(count, firstRow: 0)

        let before = bench_relay_read(relay)
        let cpu = agent.cpu
        let start = ContinuousClock.now
        try agent.call("POST", "/v1/resume", body: #"{"scope":"all"}"#)
        var open = count
        while open > 0 {
            // Waits inside the agent for the end of a cycle, so that waiting costs it next to nothing.
            try agent.call(
                "POST", "/v1/sync", body: #"{"scope":"all","force":true,"wait":true}"#, timeout: .seconds(300))
            let outbox = try agent.outbox()
            guard outbox.open < open else {
                throw BenchError("the drain stands still: \(outbox.open) of \(count) are open")
            }
            open = Int(outbox.open)
        }
        let time = ContinuousClock.now - start
        let done = try agent.outbox().count(.done)
        guard done == count else { throw BenchError("the hub took \(done) of \(count) mutations") }
        let run = Run(
            rows: count, nanoseconds: UInt64(time / .nanoseconds(1)), times: Times([]), cpuNanoseconds: agent.cpu - cpu)
        return Cost(run: run, bytes: wire(since: before))
    }

    private func wire(since before: bench_relay_counts) -> Double {
        let now = bench_relay_read(relay)
        let payload = now.bytes_up + now.bytes_down - before.bytes_up - before.bytes_down
        let segments = now.segments_up + now.segments_down - before.segments_up - before.segments_down
        return Double(payload) + Double(segments) * 52 * 1.5
    }
}

/// Provides C strings that live as long as the call.
private func withStrings<Result>(_ strings: [String], _ body: ([UnsafePointer<CChar>]) throws -> Result) rethrows
    -> Result
{
    func next(_ rest: ArraySlice<String>, _ pointers: [UnsafePointer<CChar>]) throws -> Result {
        guard let first = rest.first else { return try body(pointers) }
        return try first.withCString { try next(rest.dropFirst(), pointers + [$0]) }
    }
    return try next(strings[...], [])
}
