import BenchKit

/// One measurement of `agentbench fleet`: its subject, its sizes and its place.
struct FleetRun {
    let subject: FleetSubject
    /// The cases that are wanted, of those that the subject has.
    let cases: [String]
    var devices = 1_000
    var pushes = 4
    var mutations = 20
    var connections = 128
    /// Milliseconds.
    var outage = 2_000
    var records = 100_000
    var stops = 5
    /// Seed of the moments of stops; `nil`: one is drawn.
    var seed: UInt64?
    /// Seconds for which a snapshot is open.
    var snapshot = FleetCommand.usualSnapshot
    /// Number of new devices.
    var seeding = FleetCommand.usualSeeding
    /// Milliseconds of the way to PostgreSQL and back; 0: the server's socket.
    var roundTrip = 0.0
    /// Times are short, and the figures say little.
    let isQuick: Bool
    /// The hub's program; `nil`: beside this one.
    let agenthub: String?
    let workplace: Workplace

    var fileSystem: String { workplace.fileSystem.name }

    /// The name in the report of several.
    var name: String {
        switch subject {
        case .load: roundTrip > 0 ? "load-round-trip" : "load"
        case .news: "news"
        case .scopes: "scopes"
        case .stop: "stop"
        case .snapshot: "snapshot"
        case .seeding: "seeding"
        case .idlePulls: "idle-pulls"
        }
    }

    /// The length of a part that no option sets, nanoseconds: a tenth of it with `--quick`.
    ///
    /// - Parameter seconds: That of a full measurement.
    func span(_ seconds: UInt64) -> UInt64 { seconds * (isQuick ? 100_000_000 : 1_000_000_000) }

    func measure() throws -> any FleetResult {
        switch subject {
        case .load: try measureLoad()
        case .news: try measureNews()
        case .scopes: try measureScopes()
        case .stop: try measureStop()
        case .snapshot: try measureSnapshot()
        case .seeding: try measureSeeding()
        case .idlePulls: try measureIdlePulls()
        }
    }

    /// Measures each case that is wanted and possible here.
    func rows<Row>(_ measure: (String) throws -> Row) throws -> [Row] {
        try cases.compactMap { name in
            if name != "sqlite", let obstacle = PostgresUnderTest.obstacle {
                Talk.say("\(name): skipped, \(obstacle)")
                return nil
            }
            Talk.say(name)
            return try measure(name)
        }
    }
}
