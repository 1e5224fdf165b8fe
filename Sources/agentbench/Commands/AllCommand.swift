import ArgumentParser
import BenchKit
import CBenchFloors
import FoundationEssentials
import Glibc
import LocalAPI
import SyncCore

/// Measures every promised figure in one run.
struct AllCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "all",
        abstract: "Runs all measurements with their floors, one after the other, and prints a table or one JSON object.",
        discussion: """
            These are enqueue, drain, backlog, idle, reconnect, link, flash, mirror and forms, each in its own process. A measurement \
            that is not possible here is skipped with its reason. All take 25 minutes, or 8 with --quick. Run nothing else meanwhile.
            """)

    @OptionGroup var shared: SharedOptions

    /// The commands in the order of their figures in the contract.
    private static let commands: [any ParsableCommand.Type] = [
        EnqueueCommand.self, DrainCommand.self, BacklogCommand.self, IdleCommand.self, ReconnectCommand.self, LinkCommand.self,
        FlashCommand.self, MirrorCommand.self, FormsCommand.self,
    ]

    func run() throws {
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        var table = TextTable(["figure", "agent", "floor", "ratio", "goal", "", "the floor"], words: [0, 5, 6])
        var results: JSONObject = [:]
        var hasMissed = false
        var failures: [String] = []
        for command in Self.commands {
            let name = command._commandName
            Talk.say(name)
            let result: JSON
            do {
                guard let measured = try measure(name, workplace) else { continue }
                result = measured
            } catch {
                // The other measurements are still useful.
                failures.append("\(error)")
                continue
            }
            results[name] = result
            for figure in result.object?["figures"]?.array ?? [] {
                guard let row = Self.row(figure) else { throw BenchError("this is no figure of \(name): \(figure.json.prefix(200))") }
                table.add(row)
                if figure.object?["met"] == .bool(false) { hasMissed = true }
            }
        }
        let whole: JSON = ["schema": "bench-all/1", "version": .string(ProductVersion.text), "commands": .object(results)]
        print(shared.json ? whole.json : table.text)
        for failure in failures { Talk.say(failure) }
        if !failures.isEmpty || shared.check && hasMissed { throw ExitCode(1) }
    }

    /// - Returns: `nil` when it cannot be measured here, which the measurement has reported.
    private func measure(_ name: String, _ workplace: Workplace) throws -> JSON? {
        var arguments = ["/proc/self/exe", name, "--json", "--dir", workplace.path]
        if shared.quick { arguments.append("--quick") }
        if let rounds = shared.rounds { arguments += ["--rounds", String(rounds)] }
        if let agentd = shared.agentd { arguments += ["--agentd", agentd] }
        if let agenthub = shared.agenthub { arguments += ["--agenthub", agenthub] }
        let log = "\(workplace.path)/\(name).log", output = "\(workplace.path)/\(name).json"
        let script = #"output=$1; shift; exec "$@" >"$output""#
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        arguments[0] = own
        let pid = try start(["/bin/sh", "-c", script, "sh", output] + arguments, log: log)
        guard bench_stop(pid, 0, 3_600_000) == 0 else { throw BenchError("agentbench \(name) failed\n\(tail(of: log))") }
        let text = FileManager.default.contents(atPath: output).map { String(decoding: $0, as: UTF8.self) } ?? ""
        if text.isEmpty {
            Talk.say(tail(of: log, lines: 1))
            return nil
        }
        // Thrown as an error of the benchmark, with the printed text.
        guard let json = try? JSONReader.read(text) else { throw BenchError("agentbench \(name) printed no JSON: \(text.prefix(200))") }
        return json
    }

    private static func row(_ figure: JSON) -> [String]? {
        guard let object = figure.object, let title = object["title"]?.text, let unit = object["unit"]?.text,
            let agent = object["agent"]?.double, let floor = object["floor"]?.double, let ratio = object["ratio"]?.double,
            let floorIs = object["floor_is"]?.text
        else { return nil }
        var goal = "-"
        if let limit = object["at_most"]?.double { goal = "<= \(limit.fixed(1))" }
        if let limit = object["at_least"]?.double { goal = ">= \(limit.fixed(1))" }
        if let limit = object["below"]?.double { goal = "<= \(limit.short) \(unit)" }
        if let limit = object["above_floor_at_most"]?.double { goal = "<= floor + \(limit.short) \(unit)" }
        var verdict = ""
        if let met = object["met"] { verdict = met == .bool(true) ? "met" : "MISSED" }
        return [title, "\(agent.short) \(unit)", "\(floor.short) \(unit)", ratio.fixed(2), goal, verdict, floorIs]
    }
}
