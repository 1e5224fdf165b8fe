import Agent
import Glibc
import Logging
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
import SyncLinux
import SyncStore
import SyncThreads
import SyncYAML
import Synchronization

/// One run of the agent, from the open state folder to the exit status.
final class DaemonRunner {
    private let loaded: LoadedConfiguration
    private let state: StateDirectory
    private let lastGood: LastGoodFiles
    private let log: Logger
    private let notifier: ReadinessNotifier?
    private let group: MultiThreadedEventLoopGroup
    private let executor: LoopExecutor
    private let transport: CurlTransport
    private let writer: StoreWriter
    private let reader: StoreReader
    private let agent: Agent
    private let vault: Vault
    private let identity: IdentityFile
    /// The fault of the identity file.
    private let identityDamage: String?
    private let clock: ClockMonitor?
    private let crashes: CrashFile
    private let heartbeat: Heartbeat?
    private let end = Promise<Void>()
    private let restart: RestartWish

    init(
        _ loaded: LoadedConfiguration, config: String, state: StateDirectory, log: Logger, _ notifier: ReadinessNotifier?
    ) throws {
        self.loaded = loaded
        self.state = state
        self.log = log
        self.notifier = notifier
        let configuration = loaded.configuration
        let machine = MachineIdentity(calls: LinuxFileCalls())
        let bootID = try machine.bootID()
        let device = try configuration.hub.device ?? Self.derivedDevice(machine)
        let clocks = SystemClocks()
        let seed = systemRandomSeed()
        log.info("starting", metadata: ["version": "\(AgentVersion.current)", "device": "\(device)", "seed": "\(seed)"])

        // The event loops end the process when no thread is available: this check reports it first, with a better message.
        try SpareThreads.check(Self.threads)
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        executor = LoopExecutor(loop)
        transport = try CurlTransport()
        let deliver: StoreWriter.Deliver = { calls in loop.execute { for call in calls { call() } } }
        let box = AgentBox()
        identity = IdentityFile(stateFolder: state.path)
        let known = identity.read()
        if case .damaged(let error) = known {
            identityDamage = "\(error)"
            log.error("the identity file is damaged; it is written anew", metadata: ["error": "\(error)"])
            identity.moveAside()
        } else {
            identityDamage = nil
        }
        var options = StoreOptions(
            device: device, bootID: bootID, rules: configuration.rules, capacity: configuration.storeCapacity, seed: seed,
            marker: known.marker)
        options.clockTrust = SystemClocks.isSynchronised ? .synced : .unsynced
        options.fullSync.interval = configuration.sync.fullSync
        options.rest = configuration.restMapping
        #if ABLATIONS
            // Faults that the test of power cuts causes on purpose, to prove that it detects them.
            if let names = getenv("AGENTD_ABLATIONS") { options.ablations = Ablations(names: String(cString: names)) }
        #endif
        let vault = Vault(stateFolder: state.path, ballastBytes: Int64(configuration.store.ballastBytes), options)
        self.vault = vault
        let end = end
        let restart = RestartWish()
        self.restart = restart
        var retryAfter = StoreWriter.retryAfter
        #if ABLATIONS
            if let text = getenv("AGENTD_STORE_RETRY_MS"), let count = Int64(String(cString: text)) { retryAfter = .milliseconds(count) }
        #endif
        let identity = identity
        let incident: @Sendable (StoreWriter.Incident) -> Void = { incident in
            switch incident {
            case .usableAgain(let opening): vault.note(opening)
            case .restored:
                // Files beside the database may have been removed with it.
                do throws(LinuxError) {
                    try state.holdAgain()
                } catch {
                    log.error("the lock of the state folder was not taken anew", metadata: ["error": "\(error)"])
                }
                vault.noteAgain(in: identity)
            case .fatal(let error):
                vault.noteDamage(error)
                restart.make()
                end.fulfil()
            case .commitFailed, .readFailed, .unusable, .wentOn: break
            }
            loop.execute { box.agent?.assumeIsolated { $0.note(incident) } }
        }
        writer = StoreWriter(
            time: clocks, retryAfter: retryAfter, deliver: deliver, incident: incident,
            open: { now throws(StoreError) in try vault.open(at: now) })
        try vault.start(writer)
        reader = StoreReader(path: vault.path, time: clocks, deliver: deliver) { [writer] damage in
            if damage.isFailedRead { return writer.doubt(damage) }
            // A database that a newer or another program has written is not judged here.
            if case .open = vault.state { incident(.fatal(damage)) }
        }
        let credentials = HubCredentials(configuration.hub)
        let kept = LastGoodFiles(config: config)
        lastGood = kept
        var environment = AgentEnvironment(
            transport: transport, compressor: ZlibCompressor(), time: clocks, bootID: bootID, seed: seed,
            token: { try credentials.token() },
            // `try?`: an unknown value is reported as such; a full disk shows at the next write.
            freeBytes: { (try? state.freeSpace())?.freeBytes },
            accounts: SystemAccounts.accounts, configurationFiles: { ConfigurationLoader.files(main: config) },
            keepLastGood: { kept.keep($0, in: state.path, log) }, log: log)
        environment.diskRetryAfter = retryAfter
        environment.blobs = BlobFiles(at: state.path + "/blobs")
        environment.hash = { FileHash() }
        environment.secret = { file in try HubCredentials.secret(file) }
        let transport = transport
        crashes = CrashFile(stateFolder: state.path)
        let count = CrashCount(after: crashes.read(), boot: bootID, at: clocks.now().instant)
        crashes.write(count)
        environment.deaths = count.deaths
        environment.trials = TrialFiles(stateFolder: state.path, log).keeper
        environment.tokenKeeper = KeptTokenFile(stateFolder: state.path).keeper
        environment.examine = { questions, answer in
            SystemExaminer.ofThisProcess.examine(credentials.completing(questions), notifier, answer)
        }
        if count.isSafeMode {
            environment.safeMode = .init(deaths: count.deaths, holds: CrashCount.window)
        }
        do throws(LinuxError) {
            environment.links = try Self.netlink(configuration, log)
        } catch {
            log.error("the links are not watched; one that costs nothing is assumed", metadata: ["error": "\(error)"])
            environment.linksUnwatched = "\(error)"
        }
        environment.power = SysfsPowerMonitor { error in
            log.warning("changes of the power supply are not heard of; it is read every minute", metadata: ["error": "\(error)"])
        }
        environment.resolve = HubAddresses(log).resolve
        environment.closeIdleConnections = { transport.closeIdleConnections() }
        environment.runProgram = { path, argument, onEnd in
            OperatorProgram.run(path, argument: argument, limit: .seconds(60)) { onEnd($0.isGood, "\($0)") }
        }
        environment.installedFile = { InstalledFile.read($0) }
        environment.takeLeftover = { transport.takeLeftover() }
        environment.carried = { InterfaceCounters.carried(by: $0) }
        environment.localOffset = { LocalTime.offset(at: $0) }
        environment.wallIsSynchronised = { SystemClocks.isSynchronised }
        agent = Agent(
            .init(configuration: loaded, device: device, store: writer, reader: reader), environment: environment,
            executor: executor)
        box.put(agent)
        heartbeat = Heartbeat(notifier, executor: executor, store: writer)
        do throws(LinuxError) {
            clock = try ClockMonitor { loop.execute { box.agent?.assumeIsolated { $0.clockStepped() } } }
        } catch {
            log.warning("steps of the clock are not heard of", metadata: ["error": "\(error)"])
            clock = nil
        }
        if case .open(let opening) = vault.state { keepIdentity(after: opening) }
    }

