import CPostgres
package import HubServer

/// A PostgreSQL database, or one of an engine that speaks its protocol and its SQL, for any number of hubs at once.
package struct PostgresPlace: DatabasePlace {
    /// Names no password.
    package let description: String
    package let url: String

    /// How long one waits for what, so that nothing waits for ever.
    package struct Patience: Sendable {
        /// For one host to take the connection.
        package var connectSeconds = 5
        /// For the hub's row, while other replicas write: several commits of a busy server.
        package var lockMilliseconds = 5_000
        /// For one statement.
        package var statementMilliseconds = 15_000
        /// For the next statement of a transaction. A replica that was stopped, or whose machine is gone, must not keep the
        /// hub's row from the others: the server ends its connection then.
        package var idleMilliseconds = 10_000
        /// For any answer at all: above what the server itself ends.
        package var answerMilliseconds = 30_000

        package init() {}
    }

    package var patience = Patience()
    #if ABLATIONS
        /// For tests: `false` leaves the hub's row to whoever comes, to prove that the tests would notice.
        package var locksHub = true
    #endif

    /// - Parameter url: `postgres://user@host:5432/name?sslmode=verify-full`, as libpq reads it (PostgreSQL 15, 34.1.1.2).
    ///   Passwords belong into a file that `passfile=` names, or `PGPASSFILE`.
    /// - Throws: `.cannotOpen` when it does not read.
    package init(_ url: String) throws(HubError) {
        guard url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") else {
            throw HubError(.database, doing: "read the database's URL", detail: "expected postgres://user@host:port/name?…")
        }
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(url, &message) else {
            // libpq quotes what it does not understand, which may be the password.
            PQfreemem(message)
            throw HubError(
                .database, doing: "read the database's URL", detail: "it does not read; expected postgres://user@host:port/name?…")
        }
        defer { PQconninfoFree(options) }
        var values: [String: String] = [:]
        var next = options
        while let keyword = next.pointee.keyword {
            if let value = next.pointee.val { values[String(cString: keyword)] = String(cString: value) }
            next += 1
        }
        let host = (values["host"] ?? values["hostaddr"] ?? "") + (values["port"].map { ":\($0)" } ?? "")
        description = "postgres://\(host)/\(values["dbname"] ?? "")"
        hasPassword = values["password"] != nil
        self.url = url
    }

    /// The URL has a password in it, which everybody on this machine can read in the list of processes.
    package let hasPassword: Bool

    package func open() throws(DatabaseError) -> any Database {
        let database = PostgresDatabase(try connect())
        #if ABLATIONS
            database.locksHub = locksHub
        #endif
        try PostgresSchema.update(database)
        return database
    }

    package func openForReading() throws(DatabaseError) -> any Database {
        let database = PostgresDatabase(try connect())
        guard try PostgresSchema.present(database) != nil else {
            throw DatabaseError(.foreign, doing: "open \(description)", detail: "it is not the database of a hub")
        }
        return database
    }

    private func connect() throws(DatabaseError) -> PostgresConnection {
        try PostgresConnection(url, patience, doing: "open \(description)")
    }
}
