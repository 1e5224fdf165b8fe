package import SyncCore

/// The agent's local API as calls. It is the only client, used by `agentctl`, the benchmark and the tests.
///
/// It has no state and never retries, except in ``watch(_:after:pause:onEvent:)``, which reconnects.
package struct AgentClient: Sendable {
    package let socketPath: String
    let transport: any HTTPTransport

    package init(transport: any HTTPTransport, socketPath: String) {
        self.transport = transport
        self.socketPath = socketPath
    }

    /// Largest answer that is read completely, bytes: a page of 1,000 records.
    static let answerBytesMax = 64 << 20

    // MARK: Changes

    /// - Parameters:
    ///   - key: Value of `Idempotency-Key`; with it the call may be repeated.
    ///   - wait: Time to wait for the hub's verdict; the reply's `status` is 202 when it did not come in time.
    package func enqueue(
        _ mutation: NewMutation, key: String? = nil, wait: Duration? = nil
    ) async throws(AgentError) -> Reply<EnqueueAnswer> {
        try await enqueue(body: MutationBody.bytes(mutation), key: key, wait: wait)
    }

    /// Enqueues a body that is JSON already.
    package func enqueue(
        body: [UInt8], key: String? = nil, wait: Duration? = nil
    ) async throws(AgentError) -> Reply<EnqueueAnswer> {
        var headers: HTTPHeaders = []
        if let key { headers["Idempotency-Key"] = key }
        return try await call(.enqueue(wait: wait), headers: headers, body: body, patience: wait ?? .zero) {
            EnqueueAnswer($0)
        }
    }

    package func mutations(_ query: MutationListQuery) async throws(AgentError) -> Reply<MutationListPage> {
        try await call(.mutations(query)) { MutationListPage($0) }
    }

    package func mutation(_ key: MutationKey) async throws(AgentError) -> Reply<MutationItem> {
        try await call(.mutation(key)) { MutationItem($0) }
    }

    /// The reply names all cancelled mutations; an older agent names none.
    package func cancel(_ key: MutationKey) async throws(AgentError) -> Reply<[MutationKey]> {
        try await call(.cancelMutation(key)) { ($0.object?["cancelled"]?.array ?? []).compactMap { $0.text.flatMap { MutationKey($0) } } }
    }

    /// The reply is about the new mutation.
    package func retry(
        _ key: MutationKey, _ body: RetryBody = RetryBody()
    ) async throws(AgentError) -> Reply<EnqueueAnswer> {
        try await call(.retryMutation(key), body: body.bytes) { EnqueueAnswer($0) }
    }

    package func discard(
        _ key: MutationKey, _ body: DiscardBody = DiscardBody()
    ) async throws(AgentError) -> Reply<Void> {
        try await call(.discardMutation(key), body: body.bytes) { _ in () }
    }

    package func undo(_ key: MutationKey, _ body: UndoBody = UndoBody()) async throws(AgentError) -> Reply<UndoReport> {
        try await call(.undoMutation(key), body: body.bytes) { UndoReport($0) }
    }

    package func progress(_ name: RecordName) async throws(AgentError) -> Reply<ProgressAnswer> {
        try await call(.progress(name)) { ProgressAnswer($0) }
    }

    package func conflicts(_ query: ConflictListQuery) async throws(AgentError) -> Reply<ConflictListPage> {
        try await call(.conflicts(query)) { ConflictListPage($0) }
    }

    package func conflict(_ id: ConflictID) async throws(AgentError) -> Reply<ConflictItem> {
        try await call(.conflict(id)) { ConflictItem($0) }
    }

    package func resolve(_ id: ConflictID, _ decision: ConflictDecision) async throws(AgentError) -> Reply<ResolveAnswer> {
        try await call(.resolveConflict(id), body: ResolveBody.bytes(decision)) { ResolveAnswer($0) }
    }

    // MARK: The mirror

    /// - Parameter fetches: Ask the hub for the document if it is not kept on this device.
    package func record(
        _ name: RecordName, view: RecordView = .merged, fetches: Bool = false
    ) async throws(AgentError) -> Reply<RecordAnswer> {
        try await call(.record(name, view: view, fetches: fetches)) { RecordAnswer($0) }
    }

    package func query(_ query: RecordListQuery) async throws(AgentError) -> Reply<RecordListPage> {
        try await call(.query, body: QueryBody.bytes(query)) { RecordListPage($0) }
    }

    package func explain(_ query: RecordListQuery) async throws(AgentError) -> Reply<QueryExplanation> {
        var query = query
        query.explains = true
        return try await call(.query, body: QueryBody.bytes(query)) { QueryExplanation($0) }
    }

    package func entities() async throws(AgentError) -> Reply<[JSON]> {
        try await call(.entities) { $0.array }
    }

    // MARK: Control and observation

    package func status() async throws(AgentError) -> Reply<StatusDocument> {
        try await call(.status) { StatusDocument($0) }
    }

    package func health() async throws(AgentError) -> Reply<Void> {
        try await call(.health) { _ in () }
    }

    /// - Throws: `.refused` with the code `starting` while it is not ready.
    package func ready() async throws(AgentError) -> Reply<Void> {
        try await call(.ready) { _ in () }
    }

    package func metrics() async throws(AgentError) -> String {
        let doing = Self.doing(.metrics)
        let response = try await send(.metrics, headers: [], body: nil, patience: .zero)
        guard response.status == 200 else { throw AgentError.refused(doing, Self.problem(response)) }
        return String(decoding: response.body, as: UTF8.self)
    }

    /// Returns a compressed tar file.
    package func diagnose() async throws(AgentError) -> [UInt8] {
        let response = try await send(.diagnose, headers: [], body: nil, patience: .zero)
        guard response.status == 200 else { throw AgentError.refused(Self.doing(.diagnose), Self.problem(response)) }
        return response.body
    }

    package func sync(_ body: SyncBody) async throws(AgentError) -> Reply<SyncAnswer> {
        // A cycle has a budget of its own, and files come on top; an hour ends an abandoned wait.
        try await call(.sync, body: body.bytes, patience: body.waits ? .seconds(3_600) : .zero) { SyncAnswer($0) }
    }

    package func pause(_ body: PauseBody) async throws(AgentError) -> Reply<PauseAnswer> {
        try await call(.pause, body: body.bytes) { PauseAnswer($0) }
    }

    package func resume() async throws(AgentError) -> Reply<PauseAnswer> {
        try await call(.resume, body: Array("{}".utf8)) { PauseAnswer($0) }
    }

    package func acknowledge(_ body: AcknowledgeBody) async throws(AgentError) -> Reply<AcknowledgeAnswer> {
        try await call(.acknowledge, body: body.bytes) { AcknowledgeAnswer($0) }
    }

    package func config() async throws(AgentError) -> Reply<ConfigAnswer> {
        try await call(.config) { ConfigAnswer($0) }
    }

    /// - Throws: `.refused` with a 422 problem that names the place of the fault.
    package func checkConfig(_ body: ConfigCheckBody) async throws(AgentError) -> Reply<Void> {
        try await call(.checkConfig, body: body.bytes) { _ in () }
    }

    package func reloadConfig() async throws(AgentError) -> Reply<ReloadAnswer> {
        try await call(.reloadConfig) { ReloadAnswer($0) }
    }

    // MARK: Links, power, cost, and why

    package func links() async throws(AgentError) -> Reply<LinksAnswer> {
        try await call(.links) { LinksAnswer($0) }
    }

    /// - Parameter name: Name of the interface, which may not exist yet.
    package func hint(_ name: LinkName, _ body: LinkHintBody) async throws(AgentError) -> Reply<LinkHintAnswer> {
        try await call(.hintLink(name), body: body.bytes) { LinkHintAnswer($0) }
    }

    package func clearHint(_ name: LinkName) async throws(AgentError) -> Reply<LinkHintAnswer> {
        try await call(.clearLinkHint(name)) { LinkHintAnswer($0) }
    }

    package func power() async throws(AgentError) -> Reply<PowerAnswer> {
        try await call(.power) { PowerAnswer($0) }
    }

    package func checklist() async throws(AgentError) -> Reply<DoctorAnswer> {
        try await call(.checklist) { DoctorAnswer($0) }
    }

    package func audit(_ query: AuditQuery) async throws(AgentError) -> Reply<AuditAnswer> {
        try await call(.audit(query)) { AuditAnswer($0) }
    }

    package func ledger(_ query: LedgerQuery) async throws(AgentError) -> Reply<LedgerAnswer> {
        try await call(.ledger(query)) { LedgerAnswer($0) }
    }

    package func why(_ key: MutationKey) async throws(AgentError) -> Reply<WhyAnswer> {
        try await call(.why(key)) { WhyAnswer($0) }
    }

    /// Asks for a plan, which sends nothing to the hub.
    package func plan(_ body: PlanBody) async throws(AgentError) -> Reply<PlanAnswer> {
        try await call(.plan, body: body.bytes) { PlanAnswer($0) }
    }

    // MARK: One request

    func call<Value>(
        _ route: Route, headers: HTTPHeaders = [], body: [UInt8]? = nil, patience: Duration = .zero,
        _ read: (JSON) -> Value?
    ) async throws(AgentError) -> Reply<Value> {
        let doing = Self.doing(route)
        let response = try await send(route, headers: headers, body: body, patience: patience)
        guard (200...299).contains(response.status) else { throw AgentError.refused(doing, Self.problem(response)) }
        let json: JSON
        do throws(JSONError) {
            json = try JSONReader.read(response.body, limits: .answer)
        } catch {
            throw AgentError.badAnswer(doing, "the answer is not JSON: \(error)")
        }
        guard let value = read(json) else { throw AgentError.badAnswer(doing, "the answer lacks required members") }
        return Reply(status: response.status, value: value, body: response.body)
    }

    private func send(
        _ route: Route, headers: HTTPHeaders, body: [UInt8]?, patience: Duration
    ) async throws(AgentError) -> HTTPResponse {
        var request = request(route, headers: headers)
        if let body {
            request.headers["Content-Type"] = LocalAnswer.json
            request.body = .bytes(body)
        }
        request.deadlines.firstByte = .seconds(30) + patience
        request.deadlines.idle = .seconds(30) + patience
        request.deadlines.total = .seconds(120) + patience
        do throws(TransportError) {
            return try await transport.send(request)
        } catch {
            throw AgentError.transport(Self.doing(route), socket: socketPath, error)
        }
    }

    func request(_ route: Route, headers: HTTPHeaders = []) -> HTTPRequest {
        let target = RouteTarget(route)
        var request = HTTPRequest(
            target.method, "http://localhost" + target.target, headers: headers, socketPath: socketPath,
            maxResponseBytes: Self.answerBytesMax)
        // A local socket accepts at once or not at all.
        request.deadlines.connect = .seconds(5)
        return request
    }

    static func doing(_ route: Route) -> String {
        let target = RouteTarget(route)
        return "\(target.method.rawValue) \(target.target)"
    }

    static func problem(_ response: HTTPResponse) -> Problem {
        problem(status: response.status, body: response.body)
    }

    /// The problem in an answer that is not 2xx; a generic one when the body has none.
    static func problem(status: Int, body: [UInt8]) -> Problem {
        // Without a problem document in the body, only the status is known.
        guard let json = try? JSONReader.read(body, limits: .answer), json.object?["type"] != nil else {
            return Problem("unknown", status: status, detail: "the agent answered with status \(status)")
        }
        return Problem(json)
    }
}

/// An answer of the agent: its value, and the JSON as received for callers that need it.
package struct Reply<Value> {
    package var status: Int
    package var value: Value
    package var body: [UInt8]
}

extension Reply: Sendable where Value: Sendable {}

package struct MutationListPage: Hashable, Sendable {
    package var items: [MutationItem]
    /// The `after` of the next page.
    package var next: Int64?

    init?(_ json: JSON) {
        guard let list = json.object?["items"]?.array else { return nil }
        items = list.compactMap { MutationItem($0) }
        next = json.object?["next"]?.text.flatMap { Int64($0) }
    }
}

package struct RecordListPage: Hashable, Sendable {
    package var items: [RecordAnswer]
    /// The `cursor` of the next page.
    package var next: String?
    /// A sentence for an entity that is unknown.
    package var unknownEntity: String?
    /// Number of records of the entity whose documents are not kept on this device.
    package var notKept: Int64

    package init?(_ json: JSON) {
        guard let list = json.object?["items"]?.array else { return nil }
        items = list.compactMap { RecordAnswer($0) }
        next = json.object?["next"]?.text
        unknownEntity = json.object?["unknown_entity"]?.text
        notKept = json.object?["not_kept"]?.int ?? 0
    }
}
