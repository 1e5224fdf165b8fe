import SyncCore
import SyncSQLite

/// The result of the decision about an enqueue. Nothing was written yet.
///
/// It is a class because it is large and passed from step to step.
final class EnqueueIntent {
    let mutation: NewMutation
    let rules: EntityRules
    let requester: Requester
    let group: EnqueueGroup?
    let priority: Priority
    /// Complete except for the parts that the write adds: seq, key, stamp, names.
    var payload: Payload
    /// The present record; `nil` when it is new, or for an event.
    let record: MirrorRow?
    /// The view after the mutation; `nil` when the record is not in it.
    let document: String?
    /// Oldest events of the same entity that are dropped to make room.
    var dropped: [Int64] = []
    /// The mutations and files that it must wait for.
    var ties = Ties()
    /// The deadline of a mutation that takes the place of another, on the database's own clock.
    var deadline: Int64?
    /// Length of the chain of waiting mutations up to this one, itself included.
    var chain = 1
    /// Values that stay because the mutation's `max` or `min` does not beat them.
    var kept: JSONObject = [:]
    /// Violations of rules between fields, which only the whole record shows.
    var fieldFaults: [Problem.Pointer] = []
    /// Violations of the schema, where the mutation is accepted all the same.
    var warnings: [Problem.Pointer] = []
    /// The verdict of the record's form.
    var formVerdict = FormVerdict()
    var unjudged: FormVerdict.Unjudged?

    init(
        _ mutation: NewMutation, _ rules: EntityRules, by requester: Requester, in group: EnqueueGroup?, payload: Payload,
        record: MirrorRow? = nil, document: String? = nil
    ) {
        self.mutation = mutation
        self.rules = rules
        self.requester = requester
        self.group = group
        self.payload = payload
        self.record = record
        self.document = document
        priority = group?.priority ?? mutation.priority ?? rules.priority
    }

    var isEvent: Bool { rules.kind == .event }

    /// `true` when the write is a single append: see `Store+Intake.swift`.
    var isPlainEvent: Bool {
        isEvent && group == nil && dropped.isEmpty && ties.isEmpty && payload.supersedes == nil
    }
}

extension Store {
    /// Decides a mutation against the rules, the view and the capacity.
    ///
    /// - Throws: `.refused`. Nothing was written.
    func decide(
        _ mutation: NewMutation, by requester: Requester, in group: EnqueueGroup?, supersedes: String? = nil
    ) throws(StoreError) -> EnqueueIntent {
        guard let rules = rules[mutation.entity] else {
            throw StoreProblem.validation("/entity", "the entity \(mutation.entity) is not configured")
        }
        var mutation = mutation
        // A mutation that takes the place of another is in the present version already.
        let olderFaults = supersedes == nil ? try lift(&mutation, rules) : []
        let files = supersedes != nil ? try renewFiles(in: &mutation) : mutation.blobs.isEmpty ? [] : try showBlobs(in: &mutation)
        let eid = names.entities[mutation.entity]
        guard eid != nil || names.hasRoomForEntity else {
            throw StoreProblem.validation("/entity", "there are \(Names.limit) entities already")
        }
        let intent: EnqueueIntent
        switch rules.kind {
        case .reference:
            throw StoreProblem.validation("/entity", "\(mutation.entity) comes from the hub and cannot be changed here")
        case .event:
            guard mutation.action == .create else {
                throw StoreProblem.validation("/action", "\(mutation.entity) is an event: it can only be created")
            }
            guard mutation.expectedVersion == nil else {
                throw StoreProblem.validation("/expect_version", "\(mutation.entity) is an event: it has no version")
            }
            guard mutation.ifMatch == nil else {
                throw StoreProblem.validation("/if_match", "\(mutation.entity) is an event: there is no record to match")
            }
            let content = MutationContent(
                .create, data: mutation.data, unset: mutation.unset, operations: mutation.operations)
            if let misfit = misfit(of: mutation.operations, on: mutation.data) { throw misfit }
            let event = Fold.apply(content, to: nil) ?? [:]
            if let fault = limitFault(of: content, in: event, over: nil) { throw .refused(fault) }
            intent = EnqueueIntent(mutation, rules, by: requester, in: group, payload: Payload(content))
            intent.fieldFaults = Self.fieldFaults(rules, in: event, before: nil)
            intent.formVerdict = try formVerdict(rules, after: event, before: nil, of: nil)
        case .record:
            // A mutation that takes the place of another has its form already, and the hub is to say what is wrong with it.
            if supersedes == nil {
                mutation = try Self.placed(mutation, rules)
                mutation.data = MutationContent(.update, data: mutation.data).withSetsFolded(under: rules).data
            }
            intent = try decideRecord(mutation, rules, eid, requester, group, isSuccessor: supersedes != nil)
        }
        intent.warnings = olderFaults
        intent.warnings += try checkSchema(rules, intent.payload.action, mutation, intent.fieldFaults)
        try checkForm(intent)
        intent.payload.priority = intent.priority
        intent.payload.uid = Int64(requester.uid)
        intent.payload.coalesces = mutation.coalesces
        intent.payload.author = mutation.author
        intent.payload.depends = mutation.dependsOn.isEmpty ? nil : JSON.list(mutation.dependsOn.map(\.text)).json
        intent.payload.blobs = mutation.blobs.isEmpty ? nil : JSON.array(mutation.blobs).json
        intent.payload.id = mutation.recordID?.text
        let bytes = max(mutation.size, intent.payload.contentBytes)
        guard bytes <= Limits.mutationBytes else {
            throw StoreProblem.tooLarge("the mutation", bytes: bytes, limit: Limits.mutationBytes)
        }
        intent.payload.bytes = Int64(bytes)
        intent.payload.supersedes = supersedes
        if !rules.refs.isEmpty || !mutation.dependsOn.isEmpty, !options.ablations.contains(.tiesIgnored) {
            intent.ties = try findTies(of: mutation, rules)
            if let group { try leaveOut(group, from: &intent.ties, isSuccessor: supersedes != nil) }
        }
        if !intent.ties.on.isEmpty, supersedes == nil {
            intent.chain = try chainLength(behind: intent.ties.on, at: mutation.dependsOn.isEmpty ? "/data" : "/depends_on")
        }
        // A file that must be uploaded first is waited for like a mutation; it has a negative number.
        for file in files { intent.ties.on.insert(-file.number) }
        // A mutation that takes the place of another needs no more room than that.
        if supersedes == nil { intent.dropped = try makeRoom(for: intent, eid: eid) }
        return intent
    }

