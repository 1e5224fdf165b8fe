package import SyncCore

/// One request of the local API by its method and target. The types in `Bodies` read the bodies.
///
/// To add a route: a case here, its row in ``RouteParser``, its role and body below, and the client's form in ``RouteTarget``. The compiler
/// asks for the last three.
package enum Route: Hashable, Sendable {
    // Changes
    case enqueue(wait: Duration?)
    case enqueueLines
    case mutations(MutationListQuery)
    case mutation(MutationKey)
    case cancelMutation(MutationKey)
    case retryMutation(MutationKey)
    case discardMutation(MutationKey)
    case undoMutation(MutationKey)

    // Decisions of people
    case conflicts(ConflictListQuery)
    case conflict(ConflictID)
    case resolveConflict(ConflictID)

    // The mirror
    /// - Parameter fetches: Ask the hub for the document if it is not kept on this device.
    case record(RecordName, view: RecordView, fetches: Bool = false)
    case records(RecordListQuery)
    /// The progress of a record by its form.
    case progress(RecordName)
    case query
    case entities

    // Files
    case addBlob(BlobAddQuery)
    case blobs(BlobListQuery)
    case blob(BlobID)
    /// - Parameter wait: The longest wait of the answer for a file that comes from the hub; `nil`: no wait.
    case blobContent(BlobName, wait: Duration? = nil)
    /// Has a file come from the hub.
    case fetchBlob(BlobName)
    /// Has a file come, and keeps it on this device.
    case pinBlob(BlobName)
    case unpinBlob(BlobName)
    case retryBlob(BlobID)
    /// - Parameter isForced: Also remove a file that a record shows and whose bytes the server does not have.
    case removeBlob(BlobID, isForced: Bool)

    // Control and observation
    /// The name of the program and the path of its reference: `GET /`.
    case welcome
    /// The reference of all routes.
    case reference
    case status
    case health
    case ready
    case metrics
    case events(EventQuery)
    case sync
    case pause
    case resume
    /// Marks past alarms as seen.
    case acknowledge
    case config
    case checkConfig
    case reloadConfig

    // Links, power, cost, and why
    case links
    case hintLink(LinkName)
    case clearLinkHint(LinkName)
    case power
    case ledger(LedgerQuery)
    /// The reason why a mutation or a file waits.
    case why(MutationKey)
    case plan
    /// Recorded decisions with their authors.
    case audit(AuditQuery)
    /// Runs every check of the doctor now.
    case checklist
    /// Files about the agent, compressed.
    case diagnose

    /// - Parameter method: The method as sent; methods are case-sensitive.
    /// - Throws: 404 `not-found`, 405 `method-not-allowed` with `allow`, 400 `malformed` for the target or a parameter.
    package static func parse(method: String, target: String) throws(Problem) -> Route {
        // The most frequent request by far; it has nothing to parse.
        if method == "POST", target == "/v1/mutations" { return .enqueue(wait: nil) }
        return try RouteParser.parse(method: method, target: RequestTarget(target))
    }

    /// The least role for the route; `nil`: open to every caller that can connect. A body may need more: ``SyncBody/role``.
    package var role: Role? {
        switch self {
        case .welcome, .reference, .health, .ready: nil
        case .mutations, .mutation, .record, .records, .progress, .query, .entities, .status, .metrics, .events, .links, .power,
            .ledger, .why, .plan, .blobs, .blob, .blobContent, .conflicts, .conflict:
            .read
        // The handler checks the owner of the mutation: an app may change its own, an operator all.
        case .enqueue, .enqueueLines, .cancelMutation, .retryMutation, .discardMutation, .undoMutation, .resolveConflict, .sync, .addBlob,
            .retryBlob, .removeBlob, .fetchBlob, .pinBlob, .unpinBlob:
            .enqueue
        case .pause, .resume, .acknowledge, .config, .hintLink, .clearLinkHint, .audit, .checklist, .diagnose: .operate
        // The answer of a check names files, as seen with the agent's rights.
        case .checkConfig, .reloadConfig: .admin
        }
    }

    package var body: BodyRule {
        switch self {
        case .enqueue, .query, .resolveConflict: .json(maxBytes: Limits.localBodyBytes, isRequired: true)
        case .checkConfig: .json(maxBytes: Limits.localBodyBytes, isRequired: false)
        case .sync, .pause, .resume, .acknowledge, .retryMutation, .discardMutation, .undoMutation, .plan:
            .json(maxBytes: Limits.lineBytes, isRequired: false)
        case .hintLink: .json(maxBytes: Limits.lineBytes, isRequired: true)
        case .enqueueLines: .lines(maxBytes: Limits.lineBytes)
        case .addBlob: .file
        case .mutations, .mutation, .cancelMutation, .record, .records, .progress, .entities, .welcome, .reference, .status, .health,
            .ready,
            .metrics, .events, .config, .reloadConfig, .links, .clearLinkHint, .power, .ledger, .why, .audit, .checklist, .diagnose, .blobs,
            .blob, .blobContent, .retryBlob, .removeBlob, .fetchBlob, .pinBlob, .unpinBlob, .conflicts, .conflict:
            .none
        }
    }

    /// Short name for metrics and logs.
    package var name: String {
        switch self {
        case .enqueue: "enqueue"
        case .enqueueLines: "enqueue_lines"
        case .mutations: "mutations"
        case .mutation: "mutation"
        case .cancelMutation: "cancel"
        case .retryMutation: "retry"
        case .undoMutation: "undo"
        case .discardMutation: "discard"
        case .conflicts: "conflicts"
        case .conflict: "conflict"
        case .resolveConflict: "resolve"
        case .record: "record"
        case .records: "records"
        case .progress: "progress"
        case .query: "query"
        case .entities: "entities"
        case .welcome: "welcome"
        case .reference: "openapi"
        case .status: "status"
        case .health: "healthz"
        case .ready: "readyz"
        case .metrics: "metrics"
        case .events: "events"
        case .sync: "sync"
        case .pause: "pause"
        case .resume: "resume"
        case .acknowledge: "acknowledge"
        case .config: "config"
        case .checkConfig: "config_check"
        case .reloadConfig: "config_reload"
        case .links: "links"
        case .hintLink: "links_hint"
        case .clearLinkHint: "links_clear"
        case .power: "power"
        case .ledger: "ledger"
        case .why: "why"
        case .plan: "plan"
        case .audit: "audit"
        case .checklist: "checklist"
        case .diagnose: "diagnose"
        case .addBlob: "blobs_add"
        case .blobs: "blobs"
        case .blob: "blob"
        case .blobContent: "blob_content"
        case .fetchBlob: "blobs_fetch"
        case .pinBlob: "blobs_pin"
        case .unpinBlob: "blobs_unpin"
        case .retryBlob: "blobs_retry"
        case .removeBlob: "blobs_remove"
        }
    }

    /// Longest time that `?wait=acked` may delay an answer; `waitDefault` is the time without `timeout`.
    package static let waitMax: Duration = .seconds(300)
    package static let waitDefault: Duration = .seconds(20)

    /// Reads the longest wait for a file: whole seconds or minutes, such as `30s` or `5m`, from 1 s to ``waitMax``.
    package static func wait(_ text: String) -> Duration? {
        let unit: Int64 = text.hasSuffix("m") ? 60 : 1
        let digits = text.hasSuffix("s") || text.hasSuffix("m") ? text.dropLast() : text[...]
        guard let count = Tus.count(String(digits)), count > 0, count <= waitMax.components.seconds else { return nil }
        let wait = Duration.seconds(count * unit)
        return wait <= waitMax ? wait : nil
    }
}

