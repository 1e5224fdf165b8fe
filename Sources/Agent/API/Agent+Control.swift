import LocalAPI
package import Logging
import SyncCore
import SyncHTTP
import SyncStore
package import SyncYAML

// Control of the agent: sync, pause, resume, configuration.
extension Agent {
    /// A caller that waits for the end of a cycle.
    struct CycleWaiter {
        var call: LocalCall
        /// Timer of the longest wait.
        var timer: LoopTimer

        func answer(_ answer: LocalAnswer) {
            timer.cancel()
            call.answer(answer)
        }
    }

    /// Longest wait for a cycle. It takes at most its 25 seconds and one round trip, but a `Retry-After` may delay its start for an hour.
    private static let cycleWaitMax: Duration = .seconds(60)
    /// Longest wait without a link; a link that is coming up takes about this long.
    private static let linkWaitMax: Duration = .seconds(5)

    func sync(_ call: LocalCall) throws(Problem) {
        let body = try SyncBody.read(call.body)
        guard call.peer.allows(body.role) else {
            throw LocalProblem.forbidden.problem("this sync needs the role \(body.role.rawValue)")
        }
        if let pause = engine.memory.pause, pause.until.map({ $0 > environment.time.now().wall }) ?? true {
            throw LocalProblem.paused.problem("the sync is paused" + (pause.reason.isEmpty ? "" : ": \(pause.reason)"))
        }
        if body.acceptsDeletions { acceptDeletions(uid: call.peer.uid) }
        // A caller that replaced a refused token and requests a sync wants the new token to be used.
        showNewToken()
        if body.request.isForced {
            log.notice("forced sync", metadata: ["uid": "\(call.peer.uid)"])
            _ = tokenRefresh.handle(.forced, at: environment.time.now())
            audit("force", uid: call.peer.uid, ["scope": .string(body.request.scope.rawValue)])
        }
        if body.waits { wait(call) }
        feed(.wanted)
        handle(.requested(body.request))
        if body.request.isForced, body.request.scope == .all || body.request.scope == .full {
            feed(blob: .forced)
            feed(download: .forced)
        }
        // Waiting does not improve credentials.
        if engine.reachability == .auth { answerHeldWaiters() }
        if !body.waits { call.answer(SyncAnswer(cycle: engine.cycle?.session ?? "").answer) }
    }

    private func wait(_ call: LocalCall) {
        let number = cycleWaiters.nextNumber()
        let timer = schedule(after: Self.cycleWaitMax) { agent in
            guard let (session, waiter) = agent.cycleWaiters.leave(number) else { return }
            waiter.call.answer(SyncAnswer(cycle: session ?? "").answer)
        }
        cycleWaiters.add(number, CycleWaiter(call: call, timer: timer))
        guard engine.reachability == .offline else { return }
        schedule(after: Self.linkWaitMax) { $0.answerHeldWaiters() }
    }

    /// Answers waiting callers with the reason when no cycle can begin, instead of keeping them.
    func answerHeldWaiters() {
        guard engine.cycle == nil, case .defer(let wait) = engine.verdict(on: .critical, now: environment.time.now().wall),
            [.offline, .captive, .degraded, .auth].contains(wait.reason)
        else { return }
        let deferred = Dictionary(
            TrafficClass.allCases.compactMap { traffic -> (String, String)? in
                guard case .defer(let wait) = engine.verdict(on: traffic, now: environment.time.now().wall) else { return nil }
                return (traffic.name, wait.reason.rawValue)
            }, uniquingKeysWith: { first, _ in first })
        let answer = SyncAnswer(
            cycle: "",
            outcome: .init(
                result: "deferred", detail: wait.reason.sentence, pushed: 0, pulled: 0, deferred: deferred, bytesUp: 0,
                bytesDown: 0)
        ).answer
        for waiter in cycleWaiters.leaveWithoutCycle() { waiter.answer(answer) }
    }

    func answerCycleWaiters(_ outcome: CycleOutcome) {
        let answer = SyncAnswer(
            cycle: outcome.session,
            outcome: SyncAnswer.Outcome(
                result: outcome.error == nil ? "ok" : "failed", detail: outcome.error ?? nothingAsked(in: outcome),
                pushed: Int64(outcome.pushed), pulled: Int64(outcome.pulled), bytesUp: Int64(outcome.bytesUp),
                bytesDown: Int64(outcome.bytesDown))
        ).answer
        for waiter in cycleWaiters.ended(outcome.session) { waiter.answer(answer) }
    }

