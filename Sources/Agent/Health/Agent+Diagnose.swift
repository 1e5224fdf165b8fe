import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// Diagnostics for remote help: a file for a person, and after an outage a short report for the hub (PROTOCOL A2, H2). Neither contains a
// document, a record's id or a secret.
extension Agent {
    /// Types of events about the agent itself.
    private static let noteTypes: Set<String> = Set(
        [EventType.attention, .sync, .link, .connectivity, .policy, .power, .config].map(\.rawValue))
    private static let notesOfBundle = 2_000
    private static let notesOfReport = 500
    /// Largest report, bytes after compression; over a metered link the policy allows less.
    private static let reportBytesMax = 256 << 10

    private struct Diary: Sendable {
        var view: StoreView
        var notes: [JournalEvent]
        var newest: Int64
        var usage: [UsageRow]
    }

    // MARK: For a person

    func diagnose(_ call: LocalCall) {
        askSystem { agent in
            agent.readForStatus { agent, view in
                agent.readDiary(view, all: true) { agent, diary in agent.goOn(call, diary) { agent, diary in agent.answer(call, diary) } }
            }
        }
    }

    private func readDiary(
        _ view: Result<StoreView, StoreError>, all: Bool, _ done: @escaping @Sendable (isolated Agent, Result<Diary, StoreError>) -> Void
    ) {
        guard case .success(let view) = view else {
            if case .failure(let error) = view { done(self, .failure(error)) }
            return
        }
        let limit = all ? Self.notesOfBundle : Self.notesOfReport
        fromReader { reads, _ throws(StoreError) in
            let sent = all ? 0 : try reads.diagnosticsSent()
            let (notes, newest) = try reads.notes(after: sent, limit: limit, types: Self.noteTypes)
            return Diary(view: view, notes: notes, newest: newest, usage: try reads.usage(UsageQuery()))
        } then: { agent, diary in
            done(agent, diary)
        }
    }

    private func answer(_ call: LocalCall, _ diary: Diary) {
        let archive = bundle(diary).archive
        audit("diagnose", uid: call.peer.uid)
        let packed = environment.compressor.gzip(archive)
        call.answer(
            LocalAnswer(200, contentType: packed == nil ? "application/x-tar" : "application/gzip", body: packed ?? archive))
    }

    private func bundle(_ diary: Diary) -> DiagnosticsBundle {
        let now = environment.time.now()
        var bundle = DiagnosticsBundle(device: device, at: now.wall, redactor: redactor)
        bundle.add("summary.json", json: summary(diary, now.wall))
        add("status", status(diary.view).withoutParticulars.answer.body, to: &bundle)
        let findings = Doctor.examine(doctorFacts(diary.view)).map(\.withoutParticulars)
        add("checklist", DoctorAnswer(findings: findings).answer.body, to: &bundle)
        bundle.add(
            "config.txt",
            text: loaded.settings.map { setting in
                // Paths of secrets are no secrets, but they are not needed.
                let value = setting.key.hasSuffix("token_file") || setting.key.hasSuffix("key_file") ? Redactor.mark : setting.value.json
                return "\(setting.key): \(value)"
            }.joined(separator: "\n"))
        bundle.add("metrics.txt", text: metricsPage(diary.view.facts, diary.view.entities, openConflicts: diary.view.openConflicts))
        bundle.add("events.ndjson", lines: diary.notes.compactMap(Self.line))
        bundle.add("ledger.ndjson", lines: diary.usage.map(Self.line))
        return bundle
    }

    /// Adds an answer of this agent. One that exceeds the limits of the reader is added as text, because it is needed most in that case.
    private func add(_ name: String, _ body: [UInt8], to bundle: inout DiagnosticsBundle) {
        do {
            bundle.add("\(name).json", json: try JSONReader.read(body))
        } catch {
            bundle.add("\(name).txt", text: String(decoding: body, as: UTF8.self))
        }
    }

    private var redactor: Redactor {
        // A token that cannot be read cannot be in any message either.
        let token = (try? environment.token()) ?? nil
        return Redactor(secrets: [token, around.connectivity.portalURL].compactMap { $0 })
    }

    private func summary(_ diary: Diary, _ now: Timestamp) -> JSON {
        let overall = status(diary.view).overall
        let checks = DoctorSummary(Doctor.examine(doctorFacts(diary.view)))
        return [
            "type": "summary", "schema": "diagnostics/1", "at": .string(now.description), "device": .string(device.text),
            "agent": .string(AgentVersion.current), "platform": .string(AgentVersion.platform),
            "uptime_s": .int(startedAt.duration(to: environment.time.now().instant).components.seconds),
            "level": .string(overall.level.rawValue), "reasons": .list(overall.reasons),
            "checks_failed": .list(checks.failed.map(\.id)), "open": .int(diary.view.facts.open),
            "enqueued": .int(diary.view.facts.enqueued), "cycles": .int(metrics.cycles), "failed_cycles": .int(metrics.failedCycles),
        ]
    }

