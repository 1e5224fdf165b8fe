import LocalAPI
import SyncCore
import SyncHTTP
import SyncStore

// Reads of the mirror: always local, never waiting for the network.
extension Agent {
    func readRecord(_ call: LocalCall, _ name: RecordName, _ view: RecordView) throws(Problem) {
        try call.checkEntity(name.entity)
        let ifNoneMatch = call.exchange.request.header("If-None-Match")
        let unknown = unknownEntity(name.entity)
        let app = try AppSchemas(call.exchange.request, loaded.configuration.rules).view(of: name.entity)
        read(call) { reads, _ throws(StoreError) in
            guard let record = try reads.record(name) else { return .failure(try reads.absence(of: name, unknown)) }
            return .success(try app.over(reads).lower(record))
        } answer: { (record: Result<RecordSnapshot, Problem>) in
            switch record {
            case .success(let record): RecordAnswer.answer(record, view: view, ifNoneMatch: ifNoneMatch)
            case .failure(let problem): problem.localAnswer
            }
        }
    }

    func readRecords(_ call: LocalCall, _ query: RecordListQuery) throws(Problem) {
        try call.checkEntity(query.entity)
        let app = try AppSchemas(call.exchange.request, loaded.configuration.rules).view(of: query.entity)
        let wanted = RecordQuery(query)
        if query.explains { return explain(call, wanted, app) }
        let unknown = unknownEntity(query.entity)
        read(call, isLong: true) { reads, _ throws(StoreError) in
            let shape = try app.over(reads)
            var page = try reads.records(shape.lift(wanted))
            page.items = page.items.map { shape.lower($0) }
            // Most lists contain records and need no second check.
            guard page.items.isEmpty, let unknown else { return (page, nil) }
            return (page, try reads.knows(query.entity) ? nil : unknown)
        } answer: { (page: RecordPage, unknown: String?) in
            RecordAnswer.list(page.items, fields: query.fields, next: page.next, unknownEntity: unknown, notKept: page.notKept)
        }
    }

    private func explain(_ call: LocalCall, _ query: RecordQuery, _ app: AppView) {
        read(call, isLong: true) { reads, _ throws(StoreError) in
            QueryExplanation(try reads.explain(try app.over(reads).lift(query)), of: query.entity)
        } answer: {
            $0.answer
        }
    }

    /// The reason why an entity without a record here is unknown; `nil` where the configuration names it, or the hub has it.
    func unknownEntity(_ entity: EntityName) -> String? {
        let named = loaded.configuration.rules.entities
        let hubs = engine.memory.hubEntities
        if named[entity] != nil || hubs?.contains(entity) == true { return nil }
        let cause =
            switch (engine.settings.pullsAll, hubs) {
            case (true, .some): "Neither this device nor its hub knows an entity \(entity)."
            case (true, nil): "This device does not know an entity \(entity), and its hub has not said yet which entities it has."
            case (false, _):
                "This device does not know an entity \(entity): its configuration does not name it, and no app here has written to it."
            }
        let near = nearestName(to: entity.text, among: (named.keys + (hubs ?? [])).map(\.text).sorted())
        return cause + (near.map { " Did you mean \($0)?" } ?? "")
    }

    func listEntities(_ call: LocalCall) {
        let rules = loaded.configuration.rules
        let (peer, engine) = (call.peer, engine)
        read(call) { reads, now throws(StoreError) in
            try reads.entities().filter { peer.allows($0.name) }.map { entity in
                EntityItem(entity, rules: rules, age: entity.age(pulledAt: engine.pulledAt(entity.name), now: now.wall))
            }
        } answer: { items in
            EntityItem.list(items)
        }
    }

    func listMutations(_ call: LocalCall, _ query: MutationListQuery) {
        var wanted = MutationQuery()
        wanted.states = Set(query.states ?? [])
        wanted.entity = query.entity
        wanted.recordID = query.recordID
        wanted.after = query.after ?? 0
        wanted.limit = query.limit
        switch query.app {
        case nil: break
        case .me?: wanted.app = call.peer.app
        case .named(let name)?: wanted.app = name
        }
        let (situation, peer) = (engine.situation, call.peer)
        let filter = wanted
        read(call, isLong: true) { reads, now throws(StoreError) in
            let found = try reads.mutations(filter, at: now)
            let items = found.items.filter { peer.allows($0.record.entity) }.map { MutationItem($0, in: situation, now: now.wall) }
            return (items, found.next)
        } answer: { items, next in
            MutationItem.list(items, next: next)
        }
    }

