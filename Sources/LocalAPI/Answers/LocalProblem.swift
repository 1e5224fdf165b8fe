package import SyncCore

/// The codes of the local API: each with its HTTP status, the possible action, and the exit status of `agentctl`.
///
/// This is the only table. A code is added only when a caller would act on it.
package enum LocalProblem: String, Sendable, CaseIterable {
    case malformed
    case unknownMember = "unknown-member"
    case forbidden
    case entityNotAllowed = "entity-not-allowed"
    case notFound = "not-found"
    case methodNotAllowed = "method-not-allowed"
    case timeout
    case exists
    case deleted
    /// The device has dropped the document of the record (`entities.NAME.keep`).
    case notKept = "not-kept"
    case alreadySent = "already-sent"
    /// The hub does not have the mutation, or never accepted it: there is nothing to undo.
    case notAccepted = "not-accepted"
    case alreadyUndone = "already-undone"
    case nothingToUndo = "nothing-to-undo"
    case alreadyResolved = "already-resolved"
    case versionMismatch = "version-mismatch"
    /// The record has changed since its author read it (`If-Match`, `if_match`).
    case preconditionFailed = "precondition-failed"
    /// A record shows this file, and its bytes are not at the server yet.
    case linked
    case idempotencyMismatch = "idempotency-mismatch"
    case paused
    case tooLarge = "too-large"
    case unsupportedMediaType = "unsupported-media-type"
    case validation
    case rate
    /// The outcome is unknown because a write to disk failed.
    case outcomeUnknown = "outcome-unknown"
    case starting
    /// There is no usable configuration; the detail names the missing or wrong part.
    case notConfigured = "not-configured"
    case readOnly = "read-only"
    /// A read scanned so many records that it ran out of time.
    case tooSlow = "too-slow"
    /// The answer needs the hub, which cannot be asked now.
    case hubUnavailable = "hub-unavailable"
    /// The file comes from the hub and is not whole on this device yet.
    case blobFetching = "blob-fetching"
    /// The file could not be fetched from the hub, and is not tried again by itself at once.
    case blobNotFetched = "blob-not-fetched"
    case queueFull = "queue-full"
    case diskFull = "disk-full"

    package var status: Int {
        switch self {
        case .malformed, .unknownMember: 400
        case .forbidden, .entityNotAllowed: 403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .timeout: 408
        case .exists, .deleted, .notKept, .alreadySent, .notAccepted, .alreadyUndone, .nothingToUndo, .alreadyResolved, .versionMismatch,
            .idempotencyMismatch, .paused, .linked, .blobNotFetched:
            409
        case .preconditionFailed: 412
        case .tooLarge: 413
        case .unsupportedMediaType: 415
        case .validation: 422
        case .rate: 429
        case .outcomeUnknown: 500
        case .starting, .notConfigured, .readOnly, .tooSlow, .hubUnavailable, .blobFetching: 503
        case .queueFull, .diskFull: 507
        }
    }

    /// The possible action of the person at the keyboard, or of the app's author.
    package var hint: String {
        switch self {
        case .malformed, .unknownMember: "correct the request; nothing was changed by it"
        case .forbidden: "ask for a higher role under `access` in the agent's configuration"
        case .entityNotAllowed: "the access rules do not give this app that entity, or it is read only"
        case .notFound: "check the name; `agentctl mutations list` and `agentctl query ENTITY` list the existing ones"
        case .methodNotAllowed: "use one of the methods in `allow`"
        case .timeout: "send the whole request without pauses"
        case .exists: "use the action `update` or `upsert`"
        case .deleted: "create the record again if it should come back"
        case .notKept: "`agentctl get --fetch` brings it back from the hub"
        case .alreadySent: "it is on its way; once the hub has it, `agentctl undo` takes it back"
        case .notAccepted: "only changes that the hub has accepted can be undone"
        case .alreadyUndone: "undo the change in `by` to have this one again"
        case .nothingToUndo: "make another change that corrects the record; `left` names what stays, and why"
        case .alreadyResolved: "nothing is left to decide; `agentctl conflicts show` names who decided"
        case .versionMismatch: "read the record again and decide anew"
        case .preconditionFailed: "read the record again, decide anew, and send the etag of that read"
        case .linked: "wait until it is uploaded (`agentctl blobs show`)"
        case .idempotencyMismatch: "use a new Idempotency-Key for a new body"
        case .paused: "`agentctl resume`, or wait for the end of the pause"
        case .tooLarge: "make it smaller; large content belongs into a file"
        case .unsupportedMediaType: "send UTF-8 JSON as application/json, without a content encoding"
        case .validation: "correct the fault named above; nothing was changed"
        case .rate: "wait as long as Retry-After says"
        case .outcomeUnknown: "repeat it with the same Idempotency-Key, then read what is stored"
        case .starting: "try again in a second"
        case .notConfigured: "correct the file; `agentctl config check` lists further faults, and agentd continues by itself"
        // The detail has named the reason: a failing disk, a database of a newer program, a damaged record.
        case .readOnly: "reads still work; `agentctl status` and `agentctl doctor` show more"
        case .tooSlow: "`agentctl query --explain` with the same conditions names the index that would make it fast"
        case .hubUnavailable: "`agentctl status` shows when the hub can be asked again; then repeat the request"
        case .blobFetching: "repeat the request, with ?wait=30s to be answered as soon as the file is here"
        case .blobNotFetched: "`agentctl blobs fetch` tries it again"
        case .queueFull: "wait until the hub has accepted some of the queue"
        case .diskFull: "free some space on the disk of the agent"
        }
    }

    /// The hint for one problem, which may be more specific than its code: the fate of the change, or the setting that caused it.
    package static func hint(_ problem: Problem) -> String {
        guard let known = LocalProblem(problem) else { return "" }
        if known == .notFound, let list = problem.members["list"]?.text { return "`\(PlainText.safe(list))` lists what is there" }
        if known == .notKept, let entity = problem.members["entity"]?.text, let id = problem.members["record_id"]?.text {
            return "`agentctl get --fetch \(PlainText.safe(entity)) \(PlainText.safe(id))` brings it back from the hub"
        }
        if known == .deleted, let refused = problem.members["mutation"]?.text {
            return "`agentctl rejected show \(PlainText.safe(refused))` lists the possible decisions; or create the record again"
        }
        if known == .alreadyUndone, let by = problem.members["by"]?.text {
            return again(PlainText.safe(by), problem.members["state"]?.text.flatMap { MutationState(name: $0) } ?? .done)
        }
        if known == .queueFull, let setting = problem.members["setting"]?.text { return known.hint + ", or raise " + setting }
        if known == .linked, let blob = problem.members["blob"]?.text {
            let id = PlainText.safe(blob)
            return "wait until it is uploaded (`agentctl blobs show \(id)`), or give its bytes up: `agentctl blobs remove \(id) --force`"
        }
        guard known == .alreadySent, let state = problem.members["state"]?.text.flatMap({ MutationState(name: $0) }) else {
            return known.hint
        }
        switch state {
        case .inFlight: return known.hint
        case .done: return "it is at the hub: `agentctl undo` takes it back"
        case .pending:
            return "it waits to be sent: `agentctl why` shows the reason, `agentctl mutations cancel` takes it back if it was never sent"
        case .conflicted: return "`agentctl conflicts` lists the decisions that wait"
        case .rejected, .failed, .held: return "`agentctl rejected show` lists the possible decisions"
        case .coalesced, .superseded: return "it is part of another change by now: `agentctl mutations show` names it"
        case .resolved: return "another change has taken its place: `agentctl mutations show` names it"
        case .cancelled, .discarded, .expired: return "it is settled and nothing is left to do"
        }
    }

    /// The way to have a change again that another one takes back.
    ///
    /// - Parameters:
    ///   - by: The id of that one, safe for a terminal.
    ///   - state: Its state. An older agent does not tell it.
    private static func again(_ by: String, _ state: MutationState) -> String {
        switch state {
        case .pending, .inFlight:
            "to have the change again: `agentctl mutations cancel \(by)` before it is sent, or `agentctl undo \(by)` once the hub has it"
        case .done: "to have the change again: `agentctl undo \(by)`"
        case .conflicted, .rejected, .failed, .held, .resolved, .discarded, .coalesced, .cancelled, .superseded, .expired:
            "it is \(state.name): `agentctl mutations show \(by)` shows it"
        }
    }

    /// Exit status of `agentctl` for this answer: 1 negative answer, 2 not reachable, 64 usage, 77 not allowed.
    package var exitStatus: Int32 {
        switch self {
        case .malformed, .unknownMember, .methodNotAllowed, .unsupportedMediaType: 64
        case .forbidden, .entityNotAllowed: 77
        case .starting, .notConfigured: 2
        case .notFound, .timeout, .exists, .deleted, .notKept, .hubUnavailable, .alreadySent, .notAccepted, .alreadyUndone, .nothingToUndo,
            .alreadyResolved,
            .versionMismatch,
            .preconditionFailed, .linked, .idempotencyMismatch, .paused, .tooLarge, .validation, .rate, .outcomeUnknown, .readOnly,
            .tooSlow, .blobFetching, .blobNotFetched, .queueFull, .diskFull:
            1
        }
    }

    /// - Parameter detail: One sentence for people, without a full stop.
    package func problem(
        _ detail: String, errors: [Problem.Pointer] = [], retryAfter: Int? = nil, members: JSONObject = [:]
    ) -> Problem {
        Problem(rawValue, status: status, detail: detail, errors: errors, retryAfter: retryAfter, members: members)
    }

    /// - Parameter list: The command that lists the existing ones.
    package static func notFound(_ detail: String, list: String) -> Problem {
        notFound.problem(detail, members: ["list": .string(list)])
    }

    /// The code of a problem from the socket; `nil` for a code of a newer agent.
    package init?(_ problem: Problem) {
        self.init(rawValue: problem.code)
    }

    package static let contentType = "application/problem+json"
}

extension Problem {
    /// The problem as a complete answer, with `Allow` and `Retry-After` where it carries them.
    package var localAnswer: LocalAnswer {
        var headers: HTTPHeaders = []
        if let allow = members["allow"]?.array { headers["Allow"] = allow.compactMap(\.text).joined(separator: ", ") }
        if let retryAfter { headers["Retry-After"] = String(retryAfter) }
        if status == 412, let etag = members["etag"]?.text { headers["ETag"] = etag }
        var answer = LocalAnswer(
            status, contentType: LocalProblem.contentType, headers: headers,
            body: json(prefix: Problem.localPrefix).bytes)
        answer.problemCode = code
        return answer
    }
}
