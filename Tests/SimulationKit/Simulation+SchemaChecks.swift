import HubServer
import SyncCore
import SyncStore

// Checks that a value means the same in every version of a schema, and that no complete record lacks an answer.
extension Simulation {
    // MARK: At the hub

    /// The request as a device with the hub's version would have written it, by the plain words of ``ShapeChange``.
    func lifted(_ push: IncomingPush) -> IncomingPush {
        guard scenario.changesSchemas else { return push }
        var push = push
        for index in push.items.indices {
            guard case .success(var mutation) = push.items[index].content, mutation.record.entity == Visits.entity else { continue }
            let version = mutation.schema ?? declared[Visits.entity]
            mutation.content = shapes.lifted(mutation.content, from: version, to: oracle.schemas.present)
            push.items[index].content = .success(mutation)
        }
        return push
    }

    /// A document or a name of the hub as the device of this request reads it.
    func shown(_ data: JSONObject, of name: RecordName) -> JSONObject {
        guard name.entity == Visits.entity else { return data }
        return shapes.document(data, from: oracle.schemas.present, to: declared[Visits.entity])
    }

    func shown(_ fields: Set<String>, of name: RecordName) -> Set<String> {
        guard name.entity == Visits.entity else { return fields }
        return Set(fields.compactMap { shapes.name($0, from: oracle.schemas.present, to: declared[Visits.entity]) })
    }

    /// Checks that a device sends what its app has written, and that the answer has the version of the device.
    func checkSchemas(_ push: IncomingPush, _ answer: PushResponse) throws(Broken) {
        guard scenario.changesSchemas else { return }
        let version = declared[Visits.entity]
        for (item, result) in zip(push.items, answer.results) where item.record?.entity == Visits.entity {
            try checkAccepted(item, result.verdict, version)
            if case .success(let mutation) = item.content { try checkArrived(mutation, item.key, version) }
            for data in result.verdict.shownData {
                if let fault = shapes.fault(data, version) {
                    throw Broken("a device is shown its own version", "\(name(of: item.key)), version \(version): \(fault) in \(data.json)")
                }
            }
        }
    }

    private func checkAccepted(_ item: IncomingItem, _ verdict: PushResult.Verdict, _ version: Int) throws(Broken) {
        let isAccepted = oracle.schemas.accepts.contains(version)
        if case .retry(let problem?, _) = verdict, problem.code == "schema-too-old" {
            count("schemas not accepted")
            if isAccepted { throw Broken("accepted versions are accepted", "\(name(of: item.key)): version \(version)") }
        } else if !isAccepted {
            throw Broken("other versions wait", "\(name(of: item.key)): version \(version)")
        }
        if version < oracle.schemas.present, case .accepted = verdict { count("changes of older versions accepted") }
    }

    private func checkArrived(_ mutation: IncomingMutation, _ key: MutationKey, _ version: Int) throws(Broken) {
        guard let number = byKey[key], !successors.contains(key), mutation.content.action != .delete,
            !operations.contains(where: { $0.into == key }), !operations[number].isDoubtful,
            // A version that is taken back loses the values that only it can express.
            shapes.isLossless || !hasTakenBack && scenario.faults.isDisjoint(with: [.hubRestore, .rollback])
        else { return }
        let operation = operations[number]
        guard let written = operation.schema else { return }
        for member in operation.data.members where member.name.text != "t" {
            guard let name = shapes.name(member.name.text, from: written, to: version) else { continue }
            let value = shapes.document([member.name.text: member.value], from: written, to: version)[name]
            let arrived = mutation.content.data[name]
            // A device that has pulled a later value of another device does not send its own, whether or not the record is still there. A
            // hub that went back may not know that value or the record any more.
            if arrived == nil, hub.generation > 0 || oracle.rules.knows(mutation.record) { continue }
            guard arrived == value else {
                throw Broken(
                    "work arrives as it was written",
                    "\(operation.token) wrote \(member.name.text): \(member.value.json) in version \(written), and in version \(version) "
                        + "arrives \(mutation.content.data.json)")
            }
        }
    }

    /// A refusal by a schema or a form names a real contradiction, and what contradicts is refused.
    ///
    /// - Returns: `true` when the change is refused for it.
    func checkContradiction(
        _ item: IncomingItem, _ verdict: PushResult.Verdict, _ mutation: IncomingMutation, _ rules: EntityRules, _ agent: SimAgent
    ) throws(Broken) -> Bool {
        let name = mutation.record
        guard scenario.changesSchemas, name.entity == Visits.entity || name.entity == Audits.entity else { return false }
        var isRefused = false
        if case .rejected(let problem, _) = verdict { isRefused = problem.code == "validation" }
        switch verdict {
        case .accepted, .rejected: break
        case .duplicate, .conflict, .retry: return false
        }
        if !isRefused, case .rejected = verdict { return false }
        let contradicts: Bool
        if name.entity == Visits.entity {
            contradicts = oracle.schemas.present == 3 && mutation.content.data["size"]?.int ?? 0 > Visits.sizeMax
        } else {
            var trial = oracle.rules
            let before = trial.document(name)
            let said = trial.apply(RuleModel.Change(mutation, key: item.key, by: agent.device, commit: .max, at: hubTime), rules)
            guard case .accepted = said, let after = trial.document(name) else { return isRefused }
            contradicts = Audits.leavesHoles(after, before: before, known: oracle.schemas.forms)
        }
        if contradicts == isRefused {
            if isRefused { count(name.entity == Visits.entity ? "contradictions to a schema" : "holes refused by the hub") }
            return isRefused
        }
        throw Broken(
            isRefused ? "a refusal names a real contradiction" : "what contradicts its schema or form is refused",
            "\(self.name(of: item.key)) of \(name): \(mutation.content.data.json)")
    }

