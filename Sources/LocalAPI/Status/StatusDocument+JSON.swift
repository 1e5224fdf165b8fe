package import SyncCore

extension StatusDocument {
    package var answer: LocalAnswer { LocalAnswer(200) { write(to: &$0) } }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.members("agent") { writer in
                agent.write(to: &writer)
                writer.members("db") { database.write(to: &$0) }
            }
            writer.members("overall") { writer in
                let overall = overall
                writer.member("level", overall.level.rawValue)
                writer.member("reasons", JSON.list(overall.reasons))
            }
            writer.members("config") { writer in
                writer.member("version", configuration.version)
                writer.member("source", configuration.source)
                writer.member("error", configuration.error)
            }
            writer.members("connectivity") { connectivity.write(to: &$0) }
            writer.members("policy") { writer in writer.members("verdicts") { writeVerdicts(to: &$0) } }
            writer.members("sync") { sync.write(to: &$0) }
            writer.members("outbox") { outbox.write(to: &$0) }
            writer.elements("attention", attention) { writer, item in writer.object { item.write(to: &$0) } }
            writer.elements("entities", entities) { writer, entity in
                writer.object { writer in
                    writer.member("name", entity.name)
                    writer.member("kind", entity.kind)
                    writer.member("records", entity.records)
                    writer.member("pending", entity.pending)
                    writer.seconds("cursor_age_s", entity.cursorAge)
                }
            }
            writer.elements("apps", apps) { writer, app in
                writer.object { writer in
                    writer.member("app", app.app)
                    writer.member("uid", app.uid)
                    writer.member("connections", app.connections)
                    writer.member("open", app.open)
                }
            }
            if let usage {
                writer.members("usage") { writer in
                    writer.members("today") { writer in
                        writer.member("up", usage.up)
                        writer.member("down", usage.down)
                    }
                }
            }
            writer.member("schema", StatusDocument.schema)
        }
    }

    private func writeVerdicts(to writer: inout JSONWriter) {
        for verdict in verdicts {
            writer.name(JSONString(verdict.name))
            switch verdict.verdict {
            case .allow: writer.string("allow")
            case .deferred(let reason, let until):
                writer.object { writer in
                    writer.member("defer", reason)
                    writer.time("until", until)
                }
            }
        }
    }

    /// - Returns: `nil` when it is not a status document at all.
    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.has("agent"), reader.has("outbox"), reader.has("sync") else { return nil }
        let configuration = reader.inside("config")
        self.init(
            agent: Agent(reader.inside("agent")), database: Database(reader.inside("agent").inside("db")),
            configuration: Configuration(
                version: configuration.int("version") ?? 0, source: configuration.text("source") ?? "file",
                error: configuration.text("error")),
            connectivity: Connectivity(reader.inside("connectivity")),
            verdicts: reader.inside("policy").inside("verdicts").object.members.map { member in
                let verdict = AnswerReader(member.value)
                guard let reason = verdict.text("defer") else { return ClassVerdict(member.name.text, .allow) }
                return ClassVerdict(member.name.text, .deferred(reason: reason, until: verdict.time("until")))
            },
            sync: Sync(reader.inside("sync")), outbox: Outbox(reader.inside("outbox")),
            attention: reader.list("attention").compactMap { Attention(AnswerReader($0)) },
            entities: reader.list("entities").map { element in
                let entity = AnswerReader(element)
                return Entity(
                    name: entity.text("name") ?? "", kind: entity.text("kind") ?? "record",
                    records: entity.int("records") ?? 0, pending: entity.int("pending") ?? 0,
                    cursorAge: entity.seconds("cursor_age_s"))
            },
            apps: reader.list("apps").map { element in
                let app = AnswerReader(element)
                return App(
                    app: app.text("app") ?? "", uid: app.int("uid") ?? 0, connections: app.int("connections") ?? 0,
                    open: app.int("open") ?? 0)
            })
        if reader.has("usage") {
            let today = reader.inside("usage").inside("today")
            usage = Usage(up: today.int("up") ?? 0, down: today.int("down") ?? 0)
        }
    }
}

