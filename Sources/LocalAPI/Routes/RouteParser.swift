import SyncCore

/// Matches the path first, then the method, then the parameters. So an unknown path is 404 for every method, a known path answers 405 with
/// its methods, and only a complete match reports faults of parameters.
enum RouteParser {
    static let identifierRule = "must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -"

    private typealias Reader = (inout ParameterReader) throws(Problem) -> Route

    static func parse(method: String, target: RequestTarget) throws(Problem) -> Route {
        guard let methods = try methods(of: target.segments) else {
            throw LocalProblem.notFound.problem("there is no /" + shown(target.segments.joined(separator: "/")))
        }
        guard let read = methods.first(where: { $0.0 == method })?.1 else {
            let allow = methods.map(\.0)
            throw LocalProblem.methodNotAllowed.problem(
                "\(shown(method)) is not possible here, only " + allow.joined(separator: ", "),
                members: ["allow": JSON.list(allow)])
        }
        var parameters = ParameterReader(target.parameters)
        let route = try read(&parameters)
        try parameters.finish()
        return route
    }

    private static func methods(of segments: [String]) throws(Problem) -> [(String, Reader)]? {
        if segments.isEmpty { return [("GET", plain(.welcome))] }
        return segments.first == "v1" ? try methods(Array(segments.dropFirst())) : nil
    }

    /// The methods that a path has, or `nil` when there is no such path.
    private static func methods(_ path: [String]) throws(Problem) -> [(String, Reader)]? {
        switch path.count {
        case 1: return oneSegment(path[0])
        case 2: return try twoSegments(path[0], path[1])
        case 3: return try threeSegments(path[0], path[1], path[2])
        case 4 where path[0] == "records" && path[3] == "progress":
            let name = RecordName(try identifier(path[1], "the entity"), try identifier(path[2], "the record id"))
            return [("GET", plain(.progress(name)))]
        default: return nil
        }
    }

    private static func oneSegment(_ name: String) -> [(String, Reader)]? {
        switch name {
        case "mutations": [("GET", { p throws(Problem) in .mutations(try mutationList(&p)) }), ("POST", enqueue)]
        case "rejected":
            [
                (
                    "GET",
                    { p throws(Problem) in
                        var query = try mutationList(&p)
                        query.states = query.states ?? MutationListQuery.needingAttention
                        return .mutations(query)
                    }
                )
            ]
        case "conflicts": [("GET", { p throws(Problem) in .conflicts(try conflictList(&p)) })]
        case "query": [("POST", plain(.query))]
        case "blobs":
            [
                ("GET", { p throws(Problem) in .blobs(try BlobListQuery(from: &p)) }),
                ("POST", { p throws(Problem) in .addBlob(try BlobAddQuery(from: &p)) }),
            ]
        case "entities": [("GET", plain(.entities))]
        case "openapi.yaml": [("GET", plain(.reference))]
        case "status": [("GET", plain(.status))]
        case "healthz": [("GET", plain(.health))]
        case "readyz": [("GET", plain(.ready))]
        case "metrics": [("GET", plain(.metrics))]
        case "events": [("GET", events)]
        case "sync": [("POST", plain(.sync))]
        case "pause": [("POST", plain(.pause))]
        case "resume": [("POST", plain(.resume))]
        case "acknowledge": [("POST", plain(.acknowledge))]
        case "config": [("GET", plain(.config))]
        case "links": [("GET", plain(.links))]
        case "power": [("GET", plain(.power))]
        case "usage", "ledger": [("GET", { p throws(Problem) in .ledger(try LedgerQuery(from: &p)) })]
        case "plan": [("POST", plain(.plan))]
        case "checklist": [("GET", plain(.checklist))]
        case "audit": [("GET", { p throws(Problem) in .audit(try auditQuery(&p)) })]
        default: nil
        }
    }

    private static func twoSegments(_ first: String, _ second: String) throws(Problem) -> [(String, Reader)]? {
        switch (first, second) {
        case ("mutations", "bulk"): return [("POST", plain(.enqueueLines))]
        case ("mutations", _), ("rejected", _):
            let key: MutationKey = try identifier(second, "the mutation id")
            let show = ("GET", plain(.mutation(key)))
            return first == "rejected" ? [show] : [show, ("DELETE", plain(.cancelMutation(key)))]
        case ("records", _):
            let entity: EntityName = try identifier(second, "the entity")
            return [("GET", { p throws(Problem) in .records(try RecordListQuery(entity, from: &p)) })]
        case ("diagnostics", "bundle"): return [("POST", plain(.diagnose))]
        case ("blobs", _):
            let id = try blobID(second)
            return [
                ("GET", plain(.blob(id))), ("DELETE", { p throws(Problem) in .removeBlob(id, isForced: try p.flag("force") ?? false) }),
            ]
        case ("config", "check"): return [("POST", plain(.checkConfig))]
        case ("config", "reload"): return [("POST", plain(.reloadConfig))]
        case ("links", _):
            guard let name = LinkName(second) else {
                throw LocalProblem.malformed.problem("the link " + LinkName.rule)
            }
            return [("PUT", plain(.hintLink(name))), ("DELETE", plain(.clearLinkHint(name)))]
        case ("conflicts", _): return [("GET", plain(.conflict(try conflict(second))))]
        case ("why", _): return [("GET", plain(.why(try identifier(second, "the id"))))]
        default: return nil
        }
    }

