import Glibc

/// The one error of this library: why a call did not succeed, and what to do next.
///
///     do {
///         try await agent.enqueue(change)
///     } catch where error.code == .queueFull {
///         …
///     }
public struct EdgeSyncError: Error, Sendable, Equatable {
    /// The layer at which the call failed.
    public enum Kind: String, Sendable {
        /// A value that was given to this library cannot be sent. There was no request.
        case invalidArgument = "invalid-argument"
        /// No agent accepts connections at the socket.
        case unreachable
        /// The operating system does not let this user open the socket.
        case notPermitted = "not-permitted"
        /// The connection ended, or fell silent, before the answer was complete. The request may have taken effect.
        case brokenAnswer = "broken-answer"
        /// The answer breaks HTTP, is not JSON, lacks a member that it must have, or passes a limit of this library.
        case badAnswer = "bad-answer"
        /// The time of the call was over before there was an answer. A request that was sent may have taken effect.
        case deadlinePassed = "deadline-passed"
        /// The task was cancelled. A request that was sent may have taken effect.
        case cancelled
        /// The agent answered no; ``EdgeSyncError/code`` says why.
        case refused
        /// A file of this device could not be written, such as one that ``AgentClient/saveFile(_:to:wait:deadline:)`` makes.
        case localFile = "local-file"
        /// A mutation came to rest without being delivered; see ``MutationItem/requireDelivered()``.
        case notDelivered = "not-delivered"
    }

    /// A problem code. A newer agent may have codes that are not named here.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible, ExpressibleByStringLiteral {
        public var rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral value: String) { rawValue = value }

        public var description: String { rawValue }
    }

    /// One part of a request that the agent does not accept.
    public struct FieldError: Sendable, Equatable {
        /// JSON pointer (RFC 6901) into the body that was sent, such as `/data/status`. The empty pointer is the whole body.
        public var pointer: String
        public var detail: String
    }

    public var kind: Kind
    /// For `refused`, the agent's problem code. For `notDelivered`, the code of the mutation's problem, or its state. The name
    /// of the kind otherwise.
    public var code: Code
    /// Status of the HTTP answer; `nil` if there was none.
    public var status: Int?
    /// The cause, as a sentence for people.
    public var detail: String
    /// All parts of the request that the agent names.
    public var fields: [FieldError]
    /// The time after which the agent expects another try.
    public var retryAfter: Duration?
    /// The next step, for people.
    public var nextStep: String?
    /// The command for the next step, such as `agentctl conflicts list`, where the agent gave one.
    public var command: String?
    /// Further members of the agent's answer, such as the present `etag`, or the `setting` that sets a limit.
    public var members: JSONObject
    /// The request that failed, such as `POST /v1/mutations`; `nil` if there was none.
    public var request: String?

    /// The same call may succeed a moment later without a change. This library repeats such a call by itself until its
    /// deadline, as long as that cannot apply it twice.
    public var isTransient: Bool {
        switch kind {
        case .unreachable, .brokenAnswer: true
        case .refused: code.isTransient
        case .invalidArgument, .notPermitted, .badAnswer, .deadlinePassed, .cancelled, .localFile, .notDelivered: false
        }
    }

    /// The agent may have applied the request although there is no answer that says so.
    var leavesOutcomeOpen: Bool { kind != .refused || code == .outcomeUnknown }
}

extension EdgeSyncError: CustomStringConvertible {
    public var description: String {
        var text = request.map { "\($0): " } ?? ""
        text += "\(detail) (\(code))"
        if let nextStep { text += ". Next step: \(nextStep)" }
        return text
    }
}

extension EdgeSyncError.Code {
    public static let malformed: Self = "malformed"
    public static let unknownMember: Self = "unknown-member"
    public static let forbidden: Self = "forbidden"
    public static let entityNotAllowed: Self = "entity-not-allowed"
    public static let notFound: Self = "not-found"
    /// Neither this device nor its hub knows the entity of a query. The client makes this code from the agent's answer.
    public static let unknownEntity: Self = "unknown-entity"
    public static let methodNotAllowed: Self = "method-not-allowed"
    public static let timeout: Self = "timeout"
    public static let exists: Self = "exists"
    public static let deleted: Self = "deleted"
    /// The device has dropped the document of the record to save space.
    public static let notKept: Self = "not-kept"
    public static let alreadySent: Self = "already-sent"
    public static let notAccepted: Self = "not-accepted"
    public static let alreadyUndone: Self = "already-undone"
    public static let nothingToUndo: Self = "nothing-to-undo"
    public static let alreadyResolved: Self = "already-resolved"
    public static let versionMismatch: Self = "version-mismatch"
    public static let preconditionFailed: Self = "precondition-failed"
    public static let linked: Self = "linked"
    public static let idempotencyMismatch: Self = "idempotency-mismatch"
    public static let paused: Self = "paused"
    public static let tooLarge: Self = "too-large"
    public static let unsupportedMediaType: Self = "unsupported-media-type"
    public static let validation: Self = "validation"
    public static let rate: Self = "rate"
    public static let outcomeUnknown: Self = "outcome-unknown"
    public static let internalError: Self = "internal"
    public static let busy: Self = "busy"
    public static let starting: Self = "starting"
    public static let notConfigured: Self = "not-configured"
    public static let readOnly: Self = "read-only"
    public static let tooSlow: Self = "too-slow"
    public static let hubUnavailable: Self = "hub-unavailable"
    /// The file has not come from the hub yet. It goes on coming without this call; ``EdgeSyncError/fileProgress`` says how far it is.
    public static let blobFetching: Self = "blob-fetching"
    /// The agent has given the file up: the hub does not give it, or there is no room for it.
    public static let blobNotFetched: Self = "blob-not-fetched"
    public static let queueFull: Self = "queue-full"
    public static let diskFull: Self = "disk-full"

