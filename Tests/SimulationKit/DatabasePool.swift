import HubServer
import SyncStore
import Synchronization

/// Databases in memory of histories and programs that are over, for the next ones. Their rows are removed before the next use, and the
/// statements that were prepared on them stay: SQLite needs 6 ms to prepare the statements of a hub and three agents, and less to run them
/// in a short history.
///
/// A database that was used before changes nothing in a history (`ReplayTests`). A database that a fault has replaced, and those of
/// broken histories, are not used again.
enum DatabasePool {
    /// Databases that are kept, enough for all lanes at once.
    private static let most = 64

    /// Something that one history at a time uses.
    private struct Used<Value>: @unchecked Sendable {
        let value: Value
    }

    private static let hubs = Mutex<[Used<Hub>]>([])
    private static let databases = Mutex<[Used<Database>]>([])

    static func takeHub() -> Hub? { hubs.withLock { $0.popLast() }?.value }
    static func takeDatabase() -> Database? { databases.withLock { $0.popLast() }?.value }

    static func put(_ hub: Hub) {
        let used = Used(value: hub)
        hubs.withLock { if $0.count < most { $0.append(used) } }
    }

    static func put(_ database: Database) {
        let used = Used(value: database)
        databases.withLock { if $0.count < most { $0.append(used) } }
    }
}

extension Simulation {
    /// Leaves the databases of a history that ended well. It must not be used any more.
    func leaveDatabases() {
        for agent in agents where agent.hasFirstDatabase {
            (agent.store, agent.engine) = (nil, nil)
            DatabasePool.put(agent.database)
        }
        if hub.generation == 0 { DatabasePool.put(hub.hub) }
    }
}
