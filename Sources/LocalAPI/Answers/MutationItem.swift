package import SyncCore

/// A mutation in lists and in `GET /v1/mutations/{id}`.
package struct MutationItem: Hashable, Sendable {
    package struct Deferral: Hashable, Sendable {
        /// One of the fixed reason codes of the policy.
        package var reason: String
        package var until: Timestamp?

        package init(reason: String, until: Timestamp?) {
            self.reason = reason
            self.until = until
        }
    }

    package struct Step: Hashable, Sendable {
        package var at: Timestamp
        package var state: String
        package var detail: String?

        package init(at: Timestamp, state: String, detail: String?) {
            self.at = at
            self.state = state
            self.detail = detail
        }
    }

    package var id: String
    package var seq: Int64
    package var record: RecordName
    package var action: String
    package var state: String
    package var priority: String
    package var attempts: Int64
    package var createdAt: Timestamp?
    package var nextAttemptAt: Timestamp?
    package var deferral: Deferral?
    package var problem: Problem?
    package var app: String?
    package var author: String?
    /// The mutation that this one was merged into.
    package var into: String?
    /// The mutation that this one replaces.
    package var supersedes: String?

    // Stored JSON texts, only for a single mutation and not in lists.
    package var data: String?
    package var unset: String?
    package var operations: String?
    package var history: [Step]?

    package init(
        id: String, seq: Int64, record: RecordName, action: String, state: String, priority: String,
        attempts: Int64 = 0,
        createdAt: Timestamp? = nil, nextAttemptAt: Timestamp? = nil, deferral: Deferral? = nil,
        problem: Problem? = nil,
        app: String? = nil, author: String? = nil, into: String? = nil, supersedes: String? = nil, data: String? = nil,
        unset: String? = nil, operations: String? = nil, history: [Step]? = nil
    ) {
        self.id = id
        self.seq = seq
        self.record = record
        self.action = action
        self.state = state
        self.priority = priority
        self.attempts = attempts
        self.createdAt = createdAt
        self.nextAttemptAt = nextAttemptAt
        self.deferral = deferral
        self.problem = problem
        self.app = app
        self.author = author
        self.into = into
        self.supersedes = supersedes
        self.data = data
        self.unset = unset
        self.operations = operations
        self.history = history
    }

    package var answer: LocalAnswer { LocalAnswer(200) { write(to: &$0) } }

    /// A list: `{"items":[…],"next":"400"}`; `next` is the `after` of the next page, null at the end.
    package static func list(_ items: [MutationItem], next: Int64?) -> LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", items) { $1.write(to: &$0) }
                writer.name("next")
                if let next { writer.string(String(next)) } else { writer.null() }
            }
        }
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", id)
            writer.member("seq", seq)
            writer.member("entity", record.entity.text)
            writer.member("record_id", record.id.text)
            writer.member("action", action)
            writer.member("state", state)
            writer.member("priority", priority)
            writer.member("attempts", attempts)
            writer.time("created_at", createdAt)
            writer.time("next_attempt_at", nextAttemptAt)
            if let deferral {
                writer.members("deferred") { writer in
                    writer.member("reason", deferral.reason)
                    writer.time("until", deferral.until)
                }
            }
            if let problem {
                writer.name("problem")
                problem.writeNote(to: &writer)
            }
            writer.member("app", app)
            writer.member("author", author)
            writer.member("into", into)
            writer.member("supersedes", supersedes)
            if let data { writer.stored("data", data) }
            if let unset { writer.stored("unset", unset) }
            if let operations { writer.stored("ops", operations) }
            if let history {
                writer.elements("history", history) { writer, step in
                    writer.object { writer in
                        writer.time("at", step.at)
                        writer.member("state", step.state)
                        writer.member("detail", step.detail)
                    }
                }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let id = reader.text("id"), let entity = reader.text("entity").flatMap({ EntityName($0) }),
            let recordID = reader.text("record_id").flatMap({ RecordID($0) })
        else { return nil }
        self.init(
            id: id, seq: reader.int("seq") ?? 0, record: RecordName(entity, recordID),
            action: reader.text("action") ?? "unknown", state: reader.text("state") ?? "unknown",
            priority: reader.text("priority") ?? "normal", attempts: reader.int("attempts") ?? 0,
            createdAt: reader.time("created_at"), nextAttemptAt: reader.time("next_attempt_at"),
            problem: Problem(note: reader.object["problem"]), app: reader.text("app"), author: reader.text("author"),
            into: reader.text("into"), supersedes: reader.text("supersedes"), data: reader.source("data"),
            unset: reader.source("unset"), operations: reader.source("ops"))
        if let reason = reader.inside("deferred").text("reason") {
            deferral = Deferral(reason: reason, until: reader.inside("deferred").time("until"))
        }
        if reader.has("history") {
            history = reader.list("history").compactMap { step in
                let step = AnswerReader(step)
                guard let at = step.time("at"), let state = step.text("state") else { return nil }
                return Step(at: at, state: state, detail: step.text("detail"))
            }
        }
    }
}