    /// Number of threads: loop, files, curl, store, reader, links, power, clock, signals and the resolver.
    private static let threads = 10

    private static func netlink(_ configuration: AgentConfiguration, _ log: Logger) throws(LinuxError) -> NetlinkMonitor {
        var settings = NetlinkMonitor.Settings()
        settings.sysfsRoot = configuration.power.sysfsRoot
        return try NetlinkMonitor(settings) { error in
            log.warning("the links cannot be read", metadata: ["error": "\(error)"])
        }
    }

    private static func derivedDevice(_ machine: MachineIdentity) throws -> DeviceID {
        let id = try machine.machineID()
        guard let device = DeviceID.derived(fromMachineID: id) else {
            throw LinuxError(
                .malformed, doing: "derive the device id", path: "/etc/machine-id",
                expected: "32 hexadecimal digits, or hub.device in the configuration")
        }
        return device
    }

    /// - Returns: The exit status.
    func run(insteadOf refused: ConfigurationErrors?) -> Int32 {
        let ended = end
        let (agent, log, notifier) = (agent, log, notifier)
        let reloads = Reloads(agent, notifier)
        let signals: SignalSource
        let server: HTTPServer
        do {
            signals = try SignalSource { signal in
                switch signal {
                case .terminate, .interrupt: ended.fulfil()
                case .hangUp: if !ended.isFulfilled { reloads.request() }
                }
            }
            if case .damaged(let reason) = vault.state {
                // Before the API opens: no app may see an empty queue.
                executor.loop.execute { agent.assumeIsolated { $0.beginRecovery("\(reason)") } }
            }
            let endpoint = try Self.endpoint(loaded.configuration.socket)
            server = try executor.wait { [group] in try await agent.listen(on: endpoint, group: group) }
            let socket = loaded.configuration.socket
            agent.keepFound(server, mode: socket.mode, group: socket.group?.id)
        } catch {
            Say.error("\(error)")
            close()
            return 73
        }
        do throws(StoreError) {
            try serveStore(refused)
        } catch {
            Say.error("\(error)")
            executor.wait { await server.stop(within: .seconds(1)) }
            close()
            signals.close()
            return 73
        }
        if refused == nil { lastGood.keep(loaded, in: state.path, log) }
        // A service manager that does not listen does not prevent serving.
        try? notifier?.send(.ready, .status("serving \(server.address)"))
        log.notice("serving", metadata: ["socket": "\(server.address)"])
        reloads.open()
        heartbeat?.start()
        ended.wait()

        log.notice("stopping")
        // A service manager that does not listen does not prevent the stop.
        try? notifier?.send(.stopping)
        executor.loop.execute { agent.assumeIsolated { $0.wind() } }
        executor.wait { await server.stop(within: .seconds(5)) }
        close()
        signals.close()
        // The service manager starts it again.
        if restart.isMade { return 70 }
        crashes.remove()
        return 0
    }