    private func decideRecord(
        _ mutation: NewMutation, _ rules: EntityRules, _ eid: Int64?, _ requester: Requester, _ group: EnqueueGroup?,
        isSuccessor: Bool
    ) throws(StoreError) -> EnqueueIntent {
        var record: MirrorRow?
        if let eid, let id = mutation.recordID { record = try MirrorRow.find(database, eid: eid, id: id.text) }
        let name = mutation.recordID.map { RecordName(mutation.entity, $0) }
        if let found = record, let name, found.isDamaged {
            damagedRecords.insert(found.rid)
            throw StoreProblem.damaged(name)
        }
        let action = try action(of: mutation, on: record, name, isSuccessor: isSuccessor)
        let shown = record?.shownVersion ?? 0
        if let expected = mutation.expectedVersion, expected != shown {
            throw StoreProblem.versionMismatch(
                name ?? RecordName(mutation.entity, RecordID(trusted: "new")), expected: expected, found: shown)
        }
        let isAnew = action == .update && !isSuccessor ? try isMadeAnew(record) : false
        let seen = try readable(record, name)
        let content = try content(action, of: mutation, on: seen, rules, isSuccessor: isSuccessor, isAnew: isAnew)
        var payload = Payload(content)
        payload.baseVersion = isAnew ? 0 : shown
        let folded = try fold(content, onto: seen, payload)
        let kept = Fold.kept(by: content, on: seen ?? [:])
        let size = folded?.text.utf8.count ?? 0
        let limit = DocumentLimits.bytesMax(over: record?.document?.utf8.count ?? 0)
        guard size <= limit else {
            throw StoreProblem.tooLarge("the record after this mutation", bytes: size, limit: limit)
        }
        let intent = EnqueueIntent(
            mutation, rules, by: requester, in: group, payload: payload, record: record, document: folded?.text)
        intent.kept = kept
        if let document = folded?.document { intent.fieldFaults = Self.fieldFaults(rules, in: document, before: seen) }
        intent.formVerdict = try formVerdict(rules, after: folded?.document, before: seen, of: mutation.recordID)
        return intent
    }

    /// - Throws: `.refused` when no rule of a member has the operation that names it.
    private static func placed(_ mutation: NewMutation, _ rules: EntityRules) throws(StoreError) -> NewMutation {
        if mutation.operations.isEmpty { return mutation }
        var placed = mutation
        do throws(Problem) {
            placed.operations = try MutationContent(.update, operations: mutation.operations).placed(under: rules).operations
        } catch {
            throw .refused(error)
        }
        return placed
    }

