import HubServer
import SyncStore
import Synchronization

/// Databases in memory of short histories that are over, for the next ones. Their rows are removed before the next use, and the statements
/// that were prepared on them stay: SQLite needs 6 ms to prepare the statements of a hub and three agents, and less to run them in a short
/// history.
///
/// Whether a database was used before changes nothing in a history (`ReplayTests`). A database that a fault has replaced, and those of
/// broken histories, are not used again.
enum Shelf {
    /// Databases that are kept, enough for all lanes at once.
    private static let most = 64

    /// Something that one history at a time uses.
    private struct Left<Value>: @unchecked Sendable {
        let value: Value
    }

    private static let hubs = Mutex<[Left<Hub>]>([])
    private static let databases = Mutex<[Left<Database>]>([])

    static func takeHub() -> Hub? { hubs.withLock { $0.popLast() }?.value }
    static func takeDatabase() -> Database? { databases.withLock { $0.popLast() }?.value }

    fileprivate static func leave(_ hub: Hub) {
        let left = Left(value: hub)
        hubs.withLock { if $0.count < most { $0.append(left) } }
    }

    fileprivate static func leave(_ database: Database) {
        let left = Left(value: database)
        databases.withLock { if $0.count < most { $0.append(left) } }
    }
}

extension Simulation {
    /// Leaves the databases of a short history that ended well. It must not be used any more.
    func leaveDatabases() {
        guard scenario.isShort else { return }
        for agent in agents where agent.hasFirstDatabase {
            (agent.store, agent.engine) = (nil, nil)
            Shelf.leave(agent.database)
        }
        if hub.generation == 0 { Shelf.leave(hub.hub) }
    }
}
