import SyncCore

/// Decides about the mutations of one push, in the order given (PROTOCOL A4).
///
/// It works on copies of the records that it touches, and writes them at the end, inside the caller's transaction. A failed group is undone
/// by a return to the copy from before it, which is a savepoint without a statement: nothing of a failed group ever reaches the database.
struct PushBatch {
    let device: DeviceID
    let now: Timestamp
    let settings: Hub.Settings
    private var rules: RuleBook { settings.rules }
    /// The scopes and roles of the device; `nil` where the hub shares nothing out.
    let share: DeviceAccess?
    let ablations: Ablations
    let store: HubStore
    let headBefore: Int64
    let offering: Hub.Offering
    private var views: SchemaViews

    /// The newest commit number, including those of this batch.
    var head: Int64
    private(set) var counters = HubCounters()
    /// The highest base version of a change that this history has not reached; `nil`: there is none.
    var versionAhead: Int64?
    var records: [RecordName: WorkingRecord] = [:]
    /// Records that an acceptance of this answer shows: the device computes the results of later plain changes from them.
    var shown: Set<RecordName> = []
    /// Records that a repeated answer shows in their present state.
    private var shownNow: Set<RecordName> = []
    /// Known keys that are answered without the record, which the answer shows already.
    private var repeats: Set<MutationKey> = []
    /// Bytes of the records that the answer shows so far, estimated.
    private var shownBytes = 0
    /// The records in the order of their first touch, so that the writes do not depend on hashing.
    private var touched: [RecordName] = []
    private var keys: PushKeys
    /// Values that lost a conflict.
    var losses: [(RecordName, LostValue)] = []
    /// Records with an unapplied mutation that may still be applied: later mutations of the record must wait.
    private var blocked: Set<RecordName> = []
    /// The last ending of the records with an unapplied mutation: where such a record does not exist, its children cannot exist either.
    private var missingParents: [RecordName: MutationFate.Ending] = [:]
    /// Records whose creation by the device was refused in this batch.
    private var refusedCreates: Set<RecordName> = []
    var forms: FormCache

    init(
        device: DeviceID, share: DeviceAccess?, now: Timestamp, settings: Hub.Settings, store: HubStore, head: Int64,
        offering: Hub.Offering = .over, schemas: SchemaNumbers = SchemaNumbers()
    ) {
        self.offering = offering
        views = SchemaViews(schemas, settings.rules, ablations: settings.ablations)
        keys = PushKeys(of: device, in: store)
        self.device = device
        self.share = share
        self.now = now
        self.settings = settings
        ablations = settings.ablations
        forms = FormCache(ablations: settings.ablations)
        self.store = store
        headBefore = head
        self.head = head
    }

    // MARK: Deciding

    mutating func decide(_ items: [IncomingItem]) throws(DatabaseError) -> [PushResult] {
        var results: [PushResult] = []
        results.reserveCapacity(items.count)
        var index = 0
        while index < items.count {
            var end = index + 1
            if let group = items[index].group {
                while end < items.count, items[end].group == group { end += 1 }
            }
            // A mutation that is not examined counts as never received: the device sends it again.
            let decided = shownBytes > Limits.hubAnswerBytes ? items[index..<end].map(postponed) : try unit(items[index..<end])
            for result in decided { shownBytes += result.shownBytes }
            results += decided
            index = end
        }
        for result in results {
            counters.count(repeats.contains(result.key) ? .duplicate(original: .accepted, current: .absent) : result.verdict)
        }
        return results
    }

    /// Decides one mutation, or all of one group: they share a commit number, so that no page of the feed can split them.
    private mutating func unit(_ items: ArraySlice<IncomingItem>) throws(DatabaseError) -> [PushResult] {
        // The copy costs only when it is written to, so a mutation that stands alone makes none.
        let before = items.count > 1 ? self : nil
        let commit = head + 1
        var results: [PushResult] = []
        // The keys of the unit. A mutation that depends on its own key, or on a later member of its group, would wait forever.
        var ahead = Set(items.map(\.key))
        for item in items {
            let result = try one(item, commit: commit, ahead: ahead)
            ahead.remove(item.key)
            conclude(item, result)
            results.append(result)
        }
        let skips = ablations.contains(.forbiddenMembersSkipped)
        let endings = results.filter { !skips || !$0.verdict.isForbidden }.map { MutationFate.Ending($0.verdict) }
        if let before, !endings.allSatisfy({ $0 == .accepted }) {
            self = before
            results = try failed(items, results, endings)
            for (item, result) in zip(items, results) { conclude(item, result) }
        }
        return results
    }

