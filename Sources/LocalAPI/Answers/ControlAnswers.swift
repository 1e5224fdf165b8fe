package import SyncCore

/// The small answers of control. Each type writes and reads its own JSON.
package enum ControlAnswer {
    /// Answer of `GET /v1/health`: the event loop runs.
    package static var health: LocalAnswer {
        LocalAnswer(200) { writer in writer.object { $0.member("ok", true) } }
    }

    /// The program that answers here, and the paths to read next: `{"program","version","api","reference","status"}`.
    package static func welcome(version: String) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("program", "agentd")
                writer.member("version", version)
                writer.member("api", "/v1")
                writer.member("reference", "/v1/openapi.yaml")
                writer.member("status", "/v1/status")
            }
        }
    }

    /// - Parameter document: `nil` when it is not installed.
    /// - Throws: 404 `not-found`.
    package static func reference(_ document: [UInt8]?) throws(Problem) -> LocalAnswer {
        guard let document else {
            let detail = "the reference is not installed: expected \(referencePath) beside the folder bin of agentd"
            throw LocalProblem.notFound.problem(detail)
        }
        return LocalAnswer(200, contentType: "application/yaml", body: document)
    }

    /// The path at which the package installs the reference, relative to the folder above the one that holds the program.
    package static let referencePath = "share/doc/edge-sync-agent/api/agent-v1.openapi.yaml"

    /// - Parameters:
    ///   - reason: The reason why the agent is not ready, such as `seeding`; `nil` when it is ready.
    ///   - cause: The reason why work waits now; used while the agent is not ready.
    package static func ready(reason: String?, firstSync: StatusDocument.FirstSync?, cause: PresentCause? = nil) -> LocalAnswer {
        LocalAnswer(reason == nil ? 200 : 503, headers: reason == nil ? [:] : ["Retry-After": "1"]) { writer in
            writer.object { writer in
                writer.member("ready", reason == nil)
                writer.member("reason", reason)
                if let firstSync {
                    writer.name("first_sync")
                    firstSync.write(to: &writer)
                }
                if let cause { writer.members("cause") { cause.write(to: &$0) } }
            }
        }
    }

    /// Answer to a cancellation, with all mutations that were cancelled: `{"id","state","cancelled":[…]}`.
    package static func cancelled(_ id: MutationKey, _ all: [MutationKey]) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("id", id.text)
                writer.member("state", MutationState.cancelled.name)
                writer.member("cancelled", JSON.list(all.map(\.text)))
            }
        }
    }

    /// Answer to a discarded mutation: `{"id","state"}`.
    package static func state(_ id: MutationKey, _ state: MutationState) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("id", id.text)
                writer.member("state", state.name)
            }
        }
    }

    /// Answer of `GET /v1/metrics`, Prometheus text.
    package static func metrics(_ text: String) -> LocalAnswer {
        LocalAnswer(200, contentType: "text/plain; version=0.0.4; charset=utf-8", body: Array(text.utf8))
    }

    /// `{"ok":true}` for a valid configuration; an invalid one is a 422 problem.
    package static var configIsGood: LocalAnswer {
        LocalAnswer(200) { writer in writer.object { $0.member("ok", true) } }
    }
}

/// Answer to `POST /v1/sync`.
package struct SyncAnswer: Hashable, Sendable {
    package struct Outcome: Hashable, Sendable {
        /// `ok`, or the reason code of the failure.
        package var result: String
        package var detail: String?
        package var pushed: Int64
        package var pulled: Int64
        /// Reasons of waiting traffic, by class.
        package var deferred: [String: String]
        package var bytesUp: Int64
        package var bytesDown: Int64

        package init(
            result: String, detail: String? = nil, pushed: Int64, pulled: Int64, deferred: [String: String] = [:],
            bytesUp: Int64, bytesDown: Int64
        ) {
            self.result = result
            self.detail = detail
            self.pushed = pushed
            self.pulled = pulled
            self.deferred = deferred
            self.bytesUp = bytesUp
            self.bytesDown = bytesDown
        }
    }

    package var cycle: String
    /// The outcome; `nil` while the cycle has not ended.
    package var outcome: Outcome?

    package init(cycle: String, outcome: Outcome? = nil) {
        self.cycle = cycle
        self.outcome = outcome
    }

    /// The answer: 202 queued, or 200 with the outcome.
    package var answer: LocalAnswer {
        LocalAnswer(outcome == nil ? 202 : 200) { writer in
            writer.object { writer in
                writer.member("cycle", cycle)
                guard let outcome else { return writer.member("state", "queued") }
                writer.member("result", outcome.result)
                writer.member("detail", outcome.detail)
                writer.member("pushed", outcome.pushed)
                writer.member("pulled", outcome.pulled)
                writer.name("deferred")
                writer.object { writer in
                    for (name, reason) in outcome.deferred.sorted(by: { $0.key < $1.key }) {
                        writer.name(JSONString(name))
                        writer.string(reason)
                    }
                }
                writer.members("bytes") { writer in
                    writer.member("up", outcome.bytesUp)
                    writer.member("down", outcome.bytesDown)
                }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let cycle = reader.text("cycle") else { return nil }
        self.cycle = cycle
        guard let result = reader.text("result") else { return }
        var deferred: [String: String] = [:]
        for member in reader.inside("deferred").object.members { deferred[member.name.text] = member.value.text }
        outcome = Outcome(
            result: result, detail: reader.text("detail"), pushed: reader.int("pushed") ?? 0,
            pulled: reader.int("pulled") ?? 0, deferred: deferred, bytesUp: reader.inside("bytes").int("up") ?? 0,
            bytesDown: reader.inside("bytes").int("down") ?? 0)
    }
}

/// Answer to `POST /v1/pause` and `POST /v1/resume`.
package struct PauseAnswer: Hashable, Sendable {
    /// The present pause; `nil` when there is none.
    package var pause: EngineMemory.Pause?

    package init(pause: EngineMemory.Pause?) {
        self.pause = pause
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("paused", pause == nil ? [] : [PauseBody.Scope.all.rawValue]) { $0.string($1) }
                guard let pause else { return }
                writer.time("until", pause.until)
                writer.member("reason", pause.reason)
                writer.members("by") { $0.member("uid", Int64(pause.uid)) }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["paused"]?.array != nil else { return nil }
        pause =
            reader.list("paused").isEmpty
            ? nil
            : EngineMemory.Pause(
                until: reader.time("until"), reason: reader.text("reason") ?? "",
                uid: UInt32(clamping: reader.inside("by").int("uid") ?? 0))
    }
}

/// Answer to `POST /v1/acknowledge`: `{"acknowledged":["epoch_changed"]}`.
package struct AcknowledgeAnswer: Hashable, Sendable {
    package var codes: [String]

    package init(codes: [String]) {
        self.codes = codes
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in writer.object { $0.member("acknowledged", JSON.list(codes)) } }
    }

    init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["acknowledged"]?.array != nil else { return nil }
        codes = reader.texts("acknowledged")
    }
}

