import SyncCore

// One mutation that may be applied: the merge with its record, and every reason that the merged record is refused for.
extension PushBatch {
    private static func withoutMaker(_ name: RecordName) -> PushResult.Verdict {
        let problem = Problem(
            "dependency-missing", status: 424,
            detail: "\(name) is not here: the hub began a new history, and waits for the device that made it")
        return .retry(problem, after: nil)
    }

    mutating func apply(
        _ mutation: IncomingMutation, _ key: MutationKey, _ rules: EntityRules, commit: Int64
    ) throws(DatabaseError) -> PushResult {
        var mutation = mutation
        if store.isDeciding, mutation.baseVersion > store.group?.basis?.head ?? 0 {
            throw store.lockNeeded("whether this history has reached version \(mutation.baseVersion)")
        }
        // A version that this history has not reached belongs to another one: it says nothing here.
        let isForeign = mutation.baseVersion > headBefore
        if isForeign {
            versionAhead = max(versionAhead ?? 0, mutation.baseVersion)
            mutation.baseVersion = -1
        }
        var working = try load(mutation.record)
        let waitsForMaker =
            rules.kind == .record && mutation.content.action != .create
            && (offering == .ofAll || offering == .ofForeign && mutation.baseVersion < 0)
        // The record was not deleted, as far as this history knows: the device that made it has not connected yet.
        if waitsForMaker, working.record == nil { return PushResult(key: key, verdict: Self.withoutMaker(mutation.record)) }
        // A record that does not exist and one of others have the same answer.
        if let share, rules.isScoped, rules.kind == .record, working.scopes == nil, mutation.content.action != .create,
            !ablations.contains(.rightsIgnored),
            var forbidden = WriteDecision(share, rules).fault(old: nil, new: nil, scopesBefore: nil)
        {
            if ablations.contains(.othersTold), working.stored != nil { forbidden.detail = "it is a record of others" }
            return PushResult(key: key, verdict: .rejected(forbidden, current: nil))
        }
        // A restored record may exceed a limit already.
        let before = working.record?.data ?? working.record?.kept?.data
        // A device that makes a record which is there does not hold it: a listing without it has removed it, for example.
        let isMissed = mutation.content.action == .create && working.record?.data != nil
        if let fault = limitFault({ DocumentLimits.fault(ofFieldsIn: mutation.content, before: before?.count ?? 0) }) {
            return PushResult(key: key, verdict: .rejected(fault, current: nil))
        }
        let change = HubMerge.Change(device: device, key: key, mutation: mutation)
        switch HubMerge.apply(
            change, to: working.record, rules: rules, commit: commit, now: now, ablations: ablations)
        {
        case .rejected(let problem):
            // The device deleted the record and changes it later, so it has seen a new creation by another device, which has not connected
            // yet.
            if waitsForMaker, problem.code == "deleted", working.record?.stamp.writer == device {
                return PushResult(key: key, verdict: Self.withoutMaker(mutation.record))
            }
            let current = problem.code == "deleted" ? working.state : nil
            return PushResult(key: key, verdict: .rejected(problem, current: current))
        case .conflict(let fields):
            let fields = working.view?.lower(fields) ?? fields
            return PushResult(key: key, verdict: .conflict(fields: fields, current: working.state(disputing: fields)))
        case .accepted(let accepted):
            if let forbidden = fault(of: accepted.record, over: working, mutation.record.entity, rules) {
                return PushResult(key: key, verdict: .rejected(forbidden, current: nil))
            }
            if let record = accepted.record {
                if let data = record.data,
                    let fault = limitFault({ DocumentLimits.fault(of: mutation.content, in: data, over: before) })
                {
                    return PushResult(key: key, verdict: .rejected(fault, current: nil))
                }
                if let data = record.data, let schema = rules.enforcedSchema,
                    let problem = SchemaRefusal.problem(
                        schema.faults(between: data, before: before), of: mutation.record,
                        besideOthers: mutation.baseVersion < working.versionBefore)
                {
                    return PushResult(key: key, verdict: .rejected(problem, current: nil))
                }
                if let data = record.data, rules.form != nil, !ablations.contains(.formsUnjudged),
                    let problem = FormRefusal.problem(
                        try formVerdict(rules, after: data, before: before), of: mutation.record,
                        besideOthers: mutation.baseVersion < working.versionBefore)
                {
                    return PushResult(key: key, verdict: .rejected(problem, current: nil))
                }
                let text = record.data?.json
                if let text, text.utf8.count > Limits.documentBytes,
                    case let limit = DocumentLimits.bytesMax(over: before?.bytes.count ?? 0), text.utf8.count > limit
                {
                    let problem = Problem(
                        "too-large", status: 413, detail: "\(mutation.record) would have more than \(limit) bytes")
                    return PushResult(key: key, verdict: .rejected(problem, current: nil))
                }
                working.replace(record, text: text, key: key, rules, share)
                head = commit
            }
            records[mutation.record] = working
            for value in accepted.lost { losses.append((mutation.record, value)) }
            var isKnown = isMissed ? false : try isComputable(accepted, mutation, working, rules)
            if !isKnown, accepted.isPlain, shown.contains(mutation.record) {
                let computed = Fold.apply(mutation.content, to: before)
                isKnown = computed == nil && working.record?.data == nil
                if let computed, let data = working.record?.data { isKnown = computed.isSpelled(as: data) }
            }
            let record = isKnown ? nil : working.shown
            if record != nil { shown.insert(mutation.record) }
            var result = PushResult(
                key: key,
                verdict: .accepted(
                    version: working.stored?.version ?? 0, serverID: nil, record: record,
                    merged: working.view?.lower(accepted.merged) ?? accepted.merged))
            result.notes.isClockClamped = accepted.isClockClamped
            result.notes.kept = working.view?.lower(values: accepted.kept) ?? accepted.kept
            result.notes.hasLeft = !isKnown && working.isHidden
            return result
        }
    }

