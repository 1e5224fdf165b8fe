import ArgumentParser
import BenchKit
import SyncCore

/// Measures the capacity for a fleet of one hub, or of several over one database.
struct FleetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Measures hubs under thousands of simulated devices that speak the real protocol, and their return after an outage.",
        discussion: """
            Each device says hello and then in turn pulls and pushes, on the loopback interface, without TLS and tokens. Measured are \
            one hub over SQLite, and one and two over a PostgreSQL server that is started for it; each with a load, and then with \
            the same load in the middle of which all hubs are killed and come back. Every mutation is counted at the end: applied \
            once. The devices run on the same machine, so rates of two replicas say more on one with many cores. Beside the hubs on \
            PostgreSQL stands their floor: the statements that the same work cannot do without, sent from C to the same server. With \
            --news all devices wait at one hub, and one more pushes. With --scopes each device has two of as many sites as there are \
            devices, and lists its share of the records. --stop, --snapshot, --seeding and --idle-pulls measure one more promise of the \
            hub each. --all measures every subject, the load also behind a way of 1 ms to PostgreSQL, and ends with all goals. A case \
            that is not possible here is skipped with its reason, and its goals are not judged.
            """)

    @Flag(help: "Measure all subjects one after the other, each with its own sizes. About a quarter of an hour.") var all = false
    @Option(help: ArgumentHelp("Devices; default: 1000.", valueName: "count")) var devices: Int?
    @Option(help: ArgumentHelp("Pushes of each device, in each of the two runs; default: 4.", valueName: "count")) var pushes: Int?
    @Option(help: ArgumentHelp("Mutations of a push; default: 20.", valueName: "count")) var mutations: Int?
    @Option(help: ArgumentHelp("Connections at one time; default: 128.", valueName: "count")) var connections: Int?
    @Option(help: ArgumentHelp("Length of the outage, milliseconds; default: 2000.", valueName: "ms")) var outage: Int?
    @Option(help: ArgumentHelp("Measure only this case: sqlite, postgres-1 or postgres-2.", valueName: "case")) var only: String?
    @Flag(help: "Measure only how soon waiting devices have a change, and their cost.") var news = false
    @Flag(help: "Measure only records that are shared out by scopes: what each device receives, and what its pulls cost.") var scopes =
        false
    @Option(
        help: ArgumentHelp(
            "Records that are shared out with --scopes, or listed with --news, --seeding and --idle-pulls; default: 100000.",
            valueName: "count"))
    var records: Int?
    @Flag(help: "Measure only how long a hub answers no push after another one over the same database was stopped (SIGSTOP) for 5 s.")
    var stop = false
    @Option(help: ArgumentHelp("Number of times that a hub is stopped, with --stop; default: 5.", valueName: "count")) var stops: Int?
    @Option(
        help: ArgumentHelp(
            "Seed of the moments, with --stop; without it one is drawn. It is printed, and the same seed draws the same moments.",
            valueName: "number"))
    var seed: UInt64?
    @Option(
        defaultAsFlag: FleetCommand.usualSnapshot,
        help: ArgumentHelp(
            "Measure only what a hub on PostgreSQL loses of its rate while a transaction keeps a snapshot open, as a backup does.",
            valueName: "seconds"))
    var snapshot: Int?
    @Option(
        defaultAsFlag: FleetCommand.usualSeeding,
        help: ArgumentHelp(
            "Measure only how long pushes take while that many new devices make their first sync of all --records.", valueName: "count"))
    var seeding: Int?
    @Flag(help: "Measure only pulls that bring nothing, and the listing of the 100 among all --records that a new device needs first.")
    var idlePulls = false
    @Option(
        help: ArgumentHelp(
            "Let hubs and floor reach PostgreSQL over a way that takes so long in both directions together; default: the server's socket.",
            valueName: "ms"))
    var roundTrip = 0.0
    @Flag(help: "Small loads and short times, to see that it works. The figures say little.") var quick = false
    @Flag(help: "Exit with 1 when a goal is missed.") var check = false
    @Flag(help: "Print one JSON object instead of a table.") var json = false
    @Option(help: ArgumentHelp("Folder for everything that is written. Must not be in memory.", valueName: "folder")) var dir = "/var/tmp"
    @Option(help: ArgumentHelp("The hub to measure; default: next to agentbench.", valueName: "program")) var agenthub: String?

    static let cases = ["sqlite", "postgres-1", "postgres-2"]

    func validate() throws {
        try demand(devices, 1...20_000, "--devices takes 1 to 20000.")
        try demand(pushes, 1...1_000, "--pushes takes 1 to 1000, --mutations 1 to 500.")
        try demand(mutations, 1...500, "--pushes takes 1 to 1000, --mutations 1 to 500.")
        // A hub admits 256 requests at a time, and low-ranked ones only while half of that is free.
        try demand(connections, 1...900, "--connections takes 1 to 900.")
        try demand(outage, 0...60_000, "--outage takes 0 to 60000.")
        try demand(records, 1...10_000_000, "--records takes 1 to 10000000.")
        guard roundTrip == 0 || (0.01...1_000).contains(roundTrip) else { throw ValidationError("--round-trip takes 0.01 to 1000.") }
        try validateSubject()
    }

    private func demand(_ number: Int?, _ range: ClosedRange<Int>, _ words: String) throws {
        if let number, !range.contains(number) { throw ValidationError(words) }
    }

    func run() throws {
        let workplace = try Workplace(under: dir)
        defer { workplace.remove() }
        var results: [any FleetResult] = []
        var failures: [String] = []
        for run in runs(in: workplace) {
            if all { Talk.say("== \(run.name)") }
            do {
                results.append(try run.measure())
            } catch {
                guard all else { throw error }
                // The other measurements are still useful.
                Talk.say("\(error)")
                failures.append("\(run.name): \(error)")
            }
        }
        publish(results, failures)
        if !failures.isEmpty || check && results.contains(where: { $0.goals.contains { !$0.isMet } }) { throw ExitCode(1) }
    }

    private func publish(_ results: [any FleetResult], _ failures: [String]) {
        guard all else {
            for result in results { print(json ? result.document.json : result.page) }
            return
        }
        if json {
            var measured: JSONObject = [:]
            for result in results { measured[result.run.name] = result.document }
            let whole: JSON = [
                "schema": "fleet-all/1", "version": .string(ProductVersion.text), "subjects": .object(measured),
                "failures": .list(failures),
            ]
            print(whole.json)
        } else {
            let parts = results.map { "== \($0.run.name)\n\n\($0.text)" } + [FleetGoal.table(results.flatMap(\.goals))]
            print((parts.filter { !$0.isEmpty } + failures).joined(separator: "\n\n"))
        }
    }
}
