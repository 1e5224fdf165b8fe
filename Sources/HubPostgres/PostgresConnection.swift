import CPostgres
import Glibc
import HubServer

/// One connection to a server, in libpq's pipeline mode (PostgreSQL 15, 34.5).
///
/// A push writes hundreds of rows, and a server is a round trip away. Statements that only change rows are therefore sent without waiting.
/// Their results are read with the next statement whose rows matter, or with the commit, and the first failure among them is thrown there.
/// The server skips everything after a failure up to that point, so nothing is based on a failed statement.
final class PostgresConnection {
    private let connection: OpaquePointer
    private let patience: PostgresPlace.Patience
    private var answerMilliseconds: Int
    private var statements: [String: Statement] = [:]
    /// Results that are still to come, in the order of the statements.
    private var awaited: [Awaited] = []
    /// The same of a round trip whose end was sent, and whose answers are read with the next one.
    private var unattended: [Awaited] = []
    /// Tag and row count of the last completed statement.
    private(set) var lastTag = ""
    private(set) var lastCount = 0
    /// Set by libpq, see ``isUnreplicated``.
    private let unreplicated: UnsafeMutablePointer<Bool>
    /// The server or the network path is lost; this connection cannot be used again.
    private(set) var isBroken = false
    /// Number of waits for the server.
    private(set) var roundTrips = 0
    /// The oldest plans that the server may still use for this session are from this moment.
    private var plannedAt = ContinuousClock.now

    /// `true` while a sent statement has no known outcome.
    var isWaiting: Bool { !awaited.isEmpty }

    /// `true` when a commit of this connection has ended without the standby that the server is told to wait for.
    var isUnreplicated: Bool { unreplicated.pointee }

    /// `true` when the server supports a time limit for waiting on a lock.
    private(set) var knowsLockTimeout = false

    private struct Statement {
        var name: String
        var isPrepared = false
    }

    private enum Awaited {
        case preparation(String)
        case statement(String)

        var sql: String {
            switch self {
            case .preparation(let sql), .statement(let sql): sql
            }
        }

        var isStatement: Bool {
            if case .statement = self { true } else { false }
        }
    }

    init(_ url: String, _ patience: PostgresPlace.Patience, doing: String) throws(DatabaseError) {
        self.patience = patience
        answerMilliseconds = patience.answerMilliseconds
        // Options before `dbname` yield to the URL, options after it do not.
        let options = [
            ("connect_timeout", "\(patience.connectSeconds)"), ("keepalives_idle", "10"), ("keepalives_interval", "5"),
            ("keepalives_count", "3"), ("tcp_user_timeout", "\(patience.answerMilliseconds)"),
            ("fallback_application_name", "agenthub"), ("dbname", url), ("client_encoding", "UTF8"),
        ]
        var keywords: [UnsafePointer<CChar>?] = options.map { UnsafePointer(strdup($0.0)) }
        var values: [UnsafePointer<CChar>?] = options.map { UnsafePointer(strdup($0.1)) }
        defer { for text in keywords + values { free(UnsafeMutablePointer(mutating: text)) } }
        keywords.append(nil)
        values.append(nil)
        guard let opened = PQconnectdbParams(keywords, values, 1) else {
            throw DatabaseError(.lost, doing: doing, detail: "out of memory")
        }
        connection = opened
        unreplicated = .allocate(capacity: 1)
        unreplicated.initialize(to: false)
        guard PQstatus(opened) == CONNECTION_OK else {
            throw DatabaseError(.lost, doing: doing, detail: Self.line(PQerrorMessage(opened)))
        }
        cpostgres_receive_notices(opened, unreplicated)
        try set("statement_timeout", patience.statementMilliseconds)
        knowsLockTimeout = try set("lock_timeout", patience.lockMilliseconds)
        try set("idle_in_transaction_session_timeout", patience.idleMilliseconds)
        // A planner without statistics may overestimate a statement of a group, which takes a millisecond; compiling it takes a hundred.
        try set("jit", "off")
        // The value for disks without a head that moves. With the default of 4 the planner takes sixteen rows at known places for dearer
        // than a walk through a small table, and that plan is in use while the table grows.
        try set("random_page_cost", "1.1")
        // Each statement has one good plan, whatever its values (`PostgresPlanTests`). Left to itself the server makes a plan for almost
        // each execution, which took half of its processor time where devices only read.
        try set("plan_cache_mode", "force_generic_plan")
        // Overrides the setting of server, database or role: no other form is read (``PostgresText/blob(_:)``).
        try set("bytea_output", "hex")
        guard PQenterPipelineMode(opened) == 1 else { throw broken(doing) }
    }

