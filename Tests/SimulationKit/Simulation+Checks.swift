import HubServer
import SyncCore
import SyncStore

// Checks at every step.
extension Simulation {
    /// Takes in the answer to a call as it leaves the hub, and checks that its content is true.
    func recordAnswer(_ response: HTTPResponse, to flight: Flight) throws(Broken) {
        guard response.status == 200 else { return }
        if flight.kind == .snapshot {
            let page = try Broken.none { try SnapshotMessages.readResponse(response.body) }
            cursorPlaces[page.startCursor] = page.startVersion
            try checkShare(page, agents[flight.agent].device)
            return count(page.hasMore ? "pages of listings" : "listings")
        }
        guard case .bytes(let body) = flight.request.body else { return }
        switch flight.kind {
        case .hello:
            return try checkGreeting(try Broken.none { try HelloMessages.readResponse(response.body) }, agents[flight.agent].device)
        case .verify: return try checkComparison(body, response.body, agents[flight.agent].device)
        case .known, .snapshot: return
        case .pull:
            let pull = try Broken.none { try PullMessages.readResponse(response.body) }
            recordPlaces(pull)
            try checkShare(pull, agents[flight.agent].device)
            for error in pull.errors where error.isExpired { count("expired cursors") }
        case .settle, .push:
            learnSuccessors(of: agents[flight.agent])
            let sent = try Broken.none { try PushMessages.readRequest(body) }
            let answer = try Broken.none { try PushMessages.readResponse(response.body) }
            declared = SchemaNumbers(reading: flight.request.headers)
            try checkSchemas(sent, answer)
            let push = lifted(sent)
            for item in push.items { trace.addDetail(describe(item)) }
            try checkParents(push, answer, from: agents[flight.agent])
            try checkDeleted(push, answer)
            try checkShare(push, answer, agents[flight.agent].device)
            try checkLists(push, answer, agents[flight.agent].device)
            try checkKin(push, answer, agents[flight.agent].device)
            try checkRules(push, answer, from: agents[flight.agent], headBefore: hub.headBefore)
            try oracle.recordVerdicts(
                push, answer, from: agents[flight.agent], &operations, byKey: byKey, successors: successors,
                mayDiffer: agents[flight.agent].wentBack, at: hubTime)
            say("the hub: \(zip(push.items, answer.results).map { "\(tokens(of: $0)) \(word(for: $1.verdict))" })")
            for (item, result) in zip(push.items, answer.results) {
                count(Self.kind(of: result.verdict))
                if item.group != nil { countFailure(ofGroup: result.verdict) }
            }
            try checkPresent(push, answer, agents[flight.agent].device)
        }
    }

    /// Checks that each verdict with a record carries the present record, never an earlier state.
    private func checkPresent(_ push: IncomingPush, _ answer: PushResponse, _ device: DeviceID) throws(Broken) {
        var changed: Set<RecordName> = []
        var toCheck: [(RecordName, HubState)] = []
        // Goes from the last verdict to the first, because a later mutation of the batch may have changed the record after the verdict.
        for (item, result) in zip(push.items, answer.results).reversed() {
            guard let name = item.record, name.entity != Entities.readings else { continue }
            switch result.verdict {
            case .accepted: changed.insert(name)
            case .duplicate(_, let current), .conflict(_, let current):
                if !changed.contains(name) { toCheck.append((name, current)) }
            case .rejected(_, let current): if let current, !changed.contains(name) { toCheck.append((name, current)) }
            case .retry: break
            }
        }
        guard !toCheck.isEmpty else { return }
        try hub.observe(at: hubTime)
        for (name, current) in toCheck {
            // For a device that does not receive the record, it does not exist.
            if oracle.shares.isHidden(name, from: device) {
                if current == .absent { continue }
                throw Broken("what is of others does not exist", "\(name): said \(current.json.json) to \(device)")
            }
            switch (current, hub.records[name]) {
            case (.record(let said), let present?) where said.version == present.version && said.data == shown(present.data, of: name):
                continue
            case (.deleted, nil), (.absent, nil): continue
            default:
                throw Broken(
                    "answers carry the present record",
                    "\(name): said \(current.json.json), holds \(hub.records[name].map { $0.data.json } ?? "nothing")")
            }
        }
    }

