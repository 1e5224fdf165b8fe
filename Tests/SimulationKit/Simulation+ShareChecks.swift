import HubServer
import SyncCore
import SyncStore

// Checks that no answer shows a device a record outside of its share, and that no device exceeds its rights (``ShareOracle``).
extension Simulation {
    /// A cursor that the hub gave to a device.
    struct ShownCursor {
        var device: DeviceID
        var entity: EntityName
        var cursor: String
    }

    // MARK: Pages

    /// - Parameter isForeign: The cursor names scopes of another device. The answer may then name ids that the other device had.
    func checkShare(_ pull: PullResponse, _ device: DeviceID, isForeign: Bool = false) throws(Broken) {
        guard scenario.sharesOut else { return }
        for page in pull.pages where Shares.scoped.contains(page.entity) {
            for item in page.records { try checkShown(RecordName(page.entity, item.id), item.record.data, device, "a page") }
            for deletion in page.deletions {
                try checkTold(RecordName(page.entity, deletion.id), deletion, device, isForeign: isForeign)
            }
            try checkTotal(page.total, page.entity, device)
            if isForeign { continue }
            if shownCursors.count == 40 { shownCursors.removeFirst() }
            shownCursors.append(ShownCursor(device: device, entity: page.entity, cursor: page.cursor))
        }
        for error in pull.errors where error.problem.code == Problem.scopeChanged { count("shares to be listed anew") }
    }

    func checkShare(_ page: SnapshotPage, _ device: DeviceID) throws(Broken) {
        guard scenario.sharesOut, Shares.scoped.contains(page.entity) else { return }
        for item in page.records { try checkShown(RecordName(page.entity, item.id), item.record.data, device, "a listing") }
        try checkTotal(page.total, page.entity, device)
        try checkScopes(page, device)
        count(page.hasMore ? "pages of listings of shares" : "listings of shares")
    }

    /// Checks the scopes that the end of a listing tells: a scope too few would take records of the share from the device.
    private func checkScopes(_ page: SnapshotPage, _ device: DeviceID) throws(Broken) {
        guard !page.hasMore else { return }
        guard let told = page.share.map({ Self.scopes(of: $0) }) else {
            if !oracle.shares.hasGrantsOfRecords { return count("listings without scopes") }
            throw Broken("a device is told its own scopes", "a listing of \(page.entity) tells \(device) none")
        }
        let own = Set(oracle.shares.sites(of: device).map { "site=" + $0 } + ["site=\(device)", "assignee=\(device)"])
        guard told == own else {
            throw Broken("a device is told its own scopes", "a listing of \(page.entity) tells \(device) of \(told.sorted())")
        }
    }

    private static func scopes(of share: EntityShare) -> Set<String> {
        let fields = share.json.object?.members ?? []
        return Set(fields.flatMap { field in (field.value.array ?? []).compactMap(\.text).map { "\(field.name.text)=\($0)" } })
    }

    // MARK: What a person decides on

    /// Notes the scopes under which a listing has held records back.
    func recordHeld(_ agent: SimAgent, _ command: StoreCommand, _ answer: StoreAnswer) {
        switch (command, answer) {
        case (.applySnapshot(let page), .snapshotApplied(let summary, _)) where !Shares.scoped.isDisjoint(with: summary.massDeletes):
            guard let share = page.share else { return agent.heldUnder = nil }
            agent.heldUnder?[page.entity, default: []].append(Self.scopes(of: share))
        case (.applyPull, .pullApplied(let summary)) where !Shares.scoped.isDisjoint(with: summary.massDeletes): agent.heldUnder = nil
        case (_, .failed): agent.heldUnder = nil
        default: break
        }
    }

    /// The hub's documents that an agent has of entities whose records are shared out.
    func sharedDocuments(of agent: SimAgent) throws(Broken) -> [RecordName: JSONObject] {
        guard scenario.sharesOut, let store = agent.store else { return [:] }
        var documents: [RecordName: JSONObject] = [:]
        for entity in Shares.scoped {
            var query = RecordQuery(entity)
            query.limit = 1_000
            for item in try Broken.none({ try store.reads.records(query) }).items {
                guard let base = item.base else { continue }
                documents[item.name] = try Broken.none { try JSONReader.read(base) }.object
            }
        }
        return documents
    }

