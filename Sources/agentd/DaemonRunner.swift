import Agent
import Glibc
import Logging
import NIOCore
import NIOPosix
import SyncHTTP
import SyncLinux
import SyncStore
import SyncThreads
import SyncYAML
import Synchronization

/// The inputs of one run.
struct DaemonStart {
    let loaded: LoadedConfiguration
    /// The main file of the configuration.
    let config: String
    let state: StateDirectory
    let log: Logger
    let notifier: ReadinessNotifier?

    var configuration: AgentConfiguration { loaded.configuration }
}

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
    private let opener: DatabaseOpener
    private let identity: IdentityFile
    /// The fault of the identity file.
    private let identityDamage: String?
    private let clock: ClockMonitor?
    private let crashes: CrashFile
    private let heartbeat: Heartbeat?
    private let end = Promise<Void>()
    private let restart = RestartRequest()

    init(_ start: DaemonStart) throws {
        (loaded, state, log, notifier) = (start.loaded, start.state, start.log, start.notifier)
        let machine = try Machine(start.configuration)
        log.info(
            "starting", metadata: ["version": "\(AgentVersion.current)", "device": "\(machine.device)", "seed": "\(machine.seed)"])

        group = try Self.makeLoops()
        let loop = group.next()
        executor = LoopExecutor(loop)
        transport = try CurlTransport()

        let known = Self.openIdentity(start)
        (identity, identityDamage) = (known.file, known.damage)
        opener = Self.makeOpener(start, machine, known.marker)
        let box = AgentBox()
        let incidents = StoreIncidents(
            state: state, identity: identity, opener: opener, end: end, restart: restart, box: box, loop: loop, log: log)
        (writer, reader) = try Self.makeStore(opener, incidents, loop)

        lastGood = LastGoodFiles(config: start.config)
        crashes = CrashFile(stateFolder: state.path)
        let count = Self.countStart(crashes, machine)
        let environment = Self.makeEnvironment(start, machine, transport, lastGood, count)
        agent = Agent(
            .init(configuration: loaded, device: machine.device, store: writer, reader: reader), environment: environment,
            executor: executor)
        box.put(agent)
        heartbeat = Heartbeat(notifier, executor: executor, store: writer)
        clock = Self.watchClock(box, loop, log)
        if case .open(let opening) = opener.state { keepIdentity(after: opening) }
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
            if case .damaged(let reason) = opener.state {
                // Before the API opens: no app may see an empty queue.
                executor.loop.execute { agent.assumeIsolated { $0.beginRecovery("\(reason)") } }
            }
            let endpoint = try Self.endpoint(loaded.configuration.socket)
            server = try executor.wait { [group] in try await agent.listen(on: endpoint, group: group) }
            let socket = loaded.configuration.socket
            executor.wait { await agent.keepFound(server, mode: socket.mode, group: socket.group?.id) }
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
        executor.loop.execute { agent.assumeIsolated { $0.endWork() } }
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
        switch opener.state {
        case .open(let found): opening = found
        case .damaged(let reason):
            opening = try opener.recover(writer, from: reason)
            keepIdentity(after: opening)
        case .resting(let error):
            executor.loop.execute {
                agent.assumeIsolated { agent in
                    if let refused { agent.reportLastGood(refused) }
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
                agent.publish(opening)
                if let identityDamage { agent.reportIdentityDamage(identityDamage) }
                if let refused { agent.reportLastGood(refused) }
                agent.start()
            }
        }
    }

    private func close() {
        clock?.stop()
        transport.close()
        reader.close()
        // The last acknowledged number is read before the end, and stored beside the database.
        if case .open = opener.state { keepIdentity() }
        do throws(StoreError) {
            try writer.close()
        } catch {
            log.error("the store was not closed cleanly", metadata: ["error": "\(error)"])
        }
        // The process ends next; the store is closed already, so the loop has no work left.
        try? group.syncShutdownGracefully()
        state.close()
    }

    /// Stores the identity if the stored one does not, or no longer, match this database.
    private func keepIdentity(after opening: StoreOpening) {
        guard !opener.hasMarker || identityDamage != nil || opening.isNew || opening.lostTail > 0 || opening.rescue != nil else { return }
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
            opener.recordMarker(marker)
            try identity.write(marker)
        } catch {
            log.error("the identity file was not written", metadata: ["error": "\(error)"])
        }
    }
}