    /// Checks that no child reaches the hub before a parent that the same agent creates.
    private func checkParents(_ push: IncomingPush, _ answer: PushResponse, from agent: SimAgent) throws(Broken) {
        // A hub that went back may have lost the parent of an existing child.
        guard scenario.faults.isDisjoint(with: [.hubRestore, .rollback]) else { return }
        var created: Set<RecordName> = []
        for (item, result) in zip(push.items, answer.results) {
            guard case .accepted = result.verdict, case .success(let mutation) = item.content else { continue }
            created.insert(mutation.record)
            guard let id = mutation.content.data["area"]?.text, let child = byKey[item.key], !operations[child].isDoubtful else { continue }
            let parent = RecordName(Entities.areas, RecordID(trusted: id))
            if oracle.known.contains(parent) || created.contains(parent) { continue }
            var query = MutationQuery()
            query.entity = parent.entity
            query.recordID = parent.id
            query.states = [.pending, .inFlight, .failed, .conflicted]
            guard let store = agent.store else { continue }
            let open = try Broken.none { try store.reads.mutations(query, at: agent.moment(at: now)).items }
            let earlier = open.first { $0.action == .create && byKey[$0.key].map { isBefore($0, child) } ?? false }
            if let earlier {
                throw Broken(
                    "parents go before their children",
                    "\(operations[child].token) of \(mutation.record) is accepted, and \(name(of: earlier.key)), which creates \(parent), is \(earlier.state.name)"
                )
            }
            count("children without parents")
        }
    }

    /// Checks that a record that was not offered to the present history yet is not reported as deleted.
    private func checkDeleted(_ push: IncomingPush, _ answer: PushResponse) throws(Broken) {
        guard let began = hub.historyBegan, began.advanced(by: Self.offerTime) > now else { return }
        for (item, result) in zip(push.items, answer.results) {
            if case .retry(let problem?, _) = result.verdict, problem.code == "dependency-missing" { count("waits for what is missing") }
            guard case .rejected(let problem, _) = result.verdict, problem.code == "deleted", let name = item.record,
                !oracle.everDeleted.contains(name)
            else { continue }
            // A restored folder of the first history holds back only changes that are based on another history (CHANGELOG, Known).
            if hub.hub.beganFirstHistory, case .success(let mutation) = item.content, mutation.baseVersion >= 0 { continue }
            throw Broken("what was not offered yet is not deleted", "\(name), \(self.name(of: item.key))")
        }
    }

    private func isBefore(_ first: Int, _ second: Int) -> Bool {
        guard let one = operations[first].place, let other = operations[second].place else { return false }
        return one < other
    }

    /// Checks that a metered link carries only critical mutations, and that only one batch is in flight.
    func checkSent(_ call: HubCall, _ agent: SimAgent) throws(Broken) {
        guard call.kind == .push || call.kind == .settle, let store = agent.store else { return }
        let push = try Broken.none { try PushMessages.readRequest(call.body) }
        if agent.isMetered, agent.engine?.cycle?.isForced == false {
            for item in push.items {
                let found = try Broken.none { try store.reads.mutation(item.key, at: agent.moment(at: now)) }
                guard let found, found.priority != .critical else { continue }
                throw Broken(
                    "a link that costs something carries what is urgent",
                    "agent \(agent.index): \(name(of: item.key)) is \(found.priority.name)")
            }
        }
        // If answers may lack verdicts, or if only some mutations may be sent, the rest is settled later.
        guard call.kind == .push, !scenario.faults.contains(.missingResults), !scenario.faults.contains(.metered) else { return }
        let flying = try mutations(of: agent, .inFlight)
        let sent = Set(push.items.map(\.key))
        if let other = flying.first(where: { !sent.contains($0.key) }) {
            throw Broken("one batch is in flight at a time", "agent \(agent.index): \(name(of: other.key)) has no verdict yet")
        }
    }

    // MARK: At the agents

