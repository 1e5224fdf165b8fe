import LocalAPI
import Logging
package import SyncCore
import SyncHTTP
package import SyncStore
import SyncYAML

// `GET /v1/checklist`, and its summary in the status.
extension Agent {
    /// Age of an answer of the hub below which another request would add nothing.
    private static let contactAge: Duration = .seconds(60)

    func showChecklist(_ call: LocalCall) {
        askHub { agent in
            agent.askSystem { agent in
                agent.readForStatus { agent, result in
                    agent.goOn(call, agent.orUnread(result)) { agent, view in
                        call.answer(DoctorAnswer(findings: Doctor.examine(agent.doctorFacts(view))).answer)
                    }
                }
            }
        }
    }

    /// The summary for the status, from known facts and without waiting.
    func checklist(_ view: StoreView) -> DoctorSummary {
        if systemFacts.isOld(at: environment.time.now().instant) { askSystem() }
        return DoctorSummary(Doctor.examine(doctorFacts(view)))
    }

    // MARK: Requests

    /// Sends the hub the smallest possible request, so that name, route, TLS and clock are checked now. Only where the policy allows the
    /// most urgent work, and not when the hub has just answered.
    private func askHub(_ done: @escaping @Sendable (isolated Agent) -> Void) {
        let now = environment.time.now()
        guard !hubFacts.isFresh(Self.contactAge, at: now.instant), !hasStopped, case .allow = engine.verdict(on: .critical, now: now.wall)
        else { return done(self) }
        let (hub, backend, uplink) = (hub, backend, around.connectivity.uplink)
        let nonce = String(UInt64.random(in: .min ... .max, using: &nonces), radix: 36)
        Task(executorPreference: executor) { [self] in
            let result = if let backend { await backend.look(over: uplink) } else { await hub.look(nonce: nonce, over: uplink) }
            await lookedAtHub(result, over: uplink, done)
        }
    }

    private func lookedAtHub(
        _ result: Result<HTTPResponse, TransportError>, over uplink: Uplink?, _ done: @Sendable (isolated Agent) -> Void
    ) {
        observe(HubAnswer(.look, result, over: uplink, at: environment.time.now()))
        done(self)
    }

    func askSystem(_ done: @escaping @Sendable (isolated Agent) -> Void = { _ in }) {
        guard let examine = environment.examine else { return done(self) }
        systemFacts.begin(at: environment.time.now().instant)
        examine(doctorQuestions) { [self] system in
            onLoop { agent in
                agent.systemFacts.collected(system)
                done(agent)
            }
        }
    }

    private var doctorQuestions: DoctorQuestions {
        var questions = DoctorQuestions(loaded)
        questions.interfaces = around.connectivity.links.filter(\.isUsable).map(\.name)
        return questions
    }

    /// The address of the hub and the credentials for it, for the commands that are shown to people.
    var hubPlace: HubPlace {
        let configuration = loaded.configuration
        let (url, proxy) = (configuration.hub.url, configuration.proxyOfHub?.url)
        var place = HubPlace()
        (place.url, place.host, place.port) = (url.text, url.host, url.port)
        (place.proxy, place.proxyHost) = (proxy?.text, proxy?.host)
        place.device = device.text
        place.tokenFile = systemFacts.last?.token.path ?? configuration.hub.tokenFile
        place.proxyCredentialsFile = systemFacts.last?.proxyCredentials?.path ?? configuration.hub.proxyCredentialsFile
        place.lacksProxyCredentials = systemFacts.last?.proxyCredentials?.fault != nil
        place.portal = around.connectivity.portalURL.map { Printable.text($0) }
        return place
    }

    // MARK: Facts

    func doctorFacts(_ view: StoreView) -> DoctorFacts {
        let now = environment.time.now()
        var facts = DoctorFacts(now: now.wall)
        var agent = DoctorFacts.Agent(isRunning: true)
        agent.deaths = environment.deaths
        agent.isSafeMode = environment.safeMode != nil && engine.memory.pause != nil
        // The token and the configuration have checks of their own.
        let elsewhere: Set<AlarmCode> = [.configRejected, .configLastGood, .configReverted]
        for (code, detail) in alarms.present where !elsewhere.contains(code) { agent.alarms[code.rawValue] = detail }
        agent.pastAlarms = pastAlarms.map(\.code)
        agent.refusals = metrics.refusals
        facts.agent = agent
        var configuration = DoctorFacts.Configuration(loaded)
        configuration.error = configurationState.error
        configuration.isErrorOfHub = configurationState.error?.hasPrefix("\(ServerConfiguration.name):") ?? false
        configuration.isLastGood = configurationState.isLastGood
        configuration.trial = trialSentence
        configuration.restartNeeded = configurationState.restartNeeded
        configuration.unknownEntities = view.entities.map(\.name).filter { loaded.configuration.rules.entities[$0] == nil }.map(\.text)
        facts.configuration = configuration
        facts.system = systemFacts.last
        facts.hub = factsOfHub(now)
        if environment.links != nil {
            let connectivity = around.connectivity
            facts.links = .init(
                all: connectivity.links.map { .init(name: $0.name, kind: $0.kind, cost: $0.cost, isUsable: $0.isUsable) },
                uplink: connectivity.uplink?.name)
            facts.links?.budgets = conditions(at: now).budgets
        }
        if environment.power != nil {
            facts.power = .init(state: around.power.state, level: around.power.level, supplies: around.supplies?.count)
        }
        facts.store = factsOfStore(view.facts)
        facts.work = factsOfWork(view.facts, now)
        return facts
    }

