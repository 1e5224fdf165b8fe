import HubServer
import SyncCore
import SyncStore

// Records that are shared among devices: changes by apps, the office and operators, and cursors that other devices show.
extension Simulation {
    /// The grants that the hub has at the beginning.
    func beginSharing() throws(Broken) {
        guard scenario.sharesOut else { return }
        count("histories with scopes")
        unknownRecord = try hub.answerAboutNothing(at: hubTime)
        for (device, site) in zip(Shares.field, Shares.sites) {
            oracle.shares.grant(site, to: device, in: .file, isGranted: true)
        }
        if scenario.usesGroups {
            count("histories with groups")
            for (group, sites) in Shares.groupsAtFirst { oracle.shares.set(sites, of: group) }
        }
        // The cursors of this device have a digest in place of its scopes.
        if scenario.hasParents { count("histories with parents") }
        guard scenario.seed.isMultiple(of: 4), let device = field.last else { return }
        for site in Shares.emptySites { grant(site, to: device, in: .file, isGranted: true) }
    }

    // MARK: Apps

    /// - Returns: `nil` when the app asks for something else.
    func makeSharedOperation(for agent: SimAgent) -> Operation? {
        guard scenario.sharesOut, scenario.focus == nil, scenario.isShort || chance(0.55) else { return nil }
        let number = operations.count
        let isOffice = agent.device == Shares.office
        let draw = random.fraction()
        let entity = draw < (isOffice ? 0.4 : 0.06) ? Shares.assignments : draw < 0.75 ? Shares.orders : Shares.jobs
        let name = RecordName(entity, RecordID(trusted: "r\(Int.random(in: 0..<scenario.records, using: &random))"))
        var operation = Operation(
            number: number, agent: agent.index, record: name, action: action(on: name, agent), data: [:], operations: [],
            priority: pick([.critical, .normal, .normal, .bulk]))
        if chance(0.08), let other = operations.last(where: { $0.agent == agent.index && !$0.isLost && $0.key != nil })?.key {
            operation.dependsOn = [other]
        }
        guard operation.action != .delete else { return operation }
        operation.data["t"] = .string(operation.token)
        operation.data[pick(["s", "v", "c"])] = .string(operation.token)
        operation.operations = [
            FieldOperation("n", .increment, 1), FieldOperation("a", .append, .array([.string(operation.token)])),
        ]
        let isNew = seen(name, agent) == nil
        if entity == Shares.assignments {
            if isNew || chance(0.6) { operation.data["device"] = .string(pick(Shares.field).text) }
            if isNew || chance(0.6) { operation.data["site"] = someSites() }
        } else {
            place(&operation, isNew: isNew, agent)
        }
        addLater(to: &operation, agent)
        return operation
    }

    /// Adds later kinds of changes, drawn from another generator.
    private func addLater(to operation: inout Operation, _ agent: SimAgent) {
        if scenario.keeps, operation.record.entity == Shares.orders, others.fraction() < 0.6 {
            operation.data["done"] = others.fraction() < 0.7 ? "yes" : "no"
        }
        addFile(to: &operation)
        guard scenario.hasParents, operation.record.entity == Shares.jobs, others.fraction() < 0.8 else { return }
        // Usually the order that the app has just written.
        let latest = operations.last { $0.agent == agent.index && $0.record.entity == Shares.orders && !$0.isLost }
        let drawn = "r\(Int.random(in: 0..<scenario.records, using: &others))"
        operation.data["order"] = .string(others.fraction() < 0.8 ? latest?.record.id.text ?? drawn : drawn)
    }

