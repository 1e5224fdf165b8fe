import SyncCore
import SyncStore

/// A request for one record that is on its way to the hub, or its answer.
struct FetchOnItsWay {
    var agent: Int
    var life: Int
    var name: RecordName
    var fetch: RecordFetch
    var request: HTTPRequest
    /// Generation of the hub that the request was sent to.
    var generation: Int
}

// Dropped documents that an app asks the hub for (`get --fetch`, PROTOCOL B3). The request, its reading (`RecordFetch`) and the store are
// those of the product. The checks of the agent's shell in between are written anew here.
extension Simulation {
    /// Apps ask for documents that the device lacks, and in histories with scopes also for records whose ids they can only guess.
    ///
    /// All draws are from another generator.
    func fetchWeather() throws(Broken) {
        guard others.fraction() < 0.7 else { return }
        let agent = agents[Int.random(in: 0..<agents.count, using: &others)]
        guard let store = agent.store, let engine = agent.engine, agent.linkIsUp, let name = try nameToFetch(agent, store) else { return }
        let fetch = RecordFetch(name, epoch: engine.memory.epoch, schemas: agent.documentSchemas)
        var call = HubCall(
            id: 0, kind: .snapshot, session: "", body: [], query: SnapshotMessages.query(fetch.request), epoch: fetch.epoch)
        call.schemas = fetch.schemas
        say("agent \(agent.index) asks for \(name)")
        count("documents asked for")
        let flight = FetchOnItsWay(
            agent: agent.index, life: agent.life, name: name, fetch: fetch, request: request(for: call, agent), generation: hub.generation)
        plan(.fetchArrives(flight), in: wayOfFetch())
    }

    private func nameToFetch(_ agent: SimAgent, _ store: Store) throws(Broken) -> RecordName? {
        if scenario.sharesOut, others.fraction() < 0.3 {
            let entity = others.fraction() < 0.5 ? Shares.orders : Shares.jobs
            return RecordName(entity, RecordID(trusted: "r\(Int.random(in: 0..<scenario.records, using: &others))"))
        }
        var names: [RecordName] = []
        for name in agent.dropped.sorted() where try Broken.none({ try store.reads.record(name)?.isNotKept }) == true { names.append(name) }
        return names.isEmpty ? nil : names[Int.random(in: 0..<names.count, using: &others)]
    }

    /// Travel time of a fetch. Now and then it is long enough for the record to change or to leave the share.
    private func wayOfFetch() -> Duration {
        others.fraction() < 0.4
            ? others.duration(from: .seconds(1), to: .seconds(60) / scenario.haste)
            : others.duration(from: .milliseconds(10), to: .milliseconds(150))
    }

    func fetchArrives(_ flight: FetchOnItsWay) throws(Broken) {
        guard hub.isUp, flight.generation == hub.generation else { return }
        let received = hub.received(flight.request)
        let response = hub.handle(received, at: hubTime)
        recordHistory()
        if response.status == 200 { try checkFetched(response, flight) }
        plan(.fetchAnswered(flight, hub.shown(response, to: received, at: hubTime)), in: wayOfFetch())
    }

    /// Checks that the hub shows a record of the device's share, and no record of others.
    private func checkFetched(_ response: HTTPResponse, _ flight: FetchOnItsWay) throws(Broken) {
        let device = agents[flight.agent].device
        let page = try Broken.none { try SnapshotMessages.readResponse(response.body) }
        try checkShare(page, device)
        try hub.observe(at: hubTime)
        let isShown = page.records.contains { $0.id == flight.name.id }
        let present = hub.records[flight.name]
        let isOwn = present.map { oracle.shares.includes(flight.name, $0.data, device) } ?? false
        guard isShown == isOwn else {
            throw Broken(
                "a document is fetched from the share of the device",
                "\(flight.name) is \(isOwn ? "" : "not ")in the share of \(device), and is \(isShown ? "" : "not ")shown")
        }
        if !isOwn, present != nil { count("records of others asked for in vain") }
    }

    func fetchAnswered(_ flight: FetchOnItsWay, _ response: HTTPResponse) throws(Broken) {
        let agent = agents[flight.agent]
        guard agent.life == flight.life, agent.linkIsUp, let store = agent.store, let engine = agent.engine else { return }
        guard case .found(let record) = flight.fetch.handle(HubReply.read(response, now: agent.moment(at: now).wall)) else { return }
        // Versions compare only within one history, and documents within one version of their schema. The agent's shell checks the same.
        guard engine.memory.epoch == flight.fetch.epoch, engine.memory.healing == nil, agent.documentSchemas == flight.fetch.schemas
        else { return }
        let before = try Broken.none { try store.reads.record(flight.name) }
        let isDone = try act(agent) { (store, moment) throws(StoreError) in
            try store.bringBack(record, of: flight.name.entity, at: moment)
        }
        guard isDone else { return }
        let after = try Broken.none { try agent.store?.reads.record(flight.name) }
        try checkBroughtBack(record, from: before, to: after, agent, flight.name)
    }

    private func checkBroughtBack(
        _ record: StreamPage.Record, from before: RecordSnapshot?, to after: RecordSnapshot?, _ agent: SimAgent, _ name: RecordName
    ) throws(Broken) {
        func breaks(_ promise: String) -> Broken {
            Broken(
                promise,
                "agent \(agent.index) had \(before.map { "version \($0.version), \($0.status)," } ?? "nothing") of \(name), was shown version "
                    + "\(record.record.version), and has \(after.map { "version \($0.version): \($0.view ?? "nothing")" } ?? "nothing")")
        }
        guard let before, before.isNotKept else {
            // A newer local document wins over the fetched one, and a record that left the share stays away.
            guard after?.version == before?.version, after?.base == before?.base, after?.view == before?.view else {
                throw breaks("a document that comes too late changes nothing")
            }
            return count(before == nil ? "documents that came after their record had left" : "documents that came too late")
        }
        guard let after, after.version >= before.version else { throw breaks("a fetched document is no older one") }
        guard !after.isNotKept else {
            // A record with open work stays as it is. An app may change a record that it does not see.
            guard record.record.version < before.version || before.status != .synced else {
                throw breaks("a document that was asked for comes back")
            }
            return count(before.status == .synced ? "older documents left out" : "documents of records with open work left out")
        }
        let base = try Broken.none { try JSONReader.read(after.base ?? "null") }.object
        guard after.version == record.record.version, base == record.record.data else {
            throw breaks("a document that was asked for comes back")
        }
        count("documents fetched")
        say("agent \(agent.index) has \(name) again")
    }
}
