import LocalAPI
import SyncCore
import SyncHTTP

/// The entry of the local API: the head of a request decides its route and admission; the body is read afterwards.
final class LocalAPIHandler: HTTPHandler {
    private let agent: Agent

    init(agent: Agent) {
        self.agent = agent
    }

    func admit(_ request: RequestHead) -> HTTPAdmission {
        // The admission holds closures for this loop; it never leaves it.
        nonisolated(unsafe) var admission: HTTPAdmission?
        agent.assumeIsolated { admission = $0.admit(request) }
        guard let admission else { preconditionFailure("a request was neither admitted nor refused") }
        return admission
    }
}

/// One admitted request.
struct LocalCall {
    let exchange: HTTPExchange
    let route: Route
    /// The caller's access; `nil` on the routes that every caller may use.
    let access: Access?
    let body: [UInt8]

    func answer(_ answer: LocalAnswer) {
        exchange.send(answer)
    }

    func refuse(_ problem: Problem) {
        exchange.send(problem.localAnswer)
    }
}

extension HTTPExchange {
    func send(_ answer: LocalAnswer) {
        var headers: [(String, String)] = []
        headers.reserveCapacity(answer.headers.fields.count + 1)
        for field in answer.headers.fields { headers.append((field.name, field.value)) }
        if let type = answer.contentType { headers.append(("Content-Type", type)) }
        respond(status: answer.status, headers: headers, body: answer.body)
    }
}

extension Agent {
    /// Header fields that may occur only once and that decide how a request is read.
    private static let singleFields: [StaticString] = [
        "idempotency-key", "content-type", "content-encoding", "last-event-id", "if-match", "if-none-match", "range", "repr-digest",
        "blob-source", "schema",
    ]

    func admit(_ request: RequestHead) -> HTTPAdmission {
        do throws(Problem) {
            let route = try Route.parse(method: request.method.rawValue, target: request.target)
            try mode.check(route)
            let access = try gate.admit(request.peer, to: route, now: environment.time.now().instant)
            if let name = request.repeated(among: Self.singleFields) {
                throw LocalProblem.malformed.problem("the header field \(name) came more than once, expected at most 1")
            }
            try route.body.check(
                contentType: request.header("Content-Type"), contentEncoding: request.header("Content-Encoding"),
                contentLength: request.contentLength, isChunked: request.contentLength == nil)
            switch route.body {
            case .none: return .collect(limit: 0) { [self] exchange, body in serve(exchange, route, access, body) }
            case .json(let maxBytes, _):
                return .collect(limit: maxBytes) { [self] exchange, body in serve(exchange, route, access, body) }
            case .lines: return .stream(limit: nil) { [self] exchange in serve(exchange, route, access, []) }
            case .file:
                let limit = loaded.configuration.blobs.maxSizeBytes
                let takesDescriptor = request.header(BlobSourceKind.header) == BlobSourceKind.fd.rawValue
                return .stream(limit: limit, takesDescriptor: takesDescriptor) { [self] exchange in serve(exchange, route, access, []) }
            }
        } catch {
            metrics.refused(error.code)
            return .refuse(HTTPProblem(error))
        }
    }

    private nonisolated func serve(_ exchange: HTTPExchange, _ route: Route, _ access: Access?, _ body: [UInt8]) {
        let call = LocalCall(exchange: exchange, route: route, access: access, body: body)
        assumeIsolated { $0.answer(call) }
    }

    /// Answers a call, at once or when the needed data is there.
    func answer(_ call: LocalCall) {
        // In the first moments the pause and the alarms are not loaded: the answer would be wrong.
        guard !isHearingStore || !call.route.asksEngine else { return whenHeard.append(call) }
        do throws(Problem) {
            // The wait may have shown that this route cannot be used.
            try mode.check(call.route)
            try dispatch(call)
        } catch {
            metrics.refused(error.code)
            call.refuse(error)
        }
    }