    /// Sets or changes the scopes of a record.
    private func place(_ operation: inout Operation, isNew: Bool, _ agent: SimAgent) {
        let own = oracle.shares.sites(of: agent.device).filter { Shares.sites.contains($0) }.sorted()
        let isAssigned = isNew && (operation.record.entity == Shares.jobs || chance(0.4)) || !isNew && chance(0.12)
        if isAssigned {
            operation.data["assignee"] = .string(chance(0.75) ? agent.device.text : pick([Shares.office] + Shares.field).text)
        }
        if isNew && (!isAssigned || chance(0.7)) || !isNew && chance(0.25) {
            operation.data["site"] = own.isEmpty || chance(0.15) ? someSites() : chance(0.1) ? .list(own) : .string(pick(own))
        }
        if operation.record.entity == Shares.orders, chance(agent.device == Shares.office ? 0.2 : 0.05) {
            operation.data["price"] = .int(Int64(operation.number))
        }
    }

    private func someSites() -> JSON {
        chance(0.15) ? .list(Array(Shares.sites.shuffled(using: &random).prefix(2)).sorted()) : .string(pick(Shares.sites))
    }

    // MARK: Operators and the office

    /// Devices of which operators take and give scopes. A short history may have only one of them.
    private var field: [DeviceID] { scenario.isShort ? Array(Shares.field.prefix(max(1, scenario.agents - 1))) : Shares.field }

