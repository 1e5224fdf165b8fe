/// The one cause that holds the work back now.
public struct Cause: Sendable, Equatable {
    public var code: String
    public var sentence: String
    /// Text of RFC 3339 in UTC.
    public var until: String?
    /// Command that removes the cause.
    public var command: String?

    init(_ members: Members) throws(EdgeSyncError) {
        code = try members.text("code")
        sentence = try members.text("sentence")
        until = try members.optionalText("until")
        command = try members.optionalText("command").flatMap { $0.isEmpty ? nil : $0 }
    }
}

/// The state of the agent. ``raw`` is the whole document.
public struct Status: Sendable, Equatable {
    /// `ok`, `degraded` or `attention`.
    public var level: String
    public var reasons: [String]
    /// `offline`, `connecting`, `captive`, `degraded`, `auth` or `online`.
    public var connectivity: String
    public var version: String
    public var device: String
    /// `nil` if nothing holds the work back.
    public var cause: Cause?
    /// Mutations that wait to be sent.
    public var pending: Int
    /// Mutations that the hub refused, or that are parked. They wait for a person.
    public var refused: Int
    /// Mutations that this device ever accepted.
    public var enqueued: Int
    /// Conflicts that wait for a decision.
    public var conflicts: Int
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        let (agent, overall, outbox) = (
            try members.inside("agent"), try members.inside("overall"), try members.inside("outbox")
        )
        level = try overall.text("level")
        reasons = try overall.texts("reasons")
        connectivity = try members.inside("connectivity").text("state")
        version = try agent.text("version")
        device = try agent.text("device")
        cause = nil
        if let given = try members.optionalInside("cause") { cause = try Cause(given) }
        let waiting = try outbox.inside("pending")
        pending = 0
        for name in waiting.object.names { pending += try waiting.number(name) }
        refused = try outbox.number("rejected") + outbox.number("failed") + outbox.number("held")
        enqueued = try outbox.number("enqueued")
        conflicts = try members.optionalInside("conflicts")?.number("open") ?? 0
        raw = members.object
    }
}

/// The state of the first download. Reading and writing work before it is complete.
public struct Readiness: Sendable, Equatable {
    public var isReady: Bool
    /// Code of the reason why the agent is not ready.
    public var reason: String?
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        isReady = try members.flag("ready")
        reason = try members.optionalText("reason")
        raw = members.object
    }
}

/// The reason why a mutation or a file waits, or its outcome.
public struct Why: Sendable, Equatable {
    public var id: String
    public var state: String
    /// `allow`, `defer`, `sent`, `settled`, `parked` or `conflict`.
    public var verdict: String
    public var sentence: String
    public var reason: String?
    public var until: String?
    /// Changes of the situation, each of which would let it go.
    public var wouldChange: [String]
    /// Command for the next step.
    public var command: String?
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        id = try members.text("id")
        state = try members.text("state")
        verdict = try members.text("verdict")
        sentence = try members.text("sentence")
        reason = try members.optionalText("reason")
        until = try members.optionalText("until")
        wouldChange = try members.texts("would_change")
        command = try members.optionalText("command")
        raw = members.object
    }
}