    private func factsOfHub(_ now: Moment) -> DoctorFacts.Hub {
        let url = loaded.configuration.hub.url
        var hub = DoctorFacts.Hub(reachability: engine.reachability)
        hub.place = hubPlace
        hub.fault = around.reachability.fault
        hub.cause = around.reachability.cause
        hub.isAddress = loaded.configuration.nextHop.isNumeric
        hub.isResolved = hubFacts.isResolved
        hub.usesTLS = url.isSecure
        hub.certificateEndsAt = hubFacts.certificateEndsAt
        hub.syncVersion = hubFacts.syncVersion
        hub.foreignVersions = hubFacts.foreignVersions
        (hub.tokenEndsAt, hub.tokenRefreshAt) = (tokenRefresh.endsAt, tokenRefresh.refreshAt)
        hub.clockOffset = engine.clock.offset(at: now)?.offset
        hub.share = engine.memory.share
        return hub
    }

    private func factsOfStore(_ facts: StoreFacts) -> DoctorFacts.Store {
        let capacity = loaded.configuration.store
        var store = DoctorFacts.Store(
            integrity: storeHealth.integrity, bytes: facts.bytes, maxBytes: Int64(capacity.maxSizeBytes), walBytes: facts.walBytes,
            minFreeBytes: loaded.configuration.storeCapacity.minFreeForOrdinary, sqlite: facts.sqlite)
        store.synchronous = "full"
        store.isReadOnly = storeHealth.isReadOnly
        store.recovery = storeHealth.recoveryNews(isFull: diskSpace.isQuotaUsedUp, at: environment.time.now().instant)
        return store
    }

    private func factsOfWork(_ facts: StoreFacts, _ now: Moment) -> DoctorFacts.Work {
        let memory = engine.memory
        var work = DoctorFacts.Work(facts, limit: Int64(loaded.configuration.store.maxMutations), loaded.configuration.sync, now: now.wall)
        work.lastSuccess = memory.lastSuccess
        work.failures = memory.failures
        work.lastError = memory.lastError
        work.lastErrorAt = memory.lastErrorAt
        work.pause = memory.pause
        return work
    }
}

extension DoctorFacts.Work {
    package init(_ facts: StoreFacts, limit: Int64, _ sync: AgentConfiguration.Sync, now: Timestamp) {
        self.init(
            open: facts.open, limit: limit, since: facts.createdAt,
            pullInterval: max(sync.pullInterval, sync.meteredPullInterval))
        isBalanced = facts.counts.values.reduce(0) { $0 + $1.values.reduce(0, +) } == facts.enqueued
        oldest = facts.oldestWaiting.map { max(.zero, $0.duration(to: now)) }
        rejected = facts.count(.rejected)
        parked = facts.count(.failed) + facts.count(.held)
        conflicted = facts.count(.conflicted)
    }
}

extension DoctorFacts.Configuration {
    package init(_ loaded: LoadedConfiguration) {
        let configuration = loaded.configuration
        self.init(file: loaded.files.first ?? "")
        hubURL = configuration.hub.url.text
        isHubPlain = !configuration.hub.url.isSecure
        hasDevice = configuration.hub.device != nil
        weaknesses = configuration.restMapping.map { RestWeakness.list($0, configuration.rules) }
        let written = Set(loaded.settings.filter { $0.origin != .standard }.map(\.key))
        undocumented = configuration.rules.entities.filter { name, rules in
            // A documented rule is the strategy itself, or a field rule that is not the default.
            rules.kind == .record && rules.fields.isEmpty && !written.contains("entities.\(keyText(name.text)).strategy")
        }.keys.map(\.text).sorted()
    }
}

extension DoctorQuestions {
    package init(_ loaded: LoadedConfiguration) {
        let configuration = loaded.configuration
        self.init(stateFolder: configuration.store.path, configurationFiles: loaded.files)
        tokenFile = configuration.hub.tokenFile
        isTokenOptional = configuration.hub.clientCertificateFile != nil || configuration.restMapping != nil
        clientCertificateFile = configuration.hub.clientCertificateFile
        clientKeyFile = configuration.hub.clientKeyFile
        authoritiesFile = configuration.hub.caFile
        proxyCredentialsFile = configuration.hub.proxyCredentialsFile
        socketPath = configuration.socket.path
    }
}
