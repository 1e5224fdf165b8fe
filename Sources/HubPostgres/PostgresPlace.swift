import CPostgres
package import HubServer

/// A PostgreSQL database, for any number of hubs at once.
package struct PostgresPlace: HubDatabasePlace {
    /// Contains no password.
    package let description: String
    package let url: String

    /// Time limits, so that no wait lasts forever.
    package struct Patience: Sendable {
        /// For one host to accept the connection.
        package var connectSeconds = 5
        /// For the lock on the hub's row, while other replicas write: several commits of a busy server.
        package var lockMilliseconds = 5_000
        /// For one statement.
        package var statementMilliseconds = 15_000
        /// For the next statement of a transaction. A replica that was stopped, or whose machine is lost, must not keep the hub's row from
        /// the others: the server then ends its connection. That is before the others refuse pushes that wait (``WriteHold``), and after
        /// the longest work between two statements, to decide about 1,000 mutations.
        package var idleMilliseconds = 4_000
        /// The same for a transaction that has pushes and began with the lock, because decisions without it did not hold. The others wait
        /// for its end.
        package var idleWithPushesMilliseconds = 1_000
        /// For a session of this role that has the lock, to receive the rest of what it was sent. A hub that waits for the lock then ends
        /// it: the server itself has no limit there (``PostgresBurst``). That is before the first attempt of a push to write ends
        /// (`TransactionPurpose.busyMilliseconds`).
        package var stalledMilliseconds = 400
        /// For any answer: longer than the server's own limits.
        package var answerMilliseconds = 30_000
        /// For the plans of the statements. The server keeps them until it has new statistics, which may be minutes: a plan that was made
        /// over a small table with statistics walks through it, also when a fleet has filled it since. Planning all statements of a push
        /// anew takes some milliseconds.
        package var plansMilliseconds = 5_000

        package init() {}
    }

    package var patience = Patience()
    #if ABLATIONS
        /// For tests: a mistake in ``PostgresDatabase/commit(_:)``, to prove that the tests would detect it.
        package enum Ablation: Sendable {
            /// Commit numbers are taken before the lock.
            case numbersBeforeLock
            /// The rows on which the decision rests are not compared.
            case nothingCompared
        }

        package var ablation: Ablation?
    #endif

    /// - Parameter url: `postgres://user@host:5432/name?sslmode=verify-full`, as libpq reads it (PostgreSQL 15, 34.1.1.2). Passwords belong
    ///   in a file that `passfile=` names, or in `PGPASSFILE`.
    /// - Throws: `.database` when it is malformed.
    package init(_ url: String) throws(HubError) {
        guard url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") else {
            throw HubError(.database, doing: "read the database's URL", detail: "expected postgres://user@host:port/name?…")
        }
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(url, &message) else {
            // libpq quotes the part that it does not understand, which may be the password.
            PQfreemem(message)
            throw HubError(
                .database, doing: "read the database's URL",
                detail: "libpq cannot read it; expected postgres://user@host:port/name?…")
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

    /// `true` when the URL has a password in it, which every user of this machine can read in the list of processes.
    package let hasPassword: Bool

    package func open() throws(DatabaseError) -> any HubDatabase {
        let database = PostgresDatabase(try connect())
        #if ABLATIONS
            database.ablation = ablation
        #endif
        // The hub would answer nothing but 503 over a standby, and call itself ready.
        try refuseStandby(database)
        try PostgresSchema.update(database)
        return database
    }

    package func openForReading(mayLag: Bool) throws(DatabaseError) -> any HubDatabase {
        let database = PostgresDatabase(try connect())
        // A former leader is a standby again seconds after it has stepped down, and has commits that its successor lacks.
        if !mayLag { try refuseStandby(database) }
        guard try PostgresSchema.present(database) != nil else {
            throw DatabaseError(.foreign, doing: "open \(description)", detail: "it is not the database of a hub")
        }
        return database
    }

    /// A standby accepts connections, and reads.
    private func refuseStandby(_ database: PostgresDatabase) throws(DatabaseError) {
        guard try database.number("SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END") == 0 else {
            throw DatabaseError(.lost, doing: "open \(description)", detail: "the server is a standby")
        }
    }

    private func connect() throws(DatabaseError) -> PostgresConnection {
        try PostgresConnection(url, patience, doing: "open \(description)")
    }
}