extension StatusDocument.Agent {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("version", version)
        writer.member("device", device)
        writer.member("replica", replica)
        writer.member("hub", hub)
        writer.member("uptime_s", uptime.components.seconds)
    }

    fileprivate init(_ reader: AnswerReader) {
        self.init(
            version: reader.text("version") ?? "unknown", device: reader.text("device") ?? "unknown",
            replica: reader.text("replica") ?? "", hub: reader.text("hub") ?? "",
            uptime: reader.seconds("uptime_s") ?? .zero)
    }
}

extension StatusDocument.Database {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("state", state.rawValue)
        writer.member("bytes", bytes)
        writer.member("wal_bytes", walBytes)
        writer.member("free_bytes", freeBytes)
        writer.member("schema", schema)
        writer.member("sqlite", sqlite)
        writer.member("durability", durability)
        writer.member("integrity", integrity)
        writer.member("recovery", recovery)
    }

    fileprivate init(_ reader: AnswerReader) {
        self.init(
            state: reader.text("state").flatMap { State(rawValue: $0) } ?? .ok, bytes: reader.int("bytes") ?? 0,
            walBytes: reader.int("wal_bytes") ?? 0, freeBytes: reader.int("free_bytes"),
            schema: reader.int("schema") ?? 0, sqlite: reader.text("sqlite") ?? "",
            durability: reader.text("durability") ?? "unknown", integrity: reader.text("integrity") ?? "unknown",
            recovery: reader.text("recovery"))
    }
}

extension StatusDocument.Connectivity {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("state", state)
        writer.time("since", since)
        writer.member("cause", cause)
        writer.member("detail", detail)
        writer.member("portal_url", portalURL)
        writer.member("uplink", uplink)
        guard !links.isEmpty else { return }
        writer.elements("links", links) { writer, link in
            writer.object { writer in
                writer.member("name", link.name)
                writer.member("state", link.state)
                writer.member("metered", link.isMetered)
                writer.member("metered_by", link.meteredBy)
            }
        }
    }

    fileprivate init(_ reader: AnswerReader) {
        self.init(
            state: reader.text("state") ?? "unknown", since: reader.time("since"), cause: reader.text("cause"),
            detail: reader.text("detail"), portalURL: reader.text("portal_url"), uplink: reader.text("uplink"),
            links: reader.list("links").map { element in
                let link = AnswerReader(element)
                return StatusDocument.Link(
                    name: link.text("name") ?? "", state: link.text("state") ?? "",
                    isMetered: link.bool("metered") ?? false, meteredBy: link.text("metered_by"))
            })
    }
}

extension StatusDocument.Sync {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("phase", phase)
        writer.time("last_success", lastSuccess)
        writer.name("last_error")
        if let lastError { writer.string(lastError) } else { writer.null() }
        writer.time("last_error_at", lastErrorAt)
        writer.time("next_at", nextAt)
        writer.member("attempt", attempt)
        writer.time("not_before", notBefore)
        writer.name("paused")
        if let pause {
            writer.object { writer in
                writer.time("until", pause.until)
                writer.member("reason", pause.reason)
                writer.member("uid", Int64(pause.uid))
            }
        } else {
            writer.null()
        }
        writer.member("caught_up", isCaughtUp)
        if let firstSync {
            writer.name("first_sync")
            firstSync.write(to: &writer)
        }
        if let clock {
            writer.members("clock") { writer in
                writer.member("offset_ms", clock.offset.milliseconds)
                writer.member("error_ms", clock.error.milliseconds)
                writer.member("state", clock.state)
            }
        }
        if let server {
            writer.members("server") { writer in
                writer.member("epoch", server.epoch)
                writer.member("head", server.head)
                writer.member("sync_version", server.syncVersion)
            }
        }
        writer.member("bad_replies", badReplies)
    }

    fileprivate init(_ reader: AnswerReader) {
        self.init(
            phase: reader.text("phase") ?? "unknown", lastSuccess: reader.time("last_success"),
            lastError: reader.text("last_error"), lastErrorAt: reader.time("last_error_at"),
            nextAt: reader.time("next_at"), attempt: reader.int("attempt") ?? 0, notBefore: reader.time("not_before"),
            isCaughtUp: reader.bool("caught_up") ?? false, badReplies: reader.int("bad_replies") ?? 0)
        if reader.has("paused") {
            let paused = reader.inside("paused")
            pause = EngineMemory.Pause(
                until: paused.time("until"), reason: paused.text("reason") ?? "",
                uid: UInt32(clamping: paused.int("uid") ?? 0))
        }
        if reader.has("first_sync") {
            let first = reader.inside("first_sync")
            firstSync = StatusDocument.FirstSync(
                phase: first.text("phase") ?? "unknown", done: first.int("done"), total: first.int("total"))
        }
        if reader.has("clock") {
            let clock = reader.inside("clock")
            self.clock = StatusDocument.Clock(
                offset: .milliseconds(clock.int("offset_ms") ?? 0), error: .milliseconds(clock.int("error_ms") ?? 0),
                state: clock.text("state") ?? "unsynced")
        }
        if reader.has("server") {
            let server = reader.inside("server")
            self.server = StatusDocument.Server(
                epoch: server.text("epoch"), head: server.int("head"), syncVersion: server.int("sync_version"))
        }
    }
}