    /// - Throws: `.refused` with 412 `precondition-failed` when the record has changed since its author read it.
    func checkTags(of mutation: NewMutation) throws(StoreError) {
        guard let tags = mutation.ifMatch else { return }
        var record: MirrorRow?
        if let eid = names.entities[mutation.entity], let id = mutation.recordID {
            record = try MirrorRow.find(database, eid: eid, id: id.text)
        }
        // A damaged record or an event is refused for that reason instead.
        if record?.isDamaged == true || rules[mutation.entity]?.kind != .record { return }
        let etag = record.flatMap { $0.document == nil && !$0.isNotKept ? nil : $0.etag }
        guard !tags.accepts(etag) else { return }
        let name = RecordName(mutation.entity, mutation.recordID ?? RecordID(trusted: "new"))
        throw StoreProblem.preconditionFailed(name, etag: etag, version: record?.shownVersion ?? 0)
    }

    /// The record as the app sees it; `nil` when it does not exist.
    ///
    /// - Throws: `.refused` when it is damaged. It is fetched again then, and nothing is decided on its basis.
    private func readable(_ record: MirrorRow?, _ name: RecordName?) throws(StoreError) -> JSONObject? {
        guard let record else { return nil }
        switch record.parsedDocument {
        case .none: return nil
        case .object(let object): return object
        case .unreadable:
            damagedRecords.insert(record.rid)
            throw StoreProblem.damaged(name ?? RecordName(names.entity(record.eid), RecordID(trusted: record.id)))
        }
    }

    /// Returns whether this device makes the record anew after deleting the hub's: later changes of it have not seen the hub's record.
    private func isMadeAnew(_ record: MirrorRow?) throws(StoreError) -> Bool {
        guard let record, record.status != .synced, record.isAtHub else { return false }
        // Almost always the newest mutation decides, however many wait: only a create and the changes after it are based on no version.
        let newest = try database.first(
            """
            SELECT p.action, p.base_version FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 ORDER BY m.seq DESC LIMIT 1
            """, .int(record.rid)
        ) { row throws(StoreError) in (action: MutationAction(number: row.int(0)), version: row.int(1)) }
        guard let newest else { return false }
        if newest.action != .update || newest.version != 0 { return newest.action == .create }
        return try database.number(
            """
            SELECT 1 FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 AND m.state <> 3 AND p.action = ? ORDER BY m.seq LIMIT 1
            """, .int(record.rid), .int(Int64(MutationAction.create.number))) != nil
    }

    private func action(
        of mutation: NewMutation, on record: MirrorRow?, _ name: RecordName?, isSuccessor: Bool
    ) throws(StoreError) -> MutationAction {
        let isNotKept = record?.isNotKept == true
        let exists = record?.document != nil || isNotKept
        // A deletion needs the version alone. Any other change is merged with what its author had seen, and its author cannot have seen a
        // document that is not here.
        if isNotKept, mutation.action == .update || mutation.action == .upsert, let name { throw StoreProblem.notKept(name) }
        switch mutation.action {
        case .create:
            if exists, let name { throw StoreProblem.exists(name, version: record?.shownVersion ?? 0) }
            return .create
        case .upsert:
            // A mutation that brings a record back carries the former state of everything in it. It stays a create even if another device
            // has made the record anew meanwhile.
            return exists && !isSuccessor ? .update : .create
        case .update, .delete:
            guard let name else { throw StoreProblem.validation("/record_id", "a record id is needed") }
            // Only the hub knows whether there is anything to change.
            let isForHub = isSuccessor && record?.isOfUnknownHistory == true
            guard exists || isForHub else {
                if let record, record.isKnown { throw StoreProblem.deleted(name, refused: try refusedCreation(of: record)) }
                throw StoreProblem.notFound("record \(name)")
            }
            return mutation.action == .update ? .update : .delete
        }
    }

    /// The key of the refused mutation that was to make this record, where nothing else has made it; `nil` if the record was deleted.
    private func refusedCreation(of record: MirrorRow) throws(StoreError) -> String? {
        guard !record.isFromHub else { return nil }
        return try database.first(
            """
            SELECT p.key, p.action, m.state FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 AND p.action <> ? ORDER BY m.seq DESC LIMIT 1
            """, .int(record.rid), .int(Int64(MutationAction.update.number))
        ) { row throws(StoreError) -> String? in
            let isRefused = MutationState(rawValue: Int(clamping: row.int(2))) == .rejected
            return isRefused && MutationAction(number: row.int(1)) == .create ? row.text(0) : nil
        } ?? nil
    }

