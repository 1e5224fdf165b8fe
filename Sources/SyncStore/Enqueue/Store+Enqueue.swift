package import SyncCore

// T1. Everything is decided before anything is written, so a refusal needs no undo and does not affect other requests in the transaction.
// Lists are the exception: later members are decided on what the earlier ones wrote.

extension Store {
    /// Accepts mutations. Invariant: outbox rows, view, status, counters, clock and journal change together.
    ///
    /// - Parameters:
    ///   - isAtomic: One group at the hub, with at most ``Limits/atomicMutations`` members. All or none are accepted in any case.
    ///   - appKey: With the same key and fingerprint as before, the first answer is returned and nothing else happens.
    /// - Throws: `.refused` with the problem for the app.
    package func enqueue(
        _ mutations: [NewMutation], isAtomic: Bool = false, by requester: Requester, appKey: AppKey? = nil, at now: Moment
    ) throws(StoreError) -> [Enqueued] {
        guard !mutations.isEmpty else { throw StoreProblem.validation("/mutations", "the list is empty") }
        guard !isAtomic || mutations.count <= Limits.atomicMutations else {
            throw StoreProblem.validation("/mutations", "an atomic list has at most \(Limits.atomicMutations) mutations")
        }
        try convertBeforeChange(at: now)
        return try transact(at: now, refusesFirst: mutations.count == 1) { () throws(StoreError) in
            if let appKey, let answer = try firstAnswer(to: appKey, of: requester) { return answer }
            try expireIfFull(for: requester, adding: mutations.count)
            let answer: [Enqueued]
            if mutations.count == 1 {
                do throws(StoreError) {
                    try checkTags(of: mutations[0])
                    answer = [try accept(mutations[0], by: requester, appKey: appKey)]
                } catch {
                    // A list of one is still a list: the pointers lead into it.
                    throw isAtomic ? error.inList(at: 0) : error
                }
            } else {
                answer = try acceptList(mutations, isAtomic: isAtomic, by: requester, appKey)
            }
            if let appKey { try keep(answer, for: appKey, of: requester) }
            return answer
        }
    }

    /// Accepts the lines of a bulk enqueue in one transaction; each line is accepted or refused alone.
    package func enqueueEach(
        _ mutations: [NewMutation], by requester: Requester, at now: Moment
    ) throws(StoreError) -> [Result<Enqueued, StoreError>] {
        try convertBeforeChange(at: now)
        return try transact(at: now, refusesFirst: true) { () throws(StoreError) in
            var results: [Result<Enqueued, StoreError>] = []
            results.reserveCapacity(mutations.count)
            for mutation in mutations {
                do throws(StoreError) {
                    try expireIfFull(for: requester, adding: 1)
                    try checkTags(of: mutation)
                    results.append(.success(try accept(mutation, by: requester)))
                } catch {
                    guard error.problem != nil else { throw error }
                    results.append(.failure(error))
                }
            }
            return results
        }
    }

    private func acceptList(
        _ mutations: [NewMutation], isAtomic: Bool, by requester: Requester, _ appKey: AppKey?
    ) throws(StoreError) -> [Enqueued] {
        try prepareForChange()
        // Before the first member is written, because members of one list do not conflict with each other.
        for (index, mutation) in mutations.enumerated() {
            do throws(StoreError) {
                try checkTags(of: mutation)
            } catch {
                throw error.inList(at: index)
            }
        }
        var group: EnqueueGroup?
        if isAtomic {
            let first = ledger[.nextSeq]
            let priority = mutations.compactMap { $0.priority ?? rules[$0.entity]?.priority }.min() ?? .normal
            group = EnqueueGroup(seqs: first...(first + Int64(mutations.count) - 1), priority: priority)
        }
        var answers: [Enqueued] = []
        for (index, mutation) in mutations.enumerated() {
            do throws(StoreError) {
                answers.append(try accept(mutation, by: requester, in: group, appKey: appKey))
            } catch {
                throw error.inList(at: index)
            }
            if group?.id == nil { group?.id = answers.first?.key.text }
        }
        if let group {
            try meetChildren(ofGroup: group.seqs)
            try refreshReadiness(ofGroup: group.seqs)
            if transaction?.tieEnds.isEmpty == false {
                // A member depends on a refused mutation, so the list falls now, and its answer says so.
                try endTies()
                for index in answers.indices { try renew(&answers[index]) }
            }
        }
        return answers
    }

    /// Shows the present state of a new mutation that has changed since it was accepted, and its record as it is now.
    func renew(_ answer: inout Enqueued) throws(StoreError) {
        guard let row = try outboxRow(answer.seq), row.state != answer.state else { return }
        answer.state = row.state
        guard let rid = row.rid else { return }
        let (name, pending) = (answer.recordName, try openKeys(of: rid))
        answer.record = try MirrorRow.find(database, rid: rid).map { RecordSnapshot($0, name, pending: pending) }
    }

    /// - Precondition: A group's members are accepted one after the other, with nothing between them.
    /// - Parameters:
    ///   - version: The version that the author had seen, if it is older than the present one.
    ///   - deadline: The deadline of a mutation that takes the place of another. Any other mutation has the one of its app or entity.
    func accept(
        _ mutation: NewMutation, by requester: Requester, in group: EnqueueGroup? = nil, appKey: AppKey? = nil,
        supersedes: String? = nil, restingOn version: Int64? = nil, deadline: Int64? = nil
    ) throws(StoreError) -> Enqueued {
        let intent = try decide(mutation, by: requester, in: group, supersedes: supersedes)
        intent.deadline = deadline
        if let version, version < intent.payload.baseVersion {
            intent.payload.baseVersion = max(0, version)
            // Later mutations have seen more than this one, so they are not merged into it.
            intent.payload.coalesces = false
        }
        intent.payload.appKey = appKey?.key
        let made = intent.isPlainEvent ? try appendEvent(intent) : try write(intent)
        // The links of a mutation that takes the place of another are moved (``moveLinks(of:from:to:in:)``).
        if supersedes == nil, !mutation.blobs.isEmpty { try linkBlobs(mutation, made.recordName, seq: made.seq, priority: intent.priority) }
        return made
    }
}

/// An atomic list while it is being written.
struct EnqueueGroup {
    /// The numbers of its members.
    var seqs: ClosedRange<Int64>
    var priority: Priority
    /// The key of the first member, as soon as that is written.
    var id: String?
}

extension StoreError {
    /// The same error with pointers that lead into the list that the app sent.
    fileprivate func inList(at index: Int) -> StoreError {
        guard var problem else { return self }
        let place = "/mutations/\(index)"
        problem.errors =
            problem.errors.isEmpty
            ? [Problem.Pointer(place, problem.detail)]
            : problem.errors.map { Problem.Pointer(place + $0.pointer, $0.detail) }
        return .refused(problem)
    }
}