    // MARK: At the agents

    /// Tells if the form of a change shows the device that answers are missing; `nil` if that does not matter here.
    func expectsHoles(_ request: AppRequest, _ agent: SimAgent) -> Bool? {
        guard scenario.changesSchemas, request.operations.count == 1, let number = request.operations.first,
            case let operation = operations[number], operation.record.entity == Audits.entity, operation.action != .delete
        else { return nil }
        let before = seen(operation.record, agent)
        if operation.action == .create, before != nil { return nil }
        var after = before ?? [:]
        for member in operation.data.members { after[member.name.text] = member.value }
        return Audits.leavesHoles(after, before: before, known: knownForms(agent))
    }

    func checkHoles(_ request: AppRequest, _ expected: Bool?, refused: StoreError?) throws(Broken) {
        guard let expected, let number = request.operations.first else { return }
        let operation = operations[number]
        if let refused {
            guard refused.problem?.code == "validation" else { return }
            count("holes refused by the agent")
            if expected { return }
            throw Broken("what lacks nothing is accepted", "\(operation.token) of \(operation.record): \(refused)")
        }
        guard !expected else {
            throw Broken("what lacks something is not completed", "\(operation.token) of \(operation.record): \(operation.data.json)")
        }
    }

    /// An app that speaks an older version reads what it wrote, and every record in its version.
    func checkApp(_ number: Int, _ agent: SimAgent) throws(Broken) {
        let operation = operations[number]
        guard let version = operation.schema, operation.action != .delete, let shown = try appView(operation.record, agent, version) else {
            return
        }
        guard let store = agent.store else { return }
        let stored = try Broken.none { try store.reads.documentSchema(of: Visits.entity).number }
        for member in operation.data.members {
            // A field that the device's version does not have is dropped.
            let there = shapes.document([member.name.text: member.value], from: version, to: stored)
            if shown[member.name.text] == shapes.document(there, from: stored, to: version)[member.name.text] { continue }
            throw Broken(
                "an app reads its own write", "\(operation.token) wrote \(member.name.text): \(member.value.json), reads \(shown.json)")
        }
        if version != agent.documentSchemas[Visits.entity] { count("writes in older versions") }
    }

    /// The answer of the agent's shell to an app that names its version.
    ///
    /// - Returns: `nil` if there is no record, or if its documents wait for their conversion.
    private func appView(_ name: RecordName, _ agent: SimAgent, _ version: Int) throws(Broken) -> JSONObject? {
        guard let store = agent.store, let rules = agent.rules[Visits.entity] else { return nil }
        let (stored, document) = try Broken.none { (try store.reads.documentSchema(of: Visits.entity), seen(name, agent)) }
        guard let document, let view = try? SchemaView(version, rules, of: Visits.entity).over(stored, rules, ablations: ablations) else {
            return nil
        }
        let shown = view.lower(document: document)
        guard shown == shapes.document(document, from: stored.number, to: version), shapes.fault(shown, version) == nil else {
            throw Broken(
                "an app reads its own version",
                "agent \(agent.index) \(name) in version \(version): \(shown.json), stored in \(stored.number): \(document.json)")
        }
        return shown
    }

    /// Checks that the agent has the hub's version and shows it to apps of every version.
    func checkVersions(of agent: SimAgent) throws(Broken) {
        guard scenario.changesSchemas, let store = agent.store, let rules = agent.rules[Visits.entity] else { return }
        let stored = try Broken.none { try store.reads.documentSchema(of: Visits.entity) }
        guard stored.number == oracle.schemas.present else {
            throw Broken(
                "everybody has the present version", "agent \(agent.index): \(stored.number), the hub has \(oracle.schemas.present)")
        }
        for version in rules.versions?.accepts ?? [1] {
            for name in hub.records.keys.sorted() where name.entity == Visits.entity { _ = try appView(name, agent, version) }
        }
    }
}

extension PushResult.Verdict {
    /// The documents of the answer.
    fileprivate var shownData: [JSONObject] {
        let state: HubState? =
            switch self {
            case .accepted(_, _, let record, _): record.map { .record($0) }
            case .duplicate(_, let current), .conflict(_, let current): current
            case .rejected(_, let current): current
            case .retry: nil
            }
        if case .record(let record)? = state { return [record.data] }
        return []
    }
}
