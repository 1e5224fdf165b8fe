/// Handles one mutation at the backend: it chooses the request, interprets its answer, and asks again when the outcome is unknown. It
/// performs nothing; each step waits for the one answer that belongs to it.
///
/// A request that changes something is on flash before it leaves (``Step/keep(_:)``, or with the claim), so that after any crash it is
/// known what may have arrived. A definite "no" ends the exchange. Only the store may make another request of the mutation then, based on
/// the backend's present record.
package struct RestExchange: Sendable {
    package enum Step: Sendable {
        case request(RestRequest)
        /// Store the attempt durably, then call ``kept(_:)``.
        case keep(RestAttempt)
        /// Without a verdict the outcome is unknown, and the sent mutation stays in flight. A refusal gives the reason to send no more now.
        case end(RestResult.Verdict?, HubReply.Refusal?)
    }

    private enum State {
        case idle
        case sending(RestAttempt, isFirst: Bool, hasRefreshed: Bool)
        case reading(Reason)
        /// `isMade`: the backend has reported the record as created; only its id is asked for.
        case lookingUp(RestAttempt, isMade: Bool)
        case keeping(RestAttempt)
    }

    private enum Reason {
        /// The request depends on the present record.
        case planning
        /// The backend reported another version of the record. For a create it reported an existing record; the attempt is what was sent.
        /// `isFirst`: it was never sent before.
        case moved(Problem)
        case exists(Problem, RestAttempt, isFirst: Bool)
        case verifying(RestAttempt)
    }

    package let mutation: OutgoingMutation
    private let task: RestTask
    private let mapping: RestMapping
    private let entity: RestEntity
    private var state = State.idle
    private var record: RecordName { mutation.record }

    /// - Precondition: The mutation has a task.
    package init(_ mutation: OutgoingMutation, _ mapping: RestMapping) {
        self.mutation = mutation
        self.mapping = mapping
        task = mutation.rest ?? RestTask(MutationContent(mutation.action))
        entity = mapping.entities[mutation.record.entity] ?? RestEntity()
    }

    // MARK: Events

    package mutating func begin() -> Step {
        if let blocked = task.blocked { return .end(.retry(blocked, after: nil), nil) }
        if let attempt = task.attempt { return task.isFresh ? send(attempt, isFirst: true) : clear(up: attempt) }
        if task.isLost, let step = clearUpLost() { return step }
        return plan(nil)
    }

    package mutating func kept(_ isKept: Bool) -> Step {
        guard case .keeping(let attempt) = state else { return .end(nil, nil) }
        // Nothing was sent, and a request that cannot be stored must not be sent.
        guard isKept else { return .end(.notSent, nil) }
        return send(attempt, isFirst: true)
    }

    package mutating func answered(_ result: Result<HTTPResponse, TransportError>, now: Timestamp) -> Step {
        let state = state
        self.state = .idle
        switch (state, result) {
        case (.sending(_, let isFirst, _), .failure(let error)):
            let refusal = HubReply.Refusal(.transport(error.code), error.description)
            return .end(isFirst && error.code.provesNothingSent ? .notSent : nil, refusal)
        case (.sending(let attempt, let isFirst, let hasRefreshed), .success(let response)):
            return sent(attempt, isFirst: isFirst, hasRefreshed: hasRefreshed, response, now)
        case (.reading(let reason), .failure(let error)):
            return .end(inconclusive(reason), HubReply.Refusal(.transport(error.code), error.description))
        case (.reading(let reason), .success(let response)): return read(reason, response, now)
        case (.lookingUp(_, let isMade), .failure(let error)):
            return .end(
                isMade ? .held(write?.id.map { nameless($0) } ?? unknown) : nil, HubReply.Refusal(.transport(error.code), error.description)
            )
        case (.lookingUp(let attempt, let isMade), .success(let response)):
            return lookedUp(attempt, isMade: isMade, response, now)
        case (.idle, _), (.keeping, _): return .end(nil, nil)
        }
    }

    // MARK: Sending

    private mutating func plan(_ fresh: RestRemote?) -> Step {
        switch RestPlan.make(mutation, task, mapping, fresh: fresh) {
        case .refused(let problem): return .end(.rejected(problem), nil)
        case .read(let target):
            state = .reading(.planning)
            return .request(RestRequest(.get, target))
        case .send(let attempt):
            state = .keeping(attempt)
            return .keep(attempt)
        }
    }

    private mutating func send(_ attempt: RestAttempt, isFirst: Bool) -> Step {
        state = .sending(attempt, isFirst: isFirst, hasRefreshed: false)
        return .request(attempt.request)
    }

    private var write: RestEntity.Write? {
        switch task.content.action {
        case .create: entity.create
        case .update: entity.update
        case .delete: entity.delete
        }
    }

    private mutating func sent(
        _ attempt: RestAttempt, isFirst: Bool, hasRefreshed: Bool, _ response: HTTPResponse, _ now: Timestamp
    ) -> Step {
        let action = task.content.action
        // The mapping may no longer have it; then only the status decides.
        let ok = write?.ok ?? [200, 201, 202, 204]
        switch RestAnswer.read(response, to: action, ok: ok, notApplied: mapping.notApplied, now: now) {
        case .applied: return applied(attempt, response)
        case .later(let problem, let after):
            let isForAll = response.status == 429
            return .end(.retry(problem, after: after), isForAll ? Self.refusal(.overloaded, problem, response, now) : nil)
        case .moved(let problem): return moved(problem, attempt, isFirst: isFirst)
        case .gone: return .end(action == .delete ? .accepted(RestRemote()) : .moved(nil), nil)
        case .refused(let problem): return .end(.rejected(problem), nil)
        case .forbidden(let problem, isForAll: true):
            return .end(isFirst ? .notSent : nil, Self.refusal(.auth, problem, response, now))
        case .forbidden(let problem, isForAll: false):
            if hasRefreshed { return .end(.rejected(problem), nil) }
            state = .sending(attempt, isFirst: isFirst, hasRefreshed: true)
            var request = attempt.request
            request.refreshesCredentials = true
            return .request(request)
        case .elsewhere(let detail): return .end(isFirst ? .notSent : nil, HubReply.Refusal(.foreign, detail, status: response.status))
        case .unsure(let problem, let after, let isFailure):
            let kind: HubReply.Kind = response.status == 500 ? .failed : .overloaded
            return .end(
                .unsure(problem, after: after, counts: isFailure), isFailure ? Self.refusal(kind, problem, response, now) : nil)
        }
    }

    private mutating func applied(_ attempt: RestAttempt, _ response: HTTPResponse) -> Step {
        // `try?`: an answer that is no JSON shows nothing. Without an id, a create is looked up or held; without a document, it is
        // computed.
        let body = try? JSONReader.read(response.body, limits: .answer)
        let shown = write?.document.flatMap { path in body.flatMap { path.value(in: $0) } }
        var remote = entity.remote(shown, etag: write?.version?.value(of: response.headers, body))
        guard task.content.action == .create else {
            if let other = other(than: task.serverID, remote.id) { return .end(.held(other), nil) }
            remote.id = nil
            return .end(.accepted(remote), nil)
        }
        if let other = otherOwner(shown) { return .end(.held(other), nil) }
        guard let source = write?.id else {
            remote.id = .string(record.id.text)
            return .end(.accepted(remote), nil)
        }
        remote.id = Self.id(source, response, body)
        if remote.id == nil { return withoutID(attempt, source) }
        return .end(.accepted(remote), nil)
    }

    private static func id(_ source: AnswerSource, _ response: HTTPResponse, _ body: JSON?) -> JSON? {
        guard let value = source.value(of: response.headers, body).flatMap({ RestEntity.plainID($0) }) else { return nil }
        guard case .header = source, let text = value.text else { return value }
        // `Location: /audits/17/` names the record by its last part.
        let path = text.prefix { $0 != "?" && $0 != "#" }
        return path.split(separator: "/").last.map { .string(String($0)) }
    }

    /// The record was created, but the answer does not contain its id.
    private mutating func withoutID(_ attempt: RestAttempt, _ source: AnswerSource) -> Step {
        lookUp(attempt, isMade: true) ?? .end(.held(nameless(source)), nil)
    }

    private func nameless(_ source: AnswerSource) -> Problem {
        Problem(
            Problem.outcomeUnknown, status: 409, detail: "the backend made it, but its answer shows no id at \(source.text)")
    }

    private mutating func moved(_ problem: Problem, _ attempt: RestAttempt, isFirst: Bool) -> Step {
        if task.content.action == .create {
            guard let target = Planning(mutation: mutation, task: task, mapping: mapping, entity: entity, fresh: nil).lookupTarget else {
                return .end(.rejected(problem), nil)
            }
            state = .reading(.exists(problem, attempt, isFirst: isFirst))
            return .request(RestRequest(.get, target))
        }
        guard let target = readTarget else { return .end(.rejected(problem), nil) }
        state = .reading(.moved(problem))
        return .request(RestRequest(.get, target))
    }

    private var readTarget: String? {
        Planning(mutation: mutation, task: task, mapping: mapping, entity: entity, fresh: nil).readTarget
    }

    // MARK: Unknown outcomes

    private mutating func clear(up attempt: RestAttempt) -> Step {
        let doubt = RestUncertainty(
            action: task.content.action, isIdempotent: attempt.method == .put || attempt.method == .delete,
            hasKey: attempt.key != nil, window: mapping.key(of: record.entity)?.window, sinceFirst: task.sinceFirst,
            canLookUp: entity.lookup != nil, canRead: entity.read != nil)
        switch doubt.decision {
        case .resend: return send(attempt, isFirst: false)
        case .lookUp: return lookUp(attempt) ?? .end(.held(unknown), nil)
        case .read:
            guard let target = readTarget else { return .end(.held(unknown), nil) }
            state = .reading(.verifying(attempt))
            return .request(RestRequest(.get, target))
        case .hold: return .end(.held(unknown), nil)
        }
    }

    /// For a lost mutation not even the request is known.
    private mutating func clearUpLost() -> Step? {
        let window = mapping.key(of: record.entity)?.window
        switch task.content.action {
        case .create:
            if write?.isIdempotent == true || window.map({ task.sinceFirst < $0 }) == true { return nil }
            guard case .send(let attempt) = RestPlan.make(mutation, task, mapping) else { return nil }
            return lookUp(attempt) ?? .end(.held(unknown), nil)
        case .update: return task.content.operations.isEmpty ? nil : .end(.held(unknown), nil)
        case .delete: return nil
        }
    }

    private var unknown: Problem {
        Problem(
            Problem.outcomeUnknown, status: 409,
            detail: "the answer to its request was lost, and the backend can neither be asked nor be sent it again without doing it twice")
    }

    private mutating func lookUp(_ attempt: RestAttempt, isMade: Bool = false) -> Step? {
        let planning = Planning(mutation: mutation, task: task, mapping: mapping, entity: entity, fresh: nil)
        guard let target = planning.lookupTarget else { return nil }
        state = .lookingUp(attempt, isMade: isMade)
        return .request(RestRequest(.get, target))
    }

    private mutating func lookedUp(
        _ attempt: RestAttempt, isMade: Bool, _ response: HTTPResponse, _ now: Timestamp
    ) -> Step {
        switch found(response) {
        case .success(let remote?): return isMade ? .end(.accepted(remote), nil) : taken(remote, attempt, isFirst: false)
        case .success(nil):
            if isMade { return .end(.held(write?.id.map { nameless($0) } ?? unknown), nil) }
            let rest = mapping.verifyAfter - task.sinceLast
            guard rest <= .zero else { return .end(.unsure(waiting, after: rest, counts: false), nil) }
            // It never arrived. An expired key may be known to the backend for another request by now.
            state = .keeping(attempt)
            return .keep(attempt)
        case .failure(let problem):
            if isMade { return .end(.held(write?.id.map { nameless($0) } ?? unknown), nil) }
            return .end(.unsure(problem, after: nil, counts: false), Self.refusal(after: response, problem, now))
        }
    }

    private var waiting: Problem {
        Problem(
            Problem.outcomeUnknown, status: 409,
            detail: "its answer was lost; the backend does not show it, and is asked again when the request cannot be under way any more")
    }

    /// Our own record among those that a lookup shows; `nil`: it is not there.
    private func found(_ response: HTTPResponse) -> Result<RestRemote?, Problem> {
        if response.status == 404 || response.status == 410 { return .success(nil) }
        // `try?`: an answer that is no JSON is no list; the failure says so, and nothing is decided by it.
        guard (200...299).contains(response.status), let body = try? JSONReader.read(response.body, limits: .answer) else {
            return .failure(RestAnswer.problem(response))
        }
        let items = entity.lookup?.items ?? .whole
        let shown: [JSON]
        switch items.values(in: body).first {
        case .array(let list)?: shown = list
        case .object(let one)?: shown = [.object(one)]
        case nil, .null?, .bool?, .number?, .string?:
            return .failure(Problem("validation", status: 0, detail: "the answer to the lookup shows no list at \(items.text)"))
        }
        guard let name = entity.clientID else { return .success(nil) }
        // A backend that does not know the parameter lists everything.
        let ours = shown.filter { $0.object?[name]?.idText == record.id.text }
        guard let first = ours.first else { return .success(nil) }
        return .success(entity.remote(first, etag: nil))
    }

    // MARK: Reading

    private mutating func read(_ reason: Reason, _ response: HTTPResponse, _ now: Timestamp) -> Step {
        if case .exists(let problem, let attempt, let isFirst) = reason {
            return foundInstead(problem, attempt, isFirst: isFirst, response, now)
        }
        if response.status == 404 || response.status == 410 {
            if case .planning = reason, task.serverID == nil, task.base == nil { return .end(.rejected(RestAnswer.problem(response)), nil) }
            return .end(task.content.action == .delete ? .accepted(RestRemote()) : .moved(nil), nil)
        }
        // `try?`: an answer that is no JSON shows no record, so the read is inconclusive.
        let body = try? JSONReader.read(response.body, limits: .answer)
        let shown = entity.read.flatMap { read in body.flatMap { read.document.value(in: $0) } }
        guard (200...299).contains(response.status), let shown, shown.object != nil else {
            var problem = RestAnswer.problem(response)
            if (200...299).contains(response.status) {
                problem.detail = "the answer to the read shows no record at \(entity.read?.document.text ?? "$")"
            }
            return .end(inconclusive(reason, problem), Self.refusal(after: response, problem, now))
        }
        var remote = entity.remote(shown, etag: entity.read?.version?.value(of: response.headers, body))
        // The following requests would change another record.
        if let other = other(than: task.serverID, remote.id) { return .end(.held(other), nil) }
        remote.id = remote.id ?? task.serverID
        switch reason {
        case .planning: return isContested(remote) ? .end(.moved(remote), nil) : plan(remote)
        case .exists: return .end(nil, nil)
        case .moved(let problem):
            // A refusal for another reason than the version would repeat for ever.
            let isSame = problem.status == 409 && !differs(remote)
            return .end(isSame ? .rejected(problem) : .moved(remote), nil)
        case .verifying(let attempt):
            switch RestUncertainty.evidence(for: attempt, in: remote) {
            case .applied: return .end(.accepted(remote), nil)
            case .moved: return .end(.moved(remote), nil)
            case .notApplied:
                let rest = mapping.verifyAfter - task.sinceLast
                guard attempt.ifMatch != nil || rest <= .zero else { return .end(.unsure(waiting, after: rest, counts: false), nil) }
                return .end(.moved(remote), nil)
            case .unclear: return .end(.held(unknown), nil)
            }
        }
    }

    /// Handles a create that was refused because a record is there: our own, by an attempt whose answer was lost, or another writer's.
    private func foundInstead(
        _ problem: Problem, _ attempt: RestAttempt, isFirst: Bool, _ response: HTTPResponse, _ now: Timestamp
    ) -> Step {
        switch found(response) {
        case .success(let remote?): taken(remote, attempt, isFirst: isFirst)
        case .success(nil): .end(.rejected(problem), nil)
        case .failure(let found): .end(.retry(problem, after: nil), Self.refusal(after: response, found, now))
        }
    }

    /// Handles the record that is there under the id of our create. If another writer made it, the create is merged with it by the rules,
    /// as any change is merged with news, and its losses are reported. If an earlier attempt of ours made it, and others may have changed
    /// it since, the create is done.
    private func taken(_ remote: RestRemote, _ attempt: RestAttempt, isFirst: Bool) -> Step {
        guard let document = remote.document, RestUncertainty.evidence(for: attempt, in: remote) != .applied else {
            return .end(.accepted(remote), nil)
        }
        if isFirst { return .end(.moved(remote), nil) }
        // Lists may show only a part of each record.
        let shown = attempt.sent.members.filter { $0.name.text != entity.clientID && document[$0.name.text] != nil }
        guard !shown.isEmpty, !shown.contains(where: { document[$0.name.text] == $0.value }) else { return .end(.accepted(remote), nil) }
        // Values that add up may be in it already.
        return task.content.operations.isEmpty ? .end(.moved(remote), nil) : .end(.held(unknown), nil)
    }

    /// The reason why an answer about a record with that id is not about ours; `nil` where it is, or does not show its id.
    private func other(than asked: JSON?, _ shown: JSON?) -> Problem? {
        guard let asked = asked?.idText, let shown = shown?.idText, !asked.utf8.elementsEqual(shown.utf8) else { return nil }
        let names = (Printable.text(asked, max: 80), Printable.text(shown, max: 80))
        return Problem(
            Problem.otherRecord, status: 409,
            detail: "the backend was asked about \(names.0), and its answer shows \(names.1): nothing more is sent until a person decides")
    }

    /// The reason why the answer to our create shows another writer's record; `nil` where it does not, or does not show our own id.
    private func otherOwner(_ shown: JSON?) -> Problem? {
        guard let name = entity.clientID, let ours = shown?.object?[name]?.idText, !ours.utf8.elementsEqual(record.id.text.utf8)
        else { return nil }
        return Problem(
            Problem.otherRecord, status: 409,
            detail: "the answer to the creation of \(record.id) shows the record \(Printable.text(ours, max: 80)) at \(name)")
    }

    /// Returns whether another writer has changed a field that this mutation sets, removes elements from, or appends to. A removal must not
    /// remove elements that it had not seen, and a text may become too long. Only the store, which has the rules, can decide that.
    private func isContested(_ remote: RestRemote) -> Bool {
        guard let base = task.base, let document = remote.document else { return false }
        let operated = task.content.operations.lazy.filter { $0.kind == .remove || $0.kind == .append }.map(\.top)
        return (task.content.data.names + task.content.unset + operated).contains { base[$0] != document[$0] }
    }

    private func differs(_ remote: RestRemote) -> Bool {
        if let known = task.etag, let etag = remote.etag { return known != etag }
        return task.base != remote.document
    }

    /// The verdict about the mutation when a read has no answer.
    private func inconclusive(_ reason: Reason, _ problem: Problem? = nil) -> RestResult.Verdict? {
        switch (reason, problem) {
        case (.planning, nil): .notSent
        case (.planning, let problem?): .retry(problem, after: nil)
        case (.moved(let said), _), (.exists(let said, _, _), _): .retry(problem ?? said, after: nil)
        case (.verifying, nil): nil
        case (.verifying, let problem?): .unsure(problem, after: nil, counts: false)
        }
    }

    // MARK: The way to the backend

    static func refusal(_ kind: HubReply.Kind, _ problem: Problem, _ response: HTTPResponse, _ now: Timestamp) -> HubReply.Refusal {
        var facts = HubHeaders(reading: response.headers, now: now)
        // The answer comes from the backend itself, because TLS has proved its identity.
        facts.version = HubHeader.currentVersion
        return HubReply.Refusal(kind, problem.detail, facts: facts, problem: problem, status: response.status)
    }

    /// The refusal by a request that changes nothing; only faults that affect all requests count.
    package static func refusal(after response: HTTPResponse, _ problem: Problem, _ now: Timestamp) -> HubReply.Refusal? {
        switch response.status {
        case 301, 307, 308, 407, 511: HubReply.Refusal(.foreign, problem.detail, status: response.status)
        case 401: refusal(.auth, problem, response, now)
        case 408, 421, 425, 429, 502, 503, 504: refusal(.overloaded, problem, response, now)
        default: nil
        }
    }
}

extension TransportError.Code {
    /// `true` when it is certain that the peer has received no part of the request.
    package var provesNothingSent: Bool {
        switch self {
        case .unresolved, .unreachable, .untrusted, .untrustedDate, .clientCertificate, .credentials: true
        case .timedOut, .broken, .tooLarge, .malformed, .cancelled: false
        }
    }
}
