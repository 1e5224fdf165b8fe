package import SyncStore
import Synchronization

/// The database of a new agent, in memory. Its tables are made once and then copied: making them would be most of the time of a test that
/// opens many stores.
package enum EmptyDatabase {
    private static let made = Mutex(Result { Made(database: try Database.empty()) })

    /// It is only read, and by one thread at a time.
    private struct Made: @unchecked Sendable {
        let database: Database
    }

    package static func copy() throws -> Database { try made.withLock { try $0.get().database.copy() } }
}