    /// Checks that no document of others has waited for a person, who has just accepted deletions.
    func checkAccepted(_ agent: SimAgent, _ before: [RecordName: JSONObject]) throws(Broken) {
        let after = try sharedDocuments(of: agent)
        let heldUnder = agent.heldUnder ?? [:]
        agent.heldUnder = [:]
        for (name, document) in before.sorted(by: { $0.key < $1.key }) where after[name] == nil {
            guard let told = heldUnder[name.entity] else { continue }
            guard told.contains(where: { !$0.isDisjoint(with: ShareOracle.scopes(of: document)) }) else {
                throw Broken(
                    "what is of others does not wait for a person",
                    "agent \(agent.index) had kept \(name): \(document.json), under \(told.map { $0.sorted() })")
            }
            count("records of the share that waited for a person")
        }
    }

    private func checkShown(_ name: RecordName, _ data: JSONObject, _ device: DeviceID, _ place: String) throws(Broken) {
        guard oracle.shares.includes(name, data, device) else {
            throw Broken("a device receives its share and nothing else", "\(place) shows \(name) to \(device): \(data.json)")
        }
    }

    private func checkTold(
        _ name: RecordName, _ deletion: StreamPage.Deletion, _ device: DeviceID, isForeign: Bool
    ) throws(Broken) {
        let isRevoked = deletion.reason == Problem.revoked
        guard isForeign || oracle.shares.mayKnow(name, device) else {
            throw Broken("a device is told of nothing that it never had", "a page names \(name) to \(device)")
        }
        guard isRevoked || !oracle.shares.isHidden(name, from: device) else {
            throw Broken(
                "a device receives its share and nothing else", "a page tells \(device) that \(name) is deleted, which is of others")
        }
        guard !oracle.shares.isLive(name) || oracle.shares.isHidden(name, from: device) else {
            throw Broken("a device receives all of its share", "a page takes \(name) back from \(device), which may have it")
        }
        if isRevoked { count("records taken back") }
    }

    private func checkTotal(_ total: Int64?, _ entity: EntityName, _ device: DeviceID) throws(Broken) {
        guard let total else { return }
        let expected = oracle.shares.total(of: entity, device)
        guard total <= Int64(expected) else {
            throw Broken("numbers tell nothing of others", "\(device) is told of \(total) records of \(entity), and has \(expected)")
        }
    }

    /// Checks that the hub compares a device's digest with the share of that device.
    func checkComparison(_ body: [UInt8], _ answer: [UInt8], _ device: DeviceID) throws(Broken) {
        guard scenario.sharesOut else { return }
        let asked = try Broken.none { try VerifyMessages.readRequest(body) }
        guard Shares.scoped.contains(asked.entity) else { return }
        let said = try Broken.none { try VerifyMessages.readResponse(answer) }
        try hub.observe(at: hubTime)
        var digest = EntityDigest()
        for (name, record) in hub.records where name.entity == asked.entity && oracle.shares.includes(name, record.data, device) {
            digest.add(name.id, version: record.version)
        }
        guard said.differs == digest.differences(from: asked.digest) else {
            throw Broken("a comparison is about the share of the device", "\(device), \(asked.entity): \(said.differs)")
        }
        count("comparisons of shares")
    }

    /// Checks that a hello names the scopes and roles of its own device.
    func checkGreeting(_ hello: HelloResponse, _ device: DeviceID) throws(Broken) {
        guard scenario.sharesOut else { return }
        let told = Set(hello.share?.scopes.first { $0.name == "site" }?.values ?? [])
        guard told == oracle.shares.sites(of: device), hello.share?.roles ?? [] == (device == Shares.office ? ["office"] : []) else {
            throw Broken("a device is told its own scopes", "\(device) is told of \(told.sorted())")
        }
    }

    // MARK: Verdicts