    deinit {
        PQfinish(connection)
        unreplicated.deallocate()
    }

    @discardableResult
    private func set(_ name: String, _ milliseconds: Int) throws(DatabaseError) -> Bool {
        try set(name, String(milliseconds))
    }

    /// Changes a setting of the session. Servers without it wait a little longer, or write bytes in another form, which fails where it is
    /// read; they can still be used.
    ///
    /// - Returns: `true` when the server knows the setting.
    @discardableResult
    private func set(_ name: String, _ value: String) throws(DatabaseError) -> Bool {
        let result = PQexec(connection, "SET \(name) = '\(value)'")
        defer { PQclear(result) }
        guard PQstatus(connection) == CONNECTION_OK else { throw broken("set \(name)") }
        return PQresultStatus(result) == PGRES_COMMAND_OK
    }

    var stalledMilliseconds: Int64 { Int64(patience.stalledMilliseconds) }

    /// Limits the time between two statements of the present transaction.
    var shortIdleTime: String { "SET LOCAL idle_in_transaction_session_timeout = \(patience.idleWithPushesMilliseconds)" }

    /// Lets the server plan all statements anew with the present sizes of the tables, when their plans are old
    /// (``PostgresPlace/Patience/plansMilliseconds``). It belongs behind BEGIN: before it, in one round trip, it would be the first query
    /// of the transaction, whose isolation could not be chosen any more.
    func renewPlans() throws(DatabaseError) {
        let now = ContinuousClock.now
        guard plannedAt.duration(to: now) >= .milliseconds(patience.plansMilliseconds) else { return }
        try send("DISCARD PLANS", [])
        plannedAt = now
    }

    /// Sets the server's time limits for a statement and for a lock, and the client's for an answer. A connection that does not get its
    /// limits back is not used again.
    func setTimeLimits(_ isLimited: Bool) throws(DatabaseError) {
        do throws(DatabaseError) {
            try send("SET statement_timeout = \(isLimited ? patience.statementMilliseconds : 0)", [])
            if knowsLockTimeout { try send("SET lock_timeout = \(isLimited ? patience.lockMilliseconds : 0)", []) }
            try finish()
        } catch {
            if isLimited { isBroken = true }
            throw error
        }
        answerMilliseconds = isLimited ? patience.answerMilliseconds : -1
    }

    // MARK: Sending

    /// Sends a statement without waiting for it.
    func send(_ sql: String, _ parameters: [PostgresParameter]) throws(DatabaseError) {
        guard !isBroken else { throw broken(sql) }
        let name = try prepared(sql)
        let sent = PostgresText.withParameters(parameters) {
            PQsendQueryPrepared(connection, name, Int32(parameters.count), $0, nil, nil, 0)
        }
        guard sent == 1 else { throw broken(sql) }
        awaited.append(.statement(sql))
    }

    /// Number of statements that were sent and whose outcome is not known yet.
    var sentCount: Int { awaited.count { $0.isStatement } }

    /// Hands everything that was sent over to the network.
    func flush() throws(DatabaseError) {
        guard !isBroken, PQflush(connection) == 0 else { throw broken("send to the database") }
    }

    /// Sends the text of a statement ahead of its first use.
    func prepare(_ sql: String) throws(DatabaseError) {
        guard !isBroken else { throw broken(sql) }
        _ = try prepared(sql)
    }