    private static func line(_ event: JournalEvent) -> JSON? {
        guard case .note(let type, let json) = event.body else { return nil }
        // Text that is no JSON cannot be searched for secrets by member, so it is left out and marked as such.
        guard var data = try? JSONReader.read(json) else {
            return ["type": .string(type), "n": .int(event.id), "at": .string(event.at.description), "data": "unreadable"]
        }
        // A configuration value that was not accepted may be a secret in the wrong place.
        if type == EventType.attention.rawValue, data.object?["code"]?.text?.hasPrefix("config_") == true, var object = data.object {
            object["detail"] = .string(Redactor.mark)
            data = .object(object)
        }
        return ["type": .string(type), "n": .int(event.id), "at": .string(event.at.description), "data": data]
    }

    private static func line(_ row: UsageRow) -> JSON {
        [
            "link": .string(row.link), "day": .string(row.day.text), "class": .string(row.purpose.rawValue), "up": .int(row.up),
            "down": .int(row.down), "requests": .int(row.requests),
        ]
    }

    // MARK: For the hub

    /// - Precondition: No cycle is running, and the last one succeeded.
    func sendDiagnosticsIfDue() {
        let now = environment.time.now()
        let mayGo = !hasStopped && Policy.decide(.diagnostics, in: engine.situation, now: now.wall) == .allow
        guard diagnostics.begin(mayGo: mayGo, at: now.instant) else { return }
        readForStatus { agent, view in
            agent.readDiary(view, all: false) { agent, diary in agent.send(diary) }
        }
    }

    private func send(_ result: Result<Diary, StoreError>) {
        guard case .success(let diary) = result, !hasStopped else {
            diagnostics.gaveUp()
            return
        }
        let now = environment.time.now()
        var situation = engine.situation
        let today = UTCDay(now.wall)
        situation.diagnosticsSentToday = diary.usage.filter { $0.day == today && $0.purpose == .diagnostics }
            .reduce(0) { $0.saturatingAdd(Int(clamping: $1.up.saturatingAdd($1.down))) }
        let room = min(Self.reportBytesMax, Policy.largestRequest(.diagnostics, in: situation) ?? .max) - Self.overheadBytes
        guard let body = report(diary, now.wall, room: room),
            case .allow = Policy.decide(.diagnostics, in: situation, now: now.wall, bytes: body.count + Self.overheadBytes)
        else {
            diagnostics.gaveUp()
            return
        }
        let (hub, replica, uplink, newest) = (hub, engine.replica, around.connectivity.uplink, diary.newest)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.report(body, replica: replica, over: uplink)
            await self?.reported(result, upTo: newest, over: uplink)
        }
    }

    /// Cost besides the content, bytes: heads of request and answer, TLS and TCP, on an existing connection.
    private static let overheadBytes = 2_048

    /// The report: compressed lines, with the newest events that fit.
    private func report(_ diary: Diary, _ now: Timestamp, room: Int) -> [UInt8]? {
        let redactor = redactor
        let head = redactor.json(summary(diary, now)).json
        var lines = diary.notes.compactMap(Self.line).map { redactor.json($0).json }
        while true {
            let text = ([head] + lines).joined(separator: "\n") + "\n"
            let bytes = Array(text.utf8)
            if let packed = environment.compressor.gzip(bytes), packed.count <= room { return packed }
            guard !lines.isEmpty else { return nil }
            lines.removeFirst((lines.count + 1) / 2)
        }
    }

    private func reported(_ result: Result<HTTPResponse, TransportError>, upTo newest: Int64, over uplink: Uplink?) {
        let answer = HubAnswer(.diagnostics, result, over: uplink, at: environment.time.now())
        observe(answer)
        guard case .success(let response) = result, response.status == 202, answer.headers != nil else {
            diagnostics.ended(isSent: false, at: answer.at.instant)
            return log.info("the hub refused the diagnostics")
        }
        diagnostics.ended(isSent: true, at: answer.at.instant)
        log.info("diagnostics sent", metadata: ["up_bytes": "\(response.traffic.wireUp)"])
        tellStore { store, now throws(StoreError) in try store.markDiagnosticsSent(upTo: newest, at: now) }
    }
}
