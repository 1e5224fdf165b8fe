import HubServer
import SyncCore
import SyncStore

// What must hold at every step.
extension Simulation {
    /// The answer to a call, as it leaves the hub: what it says becomes the truth, and must be true.
    func note(_ response: HTTPResponse, to flight: Flight) throws(Broken) {
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
            notePlaces(pull)
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
            try oracle.note(
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

    /// With every verdict that brings a record, it is the present one, never one of the past.
    private func checkPresent(_ push: IncomingPush, _ answer: PushResponse, _ device: DeviceID) throws(Broken) {
        var changed: Set<RecordName> = []
        var toCheck: [(RecordName, HubState)] = []
        // From the back: what a later mutation of the same batch changed was not there yet.
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
            // For a device that does not receive it, there is none.
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

    /// No child gets to the hub before its parent, if its agent was to create that one.
    private func checkParents(_ push: IncomingPush, _ answer: PushResponse, from agent: SimAgent) throws(Broken) {
        // A hub that goes back may have lost the parent of what was made under it.
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

    /// What this history has not been offered yet is not deleted.
    private func checkDeleted(_ push: IncomingPush, _ answer: PushResponse) throws(Broken) {
        guard let began = hub.historyBegan, began.advanced(by: Self.offerTime) > now else { return }
        for (item, result) in zip(push.items, answer.results) {
            if case .retry(let problem?, _) = result.verdict, problem.code == "dependency-missing" { count("waits for what is missing") }
            guard case .rejected(let problem, _) = result.verdict, problem.code == "deleted", let name = item.record,
                !oracle.everDeleted.contains(name)
            else { continue }
            // A folder of the first history that is put back: only what rests on another history waits there (CHANGELOG, Known).
            if hub.hub.beganFirstHistory, case .success(let mutation) = item.content, mutation.baseVersion >= 0 { continue }
            throw Broken("what was not offered yet is not deleted", "\(name), \(self.name(of: item.key))")
        }
    }

    private func isBefore(_ first: Int, _ second: Int) -> Bool {
        guard let one = operations[first].place, let other = operations[second].place else { return false }
        return one < other
    }

    /// What leaves over a link that costs something, and beside what.
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
        // Where answers may leave some without a verdict, and where only some may go, what is left is settled later.
        guard call.kind == .push, !scenario.faults.contains(.missingResults), !scenario.faults.contains(.metered) else { return }
        let flying = try mutations(of: agent, .inFlight)
        let sent = Set(push.items.map(\.key))
        if let other = flying.first(where: { !sent.contains($0.key) }) {
            throw Broken("one batch is in flight at a time", "agent \(agent.index): \(name(of: other.key)) has no verdict yet")
        }
    }

    // MARK: At the agents

    func check(_ agent: SimAgent, after command: StoreCommand, _ answer: StoreAnswer) throws(Broken) {
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

    /// An agent may ask again at once to find out which part of a request is to blame, but no more often than that takes.
    func checkPatience(_ agent: SimAgent, _ response: HTTPResponse) throws(Broken) {
        if response.status == 200 { return }
        agent.failuresInCycle += 1
        guard agent.failuresInCycle <= 60 else {
            throw Broken("a hub that refuses is not hammered", "agent \(agent.index): \(agent.failuresInCycle) refusals in one cycle")
        }
    }

    /// Counters add up, indexes agree with rows, views are what folding gives.
    func verify(_ agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        let found = try Broken.none { try store.verify() }
        if !found.isEmpty {
            throw Broken("the store agrees with itself", "agent \(agent.index): \(found.prefix(5).joined(separator: "; "))")
        }
        try checkBases(of: agent, store)
    }

    /// A record without open mutations is what the hub had at that version, as far as somebody has seen that.
    private func checkBases(of agent: SimAgent, _ store: Store) throws(Broken) {
        // Versions of two histories do not compare.
        guard agent.engine?.memory.epoch == hub.epoch, !hub.isUnnoticed else { return }
        // Documents of a version that a device has yet to convert, or to fetch again, may say less.
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

    private func notePlaces(_ pull: PullResponse) {
        for page in pull.pages where cursorPlaces[page.cursor] == nil {
            let newest = (page.records.map(\.record.version) + page.deletions.map(\.version)).max() ?? 0
            cursorPlaces[page.cursor] = page.hasMore ? newest : pull.head
        }
    }

    /// A stream never goes back, but by a restart that somebody decided.
    private func checkCursors(of agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        let streams = try Broken.none { try store.loadStreams(at: agent.moment(at: now)) }
        for stream in streams {
            // While a change of the scopes is sent, older records come again.
            guard !Shares.scoped.contains(stream.entity) else { continue }
            guard let cursor = stream.cursor, let place = cursorPlaces[cursor] else { continue }
            let before = agent.places[stream.entity] ?? 0
            guard place >= before else {
                throw Broken("cursors never go back", "agent \(agent.index) \(stream.entity): from \(before) to \(place)")
            }
            agent.places[stream.entity] = place
        }
    }

    /// What the hub refused is not to be seen any more.
    func checkMirror(of agent: SimAgent) throws(Broken) {
        for refused in try mutations(of: agent, .rejected) {
            guard let number = byKey[refused.key], let store = agent.store else { continue }
            let snapshot = try Broken.none { try store.reads.record(refused.record) }
            // A base of an older history has what that history accepted, until the record is listed afresh.
            if let snapshot, snapshot.base != nil, snapshot.version == 0 { continue }
            guard let view = snapshot?.view else { continue }
            // The hub has another payload of it: it was sent with more edits in it, before this database went back.
            if refused.problem?.code == "idempotency-mismatch" { continue }
            // Its parent was taken back by a database that did not know yet that it had sent both.
            if operations[number].isDoubtful, refused.problem?.code == "parent-rejected" { continue }
            // One history of the hub refused it, and a backup of another that has it came back; or it was decided about twice,
            // here and by another database of this name, and the other decision has it.
            if operations[number].wasApplied || operations[number].applied > 0 { continue }
            let token = Operation.token(number)
            guard view.contains("\"\(token)\"") else { continue }
            let isDecided = try isDecided(token, refused.record, agent)
            if !isDecided {
                throw Broken("the mirror shows nothing that was refused", "agent \(agent.index) \(refused.record): \(token) in \(view)")
            }
        }
    }

    /// A value that was there when somebody decided for what was there is the decision's since.
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

    /// An app reads its own write.
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

    /// Members that another member took along.
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
