package import SyncCore

/// A route in the client's form; ``Route/parse(method:target:)`` reads it back.
package struct RouteTarget: Hashable, Sendable {
    package var method: HTTPRequest.Method
    package var target: String

    package init(_ route: Route) {
        var parameters: [RequestTarget.Parameter] = []
        func add(_ name: String, _ value: String?) {
            if let value { parameters.append(RequestTarget.Parameter(name, value)) }
        }
        let path: [String]
        switch route {
        case .enqueue(let wait):
            (method, path) = (.post, ["mutations"])
            if let wait {
                add("wait", "acked")
                add("timeout", String(wait.components.seconds))
            }
        case .enqueueLines: (method, path) = (.post, ["mutations", "bulk"])
        case .mutations(let query):
            (method, path) = (.get, ["mutations"])
            add("state", query.states?.map(\.name).joined(separator: ","))
            add("entity", query.entity?.text)
            add("record_id", query.recordID?.text)
            switch query.app {
            case .me?: add("app", "me")
            case .named(let app)?: add("app", app.text)
            case nil: break
            }
            add("after", query.after.map { String($0) })
            add("limit", String(query.limit))
        case .mutation(let key): (method, path) = (.get, ["mutations", key.text])
        case .cancelMutation(let key): (method, path) = (.delete, ["mutations", key.text])
        case .undoMutation(let key): (method, path) = (.post, ["mutations", key.text, "undo"])
        case .retryMutation(let key): (method, path) = (.post, ["mutations", key.text, "retry"])
        case .discardMutation(let key): (method, path) = (.post, ["mutations", key.text, "discard"])
        case .conflicts(let query):
            (method, path) = (.get, ["conflicts"])
            add("state", query.states?.map(\.rawValue).joined(separator: ","))
            add("entity", query.entity?.text)
            add("after", query.after.map { String($0.number) })
            add("limit", String(query.limit))
        case .conflict(let id): (method, path) = (.get, ["conflicts", id.description])
        case .resolveConflict(let id): (method, path) = (.post, ["conflicts", id.description, "resolve"])
        case .record(let name, let view, let fetches):
            (method, path) = (.get, ["records", name.entity.text, name.id.text])
            if view != .merged { add("view", view.rawValue) }
            if fetches { add("fetch", "1") }
        case .records(let query):
            (method, path) = (.get, ["records", query.entity.text])
            for test in RouteTarget.tests(query.filter) { add("filter", test) }
            if !query.sort.isEmpty { add("sort", query.sort.map(\.text).joined(separator: ",")) }
            if !query.fields.isEmpty { add("fields", query.fields.map(\.parameter).joined(separator: ",")) }
            add("limit", String(query.limit))
            add("cursor", query.cursor)
            if query.includesDeleted { add("include_deleted", "true") }
            if query.explains { add("explain", "true") }
            if !query.statuses.isEmpty {
                add("sync_status", query.statuses.map(\.name).sorted().joined(separator: ","))
            }
        case .progress(let name): (method, path) = (.get, ["records", name.entity.text, name.id.text, "progress"])
        case .query: (method, path) = (.post, ["query"])
        case .addBlob(let query):
            (method, path) = (.post, ["blobs"])
            add("filename", query.filename.isEmpty ? nil : query.filename)
            add("type", query.type)
        case .blobs(let query):
            (method, path) = (.get, ["blobs"])
            add("state", query.states?.joined(separator: ","))
            add("after", query.after > 0 ? String(query.after) : nil)
            add("limit", String(query.limit))
        case .blob(let id): (method, path) = (.get, ["blobs", id.description])
        case .blobContent(let name, let wait):
            (method, path) = (.get, ["blobs", name.description, "content"])
            add("wait", wait.map { "\($0.components.seconds)s" })
        case .fetchBlob(let name): (method, path) = (.post, ["blobs", name.description, "fetch"])
        case .pinBlob(let name): (method, path) = (.post, ["blobs", name.description, "pin"])
        case .unpinBlob(let name): (method, path) = (.post, ["blobs", name.description, "unpin"])
        case .retryBlob(let id): (method, path) = (.post, ["blobs", id.description, "retry"])
        case .removeBlob(let id, let isForced):
            (method, path) = (.delete, ["blobs", id.description])
            if isForced { add("force", "true") }
        case .entities: (method, path) = (.get, ["entities"])
        case .welcome: (method, path) = (.get, [])
        case .reference: (method, path) = (.get, ["openapi.yaml"])
        case .status: (method, path) = (.get, ["status"])
        case .health: (method, path) = (.get, ["healthz"])
        case .ready: (method, path) = (.get, ["readyz"])
        case .metrics: (method, path) = (.get, ["metrics"])
        case .events(let query):
            (method, path) = (.get, ["events"])
            add("types", query.types?.map(\.rawValue).joined(separator: ","))
            add("entity", query.entity?.text)
        case .sync: (method, path) = (.post, ["sync"])
        case .pause: (method, path) = (.post, ["pause"])
        case .resume: (method, path) = (.post, ["resume"])
        case .acknowledge: (method, path) = (.post, ["acknowledge"])
        case .config: (method, path) = (.get, ["config"])
        case .checkConfig: (method, path) = (.post, ["config", "check"])
        case .reloadConfig: (method, path) = (.post, ["config", "reload"])
        case .links: (method, path) = (.get, ["links"])
        case .hintLink(let name): (method, path) = (.put, ["links", name.text])
        case .clearLinkHint(let name): (method, path) = (.delete, ["links", name.text])
        case .power: (method, path) = (.get, ["power"])
        case .ledger(let query):
            (method, path) = (.get, ["usage"])
            add("link", query.link?.text)
            add("from", query.from?.text)
            add("to", query.to?.text)
            add("by", query.period.rawValue)
        case .why(let key): (method, path) = (.get, ["why", key.text])
        case .plan: (method, path) = (.post, ["plan"])
        case .audit(let query):
            (method, path) = (.get, ["audit"])
            add("after", query.after.map { String($0) })
            add("limit", String(query.limit))
        case .checklist: (method, path) = (.get, ["checklist"])
        case .diagnose: (method, path) = (.post, ["diagnostics", "bundle"])
        }
        target = RequestTarget.text(path.isEmpty ? [] : ["v1"] + path, parameters)
    }

    /// - Precondition: The filter can be expressed as query parameters: a test, or tests that must all hold.
    private static func tests(_ filter: RecordFilter) -> [String] {
        switch filter {
        case .test: [filter.text]
        case .all(let parts): parts.map(\.text)
        case .any: preconditionFailure("alternatives go to /v1/query")
        }
    }
}