extension StatusDocument.FirstSync {
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("phase", phase)
            writer.member("done", done)
            writer.member("total", total)
        }
    }
}

extension StatusDocument.Outbox {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.members("pending") { writer in
            for priority in Priority.allCases {
                writer.name(JSONString(priority.name))
                writer.int(pending[priority] ?? 0)
            }
        }
        for state in MutationState.allCases where state != .pending {
            writer.name(JSONString(state.name))
            writer.int(count(state))
        }
        writer.member("enqueued", enqueued)
        writer.seconds("oldest_s", oldest)
        writer.member("bytes", bytes)
        writer.member("limit", limit)
        writer.elements("deferred", deferred) { writer, deferral in
            writer.object { writer in
                writer.member("priority", deferral.priority.name)
                writer.member("count", deferral.count)
                writer.member("reason", deferral.reason)
                writer.time("until", deferral.until)
            }
        }
    }

    fileprivate init(_ reader: AnswerReader) {
        self.init(
            enqueued: reader.int("enqueued") ?? 0, oldest: reader.seconds("oldest_s"), bytes: reader.int("bytes") ?? 0,
            limit: reader.int("limit"))
        for priority in Priority.allCases { pending[priority] = reader.inside("pending").int(priority.name) }
        for state in MutationState.allCases where state != .pending { counts[state] = reader.int(state.name) }
        counts[.pending] = pending.values.reduce(0, +)
        deferred = reader.list("deferred").compactMap { element in
            let deferral = AnswerReader(element)
            guard let priority = deferral.text("priority").flatMap({ Priority(name: $0) }),
                let reason = deferral.text("reason")
            else { return nil }
            return StatusDocument.Deferral(
                priority: priority, count: deferral.int("count") ?? 0, reason: reason, until: deferral.time("until"))
        }
    }
}

extension StatusDocument.Attention {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("state", state.name)
        writer.member("id", id)
        writer.member("entity", record.entity.text)
        writer.member("record_id", record.id.text)
        guard let problem else { return }
        writer.name("problem")
        problem.writeNote(to: &writer)
    }

    fileprivate init?(_ reader: AnswerReader) {
        guard let state = reader.text("state").flatMap({ MutationState(name: $0) }), let id = reader.text("id"),
            let entity = reader.text("entity").flatMap({ EntityName($0) }),
            let recordID = reader.text("record_id").flatMap({ RecordID($0) })
        else { return nil }
        self.init(
            state: state, id: id, record: RecordName(entity, recordID), problem: Problem(note: reader.object["problem"]))
    }
}

extension JSONWriter {
    fileprivate mutating func seconds(_ name: StaticString, _ duration: Duration?) {
        self.name(name)
        if let duration { int(duration.components.seconds) } else { null() }
    }
}

extension AnswerReader {
    fileprivate func seconds(_ name: String) -> Duration? { int(name).map { .seconds($0) } }
}
