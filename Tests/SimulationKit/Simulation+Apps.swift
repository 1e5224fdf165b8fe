import SyncCore
import SyncStore

// Apps. They ask for changes of a handful of records, and remember the answers.
extension Simulation {
    func appActs() throws(Broken) {
        guard !isHealed, operations.count < scenario.operations else { return }
        let agent = pick(agents)
        try submit(makeRequest(for: agent))
        let average = scenario.faultsFor / max(1, scenario.operations)
        plan(.appActs, in: chance(upTo: average * 2))
    }

    /// Adds a last change after the faults have stopped, which must get through like any other. It is about a record of its own, so that
    /// its answer does not repair effects of the faults.
    func say(_ agent: SimAgent) throws(Broken) {
        // An agent that is drained is not asked to pull again.
        guard !isDrained else { return }
        try submit(makeRequest(for: agent, isLastWord: true))
    }

    private func makeRequest(for agent: SimAgent, isLastWord: Bool = false) -> AppRequest {
        let isAtomic = chance(0.12) && scenario.focus == nil
        var request = AppRequest(agent: agent.index, operations: [], isAtomic: isAtomic)
        let isGreedy = !isLastWord && !scenario.isShort && chance(0.12) && scenario.focus == nil
        for _ in 0..<(isAtomic ? Int.random(in: 2...3, using: &random) : 1) {
            request.operations.append(operations.count)
            let shared =
                isLastWord
                ? nil : makeSharedOperation(for: agent) ?? makeVersionedOperation(for: agent) ?? makeTask(for: agent)
            var operation =
                shared ?? (scenario.isShort ? makeLastOrder(for: agent) : makeOperation(for: agent, isLastWord: isLastWord))
            if isGreedy { operation.app = Entities.greedy }
            operations.append(operation)
        }
        if chance(0.4), let first = request.operations.first {
            let token = Operation.token(first)
            request.appKey = AppKey(key: "app-\(token)", fingerprint: Array(SHA256.hash(Array(token.utf8)).prefix(16)))
        }
        return request
    }

    private func makeOperation(for agent: SimAgent, isLastWord: Bool) -> Operation {
        let number = operations.count
        let token = Operation.token(number)
        let draw = random.fraction()
        if draw < 0.1, scenario.focus == nil {
            return Operation(
                number: number, agent: agent.index, record: RecordName(Entities.readings, RecordID(trusted: token)),
                action: .create, data: ["t": .string(token), "value": .int(number)], operations: [], priority: .bulk)
        }
        let drawn =
            draw < 0.45
            ? Entities.works : draw < 0.65 ? Entities.spots : draw < 0.73 ? Entities.prices : draw < 0.85 ? Entities.areas : Entities.rooms
        let entity = scenario.focus ?? drawn
        let id = isLastWord ? "last-\(agent.index)" : "r\(Int.random(in: 0..<scenario.records, using: &random))"
        let name = RecordName(entity, RecordID(trusted: id))
        var operation = Operation(
            number: number, agent: agent.index, record: name, action: action(on: name, agent), data: [:], operations: [],
            priority: pick(scenario.focus == nil ? [.critical, .normal, .normal, .normal, .bulk] : [.normal]))
        if !isLastWord, chance(0.1), let other = operations.last(where: { $0.agent == agent.index && !$0.isLost && $0.key != nil })?.key {
            operation.dependsOn = [other]
        }
        if !isLastWord, operation.priority != .critical, chance(0.06) { operation.ttl = chance(from: .seconds(1), upTo: .seconds(60)) }
        guard operation.action != .delete else { return operation }
        if entity == Entities.rooms, chance(0.8) {
            operation.data["area"] = .string("r\(Int.random(in: 0..<scenario.records, using: &random))")
        }
        operation.data["t"] = .string(token)
        let fields = entity == Entities.works ? ["s", "s", "v", "c", "m"] : ["s", "v", "c"]
        operation.data[pick(fields)] = .string(token)
        if entity == Entities.works { addRich(to: &operation, agent) }
        if strikes(.poison, 0.1) { operation.data["x"] = "poison" }
        if entity != Entities.prices {
            operation.operations = [
                FieldOperation("n", .increment, 1), FieldOperation("a", .append, .array([.string(token)])),
            ]
        }
        addDeep(to: &operation)
        addForm(to: &operation, agent)
        operation.sawDisputed = knowsDisputed(operation.record, agent)
        return operation
    }

    /// Tells if the agent knows a value of `m` that the hub has.
    private func knowsDisputed(_ name: RecordName, _ agent: SimAgent) -> Bool {
        guard name.entity == Entities.works, let base = (try? agent.store?.reads.record(name))?.base else { return false }
        return (try? JSONReader.read(base))?.object?["m"]?.text != nil
    }

