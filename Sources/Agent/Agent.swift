import Logging
package import SyncCore
package import SyncHTTP
package import SyncStore

/// Runs the engine: it passes events to it, performs its effects one after another, and serves the local API from the same event loop. It
/// contains no rules; all decisions come from values of the core.
///
/// It lives on one NIO loop (``LoopExecutor``), so a request handler enters it without a hop, and an idle agent sleeps in one `epoll_wait`.
/// The store's writer and reader and the transport have a thread each; their answers come back as calls on the loop.
package actor Agent {
    package nonisolated let executor: LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let environment: AgentEnvironment
    let store: StoreWriter
    let reader: StoreReader
    let hub: HubClient
    /// The client of an existing backend in the hub's place; it then carries all requests of the engine.
    let backend: RestClient?
    let device: DeviceID
    let startedAt: Instant
    var log: Logger

    // The configuration in force.
    var loaded: LoadedConfiguration
    var configurationState = ConfigurationState()
    var offers = ConfigurationOffers()
    /// The versions of the schemas of this device's documents.
    var documentSchemas = SchemaNumbers()
    var trials: ConfigurationTrials

    // The engine and the events that it waits for.
    var engine: SyncEngine
    var wake: LoopTimer?
    var call: Task<Void, Never>?
    /// The pull that waits at the hub for news.
    var waitingPull: Task<Void, Never>?
    var hasStopped = false
    /// The abilities of the store; see ``ServiceMode``.
    var mode = ServiceMode.serving
    /// The engine has its memory from the store.
    var hasBegun = false
    /// The store has returned that memory, or failed to.
    var hasHeardStore = false
    /// Requests that wait for this; see ``isHearingStore``.
    var whenHeard: [LocalCall] = []
    var newWork = NewWork()
    /// Counts of the waiting mutations while work arrives.
    var waitingCounts = Throttle(.seconds(1))
    /// Generator of the probes' nonces.
    var nonces: SeededRandom

    /// Links, power, clock and transferred bytes.
    var around: Surroundings
    /// Uploads and received files.
    var blobs: FileTransfers
    /// State of the socket file.
    var socketKeeper: SocketFileKeeper?
    var rulesAttempts = RulesAttempts()
    var indexes = IndexUpkeep()

    // The hub, beside the sync.
    var hubFacts = HubFacts()
    var tokenRefresh = TokenRefresh()
    var diagnostics = DiagnosticsReports()

    // Health.
    var alarms = Alarms()
    var metrics = Metrics()
    var diskSpace = DiskSpace()
    var storeHealth = StoreHealth()
    var systemFacts = SystemFacts()
    var queue = QueueWatch()

    // Callers that wait, and readers of events.
    var gate: AccessGate
    var cycleWaiters = CycleWaiters<CycleWaiter>()
    /// Cycles that read nothing because the hub's settings come first. They are being fetched, and the callers of these cycles wait.
    var interruptedCycles: [CycleOutcome] = []
    var mutationWaiters = MutationWaiters<MutationWaiter>()
    let events: EventStreams

    package struct Parts {
        package var configuration: LoadedConfiguration
        package var device: DeviceID
        package var store: StoreWriter
        package var reader: StoreReader

        package init(configuration: LoadedConfiguration, device: DeviceID, store: StoreWriter, reader: StoreReader) {
            self.configuration = configuration
            self.device = device
            self.store = store
            self.reader = reader
        }
    }

    package init(_ parts: Parts, environment: AgentEnvironment, executor: LoopExecutor) {
        let now = environment.time.now()
        let transport = BookedTransport(environment.transport)
        var environment = environment
        environment.transport = transport
        self.executor = executor
        self.environment = environment
        store = parts.store
        reader = parts.reader
        device = parts.device
        loaded = parts.configuration
        trials = ConfigurationTrials(window: environment.trialWindow)
        log = environment.log
        startedAt = now.instant
        let configuration = parts.configuration.configuration
        hub = HubClient(
            settings: configuration.hubSettings(device: parts.device), transport: environment.transport,
            compressor: environment.compressor, time: environment.time, token: environment.token, keeper: environment.tokenKeeper)
        backend = configuration.restSettings.map { settings in
            RestClient(
                settings: settings, transport: environment.transport, time: environment.time, secret: environment.secret)
        }
        var random = SeededRandom(seed: environment.seed)
        // The real id comes with the store's first answer.
        let replica = ReplicaID(trusted: UUIDv7.make(at: now.wall, using: &random))
        nonces = SeededRandom(seed: random.next())
        let settings = configuration.engineSettings(device: parts.device, spread: environment.spread)
        engine = SyncEngine(settings: settings, replica: replica, random: random)
        around = Surroundings(
            configuration, hasLinks: environment.links != nil, random: SeededRandom(seed: nonces.next()), at: now)
        blobs = FileTransfers(
            configuration.uploadSettings(spread: environment.spread), configuration.downloadSettings(spread: environment.spread),
            folder: environment.blobs,
            random: SeededRandom(seed: nonces.next()))
        gate = AccessGate(rules: configuration.access)
        events = EventStreams(reader: parts.reader, executor: executor)
        transport.book(by: self)
    }
}