    func shareWeather() throws(Broken) {
        guard scenario.sharesOut else { return }
        if scenario.usesGroups, chance(0.35) { groupWeather() }
        guard scenario.isShort || chance(0.6) else { return }
        let device = pick(field), site = pick(Shares.sites)
        let book = pick(Shares.Book.allCases)
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1: grant(site, to: device, in: book, isGranted: true)
        case 2, 3:
            // The grant is revoked in every book, because any of them may have it.
            for book in Shares.Book.allCases { grant(site, to: device, in: book, isGranted: false) }
        case 4:
            // The device moves from one site to another.
            for old in Shares.sites { for book in Shares.Book.allCases { grant(old, to: device, in: book, isGranted: false) } }
            grant(site, to: device, in: book, isGranted: true)
        case 5, 6: try moveByOffice()
        case 7: try reassign()
        case 8: try showCursor()
        default: break
        }
    }

    /// Devices join and leave groups, and groups get other sites.
    private func groupWeather() {
        let group = pick(Shares.groups), device = pick(field)
        let before = Shares.field.map { oracle.shares.sites(of: $0) }
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1, 2:
            let book = pick(Shares.Book.allCases)
            hub.join(group, device, in: book, isMember: true, at: hubTime)
            oracle.shares.join(group, device, in: book, isMember: true)
            say("the operator takes \(device) into \(group)")
        case 3, 4:
            for book in Shares.Book.allCases {
                hub.join(group, device, in: book, isMember: false, at: hubTime)
                oracle.shares.join(group, device, in: book, isMember: false)
            }
            say("the operator takes \(device) out of \(group)")
        default:
            let sites = Set(Shares.sites.shuffled(using: &random).prefix(Int.random(in: 0...2, using: &random)))
            hub.set(sites, of: group)
            oracle.shares.set(sites, of: group)
            say("the owner gives \(group) the sites \(sites.sorted())")
        }
        for (device, had) in zip(Shares.field, before) {
            let has = oracle.shares.sites(of: device)
            if !has.isSubset(of: had) { count("scopes granted by groups") }
            if !had.isSubset(of: has) { count("scopes revoked by groups") }
        }
    }

    func grant(_ site: String, to device: DeviceID, in book: Shares.Book, isGranted: Bool) {
        let before = oracle.shares.sites(of: device)
        hub.grant(site, to: device, in: book, isGranted: isGranted, at: hubTime)
        oracle.shares.grant(site, to: device, in: book, isGranted: isGranted)
        guard oracle.shares.sites(of: device) != before, Shares.sites.contains(site) else { return }
        count(isGranted ? "scopes granted" : "scopes revoked")
        say("the operator \(isGranted ? "grants \(site) to" : "takes \(site) from") \(device)")
    }

    /// The back office gives a record to another site, or to another device.
    private func moveByOffice() throws(Broken) {
        try hub.observe(at: hubTime)
        let name = RecordName(
            pick([Shares.orders, Shares.jobs]), RecordID(trusted: "r\(Int.random(in: 0..<scenario.records, using: &random))"))
        guard hub.records[name] != nil else { return }
        let changes: JSONObject = chance(0.7) ? ["site": someSites()] : ["assignee": .string(pick([Shares.office] + Shares.field).text)]
        try publish(name, changes)
        count("records moved by the office")
    }

    private func reassign() throws(Broken) {
        try hub.observe(at: hubTime)
        let names = hub.records.keys.filter { $0.entity == Shares.assignments }.sorted()
        guard !names.isEmpty else { return }
        try publish(pick(names), chance(0.5) ? ["site": someSites()] : ["device": .string(pick(field).text)])
        count("grants by records changed")
    }

    func publish(_ name: RecordName, _ changes: JSONObject) throws(Broken) {
        let published = try Broken.none { try hub.publish(name, changes, at: hubTime) }
        oracle.publish(name, published.0, version: published.1, at: hubTime)
        say("the back office changes \(name): \(changes.json)")
    }

    // MARK: Cursors

    /// A device shows one of its earlier cursors, or a cursor of another device.
    private func showCursor() throws(Broken) {
        guard hub.isUp, !shownCursors.isEmpty else { return }
        let shown = pick(shownCursors), agent = pick(agents)
        let isForeign = shown.device != agent.device
        var headers: HTTPHeaders = ["Authorization": "Bearer \(agent.token)", "Content-Type": "application/json"]
        HubRequestHeaders(device: agent.device).write(to: &headers)
        let body = PullMessages.request(
            PullRequest(
                streams: [StreamPosition(entity: shown.entity, cursor: shown.cursor)], limit: 1_000, maxBytes: Limits.pullBytes,
                maxSentSeq: 0))
        let response = hub.handle(
            HTTPRequest(.post, Self.hubURL + "/v1/sync/pull", headers: headers, body: .bytes(body)), at: hubTime)
        recordHistory()
        guard response.status == 200 else { return }
        count(isForeign ? "cursors of others shown" : "older cursors shown")
        say("\(agent.device) shows a cursor of \(shown.device)")
        try checkShare(try Broken.none { try PullMessages.readResponse(response.body) }, agent.device, isForeign: isForeign)
    }

    // MARK: Work that was set aside

    /// Retries a mutation that was parked when its record left the share, once the record is back.
    func retryRevoked(_ agent: SimAgent) throws(Broken) {
        guard scenario.sharesOut, isHealed || chance(0.5) else { return }
        var tried: Set<MutationKey> = []
        while let parked = try mutations(of: agent, .rejected).first(where: {
            $0.problem?.code == Problem.revoked && seen($0.record, agent) != nil && !tried.contains($0.key)
        }) {
            tried.insert(parked.key)
            try checkListed(parked)
            var refusal: StoreError?
            var answer: Enqueued?
            let isDone = try act(agent) { (store, moment) throws(StoreError) in
                do throws(StoreError) {
                    answer = try store.retry(parked.key, by: Requester(app: parked.app, uid: 0), at: moment)
                } catch {
                    refusal = error
                    throw error
                }
            }
            // Another member of its list may be about a record that is not back, and a record that is back is not created again.
            if let refusal, refusal.problem != nil, parked.group == nil, parked.action != .create {
                throw Broken("parked work goes on after a new grant", "agent \(agent.index), \(name(of: parked.key)): \(refusal)")
            }
            guard isDone else {
                if agent.store == nil || refusal?.problem == nil { return }
                continue
            }
            learnSuccessors(of: agent)
            if let answer { retriedKeys.insert(answer.key) }
            say("the operator of agent \(agent.index) retries \(name(of: parked.key)), whose record is back")
            count("revoked work retried")
            try feed(.enqueued(.normal), to: agent)
        }
    }

    /// Operators grant again at the end what they revoked, so that parked work can go on.
    func grantAgain() {
        guard scenario.sharesOut, chance(scenario.isShort ? 0.3 : 0.7) else { return }
        for device in field {
            for site in Shares.sites where chance(0.8) { grant(site, to: device, in: .commands, isGranted: true) }
        }
    }
}
