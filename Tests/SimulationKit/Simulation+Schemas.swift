import HubServer
import SyncCore
import SyncStore

// Schemas and forms that change: what the office does, how agents learn of it, and what apps do that speak older versions.
extension Simulation {
    var shapes: VisitShapes { SchemaOffice(scenario).shapes }

    func beginSchemas() throws(Broken) {
        guard scenario.changesSchemas else { return }
        count("histories with schemas")
        office.forms = [1]
        try setUpSchemas()
    }

    /// Sets up schemas and forms at an empty hub.
    func setUpSchemas() throws(Broken) {
        guard scenario.changesSchemas else { return }
        try applySchema(office.present, accepts: office.accepts)
        for version in office.forms.sorted() { try publishForm(version) }
    }

    // MARK: The office

    func schemaWeather() throws(Broken) {
        guard scenario.changesSchemas, hub.isUp, chance(scenario.toward == .newSchemasUnseen ? 0.8 : 0.35) else { return }
        let present = oracle.schemas.present
        switch Int.random(in: 0..<7, using: &random) {
        case 0, 1, 2:
            guard present < Visits.versions.upperBound else { return }
            let next = present + 1
            try applySchema(next, accepts: chance(0.2) ? Array(2...next) : Array(1...next))
        case 3:
            guard present > 1 else { return }
            try applySchema(present - 1, accepts: Array(1..<present))
            hasTakenBack = true
            count("schemas taken back")
        case 4:
            guard present > 1 else { return }
            try applySchema(present, accepts: oracle.schemas.accepts == [present] ? Array(1...present) : [present])
        default:
            guard oracle.schemas.forms.count < 6 else { return }
            try publishForm((oracle.schemas.forms.max() ?? 0) + 1)
            count("forms published")
        }
    }

    private func applySchema(_ present: Int, accepts: [Int]) throws(Broken) {
        let text = EntityText(SchemaOffice.text(present, accepts: accepts), of: "entities", by: "office", at: hubTime)
        _ = try Broken.none { try hub.hub.apply(text) }
        let (before, shapes) = (oracle.schemas.present, shapes)
        oracle.rules.convert(Visits.entity) { shapes.convert(&$0, from: before, to: present) }
        (oracle.schemas.present, oracle.schemas.accepts) = (present, accepts)
        (office.present, office.accepts) = (present, accepts)
        // Records keep their versions, so the hub does not send them again.
        hub.forgetObserved()
        say("the office makes version \(present) of the schema count, \(accepts) are accepted")
        if before != present { count("schemas changed") }
        for name in oracle.rules.names.sorted() where name.entity == Visits.entity { try compareWithRules(name, []) }
    }

    private func publishForm(_ version: Int) throws(Broken) {
        for name in [Audits.record(version), Audits.record(nil)] {
            _ = try Broken.none { try hub.publish(name, Audits.document(version), at: hubTime) }
        }
        oracle.schemas.forms.insert(version)
        office.forms.insert(version)
        say("the office publishes version \(version) of the form")
    }

    /// Gives devices that refused the hub's settings a program that knows them.
    func settleSchemas() {
        for agent in agents where agent.config.refused != nil && agent.store != nil { die(agent) }
    }

    // MARK: How agents learn of it

    /// Takes up the settings that an earlier process has kept, before anything is sent, as the agent's shell does.
    func takeUpConfig(_ agent: SimAgent) throws(Broken) {
        guard scenario.changesSchemas, let store = agent.store else { return }
        let (kept, schemas) = try Broken.none { (try store.serverConfiguration(), try store.documentSchemas()) }
        agent.documentSchemas = schemas
        if let kept, let (version, rules) = read(Array(kept.utf8)) {
            (agent.config.inForce, agent.config.text, agent.rules) = (version, kept, rules)
        }
        agent.documentSchemas = schemas.taking(agent.rules)
        try useRules(agent)
    }

    private func read(_ body: [UInt8]) -> (Int64, RuleBook)? {
        guard let object = (try? JSONReader.read(body))?.object, let version = object["version"]?.int,
            let settings = object["entities"]?.object?[Visits.entity.text]?.object
        else { return nil }
        return SchemaOffice.rules(settings, ofHub: false).map { (version, $0) }
    }