    /// Adds documents with the greatest allowed depth. A history that is led to the limits also adds values that would exceed it. Nothing
    /// is drawn here, so that a seed keeps its history.
    private func addDeep(to operation: inout Operation) {
        let isLed = scenario.toward == .storedReadAsInput
        guard operation.record.entity == Entities.works, isLed ? operation.number % 4 == 3 : operation.number % 9 == 4 else { return }
        let levels = isLed && operation.number % 8 == 3 ? Limits.jsonDepth : Limits.jsonDepth - 2
        let value = (1..<levels).reduce(JSON.list([operation.token])) { value, _ in [value] }
        operation.operations.append(FieldOperation("deep", .add, value))
    }

    /// Adds fields as of a filled form: a text, a set, an object and a reading. The app sends whole values, made from its view.
    private func addRich(to operation: inout Operation, _ agent: SimAgent) {
        let token = operation.token
        let view = seen(operation.record, agent)
        if chance(0.4) {
            let before = view?["txt"]?.text ?? ""
            operation.sight = before
            // Usually the app adds a line; sometimes it rewrites the text.
            operation.data["txt"] = .string(chance(0.6) ? before + "<\(token)>" : "<\(token)>")
        }
        if chance(0.4) {
            var tags = Set(view?["tags"]?.array?.compactMap(\.text) ?? [])
            let tag = pick(["red", "green", "blue"])
            if tags.remove(tag) == nil { tags.insert(tag) }
            operation.data["tags"] = .list(tags.sorted())
            operation.data["parts"] = .array(tags.sorted().map { Entities.part($0) })
        }
        if chance(0.4) {
            var object = view?["o"]?.object ?? [:]
            object["d\(agent.index)"] = .string(token)
            operation.data["o"] = .object(object)
        }
        if chance(0.3) {
            let reading = Int64.random(in: 0...1_000, using: &random)
            (operation.data["p"], operation.data["q"]) = (.int(reading), .int(-reading))
        }
    }

    func seen(_ name: RecordName, _ agent: SimAgent) -> JSONObject? {
        // A store that cannot be read fails its next command.
        let snapshot = (try? agent.store?.reads.record(name)) ?? nil
        return snapshot?.view.flatMap { try? JSONReader.read($0).object }
    }

    /// Usually an action that fits the record, because an app reads before it writes.
    func action(on name: RecordName, _ agent: SimAgent) -> NewMutation.Action {
        let exists: Bool
        do throws(StoreError) {
            exists = try agent.store?.reads.record(name)?.view != nil
        } catch {
            exists = false
        }
        if chance(0.05) { return pick(NewMutation.Action.allCases) }
        let draw = random.fraction()
        if exists { return draw < 0.12 ? .delete : draw < 0.85 ? .update : .upsert }
        return draw < 0.6 ? .create : .upsert
    }

    // MARK: Asking

    func submit(_ request: AppRequest) throws(Broken) {
        // An app whose disk went back has lost its request, and does not repeat it.
        if request.operations.contains(where: { operations[$0].isLost }) { return }
        let agent = agents[request.agent]
        guard let store = agent.store else { return wait(request) }
        let moment = agent.moment(at: now)
        guard try addFiles(request, agent) else { return wait(request) }
        for number in request.operations { operations[number].undone = undone(by: operations[number], agent) }
        let mutations = request.operations.map { operations[$0].mutation }
        let isGreedy = request.operations.first.map { operations[$0].app == Entities.greedy } ?? false
        let requester = Requester(
            app: isGreedy ? Entities.greedy : Entities.app, uid: isGreedy ? 1_001 : 1_000,
            quotaMutations: isGreedy ? Entities.greedyQuota : nil)
        let answers: [Enqueued]
        let expectsHoles = expectsHoles(request, agent)
        hasCommitted = false
        committing = .apps
        defer { if hasCommitted { takePlaces(request) } }
        do throws(StoreError) {
            // An early answer is only possible inside a transaction that is still open.
            let answersEarly = ablations.contains(.answerBeforeCommit)
            if answersEarly { try store.begin(at: moment) }
            answers = try store.enqueue(
                mutations, isAtomic: request.isAtomic, by: requester, appKey: request.appKey, at: moment)
            acknowledge(request, answers, agent, store)
            if answersEarly { try store.commit() }
        } catch {
            store.rollback()
            if error.problem?.code == "queue-full" {
                count("quotas used up")
                guard isGreedy else {
                    throw Broken("one app's quota is its own", "\(request.operations.map { Operation.token($0) }) are refused: \(error)")
                }
            }
            try checkHoles(request, expectsHoles, refused: error)
            refuse(request, error, agent)
            return try reopenIfNeeded(agent)
        }
        try checkView(request, answers)
        if answers.last?.isRepeat == false {
            try checkHoles(request, expectsHoles, refused: nil)
            // A change that falls with a refused one is not seen.
            if let number = request.operations.last, answers.last?.state != .rejected { try checkApp(number, agent) }
        }
        try feed(
            .enqueued(
                request.operations.map { operations[$0].priority }.min() ?? .normal,
                expiry: request.operations.compactMap { operations[$0].ttl }.min().map { moment.instant.advanced(by: $0) }),
            to: agent)
    }