    /// Checks that the records in verdicts belong to the device's share.
    func checkShare(_ push: IncomingPush, _ answer: PushResponse, _ device: DeviceID) throws(Broken) {
        guard scenario.sharesOut else { return }
        for (item, result) in zip(push.items, answer.results) {
            guard let name = item.record, Shares.scoped.contains(name.entity) else { continue }
            var states: [HubState] = []
            switch result.verdict {
            case .accepted(_, _, let record, _):
                states = record.map { [.record($0)] } ?? []
                if retriedKeys.contains(result.key) { count("revoked work accepted after a new grant") }
            case .duplicate(_, let current), .conflict(_, let current): states = [current]
            case .rejected(let problem, let current):
                states = current.map { [$0] } ?? []
                if problem.code == Problem.forbidden { count("changes forbidden") }
            case .retry: break
            }
            for case .record(let record) in states { try checkShown(name, record.data, device, "a verdict") }
        }
    }

    /// Checks that the hub decides by the states before and after a change. Call this with the rules as they were before the change.
    func checkRight(
        _ item: IncomingItem, _ verdict: PushResult.Verdict, _ mutation: IncomingMutation, _ rules: EntityRules, _ agent: SimAgent
    ) throws(Broken) {
        guard scenario.sharesOut, Shares.entities.contains(mutation.record.entity) else { return }
        let name = mutation.record
        let isHidden = oracle.shares.isHidden(name, from: agent.device) && isHiddenNow(name, agent.device)
        let before = oracle.rules.document(name)
        var trial = oracle.rules
        let expected = trial.apply(RuleModel.Change(mutation, key: item.key, by: agent.device, commit: .max, at: hubTime), rules)
        let right = oracle.shares.right(of: agent.device, to: name, from: before, to: trial.document(name))
        func breaks(_ promise: String, _ why: String) -> Broken {
            Broken(promise, "\(self.name(of: item.key)) of \(name) (\(mutation.content.action.rawValue) by \(agent.device)): \(why)")
        }
        switch verdict {
        case .accepted:
            if case .refused(let why) = right { throw breaks("no device changes what it may not", "accepted, although \(why)") }
        case .rejected(let problem, _) where problem.code == Problem.forbidden:
            try checkUnknown(problem, mutation, isHidden || before == nil && !oracle.shares.isKnown(name), breaks)
            // A change of a record that is not there has the answer of one of others.
            let isThere = before != nil || mutation.content.action == .create
            if right == .given, item.group == nil, isThere, case .accepted = expected {
                throw breaks("a device may change what is its own", "it is forbidden: \(problem.detail)")
            }
        case .conflict, .rejected:
            guard isHidden, let code = verdict.codeOfState else { return }
            var alone = oracle.rules.without(name)
            let answer = alone.apply(RuleModel.Change(mutation, key: item.key, by: agent.device, commit: .max, at: hubTime), rules)
            guard answer == .rejected(code) else { throw breaks("what is of others does not exist", "the answer is \(code)") }
        case .duplicate, .retry: return
        }
    }

    /// Tells if the record is hidden now. It may have moved within this very request.
    private func isHiddenNow(_ name: RecordName, _ device: DeviceID) -> Bool {
        oracle.rules.document(name).map { !oracle.shares.includes(name, $0, device) } ?? true
    }

    /// Checks that a record of others and a missing record get the same answer.
    private func checkUnknown(
        _ problem: Problem, _ mutation: IncomingMutation, _ isUnknown: Bool, _ breaks: (String, String) -> Broken
    ) throws(Broken) {
        guard Shares.scoped.contains(mutation.record.entity), isUnknown, mutation.content.action != .create else { return }
        guard problem == unknownRecord else {
            throw breaks("what is of others does not exist", "it is told that \(problem.detail)")
        }
    }
}

extension PushResult.Verdict {
    /// The code of a verdict that only an existing record can have.
    fileprivate var codeOfState: String? {
        switch self {
        case .conflict: "conflict"
        case .rejected(let problem, _): problem.code == "deleted" ? problem.code : nil
        case .accepted, .duplicate, .retry: nil
        }
    }
}
