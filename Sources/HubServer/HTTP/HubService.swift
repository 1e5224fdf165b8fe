package import Logging
import NIOCore
import NIOPosix
package import SyncCore
package import SyncHTTP
import Synchronization

/// A hub on the network: HTTP/1.1 over TCP or TLS around a ``Hub``.
package final class HubService: Sendable {
    package struct Options: Sendable {
        /// A TCP address: a literal without brackets or a name, and a port, of which 0 lets the kernel choose.
        package struct Address: Sendable {
            package var host: String
            package var port: Int

            package init(host: String, port: Int) {
                (self.host, self.port) = (host, port)
            }
        }

        package var host: String
        /// 0 lets the kernel choose.
        package var port: Int
        package var tls: HubTLS?
        /// Address for monitoring (``MetricsHandler``); `nil`: the port of the devices has the figures, unless the hub shares records out.
        package var metrics: Address?
        /// Path of the Unix socket for operators on this machine (``OperatorHandler``); `nil`: none.
        package var operatorSocket: String?
        /// Threads that read and write sockets; each connection to the database has its own thread.
        package var threads = 2
        package var limits = HubService.defaultLimits
        #if ABLATIONS
            package var faults = HubFaults.fromEnvironment()
        #endif

        package init(host: String, port: Int, tls: HubTLS? = nil) {
            self.host = host
            self.port = port
            self.tls = tls
        }

        /// Largest number of connections of one address without a credential; `nil`: no limit.
        package var strangersPerAddress: Int? {
            get { limits.strangersPerAddress }
            set {
                limits.strangersPerAddress = newValue
                // Behind a balancer all connections have one address, which does not tell clients apart.
                if newValue == nil { limits.handshakesPerAddress = nil }
            }
        }

        /// Largest number of connections. Half of them may be unauthenticated.
        package var connections: Int {
            get { limits.connections }
            set {
                limits.connections = newValue
                limits.strangers = newValue / 2
            }
        }

        /// Largest number of open files: the connections, those that are told that there is no room, and ``otherFiles``.
        package var filesMax: UInt { UInt(limits.connections + limits.refusals) + Self.otherFiles }
        /// Half of the admitted requests (``Admission``) may be about files, and each of them opens a file and a socket of an object store;
        /// the rest is for the databases and the program itself.
        private static let otherFiles = UInt(Admission.requestsMax + 64)

        /// The largest number of connections for this limit of open files.
        package static func connections(files: UInt) -> Int {
            let refusals = UInt(HTTPServerLimits.refusalsMax)
            let left = max(files, otherFiles) - otherFiles
            return Int(clamping: left < 2 * refusals ? left / 2 : left - refusals)
        }
    }

    /// The hub's limits. A fleet has many more connections than a socket has apps. Devices keep theirs for a minute between two requests of
    /// a cycle.
    ///
    /// An idle connection costs about 8 KB of memory without TLS.
    ///
    /// Unauthenticated connections, that is TCP connections before a credential was shown, have half of all, and one address 128. A fleet
    /// behind one address (NAT, a balancer) has no further limit; it only shares these until each device has shown its token.
    ///
    /// A handshake costs about 2 ms of a small machine (a signature of RSA-2048): 16 a second from one address are 3 % of a processor. The
    /// burst is as large as the number of unauthenticated connections of an address.
    ///
    /// The slowest served line has 9.6 kbit/s and carries about 1,000 bytes a second. A TLS handshake and the first head (6 KiB) take 8 s
    /// of the 20 s; a body must bring 256 B/s, a quarter of the line, after 60 s of grace. The largest push (4 MiB) takes such a line 70
    /// minutes, and an agent on it sends 64 KiB at once.
    package static var defaultLimits: HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.connections = 10_000
        limits.strangers = 5_000
        limits.strangersPerAddress = 128
        limits.handshakesPerAddress = .init(atOnce: 128, perSecond: 16)
        limits.firstHeadTime = .seconds(20)
        limits.idleTime = .seconds(75)
        limits.strangerIdleTime = .seconds(15)
        // The same time as in the other direction: a gap in the coverage is not the end of a device.
        limits.writeStallTime = limits.bodyIdleTime
        limits.bodyRate = 256
        limits.bodyGrace = .seconds(60)
        return limits
    }

    /// The service's dependencies on its process.
    package struct Environment: Sendable {
        package var time: any TimeSource
        package var seed: UInt64
        /// The present tokens; asked at each request, so it should know without reading a file whether they changed.
        package var tokens: @Sendable () -> TokenBook?
        /// Changes the tokens in their storage, for enrolment and refresh. `nil`: changes last for this run only.
        package var changeTokens: Hub.TokenChange?
        /// Compresses answers; `nil` sends them uncompressed.
        package var compressor: (any Compressor)?
        /// Receives the database's position from time to time, and at the end.
        package var remember: @Sendable (HubMark) -> Void
        package var log: Logger

        package init(
            time: any TimeSource, seed: UInt64, tokens: @escaping @Sendable () -> TokenBook?,
            compressor: (any Compressor)?, remember: @escaping @Sendable (HubMark) -> Void = { _ in }, log: Logger
        ) {
            self.time = time
            self.seed = seed
            self.tokens = tokens
            self.compressor = compressor
            self.remember = remember
            self.log = log
        }
    }

    /// The bound address, such as `127.0.0.1:43210`.
    package let address: String
    package let port: Int
    private let server: HTTPServer
    private let operators: OperatorHandler.Listening?
    private let metrics: MetricsHandler.Listening?
    private let worker: HubWorker
    private let group: MultiThreadedEventLoopGroup
    private let ownGroup: MultiThreadedEventLoopGroup
    private let renewal: CertificateRenewal?

    /// Listens and serves. The hub belongs to the service from now on.
    ///
    /// - Throws: `.cannotListen` or `.badCertificate`. Nothing runs then.
    package static func start(
        _ hub: sending Hub, _ options: Options, _ environment: Environment
    ) async throws(HubError) -> HubService {
        let identity = try options.tls.map { (files) throws(HubError) in try ServerIdentity(files) }
        let log = environment.log
        hub.report = { log.error("the database failed", metadata: ["doing": "\($0.doing)", "error": "\($0.detail)"]) }
        hub.onNotice = { $0.write(to: log) }
        hub.settings.time = environment.time
        let group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, options.threads))
        // The other threads write files: the database must not wait for them.
        let fileThreads = hub.settings.uploads?.storage.traits.threads ?? 0
        let readers = Self.readers(beside: hub, log)
        let ownGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1 + readers.count + fileThreads)
        let loop = ownGroup.next()
        let reading = readers.map { (reader: $0, loop: ownGroup.next()) }
        let files = FileThreads(fileThreads == 0 ? [loop] : (0..<fileThreads).map { _ in ownGroup.next() })
        let worker = HubWorker(hub, on: loop, files: files, environment)
        let handler = HubHandler(worker: worker, options: options, environment: environment)
        var configuration = HTTPServerConfiguration(
            endpoint: .tcp(host: options.host, port: options.port), problemBody: HubHandler.problemBody)
        // A refusal by an HTTP limit is the hub's refusal, too, and carries its headers.
        var spoken: HTTPHeaders = [:]
        HubHeaders().write(to: &spoken)
        configuration.problemHeaders = spoken.fields.map { ($0.name, $0.value) }
        configuration.limits = options.limits
        configuration.refused = { [figures = worker.figures] problem, peer in
            figures.countRefusal(problem.code)
            log.debug("refused", metadata: ["status": "\(problem.status)", "detail": "\(problem.detail)", "peer": "\(peer)"])
        }
        let isDue = Mutex(RateBudget(size: 1, perSecond: 1.0 / 60, at: .now()))
        configuration.closedForRoom = { peer in
            guard isDue.withLock({ $0.spend(at: .now()) }) else { return }
            log.warning(
                "connections are closed to make room for others",
                metadata: [
                    "peer": "\(peer)",
                    "hint": "agenthub_connections_closed_total counts them; this line is written once a minute at most",
                ])
        }
        if let identity {
            configuration.configureTLS = { try $0.pipeline.syncOperations.addHandler(identity.handler()) }
            worker.figures.useCertificate { identity.endsAt }
            configuration.tlsSubject = { HubTLS.device(of: $0)?.text }
        }
        var metrics: MetricsHandler.Listening?
        do {
            metrics = try await MetricsHandler.listen(at: options.metrics, worker, on: group, environment)
            let server = try await HTTPServer.start(configuration, on: group, handler: handler)
            worker.figures.use { server.counts }
            worker.read(with: reading)
            worker.start()
            let operators = await OperatorHandler.listen(at: options.operatorSocket, worker, on: group, log)
            let service = HubService(
                server, operators, metrics, worker, group, ownGroup, identity.map { .init($0, environment.time, log) })
            service.renewal?.begin(on: group.next())
            return service
        } catch {
            await metrics?.stop(within: .zero)
            // An error while idle groups close does not matter beside the first error.
            try? await group.shutdownGracefully()
            try? await ownGroup.shutdownGracefully()
            throw HubError(.cannotListen, doing: error.doing, detail: error.detail)
        }
    }

    /// A database that gives no further connection does not prevent serving.
    private static func readers(beside hub: Hub, _ log: Logger) -> [HubReader] {
        var readers: [HubReader] = []
        do throws(HubError) {
            while readers.count < HubReaders.most, let reader = try hub.reader() { readers.append(reader) }
        } catch {
            let shared = readers.isEmpty ? "reads share the connection of the writer" : "listings share the connection of pulls"
            log.warning("\(shared)", metadata: ["error": "\(error)"])
        }
        return readers
    }

    private init(
        _ server: HTTPServer, _ operators: OperatorHandler.Listening?, _ metrics: MetricsHandler.Listening?, _ worker: HubWorker,
        _ group: MultiThreadedEventLoopGroup, _ ownGroup: MultiThreadedEventLoopGroup, _ renewal: CertificateRenewal?
    ) {
        self.renewal = renewal
        self.server = server
        self.operators = operators
        self.metrics = metrics
        self.worker = worker
        self.group = group
        self.ownGroup = ownGroup
        switch server.address {
        case .tcp(let host, let port):
            address = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
            self.port = port
        case .unix(let path):
            address = path
            port = 0
        }
    }

    /// Serves on this thread, which does not belong to the runtime, until `end` is called.
    ///
    /// - Parameter whenReady: Called once requests are accepted. `end` may be called from any thread, any number of times.
    package static func run(
        _ hub: sending Hub, _ options: Options, _ environment: Environment,
        whenReady: (_ service: HubService, _ end: @escaping @Sendable () -> Void) throws -> Void
    ) throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        defer { try? group.syncShutdownGracefully() }  // No work runs there any more.
        let loop = group.next()
        let executor = LoopExecutor(loop)
        let started = loop.makePromise(of: HubService.self)
        let box = HubBox(hub)
        Task(executorPreference: executor) {
            do {
                started.succeed(try await start(box.take(), options, environment))
            } catch {
                started.fail(error)
            }
        }
        let service = try started.futureResult.wait()
        let ended = loop.makePromise(of: Void.self)
        let stopped = loop.makePromise(of: Void.self)
        defer {
            ended.succeed()
            Task(executorPreference: executor) {
                await service.stop(within: .seconds(10))
                stopped.succeed()
            }
            try? stopped.futureResult.wait()  // The promise only ever succeeds.
        }
        try whenReady(service) { ended.succeed() }
        try ended.futureResult.wait()
    }

    /// Reads the files of TLS at once, if they have changed; otherwise that happens once a minute.
    package func renewCertificate() {
        renewal?.look()
    }

    /// Has the hub look at its entities file again. The log says what became of it; a file that is refused changes nothing.
    package func offer(_ file: EntityText, _ log: Logger) {
        worker.operate { hub, _ in
            do throws(EntityFailure) {
                try hub.offer(file).write(to: log)
            } catch {
                log.error("the entities file is invalid; the present settings stay in force", metadata: ["error": "\(error.detail)"])
            }
        } answer: { _ in
        }
    }

    /// The bound address for monitoring; `nil`: there is none.
    package var metricsAddress: String? { metrics?.address }

    /// Open connections, idle ones included.
    package var connectionCount: Int { server.connectionCount }
    package var connectionCounts: HTTPServerCounts { server.counts }

    /// Accepts no new connection, answers waiting pulls, lets running requests end for at most `grace`, and closes the database's file
    /// cleanly.
    package func stop(within grace: Duration) async {
        worker.endWaits()
        async let operatorsEnd: Void? = operators?.stop(within: grace)
        async let metricsEnd: Void? = metrics?.stop(within: grace)
        await server.stop(within: grace)
        _ = await (operatorsEnd, metricsEnd)
        // None of these calls can fail: no other code closes these loops.
        try? await worker.stop().get()
        try? await group.shutdownGracefully()
        try? await ownGroup.shutdownGracefully()
    }
}

/// Reads the files of TLS periodically and on request.
private final class CertificateRenewal: Sendable {
    private let identity: ServerIdentity
    private let time: any TimeSource
    private let log: Logger

    init(_ identity: ServerIdentity, _ time: any TimeSource, _ log: Logger) {
        (self.identity, self.time, self.log) = (identity, time, log)
    }

    /// Repeats until the loop is shut down.
    func begin(on loop: any EventLoop) {
        look()
        let interval = TimeAmount.seconds(ServerIdentity.interval.milliseconds / 1_000)
        loop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { [weak self] _ in self?.look() }
    }

    func look() {
        identity.renew(at: time.now().wall, log)
    }
}

/// Carries a hub into the task that starts the service.
private final class HubBox: @unchecked Sendable {
    // Unchecked: set before the task exists, and taken out by that task alone.
    private var hub: Hub?

    init(_ hub: sending Hub) {
        self.hub = hub
    }

    func take() -> sending Hub {
        guard let taken = hub else { preconditionFailure("the hub was taken twice") }
        hub = nil
        nonisolated(unsafe) let result = taken
        return result
    }
}