    func check(_ agent: SimAgent, after command: StoreCommand, _ answer: StoreAnswer) throws(Broken) {
        recordHeld(agent, command, answer)
        switch (command, answer) {
        case (.applyPull, .pullApplied), (.applySnapshot, .snapshotApplied): try checkCursors(of: agent)
        case (.applyResults, .resultsApplied(let summary, _)):
            if summary.unknown > 0 { count("unknown results") }
            if summary.rejected > 0 { try checkMirror(of: agent) }
        default: break
        }
        switch command {
        case .applyPull, .applyResults: learnSuccessors(of: agent)
        default: break
        }
        steps += 1
        if steps.isMultiple(of: 40) { try verify(agent) }
    }

    /// Checks repetitions: an agent may repeat at once only to find the part of a request that fails.
    func checkPatience(_ agent: SimAgent, _ response: HTTPResponse) throws(Broken) {
        if response.status == 200 { return }
        agent.failuresInCycle += 1
        guard agent.failuresInCycle <= 60 else {
            throw Broken("a hub that refuses is not hammered", "agent \(agent.index): \(agent.failuresInCycle) refusals in one cycle")
        }
    }

    /// Checks that counters add up, that indexes agree with rows, and that views equal the folded changes.
    func verify(_ agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        let found = try Broken.none { try store.verify() }
        if !found.isEmpty {
            throw Broken("the store agrees with itself", "agent \(agent.index): \(found.prefix(5).joined(separator: "; "))")
        }
        try checkBases(of: agent, store)
    }

    /// Checks that a record without open mutations equals the hub's record of that version, if the observer has seen it.
    private func checkBases(of agent: SimAgent, _ store: Store) throws(Broken) {
        // Versions of two histories cannot be compared.
        guard agent.engine?.memory.epoch == hub.epoch, !hub.isUnnoticed else { return }
        // Documents that wait for their conversion or for a new download may lack fields.
        for entity in Entities.mirrored(scenario.extras) where entity != Visits.entity {
            var query = RecordQuery(entity)
            query.limit = 1_000
            let page = try Broken.none { try store.reads.records(query) }
            for item in page.items where item.status == .synced {
                guard let present = hub.records[item.name], hub.shown(present.version, of: item.name) == item.version else { continue }
                let base = try Broken.none { try JSONReader.read(item.base ?? "null") }
                guard base.object == present.data else {
                    throw Broken(
                        "a version is one document",
                        "agent \(agent.index) \(item.name) \(item.version): \(base.json), the hub has \(present.data.json)")
                }
            }
        }
    }

    private func recordPlaces(_ pull: PullResponse) {
        for page in pull.pages where cursorPlaces[page.cursor] == nil {
            let newest = (page.records.map(\.record.version) + page.deletions.map(\.version)).max() ?? 0
            cursorPlaces[page.cursor] = page.hasMore ? newest : pull.head
        }
    }

    /// Checks that a cursor never goes back, except by a deliberate restart.
    private func checkCursors(of agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        let streams = try Broken.none { try store.loadStreams(at: agent.moment(at: now)) }
        for stream in streams {
            // After a change of scopes, older records are sent again.
            guard !Shares.scoped.contains(stream.entity) else { continue }
            guard let cursor = stream.cursor, let place = cursorPlaces[cursor] else { continue }
            let before = agent.places[stream.entity] ?? 0
            guard place >= before else {
                throw Broken("cursors never go back", "agent \(agent.index) \(stream.entity): from \(before) to \(place)")
            }
            agent.places[stream.entity] = place
        }
    }