    private func postponed(_ item: IncomingItem) -> PushResult {
        let detail = "the answer is full: it shows \(shownBytes) bytes of records already"
        return PushResult(key: item.key, verdict: .retry(Problem("not-attempted", status: 503, detail: detail), after: nil))
    }

    /// A group with a member that was not accepted: no member is applied. The others share the worst ending, and the answer shows records
    /// in their state without the group's changes.
    private mutating func failed(
        _ items: ArraySlice<IncomingItem>, _ results: [PushResult], _ endings: [MutationFate.Ending]
    ) throws(DatabaseError) -> [PushResult] {
        let isFinal = endings.contains(.rejected)
        var final: [PushResult] = []
        for (item, result) in zip(items, results) {
            var verdict = result.verdict
            switch verdict {
            case .accepted where isFinal:
                let problem = Problem(Problem.groupRejected, status: 409, detail: "another mutation of the group was rejected")
                verdict = .rejected(problem, current: nil)
            case .accepted:
                let problem = Problem("blocked-by-earlier", status: 409, detail: "another mutation of the group waits")
                verdict = .retry(problem, after: nil)
            case .conflict(let fields, _):
                if let record = item.record {
                    verdict = .conflict(fields: fields, current: try load(record).state(disputing: fields))
                }
            case .rejected(let problem, .some):
                if let record = item.record { verdict = .rejected(problem, current: try load(record).state) }
            case .duplicate(let original, _):
                if let record = item.record { verdict = .duplicate(original: original, current: try load(record).state) }
            case .rejected, .retry: break
            }
            final.append(PushResult(key: result.key, verdict: verdict))
        }
        return final
    }

    private mutating func one(
        _ item: IncomingItem, commit: Int64, ahead: Set<MutationKey>
    ) throws(DatabaseError) -> PushResult {
        // Whatever the answer is, it could not show the record.
        if let name = item.record, case .failure(let problem) = views[name.entity] {
            return PushResult(key: item.key, verdict: .retry(problem, after: .seconds(300)))
        }
        // A damaged record has no state to show, so its mutation waits. This also holds for a mutation that was decided before: its device
        // would treat a record that is not shown as deleted.
        if let name = item.record, try load(name).isDamaged {
            return PushResult(key: item.key, verdict: .retry(Feed.damaged(name), after: .seconds(300)))
        }
        if let known = try keys.known(item.key) { return try repeated(item, known) }
        var mutation: IncomingMutation
        switch item.content {
        case .failure(let problem): return PushResult(key: item.key, verdict: .rejected(problem, current: nil))
        case .success(let read): mutation = read
        }
        for older in mutation.supersedes where try keys.known(older)?.ending == .accepted {
            // The database went back, and its earlier decision has arrived: two answers to one question cannot both count.
            let problem = Problem(
                "already-decided", status: 409, detail: "the mutation \(older) was decided before")
            return PushResult(key: item.key, verdict: .rejected(problem, current: try load(mutation.record).state))
        }
        if blocked.contains(mutation.record) {
            let problem = Problem("blocked-by-earlier", status: 409, detail: "an earlier mutation of \(mutation.record) waits")
            return PushResult(key: item.key, verdict: .retry(problem, after: nil))
        }
        guard let rules = rules[mutation.record.entity] else {
            let problem = Problem("unknown-entity", status: 422, detail: "\(mutation.record.entity) is not an entity of this hub")
            return PushResult(key: item.key, verdict: .rejected(problem, current: nil))
        }
        let present = try load(mutation.record).record?.data
        do throws(Problem) {
            try views.lift(&mutation, over: present)
        } catch {
            return PushResult(key: item.key, verdict: .retry(error, after: .seconds(300)))
        }
        do throws(Problem) {
            mutation.content = try mutation.content.placed(under: rules)
        } catch {
            return PushResult(key: item.key, verdict: .rejected(error, current: nil))
        }
        if let schema = rules.enforcedSchema,
            let problem = SchemaRefusal.problem(schema.faults(in: mutation.content), of: mutation.record)
        {
            return PushResult(key: item.key, verdict: .rejected(problem, current: nil))
        }
        if let verdict = try dependencies(of: mutation, item.key, ahead: ahead, rules) {
            return PushResult(key: item.key, verdict: verdict)
        }
        if try isOfRefusedCreate(mutation, rules) {
            return PushResult(key: item.key, verdict: missing("the mutation that creates \(mutation.record)", .rejected))
        }
        return try apply(mutation, item.key, rules, commit: commit)
    }

