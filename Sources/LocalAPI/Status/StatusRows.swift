import SyncCore

/// The content of the status screen, row by row; ``StatusScreen`` does the layout.
struct StatusRows {
    let document: StatusDocument
    let now: Timestamp
    let offset: Duration

    var all: [StatusRow] {
        var rows = [overall, work, state]
        if let cause { rows.append(cause) }
        rows += [power, links, policy].compactMap { $0 }
        rows.append(sync)
        if unreadable == nil {
            rows.append(outbox)
            rows += [blobs].compactMap { $0 }
            rows += waitingForPeople
            rows.append(cost)
            if let mirror { rows.append(mirror) }
            if let scopes { rows.append(scopes) }
        }
        rows.append(store)
        if let past { rows.append(past) }
        if let config { rows.append(config) }
        if let checks { rows.append(checks) }
        return rows
    }

    private var overall: StatusRow {
        let overall = document.overall
        let text =
            overall.level.rawValue + (overall.reasons.isEmpty ? "" : ": " + overall.reasons.joined(separator: ", "))
        switch overall.level {
        case .ok: return StatusRow("OVERALL", [text], .good)
        case .degraded: return StatusRow("OVERALL", [text], .warning)
        case .attention: return StatusRow("OVERALL", [text], .bad)
        }
    }

    // MARK: Safety of the work

    /// The reason why the content of the database is unknown.
    private var unreadable: String? {
        document.alarms.first { $0.has(.databaseUnreadable) }?.detail
    }

    private var work: StatusRow {
        if unreadable != nil { return StatusRow("WORK", ["unknown: the database cannot be read"], .bad) }
        let outbox = document.outbox
        guard outbox.isBalanced else {
            let found = count(outbox.open.saturatingAdd(outbox.finished))
            return StatusRow(
                "WORK", ["the counters do not add up: \(count(outbox.enqueued)) accepted, \(found) found"], .bad)
        }
        var text: String
        if outbox.enqueued == 0 {
            text = "nothing accepted yet"
        } else {
            let done = outbox.count(.done)
            let otherwise = outbox.finished.saturatingSubtract(done)
            text = "safe: \(count(outbox.enqueued)) accepted = \(count(done)) at hub + \(count(outbox.open)) on flash"
            // Cancelled, discarded, expired, merged and similar mutations.
            if otherwise > 0 { text += " + \(count(otherwise)) closed" }
        }
        guard document.database.durability == "full" else {
            return StatusRow(
                "WORK", ["NOT SAFE: the store runs with synchronous=\(document.database.durability)", text], .bad)
        }
        switch document.database.state {
        case .ok: return StatusRow("WORK", [text], .good)
        case .queueFull:
            return StatusRow(
                "WORK", [text, "NEW WORK IS REFUSED: the queue is full" + limit + "; its last tenth is for critical work"], .bad)
        case .diskFull:
            let free = document.database.freeBytes.map { " (" + SizeText.readable($0) + " free)" } ?? ""
            return StatusRow("WORK", [text, "NEW WORK IS REFUSED: the disk is full" + free], .bad)
        case .readOnly where document.alarms.contains { $0.has(.databaseRemoved) }:
            return StatusRow(
                "WORK", ["NOT SAFE until the state folder is back, and NEW WORK IS REFUSED", "\(count(outbox.open)) wait in it"], .bad)
        case .readOnly: return StatusRow("WORK", [text, "NEW WORK IS REFUSED: " + readOnlyCause], .bad)
        }
    }

    private var readOnlyCause: String {
        if document.alarms.contains(where: { $0.has(.newerSchema) }) { return "a newer agentd has written the database" }
        let isForeign = document.alarms.contains { $0.has(.foreignDatabase) }
        return isForeign ? "the database is another program's" : "the disk refuses writes"
    }

    private var limit: String {
        document.outbox.limit.map { " (\(count(document.outbox.open)) of \(count($0)))" } ?? ""
    }

    // MARK: Flow of the work, and its obstacles