/// The requested side of a record.
package enum RecordView: String, Sendable, CaseIterable {
    /// The hub's document with the open mutations applied.
    case merged
    /// The hub's document alone.
    case server
    case both
}

/// Selects the mutations of a list, in the order of `seq`.
package struct MutationListQuery: Hashable, Sendable {
    package enum App: Hashable, Sendable {
        /// The app of the caller.
        case me
        case named(AppName)
    }

    /// States to include; `nil` means any.
    package var states: [MutationState]?
    package var entity: EntityName?
    package var recordID: RecordID?
    package var app: App?
    /// Only a higher `seq`.
    package var after: Int64?
    package var limit: Int

    package static let limitDefault = 100
    package static let limitMax = 1_000

    package init(
        states: [MutationState]? = nil, entity: EntityName? = nil, recordID: RecordID? = nil, app: App? = nil,
        after: Int64? = nil, limit: Int = MutationListQuery.limitDefault
    ) {
        self.states = states
        self.entity = entity
        self.recordID = recordID
        self.app = app
        self.after = after
        self.limit = limit
    }

    /// States that wait for a person, as listed by `/v1/rejected`.
    package static let needingAttention: [MutationState] = [.rejected, .failed, .held]
}

/// Selects the conflicts of a list, oldest first.
package struct ConflictListQuery: Hashable, Sendable {
    /// States to include; `nil` means conflicts that wait for a decision.
    package var states: [ConflictState]?
    package var entity: EntityName?
    /// Only newer conflicts.
    package var after: ConflictID?
    package var limit: Int

    package init(
        states: [ConflictState]? = nil, entity: EntityName? = nil, after: ConflictID? = nil,
        limit: Int = MutationListQuery.limitDefault
    ) {
        self.states = states
        self.entity = entity
        self.after = after
        self.limit = limit
    }
}

/// Selects the decisions of a list, oldest first: `GET /v1/audit?after=&limit=`.
package struct AuditQuery: Hashable, Sendable {
    /// Only entries with a higher number.
    package var after: Int64?
    package var limit: Int

    package init(after: Int64? = nil, limit: Int = MutationListQuery.limitDefault) {
        self.after = after
        self.limit = limit
    }
}

package enum ConflictState: String, Sendable, CaseIterable {
    case open
    /// The conflict is still open, and the hub's side has changed since.
    case stale
    /// Decided, but the hub has not accepted the decision yet.
    case resolving
    case resolved
    /// There was nothing left to decide.
    case moot

    package var isOpen: Bool { self == .open || self == .stale }
}

/// Id of a conflict, such as `c-12`.
package struct ConflictID: Hashable, Sendable, CustomStringConvertible {
    package var number: Int64

    package static let rule = "must be c- and a number, such as c-12"

    package init(number: Int64) {
        self.number = number
    }

    package init?(_ text: String) {
        let digits = text.dropFirst(2)
        guard text.hasPrefix("c-"), !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }),
            let number = Int64(digits)
        else { return nil }
        self.number = number
    }

    package var description: String { "c-\(number)" }
}

/// Selects the events of a stream.
package struct EventQuery: Hashable, Sendable {
    /// Types of events; `nil` means all. A `nil` entity means all as well; a filter by entity keeps events without one.
    package var types: [EventType]?
    package var entity: EntityName?

    package init(types: [EventType]? = nil, entity: EntityName? = nil) {
        self.types = types
        self.entity = entity
    }
}

package enum EventType: String, Sendable, CaseIterable {
    case mutation, record, conflict, sync, link, connectivity, policy, power, blob, config, attention
}
