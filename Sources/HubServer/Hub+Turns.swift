package import SyncCore

// One turn: several requests, the transactions that carry them, and what follows when one fails.
extension Hub {
    package func handle(_ request: HubRequest, at now: Timestamp) -> HubResponse {
        handle([request], at: now)[0]
    }

    /// Answers several requests in one transaction: waiting pushes share an fsync.
    ///
    /// - Returns: One answer for each request, in their order.
    package func handle(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse] {
        if isDown { reopen(at: now) }
        // Public endpoints are answered whatever the database does: they report its state.
        let isSpared = requests.map { !$0.asksDatabase }
        guard isSpared.contains(true), requests.count > 1 else { return handleAlike(requests, at: now) }
        var asking = handleAlike(zip(requests, isSpared).filter { !$1 }.map(\.0), at: now).makeIterator()
        return zip(requests, isSpared).map { request, isSpared in
            isSpared ? handleAlike([request], at: now)[0] : asking.next() ?? Hub.finish(HubResponse(Hub.notFound), at: now)
        }
    }

    /// Answers writing requests in few transactions, unless others write for longer than a moment.
    ///
    /// - Returns: The answers of the first requests. Nothing has happened with those that follow: the caller answers the waiting reads, and
    ///   tries again. `nil`: there is no answer yet.
    package func handleIfFree(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse]? {
        if isDown { reopen(at: now) }
        let turn = answer(requests, .writingIfFree, at: now)
        return turn.isHeld && turn.responses.isEmpty ? nil : turn.responses
    }

    /// Refuses requests for which ``handleIfFree(_:at:)`` has failed for too long.
    package func refuseHeld(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse] {
        let error = DatabaseError(.busy, doing: "begin to write", detail: "another session keeps the database to itself")
        report?(HubError(error))
        let responses = requests.map { _ in Hub.finish(HubResponse(Hub.unavailable(error)), at: now) }
        for (request, response) in zip(requests, responses) { traffic.count(request, response) }
        return responses
    }

    private func handleAlike(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse] {
        answer(requests, .writing, at: now).responses
    }

    private struct Turn {
        var responses: [HubResponse]
        /// Others wrote meanwhile, and the requests without a response are as if they had not come.
        var isHeld = false
    }

    /// - Parameter writing: The way in which writing transactions begin.
    private func answer(_ requests: [HubRequest], _ writing: TransactionPurpose, at now: Timestamp) -> Turn {
        if requests.isEmpty { return Turn(responses: []) }
        var requests = readingBodies(of: requests)
        var turn = Turn(responses: [])
        while !turn.isHeld, turn.responses.count < requests.count {
            let start = turn.responses.count
            let isDecided = mayDecide(requests[start])
            let end = isDecided ? endOfDecision(from: start, in: &requests) : endOfLocked(from: start, in: requests)
            let part = answer(Array(requests[start..<end]), writing, deciding: isDecided, at: now)
            turn.responses += part.responses
            turn.isHeld = part.isHeld
            for index in start..<end { requests[index].push = nil }
        }
        return turn
    }

    /// - Parameters:
    ///   - deciding: The requests are decided without the lock of the hub, as long as no other hub comes in between.
    ///   - splits: Number of times that the requests may still be divided (``inHalves(_:_:splits:at:)``).
    private func answer(
        _ requests: [HubRequest], _ writing: TransactionPurpose, deciding: Bool, splits: Int = Hub.splitsMax, at now: Timestamp
    ) -> Turn {
        var responses: [HubResponse] = []
        var (tries, histories) = (0, 0)
        var needsLock = !deciding
        latest = now
        while true {
            let before = state
            var isCommitting = false
            tries += 1
            let isDecided = !needsLock && tries <= Hub.decisionsMax
            do throws(DatabaseError) {
                responses =
                    isDecided
                    ? try decide(requests, writing, &isCommitting, at: now) : try attempt(requests, writing, &isCommitting, at: now)
                guard let evidence = witness.take() else { break }
                // Nothing of it was committed. In the new history the evidence proves nothing any more, so this ends.
                state = before
                histories += 1
                guard histories <= Hub.historiesMax else {
                    throw DatabaseError(.contended, doing: "begin a new history", detail: "it has begun \(histories - 1) times at once")
                }
                try renew(upon: evidence, at: now)
                continue
            } catch {
                witness.found = nil
                needsLock = store.takeNeedOfLock() || needsLock
                // A caller that will try again has nothing to report yet. A decision that waits for the lock has not begun to commit.
                let isHeld = writing == .writingIfFree && error.kind == .busy && (!isCommitting || isDecided)
                let isOfOne = requests.count > 1 && mayBeOfOne(error, isCommitting)
                let isOvertaken = isDecided && error.kind == .contended
                abandon(error, isReported: !isHeld && !isOfOne && !isOvertaken)
                state = before
                if isHeld { return Turn(responses: [], isHeld: true) }
                // Another hub has changed what one of them rests on. A record that many change must not send all of them to the lock.
                if isOvertaken, !needsLock, requests.count > 1, splits > 0 {
                    return inHalves(requests, writing, splits: splits - 1, at: now)
                }
                // One request fails their common transaction, so each runs alone and the others succeed.
                if isOfOne { return Turn(responses: requests.flatMap { alone($0, deciding: isDecided, at: now) }) }
                if mayRepeat(error, tries, isCommitting, at: now) { continue }
                responses = requests.map { _ in Hub.finish(HubResponse(Hub.unavailable(error)), at: now) }
                break
            }
        }
        for damage in store.takeDamage() { report?(damage) }
        markShownTokens(at: now)
        recordKeeping(at: now)
        claimFolder()
        for (request, response) in zip(requests, responses) { traffic.count(request, response) }
        return Turn(responses: responses)
    }

