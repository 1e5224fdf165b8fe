import SyncCore

/// One simulated world: several agents, each the real engine on the real store; one real hub; a network between them; apps
/// that ask for things; and faults. One seed is one history.
///
/// There are no tasks and no clocks. A single loop takes the next event, ordered by time and then by the order of planning, and all random
/// decisions come from one seeded generator. First, faults strike for some minutes. Then they stop, and everything must drain. A parked or
/// refused mutation must be listed with its value.
///
/// Promises are checked at each step (``HubOracle``, `Simulation+Checks.swift`) and at the end. Values are checked as well as keys,
/// because the arrival of every key says nothing about the values.
package final class Simulation {
    /// Wall time of the world's beginning: 2026-11-20T21:00:00Z.
    static let epochMilliseconds: Int64 = 1_795_208_400_000
    static let hubURL = "https://hub.example"
    /// Time for which changes of records that a new history lacks wait for the creator of the record.
    static let offerTime: Duration = .seconds(300)

    enum Event {
        /// Wake-up of an engine. This event and the next two are for one process.
        case wake(agent: Int, life: Int, id: Int)
        case command(agent: Int, life: Int, StoreCommand)
        case probed(agent: Int, life: Int, UInt64)
        case answered(agent: Int, life: Int, call: UInt64, Result<HTTPResponse, TransportError>, sent: Instant)
        /// A request reaches the hub.
        case arrives(Flight)
        case appActs
        /// At the end, each agent's app says a last word.
        case appSays(agent: Int)
        case appRepeats(AppRequest)
        /// A fault or an outside event strikes.
        case weather
        case starts(agent: Int)
        /// After a failed commit a living process has opened its store again.
        case reopened(agent: Int, life: Int)
        case link(agent: Int, up: Bool)
        case costsNothing(agent: Int)
        case resumes(agent: Int)
        case asksForSync(agent: Int)
        case hubStarts
        case heals
        case operatorLooks
        /// A request for the hub's settings arrives there, and its answer comes back.
        case configArrives(agent: Int, life: Int)
        case configAnswered(agent: Int, life: Int, HTTPResponse?)
        /// A request for one record arrives at the hub, and its answer comes back.
        case fetchArrives(FetchOnItsWay)
        case fetchAnswered(FetchOnItsWay, HTTPResponse)
        /// An agent looks for the next request about a file.
        case fileTurn(agent: Int)
        /// A request for a file arrives at the hub, and its answer comes back.
        case fileArrives(FileFlight)
        case fileAnswered(FileFlight, Result<HTTPResponse, TransportError>)
    }

    package let scenario: Scenario
    let ablations: Ablations
    var random: SeededRandom
    /// Generator for later additions (fetched documents, parents), so that all other draws of a seed stay the same.
    var others: SeededRandom
    /// Generator for files.
    var fileDraws: SeededRandom
    var now = Instant(nanoseconds: 0)
    var queue = EventQueue<Event>()
    var agents: [SimAgent] = []
    let hub: SimHub
    var oracle = HubOracle()
    var operations: [Operation] = []
    var byKey: [MutationKey: Int] = [:]
    /// Keys of mutations that replaced others.
    var successors: Set<MutationKey> = []
    /// Number of answers that apps got so far.
    var acknowledgements = 0
    /// Mutations that replaced others which were parked when their records left a share.
    var retriedKeys: Set<MutationKey> = []
    /// The newest settings of the office.
    var office = SchemaState()
    /// The office has taken a version of a schema back.
    var hasTakenBack = false
    /// The versions of schemas that the present request names.
    var declared = SchemaNumbers()
    /// Number of times that agents took over settings of the hub: so far, and when agents were last reminded to pull.
    var configsTaken = 0
    var configsWhenReminded = 0
    /// Cursors of shared entities, oldest first.
    var shownCursors: [ShownCursor] = []
    /// The hub's answer about a record that never existed, which is also the answer about a record of others.
    var unknownRecord: Problem?
    /// The hub's answer about a file that never existed, which is also the answer about a file of others.
    var unknownFile: [UInt8] = []
    /// The commit number of each cursor, as of its issue.
    var cursorPlaces: [String: Int64] = [:]
    /// Number of interesting events, by name.
    package internal(set) var counts: [String: Int] = [:]
    var trace: Trace
    /// The agent whose process has just died, until the simulation notices.
    var dying: Int?
    /// Agents whose credentials do not hold at present, and the end of that time.
    var badTokens: [Int: Instant] = [:]
    var isHealed = false
    var hubImages: [HubImage] = []
    var hasClone = false
    var drainUntil = Instant(nanoseconds: 0)
    var isDrained = false
    var isOver = false
    /// The disk was full during the present command.
    var hasRefusedCommit = false
    /// Kind of the commit under way.
    var committing = Commit.apps
    /// A transaction was committed, even if no answer told so.
    var hasCommitted = false
    /// Number of operations that databases took so far.
    var places = 0
    /// Number of accepted mutations when agents were last reminded to pull.
    var appliedWhenReminded = 0
    /// Number of requests on their way to the hub.
    var flying = 0
    /// Number of store commands so far.
    var steps = 0
    /// All stores are verified after each event instead of now and then.
    var verifiesAlways = false

    /// - Parameters:
    ///   - keeps: Lines of the trace to keep for a report.
    ///   - reuses: Takes databases of earlier histories where there are some (``DatabasePool``).
    package init(_ scenario: Scenario, keeps: Int = 0, reuses: Bool = true) throws(Broken) {
        self.scenario = scenario
        #if ABLATIONS
            ablations = Ablations(scenario.ablations)
        #else
            ablations = .none
        #endif
        var random = SeededRandom(seed: scenario.seed)
        let rules = ablations
        let hub = try Broken.none { try SimHub(scenario, rules, random: &random, over: reuses ? DatabasePool.takeHub() : nil) }
        self.hub = hub
        self.random = random
        others = SeededRandom(seed: scenario.seed &* 0x9FB2_1C65_1E98_DF25 &+ 3)
        fileDraws = SeededRandom(seed: scenario.seed &* 0xDA94_2042_E4DD_58B5 &+ 7)
        trace = Trace(keeps: keeps)
        for index in 0..<scenario.agents {
            agents.append(
                try Broken.none {
                    try SimAgent(index: index, token: hub.tokens[index], ownRules, over: reuses ? DatabasePool.takeDatabase() : nil)
                })
        }
    }

    /// The rules of the agents' own files.
    private(set) lazy var ownRules = Entities.rules(ofHub: false, scenario.extras)
    private(set) lazy var hubRules = Entities.rules(ofHub: true, scenario.extras)

    package var traceHash: UInt64 { trace.hash }
    package var traceTail: [String] { trace.tail }
    /// Simulated time.
    package var elapsed: Duration { Instant(nanoseconds: 0).duration(to: now) }

    package func run() throws(Broken) {
        if scenario.countsByRecord { count("histories with versions by record") }
        if scenario.keeps { count("histories with keep") }
        try beginSharing()
        try beginSchemas()
        try beginFiles()
        for agent in agents { plan(.starts(agent: agent.index), in: chance(upTo: .seconds(2))) }
        plan(.appActs, in: spell(upTo: .seconds(5)))
        plan(.weather, in: spell(upTo: .seconds(10)))
        plan(.heals, in: scenario.faultsFor)
        while !isOver {
            guard let next = queue.take() else { throw Broken("time goes on", "nothing is planned any more") }
            now = next.at
            try take(next.event)
            if verifiesAlways { for agent in agents where !agent.mustReopen { try verify(agent) } }
        }
    }

    private func take(_ event: Event) throws(Broken) {
        switch event {
        case .wake(let index, let life, let id):
            let agent = agents[index]
            guard agent.life == life, agent.wakeID == id else { return }
            try feed(.timer, to: agent)
        case .command(let index, let life, let command): try perform(command, agents[index], life: life)
        case .answered(let index, let life, let call, let result, let sent):
            try deliver(result, of: call, sent: sent, to: agents[index], life: life)
        case .probed(let index, let life, let id):
            let agent = agents[index]
            guard agent.life == life else { return }
            try feed(.probed(id, isGood: hub.isUp && agent.linkIsUp), to: agent)
        case .arrives(let flight):
            flying -= 1
            try arrive(flight)
        case .appActs: try appActs()
        case .appSays(let index): try say(agents[index])
        case .appRepeats(let request): try submit(request)
        case .weather: try weather()
        case .starts(let index): try start(agents[index])
        case .reopened(let index, let life):
            if agents[index].life == life { try feed(.enqueued(.normal), to: agents[index]) }
        case .link(let index, let up): try link(agents[index], up: up)
        case .costsNothing(let index): try metered(agents[index], false)
        case .resumes(let index): try feed(.resumed, to: agents[index])
        case .asksForSync(let index): try feed(.requested(SyncRequest()), to: agents[index])
        case .hubStarts: try startHub()
        case .heals: try heal()
        case .operatorLooks: try look()
        case .configArrives(let index, let life): try configArrives(agents[index], life)
        case .configAnswered(let index, let life, let response): try configAnswered(response, agents[index], life)
        case .fetchArrives(let fetch): try fetchArrives(fetch)
        case .fetchAnswered(let fetch, let response): try fetchAnswered(fetch, response)
        case .fileTurn(let index): try fileTurn(agents[index])
        case .fileArrives(let flight):
            flying -= 1
            try fileArrives(flight)
        case .fileAnswered(let flight, let result): try fileAnswered(flight, result)
        }
    }

    // MARK: Small parts

    func plan(_ event: Event, in delay: Duration) {
        switch event {
        case .arrives, .fileArrives: flying += 1
        default: break
        }
        queue.plan(event, at: now.advanced(by: delay))
    }

    func has(_ fault: Fault) -> Bool {
        !isHealed && scenario.faults.contains(fault)
    }

    func strikes(_ fault: Fault, _ probability: Double) -> Bool {
        has(fault) && random.fraction() < probability * scenario.faultRate
    }

    func chance(_ probability: Double) -> Bool { random.fraction() < probability }

    func chance(from low: Duration = .zero, upTo high: Duration) -> Duration {
        random.duration(from: low, to: high)
    }

    /// The duration of an outage or of a delay. In a short history everything is over sooner.
    func spell(from low: Duration = .zero, upTo high: Duration) -> Duration {
        chance(from: low / scenario.haste, upTo: high / scenario.haste)
    }

    func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &random)] }

    /// - Parameter alsoWithScopes: Counts the event once more under another name if records are shared.
    func count(_ what: String, alsoWithScopes: Bool = false) {
        counts[what, default: 0] += 1
        if alsoWithScopes, scenario.sharesOut { counts[what + " with scopes", default: 0] += 1 }
    }

    func say(_ line: @autoclosure () -> String) { trace.add(now, line()) }

    /// The hub's wall time, which is right.
    var hubTime: Timestamp { Timestamp(milliseconds: Self.epochMilliseconds + now.nanoseconds / 1_000_000) }
}

extension Broken {
    /// Runs the body. Its errors break the history, because no fault explains them.
    static func none<Value>(_ body: () throws -> Value) throws(Broken) -> Value {
        do {
            return try body()
        } catch {
            throw Broken("nothing fails without a fault", "\(error)")
        }
    }
}
