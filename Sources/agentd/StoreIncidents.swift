import Agent
import Logging
import NIOCore
import SyncLinux
import SyncStore
import SyncThreads
import Synchronization

/// Passes the incidents of the store on: to the files beside the database, to the run, and to the agent.
///
/// They come on the threads of the store.
struct StoreIncidents: Sendable {
    let state: StateDirectory
    let identity: IdentityFile
    let opener: DatabaseOpener
    let end: Promise<Void>
    let restart: RestartRequest
    let box: AgentBox
    let loop: any EventLoop
    let log: Logger

    func handle(_ incident: StoreWriter.Incident) {
        switch incident {
        case .usableAgain(let opening): opener.recordOpening(opening)
        case .restored:
            // Files beside the database may have been removed with it.
            do throws(LinuxError) {
                try state.holdAgain()
            } catch {
                log.error("the lock of the state folder could not be taken again", metadata: ["error": "\(error)"])
            }
            opener.writeAgain(in: identity)
        case .fatal(let error):
            opener.markDamage(error)
            restart.make()
            end.fulfil()
        case .commitFailed, .readFailed, .unusable, .wentOn: break
        }
        loop.execute { [box] in box.agent?.assumeIsolated { $0.handle(incident) } }
    }

    /// Handles damage that a read has found.
    func handle(damage: StoreError, of writer: StoreWriter) {
        if damage.isFailedRead { return writer.reopen(after: damage) }
        // A database that a newer or another program has written is not judged here.
        if case .open = opener.state { handle(.fatal(damage)) }
    }
}

/// Holds the agent, because the store's thread may call before the agent exists.
final class AgentBox: Sendable {
    private let content = Mutex<Agent?>(nil)

    var agent: Agent? { content.withLock { $0 } }

    func put(_ agent: Agent) { content.withLock { $0 = agent } }
}

/// The agent ends by itself only where a restart helps.
final class RestartRequest: Sendable {
    private let flag = Atomic(false)

    var isMade: Bool { flag.load(ordering: .acquiring) }

    func make() { flag.store(true, ordering: .releasing) }
}