    /// Converts stored documents. A failed conversion is repeated before the next command.
    func useRules(_ agent: SimAgent) throws(Broken) {
        guard scenario.changesSchemas else { return }
        try commit(.conversion, agent) { (store, moment) throws(StoreError) in
            try store.use(agent.rules, keeping: agent.config.text, at: moment)
        }
    }

    private func commit(_ kind: Commit, _ agent: SimAgent, _ body: (Store, Moment) throws(StoreError) -> Void) throws(Broken) {
        guard let store = agent.store else { return }
        // The agent may be in the middle of a command whose commit has an unknown outcome.
        let (wasRefused, wasCommitting, wasCommitted) = (hasRefusedCommit, committing, hasCommitted)
        defer { (hasRefusedCommit, committing, hasCommitted) = (wasRefused, wasCommitting, wasCommitted) }
        hasRefusedCommit = false
        committing = kind
        do throws(StoreError) {
            try body(store, agent.moment(at: now))
        } catch {
            if dying == agent.index { return die(agent) }
            guard hasRefusedCommit else { throw Broken("the store fails only with its disk", "agent \(agent.index): \(error)") }
            try reopenIfNeeded(agent)
        }
    }

    func hearOffer(_ response: HTTPResponse, _ agent: SimAgent) {
        guard scenario.changesSchemas, response.headers[HubHeader.version] != nil else { return }
        let said = HubHeaders(reading: response.headers, now: agent.moment(at: now).wall)
        if let version = said.config { agent.config.offered = version }
    }

    /// Fetches offered settings between two cycles.
    func fetchConfigIfOffered(_ agent: SimAgent) {
        let config = agent.config
        guard scenario.changesSchemas, !config.isFetching, let offered = config.offered, offered != config.inForce,
            offered != config.refused
        else { return }
        agent.config.isFetching = true
        let isLost = !agent.linkIsUp || strikes(.lostRequest, 0.15)
        let latency = chance(from: .milliseconds(10), upTo: strikes(.delay, 0.2) ? .seconds(60) : .milliseconds(300))
        plan(
            isLost
                ? .configAnswered(agent: agent.index, life: agent.life, nil) : .configArrives(agent: agent.index, life: agent.life),
            in: latency)
    }

    func configArrives(_ agent: SimAgent, _ life: Int) throws(Broken) {
        guard agent.life == life else { return }
        var response: HTTPResponse?
        if hub.isUp, !strikes(.lostAnswer, 0.15) {
            var headers: HTTPHeaders = ["Authorization": "Bearer \(agent.token)", "Accept": "application/json"]
            HubRequestHeaders(device: agent.device, replica: agent.engine?.replica).write(to: &headers)
            response = hub.handle(HTTPRequest(.get, Self.hubURL + "/v1/config", headers: headers), at: hubTime)
            recordHistory()
            if strikes(.portal, 0.1) { response = HTTPResponse(status: 200, headers: [:], body: Array("{}".utf8)) }
        }
        plan(.configAnswered(agent: agent.index, life: life, response), in: chance(upTo: .milliseconds(300)))
    }

    func configAnswered(_ response: HTTPResponse?, _ agent: SimAgent, _ life: Int) throws(Broken) {
        guard agent.life == life else { return }
        // A store does one thing after the other: the conversion comes after the command that was asked of it before.
        let waits = agent.job == .store
        // In a history that is led there, the answer comes while a page is on its way.
        let isEarly = scenario.toward == .newSchemasUnseen && !isHealed && (agent.engine?.cycle == nil || agent.job == .none)
        if waits || isEarly { return plan(.configAnswered(agent: agent.index, life: life, response), in: .milliseconds(40)) }
        agent.config.isFetching = false
        guard let response, response.status == 200, response.headers[HubHeader.version] != nil else { return }
        guard let (version, rules) = read(response.body) else {
            throw Broken("the hub's settings can be read", String(decoding: response.body, as: UTF8.self))
        }
        if version == agent.config.inForce { return }
        if !isHealed, chance(0.12) {
            say("agent \(agent.index) refuses the hub's settings")
            count("settings of the hub refused")
            agent.config.refused = agent.config.offered
            return try feed(.settings(settings(of: agent)), to: agent)
        }
        configsTaken += 1
        if agent.engine?.cycle != nil { count("settings of the hub taken during a cycle") }
        let before = agent.documentSchemas[Visits.entity]
        let text = String(decoding: response.body, as: UTF8.self)
        (agent.config.inForce, agent.config.text, agent.config.refused, agent.rules) = (version, text, nil, rules)
        agent.documentSchemas = agent.documentSchemas.taking(rules)
        let present = agent.documentSchemas[Visits.entity]
        say("agent \(agent.index) takes the hub's settings over, version \(before) of the schema becomes \(present)")
        if present != before { count(present > before ? "devices converted" : "devices converted back") }
        try useRules(agent)
        try feed(.settings(settings(of: agent)), to: agent)
        try commit(.memory, agent) { (store, moment) throws(StoreError) in try store.keepServerConfiguration(text, at: moment) }
    }

