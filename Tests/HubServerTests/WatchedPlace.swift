import Dispatch
import HubServer
import Synchronization

/// Databases whose connections are told apart. A transaction of a connection that reads can be held up.
final class WatchedPlace: HubDatabasePlace {
    private let inner: any HubDatabasePlace
    private let readersMax: Int
    private let readers = Atomic(0)
    private let transactions = Mutex<[Int]>([])
    let gate = Gate()

    /// - Parameter readersMax: Largest number of connections that read; no further one opens.
    init(_ inner: any HubDatabasePlace, readersMax: Int = .max) {
        (self.inner, self.readersMax) = (inner, readersMax)
    }

    var description: String { inner.description }

    /// The connections that have begun a transaction to read for devices, in its order: 1 is the one that was opened first.
    var begun: [Int] { transactions.withLock { $0 } }
    func forget() { transactions.withLock { $0 = [] } }

    func open() throws(DatabaseError) -> any HubDatabase { try inner.open() }

    func openForReading(mayLag: Bool) throws(DatabaseError) -> any HubDatabase {
        let number = readers.add(1, ordering: .relaxed).newValue
        guard number <= readersMax else { throw DatabaseError(.cannotOpen, doing: "open \(description)", detail: "a test wants it so") }
        return CountedDatabase(try inner.openForReading(mayLag: mayLag), WorkLog()) { [self] in
            transactions.withLock { $0.append(number) }
            gate.pass()
        }
    }

    /// Holds up one thread at most.
    final class Gate: Sendable {
        private enum State { case open, closed, reached, late }

        private let state = Mutex(State.open)
        private let opening = DispatchSemaphore(value: 0)
        /// After this time it opens by itself, so that a hub which holds up other requests as well fails a test and does not hang.
        private static let longest = DispatchTimeInterval.seconds(30)

        /// The next transaction is held up.
        func close() { state.withLock { $0 = .closed } }

        fileprivate func pass() {
            let isHeld = state.withLock { state in
                guard state == .closed else { return false }
                state = .reached
                return true
            }
            guard isHeld, opening.wait(timeout: .now() + Gate.longest) == .timedOut else { return }
            state.withLock { $0 = .late }
        }

        /// Waits until a transaction is held up, or ``giveUp()``.
        func reached() async {
            while state.withLock({ $0 == .closed }) { await Task.yield() }
        }

        /// The request that should be held up was answered.
        func giveUp() { state.withLock { if $0 == .closed { $0 = .open } } }

        /// - Returns: `false` when nothing was held up, or no longer.
        func open() -> Bool {
            defer { opening.signal() }
            return state.withLock { $0 == .reached }
        }
    }
}