    /// A text for a cycle that asked for nothing: "ok: pulled 0" would make a new user believe that all data is here.
    private func nothingAsked(in outcome: CycleOutcome) -> String? {
        guard outcome.hadNoStreams, engine.settings.pullsAll else { return nil }
        return engine.memory.hubEntities == nil
            ? "Nothing was pulled: the configuration names no entity, and this hub does not say which it has. Name them under entities."
            : "Nothing was pulled: the hub has no records for this device yet."
    }

    func pause(_ call: LocalCall) throws(Problem) {
        let body = try PauseBody.read(call.body)
        let now = environment.time.now().wall
        if let until = body.until, until <= now {
            throw LocalProblem.validation.problem("until: expected a time after \(now), the present time of this device, found \(until)")
        }
        try checkBegun()
        let pause = EngineMemory.Pause(until: body.until, reason: body.reason, uid: call.peer.uid)
        log.notice("sync paused", metadata: ["uid": "\(call.peer.uid)", "until": "\(body.until.map(\.description) ?? "resumed")"])
        var detail: JSONObject = ["reason": .string(body.reason)]
        detail["until"] = body.until.map { .string($0.description) }
        audit("pause", uid: call.peer.uid, detail)
        setPause(pause, call)
    }

    func resume(_ call: LocalCall) throws(Problem) {
        _ = try ResumeBody.read(call.body)
        try checkBegun()
        log.notice("sync resumed", metadata: ["uid": "\(call.peer.uid)"])
        audit("resume", uid: call.peer.uid)
        setPause(nil, call)
    }

    /// Refuses a pause while the engine's memory could not be read: that must neither override the new pause nor be replaced by it.
    private func checkBegun() throws(Problem) {
        guard hasBegun else {
            throw LocalProblem.starting.problem(
                "the database has not been read since the start of the agent; agentd retries", retryAfter: 30)
        }
    }

    /// Sets a pause, which is in force at once. The answer comes when it is on flash, because it must survive a restart.
    private func setPause(_ pause: EngineMemory.Pause?, _ call: LocalCall) {
        if let pause { handle(.paused(pause)) } else { handle(.resumed) }
        // Work that no cycle does now needs its own timer.
        review()
        var memory = engine.memory
        memory.pause = pause
        store.perform(.remember(memory)) { [self] answer in
            assumeIsolated { agent in
                guard case .failed(let detail) = answer else { return call.answer(PauseAnswer(pause: pause).answer) }
                agent.log.error("the pause was not stored", metadata: ["error": "\(detail)"])
                call.refuse(LocalProblem.readOnly.problem("the pause is in force, but the disk refused to store it", retryAfter: 30))
            }
        }
    }
}

// MARK: - Configuration

extension Agent {
    func showConfiguration(_ call: LocalCall) {
        let values = loaded.settings.map { setting in
            switch setting.origin {
            case .standard: ConfigAnswer.Value(key: setting.key, value: setting.value, origin: "default")
            case .server: ConfigAnswer.Value(key: setting.key, value: setting.value, origin: "server")
            case .file(let name, let line):
                ConfigAnswer.Value(key: setting.key, value: setting.value, origin: "file", place: "\(name):\(line)")
            }
        }
        call.answer(ConfigAnswer(version: configurationState.version, values: values).answer)
    }

    func checkConfiguration(_ call: LocalCall) throws(Problem) {
        let body = try ConfigCheckBody.read(call.body)
        let files =
            if let text = body.text {
                [ConfigurationFile(name: body.name, contents: .success(Array(text.utf8)))]
            } else {
                environment.configurationFiles()
            }
        do throws(ConfigurationErrors) {
            _ = try ConfigurationLoader.read(files, accounts: environment.accounts)
            call.answer(ControlAnswer.configIsGood)
        } catch {
            throw problem(error)
        }
    }

    func reloadConfiguration(_ call: LocalCall) {
        do throws(ConfigurationErrors) {
            let change = try reload()
            audit("reload", uid: call.peer.uid, ["changed": .list(change.changed), "restart_needed": .list(change.needsRestart)])
            call.answer(ReloadAnswer(changed: change.changed, restartNeeded: change.needsRestart).answer)
        } catch {
            call.refuse(problem(error))
        }
    }

