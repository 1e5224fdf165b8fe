extension AgentClient {
    /// Waits until a mutation has come to rest: delivered, in conflict, rejected, parked, expired and so on.
    ///
    /// - Throws: `deadlinePassed` if it is still open after `timeout`. It stays in the outbox.
    public func wait(for id: String, timeout: Duration = .seconds(60)) async throws(EdgeSyncError) -> MutationItem {
        try await wait(forAll: [id], timeout: timeout)[0]
    }

    /// Waits until all of these mutations have come to rest, at most 10,000. One connection serves all of them.
    ///
    /// - Returns: The mutations, in the order of their ids.
    /// - Throws: `deadlinePassed` if one of them is still open after `timeout`.
    public func wait(forAll ids: [String], timeout: Duration = .seconds(60)) async throws(EdgeSyncError) -> [MutationItem] {
        guard ids.count <= Limits.waitedMutations else {
            throw .invalidArgument("one call waits for at most \(Limits.waitedMutations) mutations")
        }
        let call = try session.call(timeout)
        let reader = FeedReader(session, [.mutation], entity: nil, after: nil, end: .monotonicNow() + timeout)
        var watch = Watch(ids)
        var failures = 0
        // The feed says when to look, and the mutation itself says what there is to see. So nothing is missed, however the
        // connection breaks. While the agent gives no feed because too many are read already, it is asked at the pace that it names.
        do throws(EdgeSyncError) {
            try await watch.look(watch.open, session, call)
            while !watch.open.isEmpty {
                do {
                    let event = try await reader.next()
                    failures = 0
                    switch event.content {
                    case .reload: try await watch.look(watch.open, session, call)
                    case .mutation(let change): try await watch.look(watch.concerned(by: change.id), session, call)
                    case .record, .conflict, .file, .other: break
                    }
                } catch {
                    failures += 1
                    let failure = RetryPolicy.Failure(
                        error: error, tries: failures, wasSent: true, isRepeatable: true, wasConnected: session.wasConnected,
                        elapsed: call.elapsed, left: nil)
                    guard let wait = session.policy.decide(failure, draw: session.environment.draw()) else { throw error }
                    try await session.pause(min(wait, try call.left()))
                    try await watch.look(watch.open, session, call)
                }
            }
        } catch {
            throw error.kind == .deadlinePassed ? watch.tooLate(timeout) : error
        }
        return watch.settled(ids)
    }
}

/// The mutations that one call waits for.
private struct Watch {
    /// Ids of the mutations that are still open, in the order of the caller.
    private(set) var open: [String]
    private var items: [String: MutationItem] = [:]

    init(_ ids: [String]) {
        var seen: Set<String> = []
        open = ids.filter { seen.insert($0).inserted }
    }

    /// The open mutations that an event about a mutation concerns: that one, and those that were merged into it.
    func concerned(by id: String) -> [String] { open.filter { $0 == id || items[$0]?.into == id } }

    /// Reads these mutations.
    mutating func look(_ ids: [String], _ session: Session, _ call: Call) async throws(EdgeSyncError) {
        for id in ids { items[id] = try await session.mutation(id, try call.left()) }
        if !ids.isEmpty { open.removeAll { items[$0].map { $0.outcome != .open } ?? false } }
    }

    func settled(_ ids: [String]) -> [MutationItem] { ids.compactMap { items[$0] } }

    func tooLate(_ timeout: Duration) -> EdgeSyncError {
        guard let id = open.first else { return .deadlinePassed("there was no answer within \(timeout)") }
        let more = open.count > 1 ? ", and \(open.count - 1) more are open" : ""
        let state = items[id].map { "\($0.state)" } ?? "not known"
        var error = EdgeSyncError.deadlinePassed(
            "the state of the mutation \(id) is \(state) after \(timeout)\(more)",
            nextStep: "wait again, or see why it waits: agentctl why \(id)")
        error.command = "agentctl why \(id)"
        return error
    }
}
