import SyncCore

extension StatusDocument.Sync {
    func write(to writer: inout JSONWriter) {
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
                server.share?.write(to: &writer)
                if server.isShareOld { writer.member("scopes_changed", true) }
            }
        }
        writer.member("bad_replies", badReplies)
        writer.member("breaker", breaker)
        writer.member("stalls", stalls)
        if isWaitingForNews { writer.member("waiting_for_news", true) }
    }

    init(_ reader: AnswerReader) {
        self.init(
            phase: reader.text("phase") ?? "unknown", lastSuccess: reader.time("last_success"),
            lastError: reader.text("last_error"), lastErrorAt: reader.time("last_error_at"),
            nextAt: reader.time("next_at"), attempt: reader.int("attempt") ?? 0, notBefore: reader.time("not_before"),
            isCaughtUp: reader.bool("caught_up") ?? false, badReplies: reader.int("bad_replies") ?? 0,
            breaker: reader.text("breaker"), stalls: reader.int("stalls"))
        isWaitingForNews = reader.bool("waiting_for_news") ?? false
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
                epoch: server.text("epoch"), head: server.int("head"), syncVersion: server.int("sync_version"),
                share: DeviceShare(server.object))
            self.server?.isShareOld = server.bool("scopes_changed") ?? false
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
    func write(to writer: inout JSONWriter) {
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
                writer.member("event", deferral.event)
            }
        }
        guard let history else { return }
        writer.members("history") { writer in
            writer.member("step_s", history.step.components.seconds)
            writer.time("until", history.until)
            writer.elements("open", history.open) { $0.int($1) }
        }
    }

    init(_ reader: AnswerReader) {
        self.init(
            enqueued: reader.int("enqueued") ?? 0, oldest: reader.seconds("oldest_s"), bytes: reader.int("bytes") ?? 0,
            limit: reader.int("limit"))
        for priority in Priority.allCases { pending[priority] = reader.inside("pending").int(priority.name) }
        for state in MutationState.allCases where state != .pending { counts[state] = reader.int(state.name) }
        let past = reader.inside("history")
        if let step = past.int("step_s"), (1...86_400).contains(step), let until = past.time("until") {
            history = History(step: .seconds(step), until: until, open: past.list("open").compactMap(\.int))
        }
        counts[.pending] = pending.values.reduce(0) { $0.saturatingAdd($1) }
        deferred = reader.list("deferred").compactMap { element in
            let deferral = AnswerReader(element)
            guard let priority = deferral.text("priority").flatMap({ Priority(name: $0) }),
                let reason = deferral.text("reason")
            else { return nil }
            return StatusDocument.Deferral(
                priority: priority, count: deferral.int("count") ?? 0, reason: reason, until: deferral.time("until"),
                event: deferral.text("event"))
        }
    }
}

extension StatusDocument.Attention {
    func write(to writer: inout JSONWriter) {
        writer.member("state", state.name)
        writer.member("id", id)
        writer.member("entity", record.entity.text)
        writer.member("record_id", record.id.text)
        guard let problem else { return }
        writer.name("problem")
        problem.writeNote(to: &writer)
    }

    init?(_ reader: AnswerReader) {
        guard let state = reader.text("state").flatMap({ MutationState(name: $0) }), let id = reader.text("id"),
            let entity = reader.text("entity").flatMap({ EntityName($0) }),
            let recordID = reader.text("record_id").flatMap({ RecordID($0) })
        else { return nil }
        self.init(
            state: state, id: id, record: RecordName(entity, recordID), problem: Problem(note: reader.object["problem"])
        )
    }
}
