extension AgentClient {
    /// Reads one record of the local copy.
    ///
    /// - Parameter fetching: If the device does not keep the document of the record, the agent asks the hub for it.
    /// - Throws: `notFound` if there is no such record; `notKept` if its document is not kept on the device; `hubUnavailable` if the hub
    ///   could not be asked for it.
    public func record(
        _ entity: String, _ id: String, view: Record.View = .merged, fetching: Bool = false, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> Record {
        let query = Request.query([("view", view == .merged ? nil : view.rawValue), ("fetch", fetching ? "1" : nil)])
        let request = try Request("GET", try Request.path("records", entity, id) + query)
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try Record(it) }
    }

    /// Reads one record; `nil` if it still is in the state of the etag.
    public func record(
        _ entity: String, _ id: String, unless etag: String, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> Record? {
        let request = try Request("GET", try Request.path("records", entity, id), fields: [("If-None-Match", etag)])
        return try await session.perform(request, deadline) { response throws(EdgeSyncError) in
            response.status == 304 ? nil : try Record(try response.members())
        }
    }

    /// Counts how far a record is by the form that it names. The agent counts by its local copy.
    ///
    /// - Throws: `notFound` if there is no such record; `notKept` if its document is not kept on the device.
    public func progress(_ entity: String, _ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> FormProgress {
        let request = try Request("GET", try Request.path("records", entity, id, "progress"))
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try FormProgress(it) }
    }

    /// The records that match a query, page by page as they are read.
    ///
    ///     let open = Query("work_orders", where: .field("status").equals("open"), sort: ["-updated_at"])
    ///     for try await record in agent.records(open) { … }
    ///
    /// Reading throws `unknownEntity` if neither this device nor its hub knows the entity.
    ///
    /// - Parameter deadline: Time of each page.
    public func records(_ query: Query, deadline: Duration? = nil) -> Pages<Record> {
        Pages { [session] after throws(EdgeSyncError) in
            let request = try Request(post: "/v1/query", query.body(cursor: after), isRepeatable: true)
            return try await session.ask(request, deadline) { it throws(EdgeSyncError) in
                try Page(it) { item throws(EdgeSyncError) in try Record(item) }
            }
        }
    }

    /// The entities that this device has and this app may see.
    public func entities(deadline: Duration? = nil) async throws(EdgeSyncError) -> [Entity] {
        try await session.perform(try Request("GET", "/v1/entities"), deadline) { response throws(EdgeSyncError) in
            guard let values = try response.json().array else { throw .badAnswer("the answer is not a list") }
            var entities: [Entity] = []
            for (index, value) in values.enumerated() { entities.append(try Entity(try Members(value, "the answer/\(index)"))) }
            return entities
        }
    }

    // MARK: Conflicts

    /// Both sides of a conflict.
    public func conflict(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> Conflict {
        try await session.ask(try Request("GET", try Request.path("conflicts", id)), deadline) { it throws(EdgeSyncError) in
            try Conflict(it)
        }
    }

    /// The conflicts that wait for a decision, or those in one of the given states, page by page as they are read.
    ///
    /// - Parameter deadline: Time of each page.
    public func conflicts(states: [String] = [], entity: String? = nil, deadline: Duration? = nil) -> Pages<Conflict> {
        Pages { [session] after throws(EdgeSyncError) in
            let query = Request.query([
                ("state", states.isEmpty ? nil : states.joined(separator: ",")), ("entity", entity), ("after", after),
                ("limit", String(Limits.pageItems)),
            ])
            return try await session.ask(try Request("GET", "/v1/conflicts" + query), deadline) { it throws(EdgeSyncError) in
                try Page(it) { item throws(EdgeSyncError) in try Conflict(item) }
            }
        }
    }

    /// Decides a whole conflict for one side.
    ///
    /// - Parameters:
    ///   - choice: `local` or `remote`.
    ///   - expectRemoteVersion: ``Conflict/remoteVersion`` of the conflict that was looked at. A newer one refuses the decision
    ///     (`versionMismatch`).
    /// - Returns: Id of the mutation that carries the decision, if there is one.
    @discardableResult
    public func resolveConflict(
        _ id: String, choice: Conflict.Choice, comment: String? = nil, author: String? = nil,
        expectRemoteVersion: Int? = nil, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> String? {
        if case .value = choice { throw .invalidArgument("a whole conflict is decided for a side; give values by field") }
        return try await resolve(id, ["choice": choice.json], comment, author, expectRemoteVersion, deadline)
    }

    /// Decides each disputed field of a conflict.
    ///
    /// - Returns: Id of the mutation that carries the decision, if there is one.
    @discardableResult
    public func resolveConflict(
        _ id: String, fields: [String: Conflict.Choice], comment: String? = nil, author: String? = nil,
        expectRemoteVersion: Int? = nil, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> String? {
        var choices: JSONObject = [:]
        for (name, choice) in fields.sorted(by: { $0.key < $1.key }) { choices[name] = choice.json }
        return try await resolve(id, ["fields": .object(choices)], comment, author, expectRemoteVersion, deadline)
    }

    private func resolve(
        _ id: String, _ decision: JSONObject, _ comment: String?, _ author: String?, _ expectRemoteVersion: Int?,
        _ deadline: Duration?
    ) async throws(EdgeSyncError) -> String? {
        var body = decision
        if let comment { body["comment"] = .string(comment) }
        if let author { body["author"] = .string(author) }
        if let expectRemoteVersion { body["expect_remote_version"] = .integer(Int64(expectRemoteVersion)) }
        let request = try Request(post: try Request.path("conflicts", id, "resolve"), body, isRepeatable: false)
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try it.optionalText("mutation") }
    }
}