    /// Hands everything that was sent over to the network, and waits until the kernel takes some kilobytes more in one piece: a socket is
    /// writable while a third of its buffer is free (`sk_stream_is_writeable`; a Unix socket three quarters, `unix_writable`), and the
    /// buffer of a connection that has sent anything has 46 KB or more (`tcp_init_buffer_space`).
    func flushForPiece() throws(DatabaseError) {
        try flush()
        while true {
            var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN | POLLOUT), revents: 0)
            let ready = poll(&descriptor, 1, Int32(answerMilliseconds))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { throw silent() }
            // Answers are read meanwhile: a server that cannot send them reads nothing either.
            if descriptor.revents & Int16(POLLIN) != 0, PQconsumeInput(connection) != 1 { throw broken("receive from the database") }
            if descriptor.revents & Int16(POLLOUT) != 0 { return }
        }
    }

    private func prepared(_ sql: String) throws(DatabaseError) -> String {
        if let statement = statements[sql] { return statement.name }
        let name = "s\(statements.count)"
        guard PQsendPrepare(connection, name, PostgresText.numbered(sql), 0, nil) == 1 else { throw broken(sql) }
        statements[sql] = Statement(name: name)
        awaited.append(.preparation(sql))
        return name
    }

    // MARK: Receiving

    /// Waits for the results of all sent statements.
    ///
    /// - Parameters:
    ///   - count: Number of the last statements whose rows matter.
    ///   - body: Receives the index among those statements, and a row; it returns `false` to skip the further rows of that statement.
    /// - Throws: The first failure. The statements after it were not executed.
    func finish(reading count: Int = 0, _ body: (Int, PostgresRow) -> Bool = { _, _ in true }) throws(DatabaseError) {
        guard !isBroken, PQpipelineSync(connection) == 1 else { throw broken("send to the database") }
        roundTrips += 1
        let (waiting, earlier) = (awaited, unattended)
        awaited.removeAll(keepingCapacity: true)
        unattended = []
        var late: DatabaseError?
        if !earlier.isEmpty {
            do throws(DatabaseError) {
                try receive(earlier)
            } catch {
                if isBroken { throw error }
                late = error
            }
        }
        try receive(waiting, reading: count, body)
        if let late { throw late }
    }

    /// Lets the server execute what was sent, without waiting for it. A failure is thrown by the next ``finish(reading:_:)``.
    func finishUnattended() throws(DatabaseError) {
        guard unattended.isEmpty else { return try finish() }
        guard !isBroken, PQpipelineSync(connection) == 1 else { throw broken("send to the database") }
        (unattended, awaited) = (awaited, [])
    }

    /// Waits for the results of the statements of one round trip.
    private func receive(
        _ waiting: [Awaited], reading count: Int = 0, _ body: (Int, PostgresRow) -> Bool = { _, _ in true }
    ) throws(DatabaseError) {
        // The places of the statements that are read; preparations may stand between them.
        let read = waiting.indices.filter { waiting[$0].isStatement }.suffix(count)
        var index = 0
        var failure: DatabaseError?
        var isEnough = false
        while true {
            try waitForAnswer()
            guard let result = PQgetResult(connection) else {
                guard PQstatus(connection) == CONNECTION_OK else { throw broken("receive from the database") }
                index += 1
                isEnough = false
                continue
            }
            defer { PQclear(result) }
            switch PQresultStatus(result) {
            case PGRES_PIPELINE_SYNC:
                if let failure { throw failure }
                return
            case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
                guard index < waiting.count else { break }
                if case .preparation(let sql) = waiting[index] {
                    statements[sql]?.isPrepared = true
                    break
                }
                lastTag = String(cString: PQcmdStatus(result))
                lastCount = Int(String(cString: PQcmdTuples(result))) ?? 0
                guard let place = read.firstIndex(of: index), !isEnough, failure == nil else { break }
                for row in 0..<PQntuples(result) where !isEnough {
                    let fault = PostgresRow.Fault()
                    isEnough = !body(place - read.startIndex, PostgresRow(result: result, row: row, fault: fault))
                    guard let detail = fault.detail else { continue }
                    failure = DatabaseError(.other, doing: "read a row of: \(waiting[index].sql.prefix(60))", detail: detail)
                    isEnough = true
                }
            case PGRES_PIPELINE_ABORTED: forget(waiting, index)
            default:
                forget(waiting, index)
                if failure == nil { failure = self.failure(of: result, waiting, index) }
            }
        }
    }

    /// Forgets a statement whose preparation was skipped: the next use must prepare it.
    private func forget(_ waiting: [Awaited], _ index: Int) {
        if index < waiting.count, case .preparation(let sql) = waiting[index] { statements[sql] = nil }
    }

    private func waitForAnswer() throws(DatabaseError) {
        while PQisBusy(connection) == 1 {
            var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0)
            let ready = poll(&descriptor, 1, Int32(answerMilliseconds))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { throw silent() }
            guard PQconsumeInput(connection) == 1 else { throw broken("receive from the database") }
        }
    }

    // MARK: Failures

    private func silent() -> DatabaseError {
        isBroken = true
        return DatabaseError(.lost, doing: "wait for the database", detail: "no answer within \(answerMilliseconds) ms")
    }

    private func broken(_ doing: String) -> DatabaseError {
        isBroken = true
        return DatabaseError(.lost, doing: String(doing.prefix(60)), detail: Self.line(PQerrorMessage(connection)))
    }

    private func failure(of result: OpaquePointer, _ waiting: [Awaited], _ index: Int) -> DatabaseError {
        let state = PQresultErrorField(result, Int32(UInt8(ascii: "C"))).map { String(cString: $0) } ?? ""
        let message = PQresultErrorField(result, Int32(UInt8(ascii: "M"))).map { Self.line($0) } ?? Self.line(PQresultErrorMessage(result))
        var doing = "use the database"
        if index < waiting.count {
            switch waiting[index] {
            case .preparation(let sql), .statement(let sql): doing = String(sql.prefix(60))
            }
        }
        let isGone = PQstatus(connection) != CONNECTION_OK
        if isGone { isBroken = true }
        return DatabaseError(
            isGone ? .lost : SQLState.kind(of: state), doing: doing, detail: "\(message)\(state.isEmpty ? "" : " (\(state))")")
    }

    /// The first line of a message; the others are hints without new information.
    private static func line(_ text: UnsafePointer<CChar>?) -> String {
        guard let text else { return "no message" }
        return String(cString: text).split(separator: "\n").first.map(String.init) ?? "no message"
    }
}