    /// The members of other devices that a repeated request sets back. The store treats a request as a change of the present view, and
    /// cannot know the app's older one (PROTOCOL C7).
    private func undone(by operation: Operation, _ agent: SimAgent) -> Set<String> {
        guard let object = operation.data["o"]?.object else { return [] }
        let view = seen(operation.record, agent)?["o"]?.object ?? [:]
        return Set(object.names.filter { $0 != "d\(agent.index)" && object[$0] != view[$0] })
    }

    private func takePlaces(_ request: AppRequest) {
        learnKeys(of: request)
        for number in request.operations where operations[number].place == nil {
            operations[number].place = places
            places += 1
        }
    }

    /// Learns the keys of committed changes, also if the app never gets its answer.
    private func learnKeys(of request: AppRequest) {
        let agent = agents[request.agent]
        let new = request.operations.filter { operations[$0].place == nil }
        guard !new.isEmpty, let last = agent.store?.lastSeq else { return }
        var query = MutationQuery()
        query.after = last - Int64(new.count)
        // A store that cannot be read fails its next command.
        let items = (try? agent.store?.reads.mutations(query, at: agent.moment(at: now)).items) ?? []
        for (number, item) in zip(new, items) where items.count == new.count { byKey[item.key] = number }
    }

    /// Learns the keys of decisions. A decision has a new key and belongs to the same operation.
    func learnSuccessors(of agent: SimAgent) {
        guard let store = agent.store, store.lastSeq > agent.learnedSeq else { return }
        var query = MutationQuery()
        query.limit = 1_000
        query.after = agent.learnedSeq
        // A store that cannot be read fails its next command.
        guard let items = try? store.reads.mutations(query, at: agent.moment(at: now)).items else { return }
        for item in items {
            guard byKey[item.key] == nil, let older = item.supersedes else { continue }
            successors.insert(item.key)
            // The key of a change is unknown if its process died right after the commit.
            if let number = byKey[older] { byKey[item.key] = number }
        }
        agent.learnedSeq = store.lastSeq
    }

    private func acknowledge(_ request: AppRequest, _ answers: [Enqueued], _ agent: SimAgent, _ store: Store) {
        acknowledgements += 1
        for (number, answer) in zip(request.operations, answers) {
            if answer.isRepeat { count("repeated answers") }
            operations[number].answer = .acknowledged(answer.key)
            operations[number].acknowledgement = acknowledgements
            byKey[answer.key] = number
            // The answer to a repeated request has the state of the older one already.
            if answer.into != nil, let taken = try? store.reads.mutation(answer.key, at: agent.moment(at: now)),
                taken.state == .coalesced
            {
                operations[number].into = taken.into
                count("coalesced")
            }
            let operation = operations[number]
            say(
                "agent \(agent.index) takes \(operation.token): \(operation.priority.name) \(operation.action.rawValue) \(operation.record), seq \(answer.seq)"
            )
            count("acknowledged")
        }
        // The marker beside the database is saved only now and then.
        if chance(0.5), let last = answers.last {
            agent.marker = StoreMarker(replica: store.replica, acknowledged: max(last.seq, agent.marker?.acknowledged ?? 0))
        }
    }

    private func refuse(_ request: AppRequest, _ error: StoreError, _ agent: SimAgent) {
        if dying == agent.index {
            die(agent)
            return wait(request)
        }
        guard error.problem != nil else { return wait(request) }
        say("agent \(agent.index) refuses \(request.operations.map { Operation.token($0) }): \(error.problem?.code ?? "")")
        count("refused")
        if error.problem?.code == "not-kept" { count("work on dropped documents refused") }
        for number in request.operations { operations[number].answer = .refused }
    }

    /// The request has no answer. An app with a key repeats it until it gets one; an app without a key never learns the outcome.
    private func wait(_ request: AppRequest) {
        guard request.appKey != nil else { return }
        count("repeated requests")
        plan(.appRepeats(request), in: spell(from: .milliseconds(500), upTo: .seconds(20)))
    }

    // MARK: Old images

    /// Marks operations that the old database cannot know: those that were answered since, and those without an answer.
    func forget(since image: SimAgent.Image, _ agent: SimAgent) {
        for number in operations.indices where operations[number].agent == agent.index {
            operations[number].isDoubtful = true
            switch operations[number].answer {
            case .acknowledged:
                let latest = max(operations[number].acknowledgement, operations[number].cancellation)
                if latest > image.acknowledgements { operations[number].isLost = true }
            case .none: operations[number].isLost = true
            case .refused: break
            }
        }
    }
}