    /// Reads the files again and applies the changes that need no restart; running work continues. The power supply is read again as well,
    /// because many gauges never report a change.
    ///
    /// - Throws: The faults of the files. The old configuration stays in force then, and status says so.
    @discardableResult
    package func reload() throws(ConfigurationErrors) -> ConfigurationChange {
        let new: LoadedConfiguration
        do throws(ConfigurationErrors) {
            new = try readFiles(under: offers.inForce)
        } catch {
            configurationState.refused(error.errors.first?.description)
            log.error("configuration refused, the old one stays in force", metadata: ["error": "\(error)"])
            throw error
        }
        let change = ConfigurationChange(from: loaded.configuration, to: new.configuration)
        let isWrittenAnew = new.sources != loaded.sources
        if configurationState.accepted(needsRestart: change.needsRestart) { alarms.end(.configLastGood) }
        loaded = new
        loaded.configuration = change.inForce
        // A request to read everything again includes changes that the kernel did not report.
        watchPower()
        guard !change.changed.isEmpty else {
            if isWrittenAnew { environment.keepLastGood(new) }
            log.notice("configuration read again, nothing changed")
            return change
        }
        configurationState.changed()
        // A fault of another hub, or of another way to it, says nothing about this one.
        if change.changed.contains(where: { $0.hasPrefix("hub.") }) { around.reachability.endFault() }
        apply(change.inForce)
        environment.keepLastGood(new)
        considerTrial(isAsked: true)
        log.notice(
            "configuration changed",
            metadata: ["keys": "\(change.changed.joined(separator: ","))", "restart": "\(change.needsRestart.joined(separator: ","))"])
        journal(.config, EventPayload.config(version: configurationState.version, changed: change.changed))
        return change
    }

    /// The present files, unless the disk has changed one of them.
    func readFiles(under server: ServerConfiguration?) throws(ConfigurationErrors) -> LoadedConfiguration {
        let files = environment.configurationFiles()
        let damage = ConfigurationSource.damage(of: files, since: loaded.sources)
        guard damage.isEmpty else { throw ConfigurationErrors(damage) }
        return try ConfigurationLoader.read(files, accounts: environment.accounts, server: server)
    }

    func apply(_ configuration: AgentConfiguration) {
        log.logLevel = configuration.log.level.loggerLevel
        gate.use(configuration.access)
        hub.use(configuration.hubSettings(device: device))
        if let settings = configuration.restSettings { backend?.use(settings) }
        documentSchemas = documentSchemas.taking(configuration.rules)
        // First: the engine may ask the store for something at once, and that has to be in the new versions.
        useRules(configuration.rules)
        handle(.settings(engineSettings(configuration)))
        feed(.rules(configuration.links))
        feed(.settings(configuration.reachabilitySettings))
        // The configuration may name another hub.
        if environment.links != nil { resolveHub() }
        review()
        let rest = configuration.restMapping
        let (capacity, fileCapacity) = (configuration.storeCapacity, configuration.blobCapacity)
        let fullSync = configuration.sync.fullSync
        let gatesBlobs = configuration.blobs.gate == .before
        let isElsewhere = blobs.uploader.settings.server.files != configuration.uploadSettings(spread: environment.spread).server.files
        feed(blob: .settings(configuration.uploadSettings(spread: environment.spread)))
        feed(download: .settings(configuration.downloadSettings(spread: environment.spread)))
        if isElsewhere { feed(download: .otherHub) }
        if blobs.isSwept, configuration.aheadEntities != blobs.aheadEntities { wantShownFiles() }
        tellStore { store, _ in
            store.capacity = capacity
            store.fileCapacity = fileCapacity
            store.gatesBlobs = gatesBlobs
            store.rest = rest
            store.fullSync.interval = fullSync
        }
        tendIndexes()
    }

    func engineSettings(_ configuration: AgentConfiguration) -> SyncEngine.Settings {
        var settings = configuration.engineSettings(device: device, spread: environment.spread)
        settings.configVersion = offers.inForce?.version
        settings.refusedConfig = offers.refused
        settings.schemas = documentSchemas
        return settings
    }

    private func problem(_ errors: ConfigurationErrors) -> Problem {
        LocalProblem.validation.problem(
            "the configuration is not accepted: \(errors.errors.count == 1 ? "one error" : "\(errors.errors.count) errors")",
            errors: errors.errors.map { error in
                let pointer = error.key.split(separator: ".").map { "/" + $0 }.joined()
                return Problem.Pointer(pointer, error.description)
            })
    }
}

extension AgentConfiguration.Log.Level {
    package var loggerLevel: Logger.Level {
        switch self {
        case .trace: .trace
        case .debug: .debug
        case .info: .info
        case .notice: .notice
        case .warning: .warning
        case .error: .error
        case .critical: .critical
        }
    }
}