    /// Returns the reason why the device may not make this change, by the states before and after it (PROTOCOL A16).
    private func fault(
        of record: VersionedRecord?, over working: WorkingRecord, _ entity: EntityName, _ rules: EntityRules
    ) -> Problem? {
        guard let share, !ablations.contains(.rightsIgnored) else { return nil }
        guard let record else { return nil }
        let grantFields = settings.access.sources.flatMap { $0.entity == entity ? $0.fields : [] }
        let decision = WriteDecision(share, rules, grantFields: Set(grantFields))
        let isUnchecked = ablations.contains(.newStateUnchecked) && working.scopes != nil
        let new = isUnchecked ? working.record?.data : record.data
        let fault = decision.fault(old: working.record?.data, new: new, scopesBefore: working.scopes)
        return fault ?? (working.isHidden ? decision.fault(old: nil, new: nil, scopesBefore: nil) : nil)
    }

    private mutating func formVerdict(_ rules: EntityRules, after: JSONObject, before: JSONObject?) throws(DatabaseError) -> FormVerdict {
        var rules = rules
        // A record arrives before the answers that refer to it, so nothing can be said here about what is missing.
        if rules.form?.answers != nil { rules.complete = nil }
        // Taken out meanwhile, because records are loaded into the same value.
        var cache = FormCache()
        swap(&cache, &forms)
        defer { swap(&cache, &forms) }
        return try FormVerdict(rules, after: after, before: before) { name, settings throws(DatabaseError) in
            try cache.find(name, settings) { name throws(DatabaseError) in FormRefusal.source(try load(name).stored) }
        }
    }

    private func limitFault(_ find: () -> Problem?) -> Problem? {
        ablations.contains(.storedReadAsInput) ? nil : find()
    }

    /// Returns whether the device can compute the outcome itself: it had seen everything except the changes of this batch.
    private mutating func isComputable(
        _ accepted: HubMerge.Accepted, _ mutation: IncomingMutation, _ working: WorkingRecord, _ rules: EntityRules
    ) throws(DatabaseError) -> Bool {
        guard accepted.isPlain, mutation.baseVersion >= working.versionBefore else { return false }
        if working.versionBefore > 0 || rules.kind == .event { return true }
        // Where deletions were forgotten, a missing trace may mean a deleted record: the device may still hold it.
        let entity = mutation.record.entity
        return try store.horizon(entity) == 0
    }
}
