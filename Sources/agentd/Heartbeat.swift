import Agent
import NIOCore
import SyncCore
import SyncHTTP
import SyncLinux
import SyncStore

/// Feeds the service manager's watchdog (`WatchdogSec=`) from the event loop, as long as ``Pulse`` finds the agent healthy.
///
/// Everything runs on the loop, so a loop that hangs sends nothing.
final class Heartbeat: @unchecked Sendable {
    // Sendable because `pulse` and `timer` are touched on the loop only.
    private let notifier: ReadinessNotifier
    private let interval: Duration
    private let executor: LoopExecutor
    private let store: StoreWriter
    private var pulse = Pulse()
    private var timer: LoopTimer?

    /// - Returns: `nil` when there is no watchdog.
    init?(_ notifier: ReadinessNotifier?, executor: LoopExecutor, store: StoreWriter) {
        guard let notifier, let timeout = notifier.watchdogTimeout else { return nil }
        self.notifier = notifier
        // Two messages may be lost before the agent is killed.
        interval = timeout / 3
        self.executor = executor
        self.store = store
    }

    func start() {
        executor.loop.execute { self.beat() }
    }

    private func beat() {
        let now = SystemClocks().now().instant
        if pulse.ask(at: now) {
            store.run { _, _ throws(StoreError) in
            } completion: { _ in
                self.pulse.answered()
            }
        }
        // A lost beat is followed by the next; when none arrives, the service manager acts, as it should.
        if pulse.isWell(at: now) { try? notifier.send(.watchdog) }
        timer = executor.schedule(after: interval) { self.beat() }
    }
}