    // MARK: Earlier answers

    private mutating func repeated(_ item: IncomingItem, _ known: MutationFate) throws(DatabaseError) -> PushResult {
        guard known.fingerprint == item.fingerprint || known.fingerprint == HubStore.unseen else {
            // The ending of the first mutation, and the present record: without them the device cannot tell whether its own change is
            // included.
            let problem = Problem(
                "idempotency-mismatch", status: 422, detail: "this key was used before for another change",
                members: ["original": .string(known.original.rawValue)])
            guard let name = item.record, let rules = rules[name.entity], rules.kind != .event else {
                return PushResult(key: item.key, verdict: .rejected(problem, current: nil))
            }
            return PushResult(key: item.key, verdict: .rejected(problem, current: try load(name).state))
        }
        var result = PushResult(key: item.key, verdict: .duplicate(original: known.original, current: .absent))
        if known.ending == .rejected { result.notes.problem = known.payload.map { Problem($0) } }
        if known.ending == .conflict { result.notes.fields = (known.payload?.array ?? []).compactMap(\.text) }
        // The present record, never the one of the first answer: it may be deleted or newer by now.
        if ablations.contains(.duplicateReplaysStored), known.ending == .accepted, let payload = known.payload,
            let stored = try? HubState.read(payload, at: "")  // a test build only
        {
            result.verdict = .duplicate(original: .accepted, current: stored)
        } else if let name = item.record, rules[name.entity]?.kind != .event {
            let working = try load(name)
            // For the device, an acceptance in a version that it has by now says the same without the record. A deletion is excluded,
            // because it may have given way.
            if shownBytes > Limits.hubRepeatedBytes, known.ending == .accepted, item.group == nil, item.action != .delete,
                shownNow.contains(name), working.isLive, known.version > 0, known.version <= working.record?.version ?? 0
            {
                repeats.insert(item.key)
                result.verdict = .accepted(version: known.version, serverID: nil, record: nil, merged: [])
                return result
            }
            if known.ending == .accepted { shownNow.insert(name) }
            result.verdict = .duplicate(
                original: known.original, current: working.state(disputing: result.notes.fields))
        }
        return result
    }

    /// - Returns: The reason why the mutation cannot be applied now, or `nil`.
    private mutating func dependencies(
        of mutation: IncomingMutation, _ own: MutationKey, ahead: Set<MutationKey>, _ rules: EntityRules
    ) throws(DatabaseError) -> PushResult.Verdict? {
        for (index, key) in mutation.dependsOn.enumerated() {
            let ending = try keys.known(key)?.ending
            if ending == .accepted { continue }
            if ahead.contains(key) {
                let what = key == own ? "itself" : "\(key), which comes after it in its group"
                let problem = Problem(
                    "validation", status: 422, detail: "the mutation \(own) depends on \(what), so it could never be accepted",
                    errors: [Problem.Pointer("/depends_on/\(index)", "it has to come before this mutation")])
                return .rejected(problem, current: nil)
            }
            return missing("mutation \(key)", ending)
        }
        for (field, parent) in rules.refs.sorted(by: { $0.key < $1.key }) {
            guard let id = mutation.content.data[field]?.text.flatMap({ RecordID($0) }) else { continue }
            let name = RecordName(parent, id)
            let parent = try load(name)
            let isThere = parent.isLive || ablations.contains(.hiddenParentsSeen) && parent.stored?.isDeleted == false
            if let ending = missingParents[name], !isThere { return missing(name.description, ending) }
        }
        return nil
    }

