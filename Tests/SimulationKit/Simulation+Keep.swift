import SyncCore
import SyncStore

// Documents that devices drop by a rule (PROTOCOL C9). The rule's exceptions stay, unsent work keeps its record, and the comparison with
// the hub still agrees.
extension Simulation {
    // MARK: Apps and processes

    /// - Returns: `nil` when the app asks for something else.
    func makeTask(for agent: SimAgent) -> Operation? {
        guard scenario.keeps, scenario.focus == nil, chance(0.6) else { return nil }
        let name = RecordName(Tasks.entity, RecordID(trusted: "r\(Int.random(in: 0..<scenario.records, using: &random))"))
        var operation = Operation(
            number: operations.count, agent: agent.index, record: name, action: action(on: name, agent), data: [:], operations: [],
            priority: pick([.critical, .normal, .normal, .bulk]))
        guard operation.action != .delete else { return operation }
        operation.data["t"] = .string(operation.token)
        operation.data[pick(["s", "v", "c"])] = .string(operation.token)
        if chance(0.7) { operation.data["done"] = .string(pick(["yes", "yes", "no"])) }
        operation.operations = [
            FieldOperation("n", .increment, 1), FieldOperation("a", .append, .array([.string(operation.token)])),
        ]
        return operation
    }

    /// Ends processes now and then, because a round through the documents begins with a process.
    func keepWeather() throws(Broken) {
        guard scenario.keeps else { return }
        try fetchWeather()
        guard chance(0.2) else { return }
        let agent = pick(agents)
        guard agent.store != nil else { return }
        say("agent \(agent.index) is updated")
        die(agent)
    }

    // MARK: What must hold

    /// The hub's documents that a device has, and the records with open work.
    struct HeldDocuments {
        var documents: [RecordName: JSONObject] = [:]
        var open: Set<RecordName> = []
    }

    /// - Returns: `nil` if the command drops nothing.
    func documents(of agent: SimAgent, before command: StoreCommand) throws(Broken) -> HeldDocuments? {
        guard scenario.keeps, case .housekeep = command, let store = agent.store else { return nil }
        return try documents(of: agent, store)
    }

    private func documents(of agent: SimAgent, _ store: Store) throws(Broken) -> HeldDocuments {
        var held = HeldDocuments()
        let entities = Tasks.dropped(scenario.extras)
        for entity in entities {
            var query = RecordQuery(entity)
            query.limit = 1_000
            for item in try Broken.none({ try store.reads.records(query) }).items {
                guard let base = item.base else { continue }
                held.documents[item.name] = try Broken.none { try JSONReader.read(base) }.object
            }
        }
        let open = try mutations(of: agent, .pending, .inFlight, .conflicted, .failed)
        held.open = Set(open.map(\.record).filter { entities.contains($0.entity) })
        return held
    }

    /// Checks that housekeeping has dropped only what the rule allows.
    func checkDropped(_ agent: SimAgent, since held: HeldDocuments?) throws(Broken) {
        guard let held, let store = agent.store else { return }
        let now = try documents(of: agent, store)
        for (name, document) in held.documents.sorted(by: { $0.key < $1.key }) where now.documents[name] == nil {
            guard Tasks.mayBeDropped(document) else {
                throw Broken("what a rule keeps stays", "agent \(agent.index) has dropped \(name): \(document.json)")
            }
            guard !held.open.contains(name) else {
                throw Broken("a record with open work keeps its document", "agent \(agent.index) has dropped \(name)")
            }
            agent.dropped.insert(name)
            count("documents dropped")
            say("agent \(agent.index) drops \(name)")
        }
    }

    /// Tells if a device may lack the document at the end, because the rule allows to drop it.
    func mayLack(_ name: RecordName, _ document: JSONObject) -> Bool {
        Tasks.dropped(scenario.extras).contains(name.entity) && Tasks.mayBeDropped(document)
    }

    /// Checks that the device keeps the versions of dropped documents, so that both sides still agree.
    func checkStubs(of agent: SimAgent) throws(Broken) {
        guard scenario.keeps, let store = agent.store else { return }
        let held = try documents(of: agent, store).documents
        for name in agent.dropped where held[name] != nil { count("dropped documents back") }
        for entity in Tasks.dropped(scenario.extras) {
            var digest = EntityDigest()
            for (name, record) in hub.records
            where name.entity == entity && oracle.shares.includes(name, record.data, agent.device) {
                guard let version = hub.shown(record.version, of: name) else { continue }
                digest.add(name.id, version: version)
            }
            let own = try Broken.none { try store.digest(of: entity) }
            guard own.differences(from: digest).isEmpty else {
                throw Broken("a comparison counts what was dropped", "agent \(agent.index): \(held.keys.sorted()) are there")
            }
        }
    }
}