/// A row of a result as text.
struct PostgresRow: DatabaseRow {
    fileprivate let result: OpaquePointer
    fileprivate let row: Int32
    fileprivate let fault: Fault

    /// The first malformed value. The value that was read in its place is not used: the statement fails.
    fileprivate final class Fault {
        var detail: String?
    }

    func isNull(_ column: Int32) -> Bool { PQgetisnull(result, row, column) == 1 }

    func int(_ column: Int32) -> Int64 {
        isNull(column) ? 0 : PostgresText.int(bytes(column)) ?? misread(column, "a whole number", instead: 0)
    }

    func text(_ column: Int32) -> String { PostgresText.text(bytes(column)) }

    func blob(_ column: Int32) -> [UInt8] {
        isNull(column)
            ? []
            : PostgresText.blob(bytes(column)) ?? misread(column, "bytes as \\x and hexadecimal digits (bytea_output = hex)", instead: [])
    }

    var count: Int32 { PQnfields(result) }

    private func misread<Value>(_ column: Int32, _ expected: String, instead: Value) -> Value {
        let name = PQfname(result, column).map { String(cString: $0) } ?? "\(column)"
        if fault.detail == nil {
            fault.detail = "column \(name): expected \(expected), and the server sent \(bytes(column).count) bytes of something else"
        }
        return instead
    }

    private func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
    }
}