    /// Tells if the agent works by the hub's settings.
    func knowsSchemas(_ agent: SimAgent) -> Bool {
        !scenario.changesSchemas || agent.config.inForce == hub.hub.settings.config?.version
    }

    // MARK: Apps

    /// - Returns: `nil` when the app asks for something else.
    func makeVersionedOperation(for agent: SimAgent) -> Operation? {
        guard scenario.changesSchemas, scenario.focus == nil, chance(0.6) else { return nil }
        let entity = chance(0.65) ? Visits.entity : Audits.entity
        let name = RecordName(entity, RecordID(trusted: "r\(Int.random(in: 0..<scenario.records, using: &random))"))
        var operation = Operation(
            number: operations.count, agent: agent.index, record: name, action: action(on: name, agent), data: [:], operations: [],
            priority: pick([.critical, .normal, .normal, .bulk]))
        let present = agent.rules[Visits.entity]?.version ?? 1
        if entity == Visits.entity { operation.schema = chance(0.45) ? 1 : chance(0.1) ? pick(Array(Visits.versions)) : present }
        guard operation.action != .delete else { return operation }
        operation.data["t"] = .string(operation.token)
        operation.operations = [
            FieldOperation("n", .increment, 1), FieldOperation("a", .append, .array([.string(operation.token)])),
        ]
        if let version = operation.schema { fill(&operation, version) } else { answer(&operation, agent) }
        return operation
    }

    private func fill(_ operation: inout Operation, _ version: Int) {
        let token = JSON.string(operation.token)
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: operation.data[version == 1 ? "site" : "place"] = token
            case 1: operation.data["grade"] = .string(pick(shapes.grades(version)))
            case 2: if shapes.hasKind(version) { operation.data["kind"] = token }
            case 3:
                let more: [JSON] = shapes.isLossless || chance(0.7) ? [] : ["more"]
                operation.data["label"] = version == 3 ? .array([token] + more) : token
            case 4: if shapes.hasLegacy(version) { operation.data["legacy"] = token }
            default: operation.data["size"] = .int(chance(0.1) ? 150 : Int64(operation.number % 100))
            }
        }
    }

    private func answer(_ operation: inout Operation, _ agent: SimAgent) {
        let view = seen(operation.record, agent)
        if view?["form_id"] == nil || chance(0.1) {
            // Its app may know a form that the device does not have yet.
            let version = chance(0.4) ? office.forms.max() : knownForms(agent).max()
            (operation.data["form_id"], operation.data["form_version"]) = (.string(Audits.form), .int(Int64(version ?? 1)))
        }
        let token = JSON.string(operation.token)
        if chance(0.5) { operation.data["q1"] = .string(pick(["pass", "pass", "fail"])) }
        if chance(0.3) { operation.data["q2"] = token }
        if chance(0.4) { operation.data["q3"] = token }
        if chance(0.45) { operation.data["status"] = .string(chance(0.75) ? "completed" : "draft") }
    }

    /// The versions of the form that the device has.
    func knownForms(_ agent: SimAgent) -> Set<Int> {
        let newest = seen(Audits.record(nil), agent)?["version"]?.int.map { Int($0) }
        return office.forms.filter { $0 == newest || seen(Audits.record($0), agent) != nil }
    }
}
