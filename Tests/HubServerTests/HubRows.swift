import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncSQLite

/// A database that outlives its hub, and a second way into its rows, past all code of the hub. Pages that it writes have their seals.
final class HubRows {
    let place: Hub.Place
    private let file: String?

    struct Failure: Error {
        var what: String
    }

    init(_ engine: Engine = .current) throws {
        switch engine {
        case .sqlite:
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("hub-\(UUID().uuidString).db").path
            self.file = file
            place = .file(file)
        case .postgres:
            file = nil
            place = try engine.newPlace()
        }
    }

    deinit {
        guard let file else { return }
        // Some of these files may not exist.
        for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file + end) }
    }

    /// The reader of an operator's command, past the hub that serves.
    func inspector() throws -> HubInspector {
        if let file { return try HubInspector(file: file) }
        guard case .shared(let shared as PostgresPlace) = place else { throw Failure(what: "no place") }
        return try HubInspector(shared)
    }

    /// Runs one statement that takes no values.
    func run(_ sql: String) throws {
        guard let file else {
            guard case .shared(let shared as PostgresPlace) = place else { throw Failure(what: "no place") }
            try PostgresServer.shared.get().query(sql, schema: PostgresServer.schema(of: shared.url))
            return
        }
        let connection = try SQLiteConnection(.writing(file))
        connection.wait(forLockMS: 5_000)
        try connection.execute(sql)
    }
}