    private static func threeSegments(
        _ first: String, _ second: String, _ third: String
    ) throws(Problem) -> [(String, Reader)]? {
        switch (first, third) {
        case ("records", _):
            let name = RecordName(try identifier(second, "the entity"), try identifier(third, "the record id"))
            return [("GET", { p throws(Problem) in .record(name, view: try view(&p), fetches: try fetches(&p)) })]
        case ("blobs", "content"):
            let name = try blobName(second)
            return [("GET", { p throws(Problem) in .blobContent(name, wait: try blobWait(&p)) })]
        case ("blobs", "fetch"): return [("POST", plain(.fetchBlob(try blobName(second))))]
        case ("blobs", "pin"): return [("POST", plain(.pinBlob(try blobName(second))))]
        case ("blobs", "unpin"): return [("POST", plain(.unpinBlob(try blobName(second))))]
        case ("blobs", "retry"): return [("POST", plain(.retryBlob(try blobID(second))))]
        case ("mutations", "undo"): return [("POST", plain(.undoMutation(try identifier(second, "the mutation id"))))]
        case ("mutations", "retry"): return [("POST", plain(.retryMutation(try identifier(second, "the mutation id"))))]
        case ("conflicts", "resolve"): return [("POST", plain(.resolveConflict(try conflict(second))))]
        case ("mutations", "discard"):
            return [("POST", plain(.discardMutation(try identifier(second, "the mutation id"))))]
        default: return nil
        }
    }

    // MARK: Parameters

    private static func plain(_ route: Route) -> Reader {
        { _ throws(Problem) in route }
    }

    private static func enqueue(_ p: inout ParameterReader) throws(Problem) -> Route {
        let wait = try p.words("wait", [("acked", true)])
        let seconds = try p.integer("timeout", in: 1...Route.waitMax.components.seconds)
        if wait == nil, seconds != nil { throw p.refusal("timeout", "goes with wait=acked only") }
        return .enqueue(wait: wait.map { _ in seconds.map { .seconds($0) } ?? Route.waitDefault })
    }

    private static func mutationList(_ p: inout ParameterReader) throws(Problem) -> MutationListQuery {
        var query = MutationListQuery()
        query.states = try p.words("state", MutationState.allCases.map { ($0.name, $0) })
        query.entity = try p.identifier("entity", as: EntityName.self)
        query.recordID = try p.identifier("record_id", as: RecordID.self)
        query.app = try p.identifier("app", as: AppName.self).map { $0.text == "me" ? .me : .named($0) }
        query.after = try p.integer("after", in: 0...Int64.max)
        if let limit = try p.integer("limit", in: 1...Int64(MutationListQuery.limitMax)) { query.limit = Int(limit) }
        return query
    }

    private static func conflictList(_ p: inout ParameterReader) throws(Problem) -> ConflictListQuery {
        var query = ConflictListQuery()
        query.states = try p.words("state", ConflictState.allCases.map { ($0.rawValue, $0) })
        query.entity = try p.identifier("entity", as: EntityName.self)
        if let after = try p.integer("after", in: 0...Int64.max) { query.after = ConflictID(number: after) }
        if let limit = try p.integer("limit", in: 1...Int64(MutationListQuery.limitMax)) { query.limit = Int(limit) }
        return query
    }

    private static func auditQuery(_ p: inout ParameterReader) throws(Problem) -> AuditQuery {
        var query = AuditQuery()
        query.after = try p.integer("after", in: 0...Int64.max)
        if let limit = try p.integer("limit", in: 1...Int64(MutationListQuery.limitMax)) { query.limit = Int(limit) }
        return query
    }

    private static func conflict(_ text: String) throws(Problem) -> ConflictID {
        guard let id = ConflictID(text) else { throw LocalProblem.malformed.problem("the conflict id " + ConflictID.rule) }
        return id
    }

    private static func view(_ p: inout ParameterReader) throws(Problem) -> RecordView {
        try p.words("view", RecordView.allCases.map { ($0.rawValue, $0) })?.first ?? .merged
    }

    private static func fetches(_ p: inout ParameterReader) throws(Problem) -> Bool {
        try p.words("fetch", [("1", true), ("true", true), ("0", false), ("false", false)])?.first ?? false
    }

    private static func events(_ p: inout ParameterReader) throws(Problem) -> Route {
        .events(
            EventQuery(
                types: try p.words("types", EventType.allCases.map { ($0.rawValue, $0) }),
                entity: try p.identifier("entity", as: EntityName.self)))
    }

    private static func blobID(_ text: String) throws(Problem) -> BlobID {
        guard let id = BlobID(text) else { throw LocalProblem.malformed.problem("the blob id must be such as b-31") }
        return id
    }

    private static func blobName(_ text: String) throws(Problem) -> BlobName {
        guard let name = BlobName(text) else {
            throw LocalProblem.malformed.problem("the blob must be an id such as b-31, or sha256: and 64 hexadecimal digits")
        }
        return name
    }

    private static func blobWait(_ p: inout ParameterReader) throws(Problem) -> Duration? {
        guard let text = try p.text("wait") else { return nil }
        guard let wait = Route.wait(text) else { throw p.refusal("wait", "must be a time from 1s to 5m, such as 30s") }
        return wait
    }

    private static func identifier<Kind>(_ text: String, _ what: String) throws(Problem) -> Identifier<Kind> {
        guard let identifier = Identifier<Kind>(text) else {
            throw LocalProblem.malformed.problem(what + " " + identifierRule)
        }
        return identifier
    }

    /// Outside text for a message: control characters were refused earlier, and the length is limited here.
    static func shown(_ text: String) -> String {
        text.utf8.count <= 80 ? text : String(text.prefix(80)) + "…"
    }
}