    /// Runs while the API is open: repairs the database if necessary, and passes it to the agent.
    private func serveStore(_ refused: ConfigurationErrors?) throws(StoreError) {
        let agent = agent
        let opening: StoreOpening
        switch vault.state {
        case .open(let found): opening = found
        case .damaged(let reason):
            opening = try vault.recover(writer, from: reason)
            keepIdentity(after: opening)
        case .resting(let error):
            executor.loop.execute {
                agent.assumeIsolated { agent in
                    if let refused { agent.noteLastGood(refused) }
                    agent.awaitStore(error)
                }
            }
            return
        case .newer(let error):
            executor.loop.execute { agent.assumeIsolated { $0.refuseWork(error) } }
            return
        }
        let identityDamage = identityDamage
        executor.loop.execute {
            agent.assumeIsolated { agent in
                agent.endRecovery()
                agent.note(opening)
                if let identityDamage { agent.noteIdentityDamage(identityDamage) }
                if let refused { agent.noteLastGood(refused) }
                agent.start()
            }
        }
    }

    private func close() {
        clock?.stop()
        transport.close()
        reader.close()
        // The last acknowledged number is read before the end, and stored beside the database.
        if case .open = vault.state { keepIdentity() }
        do throws(StoreError) {
            try writer.close()
        } catch {
            log.error("the store was not closed in good order", metadata: ["error": "\(error)"])
        }
        // The process ends next; the store is closed already, so the loop has no work left.
        try? group.syncShutdownGracefully()
        state.close()
    }