    func showMutation(_ call: LocalCall, _ key: MutationKey) {
        let (situation, peer) = (engine.situation, call.peer)
        read(call) { reads, now throws(StoreError) -> MutationItem? in
            guard let mutation = try reads.mutation(key, at: now), peer.allows(mutation.record.entity) else { return nil }
            var item = MutationItem(mutation, in: situation, now: now.wall)
            item.data = mutation.data
            item.unset = mutation.unset
            item.operations = mutation.operations
            item.history = try reads.history(of: key).map { .init(at: $0.at, state: $0.state.name, detail: nil) }
            return item
        } answer: { item in
            item?.answer ?? LocalProblem.notFound("there is no mutation \(key)", list: "agentctl mutations list").localAnswer
        }
    }

    /// Reads on the reader's thread. The answer is built there as well, and only its bytes pass through the loop.
    ///
    /// - Parameter isLong: The read may scan everything; short reads do not wait for it.
    func read<Value: Sendable>(
        _ call: LocalCall, isLong: Bool = false, _ work: @escaping @Sendable (StoreReads, Moment) throws(StoreError) -> Value,
        answer: @escaping @Sendable (Value) -> LocalAnswer
    ) {
        fromReader(for: call, isLong: isLong) { reads, now throws(StoreError) in
            answer(try work(reads, now))
        } then: { agent, answer in
            call.answer(answer)
            if let code = answer.problemCode { agent.metrics.refused(code) }
        }
    }
}

extension StoreReads {
    /// The answer about a record that is not here.
    ///
    /// - Parameter unknown: The reason why its entity is unknown, unless the store has it.
    func absence(of name: RecordName, _ unknown: String?) throws(StoreError) -> Problem {
        if let unknown, try !knows(name.entity) { return LocalProblem.notFound.problem(unknown) }
        return LocalProblem.notFound.problem("there is no record \(name)")
    }
}

extension RecordQuery {
    init(_ query: RecordListQuery) {
        self.init(query.entity)
        filter = query.filter
        sort = query.sort.map { sort in
            switch sort.key {
            case .id: Sort(.id, isDescending: sort.isDescending)
            case .updatedAt: Sort(.updatedAt, isDescending: sort.isDescending)
            case .version: Sort(.version, isDescending: sort.isDescending)
            case .field(let path): Sort(.field(path), isDescending: sort.isDescending)
            }
        }
        limit = query.limit
        cursor = query.cursor
        includesDeleted = query.includesDeleted
        statuses = query.statuses
    }
}

extension MutationItem {
    init(_ mutation: MutationSnapshot, in situation: Situation, now: Timestamp) {
        self.init(
            id: mutation.key.text, seq: mutation.seq, record: mutation.record, action: mutation.action.rawValue,
            state: mutation.presentState.name, priority: mutation.priority.name, attempts: Int64(mutation.attempts),
            createdAt: mutation.createdAt, nextAttemptAt: mutation.nextAttempt, problem: mutation.problem,
            app: mutation.app.text, author: mutation.author, into: mutation.into?.text, supersedes: mutation.supersedes?.text)
        guard mutation.state == .pending else { return }
        let why = Policy.explain(
            TrafficClass(mutation.priority), in: situation, now: now, bytes: mutation.bytes, since: mutation.createdAt)
        if let wait = why.deferral { deferral = Deferral(reason: wait.reason.rawValue, until: why.end) }
    }
}

extension EntityItem {
    init(_ overview: EntityOverview, rules: RuleBook, age: Duration?) {
        let known = rules[overview.name] ?? EntityRules()
        self.init(
            name: overview.name.text, kind: known.kind, access: known.kind.access,
            records: overview.records, pending: overview.open,
            cursorAge: age, rules: known)
        notKept = overview.notKept
    }
}

extension EntityOverview {
    /// Age of the mirror's state of the hub; `nil` before its first page.
    ///
    /// - Parameter pulledAt: Time of the last complete pull: without news that is later than the last page.
    func age(pulledAt: Timestamp?, now: Timestamp) -> Duration? {
        lastPullAt.map { max(.zero, max($0, pulledAt ?? $0).duration(to: now)) }
    }
}

extension EntityRules.Kind {
    /// The access that an app has to the entity.
    fileprivate var access: String {
        switch self {
        case .record: "write"
        case .event: "append"
        case .reference: "read"
        }
    }
}

extension QueryExplanation {
    init(_ access: RecordAccess, of entity: EntityName) {
        switch access.way {
        case .byID: self.init(entity, .id)
        case .index(let index): self.init(entity, .index, index: index.description)
        case .openMutations: self.init(entity, .openMutations)
        case .scan: self.init(entity, .scan)
        }
        (isFiltered, isOrdered) = (access.isFiltered, access.isOrdered)
        (read, found, records, isCutOff) = (access.read, access.found, access.records, access.isCutOff)
        indexes = access.known.map { Index(name: $0.index.description, percent: Int($0.share * 100)) }
        suggestion = access.suggestion?.description
    }
}