    private var state: StatusRow {
        let connectivity = document.connectivity
        var text = connectivity.state
        if let uplink = connectivity.uplink {
            let link = connectivity.links.first { $0.name == uplink }
            text += " via " + uplink + (link.flatMap(cost).map { " (\($0))" } ?? "")
        }
        if let since = connectivity.since { text += " since " + clock(since) }
        text += "; " + (document.sync.lastSuccess.map { "last success \(ago($0))" } ?? "the hub was never reached")
        var texts = [text]
        // If there is a cause, its own row shows it.
        if document.cause == nil {
            if connectivity.state != "online", let detail = connectivity.detail ?? connectivity.cause { texts.append(detail) }
            if let portal = connectivity.portalURL { texts.append("log in at " + portal) }
        }
        switch Reachability(rawValue: connectivity.state) {
        case .online: return StatusRow("STATE", texts, .good, wrapsTo: 2)
        case .auth: return StatusRow("STATE", texts, .bad, wrapsTo: 2)
        // A newer agent may have further states.
        case .offline, .connecting, .captive, .degraded, nil: return StatusRow("STATE", texts, .warning, wrapsTo: 2)
        }
    }

    /// The reason why waiting work does not go, with the same text as in `why`, `plan`, `links` and `doctor`.
    private var cause: StatusRow? {
        guard let cause = document.cause else { return nil }
        return StatusRow("CAUSE", cause.lines(clock), document.connectivity.state == "auth" ? .bad : .warning, wrapsTo: 3)
    }

    private var sync: StatusRow {
        let sync = document.sync
        var texts: [String] = []
        var tone = StatusRow.Tone.plain
        if let pause = sync.pause {
            tone = .warning
            let until = pause.until.map { "until " + clock($0) } ?? "until it is resumed"
            let who = pause.isSafeMode ? "the agent itself" : "uid \(pause.uid)"
            texts.append("paused \(until), by \(who)" + (pause.reason.isEmpty ? "" : ": " + pause.reason))
        } else if ["settle", "pull", "push"].contains(sync.phase) {
            texts.append("running: " + sync.phase)
        } else if let notBefore = sync.notBefore, notBefore > now {
            tone = .warning
            texts.append("the hub asked not to be called until " + clock(notBefore) + inTime(notBefore))
        } else if sync.isWaitingForNews {
            texts.append("waiting for news: changes of others arrive within a second")
        } else {
            let what = sync.attempt > 0 ? "next try" : "next pull"
            let next = sync.nextAt.map { "; \(what)\(inTime($0)) (\(clock($0)))" } ?? ""
            texts.append((sync.attempt > 0 ? "waiting" : sync.phase) + next)
        }
        if sync.attempt > 0 {
            tone = .warning
            texts[0] += ", \(count(sync.attempt)) failed in a row"
        }
        // Text of the state's own line is not repeated.
        let isSaid = [document.connectivity.detail, document.cause?.sentence].contains { said in
            said.map { sync.lastError?.contains($0) == true || $0.contains(sync.lastError ?? "") } ?? false
        }
        if sync.attempt > 0 || sync.lastSuccess == nil, !isSaid, let error = sync.lastError {
            texts.append("last error" + (sync.lastErrorAt.map { " " + ago($0) } ?? "") + ": " + error)
        }
        switch sync.breaker {
        case "open"?: texts.append("breaker open: the hub has failed repeatedly, so only a small probe is sent")
        case "half_open"?: texts.append("breaker half open: a small push tests if the hub has recovered")
        default: break
        }
        if sync.breaker == "open" || sync.breaker == "half_open" { tone = .warning }
        if let stalls = sync.stalls, stalls > 0 {
            tone = .warning
            texts.append(PlainText.count(stalls, "cycle") + " made no progress and had to be stopped")
        }
        if let first = sync.firstSync, first.phase != "done" {
            let progress = first.done.map { " \(count($0))" + (first.total.map { " of \(count($0))" } ?? "") } ?? ""
            texts.append("first sync: " + first.phase + progress)
        }
        return StatusRow("SYNC", texts, tone, wrapsTo: 2)
    }

