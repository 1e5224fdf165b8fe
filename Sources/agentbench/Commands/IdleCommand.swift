import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc
import LocalAPI

/// Measures the cost of an idle agent.
struct IdleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle",
        abstract: "Measures wake-ups, memory and size of an agent that has nothing to do.",
        discussion: """
            The agent has pushed some work to a real hub and then sleeps; scheduled pulls are put off for an hour. A wake-up is \
            a voluntary context switch of any of its threads. Floor: a sleep(1) beside it, in the same time.
            """)

    @OptionGroup var shared: SharedOptions

    func run() throws {
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        // Kept connections end after 75 s, and each end is a wake-up.
        let seconds = shared.quick ? 10 : 60, rest = shared.quick ? 20 : 120
        var report = Report(command: "idle", workplace: workplace)
        report.note("The size is that of the shipped program only when it was built with --static-swift-stdlib.")
        report.note("Measured for \(seconds) s after \(rest) s of rest. The agent gets no request meanwhile.")
        let floor = "sleep(1)"
        var wakeUps = Figure(id: "idle_wakeups", title: "wake-ups a minute", unit: .count, floor: floor, goal: .below(0))
        var anonymous = Figure(id: "idle_anonymous", title: "own memory", unit: .bytes, floor: floor, goal: .below(6 * 1_048_576))
        var resident = Figure(
            id: "idle_resident", title: "resident memory", unit: .bytes, floor: floor, goal: .below(24 * 1_048_576))
        var size = Figure(
            id: "idle_size", title: "size of agentd, stripped", unit: .bytes, floor: "none", goal: .below(24 * 1_048_576))
        for round in 1...shared.roundCount(full: 1) {
            Talk.say("round \(round)")
            let (idle, asleep) = try measure(workplace, seconds, after: rest)
            wakeUps.add(floor: asleep.wakeUps, agent: idle.wakeUps)
            anonymous.add(floor: asleep.anonymous, agent: idle.anonymous)
            resident.add(floor: asleep.resident, agent: idle.resident)
        }
        if let bytes = try strippedSize(workplace) {
            size.add(floor: 0, agent: bytes)
        } else {
            report.note("strip(1) is missing: no size.")
        }
        report.figures = [wakeUps, anonymous, resident] + (size.rounds.isEmpty ? [] : [size])
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    private struct Rest {
        var wakeUps, anonymous, resident: Double

        init(_ before: ProcessFacts, _ after: ProcessFacts, seconds: Int) {
            wakeUps = Double(after.wakeUps - before.wakeUps) * 60 / Double(seconds)
            anonymous = Double(after.anonymousBytes)
            resident = Double(after.residentBytes)
        }
    }

    private func measure(_ workplace: Workplace, _ seconds: Int, after rest: Int) throws -> (Rest, Rest) {
        var tokens: [String: String] = [:]
        let hub = try HubUnderTest(program: shared.agenthub, in: workplace.folder("hub"), devices: ["bench"], tokens: &tokens)
        defer { hub.stop() }
        let agent = try AgentUnderTest(
            program: shared.agentd, in: workplace.folder("agent"), hubURL: "http://127.0.0.1:\(hub.port)",
            token: tokens["bench"] ?? "", producers: Producers(wanted: 1),
            settings: "sync: { pull_interval: 1h, metered_pull_interval: 1h }\n")
        defer { agent.stop() }
        let sleeper = try start(["/bin/sleep", "600"], log: "\(workplace.path)/sleep.log")
        defer { _ = bench_stop(sleeper, SIGTERM, 1_000) }
        return try agent.explaining {
            _ = try Load(socket: agent.socketPath, entity: .event, producers: Producers(wanted: 1)).lines(1_000, firstRow: 0)
            try agent.wait { $0.outbox.open == 0 }
            _ = poll(nil, 0, Int32(rest * 1_000))
            guard let before = ProcessFacts(agent.pid), let asleepBefore = ProcessFacts(sleeper) else {
                throw BenchError("the agent is gone")
            }
            _ = poll(nil, 0, Int32(seconds * 1_000))
            guard let after = ProcessFacts(agent.pid), let asleepAfter = ProcessFacts(sleeper) else {
                throw BenchError("the agent is gone")
            }
            return (Rest(before, after, seconds: seconds), Rest(asleepBefore, asleepAfter, seconds: seconds))
        }
    }

    /// The size of the given program; only one that contains the Swift runtime is like the shipped one.
    private func strippedSize(_ workplace: Workplace) throws -> Double? {
        let places: [String] = ["/usr/bin/strip", "/bin/strip"]
        guard let strip = places.first(where: { access($0, X_OK) == 0 }) else { return nil }
        let copy = "\(workplace.path)/stripped"
        let program = try shared.agentd ?? neighbour("agentd")
        let pid = try start([strip, "-o", copy, program], log: "\(workplace.path)/strip.log")
        guard bench_stop(pid, 0, 60_000) == 0 else { return nil }
        return Double(fileSize(copy))
    }
}