    /// Decides the first half of the requests, and then the second one.
    private func inHalves(_ requests: [HubRequest], _ writing: TransactionPurpose, splits: Int, at now: Timestamp) -> Turn {
        if isDown { reopen(at: now) }
        let middle = requests.count / 2
        var turn = answer(Array(requests[..<middle]), writing, deciding: true, splits: splits, at: now)
        if turn.isHeld { return turn }
        let rest = answer(Array(requests[middle...]), writing, deciding: true, splits: splits, at: now)
        turn.responses += rest.responses
        turn.isHeld = rest.isHeld
        return turn
    }

    private func alone(_ request: HubRequest, deciding: Bool, at now: Timestamp) -> [HubResponse] {
        if isDown { reopen(at: now) }
        return answer([request], .writing, deciding: deciding, at: now).responses
    }

    private func attempt(
        _ requests: [HubRequest], _ writing: TransactionPurpose, _ isCommitting: inout Bool, at now: Timestamp
    ) throws(DatabaseError) -> [HubResponse] {
        var responses: [HubResponse] = []
        // Public endpoints need no transaction: the database may be far away or broken.
        if requests.allSatisfy({ !$0.asksDatabase }) {
            for request in requests { responses.append(try answer(request, at: now)) }
            return responses
        }
        let writes = requests.contains { $0.writes }
        try begin(writes ? writing : .reading)
        // Another replica has written records without their links: a question for a file waits until they are there.
        if !writes, state.linked < state.head, requests.contains(where: { Endpoint.find($0.path) == .blob }) {
            try store.database.rollback()
            try begin(writing)
        }
        if writes { try openIfNeeded(at: now) }
        var (waiting, start) = (requests, 0)
        while start < waiting.count {
            let end = writes ? endOfGroup(from: start, in: &waiting) : waiting.count
            if writes {
                store.openGroup(head: state.head)
                try readAhead(Array(waiting[start..<end]), at: now)
            }
            for index in start..<end {
                responses.append(try isolated(waiting[index], alone: waiting.count == 1, at: now))
                waiting[index].push = nil
            }
            start = end
            if try givesUpForEvidence() { return [] }
            try flush()
            store.closeGroup()
        }
        isCommitting = true
        try commit()
        return responses
    }

    /// Returns whether to repeat the transaction now: after a conflict of two transactions, or when the connection was cut before the
    /// commit. A commit whose answer was lost may have succeeded, so the devices must ask.
    private func mayRepeat(_ error: DatabaseError, _ tries: Int, _ isCommitting: Bool, at now: Timestamp) -> Bool {
        guard store.database.isShared else { return false }
        switch error.kind {
        case .contended: return tries < Hub.triesMax && !isDown
        case .lost where !isCommitting && tries == 1:
            reopen(at: now)
            return !isDown
        case .busy, .lost, .full, .io, .corrupt, .readOnly, .cannotOpen, .foreign, .other: return false
        }
    }

    /// Returns whether one of several requests may have failed all of them without any effect. A server reports an error in a row only when
    /// the following commit is awaited; a disk that fails a commit reports no cause.
    private func mayBeOfOne(_ error: DatabaseError, _ isCommitting: Bool) -> Bool {
        isCommitting ? store.database.isShared && error.kind == .other : error.mayBeOfOneRequest
    }

    static let triesMax = 5
    /// Largest number of new histories for one transaction; one is normal.
    private static let historiesMax = 3

    /// Gives up the present transaction when a request of it has carried evidence (``HubWitness``).
    ///
    /// - Returns: `true`: nothing of it was committed.
    func givesUpForEvidence() throws(DatabaseError) -> Bool {
        guard witness.found != nil else { return false }
        store.closeGroup()
        try store.database.rollback()
        endTokenChange(committed: false)
        notices = []
        return true
    }

    /// Runs one request; its failure undoes its own writes only.
    func isolated(_ request: HubRequest, alone: Bool, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        // A request outside the group must see all writes: it may read any table.
        guard Endpoint.find(request.path)?.writesInGroup == true else {
            let isGrouping = store.group != nil
            try flush()
            store.closeGroup()
            let response = try savepointed(request, alone: alone, at: now)
            if isGrouping { store.openGroup(head: state.head) }
            return response
        }
        let before = state
        do throws(DatabaseError) {
            let response = try answer(request, at: now)
            store.group?.keepRequest()
            return response
        } catch {
            // A server has aborted the whole transaction.
            if alone || store.database.isShared { throw error }
            report?(HubError(error))
            store.group?.dropRequest()
            state = before
            endTokenChange(committed: false)
            return Hub.finish(HubResponse(Hub.unavailable(error)), at: now)
        }
    }

    private func savepointed(_ request: HubRequest, alone: Bool, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        if alone || !request.writes { return try answer(request, at: now) }
        let before = state
        try store.database.execute("SAVEPOINT request")
        do throws(DatabaseError) {
            let response = try answer(request, at: now)
            // Its failures must be known before the next request begins.
            try store.database.waitForWrites()
            try store.database.execute("RELEASE SAVEPOINT request")
            return response
        } catch {
            // The failure is not this request's own, but one of the connection or of the whole transaction.
            if [.lost, .contended].contains(error.kind) { throw error }
            report?(HubError(error))
            try store.database.execute("ROLLBACK TO SAVEPOINT request")
            try store.database.execute("RELEASE SAVEPOINT request")
            state = before
            endTokenChange(committed: false)
            if settings.keepsTokens { try readTokens() }
            return Hub.finish(HubResponse(Hub.unavailable(error)), at: now)
        }
    }
}
