import Agent
import NIOCore
import SyncCore
import SyncHTTP
import SyncLinux
import Synchronization

/// Reads the configuration again after SIGHUP, at the pace of ``ReloadPace``. A request during the start waits for its end: a reload
/// reports to the service manager that the agent is ready, and that must be true then.
final class Reloads: Sendable {
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