    private var outbox: StatusRow {
        let outbox = document.outbox
        let pending = outbox.count(.pending)
        let inFlight = outbox.count(.inFlight)
        guard pending > 0 || inFlight > 0 else {
            return StatusRow("OUTBOX", [outbox.open == 0 ? "empty" : "nothing waits to be sent; " + still])
        }
        let classes = Priority.allCases.compactMap { priority in
            outbox.pending[priority].flatMap { $0 > 0 ? "\(count($0)) \(priority.name)" : nil }
        }
        var text = "\(count(pending)) pending" + (classes.isEmpty ? "" : " (" + classes.joined(separator: ", ") + ")")
        text += ", \(count(inFlight)) in flight"
        if let oldest = outbox.oldest { text += ", oldest " + DurationText.readable(oldest) }
        let why = reasons.prefix(3).map { first in
            let same = outbox.deferred.filter { isSame($0, first) }
            let numbers = same.map { "\(count($0.count)) \($0.priority.name)" }.joined(separator: ", ")
            let verb = same.reduce(0) { $0.saturatingAdd($1.count) } == 1 ? " waits: " : " wait: "
            return numbers + verb + words(first.reason) + end(first)
        }
        return StatusRow("OUTBOX", [text] + why, why.isEmpty ? .plain : .warning, wrapsTo: 2)
    }

    /// Open mutations that wait for people.
    private var still: String {
        let outbox = document.outbox
        let kinds = [
            (outbox.count(.conflicted), "in conflict"), (outbox.count(.rejected), "refused"), (outbox.sum([.failed, .held]), "parked"),
        ]
        return kinds.filter { $0.0 > 0 }.map { "\(count($0.0)) \($0.1)" }.joined(separator: ", ")
    }

    /// One deferral for each different reason and end.
    private var reasons: [StatusDocument.Deferral] {
        var reasons: [StatusDocument.Deferral] = []
        for deferral in document.outbox.deferred
        where !reasons.contains(where: { isSame($0, deferral) }) {
            reasons.append(deferral)
        }
        return reasons
    }

    private func isSame(_ one: StatusDocument.Deferral, _ other: StatusDocument.Deferral) -> Bool {
        one.reason == other.reason && one.until == other.until && one.event == other.event
    }

    /// The end of a deferral: `, until 21:41:02Z or when an unmetered link is up`.
    private func end(_ deferral: StatusDocument.Deferral) -> String {
        switch (deferral.until, deferral.event) {
        case (let until?, let event?): ", until \(clock(until)) or \(event)"
        case (let until?, nil): ", until " + clock(until)
        case (nil, let event?): "; " + event
        case (nil, nil): ""
        }
    }

    /// The sentence of a reason; a code of a newer agent is shown unchanged.
    func words(_ reason: String) -> String {
        SyncCore.Deferral.Reason(rawValue: reason)?.sentence ?? reason
    }

    // MARK: Decisions for people

    private var waitingForPeople: [StatusRow] {
        [
            attention("CONFLICTS", [.conflicted], "conflicts show", .bad),
            attention("REJECTED", [.rejected], "rejected show", .warning),
            attention("PARKED", [.failed, .held], "mutations show", .warning),
        ].compactMap { $0 }
    }

    private func attention(
        _ label: String, _ states: [MutationState], _ command: String, _ tone: StatusRow.Tone
    ) -> StatusRow? {
        let number = document.outbox.sum(states)
        guard number > 0 else { return nil }
        guard let latest = document.attention.first(where: { states.contains($0.state) }) else {
            return StatusRow(label, [count(number)], tone)
        }
        let problem = latest.problem.map { "  \($0.code): \($0.detail)" } ?? ""
        return StatusRow(
            label, ["\(count(number))  \(latest.record)" + problem, "-> agentctl \(command) \(latest.id)"], tone)
    }

    // MARK: Cost

    private var cost: StatusRow {
        var texts = [
            document.outbox.bytes > 0 ? SizeText.readable(document.outbox.bytes) + " to send" : "nothing to send"
        ]
        if let usage = document.usage {
            texts.append("today " + SizeText.readable(usage.up) + " up, " + SizeText.readable(usage.down) + " down")
        }
        return StatusRow("COST", [texts.joined(separator: "; ")])
    }

    // MARK: Local data

