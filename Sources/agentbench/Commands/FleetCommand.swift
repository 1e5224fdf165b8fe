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
            once. The devices run on the same machine, so rates of two replicas say more on one with many cores. With --news all \
            devices wait at one hub, and one more pushes. With --scopes each device has two of as many sites as there are devices, and \
            lists its share of the records.
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
    @Option(help: ArgumentHelp("Records that are shared out, with --scopes.", valueName: "count")) var records = 100_000
    @Flag(help: "Print one JSON object instead of a table.") var json = false
    @Option(help: ArgumentHelp("Folder for everything that is written. Must not be in memory.", valueName: "folder")) var dir = "/var/tmp"
    @Option(help: ArgumentHelp("The hub to measure; default: next to agentbench.", valueName: "program")) var agenthub: String?

    private static let cases = ["sqlite", "postgres-1", "postgres-2"]

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
        if let only, !Self.cases.contains(only) { throw ValidationError("--only takes \(Self.cases.joined(separator: ", ")).") }
    }

    func run() throws {
        let workplace = try Workplace(under: dir)
        defer { workplace.remove() }
        if scopes { return try publishScopes(in: workplace) }
        if news { return try publishNews(in: workplace) }
        let load = FleetLoad(devices: devices, pushes: pushes, mutations: mutations)
        var report = FleetReport(load: load, outage: outage, fileSystem: workplace.fileSystem.name)
        for name in Self.cases where only == nil || only == name {
            if name != "sqlite", let obstacle = PostgresUnderTest.obstacle {
                Talk.say("\(name): skipped, \(obstacle)")
                continue
            }
            Talk.say(name)
            report.rows.append(try measure(name, load, workplace))
        }
        report.publish(asJSON: json)
    }

    private func publishNews(in workplace: Workplace) throws {
        var report = NewsReport(fileSystem: workplace.fileSystem.name)
        report.rows = try casesOfOneHub { try measureNews($0, workplace) }
        report.publish(asJSON: json)
    }

    private func publishScopes(in workplace: Workplace) throws {
        var report = ScopesReport(devices: devices, records: records, fileSystem: workplace.fileSystem.name)
        report.rows = try casesOfOneHub { try measureScopes($0, workplace) }
        report.publish(asJSON: json)
    }

    private func casesOfOneHub<Row>(_ measure: (String) throws -> Row) throws -> [Row] {
        try Self.cases.filter { $0 != "postgres-2" && (only == nil || only == $0) }.compactMap { name in
            if name != "sqlite", let obstacle = PostgresUnderTest.obstacle {
                Talk.say("\(name): skipped, \(obstacle)")
                return nil
            }
            Talk.say(name)
            return try measure(name)
        }
    }

    private func measure(_ name: String, _ load: FleetLoad, _ workplace: Workplace) throws -> FleetReport.Row {
        let program = try agenthub ?? neighbour("agenthub")
        let server = name == "sqlite" ? nil : try PostgresUnderTest(in: workplace.folder("pg"))
        defer { server?.stop() }
        let place = try server.map { ["--database", $0.url] } ?? ["--data", workplace.folder("data")]
        let hubs = try (0..<(name == "postgres-2" ? 2 : 1)).map { try FleetHub(program, place: place, in: workplace.folder("hub-\($0)")) }
        defer { for hub in hubs { hub.end(SIGTERM) } }

        let before = (hub: hubs.reduce(0) { $0 + $1.cpu }, server: server?.cpu ?? 0)
        var client = FleetClient(load, ports: hubs.map(\.port), connections: connections, firstDevice: 0)
        let steady = try client.run { _ in }
        let after = (hub: hubs.reduce(0) { $0 + $1.cpu }, server: server?.cpu ?? 0)

        // The same load again, from other devices.
        client = FleetClient(load, ports: hubs.map(\.port), connections: connections, firstDevice: load.devices)
        var backAt: UInt64?
        var returned: UInt64?
        let returning = try client.run { taken in
            if backAt == nil, taken >= load.total / 2 {
                for hub in hubs { hub.end(SIGKILL) }
                backAt = bench_now() + UInt64(outage) * 1_000_000
            }
            if let at = backAt, returned == nil, bench_now() >= at {
                for hub in hubs { try hub.start() }
                returned = bench_now()
            }
        }
        let end = bench_now()

        let applied = try stats(program, place, workplace)
        guard applied == Int64(2 * load.total) else {
            throw BenchError("\(name): the hub applied \(applied) mutations, \(2 * load.total) were pushed")
        }
        return FleetReport.Row(
            name: name, steady: steady, hubCPU: after.hub - before.hub, serverCPU: server.map { _ in after.server - before.server },
            returning: returning, drained: end - (returned ?? end))
    }

    /// The number of applied mutations by the hub's own count.
    private func stats(_ program: String, _ place: [String], _ workplace: Workplace) throws -> Int64 {
        var descriptor: Int32 = -1
        let pid = try start([program, "stats", "--json"] + place, log: "\(workplace.path)/stats.log", output: &descriptor)
        var line: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 { line += buffer[..<count] }
        close(descriptor)
        _ = bench_stop(pid, 0, 10_000)
        // An unreadable line is thrown as an error below.
        guard let mutations = (try? JSONReader.read(line))?.object?["mutations"]?.object, let applied = mutations["applied"]?.int else {
            throw BenchError("agenthub stats does not read\n\(tail(of: "\(workplace.path)/stats.log"))")
        }
        return applied
    }
}
