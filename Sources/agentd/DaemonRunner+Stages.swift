import Agent
import Glibc
import Logging
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
import SyncLinux
import SyncStore

// The stages of the start. Each makes one part out of the parts before it.
extension DaemonRunner {
    /// Number of threads: loop, files, curl, store, reader, links, power, clock, signals and the resolver.
    private static let threads = 10

    static func makeLoops() throws -> MultiThreadedEventLoopGroup {
        // The event loops end the process when no thread is available: this check reports it first, with a better message.
        try SpareThreads.check(threads)
        return MultiThreadedEventLoopGroup(numberOfThreads: 1)
    }

    /// Reads the identity of the state folder. A damaged file is moved aside, and is written anew when the database is open.
    ///
    /// - Returns: The file, its marker, and its fault.
    static func openIdentity(_ start: DaemonStart) -> (file: IdentityFile, marker: StoreMarker?, damage: String?) {
        let identity = IdentityFile(stateFolder: start.state.path)
        let known = identity.read()
        guard case .damaged(let error) = known else { return (identity, known.marker, nil) }
        start.log.error("the identity file is damaged; it is written again", metadata: ["error": "\(error)"])
        identity.moveAside()
        return (identity, known.marker, "\(error)")
    }

    /// Prepares the database of the state folder; ``makeStore(_:_:_:)`` opens it.
    static func makeOpener(_ start: DaemonStart, _ machine: Machine, _ marker: StoreMarker?) -> DatabaseOpener {
        let configuration = start.configuration
        var options = StoreOptions(
            device: machine.device, bootID: machine.bootID, rules: configuration.rules, capacity: configuration.storeCapacity,
            seed: machine.seed, marker: marker)
        options.clockTrust = SystemClocks.isSynchronised ? .synced : .unsynced
        options.fileCapacity = configuration.blobCapacity
        options.fullSync.interval = configuration.sync.fullSync
        options.rest = configuration.restMapping
        #if ABLATIONS
            // Faults that the test of power cuts causes on purpose, to prove that it detects them.
            if let names = getenv("AGENTD_ABLATIONS") { options.ablations = Ablations(names: String(cString: names)) }
        #endif
        return DatabaseOpener(stateFolder: start.state.path, ballastBytes: Int64(configuration.store.ballastBytes), options)
    }

    /// Opens the database on the writer's thread, or determines the obstacle.
    ///
    /// - Returns: The two threads of the store.
    static func makeStore(
        _ opener: DatabaseOpener, _ incidents: StoreIncidents, _ loop: any EventLoop
    ) throws(StoreError) -> (writer: StoreWriter, reader: StoreReader) {
        let deliver: StoreWriter.Deliver = { calls in loop.execute { for call in calls { call() } } }
        let writer = StoreWriter(
            time: SystemClocks(), retryAfter: storeRetryAfter, deliver: deliver, incident: { incidents.handle($0) },
            open: { now throws(StoreError) in try opener.open(at: now) })
        try opener.start(writer)
        let reader = StoreReader(path: opener.path, time: SystemClocks(), deliver: deliver) { damage in
            incidents.handle(damage: damage, of: writer)
        }
        return (writer, reader)
    }

    /// Counts this start as a crash until the run has ended or has lasted.
    static func countStart(_ crashes: CrashFile, _ machine: Machine) -> CrashCount {
        let count = CrashCount(after: crashes.read(), boot: machine.bootID, at: SystemClocks().now().instant)
        crashes.write(count)
        return count
    }

    /// - Returns: `nil` when steps of the clock cannot be heard of.
    static func watchClock(_ box: AgentBox, _ loop: any EventLoop, _ log: Logger) -> ClockMonitor? {
        do throws(LinuxError) {
            return try ClockMonitor { loop.execute { box.agent?.assumeIsolated { $0.clockStepped() } } }
        } catch {
            log.warning("changes of the wall clock cannot be watched", metadata: ["error": "\(error)"])
            return nil
        }
    }

    static func endpoint(_ socket: AgentConfiguration.Socket) throws(HTTPServerError) -> HTTPEndpoint {
        try HTTPEndpoint.activated().first ?? .unix(path: socket.path, mode: socket.mode, group: socket.group?.id)
    }
}