    private var mirror: StatusRow? {
        let entities = document.entities.filter { $0.kind != EntityRules.Kind.event.rawValue }
        guard !entities.isEmpty else { return nil }
        let ages = entities.map(\.cursorAge)
        let oldest = ages.contains(nil) ? nil : ages.compactMap { $0 }.max()
        let pulled = oldest.map { "pulled " + DurationText.readable($0) + " ago" } ?? "not all pulled yet"
        return StatusRow(
            "MIRROR", [pulled + "; " + entities.map(mirrored).joined(separator: ", ")])
    }

    private func mirrored(_ entity: StatusDocument.Entity) -> String {
        "\(entity.name) \(count(entity.records))" + (entity.notKept > 0 ? " (and \(count(entity.notKept)) not kept)" : "")
    }

    private var scopes: StatusRow? {
        guard let server = document.sync.server, let share = server.share else { return nil }
        let since = server.isShareOld ? ["the hub has changed them since; to see them: agentctl sync --force"] : []
        guard share.isEmpty else { return StatusRow("SCOPES", [share.words] + since, wrapsTo: 2) }
        let text = "none: the hub gives this device no record that belongs to a scope"
        if server.isShareOld { return StatusRow("SCOPES", ["none"] + since, wrapsTo: 2) }
        return StatusRow("SCOPES", [text, "at the hub: agenthub grant \(document.agent.device) SCOPE=VALUE"], .warning)
    }

    private var store: StatusRow {
        let database = document.database
        var text = "db \(SizeText.readable(database.bytes)) + wal \(SizeText.readable(database.walBytes))"
        if unreadable != nil { text = "db unknown" }
        if let free = database.freeBytes { text += ", \(SizeText.readable(free)) free" }
        text += ", sqlite \(database.sqlite), synchronous \(database.durability)"
        var texts = [text]
        if database.integrity != "ok" { texts.append("INTEGRITY: " + database.integrity) }
        texts += document.alarms.map { $0.code + ": " + $0.detail }
        if let recovery = database.recovery { texts.append(recovery) }
        let isSound = database.integrity == "ok" && document.alarms.allSatisfy(\.heals)
        // An alarm names the action at its end.
        let lines = document.alarms.isEmpty ? 2 : 4
        return StatusRow("STORE", texts, isSound ? (database.recovery == nil ? .plain : .warning) : .bad, wrapsTo: lines)
    }

    /// Past alarms about the data.
    private var past: StatusRow? {
        guard !document.pastAlarms.isEmpty else { return nil }
        let texts = document.pastAlarms.map { alarm in
            alarm.code + (alarm.at.map { " at " + clock($0) } ?? "") + ", over: " + alarm.detail
        }
        return StatusRow("PAST", texts + ["-> agentctl acknowledge"], .plain, wrapsTo: 2)
    }

    private var config: StatusRow? {
        let configuration = document.configuration
        var texts: [String] = []
        if configuration.source == "last_good" {
            texts.append("the files are not accepted; the last good configuration is in force")
        }
        if let error = configuration.error { texts.append("not taken: " + error) }
        let isBad = !texts.isEmpty || configuration.source == "reverted"
        if let trial = configuration.trial { texts.append(trial) }
        return texts.isEmpty ? nil : StatusRow("CONFIG", texts, isBad ? .bad : .warning, wrapsTo: 2)
    }

    /// The summary of the checks with the most severe finding: `29/30 ok   ! disk: …`.
    private var checks: StatusRow? {
        guard let checklist = document.checklist, checklist.total > 0 else { return nil }
        var text = "\(checklist.ok)/\(checklist.total) ok"
        if let worst = checklist.worst { text += "   ! \(worst.id): \(worst.detail)" }
        switch checklist.worst?.severity {
        case .bad?, .warn?: return StatusRow("CHECKS", [text, "-> agentctl doctor"], .warning)
        case .note?, .ok?, .unknown?, nil: return StatusRow("CHECKS", [text])
        }
    }

    // MARK: Words

    func count(_ value: Int64) -> String { PlainText.count(value) }
    func clock(_ time: Timestamp) -> String { PlainText.clock(time, now: now, offset: offset) }
    private func ago(_ time: Timestamp) -> String { DurationText.age(of: time, at: now) }

    private func inTime(_ time: Timestamp) -> String {
        time > now ? " in " + DurationText.readable(now.duration(to: time)) : " now"
    }
}
