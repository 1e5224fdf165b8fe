import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc
import LocalAPI
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
            hub each, with its goal.
            """)

    @Option(help: ArgumentHelp("Devices.", valueName: "count")) var devices = 1_000
    @Option(help: ArgumentHelp("Pushes of each device, in each of the two runs.", valueName: "count")) var pushes = 4
    @Option(help: ArgumentHelp("Mutations of a push.", valueName: "count")) var mutations = 20
    @Option(help: ArgumentHelp("Connections at one time.", valueName: "count")) var connections = 128
    @Option(help: ArgumentHelp("Length of the outage, milliseconds.", valueName: "ms")) var outage = 2_000
    @Option(help: ArgumentHelp("Measure only this case: sqlite, postgres-1 or postgres-2.", valueName: "case")) var only: String?
    @Flag(help: "Measure only how soon waiting devices have a change, and their cost.") var news = false
    @Flag(help: "Measure only records that are shared out by scopes: what each device receives, and what its pulls cost.") var scopes =
        false
    @Option(
        help: ArgumentHelp("Records that are shared out with --scopes, or listed with --seeding and --idle-pulls.", valueName: "count"))
    var records = 100_000
    @Flag(help: "Measure only how long a hub answers no push after another one over the same database was stopped (SIGSTOP) for 5 s.")
    var stop = false
    @Option(help: ArgumentHelp("Number of times that a hub is stopped, with --stop.", valueName: "count")) var stops = 5
    @Option(
        help: ArgumentHelp(
            "Seed of the moments, with --stop; without it one is drawn. It is printed, and the same seed draws the same moments.",
            valueName: "number"))
    var seed: UInt64?
    @Option(
        defaultAsFlag: 60,
        help: ArgumentHelp(
            "Measure only what a hub on PostgreSQL loses of its rate while a transaction keeps a snapshot open, as a backup does.",
            valueName: "seconds"))
    var snapshot: Int?
    @Option(
        defaultAsFlag: 8,
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
    @Flag(help: "Print one JSON object instead of a table.") var json = false
    @Option(help: ArgumentHelp("Folder for everything that is written. Must not be in memory.", valueName: "folder")) var dir = "/var/tmp"
    @Option(help: ArgumentHelp("The hub to measure; default: next to agentbench.", valueName: "program")) var agenthub: String?

    static let cases = ["sqlite", "postgres-1", "postgres-2"]

    func validate() throws {
        guard (1...20_000).contains(devices) else { throw ValidationError("--devices takes 1 to 20000.") }
        // The grants of the devices are in one file of entities, which may hold 50,000 values.
        if scopes, devices > 8_000 { throw ValidationError("--devices takes 1 to 8000 with --scopes.") }
        guard (1...1_000).contains(pushes), (1...500).contains(mutations) else {
            throw ValidationError("--pushes takes 1 to 1000, --mutations 1 to 500.")
        }
        // A hub admits 256 requests at a time, and low-ranked ones only while half of that is free.
        guard (1...900).contains(connections) else { throw ValidationError("--connections takes 1 to 900.") }
        guard (0...60_000).contains(outage) else { throw ValidationError("--outage takes 0 to 60000.") }
        guard (1...10_000_000).contains(records) else { throw ValidationError("--records takes 1 to 10000000.") }
        guard roundTrip == 0 || (0.01...1_000).contains(roundTrip) else { throw ValidationError("--round-trip takes 0.01 to 1000.") }
        try validateSubject()
        let possible = subject.cases
        if let only, !possible.contains(only) {
            throw ValidationError("--only takes \(possible.joined(separator: ", "))\(subject.option.map { " with \($0)" } ?? "").")
        }
    }

    func run() throws {
        let workplace = try Workplace(under: dir)
        defer { workplace.remove() }
        switch subject {
        case .load: try publishLoad(in: workplace)
        case .news: try publishNews(in: workplace)
        case .scopes: try publishScopes(in: workplace)
        case .stop: try publishStop(in: workplace)
        case .snapshot: try publishSnapshot(in: workplace)
        case .seeding: try publishSeeding(in: workplace)
        case .idlePulls: try publishIdlePulls(in: workplace)
        }
    }

    private func publishNews(in workplace: Workplace) throws {
        var report = NewsReport(fileSystem: workplace.fileSystem.name)
        report.rows = try rows { try measureNews($0, workplace) }
        report.publish(asJSON: json)
    }

    private func publishScopes(in workplace: Workplace) throws {
        var report = ScopesReport(devices: devices, records: records, fileSystem: workplace.fileSystem.name)
        report.rows = try rows { try measureScopes($0, workplace) }
        report.publish(asJSON: json)
    }

    /// Measures each case of the subject that is wanted and possible here.
    func rows<Row>(_ measure: (String) throws -> Row) throws -> [Row] {
        try subject.cases.filter { only == nil || only == $0 }.compactMap { name in
            if name != "sqlite", let obstacle = PostgresUnderTest.obstacle {
                Talk.say("\(name): skipped, \(obstacle)")
                return nil
            }
            Talk.say(name)
            return try measure(name)
        }
    }
}