    /// Stores the identity if the stored one does not, or no longer, match this database.
    private func keepIdentity(after opening: StoreOpening) {
        guard !vault.hasMarker || identityDamage != nil || opening.isNew || opening.lostTail > 0 || opening.rescue != nil else { return }
        keepIdentity()
    }

    /// Stores the identity and progress of this database. Without it a later loss is noticed later, which does not prevent serving.
    private func keepIdentity() {
        let answer = Promise<Result<StoreMarker, StoreError>>()
        writer.run { store, now throws(StoreError) in
            let facts = try store.reads.facts(at: now)
            return StoreMarker(replica: facts.replica, acknowledged: facts.lastSeq)
        } completion: { result in
            answer.fulfil(result)
        }
        do {
            let marker = try answer.wait().get()
            vault.note(marker)
            try identity.write(marker)
        } catch {
            log.error("the identity file was not written", metadata: ["error": "\(error)"])
        }
    }

    private static func endpoint(_ socket: AgentConfiguration.Socket) throws(HTTPServerError) -> HTTPEndpoint {
        try HTTPEndpoint.activated().first ?? .unix(path: socket.path, mode: socket.mode, group: socket.group?.id)
    }
}

/// Reads the configuration again after SIGHUP, at the pace of ``ReloadPace``. A request during the start waits for its end: a reload
/// reports to the service manager that the agent is ready, and that must be true then.
private final class Reloads: Sendable {
    private let pace = Mutex(ReloadPace())
    private let start = Mutex((isOver: false, isWanted: false))
    private let agent: Agent
    private let notifier: ReadinessNotifier?
    private let clocks = SystemClocks()

    init(_ agent: Agent, _ notifier: ReadinessNotifier?) {
        self.agent = agent
        self.notifier = notifier
    }

    /// Called when the agent serves.
    func open() {
        let isWanted = start.withLock { start in
            start.isOver = true
            return start.isWanted
        }
        if isWanted { request() }
    }

    /// Called on the thread of the signals.
    func request() {
        let isOver = start.withLock { start in
            start.isWanted = true
            return start.isOver
        }
        guard isOver else { return }
        guard let delay = pace.withLock({ [clocks] in $0.request(at: clocks.now().instant) }) else { return }
        let loop = agent.executor.loop
        if delay == .zero { return loop.execute { self.reload() } }
        loop.scheduleTask(in: .nanoseconds(delay.nanoseconds)) { self.reload() }
    }

    private func reload() {
        pace.withLock { [clocks] in $0.begin(at: clocks.now().instant) }
        // A service manager that does not listen does not prevent the reload.
        try? notifier?.send(.reloading)
        agent.assumeIsolated { agent in
            // The fault is in the log and in status already; the old configuration stays.
            _ = try? agent.reload()
        }
        // A service manager that gets no message waits until its own timeout, and reports that itself.
        try? notifier?.send(.ready)
        pace.withLock { [clocks] in $0.end(at: clocks.now().instant) }
    }
}

/// Holds the agent, because the store's thread may call before the agent exists.
private final class AgentBox: Sendable {
    private let content = Mutex<Agent?>(nil)

    var agent: Agent? { content.withLock { $0 } }

    func put(_ agent: Agent) { content.withLock { $0 = agent } }
}

/// The agent ends by itself only where a restart helps.
private final class RestartWish: Sendable {
    private let wish = Atomic(false)

    var isMade: Bool { wish.load(ordering: .acquiring) }

    func make() { wish.store(true, ordering: .releasing) }
}