    /// Codes after which the same request may succeed without help from a person.
    var isTransient: Bool {
        switch self {
        case .timeout, .rate, .outcomeUnknown, .internalError, .busy, .starting, .readOnly, .blobFetching: true
        default: false
        }
    }

    var nextStep: String? {
        switch self {
        case .malformed, .unknownMember: "correct the request; it changed nothing"
        case .forbidden: "ask for a higher role under `access` in the agent's configuration"
        case .entityNotAllowed: "ask for the entity under `access` in the agent's configuration"
        case .notFound: "check the name"
        case .unknownEntity: "check the name of the entity, or name it under `entities` in the agent's configuration"
        case .methodNotAllowed, .unsupportedMediaType: "check that the agent's version fits this library"
        case .timeout: "send the whole request without pauses"
        case .exists: "use the action `update` or `upsert`"
        case .deleted: "create the record again if it should come back"
        case .notKept: "fetch the record from the hub (agentctl get --fetch ENTITY ID), then repeat the call"
        case .alreadySent: "make another mutation that corrects it; `undo` takes back what the hub has"
        case .notAccepted: "cancel a mutation that was not sent yet; undo only what the hub has"
        case .alreadyUndone: "undo the mutation in the member `by` to have this one again"
        case .nothingToUndo: "make another mutation that corrects the record"
        case .alreadyResolved: "read the conflict again"
        case .versionMismatch: "read it again and decide anew"
        case .preconditionFailed: "read the record again, decide anew, and send the etag of that read"
        case .linked: "wait until the file is uploaded"
        case .idempotencyMismatch: "use a new key for a new mutation"
        case .paused: "run: agentctl resume"
        case .tooLarge: "make it smaller; large content belongs into a file"
        case .validation: "correct the field that is named; nothing was changed"
        case .rate: "wait and try again"
        case .outcomeUnknown: "repeat the call with the same key, then read what is stored"
        case .internalError: "repeat the call with the same key; the agent's log tells more"
        case .busy: "close connections that are not needed, and try again"
        case .starting: "try again in a second"
        case .notConfigured: "correct the configuration (agentctl config check); agentd goes on by itself"
        case .readOnly: "run: agentctl status"
        case .tooSlow: "run the query with: agentctl query --explain"
        case .hubUnavailable: "repeat the call when the hub can be reached; agentctl status tells more"
        case .blobFetching: "call again with a longer wait"
        case .blobNotFetched: "try again with fetchFile, or run: agentctl blobs fetch ID"
        case .queueFull: "wait until the hub has accepted some of it"
        case .diskFull: "free some space on the disk of the agent"
        default: nil
        }
    }
}

// MARK: Making errors

extension EdgeSyncError {
    package init(
        _ kind: Kind, code: Code? = nil, _ detail: String, status: Int? = nil, fields: [FieldError] = [],
        retryAfter: Duration? = nil, nextStep: String? = nil, command: String? = nil, members: JSONObject = [:]
    ) {
        self.kind = kind
        self.code = code ?? Code(rawValue: kind.rawValue)
        self.status = status
        self.detail = detail
        self.fields = fields
        self.retryAfter = retryAfter
        self.nextStep = nextStep
        self.command = command
        self.members = members
        request = nil
    }

    static func invalidArgument(_ detail: String) -> EdgeSyncError {
        EdgeSyncError(.invalidArgument, detail, nextStep: "correct the value")
    }

    static func unreachable(_ detail: String, code: Code? = nil) -> EdgeSyncError {
        EdgeSyncError(
            .unreachable, code: code, detail, nextStep: "start agentd, or correct the path of the socket (AGENTD_SOCKET)")
    }

    static func notPermitted(_ detail: String) -> EdgeSyncError {
        EdgeSyncError(
            .notPermitted, detail,
            nextStep: "add this user to the group of the socket (sudo adduser USER agentd) and start the app again")
    }

    static func brokenAnswer(_ detail: String) -> EdgeSyncError {
        EdgeSyncError(.brokenAnswer, detail, nextStep: "repeat the call with the same key; the agent applies it once")
    }

    static func badAnswer(_ detail: String) -> EdgeSyncError {
        EdgeSyncError(
            .badAnswer, detail,
            nextStep: "check that agentd, and no other program, listens at the socket, and that its version fits this library")
    }

    static func deadlinePassed(_ detail: String, nextStep: String? = nil) -> EdgeSyncError {
        EdgeSyncError(
            .deadlinePassed, detail, nextStep: nextStep ?? "repeat the call with the same key; the agent applies it once")
    }

    static func localFile(_ path: String, _ error: Int32) -> EdgeSyncError {
        EdgeSyncError(
            .localFile, "the file \(path) cannot be written: \(String(cString: strerror(error)))",
            nextStep: "check the path, its folder and the free space")
    }

    static var cancelled: EdgeSyncError { EdgeSyncError(.cancelled, "the task was cancelled") }
}

extension EdgeSyncError.Code {
    /// There is no file at the path of the socket: the path is wrong, or agentd was not started yet.
    public static let noSocket: Self = "no-socket"
    /// The bytes of a file are not the ones that its digest names.
    public static let digestMismatch: Self = "digest-mismatch"
}
