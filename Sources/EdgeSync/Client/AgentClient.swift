/// The agent's API for apps of the gateway.
///
///     let agent = try AgentClient()
///     let receipt = try await agent.enqueue(.upsert("work_orders", "wo-1", ["status": "done"]))
///     try await agent.wait(for: receipt.id).requireDelivered()
///
/// Each call repeats itself, with the same idempotency key, while the agent cannot be reached or is busy, until its deadline.
/// A call that must not be applied twice (``retry(_:data:without:cascade:deadline:)``, ``discard(_:reason:deadline:)``,
/// ``undo(_:dryRun:deadline:)`` and the decision of a conflict) is repeated only while the agent has certainly not applied it.
///
/// Every error is an ``EdgeSyncError``. The cancellation of a task ends its call with the kind `cancelled`. Calls may run at
/// the same time; at most 4 requests of one client do, and the others wait.
public struct AgentClient: Sendable {
    let session: Session

    /// - Parameters:
    ///   - socket: Path of the agent's socket. `nil` stands for the environment variable `AGENTD_SOCKET`, or else for
    ///     `/run/agentd/agent.sock`.
    ///   - schemas: Version of the schema, from 1 to 1,000,000, in which this app writes and reads an entity, by entity; at most 100. The
    ///     agent converts in both directions. An entity that is not named has the version that the agent's configuration gives to apps, or
    ///     else the present one. A version that the agent does not accept refuses a call with `validation` and the pointer `/schema`.
    ///   - deadline: Time that a call may take with all its tries, unless the call names its own.
    /// - Throws: `invalidArgument` if the path cannot be one of a socket, or for a name or version that cannot be one of a schema.
    public init(
        socket: String? = nil, schemas: [String: Int] = [:], deadline: Duration = .seconds(30), policy: RetryPolicy = RetryPolicy()
    ) throws(EdgeSyncError) {
        try self.init(socket: socket, schemas: schemas, deadline: deadline, policy: policy, environment: .system)
    }

    package init(
        socket: String?, schemas: [String: Int] = [:], deadline: Duration, policy: RetryPolicy, environment: Environment
    ) throws(EdgeSyncError) {
        session = Session(
            socketPath: try UnixSocket.path(socket), fields: try Request.fields(schemas: schemas), deadline: deadline,
            policy: policy, environment: environment)
        // A deadline that is none fails here, and not at the first call.
        _ = try session.call(nil)
    }

    public var socketPath: String { session.socketPath }

    // MARK: The agent itself

    /// Reads the state of the agent.
    public func status(deadline: Duration? = nil) async throws(EdgeSyncError) -> Status {
        try await session.ask(try Request("GET", "/v1/status"), deadline) { it throws(EdgeSyncError) in try Status(it) }
    }

    /// Tells whether the first download is complete.
    public func readiness(deadline: Duration? = nil) async throws(EdgeSyncError) -> Readiness {
        do {
            return try await session.ask(try Request("GET", "/v1/readyz"), deadline) { it throws(EdgeSyncError) in
                try Readiness(it)
            }
        } catch {
            // "Not yet" is an answer here, although it has the status of a refusal.
            guard error.status == 503, error.members["ready"] != nil else { throw error }
            return try Readiness(try Members(.object(error.members)))
        }
    }

    /// Explains why a mutation or a file waits, and what would let it go.
    public func why(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> Why {
        try await session.ask(try Request("GET", try Request.path("why", id)), deadline) { it throws(EdgeSyncError) in
            try Why(it)
        }
    }
}
