extension AgentClient {
    /// Stores one mutation.
    ///
    /// When it returns, the change is in the local copy, and on flash unless the receipt says `relaxed`. All tries have the same
    /// idempotency key: ``Mutation/key``, or else one that this call makes.
    @discardableResult
    public func enqueue(_ mutation: Mutation, deadline: Duration? = nil) async throws(EdgeSyncError) -> Receipt {
        let key = mutation.key ?? session.environment.newKey()
        let request = try Request(
            post: "/v1/mutations", try mutation.body(), fields: [("Idempotency-Key", key)], isRepeatable: true)
        return try await session.perform(request, deadline) { response throws(EdgeSyncError) in
            try Receipt(try response.members(), key: key, isRepeat: response.status == 200)
        }
    }

    /// Stores 1 to 50 mutations that belong together. All of them take effect, here and at the hub, or none.
    ///
    /// - Parameter key: Idempotency key of the list as a whole. Its members have none.
    public func enqueueAtomic(
        _ mutations: [Mutation], key: String? = nil, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> [Receipt] {
        guard (1...Limits.atomicMutations).contains(mutations.count) else {
            throw .invalidArgument(
                "an atomic list has 1 to \(Limits.atomicMutations) mutations, and this one has \(mutations.count)")
        }
        guard mutations.allSatisfy({ $0.key == nil }) else {
            throw .invalidArgument("a member of an atomic list has no key of its own; give the key to enqueueAtomic")
        }
        var bodies: [JSONValue] = []
        for mutation in mutations { bodies.append(.object(try mutation.body())) }
        let request = try Request(
            post: "/v1/mutations", ["atomic": true, "mutations": .array(bodies)],
            fields: [("Idempotency-Key", key ?? session.environment.newKey())], isRepeatable: true)
        return try await session.perform(request, deadline) { response throws(EdgeSyncError) in
            let isRepeat = response.status == 200
            let receipts = try response.members().list("results") { one throws(EdgeSyncError) in
                try Receipt(one, key: nil, isRepeat: isRepeat)
            }
            guard receipts.count == mutations.count else {
                throw .badAnswer("the agent answered \(receipts.count) of \(mutations.count) mutations")
            }
            return receipts
        }
    }

    /// Stores mutations in batches, each mutation for itself. A refused mutation does not stop the others.
    ///
    /// - Parameters:
    ///   - keyPrefix: Makes the keys `PREFIX1`, `PREFIX2` … for mutations without a key. With it the whole list can be sent again
    ///     after a crash of the app, and nothing is stored twice.
    ///   - deadline: Time of each batch.
    /// - Returns: The result of each mutation, in their order.
    /// - Throws: The reason why a batch got no answer. Batches before it are stored; repeat the call with the same `keyPrefix`.
    public func enqueue(
        contentsOf mutations: [Mutation], keyPrefix: String? = nil, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> [LineResult] {
        // All of them are encoded first, so that one which cannot be sent is told before another is stored.
        var batches = [LineBatch()]
        for (index, mutation) in mutations.enumerated() {
            let key = mutation.key ?? keyPrefix.map { "\($0)\(index + 1)" } ?? session.environment.newKey()
            if batches[batches.count - 1].isFull { batches.append(LineBatch()) }
            try batches[batches.count - 1].append(mutation, key: key, index: index)
        }
        var results: [LineResult] = []
        for batch in batches { results += try await session.send(batch, deadline) }
        return results
    }

    /// Reads a mutation with its state, data and history.
    public func mutation(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> MutationItem {
        try await session.mutation(id, deadline)
    }

    /// The mutations that the agent knows, in the order of the outbox, page by page as they are read.
    ///
    /// - Parameters:
    ///   - states: Only mutations in one of these states; all states if empty.
    ///   - app: Only mutations of this app; `me` is the app that asks.
    ///   - deadline: Time of each page.
    public func mutations(
        states: [MutationState] = [], entity: String? = nil, recordID: String? = nil, app: String? = nil,
        deadline: Duration? = nil
    ) -> Pages<MutationItem> {
        Pages { [session] after throws(EdgeSyncError) in
            let query = Request.query([
                ("state", states.isEmpty ? nil : states.map(\.rawValue).joined(separator: ",")), ("entity", entity),
                ("record_id", recordID), ("app", app), ("after", after), ("limit", String(Limits.pageItems)),
            ])
            return try await session.ask(try Request("GET", "/v1/mutations" + query), deadline) { it throws(EdgeSyncError) in
                try Page(it) { item throws(EdgeSyncError) in try MutationItem(item) }
            }
        }
    }

    /// Cancels a mutation that was not sent, with all that depend on it.
    ///
    /// - Returns: The ids of the cancelled mutations.
    /// - Throws: `alreadySent` if it is too late.
    @discardableResult
    public func cancel(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> [String] {
        let request = try Request("DELETE", try Request.path("mutations", id))
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try it.texts("cancelled") }
    }

    /// Asks again for a mutation that was refused or parked.
    ///
    /// - Parameters:
    ///   - data: Fields that replace the refused ones.
    ///   - without: Fields that the new mutation leaves alone, whatever the refused one did with them.
    ///   - cascade: Also the mutations that were refused only because of this one.
    @discardableResult
    public func retry(
        _ id: String, data: JSONObject? = nil, without: [String] = [], cascade: Bool = false, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> Receipt {
        var body: JSONObject = [:]
        if let data { body["data"] = .object(data) }
        if !without.isEmpty { body["without"] = .array(without.map { .string($0) }) }
        if cascade { body["cascade"] = true }
        let request = try Request(post: try Request.path("mutations", id, "retry"), body, isRepeatable: false)
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in
            try Receipt(it, key: nil, isRepeat: false)
        }
    }

    /// Acknowledges a mutation that was refused or parked, and drops its value.
    public func discard(_ id: String, reason: String? = nil, deadline: Duration? = nil) async throws(EdgeSyncError) {
        let body: JSONObject = reason.map { ["reason": .string($0)] } ?? [:]
        let request = try Request(post: try Request.path("mutations", id, "discard"), body, isRepeatable: false)
        try await session.ask(request, deadline) { _ throws(EdgeSyncError) in }
    }

    /// Takes back a mutation that the hub has, by a new mutation that does the opposite. Fields that were changed since then stay.
    ///
    /// - Parameter dryRun: Only report what would be taken back.
    /// - Throws: `notAccepted`, `alreadyUndone` or `nothingToUndo`.
    @discardableResult
    public func undo(_ id: String, dryRun: Bool = false, deadline: Duration? = nil) async throws(EdgeSyncError) -> UndoReport {
        // A second undo is refused, so a repeat would hide the answer of the first.
        let request = try Request(
            post: try Request.path("mutations", id, "undo"), dryRun ? ["dry_run": true] : [:], isRepeatable: dryRun)
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try UndoReport(it) }
    }
}

extension Session {
    func mutation(_ id: String, _ deadline: Duration?) async throws(EdgeSyncError) -> MutationItem {
        try await ask(try Request("GET", try Request.path("mutations", id)), deadline) { it throws(EdgeSyncError) in
            try MutationItem(it)
        }
    }
}