    /// Every route answers, now or later; a thrown problem is the answer.
    private func dispatch(_ call: LocalCall) throws(Problem) {
        switch call.route {
        case .welcome: call.answer(ControlAnswer.welcome(version: AgentVersion.current))
        case .reference: call.answer(try ControlAnswer.reference(environment.installedFile(ControlAnswer.referencePath)))
        case .health: call.answer(ControlAnswer.health)
        case .ready: showReadiness(call)
        case .enqueue(let wait): try enqueue(call, wait: wait)
        case .enqueueLines: try enqueueLines(call)
        case .mutations(let query): listMutations(call, query)
        case .mutation(let key): showMutation(call, key)
        case .cancelMutation(let key): cancelMutation(call, key)
        case .undoMutation(let key): try undoMutation(call, key)
        case .retryMutation(let key): try retryMutation(call, key)
        case .discardMutation(let key): try discardMutation(call, key)
        case .conflicts(let query): try listConflicts(call, query)
        case .conflict(let id): showConflict(call, id)
        case .resolveConflict(let id): try resolveConflict(call, id)
        case .record(let name, let view, let fetches):
            if fetches { try fetchRecord(call, name, view) } else { try readRecord(call, name, view) }
        case .progress(let name): try showProgress(call, name)
        case .records(let query): try readRecords(call, query)
        case .query: try readRecords(call, QueryBody.read(call.body))
        case .entities: listEntities(call)
        case .status: showStatus(call)
        case .metrics: showMetrics(call)
        case .events(let query): try streamEvents(call, query)
        case .sync: try sync(call)
        case .pause: try pause(call)
        case .resume: try resume(call)
        case .acknowledge: try acknowledgeAlarms(call)
        case .config: showConfiguration(call)
        case .checkConfig: try checkConfiguration(call)
        case .reloadConfig: reloadConfiguration(call)
        case .links: showLinks(call)
        case .hintLink(let name): try hintLink(call, name)
        case .clearLinkHint(let name): try clearLinkHint(call, name)
        case .power: showPower(call)
        case .ledger(let query): showLedger(call, query)
        case .audit(let query): showAudit(call, query)
        case .checklist: showChecklist(call)
        case .diagnose: diagnose(call)
        case .why(let key):
            if let id = BlobID(key.text) { showWhyBlob(call, id) } else { showWhy(call, key) }
        case .addBlob(let query): try addBlob(call, query)
        case .blobs(let query): listBlobs(call, query)
        case .blob(let id): showBlob(call, id)
        case .blobContent(let name, let wait): sendBlob(call, name, wait: wait)
        case .fetchBlob(let name): fetchBlob(call, name)
        case .pinBlob(let name): fetchBlob(call, name, isPinned: true)
        case .unpinBlob(let name): unpinBlob(call, name)
        case .retryBlob(let id): retryBlob(call, id)
        case .removeBlob(let id, let isForced): removeBlob(call, id, isForced: isForced)
        case .plan: try showPlan(call)
        }
    }
}

extension LocalCall {
    /// - Precondition: The route needs a role, so the gate has identified the caller.
    var peer: Access {
        guard let access else { preconditionFailure("\(route.name) was served without access") }
        return access
    }

    func checkEntity(_ entity: EntityName) throws(Problem) {
        guard peer.allows(entity) else {
            throw LocalProblem.entityNotAllowed.problem("the access rules do not give \(peer.app) the entity \(entity)")
        }
    }
}

extension Route {
    /// `true` when the answer depends on the engine's memory.
    fileprivate var asksEngine: Bool {
        switch self {
        case .status, .sync, .pause, .resume, .acknowledge, .addBlob: true
        case .enqueue, .enqueueLines, .mutations, .mutation, .cancelMutation, .retryMutation, .discardMutation, .undoMutation, .conflicts,
            .conflict, .resolveConflict, .record, .records, .progress, .query, .entities, .blobs, .blob, .blobContent, .fetchBlob, .pinBlob,
            .unpinBlob, .retryBlob, .removeBlob, .welcome, .reference, .health, .ready, .metrics, .events, .config, .checkConfig,
            .reloadConfig, .links, .hintLink, .clearLinkHint, .power, .ledger, .why, .plan, .audit, .checklist, .diagnose:
            false
        }
    }
}
