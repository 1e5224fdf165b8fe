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
                if let trial = configuration.trial { writer.member("trial", trial) }
            }
            writer.members("connectivity") { connectivity.write(to: &$0) }
            if let cause { writer.members("cause") { cause.write(to: &$0) } }
            if let power { writer.members("power") { power.write(to: &$0) } }
            writer.members("policy") { writer in writer.members("verdicts") { writeVerdicts(to: &$0) } }
            writer.members("sync") { sync.write(to: &$0) }
            writer.members("outbox") { outbox.write(to: &$0) }
            if let blobs { writer.members("blobs") { blobs.write(to: &$0) } }
            if let conflicts { writer.members("conflicts") { $0.member("open", conflicts) } }
            if !alarms.isEmpty {
                writer.elements("alarms", alarms) { writer, alarm in writer.object { alarm.write(to: &$0) } }
            }
            if !pastAlarms.isEmpty {
                writer.elements("past_alarms", pastAlarms) { writer, alarm in writer.object { alarm.write(to: &$0) } }
            }
            writer.elements("attention", attention) { writer, item in writer.object { item.write(to: &$0) } }
            writer.elements("entities", entities) { writer, entity in
                writer.object { writer in
                    writer.member("name", entity.name)
                    writer.member("kind", entity.kind)
                    writer.member("records", entity.records)
                    if entity.notKept > 0 { writer.member("not_kept", entity.notKept) }
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
            if let checklist { writer.members("checklist") { checklist.write(to: &$0) } }
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

    /// - Returns: `nil` when the JSON is no status document.
    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.has("agent"), reader.has("outbox"), reader.has("sync") else { return nil }
        let configuration = reader.inside("config")
        self.init(
            agent: Agent(reader.inside("agent")), database: Database(reader.inside("agent").inside("db")),
            configuration: Configuration(
                version: configuration.int("version") ?? 0, source: configuration.text("source") ?? "file",
                error: configuration.text("error"), trial: configuration.text("trial")),
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
                    records: entity.int("records") ?? 0, notKept: entity.int("not_kept") ?? 0, pending: entity.int("pending") ?? 0,
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
        cause = PresentCause(reader.inside("cause"))
        power = PowerState(reader.inside("power"))
        checklist = Checklist(reader.inside("checklist"))
        if reader.has("blobs") { blobs = Blobs(reader.inside("blobs")) }
        conflicts = reader.inside("conflicts").int("open")
        alarms = reader.list("alarms").compactMap { Alarm(AnswerReader($0)) }
        pastAlarms = reader.list("past_alarms").compactMap { Alarm(AnswerReader($0)) }
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
        writer.elements("links", links) { $1.write(to: &$0) }
    }

    fileprivate init(_ reader: AnswerReader) {
        self.init(
            state: reader.text("state") ?? "unknown", since: reader.time("since"), cause: reader.text("cause"),
            detail: reader.text("detail"), portalURL: reader.text("portal_url"), uplink: reader.text("uplink"),
            links: reader.list("links").compactMap { LinkItem($0) })
    }
}

extension JSONWriter {
    mutating func seconds(_ name: StaticString, _ duration: Duration?) {
        self.name(name)
        if let duration { int(duration.components.seconds) } else { null() }
    }
}

extension AnswerReader {
    func seconds(_ name: String) -> Duration? { int(name).map { .seconds($0) } }
}
