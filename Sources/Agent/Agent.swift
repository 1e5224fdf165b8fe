import Logging
package import SyncCore
package import SyncHTTP
package import SyncStore

/// Runs the engine: feeds it events, performs its effects one after another, and serves the local API from the same event
/// loop. It holds no rule of its own; what it decides, it decides by asking a value of the core.
///
/// It lives on one NIO loop (``LoopExecutor``), so a request handler enters it without a hop, and an idle agent sleeps in
/// one `epoll_wait`. The store's writer and reader and the transport have a thread each; their answers come back as calls
/// on the loop.
package actor Agent {
    package nonisolated let executor: LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let environment: AgentEnvironment
    let store: StoreWriter
    let reader: StoreReader
    let hub: HubClient
    /// An existing backend in the hub's place; it carries everything that the engine asks then.
    let backend: RestClient?
    let device: DeviceID
    let startedAt: Instant
    var log: Logger
    var loaded: LoadedConfiguration
    var configurationError: String?
    var startedFromLastGood = false
    var configurationVersion: Int64 = 1
    /// What the hub has told; `nil` as long as it has said nothing.
    var server: ServerConfiguration?

    // The engine and what it waits for.
    var engine: SyncEngine
    var wake: LoopTimer?
    var call: Task<Void, Never>?
    var hasStopped = false
    /// What the store can do; see ``ServiceMode``.
    var mode = ServiceMode.serving
    /// The engine has what the store remembers.
    var hasBegun = false
    /// The store has told that, or that it cannot.
    var hasHeardStore = false
    /// What waits for this; see ``isHearingStore``.
    var whenHeard: [@Sendable () -> Void] = []
    /// For the nonces of probes.
    var nonces: SeededRandom

    /// Links, power and the bytes that went.
    var around: Surroundings
    /// Files on their way.
    var blobs: BlobDesk

    /// Looks after the file of the socket.
    var socketCare = SocketCare()

    // Observers.
    var gate: AccessGate
    var cycleWaiters: [CycleWaiter] = []
    var mutationWaiters: [MutationKey: [MutationWaiter]] = [:]
    let events: EventStreams
    var observed = Observations()
    var indexes = IndexUpkeep()

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
        // The real one comes with the store's first answer.
        let replica = ReplicaID(trusted: UUIDv7.make(at: now.wall, using: &random))
        nonces = SeededRandom(seed: random.next())
        let settings = configuration.engineSettings(device: parts.device, spread: environment.spread)
        engine = SyncEngine(settings: settings, replica: replica, random: random)
        around = Surroundings(
            configuration, hasLinks: environment.links != nil, random: SeededRandom(seed: nonces.next()), at: now)
        blobs = BlobDesk(
            configuration.uploadSettings(spread: environment.spread), folder: environment.blobs,
            random: SeededRandom(seed: nonces.next()))
        gate = AccessGate(rules: configuration.access)
        events = EventStreams(reader: parts.reader, executor: executor)
        transport.book(by: self)
    }
}