    /// Checks that refused values are not visible any more.
    func checkMirror(of agent: SimAgent) throws(Broken) {
        for refused in try mutations(of: agent, .rejected) {
            guard let number = byKey[refused.key], let store = agent.store else { continue }
            let snapshot = try Broken.none { try store.reads.record(refused.record) }
            // A base of an older history keeps the values that this history accepted, until the record is listed again.
            if let snapshot, snapshot.base != nil, snapshot.version == 0 { continue }
            guard let view = snapshot?.view else { continue }
            // The hub has another payload under this key: the mutation was sent with more edits in it, before this database went back.
            if refused.problem?.code == "idempotency-mismatch" { continue }
            // A database that did not know that it had sent both took back the parent.
            if operations[number].isDoubtful, refused.problem?.code == "parent-rejected" { continue }
            // One history of the hub refused it, and a backup of another history that accepted it came back. Or two databases of this name
            // decided it differently, and the other decision accepted it.
            if operations[number].wasApplied || operations[number].applied > 0 { continue }
            let token = Operation.token(number)
            guard view.contains("\"\(token)\"") else { continue }
            let isDecided = try isDecided(token, refused.record, agent)
            if !isDecided {
                throw Broken("the mirror shows nothing that was refused", "agent \(agent.index) \(refused.record): \(token) in \(view)")
            }
        }
    }

    /// Tells if the value belongs to a decision for the hub's side.
    private func isDecided(_ token: String, _ record: RecordName, _ agent: SimAgent) throws(Broken) -> Bool {
        try mutations(of: agent).contains {
            $0.record == record && $0.supersedes != nil && $0.data?.contains("\"\(token)\"") == true
        }
    }

    func mutations(of agent: SimAgent, _ states: MutationState...) throws(Broken) -> [MutationSnapshot] {
        guard let store = agent.store else { return [] }
        var query = MutationQuery()
        query.states = Set(states)
        query.limit = 1_000
        return try Broken.none { try store.reads.mutations(query, at: agent.moment(at: now)).items }
    }

    /// Checks that an app reads its own writes.
    func checkView(_ request: AppRequest, _ answers: [Enqueued]) throws(Broken) {
        guard let number = request.operations.last, let answer = answers.last, !answer.isRepeat, answer.state != .rejected
        else { return }
        let operation = operations[number]
        let view = answer.record?.view
        let shows = view?.contains("\"\(operation.token)\"") ?? false
        guard operation.record.entity == Entities.readings || shows == (operation.action != .delete) else {
            throw Broken("an app reads its own write", "\(operation.token) \(operation.action) \(operation.record): \(view ?? "nothing")")
        }
    }

    // MARK: Words

    private func tokens(of item: IncomingItem) -> String {
        name(of: item.key)
    }

    private func describe(_ item: IncomingItem) -> String {
        guard case .success(let mutation) = item.content else { return "\(tokens(of: item)): unreadable" }
        let content = mutation.content
        let operations = content.operations.map { "\($0.field) \($0.kind.rawValue) \($0.value.json)" }
        return "\(tokens(of: item)): \(content.action.rawValue) \(mutation.record) on \(mutation.baseVersion), "
            + "\(JSON.object(content.data).json) from \(JSON.object(content.base).json), \(operations)"
    }

    private func word(for verdict: PushResult.Verdict) -> String {
        switch verdict {
        case .accepted(let version, _, let record, _): "accepted \(version)\(record == nil ? "" : " with record")"
        case .duplicate(let original, let current): "duplicate of \(original.rawValue), now \(word(for: current))"
        case .conflict(let fields, _): "conflict over \(fields)"
        case .rejected(let problem, _): "rejected \(problem.code)"
        case .retry(let problem, _): "later, \(problem?.code ?? "")"
        }
    }

    private func word(for state: HubState) -> String {
        switch state {
        case .record(let record): "version \(record.version)"
        case .deleted(let version): "deleted in \(version)"
        case .absent: "absent"
        }
    }

    /// Counts members that were refused because of another member of their list.
    private func countFailure(ofGroup verdict: PushResult.Verdict) {
        switch verdict {
        case .rejected(let problem, _) where problem.code == "group-rejected": count("groups rejected")
        case .retry(let problem?, _) where problem.code == "blocked-by-earlier": count("groups sent back")
        default: return
        }
    }

    private static func kind(of verdict: PushResult.Verdict) -> String {
        switch verdict {
        case .accepted: "accepted"
        case .duplicate: "duplicates answered"
        case .conflict: "conflicts"
        case .rejected: "rejections"
        case .retry: "retries"
        }
    }
}
