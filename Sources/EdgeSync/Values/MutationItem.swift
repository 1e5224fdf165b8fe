/// The agent's word for the state of a mutation. A newer agent may have states that are not named here.
public struct MutationState: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public var rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let pending = Self(rawValue: "pending")
    public static let inFlight = Self(rawValue: "in_flight")
    public static let conflicted = Self(rawValue: "conflicted")
    public static let rejected = Self(rawValue: "rejected")
    public static let failed = Self(rawValue: "failed")
    public static let held = Self(rawValue: "held")
    public static let done = Self(rawValue: "done")
    public static let resolved = Self(rawValue: "resolved")
    public static let discarded = Self(rawValue: "discarded")
    public static let coalesced = Self(rawValue: "coalesced")
    public static let cancelled = Self(rawValue: "cancelled")
    public static let superseded = Self(rawValue: "superseded")
    public static let expired = Self(rawValue: "expired")

    public var description: String { rawValue }

    /// The state in one word. A state of a newer agent counts as open.
    public var outcome: Outcome {
        switch self {
        case .conflicted: .conflict
        case .rejected: .rejected
        case .failed, .held: .parked
        case .done: .delivered
        case .discarded: .discarded
        case .cancelled: .cancelled
        case .superseded, .resolved: .superseded
        case .expired: .expired
        default: .open
        }
    }
}

/// The outcome of a mutation. Every outcome but `open` is settled, or waits for a person.
public enum Outcome: String, Sendable {
    case open
    /// The hub has it.
    case delivered
    /// Two sides changed the same field, and a person must decide.
    case conflict
    /// The hub refused it. The agent keeps the value and the reason until a person acknowledges it.
    case rejected
    /// It keeps failing, or its outcome cannot be found out. It waits for a person.
    case parked
    /// Its time to live ended before it was sent.
    case expired
    /// It was cancelled before it was sent.
    case cancelled
    /// A person acknowledged the refused value and dropped it.
    case discarded
    /// A newer mutation replaced it, or nothing of it was left to send.
    case superseded
}

/// A mutation and its state.
public struct MutationItem: Sendable, Equatable, Identifiable {
    /// The reason why a mutation is not delivered, in the words of the hub or of the agent.
    public struct Problem: Sendable, Equatable {
        public var code: String
        public var detail: String
        public var fields: [EdgeSyncError.FieldError]

        init(_ members: Members) throws(EdgeSyncError) {
            code = try members.text("code")
            detail = try members.text("detail")
            fields = EdgeSyncError.FieldError.list(members.object["errors"])
        }
    }

    public var id: String
    public var sequence: Int
    public var entity: String
    public var recordID: String
    public var action: String
    public var state: MutationState
    public var priority: String
    public var attempts: Int
    /// Times are texts of RFC 3339 in UTC, such as `2026-11-21T06:00:00.000Z`.
    public var createdAt: String?
    public var nextAttemptAt: String?
    /// Code of the reason why it waits now, and the time until which it waits.
    public var deferred: String?
    public var deferredUntil: String?
    public var problem: Problem?
    public var app: String?
    public var author: String?
    /// Id of the mutation that this one was merged into. ``state`` is the state of that one.
    public var into: String?
    /// Id of the mutation that this one replaces.
    public var supersedes: String?
    /// The whole answer, with the data and the history of a single read.
    public var raw: JSONObject

    public var outcome: Outcome { state.outcome }

    init(_ members: Members) throws(EdgeSyncError) {
        id = try members.text("id")
        sequence = try members.number("seq")
        entity = try members.text("entity")
        recordID = try members.text("record_id")
        action = try members.text("action")
        state = MutationState(rawValue: try members.text("state"))
        priority = try members.text("priority")
        attempts = try members.number("attempts")
        createdAt = try members.optionalText("created_at")
        nextAttemptAt = try members.optionalText("next_attempt_at")
        let deferral = try members.optionalInside("deferred")
        deferred = try deferral?.text("reason")
        deferredUntil = try deferral?.optionalText("until")
        problem = nil
        if let note = try members.optionalInside("problem") { problem = try Problem(note) }
        app = try members.optionalText("app")
        author = try members.optionalText("author")
        into = try members.optionalText("into")
        supersedes = try members.optionalText("supersedes")
        raw = members.object
    }

    /// Returns the item itself if the hub has the mutation.
    ///
    /// - Throws: `notDelivered` for every other outcome, with its code, detail, fields and the command for the next step.
    @discardableResult
    public func requireDelivered() throws(EdgeSyncError) -> MutationItem {
        let (step, command): (String, String?)
        switch outcome {
        case .delivered: return self
        case .open: (step, command) = ("see why it waits", "agentctl why \(id)")
        case .conflict: (step, command) = ("decide it", "agentctl conflicts list")
        case .rejected: (step, command) = ("correct it", "agentctl rejected show \(id)")
        case .parked: (step, command) = ("decide about it", "agentctl rejected show \(id)")
        case .expired, .discarded: (step, command) = ("write the change again if it is still of use", nil)
        case .cancelled: (step, command) = ("write the change again if it was cancelled by mistake", nil)
        case .superseded: (step, command) = ("read the record", nil)
        }
        var detail = "the mutation \(id) is \(state)"
        if let problem { detail += ": \(problem.detail)" }
        throw EdgeSyncError(
            .notDelivered, code: EdgeSyncError.Code(rawValue: problem?.code ?? state.rawValue), detail,
            fields: problem?.fields ?? [], nextStep: command.map { "\(step): \($0)" } ?? step, command: command)
    }
}