    /// The content of the app's request in the form that best expresses its intent: see ``WireForm``. A mutation that takes the place of
    /// another has its form already.
    private func content(
        _ action: MutationAction, of mutation: NewMutation, on document: JSONObject?, _ rules: EntityRules, isSuccessor: Bool,
        isAnew: Bool
    ) throws(StoreError) -> MutationContent {
        if action == .delete { return MutationContent(.delete) }
        var content = MutationContent(
            action, data: mutation.data, unset: mutation.unset, operations: mutation.operations,
            base: mutation.base, stamps: mutation.stamps)
        // A repeated operation follows from a new decision and gets its time.
        for index in content.operations.indices { content.operations[index].hlc = nil }
        if isSuccessor { return content }
        // Most changes need no closer look.
        let hasForms = action == .update && rules.strategy == .fields && !rules.fields.isEmpty
        guard hasForms || !content.operations.isEmpty else { return content }
        let seen = action == .update ? document ?? [:] : [:]
        if hasForms {
            content.base = WireForm.bases(content, seen: seen, rules: rules)
            content = WireForm.of(content, seen: seen, rules: rules)
            // The deletion may still be undone. Then first values of fields that add up are added to the present ones and do not overwrite
            // them.
            if isAnew { content = WireForm.withFirstsAdded(content, seen: seen, rules: rules) }
        }
        let written = Fold.apply(MutationContent(.create, data: content.data, unset: content.unset), to: seen) ?? [:]
        if let misfit = misfit(of: mutation.operations, on: written) { throw misfit }
        return content
    }

    /// An operation that cannot have an effect is refused, because it would be lost silently.
    private func misfit(of operations: [FieldOperation], on document: JSONObject) -> StoreError? {
        guard let misfit = Fold.firstMisfit(of: operations, on: document) else { return nil }
        let operation = operations[misfit.index]
        return StoreProblem.validation("/ops/\(misfit.index)", Fold.misfitDetail(operation, misfit.found))
    }

    /// The view after one more mutation. Applying it to the present view is the last step of applying all of them.
    ///
    /// - Throws: `.refused` when the view would exceed a limit of documents (``DocumentLimits``).
    private func fold(
        _ content: MutationContent, onto seen: JSONObject?, _ payload: Payload
    ) throws(StoreError) -> (document: JSONObject, text: String)? {
        guard let result = Fold.apply(content, to: seen) else { return nil }
        if let fault = limitFault(of: content, in: result, over: seen) { throw .refused(fault) }
        if content.action == .create, seen == nil, content.unset.isEmpty, content.operations.isEmpty, let text = payload.data {
            return (result, text)
        }
        return (result, result.json)
    }

    private func limitFault(of content: MutationContent, in result: JSONObject, over seen: JSONObject?) -> Problem? {
        if options.ablations.contains(.storedReadAsInput) { return nil }
        return DocumentLimits.fault(of: content, in: result, over: seen)
    }

    private static func fieldFaults(_ rules: EntityRules, in document: JSONObject, before: JSONObject?) -> [Problem.Pointer] {
        guard let schema = rules.schema, rules.validation != .off else { return [] }
        return schema.faults(between: document, before: before)
    }

    /// - Throws: `.refused` with `validation` and a pointer to each fault, where the entity asks for that.
    private func checkSchema(
        _ rules: EntityRules, _ action: MutationAction, _ mutation: NewMutation, _ fieldFaults: [Problem.Pointer]
    ) throws(StoreError) -> [Problem.Pointer] {
        guard let schema = rules.schema, rules.validation != .off else { return [] }
        var faults = schema.faults(
            in: MutationContent(action, data: mutation.data, unset: mutation.unset, operations: mutation.operations))
        faults += fieldFaults.filter { !faults.contains($0) }
        if rules.validation == .reject, !faults.isEmpty { throw StoreProblem.faults(faults, in: mutation.entity.text) }
        return faults
    }

    /// Finds a mutation by the number that its key carries.
    func seq(of key: MutationKey) throws(StoreError) -> Int64? {
        guard let seq = UUIDv7.carried(in: key.text) else { return nil }
        let found = try database.first("SELECT key FROM payload WHERE seq = ?", .int(seq)) { row throws(StoreError) in
            row.text(0)
        }
        return found == key.text ? seq : nil
    }
}