/// Answer to `GET /v1/config`: the effective configuration, each key with its origin, secrets masked.
package struct ConfigAnswer: Hashable, Sendable {
    package struct Value: Hashable, Sendable {
        /// Dotted name, as in the documentation: `sync.pull_interval`.
        package var key: String
        package var value: JSON
        /// `default`, `file`, `credential` or `server`.
        package var origin: String
        /// File, line and column, where the origin has them.
        package var place: String?

        package init(key: String, value: JSON, origin: String, place: String? = nil) {
            self.key = key
            self.value = value
            self.origin = origin
            self.place = place
        }
    }

    /// Number of configurations that were in force since the agent started, from 1.
    package var version: Int64
    package var values: [Value]

    package init(version: Int64, values: [Value]) {
        self.version = version
        self.values = values
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("version", version)
                writer.members("values") { writer in
                    for value in values {
                        writer.name(JSONString(value.key))
                        writer.object { writer in
                            writer.member("value", value.value)
                            writer.member("origin", value.origin)
                            writer.member("place", value.place)
                        }
                    }
                }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.has("values") else { return nil }
        version = reader.int("version") ?? 0
        values = reader.inside("values").object.members.map { member in
            let value = AnswerReader(member.value)
            return Value(
                key: member.name.text, value: value.object["value"] ?? .null, origin: value.text("origin") ?? "unknown",
                place: value.text("place"))
        }
    }
}

/// Answer to `POST /v1/config/reload`.
package struct ReloadAnswer: Hashable, Sendable {
    package var changed: [String]
    /// Keys whose new value takes effect only at the next start.
    package var restartNeeded: [String]

    package init(changed: [String], restartNeeded: [String]) {
        self.changed = changed
        self.restartNeeded = restartNeeded
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("changed", JSON.list(changed))
                writer.member("restart_needed", JSON.list(restartNeeded))
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["changed"]?.array != nil else { return nil }
        changed = reader.texts("changed")
        restartNeeded = reader.texts("restart_needed")
    }
}

/// One element of the answer to `GET /v1/entities`.
package struct EntityItem: Hashable, Sendable {
    package var name: String
    package var kind: EntityRules.Kind
    /// Access of the peer: `read`, `append` or `write`.
    package var access: String
    package var records: Int64
    /// Number of records whose documents are not kept on this device; not among ``records``.
    package var notKept: Int64 = 0
    /// Number of open mutations.
    package var pending: Int64
    /// Time since the last complete pull; `nil` when there was none.
    package var cursorAge: Duration?
    package var rules: EntityRules

    package init(
        name: String, kind: EntityRules.Kind, access: String, records: Int64, pending: Int64, cursorAge: Duration?,
        rules: EntityRules
    ) {
        self.name = name
        self.kind = kind
        self.access = access
        self.records = records
        self.pending = pending
        self.cursorAge = cursorAge
        self.rules = rules
    }

    package static func list(_ items: [EntityItem]) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.array { writer in for item in items { item.write(to: &writer) } }
        }
    }

    private func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("name", name)
            writer.member("kind", kind.rawValue)
            writer.member("access", access)
            writer.member("records", records)
            if notKept > 0 { writer.member("not_kept", notKept) }
            writer.member("pending", pending)
            writer.name("cursor_age_s")
            if let cursorAge { writer.int(cursorAge.components.seconds) } else { writer.null() }
            writer.members("strategy") { writer in
                writer.member("record", rules.strategy.rawValue)
                writer.members("fields") { writer in
                    for (field, strategy) in rules.fields.sorted(by: { $0.key < $1.key }) {
                        writer.name(JSONString(field))
                        writer.string(strategy.rawValue)
                    }
                }
            }
        }
    }
}