    /// Returns whether the mutation changes a record that does not exist because its creation by this device was refused.
    private mutating func isOfRefusedCreate(_ mutation: IncomingMutation, _ rules: EntityRules) throws(DatabaseError) -> Bool {
        guard mutation.mayFollowRefusedCreate, rules.kind == .record else { return false }
        let working = try load(mutation.record)
        if working.isLive { return false }
        if refusedCreates.contains(mutation.record) { return true }
        // A record that was deleted later has existed since: another creation was accepted.
        return try store.refusal(mutation.record, of: device).map { working.record?.version ?? 0 <= $0 } ?? false
    }

    private func missing(_ what: String, _ ending: MutationFate.Ending?) -> PushResult.Verdict {
        if ending == .rejected {
            return .rejected(Problem("parent-rejected", status: 409, detail: "\(what) was rejected"), current: nil)
        }
        return .retry(Problem("dependency-missing", status: 424, detail: "\(what) is not here yet"), after: nil)
    }

    private mutating func conclude(_ item: IncomingItem, _ result: PushResult) {
        let ending = MutationFate.Ending(result.verdict)
        if let record = item.record {
            if ending == .conflict || ending == .retry { blocked.insert(record) }
            if ending != .accepted { missingParents[record] = ending }
            if item.action == .create {
                if ending == .rejected { refusedCreates.insert(record) } else { refusedCreates.remove(record) }
            }
        }
        if repeats.contains(item.key) { return }
        let state = ablations.contains(.duplicateReplaysStored) ? item.record.flatMap { records[$0]?.state.json } : nil
        keys.recordFate(item, result.verdict, ending, replaying: state)
    }

    // MARK: Records

    mutating func load(_ name: RecordName) throws(DatabaseError) -> WorkingRecord {
        if let working = records[name] { return working }
        var shapes: SchemaView?
        if case .success(let view) = views[name.entity] { shapes = view }
        var working = WorkingRecord(
            try store.record(name), rules[name.entity], ablations.contains(.scopesIgnored) ? nil : share, view: shapes)
        working.showsHidden = ablations.contains(.verdictsUnfiltered)
        records[name] = working
        touched.append(name)
        return working
    }

    /// Documents that this batch wrote, with what the device could see there before.
    var written: [(name: RecordName, data: JSONObject, before: JSONObject?)] {
        touched.compactMap { name in
            guard let working = records[name], working.isChanged, let data = working.stored?.data else { return nil }
            return (name, data, working.dataBefore)
        }
    }

    /// Writes the decisions. The caller commits.
    func write() throws(DatabaseError) {
        for name in touched {
            guard let working = records[name], working.isChanged, let record = working.stored else { continue }
            let scopes = settings.scopeChange(of: name, before: working.scopesBefore, last: working.scopesNow, to: record.data)
            try store.put(name, record, data: working.text, originKey: working.key, scopes: scopes, at: now)
        }
        try keys.write(at: now)
        for (name, value) in losses { try store.keep(value, of: name, at: now) }
        for name in refusedCreates.sorted() { try store.putRefusal(name, of: device, version: head, at: now) }
    }
}

extension PushResult {
    /// Estimated bytes of the record that it shows: the document and the stamps of its fields.
    fileprivate var shownBytes: Int {
        let state: HubState =
            switch verdict {
            case .accepted(_, _, let record, _): record.map { .record($0) } ?? .absent
            case .duplicate(_, let current), .conflict(_, let current): current
            case .rejected(_, let current): current ?? .absent
            case .retry: .absent
            }
        guard case .record(let record) = state else { return 0 }
        return record.data.json.utf8.count + (record.fieldHLC?.json.utf8.count ?? 0) + (record.fieldOrigins?.json.utf8.count ?? 0)
    }
}

extension PushResult.Verdict {
    fileprivate var isForbidden: Bool {
        if case .rejected(let problem, _) = self { problem.code == Problem.forbidden } else { false }
    }
}
