import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Synchronization

/// Hubs over one database of a server, each with a connection of its own.
struct ReplicaBench {
    let server: PostgresServer
    let url: String
    var schema: String { PostgresServer.schema(of: url) }

    init(_ server: PostgresServer? = nil) throws {
        self.server = try server ?? PostgresServer.shared.get()
        url = try self.server.newURL()
    }

    /// - Parameter name: The name of the schema, which is made anew.
    init(schema name: String) throws {
        server = try PostgresServer.shared.get()
        try server.query("DROP SCHEMA IF EXISTS \"\(name)\" CASCADE; CREATE SCHEMA \"\(name)\"")
        url = server.url(schema: "%22\(name)%22")
    }

    func hub(
        seed: UInt64 = 1, tokens: TokenBook? = nil, _ change: (inout PostgresPlace) -> Void = { _ in }
    ) throws -> HubBench {
        var place = try PostgresPlace.unhurried(url)
        change(&place)
        return try HubBench(tokens: tokens, seed: seed, place: .shared(place))
    }

    /// A session in the middle of a transaction that the test ends.
    func session(_ purpose: TransactionPurpose) throws -> any HubDatabase {
        // Opened for writing, it would change an earlier schema.
        let database = try PostgresPlace.unhurried(url).openForReading(mayLag: false)
        try database.begin(purpose)
        return database
    }
}

extension PostgresPlace {
    /// A place whose sessions may be silent in a transaction. A test acts between two statements of a hub, and the limits of the hub are
    /// times of the clock, which a busy machine uses up.
    static func unhurried(_ url: String) throws -> PostgresPlace {
        var place = try PostgresPlace(url)
        place.patience.idleMilliseconds = 0
        place.patience.idleWithPushesMilliseconds = 0
        return place
    }
}

/// Work on a thread of its own, which may block.
final class Worker<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, any Error>?>(nil)
    private let done = DispatchSemaphore(value: 0)

    init(_ body: @escaping @Sendable () throws -> Value) {
        let thread = Thread { [self] in
            let value = Result { try body() }
            result.withLock { $0 = value }
            done.signal()
        }
        thread.stackSize = 4 << 20
        thread.start()
    }

    /// Waits for its end.
    func join() throws -> Value {
        done.wait()
        done.signal()
        guard let result = result.withLock({ $0 }) else { throw PostgresServer.Failure(description: "it ended without a result") }
        return try result.get()
    }
}

extension PushResult.Verdict {
    var version: Int64? {
        if case .accepted(let version, _, _, _) = self { version } else { nil }
    }
}
